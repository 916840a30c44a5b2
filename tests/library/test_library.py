"""Custom ops: what a call does, what is refused, and how they go with autograd, vmap, forward mode, graphs and the meta device."""

from __future__ import annotations

import copy
import pickle
import typing

import numpy as np
import pytest

import flambeau as fl
from flambeau import graph, library
from flambeau.autograd import forward_ad, gradcheck, gradgradcheck
from flambeau.func import grad, jvp, vmap
from flambeau.library import opcheck


@library.custom_op("t::sine", mutates_args=())
def sine(x: fl.Tensor, factor: float = 1.0) -> fl.Tensor:
    """sin(factor x)."""
    return fl.from_numpy(np.asarray(np.sin(x.numpy() * x.numpy().dtype.type(factor), order="C")))


@sine.register_fake
def _(x, factor=1.0):
    return fl.empty(x.shape, dtype=x.dtype, device=x.device)


def keep(ctx, inputs, output):
    x, ctx.factor = inputs
    ctx.save_for_backward(x)
    ctx.needs = ctx.needs_input_grad


def sine_backward(ctx, dy):
    assert ctx.needs_input_grad == ctx.needs == (True, False)
    (x,) = ctx.saved_tensors
    return dy * (x * ctx.factor).cos() * ctx.factor, None


sine.register_autograd(sine_backward, setup_context=keep)


@library.custom_op("t::weighted", mutates_args=())
def weighted(xs: list[fl.Tensor], w: fl.Tensor | None = None, *, scale: float = 1.0) -> tuple[fl.Tensor, fl.Tensor]:
    total = sum(x.numpy() for x in xs) * scale
    if w is not None:
        total = total * w.numpy()
    return fl.from_numpy(np.array(total)), fl.tensor(len(xs))


@weighted.register_fake
def _(xs, w=None, *, scale=1.0):
    return fl.empty_like(xs[0]), fl.empty((), dtype=fl.int64, device=xs[0].device)


def weighted_setup(ctx, inputs, keyword_only_inputs, output):
    xs, w = inputs
    ctx.scale, ctx.n = keyword_only_inputs["scale"], len(xs)
    ctx.save_for_backward(*xs, w)
    ctx.needs = ctx.needs_input_grad


def weighted_backward(ctx, dy, dn):
    *xs, w = ctx.saved_tensors
    g = dy * ctx.scale
    return [g if w is None else g * w] * ctx.n, None if w is None else g * sum(xs)


weighted.register_autograd(weighted_backward, setup_context=weighted_setup)


@library.custom_op("t::add_to_", mutates_args={"x"})
def add_to_(x: fl.Tensor, y: fl.Tensor) -> None:
    x.numpy()[...] += y.numpy()


@add_to_.register_fake
def _(x, y):
    return None


def f64(*shape):
    return fl.randn(*shape, dtype=fl.float64).requires_grad_()


# ---------------------------------------------------------------- calls


def test_an_op_is_called_as_its_function_was():
    x = fl.rand(2, 3)
    assert fl.equal(sine(x), sine(x=x, factor=1.0)) and fl.allclose(sine(x), x.sin())
    assert sine.__doc__ == "sin(factor x)." and sine.__name__ == "sine"
    assert repr(sine) == "<CustomOpDef(t::sine)>"


def test_an_op_is_found_by_name():
    assert fl.ops.t.sine is sine and fl.ops.t.sine.default is sine and sine._opoverload is sine
    assert "sine" in dir(fl.ops.t) and "t" in dir(fl.ops)
    with pytest.raises(AttributeError, match=r"flambeau.ops.t has no op 'cosine'; it has add_to_.*Import what defines it first"):
        fl.ops.t.cosine  # noqa: B018
    assert not hasattr(fl.ops.nobody, "x")


def test_an_op_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(sine)) is sine
    assert copy.deepcopy(sine) is sine


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"t::sine: argument 'x' is missing; expected t::sine\(Tensor x, float factor=1.0\) -> Tensor"),
        (([1.0],), {}, r"t::sine: argument 'x' is a list of 1 \(float\); expected a Tensor"),
        ((fl.ones(1), "a"), {}, r"t::sine: argument 'factor' is a str \('a'\); expected a float"),
        ((fl.ones(1), 1.0, 2), {}, r"t::sine: 3 positional arguments; expected at most 2"),
        ((fl.ones(1),), {"x": fl.ones(1)}, r"t::sine: argument 'x' is given twice"),
        ((fl.ones(1),), {"y": 1}, r"t::sine: there is no argument 'y'"),
        ((None,), {}, r"t::sine: argument 'x' is None; expected a Tensor"),
    ],
)
def test_wrong_calls_are_refused(args, kwargs, message):
    with pytest.raises(TypeError, match=message) as caught:
        sine(*args, **kwargs)
    assert isinstance(caught.value, RuntimeError)  # as which PyTorch's dispatcher refuses it


@pytest.mark.parametrize("x", [fl.ones(0), fl.tensor(2.0), fl.ones(4, 4).t()[1:], fl.tensor([float("nan")])], ids=["empty", "0-d", "strided", "nan"])
def test_odd_inputs(x):
    y = sine(x.requires_grad_(False))
    assert y.shape == x.shape and fl.allclose(y, x.sin(), equal_nan=True)


# ---------------------------------------------------------------- definitions


@pytest.mark.parametrize("name", ["sine", "a::b::c", "::x", "aten::sine", 3])
def test_wrong_names_are_refused(name):
    with pytest.raises(ValueError, match=r"custom op .*expected"):
        library.custom_op(name, lambda x: x, mutates_args=())


def annotated(**hints):
    def function(x):
        return x

    function.__annotations__ = hints
    return function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (annotated(**{"return": fl.Tensor}), r"infer_schema\(function\): argument 'x' has no annotation"),
        (annotated(x=fl.Tensor), r"the result has no annotation"),
        (annotated(x=dict, **{"return": fl.Tensor}), r"argument 'x' is annotated <class 'dict'>"),
        (annotated(x=fl.Tensor, **{"return": str}), r"the result is annotated"),
        (lambda *xs: None, r"\*xs takes any number of arguments"),
    ],
)
def test_what_has_no_schema_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        library.custom_op("t::wrong", function, mutates_args=())


def test_mutates_args_names_tensors():
    def f(x: fl.Tensor, n: int) -> None: ...

    with pytest.raises(ValueError, match=r"mutates_args has 'y'; expected names among \['x', 'n'\]"):
        library.infer_schema(f, mutates_args={"y"})
    with pytest.raises(ValueError, match=r"mutates_args has 'n', which is annotated <class 'int'>; expected a Tensor"):
        library.infer_schema(f, mutates_args={"n"})
    with pytest.raises(ValueError, match="mutates_args = 'x'"):
        library.infer_schema(f, mutates_args="x")
    assert library.infer_schema(f, mutates_args="unknown") == "(Tensor(a0!) x, SymInt n) -> ()"


def test_inferred_schemas():
    def f(
        x: fl.Tensor, y: typing.Optional[fl.Tensor], zs: typing.Sequence[fl.Tensor], ns: list[int], a: typing.Union[int, float, bool],  # noqa: UP007, UP045
        t: fl.dtype = fl.float32, *, name: str = "a", on: bool = True, ws: list[fl.Tensor | None] | None = None,
    ) -> tuple[fl.Tensor, int]: ...  # fmt: skip

    assert library.infer_schema(f, mutates_args=()) == (
        "(Tensor x, Tensor? y, Tensor[] zs, SymInt[] ns, Scalar a, ScalarType t=float32, *, str name=\"a\", bool on=True, Tensor?[]? ws=None)"
        " -> (Tensor, SymInt)"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("Tensor x", "expected something like"),
        ("(Tensor x) -> Tensor(a!)", "a result is an argument"),
        ("(Foo x) -> Tensor", "type 'Foo'"),
        ("(Tensor x, Tensor x) -> Tensor", "two arguments are called 'x'"),
        ("(Tensor x, int n=a) -> Tensor", "default 'a'"),
        ("(int(a!) n) -> Tensor", "only tensors are written to"),
        ("(Tensor) -> Tensor", "expected a type and a name"),
        ("(Tensor x) -> (Tensor", "expected a type, or several in parentheses"),
    ],
)
def test_wrong_schemas_are_refused(schema, message):
    with pytest.raises(ValueError, match=message):
        library.define("t::wrong", schema)
    assert not hasattr(fl.ops.t, "wrong")


def test_a_schema_may_be_given():
    @library.custom_op("t::given", mutates_args=(), schema="(Tensor x, int[2] n=3, *, Device? device=None) -> Tensor")
    def given(x, n=(3, 3), *, device=None):
        return x * n[0]

    assert given(fl.ones(1)).item() == 3.0
    with pytest.raises(ValueError, match="mutates_args has \\['x'\\], the schema \\[\\]; expected the same"):
        library.custom_op("t::given2", lambda x: None, mutates_args={"x"}, schema="(Tensor x) -> ()")


def test_defined_twice():
    library.define("t::once", "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"define: 't::once' is there already, defined at test_library.py:\d+"):
        library.define("t::once", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"t::once \(defined at test_library.py:\d+\): no kernel for cpu; there are none; use register_kernel"):
        fl.ops.t.once(fl.ones(1))
    library.impl("t::once", "cpu", lambda x: x + 1)
    assert fl.ops.t.once(fl.ones(1)).item() == 2.0


def test_kernels_may_come_before_the_definition():
    library.impl("t::early", ["cpu", "MPS"], lambda x: x + 1)
    lib = library.Library("t", "IMPL", "CompositeExplicitAutograd")
    lib.impl("early", lambda x: x + 2)
    with pytest.raises(RuntimeError, match="impl: t::early has a function for 'CPU' already"):
        lib.impl("early", lambda x: x, "CPU", allow_override=False)
    assert not hasattr(fl.ops.t, "early")
    library.define("t::early", "(Tensor x) -> Tensor")
    assert fl.ops.t.early(fl.ones(1)).item() == 2.0  # of the CPU's own kernel
    with pytest.raises(ValueError, match="impl: 'TPU'; expected one of CPU"):
        library.impl("t::never", "TPU", lambda x: x)
    with pytest.raises(ValueError, match="custom op 'never': expected 'namespace::name'"):
        library.impl("never", "cpu", lambda x: x)


def test_a_custom_op_is_replaced_by_another_of_its_name():
    for k in (1, 2):

        @library.custom_op("t::again", mutates_args=())
        def again(x: fl.Tensor, k: int = k) -> fl.Tensor:
            return x + k

        assert fl.ops.t.again(fl.zeros(1)).item() == k


def test_library_objects():
    lib = library.Library("t_lib", "FRAGMENT")
    assert lib.define("twice(Tensor x) -> Tensor") == "twice"
    lib.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")

    lib.define("twice_np(Tensor x) -> Tensor")

    @library.impl(lib, "twice_np", "CPU")
    def twice_np(x):
        return fl.from_numpy(x.numpy() * 2)

    x = fl.ones(2, requires_grad=True)
    fl.ops.t_lib.twice(x).sum().backward()  # a composition has the gradient of its parts
    assert x.grad.tolist() == [2.0, 2.0]
    assert fl.ops.t_lib.twice_np(fl.ones(1)).item() == 2.0
    with pytest.raises(ValueError, match="impl: 'AutogradTPU'; expected one of CPU"):
        lib.impl("twice", lambda x: x, "AutogradTPU")
    lib._destroy()
    assert not hasattr(fl.ops.t_lib, "twice")
    with pytest.raises(ValueError, match="Unsupported kind: OTHER"):
        library.Library("t_lib", "OTHER")


def test_functions_of_the_module_take_ops_and_names():
    @library.custom_op("t::by_name", mutates_args=())
    def by_name(x: fl.Tensor) -> fl.Tensor:
        return x.detach() + 1

    library.register_fake("t::by_name")(lambda x: fl.empty_like(x))
    library.register_autograd("t::by_name", lambda ctx, dy: dy * 5)
    library.register_kernel("t::by_name", "cpu", lambda x: x + 2)
    library.register_vmap(by_name, lambda info, in_dims, x: (x + 7, in_dims[0]))
    x = fl.zeros(2, requires_grad=True)
    y = by_name(x)
    y.sum().backward()
    assert y.tolist() == [2.0, 2.0] and x.grad.tolist() == [5.0, 5.0]
    assert vmap(by_name)(fl.zeros(2)).tolist() == [7.0, 7.0]
    with by_name.set_kernel_enabled("cpu", False):
        assert by_name(fl.zeros(1)).item() == 1.0
    with pytest.raises(RuntimeError, match=r"'t::nothing' is no custom op"):
        library.register_fake("t::nothing")
    with pytest.raises(ValueError, match="device_types has 'tpu'"):
        by_name.register_kernel("tpu", lambda x: x)
    with pytest.raises(TypeError, match="register_fake is given a int"):
        by_name.register_fake(3)


# ---------------------------------------------------------------- what a kernel may do


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (lambda x: x, RuntimeError, r"t::bad \(defined at test_library.py:\d+\): result 0 shares memory with an argument or another result; return a clone"),
        (lambda x: x[1:], RuntimeError, "result 0 shares memory"),
        (lambda x: 3.0, TypeError, r"t::bad: the result is a float \(3.0\); expected a Tensor"),
        (lambda x: None, TypeError, "t::bad: the result is None; expected a Tensor"),
    ],
)
def test_wrong_results_are_refused(kernel, error, message):
    op = library.custom_op("t::bad", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(error, match=message):
        op(fl.ones(3))


def test_two_results_of_one_memory():
    op = library.custom_op("t::pair", lambda x: [x * 2] * 2, mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(RuntimeError, match="result 1 shares memory"):
        op(fl.ones(3))
    op = library.custom_op("t::pair", lambda x: (x * 2,), mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(TypeError, match="the function returned a tuple of 1 .*expected 2 results"):
        op(fl.ones(3))


def test_an_error_of_the_kernel_is_the_callers():
    op = library.custom_op("t::raises", lambda x: 1 // 0, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(ZeroDivisionError):
        op(fl.ones(1))
    with pytest.raises(ZeroDivisionError):
        op(fl.ones(1, requires_grad=True))


def test_nothing_is_recorded_inside():
    seen = []

    @library.custom_op("t::looks", mutates_args=())
    def looks(x: fl.Tensor) -> fl.Tensor:
        y = x * 2
        seen.append((fl.is_grad_enabled(), x.requires_grad, y.requires_grad))
        return y

    assert looks(fl.ones(1, requires_grad=True)).requires_grad
    assert seen == [(False, False, False)]


# ---------------------------------------------------------------- gradients


def test_gradients():
    x = f64(3, 4)
    assert gradcheck(lambda x: sine(x, 1.5), (x,)) and gradgradcheck(lambda x: sine(x, 1.5), (x,))
    assert sine(x).grad_fn.name() == "GeneratedBackwardFor_t_sine_defaultBackward"
    with fl.no_grad():
        assert not sine(x).requires_grad


@pytest.mark.parametrize("with_weight", [True, False])
def test_gradients_of_lists_and_keywords(with_weight):
    xs, w = [f64(3) for _ in range(3)], f64(3)

    def f(a, b, c, w):
        return weighted([a, b, c], w if with_weight else None, scale=0.5)[0] + 0 * w

    assert gradcheck(f, (*xs, w)) and gradgradcheck(f, (*xs, w))
    y, n = weighted([xs[0], xs[1].detach()], scale=2.0)
    assert n.item() == 2 and not n.requires_grad
    assert y.grad_fn.next_functions is not None


def test_gradients_of_results_with_a_list_among_them():
    def cut(x: fl.Tensor, n: int) -> tuple[list[fl.Tensor], int, fl.Tensor]:
        return [part.clone() for part in x.split(n)], n, x.sum()

    def backward(ctx, pieces, none, total):
        assert isinstance(pieces, list) and none is None
        return fl.cat(pieces) + total, None

    parts = library.custom_op("t::parts", cut, mutates_args=())
    parts.register_autograd(backward)
    assert library.infer_schema(cut, mutates_args=()) == "(Tensor x, SymInt n) -> (Tensor[], SymInt, Tensor)"
    x = fl.arange(4.0).requires_grad_()
    (first, second), n, total = parts(x, 3)
    assert (first.tolist(), second.tolist(), n) == ([0, 1, 2], [3], 3)
    (first.sum() + 2 * second.sum() + 10 * total).backward()
    assert x.grad.tolist() == [11, 11, 11, 12]


def test_what_needs_a_gradient_is_said_per_argument():
    y, _ = weighted([f64(2), fl.ones(2, dtype=fl.float64)], None)
    seen = []
    weighted.register_autograd(lambda ctx, dy, dn: (seen.append(ctx.needs_input_grad), ([dy, dy], None))[1], setup_context=weighted_setup)
    try:
        y.sum().backward()
    finally:
        weighted.register_autograd(weighted_backward, setup_context=weighted_setup)
    assert seen == [([True, False], False)]


def test_without_a_gradient_backward_refuses():
    @library.custom_op("t::plain", mutates_args=())
    def plain(x: fl.Tensor) -> fl.Tensor:
        return x + 1

    y = plain(fl.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(fl.AutogradError, match=r"t::plain \(defined at test_library.py:\d+\): no gradient was registered; use register_autograd"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda ctx, dy: (dy, dy), "t::b: backward returned 2 gradients; expected one for each of: x, n, ys"),
        (lambda ctx, dy: (dy, dy, None), "t::b: backward returned a gradient for 'n', which is no tensor"),
        (lambda ctx, dy: (dy, None, dy), "t::b: backward returned a Tensor for 'ys'; expected a list of 2, or None"),
    ],
)
def test_wrong_gradients_are_refused(backward, message):
    op = library.custom_op("t::b", lambda x, n, ys: x * n, mutates_args=(), schema="(Tensor x, int n, Tensor[] ys) -> Tensor")
    op.register_autograd(backward)
    y = op(fl.ones(2, requires_grad=True), 2, [fl.ones(1, requires_grad=True), fl.ones(1)])
    with pytest.raises(fl.AutogradError, match=message):
        y.sum().backward()


def test_what_writes_can_have_no_gradient():
    with pytest.raises(RuntimeError, match=r"t::add_to_: an op that writes to its arguments can have no gradient"):
        add_to_.register_autograd(lambda ctx: None)
    op = library.custom_op("t::kw", lambda x, *, y: x, mutates_args=(), schema="(Tensor x, *, Tensor y) -> Tensor")
    with pytest.raises(RuntimeError, match="argument 'y' is a tensor by keyword alone"):
        op.register_autograd(lambda ctx, dy: dy)


# ---------------------------------------------------------------- writes


def test_a_write_is_noticed_by_autograd():
    x, w = fl.ones(2), fl.ones(2, requires_grad=True)
    y = w * x
    add_to_(x, fl.ones(2))
    assert x.tolist() == [2.0, 2.0] and x._version > 0
    with pytest.raises(fl.AutogradError, match=r"t::add_to_"):
        y.sum().backward()


def test_writes_to_what_requires_grad():
    w = fl.ones(2, requires_grad=True)
    with pytest.raises(fl.AutogradError, match="t::add_to_: it writes to a leaf that requires grad"):
        add_to_(w, fl.ones(2))
    assert w.tolist() == [1.0, 1.0]
    x = w * 2
    add_to_(x, fl.ones(2))
    assert x.tolist() == [3.0, 3.0]
    with pytest.raises(fl.AutogradError, match="t::add_to_ .*no gradient was registered"):
        x.sum().backward()
    stats = fl.zeros(2)
    add_to_(stats, w)  # nothing flows into what does not require grad
    assert not stats.requires_grad and stats.tolist() == [1.0, 1.0]


# ---------------------------------------------------------------- meta, autocast, overrides


def test_meta():
    y = sine(fl.empty(2, 3, device="meta"))
    assert y.is_meta and y.shape == (2, 3)
    op = library.custom_op("t::no_fake", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"t::no_fake \(defined at test_library.py:\d+\): there is no fake.*use register_fake"):
        op(fl.empty(2, device="meta"))
    op.register_fake(lambda x: fl.empty(library.get_ctx().new_dynamic_size(), device="meta"))
    with pytest.raises(fl.ShapeError, match="the shape follows from numbers"):
        op(fl.empty(2, device="meta"))


def test_autocast():
    seen = []

    @library.custom_op("t::cast", mutates_args=())
    def cast(x: fl.Tensor, n: fl.Tensor) -> fl.Tensor:
        seen.append((x.dtype, n.dtype, fl.is_autocast_enabled("cpu")))
        return x + 1

    cast.register_autocast("cpu", fl.bfloat16)
    x, n = fl.ones(2), fl.ones(2, dtype=fl.int64)
    cast(x, n)
    with fl.autocast("cpu"):
        assert cast(x, n).dtype == fl.bfloat16
    assert seen == [(fl.float32, fl.int64, False), (fl.bfloat16, fl.int64, False)]
    with pytest.raises(ValueError, match="register_autocast"):
        cast.register_autocast("cpu", "float16")


def test_subclasses_take_calls_over():
    calls = []

    class Logged(fl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    y = sine(fl.ones(2).as_subclass(Logged))
    assert calls == [sine] and type(y) is Logged


# ---------------------------------------------------------------- transformations


def test_vmap_calls_it_per_sample():
    library.custom_op("t::slow_sine", sine.__wrapped__, mutates_args=())
    with pytest.warns(UserWarning, match="vmap: there is no batching rule for t::slow_sine"):
        y = vmap(fl.ops.t.slow_sine, in_dims=1)(x := fl.rand(3, 4))
    assert fl.allclose(y, x.t().sin())


def test_vmap_by_its_own_rule():
    seen = []

    @library.custom_op("t::ruled", mutates_args=())
    def ruled(x: fl.Tensor, ys: list[fl.Tensor], k: float) -> fl.Tensor:
        return (x + sum(ys)) * k

    @ruled.register_vmap
    def _(info, in_dims, x, ys, k):
        seen.append((info.batch_size, in_dims, x.shape))
        return (x + sum(y if d is not None else y.unsqueeze(0) for y, d in zip(ys, in_dims[1], strict=True))) * k, 0

    x, y = fl.rand(3, 2), fl.rand(2)
    got = vmap(lambda x: ruled(x, [x, y], 2.0))(x)
    assert fl.allclose(got, (2 * x + y) * 2)
    assert seen == [(3, (0, [0, None], None), (3, 2))]
    ruled.register_vmap(lambda info, in_dims, *args: args[0])
    with pytest.raises(RuntimeError, match="t::ruled: its vmap returned a Tensor; expected \\(output, out_dims\\)"):
        vmap(lambda x: ruled(x, [], 2.0))(x)


def test_vmap_of_a_write():
    def f(x, y):
        z = x.clone()
        add_to_(z, y)
        return z

    x = fl.rand(3, 2)
    assert fl.allclose(vmap(f)(x, x), x * 2)
    shared = fl.zeros(2)
    with pytest.raises(RuntimeError, match="t::add_to_ would write one value per sample"):
        vmap(lambda x: add_to_(shared, x) or x)(x)


def test_derivatives_of_transformations():
    x = fl.rand(3, dtype=fl.float64)
    assert fl.allclose(grad(lambda x: sine(x, 2.0).sum())(x), 2 * (2 * x).cos())
    assert fl.allclose(vmap(grad(lambda x: sine(x, 2.0)))(x), 2 * (2 * x).cos())
    y, t = jvp(lambda x: sine(x, 2.0), (x,), (fl.ones_like(x),))
    assert fl.allclose(y, (2 * x).sin()) and fl.allclose(t, 2 * (2 * x).cos())
    with forward_ad.dual_level():
        z = forward_ad.make_dual(x, fl.ones_like(x))
        with pytest.raises(RuntimeError, match="t::add_to_: it writes to its arguments, which forward mode can not follow"):
            add_to_(z, x)


# ---------------------------------------------------------------- recordings


def test_lazy_and_compile():
    x = fl.rand(4)
    with fl.lazy():
        y = sine(x * 2) + 1
    assert fl.allclose(y, (2 * x).sin() + 1)
    f = fl.compile(lambda x: sine(x * 2) + 1)
    assert fl.allclose(f(x), y)


@pytest.mark.eager("it is compiled inside of the test")
def test_fullgraph_does_not_mind_what_a_kernel_reads():
    @library.custom_op("t::outer_sine", mutates_args=())
    def outer_sine(x: fl.Tensor) -> fl.Tensor:
        return sine(x) * float(x[0])  # an op that reads, in one that reads

    x = fl.rand(4)
    for op, expected in ((sine, (2 * x).sin() + 1), (outer_sine, (2 * x).sin() * 2 * x[0] + 1)):
        f = fl.compile(lambda x, op=op: op(x * 2) + 1, fullgraph=True)
        assert fl.allclose(f(x), expected)
    z = fl.rand(4, requires_grad=True)
    fl.compile(lambda x: sine(x * 2), fullgraph=True)(z).sum().backward()
    assert fl.allclose(z.grad, 2 * (2 * z).cos())
    g = fl.compile(lambda x: sine(x * 2) * x.sum().item(), fullgraph=True)
    with pytest.raises(fl.compiler.CompileError, match=r"a value was read at .*test_library.py.*x.sum\(\).item"):
        g(x)


@pytest.mark.eager("a graph is recorded inside of the test")
def test_a_graph_holds_it_as_one_node():
    g = graph.record(lambda x: sine(x * 2, 3.0) + 1, fl.ones(3))
    assert [node.op for node in g.nodes] == ["mul", "empty", "custom_call", "add"]
    x = fl.rand(3)
    assert fl.allclose(g.run(x)[0], (6 * x).sin() + 1)


@pytest.mark.eager("a graph is recorded inside of the test")
def test_a_recorded_training_step_does_what_eager_mode_does():
    def step(x, p, seen):
        loss = (sine(x * p, 2.0) * p).sum()
        seen.append(loss.detach() * 2)
        loss.backward()
        with fl.no_grad():
            p.sub_(p.grad)
        return loss

    x, p, q = fl.rand(3), fl.nn.Parameter(fl.ones(3)), fl.nn.Parameter(fl.ones(3))
    recorded, eager = [], []
    g = graph.record(lambda x: step(x, p, recorded), x)
    loss = step(x, q, eager)
    assert fl.allclose(p, q) and fl.allclose(p.grad, q.grad) and fl.allclose(recorded[0], eager[0])
    p.data.fill_(1.0)
    assert fl.allclose(g.run(x)[0], loss) and fl.allclose(p, q)


@pytest.mark.eager("a graph is recorded inside of the test")
def test_graphs_of_writes_lists_and_files(tmp_path):
    def f(x, y):
        z = x.clone()
        add_to_(z, y)
        a, n = weighted([z, y], None, scale=0.5)
        return a * n

    x, y = fl.rand(3), fl.rand(3)
    g = graph.record(f, fl.ones(3), fl.ones(3))
    assert fl.allclose(g.run(x, y)[0], f(x, y))
    g.save(tmp_path / "g")
    with pytest.raises(ValueError, match="custom_call.*trusted=True"):
        graph.Graph.load(tmp_path / "g")
    assert fl.allclose(graph.Graph.load(tmp_path / "g", trusted=True).run(x, y)[0], f(x, y))


@pytest.mark.eager("a graph is recorded inside of the test")
def test_what_a_graph_refuses():
    with pytest.raises(ValueError, match="t::sine: it is recorded as a node of a graph, so its results have no numbers yet"):
        graph.record(lambda x: float(sine(x).sum()), fl.ones(2))
    library.custom_op("t::liar", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    fl.ops.t.liar.register_fake(lambda x: fl.empty(7, device="meta"))
    g = graph.record(fl.ops.t.liar, fl.ones(2))
    with pytest.raises(graph.GraphError, match=r"t::liar: returned flambeau.float32 of shape \[2\]; the fake said flambeau.float32 of shape \[7\]"):
        g.run(fl.ones(2))
    g = graph.record(lambda x: sine(x), fl.ones(2))
    fl.ops.t.liar  # noqa: B018
    library._op.registry.pop("t::sine")
    try:
        with pytest.raises(graph.GraphError, match="t::sine: there is no such op; import what defines it first"):
            g.run(fl.ones(2))
    finally:
        library._op.registry["t::sine"] = sine


# ---------------------------------------------------------------- opcheck


def test_opcheck_passes():
    every = dict.fromkeys(("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"), "SUCCESS")
    assert opcheck(sine, (fl.rand(3, requires_grad=True), 2.0)) == every
    assert opcheck(sine, (fl.rand(2, 3).t(),)) == every
    assert opcheck(weighted, ([fl.rand(3), fl.rand(3, requires_grad=True)],), {"scale": 2.0}) == every
    assert opcheck("t::add_to_", (fl.rand(3), fl.rand(3))) == every


def test_opcheck_finds():
    def op(kernel, fake=None, backward=None):
        made = library.custom_op("t::checked", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
        made.register_fake(fake or (lambda x: fl.empty_like(x)))
        if backward:
            made.register_autograd(backward)
        return made

    x = fl.ones(2, 3)
    with pytest.raises(library.OpCheckError, match=r"opcheck\(t::checked, test_schema\): it wrote to argument 'x', which mutates_args does not name"):
        opcheck(op(lambda x: x.add_(1).clone()), (x,))
    for fake, message in (
        (lambda x: fl.empty(3, device="meta"), r"the fake's result 0 has shape \(3,\); the kernel's \(2, 3\)"),
        (lambda x: fl.empty_like(x, dtype=fl.float64), "has type flambeau.float64; the kernel's flambeau.float32"),
        (lambda x: fl.empty(3, 2, device="meta").t(), r"has strides \(1, 2\); the kernel's \(3, 1\)"),
    ):
        with pytest.raises(library.OpCheckError, match=message):
            opcheck(op(lambda x: x + 1, fake), (x,))
    with pytest.raises(library.OpCheckError, match="test_autograd_registration"):
        opcheck(op(lambda x: x + 1, backward=lambda ctx, dy: dy[0]), (fl.ones(2, 3, requires_grad=True),))
    found = opcheck(op(lambda x: x + 1, lambda x: fl.empty(1, device="meta")), (x,), raise_exception=False)
    assert found["test_schema"] == "SUCCESS" and isinstance(found["test_faketensor"], library.OpCheckError)
    with pytest.raises(ValueError, match="test_utils has 'test_all'"):
        opcheck(sine, (x,), test_utils="test_all")


def test_a_kernel_is_put_in_place_of_another_only_where_that_is_wanted():
    lib = library.Library("t_once", "DEF")
    name = lib.define("twice(Tensor x) -> Tensor")
    for key in ("CPU", "Meta", "CompositeImplicitAutograd", "AutocastCPU"):
        lib.impl(name, lambda x: x * 2, key, allow_override=False)
        with pytest.raises(RuntimeError, match=f"t_once::twice has a function for '{key}' already"):
            lib.impl(name, lambda x: x * 3, key, allow_override=False)
    lib.impl(name, lambda x: x * 3, "CPU")
    assert fl.ops.t_once.twice(fl.ones(1)).tolist() == [3.0]


def test_tags_of_a_schema():
    def f(x: fl.Tensor) -> fl.Tensor: ...

    assert library.infer_schema(f, mutates_args=(), tags=("pt2_compliant_tag",)) == "(Tensor x) -> Tensor"
    assert library.infer_schema(f, mutates_args=(), tags=None) == "(Tensor x) -> Tensor"
    with pytest.raises(ValueError, match="tags has inplace; expected others"):
        library.infer_schema(f, mutates_args=("x",), tags="inplace")


def test_a_schema_says_the_name_of_its_op_and_the_types_that_were_written():
    library.define("tests::said", "(Tensor x, int n=1, int[] ks=[2], SymInt? m=None) -> Tensor")
    op = fl.ops.tests.said.default
    assert str(op._schema) == "tests::said(Tensor x, int n=1, int[] ks=[2], SymInt? m=None) -> Tensor"
    assert op._schema.name == "tests::said"
    with pytest.raises(TypeError, match=r"expected tests::said\(Tensor x, int n=1"):
        op(fl.ones(1), k=1)


def test_a_kernel_to_fall_through_is_none():
    lib = library.Library("tests_through", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    lib.impl("twice", lambda x: x * 3, "Autograd")
    assert fl.ops.tests_through.twice(fl.ones(1)).item() == 3
    lib.impl("twice", library.fallthrough_kernel, "Autograd")
    assert fl.ops.tests_through.twice(fl.ones(1)).item() == 2
    lib.impl("later", library.fallthrough_kernel, "AutogradCPU")
    lib.define("later(Tensor x) -> Tensor")
    lib.impl("later", lambda x: x * 2, "CPU")
    assert fl.ops.tests_through.later(fl.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="it stands for no function"):
        library.fallthrough_kernel()


def test_ops_of_one_name_for_several_kinds_of_arguments():
    fl.library.define("overloads::f.out", "(Tensor x, Tensor(a!) out) -> ()")
    fl.library.define("overloads::f.scaled", "(Tensor x, float factor) -> Tensor")
    fl.library.impl("overloads::f.out", "cpu", lambda x, out: (out.copy_(x * 2), None)[1])
    fl.library.impl("overloads::f.scaled", "cpu", lambda x, factor: x * factor)
    x, out, f = fl.ones(2), fl.zeros(2), fl.ops.overloads.f
    f.out(x, out)
    assert out.tolist() == [2, 2] and f.scaled(x, 3.0).tolist() == [3, 3] and f(x, 4.0).tolist() == [4, 4] and f.overloads() == ["out", "scaled"]
    f(x * 5, out)
    assert out.tolist() == [10, 10] and repr(f) == "<overloads::f: out, scaled>"
    with pytest.raises(TypeError, match="overloads::f.scaled"):
        f("no")
    assert copy.copy(f).scaled is f.scaled
    with pytest.raises(AttributeError, match="it has out, scaled"):
        f.other  # noqa: B018
    fl.library.define("overloads::g", "(Tensor x) -> Tensor")
    fl.library.define("overloads::g.two", "(Tensor x, Tensor y) -> Tensor")
    assert fl.ops.overloads.g.two is fl.ops.overloads.__getattr__("g.two") and fl.ops.overloads.g.default is fl.ops.overloads.g
    assert fl.ops.overloads.g.overloads() == ["default", "two"]
    with pytest.raises(ValueError, match=r"namespace::name\.overload"):
        fl.library.define("overloads::f.a.b", "(Tensor x) -> Tensor")
