"""`scatter_reduce` in every type: what loops in Python give, of indices that repeat."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as fl

TYPES = ["uint8", "int8", "int16", "int32", "int64", "bfloat16", "float16", "float32", "float64"]


def written_out(x, index, src, how, own):
    """Along axis 0 of columns."""
    out = x.copy()
    for c in range(x.shape[1]):
        for r in range(x.shape[0]):
            seen = [src[k, c] for k in range(index.shape[0]) if index[k, c] == r]
            if not seen:
                continue
            seen += [x[r, c]] if own else []
            total = {"sum": sum, "mean": sum, "prod": math.prod, "amax": max, "amin": min}[how](seen)
            out[r, c] = total / len(seen) if how == "mean" else total
    return out


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("name", TYPES)
def test_beside_loops(name, how):
    dtype = getattr(fl, name)
    rng = np.random.default_rng(11)
    for columns, expanded in ((1, False), (3, False), (3, True), (20, True)):
        index = rng.integers(0, 4, (6, 1 if expanded else columns))
        index = np.broadcast_to(index, (6, columns))
        x, src = rng.integers(0, 4, (5, columns)), rng.integers(1, 3 if how == "prod" else 9, (6, columns))
        given = fl.tensor(index[:, :1].copy()).expand(6, columns) if expanded else fl.tensor(index.copy())
        for own in (True, False):
            got = fl.tensor(x).to(dtype).scatter_reduce(0, given, fl.tensor(src).to(dtype), how, include_self=own)
            want = written_out(x.astype(float), index, src.astype(float), how, own)
            assert got.dtype is dtype
            want = fl.tensor(want if dtype.is_floating_point else np.floor(want))
            assert fl.equal(got, want.to(dtype)), (columns, expanded, own)


@pytest.mark.parametrize("how", ["sum", "mean", "amax", "prod"])
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64"])
def test_gradients_have_the_type_of_what_they_are_of(name, how):
    x, src = (fl.ones(4, dtype=getattr(fl, name), requires_grad=True) for _ in range(2))
    y = x.scatter_reduce(0, fl.tensor([0, 0, 1, 3]), src, how)
    assert {g.dtype for g in fl.autograd.grad(y, (x, src), fl.ones_like(y))} == {x.dtype}


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16], ids=str)
def test_sums_of_many_16_bit_numbers(dtype):
    """In 16 bits a sum of ones ends at 256 or 2048."""
    n = 3000
    ones, zero, at = fl.ones(n, dtype=dtype), fl.zeros(1, dtype=dtype), fl.zeros(n, dtype=fl.int64)
    many = fl.tensor(float(n), dtype=dtype)
    sums = (
        zero.scatter_add(0, at, ones), zero.clone().scatter_add_(0, at, ones), zero.scatter_reduce(0, at, ones, "sum"), zero.index_add(0, at, ones),
        zero.unsqueeze(1).index_add(0, at, ones.unsqueeze(1), alpha=1), zero.index_put((at,), ones, accumulate=True), zero.put(at, ones, accumulate=True),
        fl.zeros(3, dtype=dtype).scatter_add(0, at + 1, ones)[1:2],
    )  # fmt: skip
    for y in sums:
        assert y.dtype is dtype and y.flatten().tolist() == [many.item()]
    assert zero.scatter_reduce(0, at, ones, "mean", include_self=False).item() == 1
    assert fl.index_reduce(zero, 0, at, ones, "mean", include_self=False).item() == 1
    x = fl.zeros(4, 3, dtype=dtype, requires_grad=True)
    for use in (
        lambda: x.gather(0, fl.zeros(n, 3, dtype=fl.int64)), lambda: x.index_select(0, at), lambda: x.repeat_interleave(n, 0), lambda: x[at], lambda: x.take(at),
    ):  # fmt: skip
        assert fl.autograd.grad(use().sum(), x)[0][0, 0] == many


def test_means_of_large_integers_are_exact():
    x, at = fl.zeros(2, dtype=fl.int64), fl.tensor([0, 0, 1, 1, 1])
    src = fl.tensor([-(2**62) + 5, 2, 2**61 + 1, 2**61, 3])
    assert x.scatter_reduce(0, at, src, "mean", include_self=False).tolist() == [(-(2**62) + 7) // 2, (2**62 + 4) // 3]
