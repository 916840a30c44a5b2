"""Storages of buffers and of files by the class of their elements, and what they are converted to."""

from __future__ import annotations

import array
import struct

import numpy as np
import pytest

import flambeau as fl

KINDS = {
    "Float": "f", "Double": "d", "Half": "e", "Long": "q", "Int": "i", "Short": "h", "Char": "b", "Byte": "B",
}  # fmt: skip


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("kind", KINDS)
def test_elements_of_a_buffer(kind, order):
    made = struct.pack(f"{'<' if order == 'little' else '>'}4{KINDS[kind]}", 1, 2, 3, 4)
    cls = getattr(fl, f"{kind}Storage")
    storage = cls.from_buffer(made, order)
    assert isinstance(storage, cls) and storage.tolist() == [1, 2, 3, 4]
    width = storage.element_size()
    assert cls.from_buffer(made, order, count=2, offset=width).tolist() == [2, 3]
    assert cls.from_buffer(made, order, -1, len(made)).tolist() == []
    assert fl.TypedStorage.from_buffer(made, order, dtype=storage.dtype).tolist() == [1, 2, 3, 4]
    assert fl.UntypedStorage.from_buffer(made, order, dtype=storage.dtype).tolist() == list(struct.pack(f"=4{KINDS[kind]}", 1, 2, 3, 4))


def test_other_elements_of_a_buffer():
    assert fl.ComplexFloatStorage.from_buffer(struct.pack(">4f", 1, 2, 3, 4), "big").tolist() == [1 + 2j, 3 + 4j]
    assert fl.BoolStorage.from_buffer(bytes([0, 2, 1]), "native").tolist() == [False, True, True]
    assert fl.ByteStorage.from_buffer(b"abc").tolist() == fl.ByteStorage._from_buffer(b"abc").tolist() == [97, 98, 99]
    assert fl.ByteTensor(fl.ByteStorage.from_buffer(b"abc")).tolist() == [97, 98, 99]


def test_a_buffer_is_copied():
    numbers = array.array("d", [1.0, 2.0])
    storage = fl.DoubleStorage.from_buffer(numbers, "native")
    numbers[0] = 5.0
    storage[1] = 7.0
    assert storage.tolist() == [1.0, 7.0] and numbers.tolist() == [5.0, 2.0]


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ((b"\0" * 5, "native"), ValueError, "the buffer has 5 bytes after offset 0; expected a multiple of 4"),
    ((b"\0" * 8, "native", 3), ValueError, "count = 3, but the buffer has 2 elements of .*float32 after offset 0"),
    ((b"\0" * 8, "native", -1, 9), ValueError, "offset = 9, but the buffer has 8 bytes; expected 0 <= offset <= 8"),
    ((b"\0" * 8, "native", -1, -1), ValueError, "offset = -1"),
    ((b"\0" * 8, "middle"), ValueError, "byte_order = 'middle'; expected 'native', 'little' or 'big'"),
    ((b"\0" * 8,), RuntimeError, "byte_order = None for .*float32"),
    (("text", "native"), TypeError, "bytes-like"),
])  # fmt: skip
def test_buffers_that_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        fl.FloatStorage.from_buffer(*arguments)


def test_a_buffer_wants_a_type():
    with pytest.raises(RuntimeError, match="TypedStorage.from_buffer: dtype = None; expected the type of the elements"):
        fl.TypedStorage.from_buffer(b"abcd", "native")


def test_elements_of_a_file(tmp_path):
    path = tmp_path / "numbers.bin"
    np.arange(4, dtype=np.float32).tofile(path)
    shared = fl.FloatStorage.from_file(path, True, 3)
    assert shared.tolist() == [0, 1, 2] and shared.filename == str(path)
    fl.empty(0).set_(shared).add_(1)
    assert np.fromfile(path, np.float32).tolist() == [1, 2, 3, 3]
    private = fl.IntStorage.from_file(str(path), False, 2)
    private[0] = 9
    assert np.fromfile(path, np.float32)[0] == 1
    with pytest.raises(RuntimeError, match="has 16 bytes; expected at least nbytes = 80"):
        fl.DoubleStorage.from_file(path, False, 10)
    with pytest.raises(RuntimeError, match="expected a call of FloatStorage.from_file"):
        fl.TypedStorage.from_file(path, False, 2)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: fl.FloatStorage(dtype=fl.float32), RuntimeError, "FloatStorage: 'dtype' cannot be specified"),
        (lambda: fl.FloatStorage(device="cpu"), RuntimeError, "FloatStorage: 'device' cannot be specified"),
        (lambda: fl.FloatStorage(0, 0), RuntimeError, "Too many positional arguments: 2; expected at most one"),
        (lambda: fl.FloatStorage("text"), TypeError, "invalid data type 'str'; expected a number of elements, or a list"),
        (lambda: fl.FloatStorage(fl.ones(1)), TypeError, "Argument type not recognized: Tensor; expected"),
        (lambda: fl.FloatStorage(wrap_storage=fl.FloatStorage(1)), TypeError, "wrap_storage must be UntypedStorage, not TypedStorage"),
        (lambda: fl.FloatStorage(1, wrap_storage=fl.UntypedStorage(4)), RuntimeError, "No positional arguments should be given together with wrap_storage"),
        (lambda: fl.TypedStorage(wrap_storage=fl.UntypedStorage(4)), RuntimeError, "Argument 'dtype' must be specified together with wrap_storage"),
        (lambda: fl.TypedStorage(wrap_storage=fl.UntypedStorage(4), dtype=0), TypeError, "Argument 'dtype' must be torch.dtype, not int"),
        (lambda: fl.TypedStorage(wrap_storage=fl.UntypedStorage(4), dtype=fl.int8, device="cpu"), RuntimeError, "Argument 'device' should not be specified"),
    ],
)
def test_what_no_storage_is_made_of(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_bytes_are_numbers_where_they_are_converted():
    storage = fl.UntypedStorage([0, 1, 128])
    assert storage.float().tolist() == [0.0, 1.0, 128.0] and isinstance(storage.float(), fl.FloatStorage)
    assert storage.bool().tolist() == [False, True, True]
    assert storage.long().dtype is fl.int64 and storage.new().nbytes() == 0
    assert storage.type() == "flambeau.storage.UntypedStorage"
    with pytest.raises(TypeError, match=r"UntypedStorage.type: dtype = .*float32; expected None \(float\(\) and its kin"):
        storage.type(fl.float32)


def test_types_of_storages():
    storage = fl.FloatStorage([1.5, 2.0])
    for kind in ("torch.DoubleStorage", "DoubleStorage", fl.DoubleStorage, fl.float64):
        assert isinstance(storage.type(kind), fl.DoubleStorage) and storage.type(kind).tolist() == [1.5, 2.0]


def test_bytes_turned_around():
    storage = fl.tensor([1, 2], dtype=fl.int32).untyped_storage()
    storage.byteswap(fl.int32)
    assert storage.tolist() == [0, 0, 0, 1, 0, 0, 0, 2]
    pair = fl.tensor([1 + 2j], dtype=fl.complex64).untyped_storage()
    pair.byteswap(fl.complex64)
    assert bytes(pair.tolist()) == struct.pack(">2f", 1, 2)


@pytest.mark.parametrize("storage", [fl.UntypedStorage([1, 2]), fl.FloatStorage([1.0])], ids=["bytes", "floats"])
def test_where_storages_lie(storage):
    assert storage.to(device="cpu") is storage
    assert storage.get_device() == -1 and not (storage.is_cuda or storage.is_sparse or storage.is_pinned() or storage.resizable())
    with pytest.raises(RuntimeError, match="has no CUDA backend"):
        storage.cuda()
