"""The counters of all servers on one page: each replica has its own, and Ray shows a scraper one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

__all__ = ["Gathered"]


class Gathered(Collector):
    """What several servers have counted, each under the label ``replica``.

    They are not added up: a replica that ends would take its part away, and a counter must not fall.

    Args:
        texts: the counters in Prometheus' text form, by the name of the replica.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        """All of them, each name once."""
        found: dict[str, Metric] = {}
        for replica, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                if family.name.endswith("_created"):  # when a counter began; as a family it would clash with it
                    continue
                gathered = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                gathered.samples += [
                    sample._replace(labels=sample.labels | {"replica": replica}) for sample in family.samples
                ]
        return found.values()
