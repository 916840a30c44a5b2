"""Kernels of 16-bit floats: the values of the same op in float64, within the rounding of the type, and no float32 copies."""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import TOLERANCES

import flambeau as fl
from flambeau import _C, nn

F = nn.functional
HALVES = [fl.bfloat16, fl.float16]


def half(dtype, *shape):
    """Random values that the type holds."""
    return fl.randn(shape).to(dtype)


def last(x):
    """x with channels-last bytes, where the processor convolves its type; the values are the same."""
    c = x.shape[1]
    return F.conv2d(x, fl.eye(c, dtype=x.dtype).view(c, c, 1, 1))


def values(x):
    return x.detach().double().numpy()


def check(function, inputs, layout=lambda x: x, scale=1.0):
    """The results and gradients of `function` in 16 bits beside those in float64."""
    low = [layout(x).detach().requires_grad_() for x in inputs]
    wide = [x.double().detach().requires_grad_() for x in inputs]
    got, expected = function(*low), function(*wide)
    got, expected = (r if isinstance(r, tuple) else (r,) for r in (got, expected))
    up = [half(low[0].dtype, *y.shape) for y in got]
    pairs = list(zip(got, expected))
    for y in got:
        assert y.dtype == low[0].dtype
    pairs += zip(fl.autograd.grad(got, low, [layout(g) if g.ndim == 4 and g.shape[1] > 1 else g for g in up]),
                 fl.autograd.grad(expected, wide, [g.double() for g in up]))  # fmt: skip
    tolerance = scale * TOLERANCES[low[0].dtype.name][0]
    for a, b in pairs:
        a, b = values(a), values(b)
        assert a.shape == b.shape
        assert np.isfinite(a).all()
        size = np.sqrt(np.mean(b**2)) if b.size else 1.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(size, 1e-3))


@pytest.fixture(params=["plain", "last"])
def layout(request):
    before = _C.get_deferred_layout()
    _C.set_deferred_layout(request.param == "last")
    yield last if request.param == "last" else lambda x: x
    _C.set_deferred_layout(before)


IMAGES = {
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch norm of running statistics": lambda x: F.batch_norm(x, fl.zeros(x.shape[1]).to(x.dtype) + 0.25, fl.ones(x.shape[1]).to(x.dtype) * 2),
    "max pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "dilated max pool": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "overlapping average pool": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "average pool": lambda x: F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False),
    "average pool with holes": lambda x: F.avg_pool2d(x, 2, 3),
    "average pool, given divisor": lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "global pool": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive max pool": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("channels", [3, 64, 70])
@pytest.mark.parametrize("name", IMAGES)
def test_images(layout, name, channels, dtype):
    check(IMAGES[name], [half(dtype, 3, channels, 9, 7)], layout)


@pytest.mark.parametrize("dtype", HALVES)
def test_batch_norm_of_columns(dtype):
    def norm(x, weight, bias):
        return F.batch_norm(x, None, None, weight, bias, training=True)

    check(norm, [half(dtype, 600, 70) + 3, half(dtype, 70), half(dtype, 70)], scale=2)


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_of_a_batch_norm_are_in_float32(dtype):
    x = last(half(dtype, 16, 8, 40, 40) * 0.1 + 2)
    y = F.batch_norm(x, None, None, training=True).double()
    assert abs(y.mean((0, 2, 3)).numpy()).max() < 0.02
    assert abs((y * y).mean((0, 2, 3)).numpy() - 1).max() < 0.02


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("pool", [lambda x: F.max_pool2d(x, 2, 1), lambda x: F.avg_pool2d(x, 2, 1), lambda x: F.batch_norm(x, None, None, training=True)])
def test_special_values(layout, pool, dtype):
    x = half(dtype, 2, 3, 5, 6)
    x[0, 1, 2, 3] = float("nan")
    x[1, 0, 1, 1] = float("inf")
    got, expected = pool(layout(fl.zeros_like(x)) + x), pool(x.float())
    np.testing.assert_array_equal(np.isnan(values(got)), np.isnan(values(expected)))
    np.testing.assert_array_equal(np.isposinf(values(got)), np.isposinf(values(expected)))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(0, 3, 5, 4), (2, 0, 5, 4)])
def test_empty_images(shape, dtype):
    for function in (IMAGES["max pool"], IMAGES["average pool"], IMAGES["global pool"], IMAGES["batch norm of running statistics"]):
        x = fl.zeros(*shape, dtype=dtype, requires_grad=True)
        y = function(x)
        assert y.dtype == dtype and y.numel() == 0
        y.sum().backward()
        assert x.grad.shape == shape


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_is_converted_exactly(dtype):
    bits = np.arange(65536, dtype=np.uint16)
    every = fl.from_numpy(bits.view(np.int16)).view(dtype)
    wide = (bits.astype(np.uint32) << 16).view(np.float32) if dtype is fl.bfloat16 else bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(every.float().numpy(), wide)
    back = every.float().to(dtype).view(fl.int16).numpy().view(np.uint16)
    numbers = ~np.isnan(wide)
    np.testing.assert_array_equal(back[numbers], bits[numbers])
    assert np.isnan(every.float().to(dtype).float().numpy()[~numbers]).all()
    # The column kernels read and write by themselves: shifted by 0 and scaled by 1, they give the same.
    finite = np.isfinite(wide)
    x = every[fl.from_numpy(finite)].view(-1, 2)
    y = F.batch_norm(x, fl.zeros(2), fl.ones(2), eps=0.0)
    np.testing.assert_array_equal(y.float().numpy(), x.float().numpy())


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_is_to_nearest_even(dtype):
    rng = np.random.default_rng(0)
    wide = np.concatenate([rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32), rng.normal(size=5000).astype(np.float32) * 1e-6,
                           np.float32([65504, 65519.99, 65520, 65536, 2**-24, 2**-25, 1.5 * 2**-24, -(2**-25), 2**-14, 0.0, -0.0])])  # fmt: skip
    wide = wide[~np.isnan(wide)]
    got = fl.from_numpy(wide).to(dtype).float().numpy()
    if dtype is fl.float16:
        with np.errstate(over="ignore"):
            expected = wide.astype(np.float16).astype(np.float32)
    else:
        u = wide.view(np.uint32).astype(np.uint64)
        expected = (((u + 0x7FFF + ((u >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(got, expected)


def peak_bytes(function):
    """The most bytes that were allocated while it ran, beyond those before."""
    before = _C.memory_stats()["allocated_bytes"]
    fl.reset_peak_memory_stats()
    result = function()
    peak = _C.memory_stats()["peak_allocated_bytes"] - before
    del result
    return peak


# Bytes per element of x in the results that a call leaves or must have: 2 for a 16-bit one, 8 for an index.
@pytest.mark.slow
@pytest.mark.skipif(_C.onednn_version() is None, reason="only oneDNN's convolutions make channels-last bytes")
@pytest.mark.parametrize("name, forward, backward", [
    ("batch norm", 2, 2), ("max pool", 10 / 4, 2), ("overlapping average pool", 2, 2), ("global pool", 0, 2),
])  # fmt: skip
@pytest.mark.eager("memory")
def test_images_are_not_copied_to_float32(layout, name, forward, backward):
    x = layout(half(fl.bfloat16, 64, 64, 32, 32)).detach().requires_grad_()
    n = x.numel()
    y = IMAGES[name](x)
    g = layout(fl.ones_like(y))
    pieces = 4 * 64 * 32 * 32 * fl.get_num_threads() + n // 8
    assert peak_bytes(lambda: IMAGES[name](x)) <= forward * n + pieces
    assert peak_bytes(lambda: fl.autograd.grad(y, x, g)) <= backward * n + pieces


# ---- recurrent layers


RECURRENT = {
    "lstm": lambda reverse: lambda x, h, c, w: _C.ops.lstm_sequence(x, h, c, w, reverse)[:3],
    "gru": lambda reverse: lambda x, h, w, b: _C.ops.gru_sequence(x, h, w, b, reverse)[:2],
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("steps, batch, hidden", [(1, 1, 3), (5, 3, 40), (4, 33, 70)])
@pytest.mark.parametrize("kind", RECURRENT)
def test_sequences(kind, steps, batch, hidden, reverse, dtype):
    gates = {"lstm": 4, "gru": 3}[kind] * hidden
    x, h = half(dtype, steps, batch, gates), half(dtype, batch, hidden)
    weight = (fl.randn(gates, hidden) / hidden**0.5).to(dtype)
    inputs = [x, h, half(dtype, batch, hidden), weight] if kind == "lstm" else [x, h, weight, half(dtype, gates)]
    check(RECURRENT[kind](reverse), inputs, scale=2)


@pytest.mark.parametrize("dtype", HALVES)
def test_cells(dtype):
    check(lambda *x: _C.ops.lstm_cell(*x)[:2], [half(dtype, 5, 52), half(dtype, 5, 52), half(dtype, 5, 13)])
    check(lambda *x: _C.ops.gru_cell(*x)[:1], [half(dtype, 5, 39), half(dtype, 5, 39), half(dtype, 5, 13)])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kind", RECURRENT)
def test_empty_sequences(kind, dtype):
    gates = {"lstm": 4, "gru": 3}[kind] * 6
    h, weight = fl.zeros(0, 6, dtype=dtype), fl.zeros(gates, 6, dtype=dtype, requires_grad=True)
    x = fl.zeros(3, 0, gates, dtype=dtype)
    inputs = (x, h, h, weight) if kind == "lstm" else (x, h, weight, None)
    ys = RECURRENT[kind](False)(*inputs)[0]
    ys.sum().backward()
    assert ys.shape == (3, 0, 6) and weight.grad.float().abs().max().item() == 0


def test_a_cell_state_is_kept_in_float32():
    # c grows by 2^-10 a step: in bfloat16 it would stay at 1.
    steps, size = 64, 32
    x = fl.zeros(steps, 1, 4 * size, dtype=fl.bfloat16)
    x[:, :, size : 2 * size] = 30.0  # forget gate 1
    x[:, :, :size] = 30.0  # input gate 1
    x[:, :, 2 * size : 3 * size] = 2.0**-10
    h, c = fl.zeros(1, size, dtype=fl.bfloat16), fl.ones(1, size, dtype=fl.bfloat16)
    c_n = _C.ops.lstm_sequence(x, h, c, fl.zeros(4 * size, size, dtype=fl.bfloat16))[2]
    np.testing.assert_array_equal(c_n.float().numpy(), 1 + steps * 2.0**-10)


@pytest.mark.parametrize("kind", RECURRENT)
def test_sequences_are_not_copied_to_float32(kind):
    steps, batch, hidden = 64, 16, 64
    gates = {"lstm": 4, "gru": 3}[kind] * hidden
    x, h = half(fl.bfloat16, steps, batch, gates).requires_grad_(), half(fl.bfloat16, batch, hidden)
    weight = half(fl.bfloat16, gates, hidden).requires_grad_()
    call = RECURRENT[kind](False)
    inputs = (x, h, h, weight) if kind == "lstm" else (x, h, weight, None)
    ys = call(*inputs)[0]
    n, g = steps * batch * hidden, fl.ones_like(ys)
    small = 40 * 4 * hidden * hidden  # weights, states
    # Kept in float32 for the backward pass: 4 gates and for an LSTM the cell states.
    assert peak_bytes(lambda: call(*inputs)) <= n * (2 + 4 * 4 + (4 if kind == "lstm" else 0)) + small
    if not _C.onednn_multiplies(fl.bfloat16):
        return  # the weight's product makes copies there
    # The gates' gradients, for a GRU those of the hidden halves, and the states in order; kernels of AMX copy both operands of the
    # weight's product into tiles, in 16 bits.
    tiles = n * 2 * (gates // hidden + 1)
    assert peak_bytes(lambda: fl.autograd.grad(ys, [x, weight], g)) <= n * (2 * gates // hidden * (1 if kind == "lstm" else 2) + 2 + 4) + small + tiles


# ---- products and sums


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float32])
def test_a_transposed_batch_is_one_product_of_rows(dtype):
    x = half(dtype, 25, 32, 64).transpose(0, 1)
    weight, g = half(dtype, 300, 64).requires_grad_(), half(dtype, 32, 25, 300)

    def gradient(x):
        (dw,) = fl.autograd.grad(F.linear(x, weight), weight, g)
        return dw

    np.testing.assert_array_equal(gradient(x).float().numpy(), gradient(x.contiguous()).float().numpy())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(1, 130), (70, 3), (300, 600)])
def test_column_sums(shape, dtype):
    check(lambda x: x.sum(0), [half(dtype, *shape)])
    check(lambda x: x.var(0), [half(dtype, shape[0] + 1, shape[1])])
    x = half(dtype, *shape)
    np.testing.assert_array_equal(x.t().amax(1).float().numpy(), values(x).max(0))


# ---- attention


def float_mask(dtype, *shape):
    mask = half(dtype, *shape)
    mask[..., 0, :] = float("-inf")  # a query that may look at nothing
    return mask


MASKS = {
    "none": lambda dtype: {},
    "causal": lambda dtype: {"is_causal": True},
    "bool": lambda dtype: {"attn_mask": fl.rand(3, 1, 70, 300) > 0.3},
    "float": lambda dtype: {"attn_mask": float_mask(dtype, 70, 300)},
    "scale": lambda dtype: {"scale": 0.3},
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MASKS)
def test_attention(name, dtype):
    given = MASKS[name](dtype)

    def attend(q, k, v):
        mask = given.get("attn_mask")
        wide = {"attn_mask": mask.double()} if mask is not None and mask.dtype == dtype and q.dtype == fl.float64 else {}
        return F.scaled_dot_product_attention(q, k, v, **(given | wide))

    inputs = [half(dtype, 3, 2, 70, 40), half(dtype, 3, 2, 300, 40), half(dtype, 3, 2, 300, 24)]
    check(attend, inputs, scale=2)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("q, k, v", [((2, 5, 8), (2, 6, 8), (2, 6, 4)), ((1, 1), (1, 1), (1, 1)), ((2, 0, 8), (2, 6, 8), (2, 6, 4)), ((0, 5, 8), (0, 6, 8), (0, 6, 4))])
def test_small_and_empty_attention(q, k, v, dtype):
    check(F.scaled_dot_product_attention, [half(dtype, *q), half(dtype, *k), half(dtype, *v)])


def test_attention_sums_over_blocks_in_float32():
    # 4,096 keys alike: each output is the mean of the values, which bfloat16 sums would miss by far.
    q, k, v = fl.zeros(1, 64, 32, dtype=fl.bfloat16), fl.zeros(1, 4096, 32, dtype=fl.bfloat16), half(fl.bfloat16, 1, 4096, 32) + 1
    y = F.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(values(y)[0, 0], values(v)[0].mean(0), rtol=2.0**-8)


@pytest.mark.slow
@pytest.mark.eager("memory")
def test_attention_is_not_copied_to_float32():
    q, k, v = (half(fl.bfloat16, 16, 8, 128, 64).requires_grad_() for _ in range(3))
    y, n = F.scaled_dot_product_attention(q, k, v), q.numel()
    g = fl.ones_like(y)
    tiles = fl.get_num_threads() * 4 * (4 * 64 * 256 + 3 * 128 * 64) + n // 8
    assert peak_bytes(lambda: F.scaled_dot_product_attention(q, k, v)) <= 2 * n + tiles
    assert peak_bytes(lambda: fl.autograd.grad(y, [q, k, v], g)) <= 6 * n + tiles


# ---- losses


def classes(*shape, n):
    target = fl.randint(0, n, shape)
    if target.numel() > 2:
        target.view(-1)[1] = -100
    return target


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("given", ["plain", "weight", "smoothing", "both"])
@pytest.mark.parametrize("shape", [(5,), (40, 7), (3, 1100), (2, 19, 9, 11), (2, 2100, 13)])
def test_cross_entropy(shape, given, reduction, dtype):
    n = shape[0] if len(shape) == 1 else shape[1]
    target = classes(*(() if len(shape) == 1 else (shape[0], *shape[2:])), n=n)
    weight = fl.rand(n).to(dtype) + 0.5 if given in ("weight", "both") else None
    smoothing = 0.1 if given in ("smoothing", "both") else 0.0

    def loss(x):
        w = None if weight is None else weight.to(x.dtype)
        return F.cross_entropy(x, target, w, reduction=reduction, label_smoothing=smoothing)

    check(loss, [half(dtype, *shape)])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("shape", [(40, 7), (2, 5, 9)])
def test_nll_loss(shape, reduction, dtype):
    target = classes(shape[0], *shape[2:], n=shape[1])
    check(lambda x: F.nll_loss(x, target, reduction=reduction), [half(dtype, *shape)])


POINTWISE = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "bce with logits": F.binary_cross_entropy_with_logits,
    "kl_div": F.kl_div,
}


@pytest.mark.filterwarnings("ignore:.*batchmean")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("shape", [(3,), (70, 130)])
def test_pointwise_losses(shape, name, reduction, dtype):
    target = fl.rand(*shape).to(dtype)
    check(lambda x: POINTWISE[name](x, target.to(x.dtype), reduction=reduction), [half(dtype, *shape)])


@pytest.mark.parametrize("dtype", HALVES)
def test_weighted_pointwise_losses(dtype):
    target, weight = fl.rand(70, 130).to(dtype), fl.rand(130).to(dtype)

    def loss(x):
        t, w = target.to(x.dtype), weight.to(x.dtype)
        return F.binary_cross_entropy_with_logits(x, t, weight=w, pos_weight=w + 1)

    check(loss, [half(dtype, 70, 130)])


@pytest.mark.parametrize("dtype", HALVES)
def test_empty_losses(dtype):
    x = fl.zeros(0, 5, dtype=dtype, requires_grad=True)
    F.cross_entropy(x, fl.zeros(0, dtype=fl.int64), reduction="sum").backward()
    F.mse_loss(x, fl.zeros(0, 5, dtype=dtype), reduction="sum").backward()
    assert x.grad.shape == (0, 5)


@pytest.mark.parametrize("name, loss", [
    ("rows", lambda x: F.cross_entropy(x, fl.zeros(2048, dtype=fl.int64), label_smoothing=0.1)),
    ("planes", lambda x: F.cross_entropy(x.view(8, 256, 256), fl.zeros(8, 256, dtype=fl.int64))),
    ("mse", lambda x: F.mse_loss(x, x.detach())),
    ("bce", lambda x: F.binary_cross_entropy_with_logits(x, x.detach())),
])  # fmt: skip
@pytest.mark.eager("memory")
def test_losses_are_not_copied_to_float32(name, loss):
    x = half(fl.bfloat16, 2048, 256).requires_grad_()
    y, n = loss(x), x.numel()
    pieces = fl.get_num_threads() * 4 * 5 * 16384 + n // 8
    assert peak_bytes(lambda: loss(x)) <= pieces
    assert peak_bytes(lambda: fl.autograd.grad(y, x)) <= 2 * n + pieces


# ---- convolutions


@pytest.mark.parametrize("stride, kernel, padding", [(1, 3, 1), (2, 3, 1), (2, 5, 2), (3, 3, 0)])
@pytest.mark.parametrize("channels", [16, 70])
@pytest.mark.parametrize("dtype", HALVES)
def test_depthwise_convolutions(layout, dtype, channels, stride, kernel, padding):
    def convolve(x, weight):
        return F.conv2d(x, weight, stride=stride, padding=padding, groups=channels)

    x, weight = half(dtype, 2, channels, 15, 14), half(dtype, channels, 1, kernel, kernel)
    check(convolve, [x, weight], lambda t: layout(t) if t.shape[1] > 1 else t, scale=2)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_under_autocast_reads_16_bit_logits(dtype, smoothing):
    logits, target, weight = half(dtype, 64, 4096).requires_grad_(), classes(64, n=4096), fl.rand(4096)
    n = logits.numel()

    def loss():
        with fl.autocast("cpu", dtype=dtype):
            return F.cross_entropy(logits, target, weight, label_smoothing=smoothing)

    got, expected = loss(), F.cross_entropy(logits.float(), target, weight, label_smoothing=smoothing)
    assert got.dtype == fl.float32 and got.item() == expected.item()
    (a,), (b,) = (fl.autograd.grad(y, logits, retain_graph=True) for y in (got, expected))
    assert a.dtype == dtype
    np.testing.assert_array_equal(values(a), values(b))
    assert peak_bytes(loss) < n
    (a,), (b,) = (fl.autograd.grad(fl.autograd.grad(f(), logits, create_graph=True)[0].float().square().sum(), logits) for f in (
        loss, lambda: F.cross_entropy(logits.float(), target, weight, label_smoothing=smoothing)))  # fmt: skip
    np.testing.assert_allclose(values(a), values(b), rtol=0.05, atol=float(abs(values(b)).max()) * 0.05)


def test_autocast_gives_prod_its_type():
    x = fl.full((20,), 3.0, dtype=fl.float16)
    with fl.autocast("cpu"):
        assert fl.prod(x).item() == pytest.approx(3.0**20, rel=2e-7)  # beyond float16
        assert fl.prod(x, dtype=fl.float64).dtype == fl.float64


def test_cross_entropy_refuses_another_type():
    with pytest.raises(fl.DTypeError, match=r"cross_entropy: dtype = float64, but x is bfloat16; expected float32"):
        _C.ops.cross_entropy(fl.zeros(2, 3, dtype=fl.bfloat16), fl.zeros(2, dtype=fl.int64), dtype=fl.float64)
    with pytest.raises(fl.DTypeError, match=r"weight is float64; expected one dtype"):
        F.cross_entropy(fl.zeros(2, 3, dtype=fl.bfloat16), fl.zeros(2, dtype=fl.int64), fl.ones(3, dtype=fl.float64))


@pytest.mark.parametrize("logits", [fl.float32, fl.bfloat16, fl.float16])
@pytest.mark.parametrize("weights", [fl.float32, fl.bfloat16, fl.float16])
def test_cross_entropy_under_autocast_takes_any_mixture(logits, weights):
    x, target, weight = fl.randn(6, 5), fl.tensor([0, 4, 2, 2, 1, 3]), fl.rand(5) + 0.5
    with fl.autocast("cpu", dtype=fl.bfloat16):
        loss = F.cross_entropy(x.to(logits), target, weight.to(weights))
    want = F.cross_entropy(x.to(logits).double(), target, weight.to(weights).double())
    assert loss.dtype == fl.float32
    assert abs(loss.item() - want.item()) < 1e-5


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_targets_that_an_array_changed_are_refused_backwards(loss):
    array = np.array([0, 1, 2])
    x = fl.randn(3, 4, requires_grad=True)
    y = loss(x, fl.from_numpy(array))
    array[1] = 9
    with pytest.raises(IndexError, match="target became 9 at element 1"):
        y.backward()
    assert x.grad is None
