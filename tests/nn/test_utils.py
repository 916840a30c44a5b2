"""Gradient clipping and parameters as a vector."""

import math

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import utils


def params_with_grads(*grads):
    params = []
    for grad in grads:
        p = nn.Parameter(fl.zeros(len(grad)))
        p.grad = fl.tensor(grad)
        params.append(p)
    return params


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


def test_vector_round_trip():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    utils.vector_to_parameters(fl.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match=r"need \[9\]"):
        utils.vector_to_parameters(fl.zeros(8), net.parameters())
