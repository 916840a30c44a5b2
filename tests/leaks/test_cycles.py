"""Cycles: none in a graph that the library makes, and those that a program makes are found by the collector."""

from __future__ import annotations

import pytest
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import nn


def leaf():
    return fl.ones(100, requires_grad=True)


def written_after_it_was_saved():
    x = fl.ones(100)
    y = leaf() * x
    x.add_(y)


def written_after_it_required_grad():
    x = leaf()
    y = x * x
    x.requires_grad_(False)
    x.add_(y)


def gradient_with_a_graph():
    x = leaf()
    (x**3).sum().backward(create_graph=True)


def gradient_that_was_assigned():
    x = leaf()
    x.grad = x * x


@pytest.mark.parametrize("program", [written_after_it_was_saved, written_after_it_required_grad, gradient_with_a_graph, gradient_that_was_assigned])
def test_a_graph_has_no_cycles(program):
    assert_nothing_stays(program)


class KeepsOutput(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return g * 2


class KeepsInput(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def output_in_a_context():
    KeepsOutput.apply(leaf())


def output_in_a_context_after_backward():
    KeepsOutput.apply(leaf()).sum().backward()


def input_in_a_context_written_by_the_output():
    x = fl.ones(100) * leaf()
    x.add_(KeepsInput.apply(x))


def input_in_a_context_below_its_gradient():
    x = leaf()
    x.grad = KeepsInput.apply(x)


def hook_of_a_result():
    y = leaf() * 2
    y.register_hook(lambda g: y)


def hook_of_a_leaf():
    x = leaf()
    x.register_hook(lambda g: x)
    x.register_post_accumulate_grad_hook(lambda p: x)


def hook_of_a_node():
    y = leaf() * 2
    y.grad_fn.register_hook(lambda *g: y)
    y.grad_fn.register_prehook(lambda *g: y)


def hook_of_a_node_below():
    y = (leaf() * 2).exp()
    y.grad_fn.next_functions[0][0].register_hook(lambda *g: y)


def node_in_its_own_hook():
    node = (leaf() * 2).grad_fn
    node.register_hook(lambda *g: node)


class Owner:
    def hook(self, g):
        return None


def handle_in_the_owner_of_its_hook():
    owner = Owner()
    owner.y = leaf() * 2
    owner.handle = owner.y.register_hook(owner.hook)


def handle_that_outlives_its_node():
    owner = Owner()
    owner.handle = (leaf() * 2).register_hook(owner.hook)
    owner.x = fl.ones(100)


def attribute():
    x = fl.ones(100)
    x.me = x


def attribute_by_vars():
    owner, x = Owner(), fl.ones(100)
    vars(x)["owner"] = owner
    owner.x = x


def attribute_by_a_new_dict():
    owner, x = Owner(), fl.ones(100)
    x.__dict__ = {"owner": owner}
    owner.x = x


def attribute_by_setattr():
    x = fl.ones(100)
    setattr(x, "me", [x])  # noqa: B010


class Slotted(fl.Tensor):
    __slots__ = ("me",)


def attribute_in_a_slot():
    x = fl.Tensor._make_subclass(Slotted, fl.ones(100))
    x.me = x


def attributes_and_gradient():
    x, y = fl.ones(100), fl.ones(100)
    x.grad, x.y, y.x = y, y, x


def attribute_of_a_parameter():
    net = nn.Linear(10, 10)
    net.weight.owner = net
    net.bias.twin = net.bias


def module_held_by_its_hook():
    net = nn.Linear(10, 10)
    net.register_forward_hook(lambda m, a, y, keep=net: None)
    net.weight.register_hook(lambda g, keep=net: None)
    net(fl.ones(2, 10)).sum().backward()


MADE_BY_PROGRAMS = [
    output_in_a_context, output_in_a_context_after_backward, input_in_a_context_written_by_the_output,
    input_in_a_context_below_its_gradient, hook_of_a_result, hook_of_a_leaf, hook_of_a_node, hook_of_a_node_below,
    node_in_its_own_hook, handle_in_the_owner_of_its_hook, handle_that_outlives_its_node, attribute, attribute_by_vars,
    attribute_by_a_new_dict, attribute_by_setattr, attribute_in_a_slot, attributes_and_gradient, attribute_of_a_parameter,
    module_held_by_its_hook,
]  # fmt: skip


@pytest.mark.parametrize("program", MADE_BY_PROGRAMS)
def test_a_cycle_of_a_program_is_collected(program):
    assert_nothing_stays(program, collect=True)


def test_what_is_in_use_is_not_collected():
    """Hooks and contexts survive a collection while somebody can still run them."""
    import gc

    seen = []
    y = KeepsOutput.apply(leaf())
    z = y.exp()
    y.register_hook(lambda g: seen.append(g.shape))
    z.grad_fn.register_hook(lambda *g: seen.append("node"))
    del y
    gc.collect()
    z.sum().backward()
    assert seen == ["node", (100,)]
