"""Puts what other tests are helped by on the path: a terminal, and a reader of documents."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("cli", "document")]
