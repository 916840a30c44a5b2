"""Attention of 16-bit floats: beside float64 of the same values, for few queries and for several blocks of them."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F


def written_out(q, k, v, mask, causal):
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    return p @ v / np.maximum(p.sum(-1, keepdims=True), 1e-300)


# (batch, heads, queries, keys, channels, channels of values)
SHAPES = [
    (2, 3, 1, 700, 64, 64), (1, 2, 1, 1, 16, 16), (1, 2, 2, 300, 20, 36), (2, 1, 1, 37, 5, 3), (1, 1, 3, 513, 80, 128),
    (1, 2, 70, 70, 32, 32), (4, 5, 300, 300, 64, 64), (2, 8, 129, 520, 40, 24), (3, 6, 260, 5, 8, 8),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
@pytest.mark.parametrize("kind", ["all", "causal", "masked"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_beside_all_scores(shape, kind, dtype):
    batch, heads, tq, tk, d, dv = shape
    rng = np.random.default_rng(tq + tk)
    q, k, v, dy = (fl.tensor(rng.standard_normal((batch, heads, *s))).to(dtype) for s in ((tq, d), (tk, d), (tk, dv), (tq, dv)))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    mask = rng.random((tq, tk)) < 0.7 if kind == "masked" else None
    given = {"is_causal": kind == "causal", "attn_mask": None if mask is None else fl.tensor(mask)}
    y = F.scaled_dot_product_attention(q, k, v, **given)
    assert y.dtype == dtype
    eps = fl.finfo(dtype).eps
    exact = written_out(*(x.detach().double().numpy() for x in (q, k, v)), mask, kind == "causal")
    np.testing.assert_allclose(y.detach().double().numpy(), exact, rtol=0, atol=2 * eps * np.abs(exact).max())
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wants = fl.autograd.grad(F.scaled_dot_product_attention(*wide, **given), wide, dy.double())
    for got, want in zip(fl.autograd.grad(y, (q, k, v), dy), wants, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.double().numpy(), want.numpy(), rtol=0, atol=6 * eps * max(np.abs(want.numpy()).max(), 0.1))


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_a_text_that_is_continued(dtype):
    """A query at a time gives what all of them at once give."""
    rng = np.random.default_rng(1)
    q, k, v = (fl.tensor(rng.standard_normal((2, 4, 90, 48))).to(dtype) for _ in range(3))
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    steps = [F.scaled_dot_product_attention(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1]) for t in range(90)]
    fl.testing.assert_close(fl.cat(steps, 2), whole, rtol=0, atol=4 * fl.finfo(dtype).eps)


def test_threads_change_no_bit():
    q, k, v = (fl.randn(2, 3, 300, 64).to(fl.bfloat16) for _ in range(3))
    before, found = fl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fl.set_num_threads(threads)
            found.append([F.scaled_dot_product_attention(a, k, v) for a in (q, q[:, :, :1])])
    finally:
        fl.set_num_threads(before)
    for other in found[1:]:
        assert all(map(fl.equal, found[0], other))
