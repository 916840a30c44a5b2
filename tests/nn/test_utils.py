"""Gradient clipping and parameters as a vector."""

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import utils
from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads


def params_with_grads(*grads):
    params = []
    for grad in grads:
        p = nn.Parameter(fl.zeros(len(grad)))
        p.grad = fl.tensor(grad)
        params.append(p)
    return params


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
@pytest.mark.parametrize("n", [1, 15, 32, 33, 64, 100])
def test_the_largest_gradient_is_found_wherever_it_is(n, dtype):
    """The kernel goes in lanes and takes the last elements one by one."""
    (param,) = params_with_grads([0.0] * n)
    param.data, param.grad = param.data.to(dtype), param.grad.to(dtype)
    for i in range(n):
        param.grad.fill_(-1)
        param.grad[i] = -3
        assert utils.clip_grad_norm_([param], 1e9, math.inf).item() == 3
        param.grad[i] = math.nan
        assert math.isnan(utils.clip_grad_norm_([param], 1e9, math.inf).item())


@pytest.mark.parametrize("norm_type, want", [(2.0, 5.0), (1.0, 7.0), (math.inf, 4.0)])
def test_total_norm(norm_type, want):
    params = [*params_with_grads([3.0, 0.0], [-4.0]), nn.Parameter(fl.zeros(1))]
    got = utils.clip_grad_norm_(params, 1e9, norm_type)
    assert got.item() == pytest.approx(want)
    assert params[1].grad.tolist() == [-4.0]


def test_clip_by_norm():
    params = params_with_grads([3.0], [4.0])
    utils.clip_grad_norm_((p for p in params), 1.0)
    assert [p.grad.item() for p in params] == pytest.approx([0.6, 0.8], rel=1e-5)


def test_a_non_finite_norm():
    params = params_with_grads([math.inf])
    with pytest.raises(RuntimeError, match="is inf"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)


def test_nothing_to_clip():
    assert utils.clip_grad_norm_([nn.Parameter(fl.zeros(1))], 1.0).item() == 0.0


def test_clip_by_value():
    params = params_with_grads([3.0, -0.5, -9.0])
    utils.clip_grad_value_(params, 1.0)
    assert params[0].grad.tolist() == [1.0, -0.5, -1.0]


@pytest.mark.parametrize("order, total", [(0, 2.0), (-math.inf, 0.0), (-1, 0.0), (math.inf, 3.0)])
def test_norms_of_odd_orders(order, total):
    tensors = [fl.tensor([3.0, 1.0]), fl.zeros(2), fl.tensor([1.0, -2.0])]
    assert utils.get_total_norm(tensors, order).item() == total


def test_functions_of_modules_have_an_older_place():
    layer = nn.Linear(2, 1)
    with pytest.warns(FutureWarning, match="older name of func.functional_call"):
        y = utils.stateless.functional_call(layer, {"weight": fl.ones(1, 2)}, (fl.ones(2),), strict=False)
    assert fl.equal(y, layer.bias + 2)


def test_lengths_may_be_floats():
    packed = utils.rnn.pack_padded_sequence(fl.arange(6).view(3, 2), fl.tensor([3.0, 2.0]))
    assert packed.batch_sizes.tolist() == [2, 2, 1]


def test_vector_round_trip():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    utils.vector_to_parameters(fl.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    other = fl.arange(10.0, dtype=fl.float64)
    utils.vector_to_parameters(other, net.parameters())  # which are views of it, and need not be all of it
    other[8] = 99
    assert net.bias.tolist() == [6, 7, 99] and net.bias.dtype is fl.float64
    with pytest.raises(TypeError, match="got: list"):
        utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(ValueError, match=r"need \[9\]"):
        utils.vector_to_parameters(fl.zeros(8), net.parameters())


# -------------------------------------------------------------------------------- normalised weights


@pytest.mark.parametrize("make, dim, lengths", [
    (lambda: nn.Linear(4, 3), 0, (3, 1)), (lambda: nn.Linear(4, 3), 1, (1, 4)), (lambda: nn.Linear(4, 3), None, ()),
    (lambda: nn.Conv2d(2, 3, 2), 0, (3, 1, 1, 1)),
])  # fmt: skip
def test_weight_norm(make, dim, lengths):
    layer = make()
    before = layer.weight.detach().clone()
    assert nn.utils.weight_norm(layer, dim=dim) is layer
    assert tuple(layer.weight_g.shape) == lengths
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    assert fl.allclose(layer.weight, before, atol=1e-6)
    with fl.no_grad():
        layer.weight_g.mul_(2)
    x = fl.ones(1, *([4] if before.ndim == 2 else [2, 3, 3]))
    layer(x).sum().backward()
    assert layer.weight_g.grad is not None and fl.allclose(layer.weight, 2 * before, atol=1e-6)
    nn.utils.remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and fl.allclose(layer.weight, 2 * before, atol=1e-6)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_spectral_norm_has_largest_singular_value_one():
    layer = nn.utils.spectral_norm(nn.Linear(6, 4), n_power_iterations=50)
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    layer(fl.ones(1, 6)).sum().backward()
    assert layer.weight_orig.grad is not None
    assert np.linalg.svd(layer.weight.detach().numpy())[1][0] == pytest.approx(1, abs=1e-4)
    u = layer.weight_u.tolist()
    layer.eval()(fl.ones(1, 6))
    assert layer.weight_u.tolist() == u
    want = layer.weight.detach().clone()
    nn.utils.remove_spectral_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist() == want.tolist()


@pytest.mark.parametrize(("make", "shape"), [(lambda: nn.Linear(6, 4), (2, 6)), (lambda: nn.ConvTranspose1d(6, 4, 2), (2, 6, 3))], ids=["Linear", "transposed"])
def test_spectral_norm_reads_what_was_written_before_it_kept_both_vectors(make, shape):
    net, x = nn.Sequential(nn.utils.spectral_norm(make())), fl.randn(shape)
    for _ in range(3):
        want = net(x)
    state = net.state_dict()
    assert state._metadata["0"] == {"version": 1, "spectral_norm": {"weight.version": 1}}
    old = {key: value for key, value in state.items() if key != "0.weight_v"} | {"0.weight": net[0].weight.detach()}
    again = nn.Sequential(nn.utils.spectral_norm(make()))
    again.load_state_dict(old)
    assert fl.allclose(again.eval()(x), net.eval()(x), atol=1e-5) and fl.allclose(again[0].weight_u, net[0].weight_u) and "0.weight" in old
    again.load_state_dict(dict(state))  # without a version, but as it is now
    assert fl.equal(again(x), net(x)) and want.shape == again(x).shape
    with pytest.raises(RuntimeError, match="Missing key.*0.weight_orig.*0.weight_u"):
        again.load_state_dict({"0.weight": old["0.weight"], "0.bias": old["0.bias"]})
    nn.utils.remove_spectral_norm(net[0])
    assert state._metadata["0"] != net.state_dict()._metadata["0"] == {"version": 1}
    net.load_state_dict(net.state_dict())


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_normalised_weights_errors(name):
    layer = nn.Linear(2, 2)
    for kind in (ValueError, AttributeError, KeyError):
        with pytest.raises(kind, match=f"^{name}: Linear has no parameter 'w'"):
            getattr(nn.utils, name)(layer, "w")
    with pytest.raises(ValueError, match=f"remove_{name}: {name} of 'weight' not found in Linear"):
        getattr(nn.utils, f"remove_{name}")(layer)
    getattr(nn.utils, name)(layer)
    with pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks on the same parameter weight|'weight' of Linear is normalised already"):
        getattr(nn.utils, name)(layer)


def test_the_older_clip_grad_norm_passes_all_on():
    x = nn.Parameter(fl.ones(2))
    x.grad = fl.tensor([math.inf, 1.0])
    with pytest.warns(FutureWarning, match="clip_grad_norm_"), pytest.raises(RuntimeError, match="inf"):
        utils.clip_grad_norm([x], 1.0, 2.0, True)


def test_gradients_of_single_samples():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = fl.rand(5, 3)
    with pytest.raises(RuntimeError, match="loss_reduction = 'max'; expected 'sum' or 'mean'"):
        call_for_per_sample_grads(net, loss_reduction="max")
    y = call_for_per_sample_grads(net)(x)
    assert fl.allclose(y, net(x))
    y.square().sum().backward()
    kept = [p.grad_sample for p in net.parameters()]
    assert all(p.grad is None for p in net.parameters())
    for i in range(5):
        wanted = fl.autograd.grad(net(x[i]).square().sum(), list(net.parameters()))
        assert all(fl.allclose(k[i], g, atol=1e-6) for k, g in zip(kept, wanted))
    with pytest.raises(RuntimeError, match="parameter '0.weight' has a grad_sample already"):
        call_for_per_sample_grads(net)
