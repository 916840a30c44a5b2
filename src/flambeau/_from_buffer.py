"""Bytes of objects that Python knows as buffers (`bytes`, arrays, memory maps), copied and put in this machine's order: for storages."""

from __future__ import annotations

import sys
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._errors import RefusedTypeError


def copied(op: str, buffer: Any, byte_order: str | None, dtype: Any, count: int, offset: int) -> Tensor:
    """`count` elements of a buffer (all, for -1) from byte `offset` on, as a flat tensor of bytes of its own."""
    if not isinstance(dtype, _C.dtype):
        raise RefusedTypeError(f"{op}: dtype = {dtype!r}; expected the type of the elements")
    if byte_order is None and dtype not in (_C.uint8, _C.int8):
        raise RefusedTypeError(f"{op}: byte_order = None for {dtype}; expected 'native', 'little' or 'big'")
    if byte_order not in (None, "native", "little", "big"):
        raise ValueError(f"{op}: byte_order = {byte_order!r}; expected 'native', 'little' or 'big'")
    view = memoryview(buffer).cast("B")
    size = len(view)
    if not 0 <= offset <= size:
        raise ValueError(f"{op}: offset = {offset}, but the buffer has {size} bytes; expected 0 <= offset <= {size}")
    if count < 0 and (size - offset) % dtype.itemsize:
        given = f"the buffer has {size - offset} bytes after offset {offset}"
        raise ValueError(f"{op}: {given}; expected a multiple of {dtype.itemsize}, or a count")
    available = (size - offset) // dtype.itemsize
    wanted = available if count < 0 else count
    if wanted > available:
        raise ValueError(f"{op}: count = {count}, but the buffer has {available} elements of {dtype} after offset {offset}")
    flat = _C.from_buffer(view[offset : offset + wanted * dtype.itemsize]).clone()
    if byte_order not in (None, "native", sys.byteorder):
        swap(flat, dtype)
    return flat != 0 if dtype is _C.bool else flat


def swap(flat: Tensor, dtype: Any) -> None:
    """Turns the bytes of each number around, in place; of a complex one those of both parts."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    rows = flat[: flat.numel() // width * width].view(-1, width)
    rows.copy_(rows.flip(1))
