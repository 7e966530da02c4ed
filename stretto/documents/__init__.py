"""From files to text with pages and headings, from text to chunks with exact offsets. Knows no model.

Private: not part of the public API, and may change at any time.
"""

from stretto.documents.chunks import Chunk, cut
from stretto.documents.limits import Allowance, ReadingLimits
from stretto.documents.reading import LeftOut, Reading, read_bytes, read_document, read_documents

__all__ = [
    "Allowance",
    "Chunk",
    "LeftOut",
    "Reading",
    "ReadingLimits",
    "cut",
    "read_bytes",
    "read_document",
    "read_documents",
]
