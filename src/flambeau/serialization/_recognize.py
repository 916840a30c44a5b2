"""Which format a file has, by its first bytes."""

from __future__ import annotations

from flambeau.serialization._errors import FileFormatError
from flambeau.serialization._source import Source
from flambeau.serialization._torch import is_stream

HEAD = 512


def format_of(source: Source) -> str:
    """safetensors, zip, stream, index, npy or gguf."""
    head = source.read(0, min(HEAD, source.size), "its head")
    if head[4:8] == bytes(4) and head[8:9] == b"{":  # a length of 8 bytes, and JSON
        return "safetensors"
    if head.startswith(b"PK\3\4") or head.startswith(b"PK\5\6"):
        return "zip"
    if is_stream(head):
        return "stream"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith((b"GGUF", b"FUGG")):
        return "gguf"
    if head[257:262] == b"ustar":
        raise FileFormatError(
            "is a tar archive, as PyTorch wrote them before 0.1.10; those are not read (load and save it again with PyTorch)"
        )
    if head[:1] == b"{" and bytes(1) not in head:
        return "index"
    return "safetensors"
