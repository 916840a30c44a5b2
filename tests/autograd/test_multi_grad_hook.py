"""Hooks of several tensors: called once per backward, with the gradients that it computes."""

import pytest

import flambeau as fl
from flambeau.autograd.graph import register_multi_grad_hook


class Net:
    """b and c of a, which is of x; y joins b, and nothing leads to z."""

    def __init__(self):
        self.x, self.y, self.z = (fl.ones(2, requires_grad=True) for _ in range(3))
        self.a = self.x * 2
        self.b = self.a * self.a + self.y
        self.c = self.a * 3
        self.seen = []

    def all(self, grads):
        self.seen.append([None if g is None else g.tolist() for g in grads])

    def any(self, grad):
        self.seen.append(grad.tolist())

    @property
    def loss(self):
        return self.b.sum() + self.c.sum()


def test_all_gradients_come_at_once_and_none_for_what_is_not_reached():
    net = Net()
    register_multi_grad_hook((net.a, net.b, net.c, net.z), net.all)
    net.loss.backward(retain_graph=True)
    net.b.sum().backward(retain_graph=True)
    assert net.seen == [[[7, 7], [1, 1], [1, 1], None], [[4, 4], [1, 1], None, None]]


def test_what_inputs_leave_out_is_not_waited_for():
    net = Net()
    register_multi_grad_hook((net.a, net.b, net.c), net.all)
    fl.autograd.grad(net.loss, net.y, retain_graph=True)
    net.loss.backward(inputs=[net.y], retain_graph=True)
    assert net.seen == [[None, [1, 1], None]] * 2
    fl.autograd.grad(net.loss, net.a, retain_graph=True)
    assert net.seen[-1] == [[7, 7], [1, 1], [1, 1]]


def test_leaves_have_their_gradients_when_both_are_there():
    net = Net()
    register_multi_grad_hook((net.x, net.y), net.all)
    net.loss.backward()
    assert net.seen == [[[14, 14], [1, 1]]]


def test_any_is_the_first_gradient_of_each_backward():
    net = Net()
    register_multi_grad_hook((net.x, net.a, net.c, fl.ones(1)), net.any, mode="any")
    net.loss.backward(retain_graph=True)
    net.loss.backward(retain_graph=True)
    assert net.seen == [[1, 1]] * 2


def test_one_output_of_an_op_with_several():
    x = fl.ones(2, 3, requires_grad=True)
    first, second = x.unbind(0)
    seen = []
    register_multi_grad_hook((first, second), lambda grads: seen.append([g is None for g in grads]))
    first.sum().backward()
    assert seen == [[False, True]]


def test_a_backward_inside_of_a_hook_is_one_of_its_own():
    inner, outer = Net(), Net()
    register_multi_grad_hook((inner.x, inner.y), inner.all)
    register_multi_grad_hook((outer.x, outer.y), outer.all)
    loss = inner.loss
    outer.a.register_hook(lambda grad: loss.backward())
    outer.loss.backward()
    assert inner.seen == outer.seen == [[[14, 14], [1, 1]]]


def test_an_error_leaves_nothing_behind():
    net = Net()
    register_multi_grad_hook((net.x, net.y), net.all)
    fails = [True]

    def hook(grad):
        if fails.pop():
            raise ValueError("once")

    net.a.register_hook(hook)
    with pytest.raises(ValueError, match="once"):
        net.loss.backward(retain_graph=True)
    fails.append(False)
    net.x.grad = net.y.grad = None
    net.loss.backward()
    assert net.seen == [[[14, 14], [1, 1]]]


def test_removed_hooks_are_silent():
    net = Net()
    with register_multi_grad_hook((net.x, net.y), net.all):
        pass
    handle = register_multi_grad_hook((net.x, net.y), net.all)
    handle.remove()
    net.loss.backward()
    assert net.seen == []


def test_wrong_calls():
    with pytest.raises(ValueError, match="mode = 'some'; expected 'all' or 'any'"):
        register_multi_grad_hook((), print, mode="some")
    for kind in (ValueError, AssertionError):  # the second is what PyTorch raises
        with pytest.raises(kind, match=r"tensors\[1\] \(shape \[3\]\) does not require grad"):
            register_multi_grad_hook((fl.ones(1, requires_grad=True), fl.ones(3)), print)
