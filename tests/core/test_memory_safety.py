"""No tensor reaches past its memory, no size wraps, and nothing recurses over the length of what it is given."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import flambeau as fl

C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, STRIDES, ND, SIMPLE = 0x38, 0x58, 0x98, 0x18, 0x08, 0x00


# ---------------------------------------------------------------- reach


@pytest.mark.parametrize("share", [fl.from_numpy, fl.from_dlpack], ids=["from_numpy", "from_dlpack"])
@pytest.mark.parametrize("shape", [(0, 500_000_000), (500_000_000, 0), (3, 0, 4)])
def test_an_empty_array_lends_no_memory(share, shape):
    with pytest.raises(fl.ShapeError, match="the storage has 0"):
        share(np.empty(shape, dtype=np.uint8)).as_strided((1,), (1,))


@pytest.mark.parametrize("share", [fl.from_numpy, fl.from_dlpack], ids=["from_numpy", "from_dlpack"])
def test_an_array_lends_from_its_first_element_to_its_last(share):
    x = share(np.arange(12.0).reshape(3, 4)[:, 1:3])
    assert x.as_strided((10,), (1,)).tolist() == list(range(1, 11))
    with pytest.raises(fl.ShapeError, match="reach element 10, but the storage has 10"):
        x.as_strided((11,), (1,))


@pytest.mark.parametrize(
    "size, stride, offset",
    [((7,), (1,), 0), ((2,), (6,), 0), ((1,), (1,), 6), ((2**62,), (2**62,), 0), ((2, 2**31), (2**31, 2**31), 0), ((1,), (1,), 2**63 - 1), ((6,), (1,), -1)],
)
def test_a_view_stays_inside_of_the_storage(size, stride, offset):
    with pytest.raises(fl.ShapeError, match="as_strided"):
        fl.zeros(6).as_strided(size, stride, offset)


def test_an_axis_of_one_leads_nowhere():
    assert fl.arange(6).as_strided((1, 2), (2**62, 3)).tolist() == [[0, 3]]


@pytest.mark.parametrize("size", [(2**62, 4, 0), (0, 2**31, 2**31), (2**60, 0), (0, 2**63 - 1)])
@pytest.mark.parametrize(
    "make",
    [lambda s: fl.empty(s), lambda s: fl.ones(1).new_full(s, 1.0), lambda s: fl.empty(s, device="meta"), lambda s: fl.zeros(0).resize_(s),
     lambda s: fl.zeros(0).as_strided(s, (1,) * len(s)), lambda s: fl.zeros((1,) * (len(s) - 1) + (0,)).expand(s)],
    ids=["empty", "new_full", "meta", "resize_", "as_strided", "expand"],
)  # fmt: skip
def test_sizes_that_overflow_beside_a_zero_are_refused(make, size):
    with pytest.raises(ValueError, match="more elements than memory can address|expected|expanded size"):
        make(size)


def test_resize_to_too_many_axes_leaves_the_tensor_alone():
    x = fl.arange(3)
    with pytest.raises(fl.ShapeError, match="at most 64"):
        x.resize_([1] * 65)
    assert x.tolist() == [0, 1, 2]


# ---------------------------------------------------------------- sums and products of sizes


def meta(*size):
    return fl.empty(size, device="meta")


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.cat([meta(2**58)] * 64),
        lambda: fl.cat([meta(2**58, 0)] * 64),
        lambda: fl.stack([meta(2**58)] * 4),
        lambda: meta(2**40).repeat(2**40),
        lambda: meta(2**40, 0).repeat(2**40, 1),
        lambda: fl.outer(meta(2**40), meta(2**40)),
        lambda: meta(2**40, 1) + meta(1, 2**40),
        lambda: meta(2**30, 1).expand(2**30, 2**30),
        lambda: fl.nn.functional.pad(meta(2**58), (2**62, 2**62)),
        lambda: fl.nn.functional.conv_transpose1d(meta(1, 1, 2**40), meta(1, 1, 3), stride=2**31 - 1),
        lambda: fl.nn.functional.one_hot(fl.zeros(4, dtype=fl.int64), 2**62),
        lambda: fl.ones(1).expand(2**40).unfold(0, 2**39, 1),
    ],
    ids=["cat", "cat of none", "stack", "repeat", "repeat of none", "outer", "broadcast", "expand", "pad", "conv_transpose1d", "one_hot", "unfold"],
)
def test_sizes_past_64_bits_are_refused(call):
    with pytest.raises(ValueError, match="more elements than memory can address|past what memory can address"):
        call()


# ---------------------------------------------------------------- no elements, many lines


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "softmax", "argsort"])
@pytest.mark.parametrize(("shape", "dim"), [((2**32, 0, 2), 0), ((2**40, 0), 1), ((3, 0, 2**31, 3, 64), 1), ((2**40, 0), 0)])
def test_an_empty_tensor_has_no_lines(name, shape, dim):
    """Neither 2**32 places that are not there, nor 2**40 lines of none."""
    y = getattr(fl, name)(fl.empty(shape), dim=dim)
    assert (y if isinstance(y, fl.Tensor) else y[0]).shape == shape


def test_repeats_of_a_scalar_on_meta():
    y = fl.repeat_interleave(meta(), fl.tensor([3]))
    assert y.is_meta and y.shape == (3,)
    assert fl.repeat_interleave(fl.ones(1).expand(2**40)[:0], fl.tensor([2**62])).shape == (0,)


# ---------------------------------------------------------------- buffers


class Buffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]  # fmt: skip


def request(x, flags):
    """The bytes that a consumer gets who asks for one order and reads from end to end."""
    view = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(view), flags)
    try:
        return ctypes.string_at(view.buf, view.len)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


ROWS = fl.arange(6, dtype=fl.uint8).reshape(2, 3)
COLUMNS = fl.arange(6, dtype=fl.uint8).reshape(3, 2).t()
GAPS = fl.arange(12, dtype=fl.uint8).reshape(2, 6)[:, ::2]


@pytest.mark.parametrize("flags", [C_CONTIGUOUS, ND, SIMPLE])
@pytest.mark.parametrize("x", [COLUMNS, GAPS], ids=["transposed", "with gaps"])
def test_a_request_for_rows_is_refused_where_the_memory_is_no_rows(x, flags):
    with pytest.raises(BufferError, match="contiguous"):
        request(x, flags)


@pytest.mark.parametrize("x, flags", [(ROWS, F_CONTIGUOUS), (GAPS, F_CONTIGUOUS), (GAPS, ANY_CONTIGUOUS)])
def test_a_request_for_columns_or_either_is_refused_where_it_is_neither(x, flags):
    with pytest.raises(BufferError, match="contiguous"):
        request(x, flags)


@pytest.mark.parametrize("x, flags", [(ROWS, C_CONTIGUOUS), (ROWS, ANY_CONTIGUOUS), (COLUMNS, F_CONTIGUOUS), (COLUMNS, ANY_CONTIGUOUS)])
def test_a_request_for_the_order_that_it_has_is_granted(x, flags):
    assert request(x, flags) == bytes(range(6))


# ---------------------------------------------------------------- lists, and data that contains itself


def test_a_list_of_more_than_memory_is_a_memory_error():
    with pytest.raises(MemoryError):
        fl.ones(1).expand(2**58).tolist()


class Itself:
    def __array__(self, *args, **kwargs):
        return self


def test_an_array_that_is_none_is_refused():
    with pytest.raises(TypeError, match="__array__ of a Itself returned a Itself; expected an array"):
        fl.tensor(Itself())


@pytest.mark.parametrize("first", [1, fl.ones(2), np.ones(2)], ids=["number", "tensor", "array"])
def test_a_list_that_contains_itself_is_refused(first):
    data = [first]
    data.append(data)
    with pytest.raises((RecursionError, ValueError)):
        fl.tensor(data)


# ---------------------------------------------------------------- chains


@pytest.mark.slow
def test_a_long_chain_of_gradients_is_freed():
    first = last = fl.ones(1)
    for _ in range(300_000):
        last.grad = fl.ones(1)
        last = last.grad
    del first, last


@pytest.mark.slow
def test_a_long_chain_of_lent_memory_is_freed():
    x = fl.ones(1)
    for _ in range(50_000):
        x = fl.from_numpy(np.asarray(x))
    assert x.item() == 1
    del x
