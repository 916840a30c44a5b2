"""Functions against NumPy and SciPy, and the errors of losses."""

import inspect
import pickle

import numpy as np
import pytest
import scipy.special as sp

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
Y = RNG.normal(size=(4, 5))


def t(a):
    return fl.tensor(np.asarray(a).tolist(), dtype=fl.float64)


def close(got, want, tol=1e-9):
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tol, atol=tol)


def softplus(x):
    return np.logaddexp(0, x)


@pytest.mark.parametrize(
    "name, want",
    [
        ("relu", np.maximum(X, 0)),
        ("relu6", np.clip(X, 0, 6)),
        ("silu", X * sp.expit(X)),
        ("mish", X * np.tanh(softplus(X))),
        ("sigmoid", sp.expit(X)),
        ("tanh", np.tanh(X)),
        ("gelu", X * sp.ndtr(X)),
        ("softplus", softplus(X)),
        ("softsign", X / (1 + np.abs(X))),
        ("logsigmoid", -softplus(-X)),
        ("hardswish", X * np.clip(X + 3, 0, 6) / 6),
        ("hardsigmoid", np.clip(X + 3, 0, 6) / 6),
        ("tanhshrink", X - np.tanh(X)),
        ("elu", np.where(X > 0, X, np.expm1(X))),
        ("leaky_relu", np.where(X > 0, X, 0.01 * X)),
        ("hardtanh", np.clip(X, -1, 1)),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_activations(name, want):
    close(getattr(F, name)(t(X)), want)


@pytest.mark.parametrize("name", ["relu", "silu", "elu", "hardtanh", "leaky_relu", "selu"])
def test_inplace_writes_into_the_input(name):
    x = t(X)
    want = getattr(F, name)(t(X))
    assert getattr(F, name)(x, inplace=True) is x
    close(x, want.numpy())


REDUCE = {"mean": np.mean, "sum": np.sum, "none": lambda a: a}
P, Q = sp.expit(X), sp.expit(Y)
D = np.abs(X - Y)
LOSSES = {
    "mse_loss": (X, Y, (X - Y) ** 2),
    "l1_loss": (X, Y, D),
    "smooth_l1_loss": (X, Y, np.where(D < 1, D * D / 2, D - 0.5)),
    "huber_loss": (X, Y, np.where(D < 1, D * D / 2, D - 0.5)),
    "binary_cross_entropy": (P, Q, -(Q * np.log(P) + (1 - Q) * np.log1p(-P))),
    "binary_cross_entropy_with_logits": (X, Q, softplus(X) - Q * X),
}


@pytest.mark.parametrize("reduction", list(REDUCE))
@pytest.mark.parametrize("name", list(LOSSES))
def test_losses(name, reduction):
    x, y, want = LOSSES[name]
    close(getattr(F, name)(t(x), t(y), reduction=reduction), REDUCE[reduction](want))


@pytest.mark.parametrize("name", [*LOSSES, "kl_div", "soft_margin_loss", "poisson_nll_loss"])
def test_losses_do_not_broadcast(name):
    with pytest.raises(ValueError, match=r"target has shape \[4\].*input has shape \[4, 1\]"):
        getattr(F, name)(fl.zeros(4, 1), fl.zeros(4))


@pytest.mark.parametrize("name", [*LOSSES, "cross_entropy"])
def test_unknown_reduction(name):
    with pytest.raises(ValueError, match="reduction = 'avg'; expected 'none', 'mean' or 'sum'"):
        getattr(F, name)(fl.zeros(4, 4), fl.zeros(4, 4), reduction="avg")


def reference_cross_entropy(x, target, weight, smoothing, ignore=-100):
    logp = sp.log_softmax(x, 1)
    keep = target != ignore
    index = np.where(keep, target, 0)
    w = weight[index] * keep
    rows = np.arange(len(x))
    hard = -logp[rows, index] * w
    soft = -(logp * weight).sum(1) * keep
    per = (1 - smoothing) * hard + smoothing / x.shape[1] * soft
    return per, w


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_indices(reduction, weighted, smoothing):
    target = np.array([0, 4, -100, 2])
    weight = RNG.uniform(0.5, 2, 5) if weighted else np.ones(5)
    per, w = reference_cross_entropy(X, target, weight, smoothing)
    want = {"none": per, "sum": per.sum(), "mean": per.sum() / w.sum()}[reduction]
    got = F.cross_entropy(
        t(X),
        fl.tensor(target.tolist()),
        t(weight) if weighted else None,
        label_smoothing=smoothing,
        reduction=reduction,
    )
    close(got, want)


def test_cross_entropy_of_probabilities_equals_that_of_indices():
    target = fl.tensor([0, 4, 1, 2])
    one_hot = F.one_hot(target, 5).to(fl.float64)
    for smoothing in (0.0, 0.1):
        a = F.cross_entropy(t(X), target, label_smoothing=smoothing)
        b = F.cross_entropy(t(X), one_hot, label_smoothing=smoothing)
        close(a, b.numpy())


def test_cross_entropy_of_probabilities_checks_shapes():
    with pytest.raises(ValueError, match="class probabilities"):
        F.cross_entropy(fl.zeros(4, 5), fl.zeros(4, 1))
    with pytest.raises(ValueError, match="label_smoothing = 2"):
        F.cross_entropy(fl.zeros(4, 5), fl.zeros(4, dtype=fl.int64), label_smoothing=2)


def test_kl_div_is_zero_for_equal_distributions_and_handles_zeros():
    p = t([[0.5, 0.5, 0.0]])
    logq = t(np.log([[0.5, 0.25, 0.25]]))
    want = 0.5 * np.log(2)
    close(F.kl_div(logq, p, reduction="batchmean"), want)


def test_triplet_and_cosine_and_ranking():
    a, b, c = t(X), t(Y), t(X + 0.1)

    def dist(u, v):
        return np.linalg.norm(u - v + 1e-6, axis=1)

    want = np.maximum(dist(X, Y) - dist(X, X + 0.1) + 1, 0).mean()
    close(F.triplet_margin_loss(a, b, c), want, 1e-7)
    cos = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    close(F.cosine_similarity(a, b), cos, 1e-7)
    sign = np.array([1.0, -1, 1, -1])
    want = np.where(sign == 1, 1 - cos, np.maximum(cos, 0)).mean()
    close(F.cosine_embedding_loss(a, b, t(sign)), want, 1e-7)
    want = np.maximum(-sign * (X[:, 0] - Y[:, 0]) + 0.3, 0).mean()
    close(F.margin_ranking_loss(t(X[:, 0]), t(Y[:, 0]), t(sign), margin=0.3), want)


def test_pixel_shuffle_round_trip():
    x = fl.arange(2 * 8 * 3 * 5).reshape(2, 8, 3, 5)
    y = F.pixel_shuffle(x, 2)
    assert y.shape == (2, 2, 6, 10)
    assert y[0, 0, 0, 1].item() == x[0, 1, 0, 0].item()
    assert (F.pixel_unshuffle(y, 2) == x).all()
    with pytest.raises(ValueError, match="do not divide"):
        F.pixel_shuffle(x, 3)


def test_normalize():
    close(F.normalize(t(X)), X / np.linalg.norm(X, axis=1, keepdims=True))


def test_interpolate():
    x = t([[[1.0, 3.0]]])
    assert F.interpolate(x, scale_factor=2).tolist() == [[[1, 1, 3, 3]]]
    assert F.interpolate(x, size=4, mode="linear").tolist() == [[[1, 1.5, 2.5, 3]]]
    assert F.interpolate(x, size=3, mode="linear", align_corners=True).tolist() == [[[1, 2, 3]]]
    with pytest.raises(ValueError, match="exactly one"):
        F.interpolate(x)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_probability_is_checked(p):
    with pytest.raises(ValueError, match="0 <= p <= 1"):
        F.dropout(fl.ones(2), p)
    with pytest.raises(ValueError, match="0 <= p <= 1"):
        nn.Dropout(p)


def test_dropout2d_drops_whole_channels():
    fl.manual_seed(0)
    y = F.dropout2d(fl.ones(8, 16, 3, 3), 0.5)
    sums = y.sum((2, 3))
    assert bool(((sums == 0) | (sums == 18)).all())
    assert 20 < (sums == 0).sum().item() < 108


def test_embedding_options():
    weight = fl.tensor([[3.0, 4.0], [0.3, 0.4], [1.0, 0.0]], requires_grad=True)
    index = fl.tensor([1, 1, 2])
    F.embedding(index, weight, padding_idx=2).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [2, 2], [0, 0]]
    weight.grad = None
    F.embedding(index, weight, scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [1, 1], [1, 1]]
    table = fl.tensor([[3.0, 4.0], [0.3, 0.4]])
    F.embedding(fl.tensor([0]), table, max_norm=1.0)
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    with pytest.raises(ValueError, match="padding_idx = 5"):
        F.embedding(index, table, padding_idx=5)
    with pytest.raises(ValueError, match="sparse"):
        F.embedding(index, table, sparse=True)


@pytest.mark.parametrize("kernel, dilation", [(3, 1), (4, 1), (3, 2), (2, 3)])
def test_conv_padding_by_name(kernel, dilation):
    x, w = fl.randn(2, 3, 9), fl.randn(4, 3, kernel)
    same = F.conv1d(x, w, padding="same", dilation=dilation)
    assert same.shape == (2, 4, 9)
    total = dilation * (kernel - 1)
    padded = F.pad(x, (total // 2, total - total // 2))
    fl.testing.assert_close(same, F.conv1d(padded, w, dilation=dilation))
    fl.testing.assert_close(F.conv1d(x, w, padding="valid"), F.conv1d(x, w))


def test_conv_without_a_batch_axis():
    x, w = fl.randn(3, 6, 6), fl.randn(2, 3, 3, 3)
    fl.testing.assert_close(F.conv2d(x, w, padding=1), F.conv2d(x.unsqueeze(0), w, padding=1).squeeze(0))


def test_conv_refuses_same_with_a_stride():
    with pytest.raises(ValueError, match=r"conv1d: padding = 'same' with stride = 2; expected stride 1"):
        F.conv1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), stride=2, padding="same")


# ---------------------------------------------------------------------------------- in place

INPLACE = {
    "relu": (), "relu6": (), "selu": (), "silu": (), "mish": (), "hardswish": (), "hardsigmoid": (),
    "leaky_relu": (0.2,), "elu": (0.7,), "celu": (0.7,), "hardtanh": (-0.5, 0.6), "threshold": (0.1, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", list(INPLACE))
def test_gradients_through_inplace_activations(name):
    grads = []
    for inplace in (False, True):
        x = t(3 * X).requires_grad_()
        hidden = x * 1.0
        y = getattr(F, name)(hidden, *INPLACE[name], inplace=inplace)
        assert (y is hidden) == inplace
        (y * t(Y)).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-5, atol=1e-7)  # some follow from the output


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "alpha_dropout"])
def test_gradients_through_inplace_dropout(name):
    grads = []
    for inplace in (False, True):
        fl.manual_seed(3)
        x = t(X).requires_grad_()
        hidden = x * 1.0
        y = getattr(F, name)(hidden, 0.4, training=True, inplace=inplace)
        assert (y is hidden) == inplace
        (y * t(Y)).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_array_equal(*grads)


@pytest.mark.parametrize("name", ["relu_", "leaky_relu_", "elu_", "celu_", "selu_", "hardtanh_"])
def test_names_that_write_into_the_input(name):
    x = t(X)
    want = getattr(F, name[:-1])(t(X))
    assert getattr(F, name)(x) is x
    close(x, want.numpy())


def test_inplace_layers_in_a_model():
    layers = [nn.ELU, nn.SiLU, nn.Hardswish, nn.LeakyReLU, nn.SELU, nn.Mish]
    grads = []
    for inplace in (False, True):
        x = t(X).requires_grad_()
        y = x
        for layer in layers:  # what one keeps, its output, the next may not write over
            y = layer(inplace=inplace)(y * 1.0)
        y.sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-5, atol=1e-7)


WRITERS = sorted(
    name for name in dir(nn)
    if isinstance(getattr(nn, name), type) and "inplace" in inspect.signature(getattr(nn, name).__init__).parameters
)  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_modules_that_write_over_their_input_copy_nothing_back(name):
    layer = getattr(nn, name)(*((0.1, 0.0) if name == "Threshold" else ()), inplace=True)
    x = fl.randn(2, 3, *(4,) * (2 if "2d" in name else 3 if "3d" in name else 1)).requires_grad_() * 1.0
    with fl.profiler.profile() as prof:
        assert layer(x) is x
    assert "copy_" not in [e.name for e in prof.events()]


# ------------------------------------------------------------------------ input without a batch

CHANNELS = 4
UNBATCHED = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), 1),
    "max_pool1d indices": (lambda x: F.max_pool1d(x, 2, return_indices=True), 1),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), 2),
    "max_pool2d indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), 2),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), 1),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), 2),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), 2),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), 1),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, None)), 2),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), 1),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, None), return_indices=True), 2),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2.0, 2), 2),
    "MaxPool1d": (nn.MaxPool1d(2), 1),
    "MaxPool2d": (nn.MaxPool2d(2, return_indices=True), 2),
    "AvgPool1d": (nn.AvgPool1d(2), 1),
    "AvgPool2d": (nn.AvgPool2d(2), 2),
    "AdaptiveAvgPool1d": (nn.AdaptiveAvgPool1d(2), 1),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d((2, 3)), 2),
    "AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(2), 1),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d((2, 3), return_indices=True), 2),
    "Conv1d": (nn.Conv1d(CHANNELS, 2, 3), 1),
    "Conv2d": (nn.Conv2d(CHANNELS, 2, 3, padding=1, padding_mode="reflect"), 2),
    "ConvTranspose1d": (nn.ConvTranspose1d(CHANNELS, 2, 3), 1),
    "ConvTranspose2d": (nn.ConvTranspose2d(CHANNELS, 2, 3, stride=2), 2),
}


@pytest.mark.parametrize("name", list(UNBATCHED))
def test_input_without_a_batch_axis(name):
    f, axes = UNBATCHED[name]
    x = fl.randn(CHANNELS, *(7, 6)[:axes])
    one, batch = f(x), f(x.unsqueeze(0))
    pairs = zip(one, batch) if isinstance(one, tuple) else [(one, batch)]
    for a, b in pairs:
        np.testing.assert_array_equal(a.detach().numpy(), b[0].detach().numpy())


@pytest.mark.parametrize(
    "name, axes",
    [(f"{kind}{n}d", n) for n in (1, 2) for kind in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")],
)
def test_pool_errors_name_the_function(name, axes):
    with pytest.raises(ValueError, match=rf"^{name}: input has shape \[3\]; expected \[N, C"):
        getattr(F, name)(fl.zeros(3), 2)
    if name.startswith("max"):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            getattr(F, name)(fl.zeros(1, 1, *(3, 3)[:axes]), 9)


def test_adaptive_max_pool_takes_the_largest_of_each_window():
    y, i = F.adaptive_max_pool1d(fl.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2, return_indices=True)
    assert y.tolist() == [[[5, 4]]] and i.tolist() == [[[1, 3]]]


# ------------------------------------------------------------------------------- losses, others


@pytest.mark.parametrize("input, target, text", [
    ([0.5, 1.5], [0.0, 1.0], r"x\[1\] = 1.5; expected all elements between 0 and 1"),
    ([-0.1, 0.5], [0.0, 1.0], r"x\[0\] = -0.1"),
    ([0.5, 0.5], [0.0, 2.0], r"target\[1\] = 2"),
    ([0.5, float("nan")], [0.0, 1.0], r"x\[1\] = nan"),
])  # fmt: skip
def test_binary_cross_entropy_wants_probabilities(input, target, text):
    with pytest.raises(ValueError, match=f"binary_cross_entropy: {text}"):
        F.binary_cross_entropy(fl.tensor(input), fl.tensor(target))


@pytest.mark.parametrize("var", [2.0, np.full(4, 2.0), np.full((4, 1), 2.0), np.full((4, 5), 2.0)], ids=lambda v: str(np.shape(v)))
def test_gaussian_nll_loss_takes_every_shape_of_variance(var):
    var = var if isinstance(var, float) else t(var)
    got = F.gaussian_nll_loss(t(X), t(Y), var, reduction="none")
    close(got, 0.5 * (np.log(2.0) + (X - Y) ** 2 / 2.0))


@pytest.mark.parametrize("var", [-1.0, fl.tensor([1.0, -1.0])], ids=["number", "tensor"])
def test_gaussian_nll_loss_refuses_negative_variances(var):
    with pytest.raises(ValueError, match="var has an element -1; expected variances >= 0"):
        F.gaussian_nll_loss(fl.zeros(2, 3), fl.zeros(2, 3), var)


def test_errors_of_losses_name_their_arguments():
    with pytest.raises(ValueError, match="triplet_margin_loss: negative has shape .*anchor has shape"):
        F.triplet_margin_loss(fl.zeros(2, 3), fl.zeros(2, 3), fl.zeros(2))
    with pytest.raises(ValueError, match="margin_ranking_loss: input2 has shape .*input1 has shape"):
        F.margin_ranking_loss(fl.zeros(2), fl.zeros(3), fl.zeros(2))


def test_upsample_aligns_corners():
    x = fl.arange(4.0).reshape(1, 1, 2, 2)
    want = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
    close(F.upsample(x, None, 2, "bilinear", True), want.numpy())
    close(nn.UpsamplingBilinear2d(scale_factor=2)(x), want.numpy())
    close(nn.UpsamplingNearest2d(size=(4, 4))(x), F.interpolate(x, (4, 4)).numpy())


def test_dropout2d_of_a_matrix_drops_elements():
    x = fl.ones(50, 40)
    with pytest.warns(UserWarning, match=r"dropout2d: input has shape \[50, 40\]"):
        y = nn.Dropout2d(0.5)(x)
    kept = (y > 0).float().mean(1)
    assert ((kept > 0) & (kept < 1)).all() and set(y.reshape(-1).tolist()) == {0.0, 2.0}


# -------------------------------------------------------------------------------- windows as columns

WINDOWS = [
    dict(kernel_size=2), dict(kernel_size=(3, 2), padding=1), dict(kernel_size=2, stride=(2, 3)),
    dict(kernel_size=(2, 3), dilation=2, padding=(1, 2), stride=2),
]  # fmt: skip


@pytest.mark.parametrize("how", WINDOWS, ids=str)
def test_unfold_makes_a_convolution_a_product(how):
    x, kernel = fl.randn(2, 3, 7, 8, dtype=fl.float64), how["kernel_size"]
    kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
    w = fl.randn(4, 3, *kernel, dtype=fl.float64)
    want = F.conv2d(x, w, None, **{k: v for k, v in how.items() if k != "kernel_size"})
    columns = nn.Unfold(**how)(x)
    close((w.reshape(4, -1) @ columns).reshape(want.shape), want.numpy())
    close(F.unfold(x[0], **how), columns[0].numpy())


@pytest.mark.parametrize("how", WINDOWS, ids=str)
def test_fold_is_the_adjoint_of_unfold(how):
    x = fl.randn(2, 3, 7, 8, dtype=fl.float64, requires_grad=True)
    columns = F.unfold(x, **how)
    dy = fl.randn(*columns.shape, dtype=fl.float64)
    (columns * dy).sum().backward()
    folded = nn.Fold((7, 8), **how)(dy)
    close(folded, x.grad.numpy())
    close(F.fold(dy[0], (7, 8), **how), folded[0].numpy())


def test_window_errors():
    with pytest.raises(ValueError, match=r"unfold: kernel_size = 9.* do not fit 4 x 5 positions"):
        F.unfold(fl.ones(1, 1, 4, 5), 9)
    with pytest.raises(ValueError, match=r"fold: input has shape \[1, 4, 3\]; expected \[N, C \* 4, 9\]"):
        F.fold(fl.ones(1, 4, 3), (4, 4), 2)


@pytest.mark.parametrize("name", ["relu", "silu", "conv2d", "mse_loss", "scaled_dot_product_attention"])
def test_a_function_is_pickled_by_its_public_name(name):
    """Not by the file that it happens to be in: a model that holds F.relu can be read by any version."""
    function = getattr(F, name)
    pickled = pickle.dumps(function, protocol=0)
    assert pickled.startswith(f"cflambeau.nn.functional\n{name}\n".encode())
    assert pickle.loads(pickled) is function


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.softmax(fl.ones(2, 3)),
        lambda: nn.Softmax()(fl.ones(2, 3)),
        lambda: F.kl_div(fl.zeros(3), fl.ones(3)),
        lambda: nn.KLDivLoss()(fl.zeros(3), fl.ones(3)),
        lambda: F.dropout2d(fl.ones(2, 3)),
        lambda: nn.Sequential(nn.Dropout2d())(fl.ones(2, 3)),
        lambda: nn.LSTM(2, 3, dropout=0.5),
        lambda: fl.autocast("cuda"),
        lambda: fl.optim.lr_scheduler.StepLR(fl.optim.SGD([fl.ones(1, requires_grad=True)], 0.1), 1).step(),
    ],
    ids=["function", "layer", "kl_div", "KLDivLoss", "dropout2d", "nested layer", "constructor", "autocast", "schedule"],
)
def test_a_warning_names_the_line_that_called(call):
    with pytest.warns(UserWarning) as record:
        call()
    assert record[0].filename == __file__
    assert record[0].lineno == call.__code__.co_firstlineno


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_promote_their_operands(loss):
    x, y = fl.tensor([1.0, 1.0], requires_grad=True), fl.tensor([1, 3])
    value = loss(x, y)
    assert value.dtype == fl.float32 and value.item() == loss(x.detach(), y.float()).item()
    value.backward()
    assert x.grad.tolist()[0] == 0 and x.grad.tolist()[1] < 0
    assert loss(x, y.double()).dtype == fl.float64


def test_l1_loss_of_integers():
    assert F.l1_loss(fl.tensor([1, 5]), fl.tensor([2, 1]), reduction="sum").item() == 5


@pytest.mark.parametrize(("x", "beta", "want"), [(3e38, 2.0, 3e38), (1e30, 1e10, 1e30), (1e-3, 1e-40, 1e-3), (0.0, 0.0, 0.0), (4.0, 0.0, 4.0)])
def test_smooth_l1_loss_far_from_its_beta(x, beta, want):
    assert F.smooth_l1_loss(fl.tensor([x]), fl.zeros(1), beta=beta).item() == pytest.approx(want, rel=1e-6)


def test_pads_below_zero_on_one_side():
    x = fl.arange(5.0)[None, None]
    assert F.pad(x, (-4, 3), mode="reflect").tolist() == [[[4, 3, 2, 1]]]
    assert F.pad(x, (2, -4), mode="replicate").tolist() == [[[0, 0, 0]]]
    assert F.pad(x, (-1, 2), mode="circular").tolist() == [[[1, 2, 3, 4, 1, 2]]]
    with pytest.raises(fl.ShapeError, match="^pad:"):
        F.pad(x, (-3, 4), mode="circular")
    assert F.pad(x, (-1, -1), mode="reflect").tolist() == [[[1, 2, 3]]]


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.float16], ids=str)
@pytest.mark.parametrize(("size", "stride"), [((3, 3), (3, 3)), ((2, 5), (2, 1)), ((5, 2), (1, 2)), ((4, 4), (2, 4))])
def test_convolution_of_one_element_that_leaves_positions_out(size, stride, dtype):
    x = fl.arange(2 * 3 * size[0] * size[1], dtype=dtype).reshape(2, 3, *size).remainder(7).requires_grad_()
    w = fl.arange(6, dtype=dtype).reshape(2, 3, 1, 1).requires_grad_()
    y = F.conv2d(x, w, stride=stride)
    seen, taps = x.detach().numpy()[:, :, :: stride[0], :: stride[1]], w.detach().numpy()[:, :, 0, 0]
    np.testing.assert_allclose(y.detach().numpy(), np.einsum("oc,nchw->nohw", taps, seen))
    y.sum().backward()
    dx = np.zeros(x.shape)
    dx[:, :, :: stride[0], :: stride[1]] = taps.sum(0)[:, None, None]
    np.testing.assert_array_equal(x.grad.numpy(), dx)
    np.testing.assert_array_equal(w.grad.numpy()[:, :, 0, 0], np.tile(seen.sum((0, 2, 3)), (2, 1)))


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("given", [(), []], ids=str)
def test_an_empty_list_is_no_extent(name, given):
    """It was taken as "as the kernel", which only pooling has; a convolution divided by what lay behind the list."""
    with pytest.raises(ValueError, match=rf"conv2d: {name} = \[\]; expected one int or 2 ints"):
        F.conv2d(fl.ones(1, 2, 5, 5), fl.ones(3, 2, 3, 3), **{name: given})
    with pytest.raises((ValueError, TypeError), match="stride"):
        F.conv2d(fl.ones(1, 2, 5, 5), fl.ones(3, 2, 3, 3), stride=None)


@pytest.mark.parametrize("given", [(), [], None], ids=str)
def test_pooling_without_a_stride_steps_by_its_kernel(given):
    x = fl.arange(16.0).reshape(1, 1, 4, 4)
    assert F.max_pool2d(x, 2, stride=given).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]


def windows(x, kernel, stride, padding, fill):
    """[N, C, D', H', W', elements of a window] of [N, C, D, H, W]."""
    p = np.pad(x, [(0, 0), (0, 0), *[(k, k) for k in padding]], constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(p, kernel, axis=(2, 3, 4))
    view = view[:, :, :: stride[0], :: stride[1], :: stride[2]]
    return view.reshape(*view.shape[:5], -1)


@pytest.mark.parametrize("kernel, stride, padding", [((2, 2, 2), (2, 2, 2), (0, 0, 0)), ((3, 2, 1), (1, 2, 3), (1, 1, 0)), ((3, 3, 3), (2, 1, 2), (1, 0, 1))])
def test_pools_over_three_axes(kernel, stride, padding):
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 6, 7))
    close(F.max_pool3d(t(x), kernel, stride, padding), windows(x, kernel, stride, padding, -np.inf).max(-1))
    close(F.avg_pool3d(t(x), kernel, stride, padding), windows(x, kernel, stride, padding, 0).mean(-1))
    close(F.avg_pool3d(t(x), kernel, stride, padding, count_include_pad=False), np.nanmean(windows(x, kernel, stride, padding, np.nan), -1))
    values, at = F.max_pool3d(t(x), kernel, stride, padding, return_indices=True)
    flat = x.reshape(2, 3, -1)
    close(values, np.take_along_axis(flat, at.numpy().reshape(2, 3, -1), 2).reshape(values.shape))


@pytest.mark.parametrize("function", [lambda x: F.max_pool3d(x, 2, 1), lambda x: F.avg_pool3d(x, 2, 1, 1), lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)),
                                      lambda x: F.adaptive_max_pool3d(x, 2), lambda x: F.interpolate(x, scale_factor=1.5, mode="trilinear")])
def test_gradients_over_three_axes(function):
    x = fl.tensor(np.random.default_rng(0).normal(size=(1, 2, 3, 4, 3)), requires_grad=True)
    assert fl.autograd.gradcheck(function, (x,))


def test_bicubic_is_a_convolution_by_keys_kernel():
    def kernel(d, a=-0.75):
        d = abs(d)
        return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0

    def matrix(n_in, n_out):
        out = np.zeros((n_out, n_in))
        for i in range(n_out):
            at = (i + 0.5) * n_in / n_out - 0.5
            for j in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
                out[i, min(max(j, 0), n_in - 1)] += kernel(at - j)
        return out

    x = np.random.default_rng(0).normal(size=(2, 3, 5, 7))
    close(F.interpolate(t(x), size=(8, 4), mode="bicubic"), matrix(5, 8) @ x @ matrix(7, 4).T)
    y = fl.tensor(x[:1, :1], requires_grad=True)
    assert fl.autograd.gradcheck(lambda v: F.interpolate(v, scale_factor=2, mode="bicubic", align_corners=True), (y,))


@pytest.mark.parametrize("dilation, extra", [(2, 1), (3, 2), ((4, 2), (3, 1))])
def test_output_padding_below_dilation(dilation, extra):
    """It reveals more of the full transposed convolution, and zeros behind its end."""
    x = fl.tensor(np.random.default_rng(0).normal(size=(2, 3, 4, 4)), requires_grad=True)
    w = fl.tensor(np.random.default_rng(1).normal(size=(3, 2, 3, 3)), requires_grad=True)
    got = F.conv_transpose2d(x, w, padding=1, dilation=dilation, output_padding=extra)
    full = F.pad(F.conv_transpose2d(x, w, dilation=dilation), (0, 9, 0, 9))
    close(got, full[:, :, 1 : 1 + got.shape[2], 1 : 1 + got.shape[3]].detach().numpy())
    call = lambda a, b: F.conv_transpose2d(a, b, padding=1, dilation=dilation, output_padding=extra)  # noqa: E731
    assert fl.autograd.gradcheck(call, (x, w))
    assert fl.autograd.gradgradcheck(call, (x[:1, :, :2, :2].detach().requires_grad_(), w))


@pytest.mark.parametrize("inplace", [False, True])
def test_rrelu_draws_a_slope_for_each_element(inplace):
    x = fl.randn(2000).requires_grad_()
    y = F.rrelu(x * 1.0, 0.2, 0.4, training=True, inplace=inplace)
    y.sum().backward()
    slopes = (y / x).detach()
    np.testing.assert_allclose(x.grad.numpy(), slopes.numpy(), rtol=1e-5)
    assert (slopes[x > 0] == 1).all()
    below = slopes[x < 0].numpy()
    assert below.min() >= 0.2 - 1e-6 and below.max() <= 0.4 + 1e-6 and len(np.unique(below)) > 900
    close(F.rrelu(t(X), 0.2, 0.4), np.where(X > 0, X, 0.3 * X))
    with pytest.raises(ValueError, match="lower <= upper"):
        F.rrelu(x, 0.5, 0.2)


def test_lp_pool_of_zeros_has_no_gradient_and_odd_powers_keep_signs():
    x = fl.tensor([[[0.0, 0.0], [0.0, 0.0]]], requires_grad=True)
    F.lp_pool2d(x, 2, 2).sum().backward()
    assert x.grad.tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
    y = F.lp_pool2d(fl.tensor([[[2.0, -1.0], [0.0, 0.0]]]), 3, 2)
    assert y.item() == pytest.approx(7 ** (1 / 3))
