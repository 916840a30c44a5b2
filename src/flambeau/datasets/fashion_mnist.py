"""Fashion-MNIST: 70,000 28 x 28 pictures of ten kinds of clothing.

Source: Xiao, Rasul, Vollgraf 2017, "Fashion-MNIST: a novel image dataset for benchmarking machine
learning algorithms" (MIT licence).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.datasets.idx import DatasetError, read_idx
from flambeau.utils.data.dataset import Dataset

DEFAULT_FOLDER = "/usr/share/datasets/fashion-mnist"
_HOW = (
    "On Debian and Ubuntu: apt-get install dataset-fashion-mnist (into "
    f"{DEFAULT_FOLDER}); elsewhere put the four files of https://github.com/zalandoresearch/"
    "fashion-mnist into a folder and pass it as root"
)


def _find(root: str, name: str) -> str:
    tried = [
        os.path.join(root, sub, name + end)
        for sub in ("", os.path.join("FashionMNIST", "raw"))
        for end in ("", ".gz")
    ]
    for path in tried:
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"FashionMNIST: found no {name} or {name}.gz in {root}. {_HOW}")


class FashionMNIST(Dataset[Any]):
    """60,000 pictures for training or 10,000 for testing, read from IDX files in `root`.

    A sample is (float32 [1, 28, 28] scaled to 0..1, int label), passed through `transform` and
    `target_transform` if given; `data` is uint8 [N, 28, 28], `targets` int64 [N].

    Raises:
        FileNotFoundError: a file is missing; the text says how to get it.
        DatasetError: (a ValueError) a file is damaged or the numbers disagree.
    """

    classes = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
    data: Tensor
    targets: Tensor

    def __init__(
        self,
        root: Any = DEFAULT_FOLDER,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        import numpy as np

        root = os.fspath(root)
        if download:
            raise ValueError(
                f"FashionMNIST: download = True, but nothing is downloaded here. {_HOW}"
            )
        prefix = "train" if train else "t10k"
        image_path = _find(root, f"{prefix}-images-idx3-ubyte")
        label_path = _find(root, f"{prefix}-labels-idx1-ubyte")
        labels = read_idx(label_path, (None,))
        images = read_idx(image_path, (len(labels), 28, 28))
        if len(labels) and int(labels.max()) >= len(self.classes):
            raise DatasetError(f"{label_path}: found the label {labels.max()}; expected 0 to 9")
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        self.data = _C.from_buffer(np.array(images, dtype=np.uint8))
        self.targets = _C.from_buffer(labels.astype(np.int64))
        self._labels: list[int] = labels.tolist()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = self.data[index].unsqueeze(0) / 255.0
        label: Any = self._labels[index]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label

    def __len__(self) -> int:
        return len(self._labels)
