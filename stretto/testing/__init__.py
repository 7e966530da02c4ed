"""Tools for testing applications that use Stretto: scripted backends and servers, and a backend's contract."""

from stretto.testing.backend import Reply, ScriptedBackend
from stretto.testing.contract import BrokenContractError, check_backend

__all__ = ["BrokenContractError", "Reply", "ScriptedBackend", "check_backend"]
