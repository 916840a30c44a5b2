"""Custom functions in forward mode: by a static jvp of their own, and what gradcheck says of it."""

from __future__ import annotations

import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau.autograd import forward_ad as fwd
from flambeau.func import jacfwd, jvp, vmap


class Product(fl.autograd.Function):
    """x y n, its order, and x + 1; the derivative of backward is another one, so that who is asked shows."""

    seen: list[object] = []

    @staticmethod
    def forward(ctx, x, y, n):
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x)
        order = x.argsort()
        ctx.mark_non_differentiable(order)
        return x * y * n, order, x + 1

    @staticmethod
    def jvp(ctx, tx, ty, tn):
        x, y = ctx.saved_tensors
        Product.seen.append((tx.tolist(), ty.tolist(), tn, ctx.needs_input_grad))
        return 10 * (tx * y + x * ty), None, tx

    @staticmethod
    def backward(ctx, g, order, h):
        (x,) = ctx.saved_tensors
        return 7 * g + h, g * x, None


@pytest.mark.parametrize("needs", [False, True])
def test_a_jvp_is_called_with_zeros_for_what_has_no_tangent(needs):
    x, y = fl.tensor([2.0, 1.0], requires_grad=needs), fl.tensor([3.0, 4.0])
    Product.seen.clear()
    with fwd.dual_level():
        out, order, other = Product.apply(fwd.make_dual(x, fl.ones(2)), y, 2)
        values = [fwd.unpack_dual(v) for v in (out, order, other)]
        assert out.requires_grad is needs
        if needs:
            out.sum().backward()
            assert_near(x.grad, fl.tensor([7.0, 7.0]))
    assert Product.seen == [([1.0, 1.0], [0.0, 0.0], None, (needs, False, False))]
    assert_near(values[0].primal.detach(), fl.tensor([12.0, 8.0]))
    assert_near(values[0].tangent.detach(), fl.tensor([30.0, 40.0]))
    assert values[1].tangent is None
    assert_near(values[2].tangent.detach(), fl.ones(2))


class Without(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x + y

    @staticmethod
    def jvp(ctx, tx, ty):
        assert ty is None
        return tx


class Cube(fl.autograd.Function):
    """By setup_context, as transformations of functions ask for."""

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t


def test_saved_for_forward_is_what_was_saved_for_it():
    class Scaled(Product):
        @staticmethod
        def jvp(ctx, tx, ty, tn):
            x, y = ctx.saved_for_forward
            return x * ty + tx * y, None, tx

    x, y = fl.tensor([2.0, 1.0]), fl.tensor([3.0, 4.0])
    _, tangent = jvp(lambda x, y: Scaled.apply(x, y, 1)[0], (x, y), (fl.ones(2), fl.ones(2)))
    assert tangent.tolist() == [5.0, 5.0]


def test_without_materialized_gradients_a_missing_tangent_is_none():
    with fwd.dual_level():
        assert_near(fwd.unpack_dual(Without.apply(fwd.make_dual(fl.ones(2), fl.ones(2)), fl.ones(2))).tangent, fl.ones(2))


def test_a_jvp_goes_through_all_transformations():
    x = fl.tensor([1.0, 2.0, 3.0])
    assert_near(jvp(Cube.apply, (x,), (fl.ones(3),))[1], 3 * x**2)
    assert_near(jacfwd(Cube.apply)(x), fl.diag(3 * x**2))
    assert_near(vmap(lambda v: jvp(Cube.apply, (v,), (fl.ones(()),))[1])(x), 3 * x**2)
    assert_near(jvp(lambda v: vmap(Cube.apply)(v), (x,), (fl.ones(3),))[1], 3 * x**2)
    assert_near(jvp(lambda v: jvp(Cube.apply, (v,), (fl.ones(3),))[1], (x,), (fl.ones(3),))[1], 6 * x)


class Twice(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def jvp(ctx, t):
        return t * 2


def test_an_argument_that_is_written_keeps_its_tangent():
    with fwd.dual_level():
        dual = fwd.make_dual(fl.tensor([1.0, 2.0]), fl.ones(2))
        assert Twice.apply(dual) is dual
        primal, tangent = fwd.unpack_dual(dual)
    assert_near(primal, fl.tensor([2.0, 4.0]))
    assert_near(tangent, fl.tensor([2.0, 2.0]))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda t: (t, t), "jvp returned 2 tangents; expected 1, one per output of forward"),
        (lambda t: t.sum(), r"jvp returned a tensor of shape \[\] as tangent 0; expected a tensor of shape \[2\], or None"),
        (lambda t: 3, r"jvp returned a int as tangent 0"),
    ],
    ids=["count", "shape", "number"],
)
def test_what_jvp_returns_is_looked_at(result, text):
    class Odd(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return result(t)

    with fwd.dual_level(), pytest.raises(RuntimeError, match=f"Odd: {text}"):
        Odd.apply(fwd.make_dual(fl.ones(2), fl.ones(2)))


@pytest.mark.parametrize("function", [Cube, fl.sin, fl.exp], ids=["jvp", "sin", "exp"])
@pytest.mark.parametrize("dtype", [fl.float64, fl.complex128], ids=str)
def test_gradcheck_compares_forward_mode(function, dtype):
    x = fl.tensor([0.5, 1.25], dtype=dtype, requires_grad=True)
    call = getattr(function, "apply", function)
    assert fl.autograd.gradcheck(call, x, check_forward_ad=True, check_backward_ad=False)


def test_gradcheck_tells_which_way_is_wrong():
    class Wrong(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    x = fl.tensor([1.0], dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradcheck(Wrong.apply, x)
    assert not fl.autograd.gradcheck(Wrong.apply, x, check_forward_ad=True, raise_exception=False)
    with pytest.raises(RuntimeError, match="forward mode gives 3.0"):
        fl.autograd.gradcheck(Wrong.apply, x, check_forward_ad=True)
    with pytest.raises(AssertionError, match="Expected at least one of check_forward_ad and check_backward_ad"):
        fl.autograd.gradcheck(Wrong.apply, x, check_backward_ad=False)
