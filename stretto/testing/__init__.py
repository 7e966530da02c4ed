"""For the tests of applications that use Stretto, and for its own: backends and servers that follow a script."""

from stretto.testing.backend import Reply, ScriptedBackend

__all__ = ["Reply", "ScriptedBackend"]
