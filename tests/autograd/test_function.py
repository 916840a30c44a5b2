"""Function: everything a context offers, and what happens when it is used wrongly."""

from __future__ import annotations

import gc
import random
import signal
import sys
import traceback
import weakref

import pytest
from support.tensors import leaf

import flambeau as fl
from flambeau.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Mul(Function):
    """Saves its inputs."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


class Sine(Function):
    """Saves an intermediate, and None."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.cos(), None)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        c, nothing = ctx.saved_tensors
        assert nothing is None
        return g * c


class Split(Function):
    """The other spelling: setup_context."""

    @staticmethod
    def forward(x, k):
        return x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.k = inputs

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None


def test_gradients():
    assert gradcheck(Exp.apply, (leaf(0.1, -0.5),))
    assert gradcheck(Mul.apply, (leaf(0.1, -0.5), leaf(2.0, 3.0)))
    assert gradcheck(Sine.apply, (leaf(0.1, -0.5),))
    assert gradcheck(lambda x: Split.apply(x, 4.0), (leaf(1.0),))


def test_second_derivatives_go_through_backward():
    assert gradgradcheck(Exp.apply, (leaf(0.1, -0.5),))
    assert gradgradcheck(Mul.apply, (leaf(0.1, -0.5), leaf(2.0, 3.0)))


def test_node_is_named_after_the_class():
    assert Exp.apply(leaf(1.0)).grad_fn.name() == "ExpBackward"


def test_needs_input_grad_and_attributes():
    class Look(Function):
        @staticmethod
        def forward(ctx, a, n, b):
            ctx.note = {"n": n}
            seen.append(ctx.needs_input_grad)
            return a + b * n

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return (g if ctx.needs_input_grad[0] else None), None, (g * ctx.note["n"] if ctx.needs_input_grad[2] else None)

    seen = []
    a, b = leaf(1.0), fl.ones(1, dtype=fl.float64)
    Look.apply(a, 3, b).backward()
    assert seen == [(True, False, False)] * 2
    assert a.grad.item() == 1.0


def test_without_grad_nothing_is_recorded():
    x = leaf(1.0)
    with fl.no_grad():
        assert not Exp.apply(x).requires_grad
    assert not Exp.apply(fl.ones(2)).requires_grad


def test_forward_runs_without_grad():
    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(fl.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(fl.is_grad_enabled())
            return g * 2

    seen = []
    Look.apply(leaf(1.0)).backward()
    assert seen == [False, False]
    seen.clear()
    x = leaf(1.0)
    grad(Look.apply(x), x, create_graph=True)
    assert seen == [False, True]


def test_several_outputs_and_unused_ones():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a.tolist(), b.tolist()))
            return a * 2 + b * 3

    seen = []
    x = leaf(1.0)
    first, second = Two.apply(x)
    second.backward()
    assert seen == [([0.0], [1.0])]
    assert x.grad.item() == 3.0
    assert isinstance(Two.apply(x), tuple)


def test_set_materialize_grads():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append(a)
            return b * 3

    seen = []
    Two.apply(leaf(1.0))[1].backward()
    assert seen == [None]


def test_mark_non_differentiable():
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            values, indices = x.sort()
            ctx.mark_non_differentiable(indices)
            ctx.save_for_backward(indices)
            return values, indices

        @staticmethod
        def backward(ctx, g, nothing):
            (indices,) = ctx.saved_tensors
            return fl.zeros_like(g).index_add(0, indices, g)

    x = leaf(3.0, 1.0, 2.0)
    values, indices = Sort.apply(x)
    assert values.requires_grad and not indices.requires_grad
    (values * fl.tensor([1.0, 2.0, 3.0], dtype=fl.float64)).sum().backward()
    assert x.grad.tolist() == [3.0, 1.0, 2.0]


class Double_(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_mark_dirty():
    x = leaf(1.0, 2.0)
    y = x * 1
    version = y._version
    z = Double_.apply(y)
    assert z is y and y._version > version
    assert y.grad_fn.name() == "Double_Backward"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("needs", [False, True])
def test_mark_dirty_of_what_is_no_input_warns(needs):
    class Made(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 3
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.warns(UserWarning, match="Made: forward marks a tensor as dirty that is none of its inputs"):
        y = Made.apply(fl.ones(2, requires_grad=needs))
    assert y.tolist() == [3.0, 3.0] and y.requires_grad == needs


def test_an_object_of_a_function_warns():
    with pytest.warns(DeprecationWarning, match="Exp: a Function should not be instantiated.*Exp.apply"):
        Exp()


def test_mark_dirty_of_a_leaf():
    x = leaf(1.0)
    with pytest.raises(fl.AutogradError, match="leaf"):
        Double_.apply(x)


class Into_(Function):
    """Multiplies its second argument, and keeps the result; the derivative is of both."""

    @staticmethod
    def forward(ctx, a, into, scale):
        ctx.save_for_backward(a, into.mul_(a).mul_(scale))
        ctx.scale = scale
        ctx.mark_dirty(into)
        return into

    @staticmethod
    def backward(ctx, g):
        a, after = ctx.saved_tensors
        return g * after / a, g * a * ctx.scale, None


def test_mark_dirty_of_a_view():
    x = leaf(1.5, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    assert Double_.apply(v) is v and y.tolist() == [1.5, 4.0, 6.0]
    (y * y).sum().backward()
    assert x.grad.tolist() == [3.0, 16.0, 24.0]


@pytest.mark.parametrize("inner", [False, True], ids=["of a tensor", "of a view of it"])
def test_mark_dirty_of_a_view_that_is_not_the_first_argument(inner):
    def f(x, w):
        y = x.sin()
        v = y[1:]
        v = v.view(1, 2)[0] if inner else v
        Into_.apply(w.exp(), v, 3)
        return (y * y.cumsum(0)).sum() + v.sum()

    x, w = leaf(0.5, 1.0, -1.5), leaf(0.25, -0.5)
    assert gradcheck(f, (x, w)) and gradgradcheck(f, (x, w))
    later = f(x, w)
    first = grad(later, (x, w), create_graph=True)
    sum((g * g).sum() for g in first).backward()  # releases each node once


def test_mark_dirty_of_views_of_leaves_and_among_results_is_refused():
    with pytest.raises(fl.AutogradError, match="a view of a leaf"):
        Double_.apply(leaf(1.0, 2.0)[:1])

    class Two_(Double_):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2), x * 3

    y = leaf(1.0, 2.0) * 1
    with pytest.raises(fl.AutogradError, match="returns 2 tensors; expected that view alone"):
        Two_.apply(y[:1])


def test_mark_dirty_of_a_view_of_what_has_no_history():
    base, w = fl.ones(3, dtype=fl.float64), leaf(0.25, -0.5)
    v = base[1:]
    Into_.apply(w, v, 2)
    base.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0] and v.requires_grad and base.grad_fn.name() == "CopySlices"


def test_input_returned_unchanged():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    y.backward()
    assert x.grad.item() == 5.0
    for base in (leaf(1.0), leaf(1.0) * 2):  # to write would change what backward knows nothing of
        with pytest.raises(fl.AutogradError, match="mul_"):
            Same.apply(base).mul_(2)
        assert base.item() in (1.0, 2.0)
    with fl.no_grad():
        y = Same.apply(x)
    assert y is not x and not y.requires_grad
    assert Same.apply(plain := fl.ones(1)) is not plain


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = leaf(3.0)
    Once.apply(x).backward()
    assert x.grad.item() == 6.0
    seed = leaf(1.0)
    (g,) = grad(Once.apply(x), x, seed, create_graph=True)
    with pytest.raises(fl.AutogradError, match="once_differentiable"):
        g.backward()


@pytest.mark.parametrize("count", [1, 3])
def test_wrong_number_of_gradients(count):
    class Bad(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return (g,) * count

    with pytest.raises(RuntimeError, match=rf"Bad.*{count}.*2|Bad.*2.*{count}"):
        Bad.apply(leaf(1.0), leaf(2.0)).backward()


def test_surplus_nones_are_fine():
    class Fine(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None, None

    x = leaf(1.0)
    Fine.apply(x).backward()
    assert x.grad.item() == 2.0


def test_gradient_of_a_wrong_shape():
    class Bad(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return fl.ones(5, dtype=fl.float64)

    with pytest.raises(RuntimeError, match=r"Bad.*\[5\]"):
        Bad.apply(leaf(1.0, 2.0)).sum().backward()


class Odd(Exception):
    def __init__(self, value):
        super().__init__(f"odd {value}")
        self.value = value


def test_exception_in_backward_keeps_type_value_and_traceback():
    class Fail(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise Odd(7)

    x = leaf(1.0)
    with pytest.raises(Odd) as caught:
        (Fail.apply(x * 3) * 2).backward()
    assert caught.value.value == 7
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "backward"
    assert x.grad is None


def test_exception_in_forward():
    class Fail(Function):
        @staticmethod
        def forward(ctx, x):
            raise Odd(1)

    with pytest.raises(Odd):
        Fail.apply(leaf(1.0))
    assert fl.is_grad_enabled()


def test_saved_tensors_are_checked_and_go_with_backward():
    x = leaf(1.0)
    y = x * 1
    z = Mul.apply(y, y)
    y.add_(1)
    with pytest.raises(fl.AutogradError, match="MulBackward.*add_.*test_function.py:"):
        z.backward()
    z = Exp.apply(x)
    z.backward()
    with pytest.raises(fl.AutogradError, match="retain_graph=True"):
        z.backward()


def test_saved_tensors_have_their_histories_where_backward_is_not_differentiated():
    class Inner(Function):
        """Differentiates what it was given once more, in its backward."""

        @staticmethod
        def forward(ctx, f, *inputs):
            ctx.f = f
            ctx.save_for_backward(*inputs)
            return f(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            inputs = ctx.saved_tensors
            seen.append((fl.is_grad_enabled(), [x.requires_grad for x in inputs]))
            with fl.enable_grad():
                y = ctx.f(*inputs)
            return None, *fl.autograd.grad(y, inputs, g)

    seen = []
    w, x, c = leaf(3.0), leaf(2.0), fl.tensor(5.0)
    Inner.apply(lambda a, b: a * b * b, x * 2, w).backward()
    assert (x.grad.item(), w.grad.item()) == (2 * 9.0, 2 * 4.0 * 3.0)
    assert Inner.apply(lambda a: a * c, x.expand(3)).sum().backward() is None and x.grad.item() == 18 + 15
    assert seen == [(False, [True, True]), (False, [True])] and not fl.tensor(1.0).requires_grad and fl.is_grad_enabled()


def test_saved_output_is_the_output():
    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append((x is inputs[0], y.grad_fn.name() if y.grad_fn else None))
            return g * 2

    seen, inputs = [], [leaf(1.0)]
    grad(Look.apply(inputs[0]), inputs[0], create_graph=True)
    assert seen == [(True, "LookBackward")]


def test_lists_and_keywords_pass_as_they_are():
    class Any_(Function):
        @staticmethod
        def forward(ctx, x, options):
            return x * options["k"]

        @staticmethod
        def backward(ctx, g):
            return g * 3, None

    assert Any_.apply(leaf(1.0), {"k": 3}).item() == 3.0


class Scaled(Function):
    """x * a * b * c, whose gradients are as many as the arguments of apply."""

    @staticmethod
    def forward(ctx, x, a=1, b=2, *, c=3):
        ctx.factor = a * b * c
        return x * ctx.factor

    @staticmethod
    def backward(ctx, g):
        return (g * ctx.factor, *[None] * (len(ctx.needs_input_grad) - 1))


class ScaledApart(Function):
    @staticmethod
    def forward(x, a=1, b=2, *, c=3):
        return x * (a * b * c)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx, g):
        _, a, b = ctx.inputs
        return g * (a * b * 3), None, None


KEYWORDS = [({}, 6, 1), ({"a": 5}, 30, 2), ({"b": 5}, 15, 3), ({"b": 5, "a": 2}, 30, 3)]


@pytest.mark.parametrize("kind", [Scaled, ScaledApart])
@pytest.mark.parametrize("given, want", [case[:2] for case in KEYWORDS], ids=str)
def test_defaults_beside_keywords(kind, given, want):
    x = leaf(1.0)
    y = kind.apply(x, **given)
    y.backward()
    assert y.item() == x.grad.item() == want


@pytest.mark.parametrize("given, count", [(given, count) for given, _, count in KEYWORDS], ids=str)
def test_defaults_behind_the_last_argument_have_no_gradients(given, count):
    counts = []

    class Counted(Function):
        @staticmethod
        def forward(ctx, x, a=1, b=2, *, c=3):
            counts.append(len(ctx.needs_input_grad))
            return x * a

    Counted.apply(leaf(1.0), **given)
    assert counts == [count]


@pytest.mark.parametrize("kind", [Scaled, ScaledApart])
def test_what_has_no_place_is_refused_where_it_is_given(kind):
    with pytest.raises(TypeError, match=rf"{kind.__name__}.apply: forward takes c by name alone; expected arguments that have a place"):
        kind.apply(leaf(1.0), b=1, c=4)


def test_without_keywords_no_signature_is_looked_at(monkeypatch):
    import inspect

    monkeypatch.setattr(inspect, "signature", lambda *_: pytest.fail("a signature costs more than the call"))
    assert Scaled.apply(leaf(1.0), 2).item() == 12


def test_a_function_without_forward_and_one_that_is_called_raise_as_for_pytorch():
    class Nothing(fl.autograd.Function):
        pass

    with pytest.raises(NotImplementedError, match="has to define the static method forward"):
        Nothing.apply(fl.ones(1))
    with pytest.raises(RuntimeError, match="a Function is not called; use Nothing.apply"):
        Nothing()(fl.ones(1))


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="asks for signals between any two steps")
@pytest.mark.parametrize("switch", [None, fl.no_grad, fl.enable_grad, fl.inference_mode])
def test_ctrl_c_leaves_the_mode_as_it_was(switch):
    x, draw = leaf(1.0), random.Random(0)

    def step():
        if switch is None:
            Exp.apply(x)
        else:
            with switch():
                pass

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        came = 0
        for _ in range(1000):
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(30e-6, 80e-6))
                for _ in range(10_000):
                    step()
            except KeyboardInterrupt:  # one that comes while an object is dropped is printed, and goes nowhere
                came += 1
            assert fl.is_grad_enabled() and not fl.is_inference_mode_enabled()
        assert came > 900
    finally:
        signal.signal(signal.SIGALRM, before)
        fl.set_grad_enabled(True)


class Halved(Function):
    """Has helpers under names that a base could have thought of."""

    @staticmethod
    def _forward(x):
        return x / 2

    @staticmethod
    def _apply(x):
        return Halved._forward(x)

    _run = _rule = _positional = _apply

    @staticmethod
    def forward(ctx, x, by=2):
        ctx._saved, ctx._dirty, ctx._function = by, None, None
        return Halved._apply(x)

    @staticmethod
    def backward(ctx, g):
        return g / ctx._saved, None


def test_helpers_of_a_subclass_replace_nothing():
    x = leaf(3.0)
    for y in (Halved.apply(x), Halved.apply(x, by=2)):
        assert y.item() == 1.5 and grad(y, x)[0].item() == 0.5


def test_functions_that_write_to_views_are_freed():
    class Mark:
        pass

    marks = []
    for _ in range(3):
        y = leaf(1.0, 2.0, 3.0) * 1
        v = Double_.apply(y[:2])
        v.mark = Mark()
        marks.append(weakref.ref(v.mark))
        y.sum().backward()
        del y, v
    gc.collect()
    assert not any(mark() for mark in marks)


def test_outputs_of_whole_numbers_have_gradients_of_zeros():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.long()

        @staticmethod
        def backward(ctx, g, whole):
            assert whole.dtype is fl.int64 and whole.tolist() == [0, 0]
            return g + whole

    x = fl.ones(2, requires_grad=True)
    Twice.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_an_input_that_is_returned_may_be_no_function_of_itself():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = fl.ones(2, requires_grad=True)
    y = Same.apply(x)
    assert not y.requires_grad and x.requires_grad and y.data_ptr() == x.data_ptr()


def test_a_complex_gradient_of_a_real_argument_is_refused():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return fl.complex(g, g)

    x = fl.ones(2, requires_grad=True)
    with pytest.raises(fl.AutogradError, match="gradient of complex64 for argument 0 of float32; expected a real one"):
        Wrong.apply(x).sum().backward()
