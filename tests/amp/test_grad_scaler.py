"""`GradScaler`: scaling, checking, skipping, and how the scale moves."""

from __future__ import annotations

import pickle

import pytest

import flambeau as fl


def scaler(**options):
    """One that has scaled something."""
    s = fl.amp.GradScaler("cpu", **{"init_scale": 8.0, "growth_interval": 2, **options})
    s.scale(fl.zeros(()))
    return s


def parameter(grad=None):
    p = fl.ones(2, requires_grad=True)
    if grad is not None:
        p.grad = fl.tensor(grad)
    return p, fl.optim.SGD([p], lr=1.0)


def test_a_step_is_that_of_the_gradients_without_scale():
    p, optimizer = parameter()
    s = scaler()
    s.scale((p * fl.tensor([1.0, 2.0])).sum()).backward()
    assert p.grad.tolist() == [8, 16]
    s.step(optimizer)
    assert p.tolist() == [0, -1] and p.grad.tolist() == [1, 2]


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_a_step_with_infinite_gradients_is_skipped(bad):
    p, optimizer = parameter([1.0, bad])
    q, other = parameter([8.0, 8.0])
    s = scaler()
    assert s.step(optimizer) is None
    s.step(other)
    assert p.tolist() == [1, 1] and q.tolist() == [0, 0]
    s.update()
    assert s.get_scale() == 4.0


def test_the_scale_grows_and_shrinks():
    p, optimizer = parameter()
    s = scaler(growth_factor=4.0, backoff_factor=0.25)
    seen = []
    for bad in (0, 0, 0, 1, 0, 0):
        p.grad = fl.tensor([1.0, float("inf") if bad else 1.0])
        s.step(optimizer)
        s.update()
        seen.append(s.get_scale())
    assert seen == [8, 32, 32, 8, 8, 32]
    s.update(3.0)
    assert s.get_scale() == 3.0
    s.update(fl.tensor(5.0))
    assert s.get_scale() == 5.0


def test_the_scale_stays_finite():
    p, optimizer = parameter([1.0, 1.0])
    s = scaler(init_scale=2.0**127, growth_interval=1)
    s.step(optimizer)
    s.update()
    assert s.get_scale() == 2.0**127


def test_what_scale_takes():
    s = scaler()
    x = fl.ones(2, dtype=fl.float16)
    assert s.scale(x).tolist() == [8, 8] and s.scale(x).dtype == fl.float16
    assert s.scale(fl.ones((), dtype=fl.bfloat16)).dtype == fl.float32
    a, (b, c) = s.scale([x, (x, x * 2)])
    assert a.tolist() == b.tolist() == [8, 8] and c.tolist() == [16, 16]
    assert [t.tolist() for t in s.scale(t for t in [x])] == [[8, 8]]
    with pytest.raises(ValueError, match="scale: got a float"):
        s.scale(3.0)


def test_unscale_once():
    p, optimizer = parameter([8.0, 16.0])
    s = scaler()
    s.unscale_(optimizer)
    assert p.grad.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        s.unscale_(optimizer)
    s.step(optimizer)
    assert p.tolist() == [0, -1]
    with pytest.raises(RuntimeError, match="after step"):
        s.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        s.step(optimizer)
    s.update()
    with pytest.raises(RuntimeError, match="no inf checks"):
        s.update()


def test_refusals():
    p, optimizer = parameter()
    s = scaler()
    with pytest.raises(RuntimeError, match="No inf checks were recorded for this optimizer"):
        s.step(optimizer)
    with pytest.raises(RuntimeError, match="closures"):
        scaler().step(optimizer, closure=lambda: 0)
    half = fl.ones(2, dtype=fl.float16, requires_grad=True)
    half.grad = half.detach()
    with pytest.raises(ValueError, match="float16"):
        scaler().unscale_(fl.optim.SGD([half], lr=1.0))
    with pytest.raises(ValueError, match="growth_factor"):
        scaler(growth_factor=1.0)
    with pytest.raises(ValueError, match="backoff_factor"):
        scaler(backoff_factor=1.0)


def test_gradients_of_what_was_not_scaled_are_refused():
    """They were divided by a scale that they never had."""
    p, optimizer = parameter([8.0, 16.0])
    for s in (fl.amp.GradScaler("cpu"), pickle.loads(pickle.dumps(scaler()))):
        for name, call in {"unscale_": s.unscale_, "step": s.step, "update": lambda _, s=s: s.update(2.0)}.items():
            for kind in (RuntimeError, AssertionError):
                with pytest.raises(kind, match=f"GradScaler.{name}: Attempted {name} but _scale is None"):
                    call(optimizer)
    assert p.grad.tolist() == [8, 16] and p.tolist() == [1, 1]


def test_errors_are_assertions_too():
    for options in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(AssertionError, match=next(iter(options))):
            scaler(**options)
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler().step(parameter()[1])


def test_switched_off():
    p, optimizer = parameter([1.0, float("inf")])
    s = scaler(enabled=False)
    assert s.scale(p) is p and not s.is_enabled() and s.get_scale() == 1.0 and s.state_dict() == {}
    s.unscale_(optimizer)
    s.step(optimizer)
    s.update()
    assert p[0].item() == 0
    s.load_state_dict({})
    with pytest.warns(UserWarning, match="no CUDA"):
        assert not fl.amp.GradScaler().is_enabled()
    assert fl.cpu.amp.GradScaler().is_enabled()


def test_state():
    p, optimizer = parameter([1.0, 1.0])
    s = scaler()
    s.step(optimizer)
    with pytest.raises(RuntimeError, match="pickled"):
        pickle.dumps(s)
    s.update()
    state = s.state_dict()
    assert state == {"scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "_growth_tracker": 1}
    for other in (scaler(init_scale=1.0, growth_interval=7), pickle.loads(pickle.dumps(s))):
        other.load_state_dict(state)
        assert other.state_dict() == state
    with pytest.raises(RuntimeError, match="empty"):
        s.load_state_dict({})
    s.set_growth_factor(3.0)
    s.set_backoff_factor(0.1)
    s.set_growth_interval(5)
    assert (s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval()) == (3.0, 0.1, 5)


def sparse_layer(index, factor=1.0):
    """A table of ones whose gradient is sparse, with the place of an index that is there twice."""
    layer = fl.nn.Embedding(5, 2, sparse=True, _weight=fl.ones(5, 2))
    return layer, fl.optim.SGD(layer.parameters(), lr=1.0), (layer(fl.tensor(index)) * factor).sum()


def test_sparse_gradients_are_unscaled():
    layer, optimizer, loss = sparse_layer([1, 3, 1])
    s = scaler()
    s.scale(loss).backward()
    grad = layer.weight.grad
    s.unscale_(optimizer)
    assert layer.weight.grad is grad and grad._values().tolist() == [[1, 1]] * 3
    s.step(optimizer)
    assert layer.weight.tolist() == [[1, 1], [-1, -1], [1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_with_infinite_sparse_gradients_is_skipped(bad):
    layer, optimizer, loss = sparse_layer([1, 3], fl.tensor([[1.0, 1.0], [1.0, bad]]))
    dense = fl.ones(2, requires_grad=True)  # after the sparse one, and finite
    optimizer.add_param_group({"params": [dense]})
    s = scaler()
    s.scale(loss + dense.sum()).backward()
    s.step(optimizer)
    s.update()
    assert (layer.weight == 1).all() and (dense == 1).all() and s.get_scale() == 4.0
