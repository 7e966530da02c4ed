"""Ray Serve: the server as a deployment of a cluster, with local models as its replicas.

Importing this imports Ray, which comes with ``pip install 'stretto[ray]'``.
"""

from stretto.values.errors import missing

try:
    import ray.serve  # noqa: F401 - only to report clearly what is missing
except ImportError as error:
    more = ", and 'stretto[local]' for models in the cluster."
    raise missing("stretto.integrations.ray_serve", str(error.name), "ray", more) from error

from stretto.integrations.ray_serve.application import build
from stretto.integrations.ray_serve.cluster_options import RayOptions
from stretto.integrations.ray_serve.ray_backend import RayBackend

__all__ = ["RayBackend", "RayOptions", "build"]
