"""One model over several processes, each with a part of its weights and of its key-value cache."""

from __future__ import annotations
