"""Stretto for every client of OpenAI's and Anthropic's APIs: ``stretto serve``, or `create_app` in an application."""

from stretto.server.app import create_app
from stretto.server.options import ServerOptions

__all__ = ["ServerOptions", "create_app"]
