"""How an application is spread over a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RayOptions(BaseModel):
    """The options of `build`; ``serve run`` passes each as ``NAME=VALUE``.

    Attributes:
        model: ``local:...`` runs in replicas of the cluster; any other name is called by the servers.
        engines: the minimum number of replicas of a local model.
        most_engines: the maximum number of replicas of a local model.
        concurrent_calls: calls that one of them runs concurrently.
        gpus: for each of them; ``None``: one if the cluster has any, else none.
        cpus: for each of them.
        engine: further arguments of `LocalBackend`, as ``{"dtype": "bfloat16"}``.
        servers: the minimum number of replicas of the server.
        most_servers: the maximum number of replicas of the server.
        server_cpus: for each of them.
        concurrent_answers: answers that one server writes at a time.
        queue: requests that can wait at one server.
        drain_s: how long answers may go on when a replica is stopped.
        host: the name under which the server is called. Without a key, it only answers to names of this machine unless
            this is set. Where Ray listens is configured in Ray.
        keys: a file with the keys to admit, on every machine.
        settings: settings of the servers, as ``{"shared": "redis://..."}``.
        upscale_s: how many seconds a load must last before a replica is added.
        downscale_s: how many seconds it must be gone before one is stopped.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "local:pocket"
    engines: int = Field(default=1, ge=1)
    most_engines: int = Field(default=1, ge=1)
    concurrent_calls: int = Field(default=16, ge=1, le=16)
    gpus: float | None = Field(default=None, ge=0)
    cpus: float = Field(default=1, ge=0)
    engine: dict[str, Any] = Field(default_factory=dict)
    servers: int = Field(default=1, ge=1)
    most_servers: int = Field(default=1, ge=1)
    server_cpus: float = Field(default=1, ge=0)
    concurrent_answers: int = Field(default=128, ge=1)
    queue: int = Field(default=512, ge=0)
    drain_s: float = Field(default=20, ge=0)
    host: str = "127.0.0.1"
    keys: Path | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    upscale_s: float = Field(default=30, ge=0)
    downscale_s: float = Field(default=600, ge=0)

    @property
    def is_local(self) -> bool:
        """Whether the model runs in replicas of the cluster."""
        return self.model.startswith("local:")

    @model_validator(mode="after")
    def _most_is_not_less(self) -> Self:
        for least, most in (("engines", "most_engines"), ("servers", "most_servers")):
            if getattr(self, most) < getattr(self, least):
                if most in self.model_fields_set:
                    raise ValueError(f"{most}={getattr(self, most)} is less than {least}={getattr(self, least)}")
                object.__setattr__(self, most, getattr(self, least))
        return self

    def scaling(self, least: int, most: int, ongoing: float) -> dict[str, Any]:
        """Return Ray's configuration for a range of replicas, each meant to run ``ongoing`` requests at a time."""
        return {
            "min_replicas": least,
            "max_replicas": most,
            "target_ongoing_requests": max(1.0, ongoing),
            "metrics_interval_s": min(10.0, max(0.5, self.upscale_s / 3)),
            "look_back_period_s": min(30.0, max(1.0, self.upscale_s)),
            "upscale_delay_s": self.upscale_s,
            "downscale_delay_s": self.downscale_s,
        }
