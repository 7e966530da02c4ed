"""LangChain: a chat model whose answers are written in parallel, and runnables for answers and routes.

Importing this imports langchain-core, which comes with ``pip install 'stretto[langchain]'``.
"""

from stretto.values.errors import missing

try:
    import langchain_core  # noqa: F401 - only to report clearly what is missing
except ImportError as error:
    raise missing("stretto.integrations.langchain", "langchain-core", "langchain") from error

from stretto.integrations.langchain.chat_model import ChatStretto
from stretto.integrations.langchain.runnables import RouterRunnable, StrettoRunnable

__all__ = ["ChatStretto", "RouterRunnable", "StrettoRunnable"]
