"""Which replica of a model a call goes to."""

from __future__ import annotations

import hashlib

from ray.serve.request_router import (
    FIFOMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)


class PrefixRouter(FIFOMixin, MultiplexMixin, RequestRouter):  # type: ignore[misc]  # Ray's classes are not typed here
    """Sends what begins alike to one replica, as long as that has a free slot, else to the one with the most room.

    The session of a call comes as its ``multiplexed_model_id``, which Ray hands on with the call. Each session ranks
    the replicas by a hash (rendezvous hashing), so when one comes or goes, only its own sessions move. Source: Thaler
    and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on Networking 6(1), 1998.
    (Ray's own `ConsistentHashRouter` is experimental; in 2.60 it lost calls when a replica died.)
    """

    def initialize_state(self) -> None:
        """There is none."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replica of the session, then all others; of several, Ray takes the one with the shortest queue."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True  # there are no further ranks to look at
        session = pending_request.metadata.multiplexed_model_id
        if not session or len(candidate_replicas) < 2:
            return [candidate_replicas]
        own = max(candidate_replicas, key=lambda replica: _weight(session, replica.replica_id.unique_id))
        return [[own], [replica for replica in candidate_replicas if replica is not own]]


def _weight(session: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{session} {replica}".encode(), digest_size=8).digest()
