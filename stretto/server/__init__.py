"""Stretto for every client of OpenAI's and Anthropic's APIs: ``stretto serve``, or `create_app` in an application.

Importing this imports starlette, which comes with ``pip install 'stretto[server]'``.
"""

from stretto.values.errors import missing

try:
    import prometheus_client  # noqa: F401 - only to report clearly what is missing
    import starlette  # noqa: F401
except ImportError as error:
    raise missing("stretto.server", str(error.name), "server") from error

from stretto.server.app import create_app
from stretto.server.server_options import ServerOptions

__all__ = ["ServerOptions", "create_app"]
