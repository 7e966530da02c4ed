"""How an application is spread over a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RayOptions(BaseModel):
    """What `build` is told; ``serve run`` passes each as ``NAME=VALUE``.

    Attributes:
        model: ``local:...`` runs in replicas of the cluster; any other name is called by the servers.
        engines: replicas of a local model at least.
        most_engines: replicas of a local model at most.
        concurrent_calls: calls that one of them runs side by side.
        gpus: of each of them; ``None``: one where the cluster has any, else none.
        cpus: of each of them.
        engine: further arguments of `LocalBackend`, as ``{"dtype": "bfloat16"}``.
        servers: replicas of the server at least.
        most_servers: replicas of the server at most.
        server_cpus: of each of them.
        concurrent_answers: answers that one server writes at a time.
        queue: requests that may wait at one server.
        drain_s: how long answers may go on when a replica is stopped.
        host: under which name the server is called. Without a key it answers to names of this machine only, unless
            this says otherwise; where Ray listens is said to Ray.
        keys: a file with the keys that are let in, on every machine.
        settings: settings of the servers, as ``{"shared": "redis://..."}``.
        upscale_s: a load must last so many seconds until a replica is added.
        downscale_s: and be gone for so many until one is stopped.
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
        """Ray's configuration for so many replicas, each meant to have so many requests at a time."""
        return {
            "min_replicas": least,
            "max_replicas": most,
            "target_ongoing_requests": max(1.0, ongoing),
            "metrics_interval_s": min(10.0, max(0.5, self.upscale_s / 3)),
            "look_back_period_s": min(30.0, max(1.0, self.upscale_s)),
            "upscale_delay_s": self.upscale_s,
            "downscale_delay_s": self.downscale_s,
        }
