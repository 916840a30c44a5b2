"""`skip_data`: files whose tensors have their places, and no bytes yet."""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType

__all__ = ["is_skipped", "skip_data"]

_skipped: ContextVar[bool] = ContextVar("flambeau_skip_data", default=False)


def is_skipped() -> bool:
    """Whether the thread is in a region of `skip_data`."""
    return _skipped.get()


class skip_data:
    """A region in which `save` with `format="pt"` leaves the bytes of tensors empty, to be written there later.

    `load` does not read them: what is loaded there has zeros. Where the bytes belong, the archive's directory says; they have no checksum.

    Args:
        materialize_fake_tensors: for PyTorch's sake; there are no fake tensors.

    >>> import flambeau as fl, io
    >>> file = io.BytesIO()
    >>> with fl.serialization.skip_data():
    ...     fl.save({"x": fl.ones(2)}, file, format="pt")
    >>> fl.load(io.BytesIO(file.getvalue()))
    {'x': tensor([0., 0.])}
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors
        self._before: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._before.append(_skipped.set(True))

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _skipped.reset(self._before.pop())
