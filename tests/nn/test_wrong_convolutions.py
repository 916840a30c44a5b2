"""Convolutions that oneDNN 3.2 computes wrongly on some processors, and their neighbours: beside float64, which it has no kernels for."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

# (type, input, weight, further arguments)
CASES = [
    # results by tiles of bfloat16
    *(("bfloat16", (2, n, 8, 8), (2 * n, n, 2, 2), {"stride": 2}) for n in (16, 40, 48, 64, 80, 112)),
    *(("bfloat16", (1, n, 16, 16), (32, n, 4, 4), {"stride": 4}) for n in (16, 24, 40)),
    ("bfloat16", (2, 20, 14, 14), (8, 20, 7, 7), {"stride": 7, "padding": 3}),
    ("bfloat16", (2, 48, 12), (32, 48, 3), {"stride": 3}),
    ("bfloat16", (2, 48, 7, 12), (32, 48, 3, 2), {"stride": (1, 2), "padding": (1, 0)}),
    ("bfloat16", (1, 48, 4, 4, 8), (32, 48, 2, 2, 2), {"stride": 2}),
    ("bfloat16", (2, 96, 8, 8), (32, 48, 2, 2), {"stride": 2, "groups": 2}),
    # volumes of 16-bit floats with a stride of their depth
    ("bfloat16", (2, 8, 8, 6, 21), (32, 8, 7, 3, 3), {"stride": (2, 2, 1), "padding": (0, 4, 0), "dilation": (1, 3, 9)}),
    ("bfloat16", (1, 20, 7, 60, 18), (80, 20, 3, 7, 3), {"stride": 3, "padding": (0, 0, 1), "dilation": (1, 9, 9)}),
    ("bfloat16", (2, 48, 5, 6, 4), (80, 48, 1, 5, 7), {"stride": (2, 3, 1), "padding": (0, 1, 9), "dilation": (1, 1, 3)}),
    # 16-bit floats, strided and dilated
    ("bfloat16", (5, 80, 7, 4), (3, 80, 1, 2), {"stride": (3, 1), "padding": (0, 2), "dilation": (1, 3)}),
    ("bfloat16", (5, 96, 7, 8), (32, 96, 1, 2), {"stride": (3, 1), "padding": (0, 3), "dilation": (1, 3)}),
    # gradients of weights of volumes
    *(("float32", (2, 3, depth, 16, 16), (16, 3, 7, 7, 7), {"stride": 2, "padding": 3}) for depth in (5, 6, 7, 12)),
    ("float32", (1, 4, 6, 10, 10), (16, 4, 9, 3, 3), {"stride": (2, 1, 1), "padding": (4, 1, 1)}),
    ("float32", (1, 4, 7, 10, 10), (16, 4, 9, 3, 3), {"stride": (3, 1, 1), "padding": (4, 1, 1)}),
    ("float32", (1, 16, 5, 6, 6), (16, 16, 4, 3, 3), {"stride": (2, 1, 1), "padding": (3, 1, 1)}),
    # strided, dilated and padded by much
    ("float32", (2, 32, 60), (16, 32, 3), {"stride": 2, "padding": 24, "dilation": 12}),
    ("float32", (1, 32, 5, 70), (16, 32, 3, 3), {"stride": (1, 2), "padding": (1, 20), "dilation": (1, 9)}),
    ("float16", (2, 32, 60), (16, 32, 3), {"stride": 2, "padding": 24, "dilation": 12}),
    # depthwise volumes of 16-bit floats
    *((t, (2, 16, depth, 6, 6), (16, 1, 3, 3, 3), {"padding": 1, "groups": 16}) for t in ("bfloat16", "float16") for depth in (1, 2, 3, 5)),
    ("bfloat16", (5, 32, 2, 2, 2), (16, 32, 3, 3, 3), {"padding": 1}),
    ("bfloat16", (2, 16, 2, 6, 6), (32, 1, 3, 3, 3), {"padding": 1, "groups": 16}),
    # taps between others that see nothing
    ("bfloat16", (1, 16, 1), (16, 16, 3), {"stride": 2, "padding": 2}),
    ("bfloat16", (2, 32, 2, 3), (16, 32, 5, 3), {"stride": (3, 1), "padding": (4, 1)}),
    ("float32", (1, 16, 1), (16, 16, 3), {"stride": 2, "padding": 2}),
    # a window with as many taps as the image has places, and room between them
    ("float32", (1, 1, 2), (1, 1, 3), {"stride": 5, "padding": 2, "dilation": 2}),
    ("float32", (9, 3, 2), (8, 3, 5), {"stride": 3, "padding": 4, "dilation": 2}),
    ("float64", (2, 3, 2, 3), (4, 3, 2, 3), {"stride": 3, "padding": 1, "dilation": 2}),
]


@pytest.mark.parametrize("layout", ["row-major", "made by a convolution"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_beside_float64(case, layout):
    type_name, sizes, window, given = case
    dtype, rng = getattr(fl, type_name), np.random.default_rng(4)
    conv = getattr(F, f"conv{len(sizes) - 2}d")

    def as_they_lie(shape):
        x = fl.tensor(rng.standard_normal(shape)).to(dtype)
        return conv(x, fl.eye(shape[1], dtype=dtype).reshape(shape[1], shape[1], *(1,) * (len(shape) - 2))).detach() if layout != "row-major" else x

    x, w = as_they_lie(sizes).requires_grad_(), fl.tensor(rng.standard_normal(window) / np.prod(window[1:]) ** 0.5).to(dtype).requires_grad_()
    y = conv(x, w, **given)
    dy = as_they_lie(tuple(y.shape))
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    exact = conv(*wide, **given)
    eps = {"float64": 1e-13, "float32": 1e-5}.get(type_name) or fl.finfo(dtype).eps
    for _ in range(3):  # a result that is partly not written has what was there
        for size in (w.numel(), y.numel()):
            junk = [fl.full((size,), float("nan"), dtype=t) for t in (dtype, fl.float32) for _ in range(3)]
            del junk
        found = [conv(x, w, **given), *fl.autograd.grad(y, (x, w), dy, retain_graph=True)]
        wants = [exact, *fl.autograd.grad(exact, wide, dy.double(), retain_graph=True)]
        for got, want in zip(found, wants, strict=True):
            assert got.dtype == dtype
            want = want.detach().numpy()
            np.testing.assert_allclose(got.detach().double().numpy(), want, rtol=0, atol=eps * max(np.abs(want).max(), 1.0))
