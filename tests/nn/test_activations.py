"""Activations and dropout against NumPy and SciPy, and in place."""

import inspect

import numpy as np
import pytest
import scipy.special as sp
from support.compare import assert_near
from support.tensors import doubles

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
Y = RNG.normal(size=(4, 5))


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
    assert_near(getattr(F, name)(doubles(X)), want)


@pytest.mark.parametrize("name", ["relu", "silu", "elu", "hardtanh", "leaky_relu", "selu"])
def test_inplace_writes_into_the_input(name):
    x = doubles(X)
    want = getattr(F, name)(doubles(X))
    assert getattr(F, name)(x, inplace=True) is x
    assert_near(x, want.numpy())


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
    assert_near(F.rrelu(doubles(X), 0.2, 0.4), np.where(X > 0, X, 0.3 * X))
    with pytest.raises(ValueError, match="Lower bound should be less than or equal to the upper bound"):
        F.rrelu(x, 0.5, 0.2)


# ----------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_probability_is_checked(p):
    with pytest.raises(ValueError, match="ropout: dropout probability has to be between 0 and 1, but got"):
        F.dropout(fl.ones(2), p)
    with pytest.raises(ValueError, match="ropout: dropout probability has to be between 0 and 1, but got"):
        nn.Dropout(p)


def test_dropout2d_drops_whole_channels():
    fl.manual_seed(0)
    y = F.dropout2d(fl.ones(8, 16, 3, 3), 0.5)
    sums = y.sum((2, 3))
    assert bool(((sums == 0) | (sums == 18)).all())
    assert 20 < (sums == 0).sum().item() < 108


def test_dropout2d_of_a_matrix_drops_elements():
    x = fl.ones(50, 40)
    with pytest.warns(UserWarning, match=r"dropout2d: input has shape \[50, 40\]"):
        y = nn.Dropout2d(0.5)(x)
    kept = (y > 0).float().mean(1)
    assert ((kept > 0) & (kept < 1)).all() and set(y.reshape(-1).tolist()) == {0.0, 2.0}


@pytest.mark.parametrize(
    "drop, shape, whole",
    [
        (F.dropout1d, (9, 7), (1,)),
        (F.dropout1d, (9, 7, 6), (2,)),
        (F.dropout2d, (9, 7, 6), (2,)),  # as [N, C, L]
        (F.dropout2d, (9, 7, 6, 5), (2, 3)),
        (F.dropout2d, (9, 7, 6, 5, 4), (2, 3, 4)),
        (F.dropout3d, (9, 7), (1,)),
        (F.dropout3d, (9, 7, 6), (1, 2)),
        (F.dropout3d, (9, 7, 6, 5), (1, 2, 3)),
        (F.dropout3d, (9, 7, 6, 5, 4), (2, 3, 4)),
    ],
)
@pytest.mark.filterwarnings("ignore:dropout")
def test_what_is_dropped_as_a_whole(drop, shape, whole):
    fl.manual_seed(0)
    y = drop(fl.ones(shape), 0.5)
    assert set(y.reshape(-1).tolist()) == {0.0, 2.0}
    assert tuple(d for d in range(len(shape)) if bool((y == y.narrow(d, 0, 1)).all())) == whole


@pytest.mark.parametrize("drop, shape", [(F.dropout2d, (3, 4, 5)), (F.dropout2d, (3, 4, 5, 6, 7)), (F.dropout3d, (3, 4))])
def test_other_numbers_of_axes_warn(drop, shape):
    with pytest.warns(UserWarning, match=r"input has shape \[3, 4.*is dropped as a whole, but [45] dims .* were expected"):
        drop(fl.ones(shape), 0.5)


# ---------------------------------------------------------------------------------- in place

INPLACE = {
    "relu": (), "relu6": (), "selu": (), "silu": (), "mish": (), "hardswish": (), "hardsigmoid": (),
    "leaky_relu": (0.2,), "elu": (0.7,), "celu": (0.7,), "hardtanh": (-0.5, 0.6), "threshold": (0.1, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", list(INPLACE))
def test_gradients_through_inplace_activations(name):
    grads = []
    for inplace in (False, True):
        x = doubles(3 * X).requires_grad_()
        hidden = x * 1.0
        y = getattr(F, name)(hidden, *INPLACE[name], inplace=inplace)
        assert (y is hidden) == inplace
        (y * doubles(Y)).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-5, atol=1e-7)  # some follow from the output


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "alpha_dropout"])
def test_gradients_through_inplace_dropout(name):
    grads = []
    for inplace in (False, True):
        fl.manual_seed(3)
        x = doubles(X).requires_grad_()
        hidden = x * 1.0
        y = getattr(F, name)(hidden, 0.4, training=True, inplace=inplace)
        assert (y is hidden) == inplace
        (y * doubles(Y)).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_array_equal(*grads)


@pytest.mark.parametrize("name", ["relu_", "leaky_relu_", "elu_", "celu_", "selu_", "hardtanh_"])
def test_names_that_write_into_the_input(name):
    x = doubles(X)
    want = getattr(F, name[:-1])(doubles(X))
    assert getattr(F, name)(x) is x
    assert_near(x, want.numpy())


def test_inplace_layers_in_a_model():
    layers = [nn.ELU, nn.SiLU, nn.Hardswish, nn.LeakyReLU, nn.SELU, nn.Mish]
    grads = []
    for inplace in (False, True):
        x = doubles(X).requires_grad_()
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


def test_hardtanh_by_its_older_names():
    with pytest.warns(FutureWarning, match="min_value is the older name of min_val"):
        layer = nn.Hardtanh(min_value=-2.0)
    assert layer(fl.tensor([-3.0, 3.0])).tolist() == [-2.0, 1.0]
    with pytest.warns(FutureWarning, match="max_value is the older name of max_val"):
        layer = nn.Hardtanh(-1.0, 1.0, False, None, 2.0)
    assert layer(fl.tensor([-3.0, 3.0])).tolist() == [-1.0, 2.0]
