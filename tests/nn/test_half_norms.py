"""Normalised rows of 16-bit floats: beside float64 of the same values."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
@pytest.mark.parametrize("shape", [(3, 2), (5, 7), (2, 3, 16), (4, 33), (300, 65), (2, 1000), (1, 70_001)])
@pytest.mark.parametrize(
    ("op", "factors"), [*(("layer_norm", f) for f in ("none", "weight", "bias", "both")), *(("rms_norm", f) for f in ("none", "weight"))]
)
def test_rows_of_every_length(op, shape, factors, dtype):
    rng, n = np.random.default_rng(sum(shape)), shape[-1]
    x = fl.tensor(rng.standard_normal(shape) * 2 + 3).to(dtype).requires_grad_()
    w = fl.tensor(rng.standard_normal(n)).to(dtype).requires_grad_() if factors in ("weight", "both") else None
    b = fl.tensor(rng.standard_normal(n)).to(dtype).requires_grad_() if factors in ("bias", "both") else None
    dy = fl.tensor(rng.standard_normal(shape)).to(dtype)

    def run(x, w, b):
        return F.layer_norm(x, (n,), w, b) if op == "layer_norm" else F.rms_norm(x, (n,), w, 1e-5)

    def wide(t):
        return None if t is None else t.detach().double().requires_grad_()

    given, exact = [x, w, b], [wide(t) for t in (x, w, b)]
    y, want = run(*given), run(*exact)
    assert y.dtype == dtype
    eps = fl.finfo(dtype).eps
    np.testing.assert_allclose(y.detach().double().numpy(), want.detach().numpy(), rtol=0.6 * eps, atol=2e-6)
    got = fl.autograd.grad(y, [t for t in given if t is not None], dy)
    wants = fl.autograd.grad(want, [t for t in exact if t is not None], dy.double())
    for g, e in zip(got, wants, strict=True):
        assert g.dtype == dtype
        np.testing.assert_allclose(g.double().numpy(), e.numpy(), rtol=0, atol=2 * eps * max(np.abs(e.numpy()).max(), 1e-3))


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_what_is_not_finite_stays_in_its_row(dtype):
    x = fl.ones(4, 21, dtype=dtype)
    x[1, 20], x[2, 0] = float("nan"), float("inf")
    y = F.layer_norm(x, (21,))
    assert y.isnan().any(1).tolist() == [False, True, True, False]
    assert fl.equal(y[0], fl.zeros(21, dtype=dtype))
