"""Recurrent layers and norms as functions of their weights, several modules at once, and modules that are generic."""

import abc
import copy
import importlib.util
import pickle
import typing

import numpy as np
import pytest

import flambeau as fl

F = fl.nn.functional
T = typing.TypeVar("T")


def draw(*shape, seed=0):
    return fl.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "name"), [("LSTM", "lstm"), ("GRU", "gru"), ("RNN", "rnn_tanh")])
def test_functions_compute_what_layers_do(kind, name, bias, bidirectional, batch_first):
    layer = getattr(fl.nn, kind)(3, 4, 2, bias=bias, bidirectional=bidirectional, batch_first=batch_first)
    x, states = draw(5, 2, 3), [draw(4 if bidirectional else 2, 5 if batch_first else 2, 4, seed=s) for s in (1, 2)]
    hx = tuple(states) if kind == "LSTM" else states[0]
    function, params = getattr(fl, name), list(layer.parameters())
    y, last = layer(x, hx)
    found = function(x, hx, params, bias, 2, 0.0, True, bidirectional, batch_first)
    wanted = (y, *last) if kind == "LSTM" else (y, last)
    assert len(found) == len(wanted) and all(fl.equal(a, b) for a, b in zip(found, wanted, strict=True))
    if not batch_first:
        packed = fl.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
        assert fl.equal(function(packed.data, packed.batch_sizes, hx, params, bias, 2, 0.0, False, bidirectional)[0], layer(packed, hx)[0].data)


def test_rectified_and_projected_ones():
    layer = fl.nn.RNN(3, 4, nonlinearity="relu")
    x, h = draw(5, 2, 3), draw(1, 2, 4)
    assert fl.equal(fl.rnn_relu(x, h, list(layer.parameters()), True, 1, 0.0, False, False, False)[0], layer(x, h)[0])
    layer, hx = fl.nn.LSTM(3, 4, proj_size=2), (draw(1, 2, 2), draw(1, 2, 4))
    found = fl.lstm(input=x, hx=hx, params=list(layer.parameters()), has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False, batch_first=False)
    assert fl.equal(found[0], layer(x, hx)[0])


def test_wrong_calls_of_them():
    x, h = draw(5, 2, 3), draw(1, 2, 4)
    with pytest.raises(fl.ShapeError, match="gru: 2 params; expected 4 for each of 1 layers in 1 directions"):
        fl.gru(x, h, [h, h], True, 1, 0.0, False, False, False)
    with pytest.raises(fl.ShapeError, match=r"gru: batch_sizes are flambeau.float32 of shape \[5, 2, 3\]"):
        fl.gru(x, x, h, [h] * 4, True, 1, 0.0, False, False)
    with pytest.raises(TypeError, match=r"lstm\(\) received an invalid combination of arguments: 1 by position"):
        fl.lstm(x)


def test_norms_with_their_statistics():
    x, w, b = draw(2, 6, 5).requires_grad_(), draw(6), draw(6, seed=1)
    y, mean, rstd = fl.native_layer_norm(x, [5], None, None, 1e-5)
    assert fl.equal(y, F.layer_norm(x, [5])) and mean.shape == rstd.shape == (2, 6, 1) and y.requires_grad and not mean.requires_grad
    fl.testing.assert_close(((x - mean) * rstd), y)
    y, mean, rstd = fl.native_group_norm(x, w, b, 2, 6, 5, 3, 1e-5)
    assert fl.equal(y, F.group_norm(x, 3, w, b)) and mean.shape == rstd.shape == (2, 3) and mean.requires_grad
    fl.testing.assert_close(mean, x.reshape(2, 3, 10).mean(-1))
    running = [fl.zeros(6), fl.ones(6)]
    y, mean, rstd = fl.native_batch_norm(x, w, b, *running, True, 0.1, 1e-5)
    fl.testing.assert_close(running[0], 0.1 * mean)
    fl.testing.assert_close(rstd, (x.detach().var((0, 2), correction=0) + 1e-5).rsqrt())
    assert [part.shape for part in fl.native_batch_norm(x, w, b, *running, False, 0.1, 1e-5)[1:]] == [(0,), (0,)]
    with pytest.raises(fl.ShapeError, match=r"N = 2, C = 6, HxW = 4, but input has shape \[2, 6, 5\]"):
        fl.native_group_norm(x, w, b, 2, 6, 4, 3, 1e-5)


def test_statistics_of_half_precision_are_rounded_once():
    x = (draw(2, 64) * 3 + 5).bfloat16()
    mean, rstd = fl.native_layer_norm(x, [64], None, None, 1e-5)[1:]
    assert mean.dtype == rstd.dtype == fl.bfloat16
    assert fl.equal(rstd, (x.float().var(-1, correction=0, keepdim=True) + 1e-5).rsqrt().bfloat16())


def test_several_modules_with_inputs_of_their_own():
    parallel = fl.nn.parallel
    for name in parallel.__all__:  # a submodule of the name would hide the function once it is imported
        assert importlib.util.find_spec(f"{parallel.__name__}.{name}") is None
    nets, x = [fl.nn.Linear(2, 3), fl.nn.Linear(2, 1)], draw(4, 2)
    found = parallel.parallel_apply(nets, [x, (x,)])
    assert all(fl.equal(a, net(x)) for a, net in zip(found, nets, strict=True))
    assert fl.equal(parallel.data_parallel(nets[0], x), nets[0](x)) and parallel.replicate(nets[0], []) == []
    for call, text in ((lambda: parallel.parallel_apply(nets, [x]), "1 inputs for 2 modules"), (lambda: parallel.parallel_apply(nets, [x, x], devices=[0, 1]), "device 0"),
                       (lambda: parallel.replicate(nets[0], [0]), "no CUDA backend")):  # fmt: skip
        with pytest.raises((ValueError, fl.DeviceError), match=text):
            call()


def test_modules_may_be_generic():
    class First(typing.Generic[T], abc.ABC, fl.nn.Module):
        pass

    class Last(fl.nn.Module, typing.Generic[T]):
        pass

    class Chosen(First[int]):
        pass

    assert typing.get_args(First[int]) == typing.get_args(Last[int]) == (int,) and isinstance(Chosen(), fl.nn.Module)
    with pytest.raises(TypeError, match="not subscriptable"):
        fl.nn.Module[int]


def test_the_list_of_weights_can_be_written():
    """As packages do that give a layer other weights."""
    layer, other = fl.nn.LSTM(3, 4), fl.nn.LSTM(3, 4)
    x = draw(5, 2, 3)
    before, kept = layer(x)[0], layer.weight_ih_l0
    layer._flat_weights = [kept, *other._flat_weights[1:]]
    assert layer.weight_ih_l0 is kept and not fl.equal(layer(x)[0], other(x)[0]) and not fl.equal(layer(x)[0], before)
    layer._flat_weights[0] = other.weight_ih_l0
    assert fl.equal(layer(x)[0], other(x)[0]) and layer.weight_ih_l0 is kept
    layer.weight_ih_l0 = fl.nn.Parameter(kept.detach())  # a new meaning of a name makes the list anew
    assert fl.equal(layer(x)[0], before) and layer._flat_weights[0] is layer.weight_ih_l0


def test_weights_of_recurrent_layers_may_be_computed():
    """What AWD-LSTM's dropped weights do: a plain tensor in the place of a parameter."""
    layer, x = fl.nn.LSTM(3, 4), draw(5, 2, 3)
    want, raw = layer(x)[0], layer.weight_hh_l0
    del layer.weight_hh_l0
    layer.register_parameter("weight_hh_l0_raw", fl.nn.Parameter(raw.detach()))
    layer.weight_hh_l0 = layer.weight_hh_l0_raw * 1.0
    assert layer._flat_weights[1] is layer.weight_hh_l0 and fl.equal(layer(x)[0], want)
    layer(x)[0].sum().backward()
    assert layer.weight_hh_l0_raw.grad.abs().sum() > 0 and layer._weights_have_changed() is False


@pytest.mark.parametrize("change", ["setattr", "table", "functional", "assign", "double", "copy", "pickle"])
def test_weights_of_recurrent_layers_follow_their_names(change):
    layer, other, x = fl.nn.GRU(3, 4), fl.nn.GRU(3, 4), draw(5, 2, 3)
    want = other(x)[0]
    if change == "functional":
        before = layer(x)[0]
        assert fl.equal(fl.func.functional_call(layer, dict(other.named_parameters()), (x,))[0], want)
        assert fl.equal(layer(x)[0], before)
        return
    if change == "setattr":
        for name, p in other.named_parameters():
            setattr(layer, name, p)
    elif change == "table":
        layer._parameters.update(other._parameters)
    elif change == "assign":
        layer.load_state_dict(other.state_dict(), assign=True)
    else:
        layer = {"copy": copy.deepcopy, "pickle": lambda m: pickle.loads(pickle.dumps(m)), "double": lambda m: m.double().float()}[change](other)
    assert fl.equal(layer(x)[0], want)
    assert [a is b for a, b in zip(layer._flat_weights, layer.parameters(), strict=True)] == [True] * 4
    assert [ref() for ref in layer._flat_weight_refs] == layer._flat_weights or change != "copy"


def test_attributes_that_programs_look_for():
    lstm, attention = vars(fl.nn.LSTM(3, 4)), vars(fl.nn.MultiheadAttention(4, 2))
    assert {"_flat_weights", "_flat_weights_names", "_flat_weight_refs", "_all_weights"} <= lstm.keys()
    assert attention["bias_k"] is None and attention["bias_v"] is None and "bias_k" not in attention["_parameters"]


def test_a_replica_has_tables_of_its_own():
    layer = fl.nn.Sequential(fl.nn.LSTM(3, 4), fl.nn.BatchNorm1d(4))
    replica, lstm, norm = (m._replicate_for_data_parallel() for m in (layer, layer[0], layer[1]))
    assert type(replica) is fl.nn.Sequential and replica._modules == layer._modules and replica._modules is not layer._modules
    assert norm._is_replica and not norm._parameters and norm._buffers == layer[1]._buffers and norm._buffers is not layer[1]._buffers
    assert lstm._flat_weights == layer[0]._flat_weights and lstm._flat_weights is not layer[0]._flat_weights
    assert fl.equal(replica[1](fl.ones(2, 4)), layer[1](fl.ones(2, 4)))


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (2, 1), (), (1,)], ids=str)
def test_a_linear_map_adds_a_bias_that_broadcasts(shape):
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s) for s in ((2, 3), (4, 3), shape))
    X, W, B = (fl.tensor(v, requires_grad=True) for v in (x, w, b))
    y = F.linear(X, W, B)
    np.testing.assert_allclose(y.detach().numpy(), x @ w.T + b, rtol=1e-12)
    assert fl.autograd.gradcheck(F.linear, (X, W, B))
    with pytest.raises(fl.ShapeError, match=r"bias has shape \[3, 4\]; expected a shape that broadcasts to \[2, 4\]"):
        F.linear(X, W, fl.ones(3, 4, dtype=fl.float64))
