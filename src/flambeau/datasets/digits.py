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

from flambeau import _C
from flambeau._C import Tensor
from flambeau.datasets.idx import DatasetError
from flambeau.utils.data.dataset import Dataset

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


class Digits(Dataset[Any]):
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
    data: Tensor
    targets: Tensor

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
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        self.data = _C.from_buffer(np.ascontiguousarray(mine[:, 1:]).reshape(-1, 8, 8))
        self.targets = _C.from_buffer(mine[:, 0].astype(np.int64))
        self._labels: list[int] = mine[:, 0].tolist()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = self.data[index].unsqueeze(0) / 16.0
        label: Any = self._labels[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label

    def __len__(self) -> int:
        return len(self._labels)
