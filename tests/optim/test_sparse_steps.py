"""Steps over sparse gradients: those of the same optimizer over dense ones where these agree, PyTorch's rules where they do not."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn, optim

V, D = 12, 3


def layer(sparse=True, seed=0, dtype=np.float64):
    return nn.Embedding(V, D, sparse=sparse, _weight=fl.tensor(np.random.default_rng(seed).standard_normal((V, D)).astype(dtype)))


def train(net, optimizer, steps=20, seed=3):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        index = fl.tensor(rng.integers(0, V, 5))
        (net(index) ** 2).sum().backward()
        optimizer.step()
    return net.weight.detach().numpy()


@pytest.mark.parametrize("options", [{}, {"maximize": True}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5},
                                     {"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "nesterov": True, "maximize": True}], ids=str)  # fmt: skip
def test_sgd_is_what_it_is_for_dense_gradients(options):
    a, b = layer(True), layer(False)
    first = optim.SGD(a.parameters(), lr=0.01, **options)
    x, y = train(a, first), train(b, optim.SGD(b.parameters(), lr=0.01, **options))
    np.testing.assert_allclose(x, y, rtol=1e-12)
    if "momentum" in options:
        assert first.state[a.weight]["momentum_buffer"].is_sparse


@pytest.mark.parametrize("options", [{}, {"maximize": True}, {"lr_decay": 0.1}, {"initial_accumulator_value": 0.5}], ids=str)
def test_adagrad_is_what_it_is_for_dense_gradients(options):
    a, b = layer(True), layer(False)
    x, y = (train(net, optim.Adagrad(net.parameters(), lr=0.1, **options)) for net in (a, b))
    np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam_is_adam_of_the_rows(maximize):
    net = layer()
    optimizer = optim.SparseAdam(net.parameters(), lr=0.05, maximize=maximize)
    start = net.weight.detach().numpy().copy()
    rng = np.random.default_rng(3)
    w, m, v = start.copy(), np.zeros((V, D)), np.zeros((V, D))
    for t in range(1, 21):
        index = rng.integers(0, V, 5)
        g = np.zeros((V, D))
        np.add.at(g, index, 2 * w[index])
        rows = np.unique(index)
        g = -g if maximize else g
        m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
        v[rows] = 0.999 * v[rows] + 0.001 * g[rows] ** 2
        w[rows] -= 0.05 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m[rows] / (np.sqrt(v[rows]) + 1e-8)
    np.testing.assert_allclose(train(net, optimizer), w, rtol=1e-10)
    np.testing.assert_allclose(optimizer.state[net.weight]["exp_avg"].numpy(), m, rtol=1e-9)
    np.testing.assert_allclose(optimizer.state[net.weight]["exp_avg_sq"].numpy(), v, rtol=1e-9)
    assert optimizer.state[net.weight]["step"] == 20


@pytest.mark.parametrize("name", ["SparseAdam", "SGD", "Adagrad"])
def test_other_rows_are_not_touched(name):
    net = layer()
    before = net.weight.detach().clone()
    optimizer = getattr(optim, name)(net.parameters(), lr=0.1)
    net(fl.tensor([2, 5, 2])).sum().backward()
    optimizer.step()
    moved = (net.weight != before).any(1).nonzero().reshape(-1)
    assert moved.tolist() == [2, 5]


def test_states_are_kept_and_loaded():
    net = layer()
    optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    train(net, optimizer, 3)
    twin = layer()
    twin.load_state_dict(net.state_dict())
    other = optim.SGD(twin.parameters(), lr=0.01, momentum=0.9)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.state[twin.weight]["momentum_buffer"].is_sparse
    np.testing.assert_array_equal(train(net, optimizer, 5, seed=9), train(twin, other, 5, seed=9))
    again = pickle.loads(pickle.dumps(optim.SparseAdam(net.parameters(), lr=0.5)))
    assert again.param_groups[0]["lr"] == 0.5 and "SparseAdam" in repr(again)


def test_dense_and_sparse_gradients_of_one_optimizer():
    net, bias = layer(), fl.ones(3, dtype=fl.float64, requires_grad=True)
    optimizer = optim.Adagrad([net.weight, bias], lr=0.1)
    (net(fl.tensor([1])) + bias).sum().backward()
    optimizer.step()
    assert bias.tolist() == pytest.approx([0.9] * 3)
    np.testing.assert_allclose((net.weight - layer().weight).detach().numpy()[1], -0.1)


def test_gradients_of_elements():
    x = fl.ones(2, 3, requires_grad=True)
    optimizer = optim.SparseAdam([x], lr=0.1)
    x.gather(1, fl.tensor([[0], [2]]), sparse_grad=True).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(x.detach().numpy(), [[0.9, 1, 1], [1, 1, 0.9]], rtol=1e-6)
    y = fl.tensor(1.0, requires_grad=True)
    optimizer = optim.SGD([y], lr=0.1)
    y.gather(0, fl.tensor([0]), sparse_grad=True).sum().backward()
    optimizer.step()
    assert y.item() == pytest.approx(0.9)


def test_an_empty_gradient_counts_as_a_step():
    net = layer()
    optimizer = optim.SparseAdam(net.parameters())
    before = net.weight.detach().clone()
    net(fl.tensor([], dtype=fl.int64)).sum().backward()
    optimizer.step()
    assert (net.weight == before).all() and optimizer.state[net.weight]["step"] == 1


REFUSING = ["ASGD", "Adadelta", "Adafactor", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop"]


@pytest.mark.parametrize("name", REFUSING)
def test_who_takes_none_says_so_before_anything_moves(name):
    first, net = fl.ones(2, 2, dtype=fl.float64, requires_grad=True), layer()
    optimizer = getattr(optim, name)([{"params": [first]}, {"params": [net.weight]}], lr=0.1)
    first.sum().backward()
    net(fl.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=rf"{name}: the gradient of parameter 0 of group 1 \(shape \[12, 3\]\) is sparse; {name} does not support sparse"):
        optimizer.step()
    assert (first == 1).all()


def test_lbfgs_makes_it_dense():
    net, dense = layer(), layer(False)
    results = []
    for each in (net, dense):
        optimizer = optim.LBFGS(each.parameters(), lr=0.1, max_iter=3)

        def closure(each=each, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (each(fl.tensor([1, 2])) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        results.append(each.weight.detach().numpy())
    np.testing.assert_array_equal(*results)


def test_sparse_adam_refuses():
    net = layer()
    dense = fl.ones(2, requires_grad=True)
    optimizer = optim.SparseAdam([net.weight, dense])
    before = net.weight.detach().clone()
    (dense.sum() + net(fl.tensor([1])).sum()).backward()
    with pytest.raises(RuntimeError, match=r"parameter 1 of group 0 \(shape \[2\]\) is dense; SparseAdam does not support dense gradients, please consider Adam"):
        optimizer.step()
    assert (net.weight == before).all() and not optimizer.state
    for options in ({"lr": 0}, {"lr": -1.0}, {"eps": 0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}):
        with pytest.raises(ValueError, match=next(iter(options))):
            optim.SparseAdam(net.parameters(), **options)
    with pytest.raises(ValueError, match="requires dense parameters"):
        optim.SparseAdam([fl.ones(2, 2).to_sparse().requires_grad_()])


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_weight_decay_is_refused(name):
    net = layer()
    optimizer = getattr(optim, name)(net.parameters(), lr=0.1, weight_decay=0.1)
    net(fl.tensor([1])).sum().backward()
    before = net.weight.detach().clone()
    with pytest.raises(RuntimeError, match="weight_decay = 0.1, which is not compatible with sparse gradients"):
        optimizer.step()
    assert (net.weight == before).all()


@pytest.mark.parametrize("kinds", ["sd", "sdd", "sds", "ds", "dss", "dsd"])
@pytest.mark.parametrize("options", [{}, {"dampening": 0.25}, {"nesterov": True}, {"maximize": True}], ids=str)
def test_momentum_of_sparse_and_dense_gradients(kinds, options):
    """The momentum is sparse until there is a dense gradient, and goes on from what it was. (PyTorch refuses sparse before dense.)"""
    params = [fl.ones(V, D, dtype=fl.float64, requires_grad=True) for _ in range(2)]
    optimizers = [optim.SGD([p], lr=0.1, momentum=0.5, **options) for p in params]
    rng = np.random.default_rng(1)
    for k, kind in enumerate(kinds):
        grad = rng.standard_normal((V, D))
        if kind == "s":
            grad[::2] = 0
        for p, optimizer, sparse in zip(params, optimizers, (kind == "s", False)):
            p.grad = fl.tensor(grad).to_sparse(1) if sparse else fl.tensor(grad)
            optimizer.step()
        buffer = optimizers[0].state[params[0]]["momentum_buffer"]
        assert buffer.is_sparse == ("d" not in kinds[: k + 1])
    np.testing.assert_allclose(params[0].detach().numpy(), params[1].detach().numpy(), rtol=1e-12)
