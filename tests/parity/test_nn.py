"""Networks beside PyTorch: convolutions, pools, norms, losses, attention, cells, layers and optimizers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from beside import assert_same, beside, randn, torch

import flambeau as fl

CONVS = [
    dict(stride=s, padding=p, dilation=d, groups=g) for s, p, d, g in itertools.product([1, 2, (2, 1)], [0, 1, (1, 2)], [1, 2], [1, 2, 4])
]


@pytest.mark.parametrize("how", CONVS, ids=str)
def test_conv2d(how):
    x, w, b = randn(2, 4, 7, 8), randn(8, 4 // how["groups"], 3, 2), randn(8)
    beside(lambda lib, x, w, b: lib.nn.functional.conv2d(x, w, b, **how), x, w, b, scale=5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("size", [(1, 1, 5, 5, 1, 1), (3, 8, 12, 9, 16, 3), (2, 3, 28, 28, 6, 5), (1, 32, 10, 10, 32, 3)], ids=str)
def test_conv2d_sizes(size, dtype):
    n, c, h, w, o, k = size
    beside(lambda lib, x, w: lib.nn.functional.conv2d(x, w, None, padding=k // 2), randn(n, c, h, w, dtype=dtype), randn(o, c, k, k, dtype=dtype), scale=20)


@pytest.mark.parametrize("how", [dict(), dict(stride=2), dict(padding=2), dict(dilation=2, groups=2)], ids=str)
def test_conv1d_and_conv3d(how):
    g = how.get("groups", 1)
    beside(lambda lib, x, w, b: lib.nn.functional.conv1d(x, w, b, **how), randn(2, 4, 11), randn(6, 4 // g, 3), randn(6), scale=5)
    beside(lambda lib, x, w, b: lib.nn.functional.conv3d(x, w, b, **how), randn(1, 4, 5, 6, 7), randn(2, 4 // g, 3, 3, 3), randn(2), scale=5)


@pytest.mark.parametrize("how", [dict(), dict(stride=2), dict(stride=2, padding=1, output_padding=1), dict(dilation=2), dict(groups=2, stride=(2, 1))], ids=str)
def test_conv_transpose2d(how):
    g = how.get("groups", 1)
    beside(lambda lib, x, w, b: lib.nn.functional.conv_transpose2d(x, w, b, **how), randn(2, 4, 5, 6), randn(4, 6 // g, 3, 2), randn(6), scale=5)


POOLS = [dict(kernel_size=k, stride=s, padding=p, ceil_mode=c) for k, s, p, c in itertools.product([2, 3, (3, 2)], [None, 1, 2, (2, 3)], [0, 1], [False, True])]


@pytest.mark.parametrize("how", POOLS, ids=str)
def test_pools(how):
    x = randn(2, 3, 9, 8)
    beside(lambda lib, x: lib.nn.functional.max_pool2d(x, **how), x)
    beside(lambda lib, x: lib.nn.functional.avg_pool2d(x, **how), x)
    beside(lambda lib, x: lib.nn.functional.avg_pool2d(x, count_include_pad=False, **how), x)
    beside(lambda lib, x: tuple(lib.nn.functional.max_pool2d(x, return_indices=True, **how)), x)


@pytest.mark.parametrize("size", [1, 2, 3, (4, 5), 9], ids=str)
def test_adaptive_pools(size):
    beside(lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, size), randn(2, 3, 9, 8))
    beside(lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, size), randn(2, 3, 9, 8))


def test_pools_1d_and_nan():
    beside(lambda lib, x: lib.nn.functional.max_pool1d(x, 3, 2, 1), randn(2, 3, 9))
    beside(lambda lib, x: lib.nn.functional.avg_pool1d(x, 3, 2, 1), randn(2, 3, 9))
    x = randn(1, 1, 4, 4)
    x[0, 0, 1, 1] = np.nan
    beside(lambda lib, x: lib.nn.functional.max_pool2d(x, 2), x)
    beside(lambda lib, x: lib.nn.functional.max_pool2d(x, 2, dilation=2, stride=1), x)


@pytest.mark.parametrize("shape", [(6, 4), (5, 4, 3), (3, 4, 5, 2)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_norms(shape, affine):
    x, w, b = randn(*shape), randn(4, seed=1), randn(4, seed=2)
    last, lb = randn(shape[-1], seed=3), randn(shape[-1], seed=4)
    F = "functional"

    def f(lib):
        return getattr(lib.nn, F)

    if affine:
        beside(lambda lib, x, w, b: f(lib).layer_norm(x, (shape[-1],), w, b), x, last, lb, scale=10)
        beside(lambda lib, x, w: f(lib).rms_norm(x, (shape[-1],), w), x, last, scale=10)
        beside(lambda lib, x, w, b: f(lib).group_norm(x, 2, w, b), x, w, b, scale=10)
        beside(lambda lib, x, w, b: f(lib).batch_norm(x, None, None, w, b, True), x, w, b, scale=10)
    else:
        beside(lambda lib, x: f(lib).layer_norm(x, shape[1:]), x, scale=10)
        beside(lambda lib, x: f(lib).group_norm(x, 4 if len(shape) > 2 else 2), x, scale=10)
        beside(lambda lib, x, m, v: f(lib).batch_norm(x, m.detach(), v.detach(), training=False), x, w, np.abs(b) + 0.5, scale=10)
        if len(shape) > 2:
            beside(lambda lib, x: f(lib).instance_norm(x), x, scale=10)


@pytest.mark.parametrize("steps", [3])
@pytest.mark.parametrize("momentum", [0.1, None], ids=str)
def test_running_statistics(steps, momentum):
    a, b = fl.nn.BatchNorm2d(3, momentum=momentum).double(), torch.nn.BatchNorm2d(3, momentum=momentum).double()
    for i in range(steps):
        x = randn(4, 3, 2, 2, seed=i)
        assert_same(a(fl.tensor(x)), b(torch.tensor(x)), scale=10)
    assert_same(a.running_mean, b.running_mean)
    assert_same(a.running_var, b.running_var)
    a.eval(), b.eval()
    assert_same(a(fl.tensor(x)), b(torch.tensor(x)), scale=10)


LOSSES = {
    "mse_loss": {}, "l1_loss": {}, "smooth_l1_loss": {"beta": 0.5}, "huber_loss": {"delta": 0.7}, "binary_cross_entropy_with_logits": {}, "kl_div": {}, "binary_cross_entropy": {}, "soft_margin_loss": {}, "poisson_nll_loss": {},
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", list(LOSSES))
def test_losses(name, reduction):
    x, y = randn(4, 5), randn(4, 5, seed=9)
    if name == "binary_cross_entropy":
        x = 1 / (1 + np.exp(-x))
    if name.startswith("binary") or name == "kl_div":
        y = 1 / (1 + np.exp(-y))
    beside(lambda lib, x, y: getattr(lib.nn.functional, name)(x, y.detach(), reduction=reduction, **LOSSES[name]), x, y)


@pytest.mark.parametrize("types", ["bfloat16 float32", "float32 float64", "float64 float32", "float32 bfloat16", "float32 bool"])
@pytest.mark.parametrize("name", ["binary_cross_entropy_with_logits", "soft_margin_loss", "mse_loss", "smooth_l1_loss"])
def test_losses_of_two_types(name, types):
    x, y, w = randn(4, 5), 1 / (1 + np.exp(-randn(4, 5, seed=9))), np.abs(randn(5, seed=2))

    def run(lib):
        a, b = (getattr(lib, t) for t in types.split())
        value, target = lib.tensor(x).to(a).requires_grad_(), lib.tensor(y > 0.5 if types.endswith("bool") else y).to(b)
        how = {"pos_weight": lib.tensor(w).to(a), "weight": lib.tensor(w).double()} if name.startswith("binary") else {}
        try:
            loss = getattr(lib.nn.functional, name)(value, target, **how)
            loss.backward()
        except (RuntimeError, TypeError):
            return None
        return [str(t.dtype).rpartition(".")[2] for t in (loss, value.grad)], loss.double().item(), value.grad.double().sum().item()

    ours, theirs = run(fl), run(torch)
    if theirs is None or ours is None:
        assert ours is None or types.endswith("bool")
        return
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1:], theirs[1:], rtol=0.02 if "bfloat16" in types else 1e-5, atol=0.01 if "bfloat16" in types else 1e-6)


@pytest.mark.parametrize("types", ["bfloat16 float32", "float64 float32", "float16 float32"])
def test_attention_with_a_float_mask(types):
    q, k, v, m = (randn(2, 5, 4, seed=i) for i in range(4))

    def run(lib):
        a, b = (getattr(lib, t) for t in types.split())
        mask = lib.tensor(m[0] @ m[1].T).to(b)
        y = lib.nn.functional.scaled_dot_product_attention(*(lib.tensor(t).to(a) for t in (q, k, v)), attn_mask=mask)
        return str(y.dtype).rpartition(".")[2], y.double().numpy()

    ours, theirs = run(fl), run(torch)
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1], theirs[1], atol=0.03 if "16" in types else 1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 3), (2, 4, 3, 2)], ids=str)
def test_cross_entropy(shape, smoothing, reduction):
    x, w = randn(*shape), np.abs(randn(4)) + 0.1
    t = np.random.default_rng(0).integers(0, 4, (shape[0], *shape[2:]))
    t.reshape(-1)[0] = -100
    beside(lambda lib, x, t: lib.nn.functional.cross_entropy(x, t, reduction=reduction, label_smoothing=smoothing), x, t)
    beside(lambda lib, x, t, w: lib.nn.functional.cross_entropy(x, t, w.detach(), reduction=reduction, label_smoothing=smoothing), x, t, w)
    beside(lambda lib, x, t, w: lib.nn.functional.nll_loss(x.log_softmax(1), t, w.detach(), reduction=reduction), x, t, w)


def test_cross_entropy_with_probabilities():
    p = np.exp(randn(6, 4, seed=1))
    beside(lambda lib, x, p: lib.nn.functional.cross_entropy(x, p), randn(6, 4), p / p.sum(1, keepdims=True))


@pytest.mark.parametrize("mask", [None, "bool", "float", "causal"], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (2, 40, 8)], ids=str)
def test_attention(shape, mask):
    q, k, v = (randn(*shape, seed=i) for i in range(3))
    n = shape[-2]
    how = {"is_causal": True} if mask == "causal" else {}

    def run(lib, q, k, v):
        m = None
        if mask == "bool":
            m = lib.tensor(np.tril(np.ones((n, n), bool), 1))
        elif mask == "float":
            m = lib.tensor(randn(n, n))
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, **how)

    beside(run, q, k, v, scale=10)


def copy_state(theirs, ours):
    ours.load_state_dict({k: fl.tensor(v.detach().numpy()) for k, v in theirs.state_dict().items()})


LAYERS = {
    "Linear": (lambda lib: lib.nn.Linear(5, 3), (4, 5)), "LSTM": (lambda lib: lib.nn.LSTM(5, 3, 2, batch_first=True, bidirectional=True), (2, 6, 5)), "GRU": (lambda lib: lib.nn.GRU(5, 3, 2), (6, 2, 5)),
    "RNN": (lambda lib: lib.nn.RNN(5, 3), (6, 2, 5)), "Encoder": (lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)), "PReLU": (lambda lib: lib.nn.PReLU(5), (4, 5)),
    "Conv": (lambda lib: lib.nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 5, 5)), "Bilinear_up": (lambda lib: lib.nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers(name):
    make, shape = LAYERS[name]
    ours, theirs = make(fl).double(), make(torch).double()
    copy_state(theirs, ours)
    x, y = fl.tensor(randn(*shape), requires_grad=True), torch.tensor(randn(*shape), requires_grad=True)
    a, b = ours(x), theirs(y)
    a, b = (a[0], b[0]) if isinstance(a, tuple) else (a, b)
    assert_same(a, b, scale=10)
    (a * a).sum().backward()
    (b * b).sum().backward()
    assert_same(x.grad, y.grad, scale=50)
    for (n, p), (m, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert n == m
        assert_same(p.grad, q.grad, scale=50, what=n)


def test_multihead_attention():
    ours, theirs = (lib.nn.MultiheadAttention(8, 2, batch_first=True).double() for lib in (fl, torch))
    copy_state(theirs, ours)
    q, k = randn(2, 5, 8), randn(2, 6, 8, seed=1)
    a, wa = ours(fl.tensor(q), fl.tensor(k), fl.tensor(k))
    b, wb = theirs(torch.tensor(q), torch.tensor(k), torch.tensor(k))
    assert_same(a, b, scale=10)
    assert_same(wa, wb, scale=10)


OPTIMIZERS = {
    "sgd": lambda lib, p: lib.optim.SGD(p, 0.05), "sgd_momentum": lambda lib, p: lib.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01), "sgd_nesterov": lambda lib, p: lib.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "sgd_dampening": lambda lib, p: lib.optim.SGD(p, 0.05, momentum=0.9, dampening=0.1, maximize=True), "adam": lambda lib, p: lib.optim.Adam(p, 0.01), "adam_decay": lambda lib, p: lib.optim.Adam(p, 0.01, weight_decay=0.1),
    "amsgrad": lambda lib, p: lib.optim.Adam(p, 0.01, amsgrad=True, betas=(0.8, 0.9)), "adamw": lambda lib, p: lib.optim.AdamW(p, 0.01, weight_decay=0.1), "rmsprop": lambda lib, p: lib.optim.RMSprop(p, 0.01),
    "rmsprop_centered": lambda lib, p: lib.optim.RMSprop(p, 0.01, centered=True, momentum=0.5), "adagrad": lambda lib, p: lib.optim.Adagrad(p, 0.05, lr_decay=0.1),
    "adadelta": lambda lib, p: lib.optim.Adadelta(p, 0.5, weight_decay=0.1), "adamax": lambda lib, p: lib.optim.Adamax(p, 0.05, weight_decay=0.1), "nadam": lambda lib, p: lib.optim.NAdam(p, 0.05, weight_decay=0.1),
    "nadam_decoupled": lambda lib, p: lib.optim.NAdam(p, 0.05, weight_decay=0.1, decoupled_weight_decay=True), "radam": lambda lib, p: lib.optim.RAdam(p, 0.05, betas=(0.8, 0.9), weight_decay=0.1, maximize=True),
    "asgd": lambda lib, p: lib.optim.ASGD(p, 0.05, t0=5, weight_decay=0.1), "rprop": lambda lib, p: lib.optim.Rprop(p, 0.05), "rprop_ascent": lambda lib, p: lib.optim.Rprop(p, 0.02, etas=(0.3, 1.5), step_sizes=(1e-3, 0.1), maximize=True),
    "adafactor": lambda lib, p: lib.optim.Adafactor(p, 0.05), "adafactor_decay": lambda lib, p: lib.optim.Adafactor(p, 0.05, weight_decay=0.1, d=2.0, eps=(1e-3, 1e-2), maximize=True),
    "radam_decoupled": lambda lib, p: lib.optim.RAdam(p, 0.05, weight_decay=0.1, decoupled_weight_decay=True),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_optimizers_over_20_steps(name):
    finals = []
    for lib in (fl, torch):
        w, b = lib.tensor(randn(4, 3), requires_grad=True), lib.tensor(randn(3), requires_grad=True)
        optimizer = OPTIMIZERS[name](lib, [w, b])
        for i in range(20):
            optimizer.zero_grad()
            x = lib.tensor(randn(5, 4, seed=i))
            ((x @ w + b).tanh() ** 2).mean().backward()
            optimizer.step()
        finals.append((w, b))
    # PyTorch keeps NAdam's product of momenta in float32.
    assert_same(*finals, scale=1000 if name.startswith("nadam") else 1)


ACTIVATIONS = "relu relu6 elu selu celu gelu silu mish softplus logsigmoid hardsigmoid hardswish softsign tanhshrink softshrink hardshrink leaky_relu hardtanh sigmoid tanh".split()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    # PyTorch's gradient of hardsigmoid multiplies by 1/6 in float32.
    beside(lambda lib, x: getattr(lib.nn.functional, name)(x), randn(6, 7) * 3, scale=1000 if name == "hardsigmoid" else 1)
    beside(lambda lib, x: getattr(lib.nn.functional, name)(x), np.array([np.nan, 0.0, 100.0, -100.0, np.inf]), grad=False)


PADS = [((1, 2), "constant"), ((1, 2, 0, 1), "constant"), ((-1, 1), "constant"), ((1, 2), "reflect"), ((2, 1), "replicate"), ((1, 1), "circular"), ((1, 2, 1, 0), "reflect"), ((1, 2, 1, 0), "replicate"), ((1, 2, 1, 0), "circular")]


@pytest.mark.parametrize("pad, mode", PADS, ids=str)
def test_pad(pad, mode):
    x = randn(2, 3, 5) if len(pad) == 2 else randn(2, 3, 5, 4)
    beside(lambda lib, x: lib.nn.functional.pad(x, pad, mode), x)


@pytest.mark.parametrize("mode, align", [("nearest", None), ("bilinear", False), ("bilinear", True)], ids=str)
@pytest.mark.parametrize("size", [(8, 10), (3, 3), (4, 5)], ids=str)
def test_interpolate(size, mode, align):
    beside(lambda lib, x: lib.nn.functional.interpolate(x, size=size, mode=mode, align_corners=align), randn(2, 2, 4, 5))


def test_embedding_and_one_hot():
    i = np.array([[0, 2], [2, 1]])
    beside(lambda lib, w, i: lib.nn.functional.embedding(i, w), randn(3, 4), i)
    beside(lambda lib, w, i: lib.nn.functional.embedding(i, w, padding_idx=2), randn(3, 4), i)
    beside(lambda lib, i: lib.nn.functional.one_hot(i, 4), i, grad=False)


def test_clip_grad_norm():
    totals, grads = [], []
    for lib in (fl, torch):
        w = lib.tensor(randn(4, 3), requires_grad=True)
        (w * w).sum().backward()
        totals.append(lib.nn.utils.clip_grad_norm_([w], 1.0))
        grads.append(w.grad)
    assert_same(*totals)
    assert_same(*grads)


BLOCKS = [dict(kernel_size=2), dict(kernel_size=(3, 2), padding=1), dict(kernel_size=2, stride=(2, 3)), dict(kernel_size=(2, 3), dilation=2, padding=(1, 2), stride=2)]


@pytest.mark.parametrize("how", BLOCKS, ids=str)
def test_unfold_and_fold(how):
    x = randn(2, 3, 7, 8)
    beside(lambda lib, x: lib.nn.functional.unfold(x, **how), x)
    columns = torch.nn.functional.unfold(torch.tensor(x), **how).numpy()
    beside(lambda lib, c: lib.nn.functional.fold(c, (7, 8), **how), columns)
    beside(lambda lib, c: lib.nn.Fold((7, 8), **how)(c), columns[0])


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "celu", "selu", "silu", "mish", "hardswish", "hardtanh", "relu6", "hardsigmoid"])
def test_inplace_activations(name):
    beside(lambda lib, x: getattr(lib.nn.functional, name)(x * 1.5, inplace=True), randn(6, 7), scale=1000 if name == "hardsigmoid" else 1)


@pytest.mark.parametrize("how", [dict(), dict(full=True, reduction="sum")], ids=str)
def test_gaussian_nll_loss(how):
    x, y, v = randn(4, 5), randn(4, 5, seed=1), np.exp(randn(4, 5, seed=2))
    for var in (v, v[:, :1], v[:, 0]):
        beside(lambda lib, x, y, v: lib.nn.functional.gaussian_nll_loss(x, y, v, **how), x, y, var)
    beside(lambda lib, x, y: lib.nn.functional.gaussian_nll_loss(x, y, 0.7, **how), x, y)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("n", [4, 30])
def test_cdist(n, p):
    beside(lambda lib, a, b: lib.cdist(a, b, p), randn(2, n, 3), randn(2, 6, 3, seed=1), scale=10)


@pytest.mark.parametrize("how", [dict(), dict(mode="triangular2"), dict(mode="exp_range", gamma=0.9, step_size_down=2)], ids=str)
def test_cyclic_rates(how):
    seen = []
    for lib in (fl, torch):
        optimizer = lib.optim.SGD([lib.tensor([1.0], requires_grad=True)], lr=1.0, momentum=0.9)
        schedule = lib.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, 3, **how)
        rates = []
        for _ in range(14):
            rates += [optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]]
            optimizer.step()
            schedule.step()
        seen.append(rates)
    assert seen[0] == pytest.approx(seen[1])


@pytest.mark.parametrize("layer", ["Linear", "Conv2d", "ConvTranspose2d"])
@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_normalised_weights(name, layer):
    args, shape = ((4, 3), (5, 4)) if layer == "Linear" else ((4, 3, 2), (2, 4, 5, 5))
    ours, theirs = (getattr(lib.nn.utils, name)(getattr(lib.nn, layer)(*args).double()) for lib in (fl, torch))
    copy_state(theirs, ours)
    for step in range(2):
        x = randn(*shape, seed=step)
        a, b = ours(fl.tensor(x)), theirs(torch.tensor(x))
        assert_same(a, b, scale=10)
        (a * a).sum().backward()
        (b * b).sum().backward()
    state = theirs.state_dict()
    assert set(state) == set(ours.state_dict())
    for key, value in ours.state_dict().items():
        assert_same(value, state[key], scale=10, what=key)
    for (key, p), (_, q) in zip(sorted(ours.named_parameters()), sorted(theirs.named_parameters())):
        assert_same(p.grad, q.grad, scale=50, what=key)
