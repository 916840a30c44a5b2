"""Integers of one and two bytes are computed as what they are: every pair of bytes, int16 at its ends, against NumPy."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest

import flambeau as fl

BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    # Shifts by a negative count, or by more than there are bits, are those of unbounded numbers.
    "bitwise_right_shift": lambda a, b: (a.astype(np.int64) >> np.where((b < 0) | (b > 62), 62, b).astype(np.int64)).astype(a.dtype),
}  # fmt: skip
UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "sgn": np.sign, "relu": lambda a: np.maximum(a, a.dtype.type(0)), "square": np.square,
    **dict.fromkeys(["floor", "ceil", "trunc", "round"], np.copy),
}  # fmt: skip


def pairs(dtype):
    """Two square arrays that hold every pair of bytes, or many pairs of int16 with the extreme ones."""
    if np.dtype(dtype).itemsize == 1:
        every = np.arange(256).astype(np.uint8).view(dtype)
    else:
        drawn = np.random.default_rng(0).integers(-(2**15), 2**15, 1019)
        every = np.concatenate([drawn, [-(2**15), 2**15 - 1, -1, 0, 1]]).astype(dtype)
    return np.repeat(every, len(every)).reshape(len(every), -1), np.tile(every, len(every)).reshape(len(every), -1)


def wrapped(f, *arrays):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return f(*arrays)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("name", BINARY)
def test_pairs(name, dtype):
    a, b = pairs(dtype)
    expected = wrapped(BINARY[name], a, b)
    f = getattr(fl, name)
    for x, y in ((fl.tensor(a), fl.tensor(b)), (fl.tensor(np.ascontiguousarray(a.T)).t(), fl.tensor(b))):
        found = f(x, y)
        assert str(found.dtype).split(".")[-1] == str(expected.dtype)
        assert np.array_equal(found.numpy(), expected)
    column = fl.tensor(np.ascontiguousarray(a[:, :1]))
    assert np.array_equal(f(column, fl.tensor(b)).numpy(), expected)
    assert np.array_equal(f(fl.tensor(a)[:, ::3], fl.tensor(b)[:, ::3]).numpy(), expected[:, ::3])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("name", UNARY)
def test_each(name, dtype):
    a, _ = pairs(dtype)
    expected = wrapped(UNARY[name], a)
    assert np.array_equal(getattr(fl, name)(fl.tensor(a)).numpy(), expected)
    assert np.array_equal(getattr(fl, name)(fl.tensor(a)[::2, 1::3]).numpy(), expected[::2, 1::3])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_squares_and_cubes_as_powers(dtype):
    a = pairs(dtype)[0] if np.dtype(dtype).itemsize < 4 else np.array([0, 1, -1, 7, -46341, 2**31 - 1, -(2**31)], dtype)
    x = fl.tensor(a)
    for found, expected in ((x**2, a * a), (fl.pow(x, 3), a * a * a), (x.clone().pow_(2), a * a)):
        assert found.dtype == x.dtype and np.array_equal(found.numpy(), expected)
    assert (x**2.0).dtype == fl.float32 and (fl.tensor([True]) ** 2).dtype == fl.int64
    with pytest.raises(RuntimeError):
        x**-1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_three_of_them(dtype):
    a, b = pairs(dtype)
    x, y = fl.tensor(a), fl.tensor(b)
    for value in (1, -1, 5):
        expected = (a.astype(np.int64) + value * (a.astype(np.int64) * b)).astype(dtype)
        assert np.array_equal(fl.addcmul(x, x, y, value=value).numpy(), expected)
        assert np.array_equal(fl.addcmul(x, x[:, :1], y, value=value)[::3, 1::2].numpy(), expected[::3, 1::2])


@pytest.mark.parametrize("dtype,numbers", [("uint8", (0, 7, 255, 256, -1, 300)), ("int8", (-128, 127, 128, -129, 0)), ("int16", (-(2**15), 2**15 - 1, 2**15, -40000, 5))])
def test_numbers_that_the_type_holds_and_others(dtype, numbers):
    a, _ = pairs(dtype)
    x, wide = fl.tensor(a), a.astype(np.int64)
    for n in numbers:
        for name in ("lt", "le", "gt", "ge", "eq", "ne"):
            assert np.array_equal(getattr(fl, name)(x, n).numpy(), BINARY[name](wide, n)), (name, n)
        assert np.array_equal((x + n).numpy(), (wide + n).astype(dtype)), n
        assert np.array_equal((x * n).numpy(), (wide * n).astype(dtype)), n
        info = np.iinfo(dtype)
        if info.min <= n <= info.max:
            assert np.array_equal(x.clamp(min=n).numpy(), np.maximum(a, np.array(n, dtype)))
            assert np.array_equal(x.clamp(max=n).numpy(), np.minimum(a, np.array(n, dtype)))
            assert np.array_equal(x.clamp(n, info.max).numpy(), np.maximum(a, np.array(n, dtype)))


def test_bools():
    a, b = np.array([False, True] * 900), np.array([False, False, True, True] * 450)
    x, y = fl.tensor(a), fl.tensor(b)
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "maximum", "minimum", "fmax", "fmin"):
        found = getattr(fl, name)(x, y)
        assert found.dtype is fl.bool
        assert np.array_equal(found.numpy(), BINARY[name](a, b)), name
    assert np.array_equal(x.sign().numpy(), a)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_chains_of_them(dtype):
    a, b = pairs(dtype)

    def f(x, y):
        return ((x + y) * 3 - y).maximum(y).clamp(2, 100) > x

    expected = f(fl.tensor(a), fl.tensor(b))
    with fl.lazy():
        found = f(fl.tensor(a), fl.tensor(b))
    assert fl.equal(found, expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "bool"])
def test_few_values_are_counted(dtype):
    drawn = np.random.default_rng(1).integers(-300, 300, (250, 200))
    a = drawn > 0 if dtype == "bool" else drawn.astype(dtype)
    values, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    found = fl.unique(fl.tensor(a), return_inverse=True, return_counts=True)
    for got, expected in zip(found, (values, inverse.reshape(a.shape), counts)):
        assert np.array_equal(got.numpy(), expected)
    assert fl.unique(fl.tensor(a[:0])).shape == (0,)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_inner_products_wrap_round(dtype):
    rng = np.random.default_rng(2)
    for n in (0, 1, 7, 4096, 4097, 200_001):
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True) for _ in range(2))
        expected = int(np.sum([int(v) for v in a.astype(object) * b.astype(object)])) if n <= 4097 else int((a.astype(np.uint64) * b.astype(np.uint64)).sum(dtype=np.uint64))
        assert fl.dot(fl.tensor(a), fl.tensor(b)).item() == np.array(expected % 2**64, np.uint64).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_inner_products_of_complex_numbers(dtype):
    rng = np.random.default_rng(3)
    for n in (1, 5, 2048, 2049, 100_001):
        a, b = ((rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(dtype) for _ in range(2))
        exact = np.dot(a.astype(np.complex128), b.astype(np.complex128))
        close = 1e-4 if dtype == "complex64" else 1e-11
        assert abs(fl.dot(fl.tensor(a), fl.tensor(b)).item() - exact) <= close * n**0.5
        assert abs(fl.vdot(fl.tensor(a), fl.tensor(b)).item() - np.vdot(a.astype(np.complex128), b)) <= close * n**0.5


# Bools of other memory may be any byte but 0; they are computed as 1.
OF_BOOLS = {name: BINARY[name] for name in ("lt", "le", "gt", "ge", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor", "mul", "maximum", "minimum", "fmax", "fmin")}
OF_BOOLS |= {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}


@pytest.mark.parametrize("name", OF_BOOLS)
def test_bools_of_any_byte(name):
    a, b = pairs("uint8")
    expected = OF_BOOLS[name](a != 0, b != 0)
    x, y = (fl.from_numpy(v.copy().view(bool)) for v in (a, b))
    f = getattr(fl, name)
    for found in (f(x, y), f(x[:, :1], y)[:, :], f(x.t().contiguous().t(), y), f(x[::2, 1::2], y[::2, 1::2]), f(x[:5, :3], y[:5, :3])):
        assert found.dtype == fl.bool and set(np.unique(found.view(fl.uint8).numpy())) <= {0, 1}
    assert np.array_equal(f(x, y).numpy(), expected)
    assert np.array_equal(f(x[:, :1], y).numpy(), OF_BOOLS[name](a[:, :1] != 0, b != 0))
    assert np.array_equal(f(x, y[:1]).numpy(), OF_BOOLS[name](a != 0, b[:1] != 0))
    assert np.array_equal(f(x[::2, 1::2], y[::2, 1::2]).numpy(), expected[::2, 1::2])
    assert np.array_equal(f(x[3, 5], y).numpy(), OF_BOOLS[name](a[3, 5] != 0, b != 0))
