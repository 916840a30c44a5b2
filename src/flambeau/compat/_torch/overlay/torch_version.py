"""`torch.__version__`: the version whose surface is followed, which compares with texts, tuples and versions."""

from __future__ import annotations

import re
from typing import Any

from flambeau.compat._torch.names import FOLLOWS

__all__ = ["TorchVersion"]


def _numbers(version: Any) -> tuple[int, ...]:
    if isinstance(version, (tuple, list)):
        return tuple(int(part) for part in version)
    release = re.match(r"v?(\d+(?:\.\d+)*)", str(version).strip())
    if release is None:
        raise ValueError(f"TorchVersion: {version!r} is no version; expected one as '2.1.0', or a tuple of numbers")
    numbers = tuple(int(part) for part in release[1].split("."))
    return numbers + (0,) * (3 - len(numbers))


class TorchVersion(str):
    """A text that compares as a version does: `torch.__version__ >= "2.1"`, `torch.__version__ >= (2, 1)`.

    What follows the release (`+flambeau`, `rc1`) is not compared.
    """

    def __lt__(self, other: Any) -> bool:
        return _numbers(str(self)) < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _numbers(str(self)) <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _numbers(str(self)) > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _numbers(str(self)) >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            mine, theirs = _numbers(str(self)), _numbers(other)
        except (TypeError, ValueError):
            return False
        return mine[: len(theirs)] == theirs if isinstance(other, tuple) else mine == theirs

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


__version__ = TorchVersion(FOLLOWS)
