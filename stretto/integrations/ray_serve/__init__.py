"""Ray Serve: the server as one deployment of a cluster, and models of its machines as replicas behind it.

Importing this imports Ray, which comes with ``pip install 'stretto[ray]'``.
"""

from stretto.errors import MissingDependencyError

try:
    import ray.serve  # noqa: F401 - only to say clearly what is missing
except ImportError as error:
    raise MissingDependencyError(
        f"stretto.integrations.ray_serve needs {error.name}, which is not installed. "
        "Run: pip install 'stretto[ray,server]', and 'stretto[local]' for models in the cluster."
    ) from error

from stretto.integrations.ray_serve.application import build
from stretto.integrations.ray_serve.backend import RayBackend
from stretto.integrations.ray_serve.options import RayOptions

__all__ = ["RayBackend", "RayOptions", "build"]
