"""Losses against NumPy and SciPy: values, reductions, and what they refuse."""

import numpy as np
import pytest
import scipy.special as sp
from support.compare import assert_near
from support.tensors import doubles

import flambeau as fl
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
Y = RNG.normal(size=(4, 5))
REDUCE = {"mean": np.mean, "sum": np.sum, "none": lambda a: a}
P, Q = sp.expit(X), sp.expit(Y)
D = np.abs(X - Y)
LOSSES = {
    "mse_loss": (X, Y, (X - Y) ** 2),
    "l1_loss": (X, Y, D),
    "smooth_l1_loss": (X, Y, np.where(D < 1, D * D / 2, D - 0.5)),
    "huber_loss": (X, Y, np.where(D < 1, D * D / 2, D - 0.5)),
    "binary_cross_entropy": (P, Q, -(Q * np.log(P) + (1 - Q) * np.log1p(-P))),
    "binary_cross_entropy_with_logits": (X, Q, np.logaddexp(0, X) - Q * X),
}


@pytest.mark.parametrize("reduction", list(REDUCE))
@pytest.mark.parametrize("name", list(LOSSES))
def test_losses(name, reduction):
    x, y, want = LOSSES[name]
    assert_near(getattr(F, name)(doubles(x), doubles(y), reduction=reduction), REDUCE[reduction](want))


@pytest.mark.parametrize("name", [*LOSSES, "kl_div", "soft_margin_loss", "poisson_nll_loss"])
def test_losses_do_not_broadcast(name):
    with pytest.raises(ValueError, match=r"Target size \(\[4\]\) must be the same as input size \(\[4, 1\]\), since losses do not broadcast"):
        getattr(F, name)(fl.zeros(4, 1), fl.zeros(4))


@pytest.mark.parametrize("name", [*LOSSES, "cross_entropy"])
def test_unknown_reduction(name):
    with pytest.raises(ValueError, match="avg is not a valid value for reduction; expected 'none', 'mean' or 'sum'"):
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
        doubles(X),
        fl.tensor(target.tolist()),
        doubles(weight) if weighted else None,
        label_smoothing=smoothing,
        reduction=reduction,
    )
    assert_near(got, want)


def test_cross_entropy_of_probabilities_equals_that_of_indices():
    target = fl.tensor([0, 4, 1, 2])
    one_hot = F.one_hot(target, 5).to(fl.float64)
    for smoothing in (0.0, 0.1):
        a = F.cross_entropy(doubles(X), target, label_smoothing=smoothing)
        b = F.cross_entropy(doubles(X), one_hot, label_smoothing=smoothing)
        assert_near(a, b.numpy())


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_one_sample_may_have_one_target_in_a_row(reduction):
    x, weight = fl.tensor([0.5, -1.0, 2.0], requires_grad=True), fl.tensor([1.0, 2.0, 3.0])
    for loss in (F.cross_entropy, F.nll_loss):
        found, want = (loss(x, fl.tensor(target), weight, reduction=reduction) for target in ([1], 1))
        assert found.shape == () and found.item() == want.item()
        assert fl.autograd.grad(found, x)[0].tolist() == fl.autograd.grad(want, x)[0].tolist()
        with pytest.raises(ValueError, match=r"x has shape \[3\], target has shape \[2\]"):
            loss(x, fl.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"target has shape \[1\]; expected target of shape \[\]"):
        F.cross_entropy(x, fl.tensor([1]), label_smoothing=0.1)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3, 0)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_mean_over_no_probabilities_is_not_a_number(shape, smoothing):
    x = fl.zeros(shape)
    assert F.cross_entropy(x, x, label_smoothing=smoothing).isnan() and F.cross_entropy(x, x, reduction="sum", label_smoothing=smoothing) == 0


def test_cross_entropy_of_probabilities_checks_shapes():
    with pytest.raises(ValueError, match="class probabilities"):
        F.cross_entropy(fl.zeros(4, 5), fl.zeros(4, 1))
    with pytest.raises(ValueError, match=r"label_smoothing must be between 0\.0 and 1\.0\. Got"):
        F.cross_entropy(fl.zeros(4, 5), fl.zeros(4, dtype=fl.int64), label_smoothing=2)


def test_kl_div_is_zero_for_equal_distributions_and_handles_zeros():
    p = doubles([[0.5, 0.5, 0.0]])
    logq = doubles(np.log([[0.5, 0.25, 0.25]]))
    want = 0.5 * np.log(2)
    assert_near(F.kl_div(logq, p, reduction="batchmean"), want)


def test_triplet_and_cosine_and_ranking():
    a, b, c = doubles(X), doubles(Y), doubles(X + 0.1)

    def dist(u, v):
        return np.linalg.norm(u - v + 1e-6, axis=1)

    want = np.maximum(dist(X, Y) - dist(X, X + 0.1) + 1, 0).mean()
    assert_near(F.triplet_margin_loss(a, b, c), want, scale=100)
    cos = (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1)
    assert_near(F.cosine_similarity(a, b), cos, scale=100)
    sign = np.array([1.0, -1, 1, -1])
    want = np.where(sign == 1, 1 - cos, np.maximum(cos, 0)).mean()
    assert_near(F.cosine_embedding_loss(a, b, doubles(sign)), want, scale=100)
    assert_near(F.cosine_embedding_loss(a, b, fl.ones(1), reduction="none"), 1 - cos, scale=100)  # one target for all rows
    want = np.maximum(-sign * (X[:, 0] - Y[:, 0]) + 0.3, 0).mean()
    assert_near(F.margin_ranking_loss(doubles(X[:, 0]), doubles(Y[:, 0]), doubles(sign), margin=0.3), want)


@pytest.mark.parametrize("input, target, text", [
    ([0.5, 1.5], [0.0, 1.0], r"x\[1\] = 1.5"),
    ([-0.1, 0.5], [0.0, 1.0], r"x\[0\] = -0.1"),
    ([0.5, 0.5], [0.0, 2.0], r"target\[1\] = 2"),
    ([0.5, float("nan")], [0.0, 1.0], r"x\[1\] = nan"),
])  # fmt: skip
def test_binary_cross_entropy_wants_probabilities(input, target, text):
    with pytest.raises(ValueError, match=f"binary_cross_entropy: all elements of input should be between 0 and 1, but {text}"):
        F.binary_cross_entropy(fl.tensor(input), fl.tensor(target))


@pytest.mark.parametrize("var", [2.0, np.full(4, 2.0), np.full((4, 1), 2.0), np.full((4, 5), 2.0)], ids=lambda v: str(np.shape(v)))
def test_gaussian_nll_loss_takes_every_shape_of_variance(var):
    var = var if isinstance(var, float) else doubles(var)
    got = F.gaussian_nll_loss(doubles(X), doubles(Y), var, reduction="none")
    assert_near(got, 0.5 * (np.log(2.0) + (X - Y) ** 2 / 2.0))


@pytest.mark.parametrize("var", [-1.0, fl.tensor([1.0, -1.0])], ids=["number", "tensor"])
def test_gaussian_nll_loss_refuses_negative_variances(var):
    with pytest.raises(ValueError, match="var has negative entry/entries"):
        F.gaussian_nll_loss(fl.zeros(2, 3), fl.zeros(2, 3), var)


def test_errors_of_losses_name_their_arguments():
    with pytest.raises(ValueError, match=r"Negative size \(\[2\]\) must be the same as anchor size"):
        F.triplet_margin_loss(fl.zeros(2, 3), fl.zeros(2, 3), fl.zeros(2))
    with pytest.raises(ValueError, match=r"Input2 size \(\[3\]\) must be the same as input1 size"):
        F.margin_ranking_loss(fl.zeros(2), fl.zeros(3), fl.zeros(2))


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_promote_their_operands(loss):
    x, y = fl.tensor([1.0, 1.0], requires_grad=True), fl.tensor([1, 3])
    value = loss(x, y)
    assert value.dtype == fl.float32 and value.item() == loss(x.detach(), y.float()).item()
    value.backward()
    assert x.grad.tolist()[0] == 0 and x.grad.tolist()[1] < 0
    assert loss(x, y.double()).dtype == fl.float64


def test_weighted_means():
    x, zero, weight = fl.tensor([1.0, 3.0]), fl.zeros(2), fl.tensor([1.0, 2.0])
    assert F.mse_loss(x, zero, weight=weight).item() == pytest.approx(19 / 3)  # over the sum of the weights
    assert F.l1_loss(x, zero, weight=weight).item() == pytest.approx(7 / 3)
    assert F.huber_loss(x, zero, weight=weight).item() == pytest.approx((0.5 + 5) / 2)  # over their number
    assert F.huber_loss(x, zero, weight=weight, reduction="sum").item() == 5.5
    with pytest.raises(ValueError, match="weight has shape"):
        F.huber_loss(x, zero, weight=weight[None])


def test_l1_loss_of_integers():
    assert F.l1_loss(fl.tensor([1, 5]), fl.tensor([2, 1]), reduction="sum").item() == 5


@pytest.mark.parametrize(("x", "beta", "want"), [(3e38, 2.0, 3e38), (1e30, 1e10, 1e30), (1e-3, 1e-40, 1e-3), (0.0, 0.0, 0.0), (4.0, 0.0, 4.0)])
def test_smooth_l1_loss_far_from_its_beta(x, beta, want):
    assert F.smooth_l1_loss(fl.tensor([x]), fl.zeros(1), beta=beta).item() == pytest.approx(want, rel=1e-6)


OLDER = {
    "hinge_embedding_loss": (1.0,),
    "poisson_nll_loss": (True, False),
    "soft_margin_loss": (),
}
CLASSES = {"hinge_embedding_loss": "HingeEmbeddingLoss", "poisson_nll_loss": "PoissonNLLLoss"}


@pytest.mark.parametrize("name", OLDER)
def test_the_older_arguments_of_reductions_stand_where_they_always_stood(name):
    x, y, before, f = doubles(X), doubles(np.sign(Y)), OLDER[name], getattr(F, name)
    by_position = (False, 1e-8) if name == "poisson_nll_loss" else (False,)
    assert f(x, y, *before, *by_position).item() == f(x, y, *before, reduction="sum").item()
    assert f(x, y, *before, *by_position, False).shape == x.shape
    assert f(x, y, reduce=False).shape == x.shape
    if name in CLASSES:
        layer = getattr(fl.nn, CLASSES[name])
        assert layer(*before, *by_position)(x, y).item() == f(x, y, reduction="sum").item()
        assert layer(*before, *by_position, False)(x, y).shape == x.shape


@pytest.mark.parametrize(
    ("given", "meant"),
    [({"size_average": 0}, "sum"), ({"size_average": 1}, "mean"), ({"reduce": 0}, "none"), ({"size_average": np.bool_(False)}, "sum"), ({"reduce": 1}, "mean")],
    ids=str,
)
def test_older_arguments_of_a_reduction_may_be_numbers(given, meant):
    want = REDUCE[meant](LOSSES["mse_loss"][2])
    with pytest.warns(UserWarning, match=f"reduction='{meant}'"):
        assert_near(F.mse_loss(doubles(X), doubles(Y), **given), want)
    with pytest.warns(UserWarning, match=f"reduction='{meant}'"):
        assert fl.nn.MSELoss(**given).reduction == meant
