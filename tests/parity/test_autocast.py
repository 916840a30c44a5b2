"""Autocast beside PyTorch's: result types of every operation in its lists for the CPU, values, gradients, nesting."""

from __future__ import annotations

import numpy as np
import pytest
from beside import as_ours, as_theirs, dtype_name, randn, torch, values

import flambeau as fl

LIBS = (fl, torch)


def f(lib):
    return lib.nn.functional


def long(lib, *v):
    return lib.tensor(list(v))


# name: (function(lib, *tensors), shapes)
OPS = {
    "mm": (lambda lib, a, b: lib.mm(a, b), (3, 4), (4, 5)),
    "bmm": (lambda lib, a, b: lib.bmm(a, b), (2, 3, 4), (2, 4, 5)),
    "matmul": (lambda lib, a, b: lib.matmul(a, b), (2, 3, 4), (4, 5)),
    "matmul of vectors": (lambda lib, a, b: lib.matmul(a, b), (4,), (4,)),
    "@": (lambda lib, a, b: a @ b, (3, 4), (4, 5)),
    "linear": (lambda lib, x, w, b: f(lib).linear(x, w, b), (3, 4), (5, 4), (5,)),
    "addmm": (lambda lib, c, a, b: lib.addmm(c, a, b, beta=0.5), (5,), (3, 4), (4, 5)),
    "addbmm": (lambda lib, c, a, b: lib.addbmm(c, a, b), (3, 5), (2, 3, 4), (2, 4, 5)),
    "baddbmm": (lambda lib, c, a, b: lib.baddbmm(c, a, b, alpha=2), (2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "einsum": (lambda lib, a, b: lib.einsum("ij,jk->ik", a, b), (3, 4), (4, 5)),
    "conv1d": (lambda lib, x, w, b: f(lib).conv1d(x, w, b), (2, 3, 9), (4, 3, 3), (4,)),
    "conv2d": (lambda lib, x, w, b: f(lib).conv2d(x, w, b, stride=2, padding=1), (2, 3, 7, 7), (4, 3, 3, 3), (4,)),
    "conv3d": (lambda lib, x, w: f(lib).conv3d(x, w), (1, 2, 4, 4, 4), (3, 2, 2, 2, 2)),
    "conv_transpose1d": (lambda lib, x, w: f(lib).conv_transpose1d(x, w), (2, 3, 5), (3, 4, 3)),
    "conv_transpose2d": (lambda lib, x, w: f(lib).conv_transpose2d(x, w), (2, 3, 5, 5), (3, 4, 3, 3)),
    "conv_transpose3d": (lambda lib, x, w: f(lib).conv_transpose3d(x, w), (1, 2, 3, 3, 3), (2, 3, 2, 2, 2)),
    "prelu": (lambda lib, x, w: f(lib).prelu(x, w), (2, 3), (3,)),
    "attention": (lambda lib, q, k, v: f(lib).scaled_dot_product_attention(q, k, v), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)),
    "prod": (lambda lib, x: lib.prod(x), (4,)),
    "prod of an axis": (lambda lib, x: lib.prod(x, 1), (3, 4)),
    "cdist": (lambda lib, a, b: lib.cdist(a, b), (3, 4), (5, 4)),
    "trace": (lambda lib, x: lib.trace(x), (3, 3)),
    "binary_cross_entropy": (lambda lib, x, y: f(lib).binary_cross_entropy(x, y), (4,), (4,)),
    "binary_cross_entropy_with_logits": (lambda lib, x, y: f(lib).binary_cross_entropy_with_logits(x, y), (4,), (4,)),
    "cosine_embedding_loss": (lambda lib, a, b: f(lib).cosine_embedding_loss(a, b, long(lib, 1, -1)), (2, 4), (2, 4)),
    "cross_entropy": (lambda lib, x: f(lib).cross_entropy(x, long(lib, 0, 2)), (2, 4)),
    "cross_entropy of shares": (lambda lib, x, y: f(lib).cross_entropy(x, y), (2, 4), (2, 4)),
    "hinge_embedding_loss": (lambda lib, x: f(lib).hinge_embedding_loss(x, long(lib, 1, -1)), (2,)),
    "huber_loss": (lambda lib, x, y: f(lib).huber_loss(x, y), (4,), (4,)),
    "kl_div": (lambda lib, x, y: f(lib).kl_div(x, y, reduction="batchmean"), (2, 4), (2, 4)),
    "l1_loss": (lambda lib, x, y: f(lib).l1_loss(x, y), (4,), (4,)),
    "margin_ranking_loss": (lambda lib, x, y: f(lib).margin_ranking_loss(x, y, long(lib, 1, -1)), (2,), (2,)),
    "mse_loss": (lambda lib, x, y: f(lib).mse_loss(x, y), (4,), (4,)),
    "nll_loss": (lambda lib, x: f(lib).nll_loss(x, long(lib, 0, 2)), (2, 4)),
    "poisson_nll_loss": (lambda lib, x, y: f(lib).poisson_nll_loss(x, y), (4,), (4,)),
    "smooth_l1_loss": (lambda lib, x, y: f(lib).smooth_l1_loss(x, y), (4,), (4,)),
    "soft_margin_loss": (lambda lib, x: f(lib).soft_margin_loss(x, long(lib, 1, -1)), (2,)),
    "triplet_margin_loss": (lambda lib, a, b, c: f(lib).triplet_margin_loss(a, b, c), (2, 4), (2, 4), (2, 4)),
    "cat": (lambda lib, a, b: lib.cat([a, b]), (3,), (4,)),
    "stack": (lambda lib, a, b: lib.stack([a, b]), (3,), (3,)),
    "index_copy": (lambda lib, a, b: lib.index_copy(a, 0, long(lib, 2, 0), b), (3,), (2,)),
    "grid_sample": (lambda lib, x, grid: f(lib).grid_sample(x, grid, align_corners=False), (1, 2, 3, 3), (1, 2, 2, 2)),
    "avg_pool3d": (lambda lib, x: f(lib).avg_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "adaptive_avg_pool3d": (lambda lib, x: f(lib).adaptive_avg_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "adaptive_max_pool3d": (lambda lib, x: f(lib).adaptive_max_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "max_unpool2d": (lambda lib, x: f(lib).max_unpool2d(x, long(lib, 0, 2, 8, 10).reshape(1, 1, 2, 2), 2), (1, 1, 2, 2)),
    "fractional_max_pool2d": (lambda lib, x: f(lib).fractional_max_pool2d(x, 2, output_size=2, _random_samples=lib.full((1, 1, 2), 0.5)), (1, 1, 5, 5)),
    "pad by reflection": (lambda lib, x: f(lib).pad(x, (1, 1), "reflect"), (1, 2, 4)),
    "pad by reflection, 3d": (lambda lib, x: f(lib).pad(x, (1, 1, 1, 1, 1, 1), "reflect"), (1, 1, 3, 3, 3)),
    "pad by replication, 3d": (lambda lib, x: f(lib).pad(x, (1, 1, 1, 1, 1, 1), "replicate"), (1, 1, 3, 3, 3)),
    "pad around": (lambda lib, x: f(lib).pad(x, (1, 1), "circular"), (1, 2, 4)),
    "multilabel_soft_margin_loss": (lambda lib, x, y: f(lib).multilabel_soft_margin_loss(x, y), (2, 4), (2, 4)),
    "quantile": (lambda lib, x: lib.quantile(x, 0.4), (5,)),
    "nanquantile": (lambda lib, x: lib.nanquantile(x, 0.4, dim=0), (5, 2)),
    "stft": (lambda lib, x: lib.view_as_real(lib.stft(x, 4, return_complex=True)), (16,)),
    "rfft": (lambda lib, x: lib.view_as_real(lib.fft.rfft(x)), (8,)),
    "fft2": (lambda lib, x: lib.view_as_real(lib.fft.fft2(x)), (4, 4)),
    "hfft": (lambda lib, x: lib.fft.hfft(x), (5,)),
    "vecdot": (lambda lib, a, b: lib.linalg.vecdot(a, b), (2, 3), (2, 3)),
    "pinverse": (lambda lib, x: lib.pinverse(x), (2, 3)),
    "lstsq": (lambda lib, a, b: lib.linalg.lstsq(a, b).solution, (3, 2), (3, 1)),
    "eigvals": (lambda lib, x: lib.linalg.eigvals(x).abs().sum().reshape(1), (2, 2)),
    "ormqr": (lambda lib, a, b: lib.ormqr(a.detach(), a.detach()[0], b), (3, 3), (3, 3)),
    "triangular_solve": (lambda lib, b, a: lib.triangular_solve(b, a)[0], (2, 1), (2, 2)),
}  # fmt: skip
# In no list: they compute in what they are given.
PLAIN = {
    "add": (lambda lib, a, b: a + b, (3,), (3,)),
    "softmax": (lambda lib, x: f(lib).softmax(x, 0), (4,)),
    "log_softmax": (lambda lib, x: f(lib).log_softmax(x, 0), (4,)),
    "sum": (lambda lib, x: x.sum(), (4,)),
    "exp": (lambda lib, x: x.exp(), (4,)),
    "pow": (lambda lib, x: x**3, (4,)),
    "cumsum": (lambda lib, x: x.cumsum(0), (4,)),
    "cumprod": (lambda lib, x: x.cumprod(0), (4,)),
    "logsumexp": (lambda lib, x: lib.logsumexp(x, 0), (4,)),
    "norm": (lambda lib, x: lib.norm(x), (4,)),
    "outer": (lambda lib, a, b: lib.outer(a, b), (3,), (4,)),
    "layer_norm": (lambda lib, x: f(lib).layer_norm(x, (4,)), (3, 4)),
    "group_norm": (lambda lib, x: f(lib).group_norm(x, 2), (2, 4, 3)),
    "avg_pool2d": (lambda lib, x: f(lib).avg_pool2d(x, 2), (1, 2, 4, 4)),
    "max_pool2d": (lambda lib, x: f(lib).max_pool2d(x, 2), (1, 2, 4, 4)),
    "gelu": (lambda lib, x: f(lib).gelu(x), (4,)),
    "cosine_similarity": (lambda lib, a, b: f(lib).cosine_similarity(a, b), (2, 4), (2, 4)),
    "interpolate": (lambda lib, x: f(lib).interpolate(x, scale_factor=2), (1, 2, 4, 4)),
    "mv": (lambda lib, a, x: lib.mv(a, x), (3, 4), (4,)),
    "dot": (lambda lib, a, b: lib.dot(a, b), (4,), (4,)),
    "where": (lambda lib, a, b: lib.where(a > 0.5, a, b), (4,), (4,)),
}
KINDS = {"float32": ("float32", "float32"), "16 bits": ("low", "low"), "mixed": ("float32", "low"), "mixed too": ("low", "float32")}


def arguments(shapes, kind, low):
    """Both libraries' tensors, in (0.1, 0.9) so that every operation is defined, of values that 16 bits hold."""
    ours, theirs = [], []
    for i, shape in enumerate(shapes):
        type_name = KINDS[kind][min(i, 1)]
        data = np.round((0.1 + 0.8 * np.random.default_rng(i).random(shape)) * 128) / 128
        for lib, out in ((fl, ours), (torch, theirs)):
            x = lib.tensor(data.astype(np.float32)).to(getattr(lib, low if type_name == "low" else "float32"))
            out.append(x.requires_grad_())
    return ours, theirs


def weighted(lib, y):
    y = y.float().flatten()
    return (y * lib.arange(y.shape[0], dtype=lib.float32)).sum() / y.shape[0]


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*OPS, *PLAIN])
def test_types_and_values(name, kind, low):
    function, *shapes = (OPS | PLAIN)[name]
    if kind == "mixed too" and len(shapes) == 1:
        pytest.skip("one argument")
    ours, theirs = arguments(shapes, kind, low)
    try:
        with torch.autocast("cpu", dtype=getattr(torch, low)):
            want = function(torch, *theirs)
        weighted(torch, want).backward()
    except RuntimeError as fault:
        pytest.skip(f"PyTorch: {fault}")
    with fl.autocast("cpu", dtype=getattr(fl, low)):
        got = function(fl, *ours)
    weighted(fl, got).backward()
    assert dtype_name(got) == dtype_name(want)
    step = 2.0**-7 if low == "bfloat16" else 2.0**-10
    np.testing.assert_allclose(values(got), values(want), rtol=2 * step, atol=step)
    if name in ("layer_norm", "group_norm"):  # PyTorch keeps their statistics in 16 bits, and loses the gradient's first digit
        types = [b.dtype for b in theirs]
        theirs = [b.detach().double().requires_grad_() for b in theirs]
        weighted(torch, function(torch, *theirs)).backward()
        for b, t in zip(theirs, types):
            grad, b.grad = b.grad, None
            b.data = b.data.to(t)
            b.grad = None if grad is None else grad.to(t)
    for a, b in zip(ours, theirs):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert dtype_name(a.grad) == dtype_name(b.grad) == dtype_name(a)
            np.testing.assert_allclose(values(a.grad), values(b.grad), rtol=4 * step, atol=8 * step)


def test_doubles_stay():
    a = randn(3, 3)
    for name in ("mm", "matmul", "mse_loss", "prod"):
        function, *shapes = OPS[name]
        args = [a] * len(shapes)
        with fl.autocast("cpu"), torch.autocast("cpu"):
            assert dtype_name(function(fl, *as_ours(args))) == dtype_name(function(torch, *as_theirs(args))) == "float64"


LAYERS = {
    "LSTM": (lambda nn: nn.LSTM(3, 4), (5, 2, 3)),
    "GRU": (lambda nn: nn.GRU(3, 4), (5, 2, 3)),
    "RNN": (lambda nn: nn.RNN(3, 4), (5, 2, 3)),
    "LSTMCell": (lambda nn: nn.LSTMCell(3, 4), (2, 3)),
    "GRUCell": (lambda nn: nn.GRUCell(3, 4), (2, 3)),
    "RNNCell": (lambda nn: nn.RNNCell(3, 4), (2, 3)),
    "TransformerEncoderLayer": (lambda nn: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (5, 2, 8)),
    "Conv2d, BatchNorm2d": (lambda nn: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), (2, 3, 8, 8)),
    "Linear, LayerNorm": (lambda nn: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)), (2, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    theirs, ours = make(torch.nn), make(fl.nn)
    ours.load_state_dict({k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = randn(*shape, dtype=np.float32)
    results = []
    for lib, model in ((fl, ours), (torch, theirs)):
        with lib.autocast("cpu", dtype=lib.bfloat16):
            try:
                y = model(lib.tensor(x))
            except RuntimeError as error:
                if lib is torch and "could not create a primitive descriptor" in str(error):
                    pytest.skip("PyTorch has no 16-bit kernel of this layer for this processor")
                raise
        y = y[0] if isinstance(y, tuple) else y
        y.float().square().sum().backward()
        results.append((y, [p.grad for p in model.parameters()]))
    (got, grads), (want, expected) = results
    assert dtype_name(got) == dtype_name(want)
    np.testing.assert_allclose(values(got), values(want), rtol=0.03, atol=0.03)
    size = max(float(g.norm()) for g in expected)
    for a, b in zip(grads, expected):
        assert dtype_name(a) == dtype_name(b) == "float32"
        np.testing.assert_allclose(values(a), values(b), rtol=0.1, atol=0.03 * size)


def switches(lib, *types):
    """What a program sees of the switches, nested in every way."""
    seen = []

    def look():
        seen.append((lib.is_autocast_enabled("cpu"), str(lib.get_autocast_dtype("cpu")).split(".")[1], dtype_name(lib.ones(2, 2) @ lib.ones(2, 2))))

    look()
    with lib.autocast("cpu", dtype=lib.float16):
        look()
        with lib.autocast("cpu"):
            look()
        with lib.autocast("cpu", dtype=lib.bfloat16):
            look()
            with lib.autocast("cpu", enabled=False):
                look()
                with lib.autocast("cpu"):
                    look()
        with lib.autocast("cpu", enabled=False, dtype=lib.bfloat16):
            look()
        lib.set_autocast_enabled("cpu", False)
        look()
    look()
    return seen


def test_switches():
    assert switches(fl) == switches(torch)


def test_grad_scaler():
    seen = []
    for lib in LIBS:
        p = lib.ones(3, requires_grad=True)
        optimizer = lib.optim.SGD([p], lr=0.5, momentum=0.9)
        scaler = lib.amp.GradScaler("cpu", init_scale=16.0, growth_interval=2)
        trace = []
        for weight in (1.0, 2.0, float("inf"), 1.0, float("nan"), 3.0, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((p * weight).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            trace.append((scaler.get_scale(), p.tolist(), scaler.state_dict()))
        seen.append(trace)
    assert seen[0] == seen[1]


def test_weights_of_attention_with_a_mask():
    x, p = randn(3, 2, 4, dtype=np.float32), [randn(12, 4, dtype=np.float32), randn(12, dtype=np.float32), randn(4, 4, dtype=np.float32), randn(4, dtype=np.float32)]
    results = []
    for lib, convert in ((fl, as_ours), (torch, as_theirs)):
        q, w, b, out, bias = convert([x, *p])
        with lib.autocast("cpu"):
            pair = f(lib).multi_head_attention_forward(q, q, q, 4, 2, w, b, None, None, False, 0.0, out, bias, attn_mask=lib.zeros(3, 3))
        results.append([dtype_name(t) for t in pair])
    assert results[0] == results[1]
