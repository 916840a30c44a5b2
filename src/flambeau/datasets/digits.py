"""Digits: 1,797 handwritten digits of 8 x 8 pixels, inside the package.

Source: E. Alpaydin and C. Kaynak 1998, "Optical Recognition of Handwritten Digits", the test part,
UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licence CC BY 4.0
(https://creativecommons.org/licenses/by/4.0/). The pixels (0..16) are unchanged; only the
container is ours: digits.bin is zlib over 1,797 records of one label byte and 64 pixel bytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

from flambeau.datasets._pictures import Pictures
from flambeau.datasets.idx import DatasetError

_N = 1797
_RECORD_BYTES = 65
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.bin")


def _records() -> Any:
    import numpy as np

    try:
        with open(_FILE, "rb") as file:
            packed = file.read(1 << 20)
        inflater = zlib.decompressobj()
        raw = inflater.decompress(packed, _N * _RECORD_BYTES + 1)
    except zlib.error as error:
        raise DatasetError(f"{_FILE}: found damaged data ({error}); reinstall flambeau") from None
    if len(raw) != _N * _RECORD_BYTES:
        raise DatasetError(
            f"{_FILE}: found {len(raw)} bytes; expected {_N * _RECORD_BYTES}; reinstall flambeau"
        )
    return np.frombuffer(raw, dtype=np.uint8).reshape(_N, _RECORD_BYTES)


class Digits(Pictures):
    """1,198 digits for training or 599 held out, the same ones every time.

    Every third digit of the source is held out, so both parts have the same writers and classes. A
    sample is (float32 [1, 8, 8] scaled to 0..1, int label), passed through `transform` and
    `target_transform` if given; `data` is uint8 [N, 8, 8] of 0..16, `targets` int64 [N].

    >>> import flambeau as fl
    >>> digits = fl.datasets.Digits(train=False)
    >>> image, label = digits[0]
    >>> len(digits), image.shape, label
    (599, flambeau.Size([1, 8, 8]), 2)
    """

    classes = tuple(str(i) for i in range(10))
    _white = 16.0

    def __init__(
        self,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        import numpy as np

        records = _records()
        held_out = np.arange(_N) % 3 == 2
        mine = records[~held_out if train else held_out]
        pictures = np.ascontiguousarray(mine[:, 1:]).reshape(-1, 8, 8)
        super().__init__(pictures, mine[:, 0], train, transform, target_transform)
