"""no_grad, enable_grad, set_grad_enabled, inference_mode: as scopes, decorators, around generators; detach."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn


@pytest.fixture
def x():
    return fl.ones(2, requires_grad=True)


def test_no_grad(x):
    with fl.no_grad():
        assert not fl.is_grad_enabled()
        y = x * 2
    assert fl.is_grad_enabled()
    assert not y.requires_grad and y.is_leaf


def test_nesting(x):
    with fl.no_grad():
        with fl.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad


def test_mode_returns_after_an_exception():
    with pytest.raises(ZeroDivisionError), fl.no_grad():
        raise ZeroDivisionError
    assert fl.is_grad_enabled()


def test_set_grad_enabled_as_a_function_and_as_a_scope():
    with fl.set_grad_enabled(False):
        assert not fl.is_grad_enabled()
    assert fl.is_grad_enabled()
    fl.set_grad_enabled(False)
    assert not fl.is_grad_enabled()
    fl.set_grad_enabled(True)


@pytest.mark.parametrize("mode", [fl.no_grad, fl.inference_mode], ids=["no_grad", "inference_mode"])
def test_decorator(mode, x):
    @mode()
    def double(t):
        """Doc."""
        return t * 2

    assert not double(x).requires_grad
    assert double.__name__ == "double" and double.__doc__ == "Doc."
    assert fl.is_grad_enabled()


def test_decorator_without_parentheses(x):
    @fl.no_grad
    def double(t):
        return t * 2

    assert not double(x).requires_grad


def test_enable_grad_decorator(x):
    @fl.enable_grad()
    def double(t):
        return t * 2

    with fl.no_grad():
        assert double(x).requires_grad


def test_generator_has_the_mode_only_while_it_runs(x):
    @fl.no_grad()
    def steps():
        for _ in range(3):
            assert not fl.is_grad_enabled()
            got = yield x * 2
            assert got in (None, "sent")
        return "end"

    g = steps()
    assert not next(g).requires_grad
    assert fl.is_grad_enabled()
    g.send("sent")
    assert fl.is_grad_enabled()
    g.close()
    assert fl.is_grad_enabled()


def test_generator_receives_exceptions():
    @fl.no_grad()
    def steps():
        try:
            yield 1
        except KeyError:
            assert not fl.is_grad_enabled()
            yield 2

    g = steps()
    next(g)
    assert g.throw(KeyError()) == 2
    assert fl.is_grad_enabled()


def test_one_scope_object_can_be_used_again():
    scope = fl.no_grad()
    for _ in range(2):
        with scope:
            assert not fl.is_grad_enabled()
        assert fl.is_grad_enabled()


def test_inference_tensors_are_refused_by_saving(x):
    with fl.inference_mode():
        assert fl.is_inference_mode_enabled() and not fl.is_grad_enabled()
        a = fl.ones(2)
    assert a.is_inference() and not x.is_inference()
    with pytest.raises(fl.AutogradError, match="inference_mode.*clone"):
        a * x
    assert (a.clone() * x).requires_grad
    assert not fl.is_inference_mode_enabled()


def test_inference_tensors_are_usable_without_grad(x):
    with fl.inference_mode():
        a = x * 2
        a.add_(1)
    assert a.tolist() == [3.0, 3.0]
    assert (a + 1).tolist() == [4.0, 4.0]


MADE_INSIDE = {
    "tensor": lambda x: fl.tensor([1.0, 2.0]),
    "0-d": lambda x: fl.tensor(1.0),
    "from_numpy": lambda x: fl.from_numpy(np.ones(2)),
    "frombuffer": lambda x: fl.frombuffer(bytearray(8), dtype=fl.float32),
    "clone": lambda x: x.clone(),
    "cast": lambda x: x.to(fl.float64),
    "part by places": lambda x: x[[0]],
    "Parameter": lambda x: nn.Parameter(fl.ones(2)),
    "parameter of a module": lambda x: nn.Linear(2, 2).weight,
    "deepcopy": lambda x: copy.deepcopy(x.detach()),
}


@pytest.mark.parametrize("name", MADE_INSIDE)
def test_whatever_is_made_in_inference_mode_is_of_it(x, name):
    with fl.inference_mode():
        made = MADE_INSIDE[name](x)
        made.mul_(2)
    assert made.is_inference() and made.detach().is_inference() and not made.clone().is_inference()
    with pytest.raises(fl.AutogradError, match="made in inference_mode"):
        made.mul_(2)


def test_what_shares_memory_with_a_tensor_from_outside_is_not_of_inference_mode(x):
    with fl.inference_mode():
        for same in (x.view(2, 1), x.detach(), x.data, x[0], x.contiguous(), x.to(fl.float32)):
            assert not same.is_inference()
        out = fl.empty(2)
    fl.add(x.detach(), 1, out=(kept := fl.empty(2)))
    with fl.inference_mode():
        fl.add(x, 1, out=kept)
    assert out.is_inference() and not kept.is_inference()


@pytest.mark.parametrize("change", ["t_", "squeeze_", "unsqueeze_", "resize_"])
def test_shapes_of_inference_tensors_are_changed_inside_alone(change):
    with fl.inference_mode():
        x, y = fl.ones(2, 3), fl.ones(2, 3)
        args = {"unsqueeze_": (0,), "resize_": (3,)}.get(change, ())
        getattr(y, change)(*args)
    with pytest.raises(fl.AutogradError, match="made in inference_mode"):
        getattr(x, change)(*args)
    assert x.shape == (2, 3)


def test_a_parameter_made_in_inference_mode_requires_grad_and_is_refused_in_training(x):
    with fl.inference_mode():
        linear = nn.Linear(2, 2)
    assert linear.weight.requires_grad
    with pytest.raises(fl.AutogradError, match="made in inference_mode"):
        linear(x)
    assert copy.deepcopy(linear.state_dict())["weight"].is_inference() is False
    with fl.no_grad():
        assert not linear(x).is_inference()
    trained = nn.Linear(2, 2)
    trained.load_state_dict(linear.state_dict())
    assert trained(x).requires_grad


def test_inference_mode_off():
    with fl.inference_mode(False):
        assert not fl.ones(2).is_inference()


def test_detach_shares_memory_and_version(x):
    y = x.exp()
    d = y.detach()
    assert not d.requires_grad and d.grad_fn is None
    assert d.data_ptr() == y.data_ptr()
    d.zero_()
    assert y.tolist() == [0.0, 0.0]
    with pytest.raises(fl.AutogradError, match="ExpBackward.*zero_"):
        y.sum().backward()


def test_data_shares_memory_but_no_version(x):
    y = x * 2
    z = y.exp()
    y.data.zero_()
    assert y.tolist() == [0.0, 0.0]
    z.sum().backward()


def test_detach_in_place(x):
    y = x * 2
    y.detach_()
    assert y.is_leaf and not y.requires_grad


def test_optimizer_like_update_under_no_grad(x):
    (x * x).sum().backward()
    with fl.no_grad():
        x -= 0.1 * x.grad
    assert x.is_leaf and x.requires_grad
    assert fl.allclose(x.detach(), fl.full((2,), 0.8))


def test_the_function_of_a_decorator_by_name():
    def f(x):
        return (x * 2).requires_grad

    x = fl.ones(1, requires_grad=True)
    assert not fl.no_grad(orig_func=f)(x) and not fl.no_grad()(orig_func=f)(x)
    assert not fl.set_grad_enabled(False)(orig_func=f)(x) and fl.enable_grad()(orig_func=f)(x)


VIEWS = {
    "index": lambda x: x[1:],
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(4),
    "expand": lambda x: x.expand(3, 2, 2),
    "transpose": lambda x: x.t(),
    "unbind": lambda x: x.unbind()[0],
    "split": lambda x: x.split(1)[1],
    "of a view": lambda x: x[1:].view(-1),
}


@pytest.mark.parametrize("made", [pytest.param(make, id=name) for name, make in VIEWS.items()])
@pytest.mark.parametrize("leaf", [True, False])
def test_a_view_made_under_no_grad_requires_grad_and_has_no_history(made, leaf):
    x = fl.ones(2, 2, requires_grad=True)
    base = x if leaf else x * 1
    with fl.no_grad():
        v = made(base)
        assert not (base * 1).requires_grad and not base.detach().requires_grad and not base.clone().requires_grad
        assert v.numpy().shape == tuple(v.shape)
    assert v.requires_grad and v.is_leaf and v.grad_fn is None
    (v * 3).sum().backward()
    assert x.grad is None and v.grad.tolist() == fl.full(v.shape, 3.0).tolist()
    if 0 in v.stride():
        return
    with pytest.raises(fl.AutogradError, match="no_grad"):
        v.add_(1)
    with fl.no_grad():
        v.add_(1)  # the base sees it
    assert base.sum() > 4


def test_a_view_made_under_no_grad_of_what_requires_none():
    with fl.no_grad():
        assert not fl.ones(2)[1:].requires_grad


def test_bytes_seen_as_another_type_have_no_history():
    x = fl.tensor([1.0, -2.0], requires_grad=True)
    bits = x.view(fl.int32)
    assert not bits.requires_grad and bits.is_leaf and bits.data_ptr() == x.data_ptr()
    assert bits.view(fl.float32).tolist() == [1.0, -2.0]
    assert not (x * 1).view(fl.uint8).requires_grad
    y = x * x
    with fl.no_grad():
        x.view(fl.int32).bitwise_and_(0x7FFFFFFF)
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(fl.AutogradError, match="bitwise_and_"):  # a write through the bits is a write
        y.sum().backward()


def test_inference_mode_off_records_again(x):
    with fl.inference_mode(), fl.inference_mode(False):
        y = x * 2
    with fl.no_grad(), fl.inference_mode(False):
        z = x * 2
    assert y.requires_grad and z.requires_grad and not y.is_inference()


def test_nothing_is_recorded_in_inference_mode_whatever_grad_mode_is_asked_for():
    w = fl.ones(2, requires_grad=True)
    with fl.inference_mode():
        assert not fl.is_grad_enabled()
        with fl.enable_grad():
            assert fl.is_grad_enabled()
            y = w * 2
            assert not y.requires_grad and y.is_inference() and y.grad_fn is None
            with fl.no_grad():
                assert not fl.is_grad_enabled()
            with fl.inference_mode(False):
                assert fl.is_grad_enabled() and (w * 2).requires_grad
            assert not (w * 2).requires_grad
        assert not fl.is_grad_enabled()
    assert fl.is_grad_enabled() and (w * 2).requires_grad


def test_leaves_that_require_grad_can_be_made_in_inference_mode():
    with fl.inference_mode():
        assert fl.ones(2, requires_grad=True).requires_grad
        assert fl.nn.Linear(2, 2).weight.requires_grad
        x = fl.ones(2)
    with pytest.raises(RuntimeError, match="inference_mode"):
        x.requires_grad_()


def test_writes_into_inference_tensors_are_not_counted():
    with fl.inference_mode():
        x = fl.ones(2)
        with pytest.raises(RuntimeError, match="_version"):
            x._version  # noqa: B018 (reading it is the test)
    with pytest.raises(RuntimeError, match="_version"):
        x._version  # noqa: B018
    assert x.clone()._version == 0
