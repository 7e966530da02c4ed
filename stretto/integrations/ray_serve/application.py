"""The application: the server of `stretto serve` as the ingress, and replicas of a local model."""

import hashlib

# No `from __future__ import annotations`: `serve run` reads the annotation of `build` to parse its arguments.
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import ray
from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from ray import serve
from ray.serve.handle import DeploymentHandle
from ray.serve.request_router import (
    FIFOMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)
from starlette.applications import Starlette

from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.client.async_client import AsyncStretto
from stretto.config.settings import Settings
from stretto.integrations.ray_serve.cluster_options import RayOptions
from stretto.integrations.ray_serve.engine import Engine
from stretto.integrations.ray_serve.ray_backend import RayBackend
from stretto.server.app import create_app
from stretto.server.metrics import Metrics
from stretto.server.running import risk
from stretto.server.server_options import ServerOptions

log = logging.getLogger("stretto.server")
_COUNTING_S = 5.0  # a scraper waits for ten seconds


class Gathered(Collector):
    """The metrics of multiple servers, each under the label ``replica``.

    They are not added up: a replica that ends would take its part away, and a counter must not decrease.

    Args:
        texts: the metrics in Prometheus' text format, by replica name.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        """Return all metrics, each name once."""
        found: dict[str, Metric] = {}
        for replica, text in self._texts.items():
            for family in text_string_to_metric_families(text):
                if family.name.endswith("_created"):  # when a counter was created; as a family it would clash with it
                    continue
                gathered = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                gathered.samples += [
                    sample._replace(labels=sample.labels | {"replica": replica}) for sample in family.samples
                ]
        return found.values()


@serve.ingress()  # without an application: it is made in the replica, which has its keys and its client
class Server:
    """A replica of the server, with the routes of `stretto serve`.

    Args:
        options: the options of the application.
        engines: the deployment of the local model; ``None`` if the model is called by name.
    """

    def __init__(self, options: RayOptions, engines: DeploymentHandle[Any] | None = None) -> None:
        self._options = options
        self._engines = engines
        self._client: AsyncStretto | None = None
        self._metrics: Metrics | None = None

    async def __serve_build_asgi_app__(self) -> Starlette:
        """Make the application; Ray sends requests to this replica afterwards."""
        options = self._options
        settings = Settings.load(**options.settings)
        if self._engines is None:
            self._client = AsyncStretto(options.model, settings=settings)
        else:
            backend = await RayBackend.of(self._engines, options.model, options.concurrent_calls)
            policy = Resilience(
                attempts=settings.attempts,
                concurrent_calls=settings.concurrent_calls,
                stall_s=settings.stall_s,
                first_text_s=settings.first_text_s,
            )
            self._client = AsyncStretto(resilient(backend, policy), settings=settings)
        served = ServerOptions(
            host=options.host,
            keys=options.keys,
            concurrent_answers=options.concurrent_answers,
            queue=options.queue,
            drain_s=options.drain_s,
        )
        app = create_app(self._client, served)
        if warning := risk(served, app.state.service):
            log.warning("%s", warning)
        self._metrics = app.state.service.metrics
        self._metrics.gather = self._gathered
        await app.state.service.prepare()
        return app

    async def counted(self) -> tuple[str, str]:
        """Return the name of this replica, and its metrics in Prometheus' text format."""
        name = serve.get_replica_context().replica_id.unique_id
        return name, "" if self._metrics is None else generate_latest(self._metrics.registry).decode()

    async def _gathered(self) -> Gathered:
        here = serve.get_replica_context()
        servers: DeploymentHandle[Any] = serve.get_deployment_handle(here.deployment, here.app_name)
        replies = servers.broadcast("counted")
        try:
            found = await replies.results_async(timeout_s=_COUNTING_S, return_exceptions=True)
        except TimeoutError:  # if one hangs, Ray returns none
            found = []
        others = [each for each in found if not isinstance(each, BaseException)]  # one might be shutting down
        return Gathered(dict([*others, await self.counted()]))

    async def __del__(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def build(options: RayOptions) -> serve.Application:
    """Build the app for ``serve.run(build(RayOptions(...)))`` or ``serve run stretto.integrations.ray_serve:build``.

    The servers and the replicas of a local model scale with their load. Prompts with a common beginning, such as the
    turns of a conversation, go to the replica that has read it, as long as that has a free slot.
    """
    settings = {"concurrent_calls": min(500, 4 * options.concurrent_answers)} | options.settings
    options = options.model_copy(update={"settings": settings})
    scaling = options.scaling(options.servers, options.most_servers, options.concurrent_answers / 2)
    server = serve.deployment(
        name="server",
        max_ongoing_requests=options.concurrent_answers + options.queue,
        autoscaling_config=scaling,
        graceful_shutdown_timeout_s=options.drain_s,
        ray_actor_options={"num_cpus": options.server_cpus},
    )(Server)
    return server.bind(options, _engines(options) if options.is_local else None)


def _engines(options: RayOptions) -> serve.Application:
    gpus = options.gpus
    if gpus is None:
        gpus = 1 if ray.is_initialized() and ray.cluster_resources().get("GPU", 0) >= 1 else 0
    engine = serve.deployment(
        name="engine",
        max_ongoing_requests=options.concurrent_calls,
        autoscaling_config=options.scaling(options.engines, options.most_engines, options.concurrent_calls / 2),
        graceful_shutdown_timeout_s=options.drain_s,
        ray_actor_options={"num_cpus": options.cpus, "num_gpus": gpus},
        request_router_config={"request_router_class": PrefixRouter},
    )(Engine)
    return engine.bind(options.model, options.engine)


class PrefixRouter(FIFOMixin, MultiplexMixin, RequestRouter):  # type: ignore[misc]  # Ray's classes are not typed here
    """A router that sends prompts with a common beginning to one replica if it has a free slot, else to the least busy.

    A call's session is its ``multiplexed_model_id``, which Ray passes on with the call. Each session ranks the replicas
    by a hash (rendezvous hashing), so when a replica is added or removed, only its own sessions move. Source: Thaler
    and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on Networking 6(1), 1998.
    (Ray's own `ConsistentHashRouter` is experimental; in 2.60 it lost calls when a replica died.)
    """

    def initialize_state(self) -> None:
        """Do nothing: there is no state."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the session's replica, then all others; among several, Ray takes the one with the shortest queue."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True  # there are no further ranks to try
        session = pending_request.metadata.multiplexed_model_id
        if not session or len(candidate_replicas) < 2:
            return [candidate_replicas]
        own = max(candidate_replicas, key=lambda replica: _weight(session, replica.replica_id.unique_id))
        return [[own], [replica for replica in candidate_replicas if replica is not own]]


def _weight(session: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{session} {replica}".encode(), digest_size=8).digest()
