"""Hooks: on tensors, on nodes, after accumulation; removal, replacement, exceptions, re-entrant backward."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import time
import traceback

import pytest
from support.tensors import leaf

import flambeau as fl
from flambeau import _C
from flambeau._handles import RemovableHandle


def test_hook_sees_and_replaces_a_gradient():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    assert seen == [[1.0, 1.0], [10.0, 10.0]]
    assert x.grad.tolist() == [30.0, 30.0]


def test_hook_on_a_leaf_runs_before_accumulation():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 2)
    (x * 3).backward()
    (x * 3).backward()
    assert x.grad.tolist() == [12.0]


def test_hook_gets_the_sum_of_all_uses():
    x = leaf(1.0)
    y = x * 1
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 2 + y * 3).backward()
    assert seen == [5.0]


def test_removal():
    x = leaf(1.0)
    seen = []
    handle = x.register_hook(lambda g: seen.append(1))
    (x * 1).backward()
    handle.remove()
    handle.remove()
    (x * 1).backward()
    assert seen == [1]


def test_hook_with_grad_function():
    x = leaf(2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    fl.autograd.grad((x * x).sum(), x)
    assert seen == [4.0] and x.grad is None


def test_hook_replacement_must_fit():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.register_hook(lambda g: fl.ones(3, dtype=fl.float64))
    with pytest.raises(RuntimeError, match=r"\[3\]"):
        y.sum().backward()


def test_hook_replacement_must_be_a_tensor():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.register_hook(lambda g: "no")
    with pytest.raises(TypeError, match="str"):
        y.sum().backward()


def test_hook_on_a_constant():
    with pytest.raises(RuntimeError, match="require"):
        fl.ones(2).register_hook(lambda g: None)


class Stop(Exception):
    pass


def _failing_hook(g):
    raise Stop("in the hook")


def test_exception_keeps_its_type_and_its_traceback():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(_failing_hook)
    with pytest.raises(Stop, match="in the hook") as caught:
        y.backward()
    assert any(f.name == "_failing_hook" for f in traceback.extract_tb(caught.value.__traceback__))
    assert x.grad is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_after_an_interrupt_the_library_works(kind):
    x = leaf(1.0)
    y = x.exp()

    def hook(g):
        raise kind

    handle = y.register_hook(hook)
    with pytest.raises(kind):
        y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.item() == pytest.approx(2.718281828459045)
    z = leaf(2.0)
    (z * z).backward()
    assert z.grad.item() == 4.0


def test_post_accumulate_hook():
    x = leaf(1.0)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.item())))
    (x * 3).backward()
    (x * 3).backward()
    handle.remove()
    (x * 3).backward()
    assert seen == [(True, 3.0), (True, 6.0)]


def test_post_accumulate_hook_may_clear_the_gradient():
    x = leaf(1.0)

    def step(t):
        with fl.no_grad():
            t.sub_(t.grad)
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 3).backward()
    assert x.grad is None and x.item() == -2.0


def test_post_accumulate_hook_returns_nothing_new():
    x = leaf(1.0)
    handle = x.register_post_accumulate_grad_hook(lambda t: t)
    (x * 3).backward()
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda t: t.grad * 2)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        (x * 3).backward()


def test_post_accumulate_hook_is_for_leaves():
    with pytest.raises(RuntimeError, match="leaf"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(lambda t: None)


def test_node_hook_sees_both_sides():
    x = leaf(2.0)
    y = x * x
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(([g.item() for g in inputs], [g.item() for g in outputs])))
    y.backward()
    assert seen == [([2.0, 2.0], [1.0])]
    assert x.grad.item() == 4.0


def test_node_prehook_replaces():
    x = leaf(2.0)
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: tuple(g * 10 for g in grads))
    y.backward()
    assert x.grad.item() == 30.0


def test_node_hook_replaces():
    x = leaf(2.0)
    y = x.exp()
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g * 0 + 7 for g in inputs))
    y.backward()
    assert x.grad.item() == 7.0


def test_backward_inside_a_hook():
    x, z = leaf(1.0), leaf(3.0)

    def hook(g):
        assert not fl.is_grad_enabled()
        with fl.enable_grad():
            (z * z).backward()

    y = x * 2
    y.register_hook(hook)
    y.backward()
    assert x.grad.item() == 2.0 and z.grad.item() == 6.0


def test_backward_inside_a_function():
    class Inner(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with fl.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x * ctx.x
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            ctx.y.backward(g)
            return ctx.x.grad

    x = leaf(3.0)
    (Inner.apply(x) * 2).backward()
    assert x.grad.item() == 12.0


def test_deep_reentrance():
    def level(depth):
        class Inner(fl.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                if depth:
                    with fl.enable_grad():
                        z = x.detach().requires_grad_()
                        level(depth - 1)(z).backward()
                    return z.grad
                return g * 2

        return Inner.apply

    x = leaf(1.0)
    level(30)(x).backward()
    assert x.grad.item() == 2.0


def test_checkpointing_by_reentrance():
    class Checkpoint(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x.sin() * 2).exp()

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with fl.enable_grad():
                y = (x.sin() * 2).exp()
            return fl.autograd.grad(y, x, g)

    x, plain = leaf(0.3, 0.4), leaf(0.3, 0.4)
    Checkpoint.apply(Checkpoint.apply(x)).sum().backward()
    (((plain.sin() * 2).exp()).sin() * 2).exp().sum().backward()
    assert fl.allclose(x.grad, plain.grad)


def test_hook_on_a_tensor_written_in_place_belongs_to_the_value_it_was_put_on():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    y.mul_(5)
    y.backward()
    assert seen == [5.0]
    assert x.grad.item() == 10.0


def test_hook_sees_gradients_of_created_graphs():
    x = leaf(2.0)
    seen = []
    y = x * x
    y.register_hook(lambda g: seen.append(g.requires_grad))
    (g,) = fl.autograd.grad((y * y).sum(), x, create_graph=True)
    assert seen == [True]
    assert fl.autograd.grad(g.sum(), x)[0].item() == 48.0


def test_hooks_of_a_leaf_that_nobody_holds():
    x = leaf(2.0, 3.0)
    seen = []
    x.register_hook(lambda g: seen.append(("hook", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.tolist(), p.grad.tolist())))
    y = (x * x).sum()
    z = (x * 3).sum()
    del x
    y.backward()
    assert seen == [("hook", [4.0, 6.0]), ("after", [2.0, 3.0], [4.0, 6.0])]
    z.backward()  # the leaf is still one: its gradient adds up
    assert seen[2:] == [("hook", [3.0, 3.0]), ("after", [2.0, 3.0], [7.0, 9.0])]


def test_a_leaf_that_nobody_held_can_be_held_again():
    x = leaf(2.0)
    kept = []
    x.register_post_accumulate_grad_hook(kept.append)
    y = x * x
    del x
    y.backward()
    del y
    (x,) = kept
    assert x.is_leaf and x.requires_grad and x.grad.tolist() == [4.0]
    (x * 5).backward()
    assert x.grad.tolist() == [9.0] and len(kept) == 2


@pytest.mark.eager("live objects")
def test_a_leaf_without_hooks_is_not_kept():
    live = _C.live_objects()
    x = leaf(2.0)
    handle = x.register_hook(lambda g: g)
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    assert node.variable is x
    handle.remove()
    del x, handle
    y.backward()
    del y, node
    assert _C.live_objects() == live
    x = leaf(2.0)
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    del x
    assert node.variable is None


@pytest.mark.slow
def test_hooks_that_come_and_go_while_others_go_backward():
    """Lists of hooks change under backward of other threads, and the collector looks at them meanwhile."""
    x = fl.ones(3_000_000, requires_grad=True)
    calls, failures = [], []

    class Owner:
        def __init__(self):
            self.me = self
            self.x = x

        def hook(self, g):
            try:
                calls.append(self.x is x)
            except AttributeError as e:  # collected while in use
                failures.append(e)

    kept = x.register_hook(Owner().hook)
    stop = threading.Event()

    def backward():
        while not stop.is_set():
            ((x * 2) * (x + 1)).sum().backward()

    threads = [threading.Thread(target=backward) for _ in range(2)]
    for t in threads:
        t.start()
    end = time.monotonic() + 1.5
    rounds = 0
    while time.monotonic() < end:
        handle = x.register_hook(Owner().hook)
        x.register_post_accumulate_grad_hook(lambda p: None).remove()
        gc.collect()
        handle.remove()
        rounds += 1
    stop.set()
    for t in threads:
        t.join()
    assert rounds and calls and all(calls) and not failures
    kept.remove()


@pytest.mark.parametrize("leaf", [True, False])
def test_a_hook_keeps_the_type_of_the_gradient(leaf):
    x = fl.ones(2, requires_grad=True)
    y = x * 2
    (x if leaf else y).register_hook(lambda g: g.double())
    with pytest.raises(RuntimeError, match=r"lambda>': returned a gradient of float64 for one of float32"):
        y.sum().backward()
    assert x.grad is None


def test_a_hook_of_a_node_keeps_the_type_of_the_gradient():
    x = fl.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: tuple(None if g is None else g.double() for g in grad_inputs))
    with pytest.raises(RuntimeError, match="returned a gradient of float64"):
        y.sum().backward()


def test_what_a_hook_returns_by_mistake_is_named():
    x = fl.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: 5)
    with pytest.raises(TypeError, match=r"lambda>': returned int; expected None or a Tensor"):
        (x * 2).sum().backward()
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda p: "done")
    with pytest.raises(TypeError, match=r"lambda>': returned str"):
        (x * 2).sum().backward()


HANDLES = {
    "tensor": lambda x, y, f: x.register_hook(f),
    "inner": lambda x, y, f: y.register_hook(f),
    "accumulated": lambda x, y, f: x.register_post_accumulate_grad_hook(f),
    "node": lambda x, y, f: y.grad_fn.register_hook(f),
    "before a node": lambda x, y, f: y.grad_fn.register_prehook(f),
    "several": lambda x, y, f: fl.autograd.graph.register_multi_grad_hook((x, y), f),
}


@pytest.mark.parametrize("kind", HANDLES)
def test_handles_are_of_one_class_and_can_be_left_by_with(kind):
    x = leaf(1.0)
    y = x * 2
    seen = []

    def hook(*gradients):
        seen.append(len(gradients))

    with HANDLES[kind](x, y, hook) as handle:
        y.sum().backward(retain_graph=True)
    assert len(seen) == 1
    y.sum().backward()
    assert len(seen) == 1
    assert isinstance(handle, RemovableHandle)
    assert handle.id != HANDLES[kind](x, x * 3, hook).id


@pytest.mark.parametrize("kind", HANDLES)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda handle: pickle.loads(pickle.dumps(handle))], ids=["copy", "deepcopy", "pickle"])
def test_copies_of_handles_remove_nothing(kind, copied):
    x = leaf(1.0)
    y = x * 2
    seen = []
    handle = HANDLES[kind](x, y, lambda *gradients: seen.append(1))
    copied(handle).remove()
    y.sum().backward()
    assert seen == [1]


def test_a_module_that_keeps_the_handle_of_its_hook_is_copied():
    layer = fl.nn.Linear(2, 1)
    layer.handle = layer.weight.register_hook(lambda grad: grad * 0)
    twin = copy.deepcopy(layer)
    twin.handle.remove()
    for each in (layer, twin):
        each(fl.ones(1, 2)).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0]]
    assert twin.weight.grad.tolist() == [[1.0, 1.0]]


def test_hooks_of_a_leaf_come_before_those_of_its_node():
    log = []

    def of_tensor(g):
        log.append("tensor")
        return g - 2

    def before(grads):
        log.append("before")
        return (grads[0] / 4,)

    x = fl.ones(3, requires_grad=True)
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_prehook(before)
    x.register_hook(of_tensor)
    node.register_hook(lambda inputs, outputs: log.append(("after", outputs[0].tolist())))
    x.register_post_accumulate_grad_hook(lambda x: log.append("accumulated"))
    x.sum().backward()
    assert log == ["tensor", "before", "accumulated", ("after", [-0.25] * 3)] and x.grad.tolist() == [-0.25] * 3
    log.clear()
    assert fl.autograd.grad(x.sum(), x)[0].tolist() == [-1.0] * 3 and log == ["tensor"]
