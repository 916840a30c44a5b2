"""Functions for the dispatch key Autograd are called in place of the op, with recording on; they may call the op below it."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau import _C, library
from flambeau.library._op import set_below_autograd


@pytest.fixture
def made():
    """A library with an op whose kernel has no gradient, and the names of what ran."""
    lib, ran = library.Library("t_key", "FRAGMENT"), []
    lib.define("square(Tensor x, *, float by=1.0) -> Tensor")

    def kernel(x, *, by=1.0):
        ran.append("kernel")
        return fl.from_numpy(x.detach().numpy() ** 2 * by)

    lib.impl("square", kernel, "CPU")
    yield lib, ran
    lib._destroy()


def composed(ran):
    def square(x, *, by=1.0):
        ran.append("composed")
        return x * x * by

    return square


@pytest.mark.parametrize("key", ["Autograd", "AutogradCPU"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_composition_is_called_whether_or_not_a_gradient_is_wanted(made, key, requires_grad):
    lib, ran = made
    lib.impl("square", composed(ran), key)
    x = fl.tensor([3.0], requires_grad=requires_grad)
    y = fl.ops.t_key.square(x, by=2.0)
    assert ran == ["composed"] and y.item() == 18.0 and y.requires_grad is requires_grad
    if requires_grad:
        y.backward()
        assert x.grad.item() == 12.0


def test_an_autograd_function_calls_the_op_below(made):
    lib, ran = made

    class Square(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x, by):
            ctx.save_for_backward(x)
            ctx.by = by
            with _C.held(set_below_autograd, True):
                return fl.ops.t_key.square(x, by=by)

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            return dy * 2 * x * ctx.by, None

    lib.impl("square", lambda x, *, by=1.0: Square.apply(x, by), "Autograd")
    x = fl.tensor([3.0], requires_grad=True)
    fl.ops.t_key.square(x, by=2.0).backward()
    assert ran == ["kernel"] and x.grad.item() == 12.0


def test_the_kind_of_device_goes_before_all_kinds(made):
    lib, ran = made
    lib.impl("square", composed(ran), "AutogradCPU")
    lib.impl("square", lambda x, *, by=1.0: x.clone(), "Autograd")
    lib.impl("square", lambda x, *, by=1.0: 1 / 0, "AutogradCUDA")
    assert fl.ops.t_key.square(fl.tensor([3.0])).item() == 9.0
    assert fl.ops.t_key.square(fl.empty(2, 3, device="meta")).shape == (2, 3) and ran == [
        "composed"
    ]


def test_inference_mode_calls_the_kernel(made):
    lib, ran = made
    lib.impl("square", composed(ran), "Autograd")
    with fl.inference_mode():
        assert fl.ops.t_key.square(fl.tensor([3.0])).item() == 9.0
    assert ran == ["kernel"]


def test_what_comes_last_holds(made):
    lib, ran = made
    lib.impl("square", composed(ran), "Autograd")
    with pytest.raises(RuntimeError, match="has a function for 'Autograd' already"):
        lib.impl("square", composed(ran), "Autograd", allow_override=False)
    lib.impl("square", composed(ran), "AutogradCPU", allow_override=False)
    lib._destroy()

    @library.custom_op("t_key::cube", mutates_args=())
    def cube(x: fl.Tensor) -> fl.Tensor:
        return x.detach() ** 3

    lib.impl("cube", lambda x: x * x * x, "Autograd")
    library.register_autograd("t_key::cube", lambda ctx, dy: dy * 5)
    x = fl.tensor([2.0], requires_grad=True)
    cube(x).backward()
    assert x.grad.item() == 5.0


def test_samples_of_a_batch(made):
    lib, ran = made
    lib.impl("square", composed(ran), "Autograd")
    x = fl.arange(3.0)
    assert fl.func.vmap(fl.ops.t_key.square)(x).tolist() == [0.0, 1.0, 4.0]
    assert fl.func.vmap(fl.func.grad(lambda v: fl.ops.t_key.square(v, by=3.0)))(x).tolist() == [
        0.0,
        6.0,
        12.0,
    ]
