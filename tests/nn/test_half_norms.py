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


NORMS = {
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "instance_norm": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    "group_norm": lambda x, w, b: F.group_norm(x, 3, w, b),
    "layer_norm": lambda x, w, b: F.layer_norm(x.mT, (6,), w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x.mT, (6,), w, 1e-5) + b,
}


@pytest.mark.parametrize("types", [("bfloat16", "float32"), ("float16", "float32"), ("float32", "bfloat16"), ("bfloat16", "float64"), ("float64", "float32")])
@pytest.mark.parametrize("norm", list(NORMS))
def test_gradients_of_weights_of_another_type(norm, types):
    """They have the weight's type, and its digits."""
    of_x, of_w = (getattr(fl, t) for t in types)
    f = NORMS[norm]
    rng = np.random.default_rng(4)
    x = fl.tensor(rng.standard_normal((5, 6, 9))).to(of_x)
    w, b = (fl.tensor(rng.standard_normal(6)).to(of_w).requires_grad_() for _ in range(2))
    dy = fl.tensor(rng.standard_normal(f(x, w, b).shape)).to(of_x)
    wide = [t.detach().double().requires_grad_() for t in (w, b)]
    got = fl.autograd.grad(f(x, w, b), (w, b), dy.to(f(x, w, b).dtype))
    want = fl.autograd.grad(f(x.double(), *wide), wide, dy.double())
    eps = max(fl.finfo(of_w).eps, 2e-6)
    for g, e in zip(got, want, strict=True):
        assert g.dtype is of_w
        np.testing.assert_allclose(g.double().numpy(), e.numpy(), rtol=0, atol=4 * eps * np.abs(e.numpy()).max())
    x.requires_grad_()
    first = fl.autograd.grad(f(x, w, b), (x, w), dy.to(f(x, w, b).dtype), create_graph=True)
    second = fl.autograd.grad(first[0].double().square().sum() + first[1].double().square().sum(), (x, w))
    assert [g.dtype for g in second] == [of_x, of_w]


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_what_is_not_finite_stays_in_its_row(dtype):
    x = fl.ones(4, 21, dtype=dtype)
    x[1, 20], x[2, 0] = float("nan"), float("inf")
    y = F.layer_norm(x, (21,))
    assert y.isnan().any(1).tolist() == [False, True, True, False]
    assert fl.equal(y[0], fl.zeros(21, dtype=dtype))
