"""Fashion-MNIST: 70,000 28 x 28 pictures of ten kinds of clothing.

Source: Xiao, Rasul, Vollgraf 2017, "Fashion-MNIST: a novel image dataset for benchmarking machine
learning algorithms" (MIT licence).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flambeau.datasets._pictures import Pictures
from flambeau.datasets.idx import DatasetError, read_idx

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


class FashionMNIST(Pictures):
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
    _white = 255.0

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
        pictures = np.array(images, dtype=np.uint8)  # writable, as the bytes that were read are not
        super().__init__(pictures, labels, train, transform, target_transform)
