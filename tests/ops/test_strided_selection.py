"""What is taken from tensors that do not lie row-major, and how copies of such tensors lie."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

BASE = np.arange(8 * 9 * 10).reshape(8, 9, 10).astype(np.float32)
VIEWS = {
    "row-major": lambda x: x,
    "rows of more": lambda x: x[:, :, 2:7],
    "parts of planes": lambda x: x[:, 2:6],
    "every other": lambda x: x[:, :, ::2],
    "turned": lambda x: x.transpose(0, 2, 1) if isinstance(x, np.ndarray) else x.permute(0, 2, 1),
    "turned all": lambda x: x.transpose(2, 1, 0) if isinstance(x, np.ndarray) else x.permute(2, 1, 0),
    "one row": lambda x: x[3:4, :, 1::3],
    "repeated": lambda x: np.broadcast_to(x[:, :1], x.shape) if isinstance(x, np.ndarray) else x[:, :1].expand(8, 9, 10),
    "repeated in front": lambda x: np.broadcast_to(x[:1, :, ::2], (8, 9, 5)) if isinstance(x, np.ndarray) else x[:1, :, ::2].expand(8, 9, 5),
}


@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex128", "bfloat16"])
@pytest.mark.parametrize("name", VIEWS)
def test_slices_and_elements(name, dtype):
    base = BASE if dtype in ("float32", "bfloat16") else BASE.astype(dtype)
    if dtype == "bfloat16":
        base = base % 128
    x, expected = VIEWS[name](fl.tensor(base).to(getattr(fl, dtype))), VIEWS[name](base)
    back = (lambda t: t.float().numpy()) if dtype == "bfloat16" else (lambda t: t.numpy())
    rng = np.random.default_rng(0)
    for axis in range(3):
        for count in (1, 2, 30):  # few slices, and more than there are
            index = rng.integers(0, expected.shape[axis], count)
            assert np.array_equal(back(x.index_select(axis, fl.tensor(index))), np.take(expected, index, axis)), (axis, count)
        runs = fl.tensor(np.r_[0 : expected.shape[axis], 0 : expected.shape[axis]])
        assert np.array_equal(back(x.index_select(axis, runs)), np.take(expected, runs.numpy(), axis))
    for count in (2, 3 * len(expected)):
        rows, columns = rng.integers(-len(expected), len(expected), count), rng.integers(0, expected.shape[2], count)
        i, j = fl.tensor(rows), fl.tensor(columns)
        assert np.array_equal(back(x[i]), expected[rows])
        assert np.array_equal(back(x[i, :, j]), expected[rows, :, columns])
        assert np.array_equal(back(x[:, :, j]), expected[:, :, columns])
        assert np.array_equal(back(x[i, 1:, None]), expected[rows, 1:, None])
    for count in (3, 2000):
        flat = rng.integers(-expected.size, expected.size, count)
        assert np.array_equal(back(x.take(fl.tensor(flat))), expected.reshape(-1)[flat])


def test_a_number_of_no_axes():
    x = fl.tensor(3.0)
    assert x.index_select(0, fl.tensor([0])).shape == fl.tensor(3.0).index_select(0, fl.tensor([0])).shape
    assert fl.tensor([[1.0, 2.0], [3.0, 4.0]]).t().take(fl.tensor(1)).item() == 3


def test_copies_lie_as_what_they_copy():
    x = fl.randn(6, 8)[:, ::2]
    for copy in (x.clone(), fl.empty_like(x), fl.zeros_like(x), x.double(), x + 1):
        assert copy.stride() == (4, 1)
    for copy in (x.t().clone(), fl.empty_like(x.t()), fl.ones_like(x.t()), x.t().double(), x.t() + 1):
        assert copy.stride() == (1, 4)
    y = fl.randn(4, 5, 6).permute(2, 0, 1)[:, ::2]
    assert y.clone().stride() == fl.empty_like(y).stride() == y.half().stride() == (1, 30, 6)
    assert fl.equal(y.clone(), y.contiguous())
    assert fl.randn(3, 1).expand(3, 4).clone().stride() == (4, 1)
    assert fl.randn(3, 0, 4)[..., ::2].permute(2, 1, 0).clone().shape == (2, 0, 3)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[:, 3:300]])
def test_equal_looks_at_all_elements(make):
    a = make(fl.zeros(300, 400))
    b = a.clone()
    assert fl.equal(a, b)
    for place in ((0, 0), (-1, -1), (150, 70)):
        b[place] = 1
        assert not fl.equal(a, b)
        assert not fl.equal(b, a)
        b[place] = 0
    b[0, 5] = a[0, 5] = fl.nan
    assert not fl.equal(a, b)


class TestPlacesThatAreShared:
    def test_are_not_written_more_than_once(self):
        x = fl.arange(6.0)
        for view in (x.as_strided((3, 2), (1, 1)), x.unfold(0, 3, 2), x.as_strided((2, 2), (2, 2)), x.as_strided((2, 2, 2), (2, 1, 2))):
            for write in (lambda v: v.mul_(2), lambda v: v.add_(1), lambda v: v.relu_() if hasattr(v, "relu_") else v.neg_()):
                with pytest.raises(RuntimeError, match="single memory location"):
                    write(view)
        assert x.tolist() == [0, 1, 2, 3, 4, 5]

    def test_others_are(self):
        x = fl.zeros(12)
        x.as_strided((2, 2), (2, 3)).add_(1)  # places 0, 3, 2, 5, by strides of which none is a multiple of what lies inside
        assert x.tolist() == [1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0]
        x.unfold(0, 3, 3).mul_(5)
        x[::5].sub_(1)
        assert x.tolist() == [4, 0, 5, 5, 0, 4, 0, 0, 0, 0, -1, 0]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("planes", [1, 2, 7, 8, 9, 40])
def test_planes_between_indices(planes, dtype):
    """x[i, :, j, k]: many elements of each of some planes, turned into rows."""
    rng = np.random.default_rng(planes)
    a = rng.integers(0, 100, (3, planes, 6, 11)).astype(dtype)
    for n in (1, 5, 300, 2100):
        b, i, j = rng.integers(0, 3, n), rng.integers(-6, 6, n), rng.integers(0, 11, n)
        found = fl.tensor(a)[fl.tensor(b), :, fl.tensor(i), fl.tensor(j)]
        assert np.array_equal(found.numpy(), a[b, :, i, j])
        assert np.array_equal(fl.tensor(a).transpose(0, 3)[fl.tensor(j), :, fl.tensor(i), fl.tensor(b)].numpy(), a.swapaxes(0, 3)[j, :, i, b])


# Of values for x[i] (3, 9, 10), x[:, i] (8, 3, 10) and so on: shapes that broadcast to them, and orders of their axes.
PLACES = {
    "first": lambda i, j: (i,), "middle": lambda i, j: (slice(None), i), "last": lambda i, j: (slice(None), slice(None), i),
    "two": lambda i, j: (i, j), "two behind": lambda i, j: (slice(None), i, j), "two apart": lambda i, j: (i, slice(None), j), "pairs": lambda i, j: (i[:, None], j),
}  # fmt: skip


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "float16", "complex64"])
@pytest.mark.parametrize("name", PLACES)
def test_values_that_were_expanded_or_turned(name, dtype, accumulate):
    rng = np.random.default_rng(1)
    at = PLACES[name](np.array([5, 0, 7, 5]), np.array([2, 8, 2, 2]))
    indices = [None if isinstance(a, slice) else fl.tensor(a) for a in at]
    shape = BASE[at].shape
    whole = rng.integers(-4, 5, shape).astype(dtype)
    given = [fl.tensor(rng.integers(1, 5, [n if keep >> d & 1 else 1 for d, n in enumerate(shape)]).astype(dtype)) for keep in range(2 ** len(shape))]
    given += [fl.tensor(whole.transpose(order).copy()).permute(*np.argsort(order).tolist()) for order in ((*range(len(shape)),)[::-1], (1, 0, *range(2, len(shape))))]
    given += [fl.tensor(np.repeat(whole, 2, -1))[..., ::2], fl.tensor(3).to(getattr(fl, dtype))]
    start = (BASE % 7).astype(dtype)
    for values in given:
        want = start.copy()
        if accumulate:
            np.add.at(want, at, values.numpy())
        else:
            want[at] = values.numpy()
        x = fl.tensor(start)
        assert np.array_equal(x.index_put(indices, values, accumulate).numpy(), want)
        turned = fl.tensor(start.transpose(2, 0, 1).copy()).permute(1, 2, 0)  # written in place as it lies
        assert np.array_equal(turned.index_put_(indices, values, accumulate).numpy(), want)
        assert np.array_equal(x.index_put_(indices, values.expand(shape), accumulate).numpy(), want)
