"""Layers over integers."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

INTEGERS = [fl.uint8, fl.int8, fl.int16, fl.int32, fl.int64]


def draw(dtype, *shape, seed=0):
    low = 0 if dtype is fl.uint8 else -9
    return fl.tensor(np.random.default_rng(seed).integers(low, 9, shape)).to(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "axes, how",
    [(1, {}), (1, {"stride": 2, "padding": 1, "dilation": 2}), (1, {"padding": "same"}), (2, {"groups": 2, "padding": (1, 0), "stride": (1, 2)}),
     (2, {"padding": "same", "dilation": 2}), (3, {"stride": (2, 1, 1)}), (3, {"padding": 1, "groups": 2})],
)  # fmt: skip
def test_convolutions(dtype, axes, how):
    groups = how.get("groups", 1)
    x, weight, bias = draw(dtype, 2, 4, *(7, 6, 5)[:axes]), draw(dtype, 6, 4 // groups, *(3, 2, 2)[:axes], seed=1), draw(dtype, 6, seed=2)
    conv = getattr(F, f"conv{axes}d")
    for b in (None, bias):
        got = conv(x, weight, b, **how)
        want = conv(x.double(), weight.double(), None if b is None else b.double(), **how).to(fl.int64).to(dtype)
        assert got.dtype is dtype and got.is_contiguous() and fl.equal(got, want)
    assert fl.equal(conv(x[0], weight, **how), conv(x, weight, **how)[0])
    assert conv(x[:0], weight, **how).shape[0] == 0


def test_a_convolution_of_integers_is_exact_where_floats_are_not():
    large = 2**40 + 1
    assert F.conv1d(fl.tensor([[[large, 3]]]), fl.tensor([[[large - 2, 1]]])).item() == large * (large - 2) + 3 - 2**64 * round(large * (large - 2) / 2**64)


def test_wrong_convolutions_of_integers():
    x = fl.ones(1, 2, 5, dtype=fl.int64)
    with pytest.raises(fl.ShapeError, match="conv1d"):
        F.conv1d(x, fl.ones(1, 3, 2, dtype=fl.int64))
    with pytest.raises(TypeError):
        F.conv1d(x, fl.ones(1, 2, 2))
    with pytest.raises(TypeError):
        F.conv1d(x, fl.ones(1, 2, 2, dtype=fl.int64), fl.ones(1))
    with pytest.raises(TypeError):
        F.conv1d(fl.ones(1, 2, 5, dtype=fl.bool), fl.ones(1, 2, 2, dtype=fl.bool))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_activations(dtype):
    x = fl.tensor([0, 3, 9]).to(dtype) if dtype is fl.uint8 else fl.tensor([-8, 3, 9]).to(dtype)
    values = x.tolist()
    assert F.relu6(x).dtype is dtype and F.relu6(x).tolist() == [min(max(v, 0), 6) for v in values]
    assert fl.nn.Hardtanh(0, 4)(x).tolist() == [min(max(v, 0), 4) for v in values]
    assert F.softsign(x).dtype is fl.float32 and F.softsign(x).tolist() == pytest.approx([v / (1 + abs(v)) for v in values])
    assert F.tanhshrink(x).tolist() == pytest.approx([v - np.tanh(v) for v in values], abs=1e-6)
    y = x.clone()
    assert F.hardtanh(y, 0, 2, inplace=True) is y and y.tolist() == [min(max(v, 0), 2) for v in values]
    if dtype is fl.uint8:
        with pytest.raises(ValueError, match="no numbers below 0"):
            F.hardtanh(x)
    else:
        assert F.hardtanh(x).tolist() == [-1, 1, 1]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bilinear_keeps_the_type(dtype):
    one = fl.ones(1, 4, dtype=dtype)
    assert F.bilinear(one, one, fl.ones(2, 4, 4, dtype=dtype)).dtype is dtype


@pytest.mark.parametrize("dtype", [fl.uint8, fl.int8, fl.int16])
def test_products_of_narrow_integers_wrap(dtype):
    a, b, c = draw(dtype, 3, 5, 40), draw(dtype, 3, 40, 7, seed=1), draw(dtype, 7, seed=2)
    wide = [t.to(fl.int64) for t in (a, b, c)]
    assert fl.equal(a @ b, (wide[0] @ wide[1]).to(dtype))
    assert fl.equal(a[0].t().contiguous().t() @ b[0], (wide[0][0] @ wide[1][0]).to(dtype))
    assert fl.equal(a[0] @ b[0].t().contiguous().t(), (wide[0][0] @ wide[1][0]).to(dtype))
    assert fl.equal(fl.addmm(c, a[0], b[0], beta=3, alpha=2), (3 * wide[2] + 2 * (wide[0][0] @ wide[1][0])).to(dtype))
    assert fl.equal(a @ b[0], (wide[0] @ wide[1][0]).to(dtype))
    assert fl.equal(a[0] @ b[0][:, 0], (wide[0][0] @ wide[1][0][:, 0]).to(dtype))
    assert (a[:, :0] @ b).shape == (3, 0, 7) and (a[:, :, :0] @ b[:, :0]).sum().item() == 0
