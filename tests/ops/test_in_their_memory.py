"""Element-wise ops over operands that are contiguous and of one type: what is computed in their own memory is what goes through tiles."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

SIZES = [1, 2, 63, 64, 65, 1000, 32768, 32769, 100_000]
OPS = {
    "add": lambda x, y, s: x + y, "number": lambda x, y, s: x * 3, "number_first": lambda x, y, s: 3 - x, "scalar": lambda x, y, s: x * s,
    "scalar_first": lambda x, y, s: s - x, "compare": lambda x, y, s: x > y, "compare_number": lambda x, y, s: x == 1, "compare_scalar": lambda x, y, s: x < s,
    "itself": lambda x, y, s: x - x, "neg": lambda x, y, s: -x,
}  # fmt: skip
INTO = {
    "add_": lambda x, y, s: x.__iadd__(y), "mul_": lambda x, y, s: x.__imul__(3), "sub_scalar": lambda x, y, s: x.__isub__(s), "itself": lambda x, y, s: x.__imul__(x),
    "reversed": lambda x, y, s: x.__iadd__(x[::-1].copy() if isinstance(x, np.ndarray) else x.flip(0)),
}  # fmt: skip


def operands(n, dtype):
    rng = np.random.default_rng(n)
    return rng.integers(0, 5, n).astype(dtype), rng.integers(0, 5, n).astype(dtype), np.array(2, dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "int8", "float16"])
@pytest.mark.parametrize("name", OPS)
def test_values(name, dtype, n):
    x, y, s = operands(n, dtype)
    with np.errstate(over="ignore"):
        expected = OPS[name](x, y, s)
    found = OPS[name](*map(fl.from_numpy, (x, y)), fl.tensor(s))
    assert np.array_equal(found.numpy(), expected.astype(found.numpy().dtype))
    spread = np.zeros((n, 2), dtype), np.zeros((n, 2), dtype)
    spread[0][:, 1], spread[1][:, 1] = x, y
    assert fl.equal(OPS[name](*(fl.from_numpy(a)[:, 1] for a in spread), fl.tensor(s)), found)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("name", INTO)
def test_values_in_place(name, dtype, n):
    x, y, s = operands(n, dtype)
    ours = fl.tensor(x)
    result = INTO[name](ours, fl.tensor(y), fl.tensor(s))
    with np.errstate(over="ignore"):
        expected = INTO[name](x, y, s)
    assert result is ours and np.array_equal(ours.numpy(), expected)


def test_truths_become_numbers():
    bytes_ = np.arange(256, dtype=np.uint8)
    truths = fl.from_numpy(bytes_).view(fl.bool)
    for dtype in (fl.float32, fl.float64, fl.float16, fl.bfloat16, fl.int64, fl.int32, fl.int16, fl.int8, fl.uint8):
        assert truths.to(dtype).tolist() == [0] + [1] * 255
    assert fl.where(truths, fl.ones(256), fl.zeros(256)).sum().item() == 255


def test_a_shape_that_does_not_fit_is_refused_in_place():
    for other in (fl.ones(3, 3), fl.ones(2, 1, 3), fl.ones(4)):
        x = fl.zeros(3)
        with pytest.raises(fl._C.ShapeError, match="shape"):
            x.add_(other)
        assert x.tolist() == [0, 0, 0]
    assert fl.zeros(2, 3).add_(fl.ones(3)).sum().item() == 6
    assert fl.zeros(()).add_(1).item() == 1
