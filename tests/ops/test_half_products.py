"""Products and convolutions of 16-bit floats: beside float64 of the same values, by what this processor multiplies itself and by way of float32."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

RNG = np.random.default_rng(12)
HALVES = [fl.bfloat16, fl.float16]


def draw(*sizes: int, dtype: fl.dtype) -> tuple[fl.Tensor, np.ndarray]:
    x = fl.tensor(RNG.standard_normal(sizes)).to(dtype)
    return x, x.double().numpy()


def near(got: fl.Tensor, exact: np.ndarray, dtype: fl.dtype) -> None:
    assert got.dtype == dtype
    np.testing.assert_allclose(got.double().numpy(), exact, rtol=0, atol=0.75 * fl.finfo(dtype).eps * max(np.abs(exact).max(), 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 600, 900), (1, 70_000, 3), (2, 513, 1030), (7, 1024, 256), (64, 300, 519), (128, 512, 300), (129, 512, 300), (3, 2, 40_000)])
def test_few_rows(m, k, n, dtype):
    (a, a64), (b, b64), (w, w64), (bias, bias64) = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype), draw(n, k, dtype=dtype), draw(n, dtype=dtype)
    product = a64 @ b64
    near(a @ b, product, dtype)
    by_rows = a64 @ w64.T
    near(F.linear(a, w), by_rows, dtype)
    near(F.linear(a, w, bias), by_rows + bias64, dtype)
    near(a.t().contiguous().t() @ b, product, dtype)
    near(fl.addmm(bias, a, b, alpha=2), bias64 + 2 * product, dtype)
    near(fl.addmm(bias, a, b, beta=0.5, alpha=0.25), 0.5 * bias64 + 0.25 * product, dtype)
    (c, c64) = draw(m, n, dtype=dtype)
    near(fl.addmm(c, a, b), c64 + product, dtype)
    near(fl.addmm(c[:1], a, b), c64[:1] + product, dtype)
    near(fl.baddbmm(c[None], a[None].expand(3, m, k), b[None].expand(3, k, n)), np.broadcast_to(c64 + product, (3, m, n)), dtype)
    near(a @ b[:, 1::2], product[:, 1::2], dtype)
    near(a @ b[:, 2:], product[:, 2:], dtype)
    near(w @ a[0], by_rows[0], dtype)
    near(b.t() @ a[0], product[0], dtype)
    near(b[:, ::3].t() @ a[0], product[0, ::3], dtype)
    wide = fl.zeros(m, n + 5, dtype=dtype)
    wide[:, 2:-3] = fl.mm(a, b)
    near(wide[:, 2:-3], product, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_batches_of_every_layout(dtype):
    (q, q64), (k, k64) = draw(2, 40, 3, 64, dtype=dtype), draw(2, 72, 3, 64, dtype=dtype)  # batch, time, head, channel
    turned, turned64 = q.transpose(1, 2), q64.swapaxes(1, 2)
    near(turned @ k.permute(0, 2, 3, 1), turned64 @ k64.transpose(0, 2, 3, 1), dtype)  # axes of the batch that are not one
    near(turned.contiguous() @ k.permute(0, 2, 3, 1).contiguous(), turned64 @ k64.transpose(0, 2, 3, 1), dtype)  # that are
    one = k.permute(0, 2, 3, 1)[:1, :1]
    near(turned @ one, turned64 @ k64.transpose(0, 2, 3, 1)[:1, :1], dtype)  # broadcast
    near(turned @ k[:1, :, 0].transpose(1, 2), turned64 @ k64[:1, :, 0].swapaxes(1, 2), dtype)
    near(turned[:, None] @ one[None], turned64[:, None] @ k64.transpose(0, 2, 3, 1)[:1, :1], dtype)  # an axis of one between
    wide = turned.reshape(1, 6, 40, 64).expand(4, 6, 40, 64)
    near(wide @ one[0], wide.double().numpy() @ k64.transpose(0, 2, 3, 1)[0, 0], dtype)
    c, c64 = draw(2, 40, 72, dtype=dtype)
    near(fl.baddbmm(c, q[:, :, 0], k[:, :, 0].transpose(1, 2)), c64 + q64[:, :, 0] @ k64[:, :, 0].swapaxes(1, 2), dtype)
    x, w = turned.detach().requires_grad_(), one.detach().requires_grad_()
    dy, dy64 = draw(2, 3, 40, 72, dtype=dtype)
    dx, dw = fl.autograd.grad(x @ w, (x, w), dy)
    near(dx, dy64 @ k64.transpose(0, 2, 3, 1)[:1, :1].swapaxes(2, 3), dtype)
    near(dw, (turned64.swapaxes(2, 3) @ dy64).sum((0, 1), keepdims=True), dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m", [1, 2, 8, 200])
@pytest.mark.parametrize("lead", [(1,), (1, 1), (1, 1, 1)])
def test_batches_of_one(lead, m, dtype):
    (a, a64), (b, b64) = draw(m, 128, dtype=dtype), draw(128, 1024, dtype=dtype)
    for right, right64 in ((b, b64), (b.t().contiguous().t(), b64), (b[:, :1], b64[:, :1])):
        near(a.reshape(*lead, m, 128) @ right.reshape(*lead, *right.shape), (a64 @ right64).reshape(*lead, m, -1), dtype)
        near(a @ right.expand(*lead, *right.shape), (a64 @ right64).reshape(*lead, m, -1), dtype)
    if len(lead) == 1:
        near(fl.bmm(a[None], b[None]), (a64 @ b64)[None], dtype)
        near(fl.baddbmm(fl.full((1, m, 1024), float("nan"), dtype=dtype), a[None], b[None], beta=0, alpha=0.5), 0.5 * (a64 @ b64)[None], dtype)
        near(fl.baddbmm(fl.ones(1, m, 1024, dtype=dtype), a[None], b[None], beta=2, alpha=0.5), 2 + 0.5 * (a64 @ b64)[None], dtype)


# (op, input, weight, further arguments)
CONVOLUTIONS = {
    "3 x 3": ("conv2d", (2, 32, 12, 14), (48, 32, 3, 3), {"padding": 1}),
    "from a picture": ("conv2d", (2, 3, 21, 20), (32, 3, 7, 7), {"padding": 3, "stride": 2}),
    "1 x 1": ("conv2d", (2, 32, 9, 9), (64, 32, 1, 1), {}),
    "by 2": ("conv2d", (2, 16, 15, 15), (24, 16, 3, 3), {"padding": 1, "stride": 2}),
    "dilated": ("conv2d", (1, 16, 15, 15), (16, 16, 3, 3), {"padding": 3, "dilation": 3}),
    "groups": ("conv2d", (2, 32, 10, 10), (32, 16, 3, 3), {"padding": 1, "groups": 2}),
    "depthwise": ("conv2d", (2, 32, 10, 10), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
    "line": ("conv1d", (3, 16, 50), (16, 16, 5), {"padding": 2}),
    "volume": ("conv3d", (1, 16, 5, 6, 7), (16, 16, 3, 3, 3), {"padding": 1}),
    "turned round": ("conv_transpose2d", (2, 20, 7, 7), (20, 16, 3, 3), {"stride": 2, "padding": 1}),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions(kind, dtype):
    op, sizes, window, given = CONVOLUTIONS[kind]
    conv = getattr(F, op)
    x, w = draw(*sizes, dtype=dtype)[0].requires_grad_(), (draw(*window, dtype=dtype)[0] * 0.25).detach().requires_grad_()
    b = draw(window[1] if "transpose" in op else window[0], dtype=dtype)[0].requires_grad_()
    y = conv(x, w, b, **given)
    dy = draw(*y.shape, dtype=dtype)[0]
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]
    exact = conv(*wide, **given)
    near(y.detach(), exact.detach().numpy(), dtype)
    for got, want in zip(fl.autograd.grad(y, (x, w, b), dy), fl.autograd.grad(exact, wide, dy.double()), strict=True):
        near(got, want.numpy(), dtype)
    again = conv(F.relu(y), fl.eye(y.shape[1], dtype=dtype).reshape(y.shape[1], y.shape[1], *(1,) * (y.ndim - 2)))  # of bytes as the first left them
    near(again.detach(), np.maximum(y.detach().double().numpy(), 0), dtype)


HERE = Path(__file__)


@pytest.mark.slow
@pytest.mark.skipif(fl._C.onednn_version() is None, reason="built without oneDNN")
@pytest.mark.parametrize("most", ["AVX2", "AVX512_CORE", "ALL"])
def test_on_processors_that_multiply_less(most):
    """All of the above with fewer instructions, which oneDNN looks at once in a process. None of it is done by its loops over elements ("ref")."""
    if "FLAMBEAU_TEST_HALVES" in os.environ:
        pytest.skip("the tests within this test")
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": most, "ONEDNN_VERBOSE": "1", "FLAMBEAU_TEST_HALVES": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", str(HERE)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    ran = [line.split(",") for line in done.stdout.splitlines() if ",exec,cpu," in line]
    assert ran, "oneDNN told nothing"
    slow = [line for line in ran if line[line.index("cpu") + 2].startswith("ref")]
    assert not slow, slow[:3]
