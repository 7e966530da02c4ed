"""From files to text with pages and headings, and from text to chunks with exact offsets. Independent of models.

Private: not part of the public API, and may change at any time.
"""

from stretto.documents.chunks import Chunk, cut
from stretto.documents.limits import ReadingLimits, ReadingTime
from stretto.documents.reading import LeftOut, ReadFiles, read_bytes, read_document, read_documents

__all__ = [
    "Chunk",
    "LeftOut",
    "ReadFiles",
    "ReadingLimits",
    "ReadingTime",
    "cut",
    "read_bytes",
    "read_document",
    "read_documents",
]
