"""A forward that is watched."""


class Watched:
    """Calls a function in place of a forward; in all else it is that forward."""

    def __init__(self, forward, call):
        self._forward = forward
        self._call = call

    def __getattr__(self, name):
        return getattr(self._forward, name)

    def __call__(self, rows, cache, keep):
        return self._call(rows, cache, keep)
