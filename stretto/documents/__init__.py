"""From files to text with pages and headings, from text to chunks with exact offsets. Knows no model."""

from stretto.documents.chunks import Chunk, cut
from stretto.documents.reading import LeftOut, Reading, read_document, read_documents

__all__ = ["Chunk", "LeftOut", "Reading", "cut", "read_document", "read_documents"]
