"""Small datasets for examples and tests: `Digits` comes with the package, `FashionMNIST` is read
from a folder. Nothing here downloads anything."""

from flambeau.datasets.digits import Digits
from flambeau.datasets.fashion_mnist import FashionMNIST
from flambeau.datasets.idx import read_idx

__all__ = ["Digits", "FashionMNIST", "read_idx"]
