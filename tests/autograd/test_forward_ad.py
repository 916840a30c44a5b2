"""Dual tensors."""

from __future__ import annotations

import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau.autograd import forward_ad as fwd


def test_a_tangent_goes_along():
    x, t = fl.tensor([1.0, 2.0, 3.0]), fl.tensor([1.0, 0.0, -1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        y = fwd.unpack_dual((dual * dual).cumsum(0))
        plain = fwd.unpack_dual(x * 2)
    assert_near(y.primal, (x * x).cumsum(0))
    assert_near(y.tangent, (2 * x * t).cumsum(0))
    assert plain.tangent is None


@pytest.mark.parametrize(("dtype", "other"), [(fl.float64, fl.float32), (fl.float32, fl.float64), (fl.complex128, fl.complex64)], ids=str)
def test_a_tangent_of_another_precision_is_cast(dtype, other):
    x, t = fl.tensor([1.0, 2.0], dtype=dtype), fl.tensor([3.0, 4.0], dtype=other)
    with fwd.dual_level():
        y = fwd.unpack_dual(fwd.make_dual(x, t).exp())
    assert y.tangent.dtype is dtype
    assert_near(y.tangent, x.exp() * t.to(dtype))


def test_without_its_level_a_dual_is_its_primal():
    with fwd.dual_level():
        dual = fwd.make_dual(fl.ones(2), fl.ones(2))
    assert_near(dual + 1, fl.full((2,), 2.0))
    assert fwd.unpack_dual(dual).tangent is None


def test_values_of_duals_are_those_of_primals():
    with fwd.dual_level():
        dual = fwd.make_dual(fl.tensor(2.0), fl.tensor(1.0))
        assert dual.item() == 2
        assert float(dual) == 2
        assert bool(dual > 1)
        assert dual.shape == ()
        assert f"{dual:.1f}" == "2.0"
        assert dual.numpy() == 2
        assert repr(dual) == "tensor(2., tangent=tensor(1.))"
        assert (dual + 1 if dual > 1 else dual).item() == 3
    assert repr(dual) == "tensor(2.)"


def test_levels_nest():
    x = fl.tensor(2.0)
    with fwd.dual_level() as outer:
        a = fwd.make_dual(x, fl.tensor(1.0))
        with fwd.dual_level() as inner:
            assert (outer, inner) == (0, 1)
            y = fwd.unpack_dual(fwd.make_dual(a, fl.tensor(1.0)) ** 3)
        second = fwd.unpack_dual(y.tangent)
    assert second.primal.item() == 12
    assert second.tangent.item() == 12


def test_backward_from_a_tangent():
    x = fl.tensor([1.0, 2.0], requires_grad=True)
    with fwd.dual_level():
        y = fwd.unpack_dual((fwd.make_dual(x, fl.tensor([1.0, 0.0])) ** 3).sum())
    y.tangent.backward()
    assert_near(x.grad, fl.tensor([6.0, 0.0]))


def test_writes_reach_views():
    x, t = fl.tensor([1.0, 2.0, 3.0]), fl.tensor([1.0, 0.0, -1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t) * 1
        part = dual[1:]
        part.mul_(dual[0])
        dual[0] = 5.0
        y = fwd.unpack_dual(dual)
    assert_near(y.primal, fl.tensor([5.0, 2.0, 3.0]))
    assert_near(y.tangent, fl.tensor([0.0, 2.0, 2.0]))
    assert_near(t, fl.tensor([1.0, 0.0, -1.0]))


@pytest.mark.parametrize(
    "primal, tangent, error, text",
    [
        (fl.ones(2), fl.ones(3), fl.ShapeError, r"tensor has shape \[2\], tangent \[3\]"),
        (fl.ones(2), fl.ones(2, dtype=fl.complex64), fl.DTypeError, "tensor is flambeau.float32, tangent flambeau.complex64"),
        (fl.ones(2), fl.ones(2).long(), fl.DTypeError, "tensor is flambeau.float32, tangent flambeau.int64"),
        (fl.ones(2).long(), fl.ones(2).long(), fl.DTypeError, "expected floating point types, or complex ones"),
        (1.0, fl.ones(()), TypeError, "tensor is a float"),
    ],
)
def test_what_is_no_dual(primal, tangent, error, text):
    with fwd.dual_level(), pytest.raises(error, match=text):
        fwd.make_dual(primal, tangent)


def test_levels_that_are_not_there():
    with pytest.raises(RuntimeError, match="no level was entered"):
        fwd.make_dual(fl.ones(2), fl.ones(2))
    with pytest.raises(RuntimeError, match="no level was entered"):
        fwd.exit_dual_level()
    number = fwd.enter_dual_level()
    with pytest.raises(RuntimeError, match="the innermost level is 0"):
        fwd.exit_dual_level(level=1)
    dual = fwd.make_dual(fl.ones(2), fl.ones(2))
    with pytest.raises(RuntimeError, match="has a tangent in this level"):
        fwd.make_dual(dual, fl.ones(2))
    fwd.exit_dual_level(level=number)


def test_a_level_for_each_call():
    @fwd.dual_level()
    def derivative(x):
        return fwd.unpack_dual(fwd.make_dual(x, fl.ones_like(x)) ** 2).tangent

    assert derivative(fl.tensor([3.0])).tolist() == derivative(fl.tensor([3.0])).tolist() == [6.0]
    with pytest.raises(RuntimeError):
        fwd.make_dual(fl.ones(1), fl.ones(1))


def test_the_number_of_the_innermost_level_is_told():
    assert fwd._current_level == -1
    with fwd.dual_level() as outer:
        assert fwd._current_level == outer == 0
        with fwd.dual_level():
            assert fwd._current_level == 1
        assert fwd._current_level == 0
    assert fwd._current_level == -1
    with pytest.raises(AttributeError, match="no attribute '_level_now'"):
        fwd._level_now  # noqa: B018
