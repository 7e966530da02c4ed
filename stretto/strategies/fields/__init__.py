"""``fields``: a record whose long fields are written side by side.

A JSON schema is an outline already, so no call plans the answer. `record_plan` reads it: one call writes the short
fields, and with their values each long text, list and object gets a call, with its part of the schema. `record_run`
starts them and lays out one JSON text in the order of the schema. A record that cannot be taken apart is answered by
`Direct`.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.values.request import Request
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.router.case import Case
    from stretto.router.offer import Offer
    from stretto.strategies.base import StrategyResult
    from stretto.strategies.runtime.runner import Runner


class Fields:
    """Short fields first, then one call for each long one."""

    name = "fields"

    def offer(self, case: Case) -> Offer | None:
        """Offer it where a record is asked for whose fields are long enough to be worth several calls."""
        from stretto.strategies.fields.record_offer import offer_fields  # noqa: PLC0415 - keeps `import stretto` light

        return offer_fields(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write the fields; straight where the record cannot be taken apart."""
        from stretto.strategies.fields.record_run import write_record  # noqa: PLC0415 - likewise

        return await write_record(request, route, runner)
