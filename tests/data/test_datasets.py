"""Digits, FashionMNIST and the IDX reader."""

import gzip
import struct

import numpy as np
import pytest

import flambeau as fl
from flambeau.datasets import Digits, FashionMNIST, read_idx


def idx(array, magic=None):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) if magic is None else magic
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(">u1").tobytes()


def test_digits():
    train, test = Digits(train=True), Digits(train=False)
    assert (len(train), len(test)) == (1198, 599)
    image, label = train[0]
    assert image.shape == (1, 8, 8) and image.dtype == fl.float32 and label == 0
    assert 0 <= image.min().item() and image.max().item() <= 1
    assert train.data.dtype == fl.uint8 and train.data.max().item() == 16
    assert train.targets.dtype == fl.int64 and len(train.classes) == 10
    counts = np.bincount(test.targets.numpy())
    assert counts.min() > 45 and counts.sum() == 599
    changed = Digits(transform=lambda x: x * 2, target_transform=str)
    assert changed[3][1] == str(train[3][1])
    assert changed[3][0].max().item() == pytest.approx(2 * train[3][0].max().item())


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for prefix, n in (("train", 5), ("t10k", 3)):
        images = rng.integers(0, 256, (n, 28, 28))
        labels = np.arange(n)
        (tmp_path / f"{prefix}-images-idx3-ubyte").write_bytes(idx(images))
        (tmp_path / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return tmp_path


def test_fashion_mnist_reads_plain_and_gzip(folder):
    train = FashionMNIST(folder)
    test = FashionMNIST(folder, train=False)
    assert len(train) == 5 and len(test) == 3
    image, label = train[4]
    assert image.shape == (1, 28, 28) and image.dtype == fl.float32 and label == 4
    assert train.data.dtype == fl.uint8 and train.targets.tolist() == [0, 1, 2, 3, 4]
    assert train.classes[4] == "Coat"


def test_missing_files_say_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte.*dataset-fashion-mnist"):
        FashionMNIST(tmp_path)
    with pytest.raises(ValueError, match="nothing is downloaded"):
        FashionMNIST(tmp_path, download=True)


IMAGES = np.zeros((2, 28, 28), int)


@pytest.mark.parametrize(
    "content, text",
    [
        (b"", "found an empty file"),
        (b"\0\0", "found 2 bytes; expected an IDX header of 4"),
        (idx(IMAGES, b"\0\0\x08\x01"), "magic number 0x00000801; expected 0x00000803"),
        (b"PK\x03\x04" + bytes(100), "magic number 0x504b0304"),
        (idx(IMAGES)[:10], "found 6 bytes of sizes; expected 12"),
        (idx(IMAGES)[:-7], "found 1561 data bytes; expected 1568"),
        (idx(IMAGES) + b"x", "more than 1568 data bytes; expected 1568"),
        (idx(np.zeros((2, 28, 27), int)), r"sizes \[2, 28, 27\]; expected \['any', 28, 28\]"),
        (
            struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 28, 28),
            "found 0 data bytes; expected 3367254359",
        ),
        (gzip.compress(idx(IMAGES), mtime=0)[:-9], "damaged gzip data"),
        (gzip.compress(idx(IMAGES), mtime=0)[:20] + b"xxxxxxxxxxxx", "damaged gzip data"),
    ],
)
def test_damaged_files_say_what_was_found(tmp_path, content, text):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=text) as error:
        read_idx(path, (None, 28, 28))
    assert str(path) in str(error.value)


def test_labels_out_of_range_and_disagreeing_numbers(folder):
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.array([1, 2, 10])))
    with pytest.raises(ValueError, match="label 10; expected 0 to 9"):
        FashionMNIST(folder, train=False)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.array([1, 2])))
    with pytest.raises(ValueError, match=r"sizes \[3, 28, 28\]; expected \[2, 28, 28\]"):
        FashionMNIST(folder, train=False)
