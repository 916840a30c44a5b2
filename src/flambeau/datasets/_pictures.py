"""What the data sets of pictures share: labelled pictures in memory, one sample at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.utils.data.dataset import Dataset


class Pictures(Dataset[Any]):
    """A sample is (float32 [1, H, W] scaled to 0..1, int label), passed through the transforms."""

    _white: float  # the largest value of a pixel
    data: Tensor
    targets: Tensor

    def __init__(
        self,
        pictures: Any,  # uint8 ndarray [N, H, W], contiguous
        labels: Any,  # ndarray [N] of int
        train: bool,
        transform: Callable[[Any], Any] | None,
        target_transform: Callable[[Any], Any] | None,
    ) -> None:
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        self.data = _C.from_buffer(pictures)
        self.targets = _C.from_buffer(labels.astype("int64"))
        self._labels: list[int] = labels.tolist()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = self.data[index].unsqueeze(0) / self._white
        label: Any = self._labels[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label

    def __len__(self) -> int:
        return len(self._labels)
