"""`torch.storage`: how PyTorch's own pickles keep the bytes of tensors."""

from __future__ import annotations

import io
from typing import Any

from flambeau import serialization

__all__: list[str] = []


def _load_from_bytes(b: bytes) -> Any:
    """The storage in a file that is a part of a pickle."""
    return serialization.load(io.BytesIO(b), weights_only=False)
