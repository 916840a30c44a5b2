"""Whether convolutions are computed by fewer multiplications (Winograd's way) where that is faster, which is on by default.

It is for float32 and windows of 2 to 11 or so along one axis, two or three, also by a stride of 2, dilated and turned round, from and to 16
channels or more (32 with AVX-512). They take a third to two thirds of the time then.

Results differ from those of adding up as written by rounding: of 256 channels the greatest error is 2.5 times as large. It is relative to
the largest inputs of a tile of 6 x 6 positions: beside a pixel a million times as large as the others (a mark for missing data, say)
results that do not see it lose all but their first digit, and what would be exactly 0 may be some 1e-7 of the largest. Mask such pixels, or
switch it off. What is not finite gives what it gives there. The environment says no for a whole process by `FLAMBEAU_WINOGRAD=0`.

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015 (arXiv:1509.09308).
"""

import contextlib
from collections.abc import Iterator

from flambeau import _C

__all__ = ["flags", "is_available", "set_flags"]


def is_available() -> bool:
    """True.

    Examples:
        >>> import flambeau as fl
        >>> fl.backends.winograd.is_available()
        True
    """
    return True


def set_flags(_enabled: bool) -> tuple[bool]:
    """Switches it on or off for all threads; returns what was so before.

    Raises:
        TypeError: `_enabled` is not a bool.

    Examples:
        >>> import flambeau as fl
        >>> before = fl.backends.winograd.set_flags(False)
        >>> fl.backends.winograd.set_flags(*before)
        (False,)
    """
    if not isinstance(_enabled, bool):
        raise TypeError(f"winograd.set_flags takes a bool, not {_enabled!r}")
    before = (_C.get_winograd() != 0,)
    _C.set_winograd(int(_enabled))
    return before


@contextlib.contextmanager
def flags(enabled: bool = True) -> Iterator[None]:
    """The same for a block.

    Raises:
        TypeError: `enabled` is not a bool.

    Examples:
        >>> import flambeau as fl
        >>> with fl.backends.winograd.flags(enabled=False):
        ...     y = fl.nn.functional.conv2d(fl.ones(1, 32, 32, 32), fl.ones(32, 32, 3, 3))
        >>> y[0, 0, 0, 0].item()
        288.0
    """
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(*before)
