"""`torch._tensor_str`: how tensors are printed, and what classes of packages that print themselves call."""

from __future__ import annotations

from typing import Any

from flambeau._print import _Formatter as _Form
from flambeau._print import _with_suffixes as _add_suffixes
from flambeau._print import tensor_text

__all__: list[str] = []
_private = (_add_suffixes,)


class _Formatter:
    """How one element of this tensor is written, by PyTorch's names: packages write numbers of their own so."""

    def __init__(self, tensor: Any) -> None:
        self._form = _Form(tensor.detach(), False)

    @property
    def floating_dtype(self) -> bool:
        """Whether the elements are floats."""
        return self._form.floating

    @property
    def int_mode(self) -> bool:
        """Whether all of them are whole."""
        return self._form.whole

    @property
    def sci_mode(self) -> bool:
        """Whether they are written with an exponent."""
        return self._form.scientific

    @property
    def max_width(self) -> int:
        """The characters of one."""
        return self._form.width

    def width(self) -> int:
        """The same, as a method."""
        return self._form.width

    def format(self, value: Any) -> str:
        """A number's text, with spaces before it up to the common width."""
        return self._form(value)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor, also where its class prints itself otherwise."""
    return tensor_text(self, tensor_contents)
