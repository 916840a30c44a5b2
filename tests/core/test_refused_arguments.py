"""Arguments that mean nothing are refused where they are given, with their value: none is taken and left unheard."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

NAN, INF = math.nan, math.inf


def attention(**given):
    x = fl.ones(3, 2, 4)
    given = {"bias_k": None, "bias_v": None, **given}
    return F.multi_head_attention_forward(
        x, x, x, 4, 2, fl.ones(12, 4), fl.ones(12), given["bias_k"], given["bias_v"], False, 0.0, fl.ones(4, 4), fl.ones(4)
    )


REFUSED = {
    "renorm an axis": (lambda: fl.renorm(fl.ones(2, 3), 2, 5, 1.0), IndexError, r"dim = 5.*\[2, 3\]"),
    "renorm half an axis": (lambda: fl.renorm(fl.ones(2, 3), 2, 0.5, 1.0), TypeError, "dim = 0.5; expected an int"),
    "renorm no norm": (lambda: fl.renorm(fl.ones(2, 3), NAN, 0, 1.0), ValueError, "p = nan"),
    "renorm no bound": (lambda: fl.renorm(fl.ones(2, 3), 2, 0, NAN), ValueError, "maxnorm = nan"),
    "unique_consecutive an axis": (lambda: fl.unique_consecutive(fl.ones(3), dim=5), IndexError, r"dim = 5.*\[3\]"),
    "unique_consecutive a text": (lambda: fl.unique_consecutive(fl.ones(3), dim="x"), TypeError, "dim = 'x'; expected an int"),
    "rot90": (lambda: fl.rot90(fl.ones(2, 2), NAN), TypeError, "k = nan; expected an int"),
    "unravel_index": (lambda: fl.unravel_index(fl.tensor([0, 5]), (2, 0)), ValueError, r"shape = \[2, 0\]"),
    "special.round": (lambda: fl.special.round(fl.ones(2), decimals=None), TypeError, "decimals = None; expected an int"),
    "lobpcg": (lambda: fl.lobpcg(fl.eye(9), k=1, niter="x"), TypeError, "niter = 'x'; expected an int"),
    "istft": (lambda: fl.istft(fl.ones(5, 6, dtype=fl.complex64), 8, window=fl.ones(8), length=-3), ValueError, "length = -3"),
    "fft half an axis": (lambda: fl.fft.fft(fl.ones(4), 4, 0.5), TypeError, "dim = 0.5; expected an int"),
    **{
        f"{name} of -1 points": (lambda name=name: getattr(fl.fft, name)(fl.ones(4, 4), -1), ValueError, f"{name}: n = -1 points")
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    "interpolate to what wraps": (lambda: F.interpolate(fl.ones(1, 1, 4, 4), size=2**63 - 1), ValueError, "9223372036854775807"),
    "interpolate by what wraps": (
        lambda: F.interpolate(fl.ones(1, 1, 4, 4), scale_factor=1e30, mode="bilinear"), ValueError, "expected fewer than 2\\*\\*31",
    ),
    "instance_norm a mean alone": (lambda: F.instance_norm(fl.ones(2, 3, 4), fl.zeros(3)), ValueError, "only one of running_mean"),
    "instance_norm a variance alone": (
        lambda: F.instance_norm(fl.ones(2, 3, 4), running_var=fl.ones(3)), ValueError, "only one of running_mean",
    ),
    "attention with bias_k alone": (lambda: attention(bias_k=fl.ones(1, 1, 4)), AssertionError, "only one of bias_k and bias_v"),
    "attention with bias_v alone": (lambda: attention(bias_v=fl.ones(1, 1, 4)), AssertionError, "only one of bias_k and bias_v"),
    "attention drops less than nothing": (
        lambda: F.scaled_dot_product_attention(*[fl.ones(1, 1, 2, 2)] * 3, dropout_p=-0.5), ValueError, "has to be between 0 and 1, but got",
    ),
    "attention drops nan": (lambda: F.scaled_dot_product_attention(*[fl.ones(1, 1, 2, 2)] * 3, dropout_p=NAN), ValueError, "has to be between 0 and 1, but got"),
    "LSTM of nothing": (lambda: nn.LSTM(0, 3), ValueError, "input_size must be greater than zero"),
    "GRU bias": (lambda: nn.GRU(2, 3, bias="no"), TypeError, "bias is a str; expected a bool"),
    "RNN batch_first": (lambda: nn.RNN(2, 3, batch_first=1), TypeError, "batch_first is a int; expected a bool"),
    "LayerNorm": (lambda: nn.LayerNorm(()), ValueError, r"normalized_shape = \(\)"),
    "RMSNorm": (lambda: nn.RMSNorm([]), ValueError, r"normalized_shape = \[\]"),
    "HuberLoss": (lambda: nn.HuberLoss(delta=None), TypeError, "delta is a NoneType"),
    **{
        f"Unflatten {size!r}": (lambda size=size: nn.Unflatten(1, size), TypeError, "unflattened_size must be a tuple of ints")
        for size in (3, "x", None, (2, 1.5), ["a"])
    },
    "set_grad_enabled": (lambda: fl.set_grad_enabled("False"), TypeError, "mode = 'False'; expected a bool"),
    "inference_mode": (lambda: fl.inference_mode([]), TypeError, r"mode = \[\]; expected a bool"),
    "set_detect_anomaly": (lambda: fl.autograd.set_detect_anomaly(None), TypeError, "mode = None; expected a bool"),
    "weight_norm": (lambda: nn.utils.weight_norm(nn.Linear(3, 2), dim=5), IndexError, r"dim = 5.*\[2, 3\]"),
    "weight_norm, the new one": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 2), dim=0.5), TypeError, "dim = 0.5"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(name):
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
def test_a_layer_whose_weight_could_not_be_normalised_is_as_it_was():
    layer = nn.Linear(3, 2)
    util, parametrizations = nn.utils, nn.utils.parametrizations
    for normalise in (util.weight_norm, parametrizations.weight_norm, util.spectral_norm, parametrizations.spectral_norm):
        with pytest.raises(IndexError):
            normalise(layer, dim=7)
        assert type(layer) is nn.Linear and list(layer.state_dict()) == ["weight", "bias"]
        assert layer(fl.ones(1, 3)).shape == (1, 2)


def test_a_mode_that_was_refused_changed_nothing():
    for mode in (fl.set_grad_enabled, fl.inference_mode, fl.autograd.set_detect_anomaly):
        with pytest.raises(TypeError):
            mode("off")
    assert fl.is_grad_enabled() and not fl.is_inference_mode_enabled() and not fl.is_anomaly_enabled()
    with fl.set_grad_enabled(np.bool_(False)):
        assert not fl.is_grad_enabled()


# ---------------------------------------------------------------- what does mean something


@pytest.mark.parametrize("p, pick", [(INF, np.max), (-INF, np.min)])
def test_the_norm_of_windows_by_their_largest_element(p, pick):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)
    expected = pick(np.abs(x).reshape(2, 3, 2, 2, 3, 2), (3, 5))
    np.testing.assert_array_equal(F.lp_pool2d(fl.tensor(x), p, 2).numpy(), expected)
    np.testing.assert_array_equal(nn.LPPool2d(p, 2)(fl.tensor(x)).numpy(), expected)
    np.testing.assert_array_equal(F.lp_pool1d(fl.tensor(x[0]), p, 3).numpy(), pick(np.abs(x[0]).reshape(3, 4, 2, 3), -1))
    np.testing.assert_array_equal(F.lp_pool3d(fl.tensor(x), p, (1, 2, 2)).numpy(), expected)


def test_the_gradient_of_such_a_norm_goes_to_that_element():
    x = fl.tensor([[[1.0, -3.0, 2.0, 0.5]]], requires_grad=True)
    F.lp_pool1d(x, INF, 2).sum().backward()
    assert x.grad.tolist() == [[[0.0, -1.0, 1.0, 0.0]]]


def test_a_variance_without_end():
    x, target = fl.ones(3, requires_grad=True), fl.zeros(3)
    for var in (INF, fl.full((3,), INF)):
        assert F.gaussian_nll_loss(x, target, var).item() == INF
    assert F.gaussian_nll_loss(x, target, fl.zeros(3), eps=0.5).item() == pytest.approx(0.5 * (math.log(0.5) + 2))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_cell_without_a_state(cell):
    out = cell(3, 0)(fl.ones(2, 3))
    assert all(h.shape == (2, 0) for h in (out if isinstance(out, tuple) else [out]))


@pytest.mark.parametrize("name, flag", [
    ("SGD", "nesterov"), ("SGD", "maximize"), ("Adam", "amsgrad"), ("AdamW", "maximize"), ("RMSprop", "maximize"),
    ("RMSprop", "centered"), ("Adagrad", "maximize"),
])  # fmt: skip
def test_a_switch_of_an_optimizer_that_is_none_is_off(name, flag):
    got = []
    for value in (None, False):
        p = nn.Parameter(fl.ones(3))
        p.grad = fl.tensor([1.0, 2.0, -3.0])
        optimizer = getattr(fl.optim, name)([p], lr=0.1, **{flag: value})
        optimizer.step()
        got.append(p.tolist())
    assert got[0] == got[1]


def test_draws_that_have_no_meaning():
    for low, high in ((-3e38, 3e38), (0, float("inf")), (float("-inf"), 1), (float("nan"), 1)):
        with pytest.raises(RuntimeError, match="from = "):
            fl.empty(3).uniform_(low, high)
    with pytest.raises(RuntimeError, match="65504"):
        fl.empty(3, dtype=fl.half).uniform_(-40000, 40000)
    assert fl.empty(3, dtype=fl.float64).uniform_(-3e38, 3e38).isfinite().all()
    for std in (-1.0, float("nan")):
        for mean in (0.0, fl.zeros(2)):
            with pytest.raises(RuntimeError, match="std >= 0"):
                fl.normal(mean, fl.tensor([1.0, std]))
    assert fl.normal(0.0, fl.empty(0)).shape == (0,)


def test_celu_of_no_scale():
    with pytest.raises(RuntimeError, match="alpha"):
        fl.nn.functional.celu(fl.ones(2), 0.0)
