"""grad, vjp, jvp, Jacobians and Hessians: against differences and each other, nested, and what they refuse."""

from __future__ import annotations

import cmath

import pytest
from support.compare import assert_near
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import func, nn
from flambeau.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def numbers(*shape, seed=0):
    return fl.randn(shape, dtype=fl.float64, generator=fl.Generator().manual_seed(seed))


def differences(f, x, step=1e-6):
    """[*output, *input] by differences."""
    columns = []
    for k in range(x.numel()):
        e = fl.zeros(x.numel(), dtype=x.dtype)
        e[k] = step
        e = e.reshape(x.shape)
        columns.append((f(x + e) - f(x - e)) / (2 * step))
    y = columns[0]
    return fl.stack(columns, -1).reshape(*y.shape, *x.shape)


def mixed(x):
    """Element-wise ops, a product, a reduction, views and an op that is none of these."""
    y = fl.softmax(x.sin() * x.t()[:1].sum() + x @ x.t(), 1)
    return fl.cat([y[0] * 2, y.cumprod(0)[1].exp()]) / (1 + x.square().sum())


def written(x):
    """In place, through views."""
    y = x.clone()
    y[0] = x[1] * 2
    y += 1
    y[1:].mul_(x[:1])
    z = fl.zeros_like(x)
    z[0, 0] = x.prod()
    return (y + z).sum(0)


def branches(x):
    return x.exp() if x.sum() > 0 else x.sin()


FUNCTIONS = [mixed, written, branches]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobian_equals_differences(f, jacobian):
    x = numbers(3, 3)
    assert_near(jacobian(f)(x), differences(f, x), scale=1e3)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_vjp_and_jvp_and_linearize(f):
    x, t = numbers(3, 3), numbers(3, 3, seed=1)
    jacobian = differences(f, x)
    value, pull = vjp(f, x)
    v = numbers(*value.shape, seed=2)
    assert_near(value, f(x))
    (found,) = pull(v)
    assert_near(found, (v.reshape(-1) @ jacobian.reshape(v.numel(), 9)).reshape(3, 3), scale=1e3)
    again = pull(2 * v)[0]
    assert_near(again, 2 * found)
    expected = (jacobian.reshape(-1, 9) @ t.reshape(9)).reshape(value.shape)
    primal, tangent = jvp(f, (x,), (t,))
    assert_near(primal, value)
    assert_near(tangent, expected, scale=1e3)
    primal, push = linearize(f, x)
    assert_near(push(t), expected, scale=1e3)
    assert_near(push(3 * t), 3 * expected, scale=1e3)
    for result in (value, found, primal, tangent, push(t)):
        assert not result.requires_grad


def smooth(x):
    return (fl.tanh(x @ x.t()) * x.sum()).sum() + x.prod()


@pytest.mark.parametrize(
    "second",
    [hessian, lambda f: jacfwd(jacrev(f)), lambda f: jacrev(jacfwd(f)), lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(grad(f))],
    ids=["hessian", "fwd-rev", "rev-fwd", "rev-rev", "fwd-fwd", "rev-grad"],
)
def test_second_derivatives(second):
    x = numbers(2, 3)
    found = second(smooth)(x)
    assert_near(found, differences(lambda a: differences(smooth, a, 1e-4), x, 1e-4), scale=1e5)
    assert not found.requires_grad


def test_a_hessian_of_several_inputs_and_outputs_is_nested_as_they_are():
    def f(a, scale, b):
        return {"x": (a["w"].sin() * b.sum() * scale).cumsum(0), "y": (a["w"] @ b) ** 2}

    a, b = {"w": numbers(3)}, numbers(3, seed=1)
    found = hessian(f, argnums=(0, 2))(a, 2.0, b)
    outer = jacrev(jacrev(f, argnums=(0, 2)), argnums=(0, 2))(a, 2.0, b)
    for key, shape in (("x", (3,)), ("y", ())):
        assert found[key][0]["w"][0]["w"].shape == (*shape, 3, 3)
        assert_near(found[key][0]["w"][1], outer[key][0]["w"][1])
        assert_near(found[key][1][0]["w"], outer[key][1][0]["w"])
        assert_near(found[key][1][1], outer[key][1][1])


def test_powers_of_grad():
    third = grad(grad(grad(lambda x: x**4)))
    assert third(fl.tensor(2.0)).item() == pytest.approx(48)
    assert not third(fl.tensor(2.0)).requires_grad


def test_levels_do_not_mix():
    """d/dx (x * d/dy (x + y)) at y = 1 is 1: the inner derivative does not see x."""
    outer = grad(lambda x: x * grad(lambda y: x + y)(fl.tensor(1.0)))
    assert outer(fl.tensor(3.0)).item() == 1
    forward = jvp(lambda x: x * jvp(lambda y: x + y, (fl.tensor(1.0),), (fl.tensor(1.0),))[1], (fl.tensor(3.0),), (fl.tensor(1.0),))
    assert forward[1].item() == 1
    mixed_modes = jvp(lambda x: x * grad(lambda y: x * y)(fl.tensor(1.0)), (fl.tensor(3.0),), (fl.tensor(1.0),))
    assert mixed_modes[1].item() == 6
    other_way = grad(lambda x: x * jvp(lambda y: x * y, (fl.tensor(1.0),), (fl.tensor(1.0),))[1])
    assert other_way(fl.tensor(3.0)).item() == 6


def test_a_function_may_be_differentiated_by_what_it_captures():
    w = numbers(3).requires_grad_()
    found = grad(lambda x: (x * w).exp().sum())(fl.zeros(3, dtype=fl.float64))
    found.sum().backward()
    assert_near(w.grad, fl.ones(3, dtype=fl.float64))
    with fl.no_grad():
        assert not grad(lambda x: (x * w).exp().sum())(fl.zeros(3, dtype=fl.float64)).requires_grad


@pytest.mark.parametrize("transform", [lambda f: grad(f), lambda f: lambda x: vjp(f, x)[1](fl.ones((), dtype=fl.float64))[0],
                                       lambda f: lambda x: jvp(f, (x,), (fl.ones_like(x),))[1]])  # fmt: skip
def test_inputs_that_require_grad_stay_in_their_graph(transform):
    x = numbers(3).requires_grad_()
    transform(lambda a: (a**3).sum())(x).sum().backward()
    assert_near(x.grad, 6 * x.detach())


@pytest.mark.parametrize(
    "transform",
    [grad, jacrev, lambda f: lambda x: vjp(f, x), lambda f: lambda x: fl.func.linearize(f, x), lambda f: lambda x: vmap(grad(f))(x[None]), lambda f: grad(grad(f))],
    ids=["grad", "jacrev", "vjp", "linearize", "vmap of grad", "grad of grad"],
)
@pytest.mark.parametrize("write", [lambda kept, x: kept.add_(x.sum()), lambda kept, x: kept[0].copy_(x[0]), lambda kept, x: kept.index_put_((fl.tensor(0),), x[0]), lambda kept, x: kept.__setitem__(1, x[0])])  # fmt: skip
def test_a_tensor_from_outside_keeps_no_gradient_of_a_transform(transform, write):
    kept = fl.zeros(2, dtype=fl.float64)

    def f(x):
        write(kept, x)
        return kept.sum() + (x * x).sum()

    with pytest.raises(RuntimeError, match="from outside of it is written|that all 1 samples share"):
        transform(f)(numbers(3))
    assert kept.tolist() == [0, 0] and kept.grad_fn is None


def test_what_is_written_without_a_gradient_or_inside_of_a_transform():
    kept, x = fl.zeros(2, dtype=fl.float64), numbers(3)

    def f(x):
        kept.add_(1)
        with fl.no_grad():
            kept[0] = x.sum()
        inside = fl.zeros_like(x)
        inside[0] = x[0]
        inside.mul_(x)

        def inner(y):
            own = y.clone()
            own.mul_(y)
            return own.sum()

        return inside.sum() + grad(inner)(x).sum()

    assert_near(grad(f)(x), fl.tensor([2 * x[0].item() + 2, 2, 2], dtype=fl.float64))
    assert kept.grad_fn is None and kept[1] == 1


def test_no_grad_inside_holds_and_outside_does_not_matter():
    def f(x):
        with fl.no_grad():
            y = x * x
        return (y * x).sum()

    x = numbers(3)
    assert_near(grad(f)(x), x * x)
    with fl.no_grad():
        assert_near(grad(lambda a: (a * a).sum())(x), 2 * x)
    assert_near(grad(lambda a: (a.detach() * a).sum())(x), x)
    assert_near(jvp(lambda a: a.detach() * a, (x,), (fl.ones_like(x),))[1], x)


def test_aux_and_argnums():
    def f(a, b):
        return (a * b).sum(), {"kept": a + 1, "text": "t"}

    a, b = numbers(3), numbers(3, seed=1)
    found, aux = grad(f, argnums=1, has_aux=True)(a, b)
    assert_near(found, a)
    assert aux["text"] == "t"
    assert not aux["kept"].requires_grad
    (da, db), (value, _) = grad_and_value(f, argnums=(0, -1), has_aux=True)(a, b)
    assert_near(da, b)
    assert_near(db, a)
    assert_near(value, a @ b)
    assert jacrev(lambda x: (x * 2, "aux"), has_aux=True)(a)[1] == "aux"
    y, pull, aux = vjp(lambda x: (x * 2, x), a, has_aux=True)
    assert_near(aux, a)
    y, t, aux = jvp(lambda x: (x * 2, x), (a,), (b,), has_aux=True)
    assert_near(aux, a)


def test_structures_go_in_and_come_out():
    p = {"layers": [(numbers(2, 3), numbers(2)), (numbers(1, 2), numbers(1))]}

    def f(p, x):
        for w, b in p["layers"]:
            x = (w @ x + b).tanh()
        return x.sum()

    found = grad(f)(p, numbers(3, seed=5))
    assert [tuple(t.shape) for layer in found["layers"] for t in layer] == [(2, 3), (2,), (1, 2), (1,)]


def test_outputs_that_do_not_depend_give_zeros():
    x = numbers(3)
    assert_near(grad(lambda a: fl.ones((), dtype=fl.float64))(x), fl.zeros(3, dtype=fl.float64))
    assert_near(jvp(lambda a: fl.ones(2), (x,), (x,))[1], fl.zeros(2))
    assert_near(jacrev(lambda a: fl.ones(2, dtype=fl.float64))(x), fl.zeros(2, 3, dtype=fl.float64))
    with pytest.raises(RuntimeError, match="output 0 does not depend on the primals"):
        jvp(lambda a: fl.ones(2), (x,), (x,), strict=True)


@pytest.mark.parametrize("shape", [(0,), (), (2, 0)])
def test_empty_and_zero_dimensional(shape):
    x = numbers(*shape)
    assert grad(lambda a: (a * a).sum())(x).shape == shape
    assert jacrev(lambda a: a * a)(x).shape == (*shape, *shape)
    assert jacfwd(lambda a: a * a)(x).shape == (*shape, *shape)
    assert hessian(lambda a: (a * a).sum())(x).shape == (*shape, *shape)


def test_complex_directions_are_those_of_real_and_imaginary_part():
    z = fl.randn(4, dtype=fl.complex128)
    t = fl.randn(4, dtype=fl.complex128)
    for f, expected in [
        (lambda a: a * a * a, 3 * z * z * t),
        (lambda a: a.exp(), z.exp() * t),
        (lambda a: a.conj(), t.conj()),
        (lambda a: a.abs(), (z.conj() * t).real / z.abs()),
        (lambda a: a.real, t.real),
    ]:
        assert_near(jvp(f, (z,), (t,))[1], expected)


ROWS = fl.zeros(2, 3).unbind()
ERRORS = [
    (lambda x: grad(lambda a: a)(x), fl.ShapeError, r"Expected f\(\*args\) to return a scalar Tensor"),
    (lambda x: grad(lambda a: 1.0)(x), TypeError, r"Expected f\(\*args\) to return a Tensor of shape \[\]"),
    (lambda x: grad(lambda a: a.sum())(x.long()), fl.DTypeError, r"grad: input 0 is flambeau.int64, but only Tensors of floating point dtype"),
    (lambda x: grad(lambda a: a.sum(), argnums=1)(x), ValueError, "Got argnum=1, but only 1 positional inputs"),
    (lambda x: grad(lambda a, b: a.sum(), argnums=(0, 0))(x, x), ValueError, "expected no position twice"),
    (lambda x: grad(lambda a: a.sum(), has_aux=True)(x), TypeError, r"has_aux=True, but the function returned a Tensor"),
    (lambda x: grad(lambda a: a)("text"), TypeError, "grad: input 0 is a str"),
    (lambda x: vjp(lambda a: a * 2, x)[1](x[:2]), fl.ShapeError, r"vjp_fn: v has shape \[2\] at 0; expected \[3\]"),
    (lambda x: vjp(lambda a: (a, a), x)[1](x), ValueError, "v has 1 tensors; expected 2"),
    (lambda x: vjp(lambda a: a), ValueError, "vjp: there are no primals"),
    (lambda x: jvp(lambda a: a, x, x), TypeError, "Expected primals to be a tuple"),
    (lambda x: jvp(lambda a: a, (x,), (x[:1],)), fl.ShapeError, r"jvp: tangents has shape \[1\] at 0"),
    (lambda x: jvp(lambda a: "no", (x,), (x,)), TypeError, "jvp: expected the function to return only tensors.*'str'> at 0"),
    (lambda x: jvp(lambda a: ROWS[0].add_(a), (x,), (x,)), RuntimeError, r"add_ would write a value with a tangent to a tensor of shape \[3\]"),
    (lambda x: jacrev(lambda a: a, chunk_size=0)(x), ValueError, "chunk_size = 0"),
]


@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(fl.ones(3))


# As PyTorch raises them: a program that was written for it catches these.
CAUGHT = [
    (lambda x: grad(lambda a: 1.0)(x), RuntimeError, r"Expected f\(\*args\) to return a Tensor of shape \[\]"),
    (lambda x: grad(lambda a: (a.sum(), 1))(x), RuntimeError, r"Expected f\(\*args\) to return a Tensor of shape \[\]"),
    (lambda x: grad(lambda a: a.sum() + 0j)(x), RuntimeError, "the function returned a flambeau.complex64 number; expected a real one"),
    (lambda x: grad(lambda a: a.sum(), has_aux=True)(x), RuntimeError, "has_aux=True"),
    (lambda x: grad(lambda a: a.sum(), argnums=3)(x), RuntimeError, "Got argnum=3, but only 1 positional inputs"),
    (lambda x: grad(lambda a: a.sum(), argnums=())(x), RuntimeError, r"argnums = \(\); expected at least one"),
    (lambda x: grad(lambda a: a.sum(), argnums=(0, -1))(x), RuntimeError, "expected no position twice"),
    (lambda x: grad(lambda a: a.sum(), argnums=[0])(x), RuntimeError, "argnums must be int or a tuple of ints"),
    (lambda x: grad(lambda a: a.sum(), argnums=1.5)(x), RuntimeError, "argnums must be int or a tuple of ints"),
    (lambda x: grad(lambda a: a.sum())(3.0), ValueError, "input 0 is a float"),
    (lambda x: jvp(lambda a: a, x, x), RuntimeError, "Expected primals to be a tuple"),
    (lambda x: jvp(lambda a: a, (x,), [x]), RuntimeError, "Expected tangents to be a tuple"),
    (lambda x: jvp(lambda a: a, (x,), (x, x)), RuntimeError, "tangents has 2 tensors; expected 1"),
    (lambda x: jvp(lambda a: a, (), ()), RuntimeError, "there are no primals"),
    (lambda x: jvp(lambda a: a, (3.0,), (1.0,)), RuntimeError, "primal 0 is a float"),
    (lambda x: jvp(lambda a: a, (x.long(),), (x,)), ValueError, "primal 0 is flambeau.int64"),
    (lambda x: jvp(lambda a: a, (x,), (x.long(),)), ValueError, "tangent 0 is flambeau.int64"),
    (lambda x: jvp(lambda a: 1, (x,), (x,)), RuntimeError, "got unsupported type <class 'int'> at 0"),
    (lambda x: jvp(lambda a: (), (x,), (x,)), RuntimeError, r"the function returned \(\); expected at least one tensor"),
    (lambda x: vjp(lambda a: 1, x), RuntimeError, "got unsupported type <class 'int'> at 0"),
    (lambda x: vjp(lambda a: a.long(), x), RuntimeError, "output 0 is flambeau.int64"),
    (lambda x: vjp(lambda a: [], x), RuntimeError, r"the function returned \[\]"),
    (lambda x: vjp(lambda a: (a,), x)[1](x), RuntimeError, r"v is \*; expected \(\*,\), the structure"),
    (lambda x: vjp(lambda a: {"k": a}, x)[1]([x]), RuntimeError, r"v is \[\*\]; expected \{'k': \*\}"),
    (lambda x: vjp(lambda a: a, x)[1](None), RuntimeError, "v has a NoneType at 0"),
    (lambda x: jacrev(lambda a: "no")(x), RuntimeError, "got unsupported type <class 'str'> at 0"),
    (lambda x: jacfwd(lambda a: None)(x), RuntimeError, "got unsupported type <class 'NoneType'> at 0"),
    (lambda x: jacfwd(lambda a: a)(x.long()), ValueError, "input 0 is flambeau.int64"),
    (lambda x: hessian(lambda a: a, argnums=1)(x), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
]


@pytest.mark.parametrize("call, error, text", CAUGHT)
def test_errors_are_of_the_classes_that_programs_catch(call, error, text):
    x = fl.ones(3)
    with pytest.raises(error, match=text):
        call(x)
    assert grad(lambda a: (a * a).sum())(x).tolist() == [2.0, 2.0, 2.0]  # nothing stays behind
    assert x.grad is None and not x.requires_grad


def test_a_number_that_does_not_depend_on_the_input_has_no_slope():
    assert grad(lambda a: a.sum().long())(fl.ones(2)).tolist() == [0.0, 0.0]


def test_inputs_are_left_as_they_are():
    x, t = numbers(3), numbers(3, seed=1)
    before, direction = x.clone(), t.clone()

    def f(a):
        b = a * 1
        b[0].mul_(5)
        return b.sum()

    grad(f)(x)
    jvp(f, (x,), (t,))
    jvp(lambda a: a[1:].mul_(2) if False else a.clone()[1:].mul_(2), (x,), (t,))
    assert_near(x, before)
    assert_near(t, direction)
    assert x.grad is None
    assert not x.requires_grad


PROGRAMS = [
    lambda x: grad(lambda a: (a * a).sum())(x),
    lambda x: hessian(smooth)(x),
    lambda x: jacfwd(mixed)(x),
    lambda x: jacrev(mixed)(x),
    lambda x: linearize(mixed, x)[1](x),
    lambda x: vmap(grad(lambda a: (a.softmax(0) ** 2).sum()))(x),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_stays(program):
    x = numbers(3, 3)
    program(x)
    assert_nothing_stays(lambda: program(x))


@pytest.mark.parametrize("around", ["lazy", "compile", "replay"])
def test_inside_of_lazy_and_compile(around):
    def f(x):
        return vmap(grad(lambda a: (a.sin() * a).sum()))(x) + hessian(lambda a: (a**3).sum())(x[0]).sum()

    x = numbers(4, 3)
    expected = f(x)
    if around == "lazy":
        with fl.lazy():
            result = f(x)
    else:
        run = fl.compile(f) if around == "compile" else fl.compile(f, mode="replay")
        for _ in range(3):
            result = run(x)
    assert_near(result, expected)


def test_every_name_is_public():
    assert set(func.__all__) <= set(dir(func))
    assert fl.vmap is func.vmap


def test_jacrev_takes_how_pytorch_keeps_its_rows():
    assert_near(jacrev(lambda x: x * x, _preallocate_and_copy=True, chunk_size=1)(fl.tensor([1.0, 3.0])), [[2.0, 0.0], [0.0, 6.0]])


# ------------------------------------------------------------------------------------- forward mode of views and fused losses

VIEWS = {
    "as_strided": lambda y: y.as_strided((3,), (2,), 0), "narrow": lambda y: y.narrow(1, 0, 2), "narrow from a tensor": lambda y: y.narrow(1, fl.tensor(1), 2),
    "diagonal": lambda y: y.diagonal(0, 1, 2), "chunk": lambda y: y.chunk(2, 1)[1], "split": lambda y: y.split(2, 1)[0], "unbind": lambda y: y.unbind(0)[1],
    "tensor_split": lambda y: fl.tensor_split(y, 2, 1)[0], "hsplit": lambda y: fl.hsplit(y, 3)[1], "mT": lambda y: y.mT, "adjoint": lambda y: y.adjoint(),
    "permute": lambda y: y.permute(2, 0, 1), "movedim": lambda y: y.movedim(0, 1), "swapaxes": lambda y: y.swapaxes(0, 1), "unfold": lambda y: y.unfold(2, 2, 2),
    "unflatten": lambda y: y.unflatten(2, (2, 2)), "view": lambda y: y.view(-1)[::2], "reshape": lambda y: y.reshape(6, 4), "flatten": lambda y: y.flatten(),
    "ravel": lambda y: y.ravel(), "squeeze": lambda y: y[:1].squeeze(0), "unsqueeze": lambda y: y.unsqueeze(0), "view_as": lambda y: y.view_as(y),
    "broadcast_to": lambda y: y.broadcast_to(2, 3, 4), "to": lambda y: y.to(fl.float64), "double": lambda y: y.double(), "contiguous": lambda y: y.contiguous(),
    "positive": lambda y: +y, "conj": lambda y: y.conj(), "real": lambda y: y.real, "view of a type": lambda y: y.view(fl.float64),
    "reshape of a view": lambda y: y.narrow(0, 1, 1).reshape(3, 4)[1:],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_written_to_a_view_has_its_direction_in_the_base(name):
    def f(x):
        y = x * 1
        part = VIEWS[name](y)
        part.mul_(part.detach() + 2)
        part.add_(x.sum())
        return y * x

    def whole(x):  # without detach, which differences do not know of
        y = x * 1
        part = VIEWS[name](y)
        part.mul_(VIEWS[name](base * 1) + 2)
        part.add_(x.sum())
        return y * x

    base, t = numbers(2, 3, 4), numbers(2, 3, 4, seed=1)
    step = 1e-6
    expected = (whole(base + step * t) - whole(base - step * t)) / (2 * step)
    for direction in (t, t.permute(2, 1, 0).contiguous().permute(2, 1, 0)):  # laid out otherwise than the base
        assert_near(jvp(f, (base,), (direction,))[1], expected, scale=1e3)
    assert_near(vmap(lambda v: jvp(f, (base,), (v,))[1])(fl.stack([t, 2 * t]))[1], 2 * expected, scale=1e3)


def _picked(x, w):
    return nn.functional.nll_loss(x.log_softmax(1), fl.tensor([0, 2, 1, 2]), w, ignore_index=1)


WEIGHTED = {
    "nll_loss": (_picked, (numbers(4, 3), numbers(3).exp())),
    "nll_loss of each": (lambda x, w: nn.functional.nll_loss(x[0], fl.tensor(1), w, reduction="none"), (numbers(4, 3), numbers(3).exp())),
    "cross_entropy": (lambda x, w: nn.functional.cross_entropy(x, fl.tensor([0, 2, 1, 2]), w), (numbers(4, 3), numbers(3).exp())),
    "binary_cross_entropy": (lambda x, w: nn.functional.binary_cross_entropy(x.sigmoid(), x.cos().abs(), w), (numbers(4, 3), numbers(4, 3).exp())),
    "binary_cross_entropy_with_logits": (
        lambda x, w: nn.functional.binary_cross_entropy_with_logits(x, x.sigmoid(), w, pos_weight=w.exp(), reduction="sum"), (numbers(4, 3), numbers(3).exp())
    ),
    "svdvals": (lambda x, w: fl.linalg.svdvals(x) * fl.linalg.matrix_norm(x, "nuc"), (numbers(2, 3), numbers(3))),
    "eigvals": (lambda x, w: fl.linalg.eigvals(x).abs().sum() + fl.linalg.eigvalsh(x + x.mT) + fl.linalg.cond(x), (numbers(3, 3), numbers(3))),
    "block_diag": (lambda x, w: fl.block_diag(x, fl.ones(1, 2), w), (numbers(2, 3), numbers(3))),
    "diag_embed": (lambda x, w: fl.diag_embed(x) + fl.diag(w), (numbers(2, 3), numbers(3))),
    "select_scatter": (lambda x, w: fl.select_scatter(fl.ones(2, 3, dtype=x.dtype), w, 0, 1) * x, (numbers(2, 3), numbers(3))),
    "slice_scatter": (lambda x, w: fl.slice_scatter(fl.ones(4, 3, dtype=x.dtype), x, 0, 1, 3), (numbers(2, 3), numbers(3))),
    "diagonal_scatter": (lambda x, w: fl.diagonal_scatter(fl.ones(3, 3, dtype=x.dtype), w) * x.sum(), (numbers(2, 3), numbers(3))),
    "as_strided_scatter": (lambda x, w: fl.as_strided_scatter(fl.ones(9, dtype=x.dtype), w, (3,), (2,)) * x.sum(), (numbers(2, 3), numbers(3))),
}  # fmt: skip


@pytest.mark.parametrize("name", WEIGHTED)
def test_directions_by_weights_and_parts(name):
    f, xs = WEIGHTED[name]
    ts, step = tuple(x.cos() for x in xs), 1e-6
    ends = [f(*(x + s * t for x, t in zip(xs, ts))) for s in (step, -step)]
    value, found = jvp(f, xs, ts)
    assert_near(value, f(*xs))
    assert_near(found, (ends[0] - ends[1]) / (2 * step), scale=1e3)


def test_statistics_of_a_batch_norm_are_written_without_their_directions():
    x, mean, var = numbers(4, 2, 3), numbers(2), numbers(2).exp()

    def f(x, mean, var):
        m, v = mean * 1, var * 1
        return nn.functional.batch_norm(x, m, v, training=True), m

    (y, m), (t, _) = jvp(f, (x, mean, var), (x.cos(), mean, var))
    expected, there = f(x, mean, var)
    assert_near(y, expected)
    assert_near(m, there)
    ends = [f(x + s * x.cos(), mean, var)[0] for s in (1e-6, -1e-6)]
    assert_near(t, (ends[0] - ends[1]) / 2e-6, scale=1e3)


WRITTEN = {  # to views, of which a graph or a level outside keeps what was there
    "exp": lambda y: y[::2].exp_(),
    "sin": lambda y: y[1:].sin_(),
    "multiplied": lambda y: y[1:].mul_(y[0].clone()),
    "indexed": lambda y: y.__setitem__(slice(1, None), y[1:].clone() ** 3),
    "copied": lambda y: y[:2].copy_(y[2:].clone() ** 2),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_writing_to_views_in_nested_derivatives(name):
    def f(x):
        y = x * x
        WRITTEN[name](y)
        return (y * y).sum()

    x = fl.tensor([0.5, -0.8, 1.1, 0.7], dtype=fl.float64)
    v = fl.tensor([1.0, -0.5, 0.3, 2.0], dtype=fl.float64)
    product = hessian(f)(x) @ v
    assert_near(jvp(grad(f), (x,), (v,))[1], product)
    assert_near(grad(lambda x: jvp(f, (x,), (v,))[1])(x), product)
    assert_near(jvp(lambda x: jvp(f, (x,), (v,))[1], (x,), (v,))[1], product @ v)
    assert_near(jacfwd(grad(f))(x) @ v, product)
    assert_near(jacrev(jacfwd(f))(x) @ v, product)
    both = fl.stack([x, x / 2])
    assert_near(vmap(lambda x: jvp(f, (x,), (v,))[1])(both), fl.stack([jvp(f, (a,), (v,))[1] for a in both]))


# ---------------------------------------------------------------- what is left of graphs


def nested(f):
    v = fl.arange(3.0)
    g = fl.func
    yield g.jacrev(g.jacrev(f), argnums=1)(v, v)
    yield g.jacfwd(g.jacfwd(f), argnums=1)(v, v)
    yield g.jacrev(g.jacfwd(f), argnums=1)(v, v)
    yield g.jacfwd(g.jacrev(f), argnums=1)(v, v)
    yield g.jacfwd(g.grad(f), argnums=1)(v, v)
    yield g.vmap(lambda x: g.jacrev(g.grad(f), argnums=1)(x, v))(fl.eye(3))
    yield g.jvp(lambda x: g.jvp(lambda y: f(x, y), (v,), (v,))[1], (v,), (v,))[0]
    yield g.jvp(lambda x: g.grad(lambda y: f(x, y))(v), (v,), (v,))[1]


def test_derivatives_of_derivatives_by_other_arguments_have_no_history():
    for f in (lambda x, y: (x.sin() * y).sum(), lambda x, y: (x * y.exp()).sum(), lambda x, y: fl.matmul(x * y, y).sum()):
        for n, found in enumerate(nested(f)):
            assert not found.requires_grad, n
            found.numpy()


def test_derivatives_of_derivatives_keep_the_history_of_others():
    w = fl.ones(3, requires_grad=True)
    v = fl.arange(3.0)
    found = fl.func.jacrev(fl.func.jacrev(lambda x, y: (x.sin() * y * w).sum()), argnums=1)(v, v)
    found.sum().backward()
    assert_near(w.grad, v.cos())
    x = v.clone().requires_grad_()
    fl.func.grad(lambda y: (y.sin() * x).sum())(x).sum().backward()  # x is an argument, and reached by another way
    assert_near(x.grad, v.cos() - v.sin() * v)


def test_directions_of_what_is_written_twice():
    indices = (fl.tensor([0, 0]),)
    x, t = fl.tensor([1.0, 2.0]), fl.tensor([10.0, 20.0])
    put = lambda v: fl.zeros(2).index_put(indices, v)  # noqa: E731
    assert [r.tolist() for r in fl.func.jvp(put, (x,), (t,))] == [[2.0, 0.0], [20.0, 0.0]]
    added = lambda v: v.index_put(indices, 3 * v, accumulate=True)  # noqa: E731
    assert [r.tolist() for r in fl.func.jvp(added, (x,), (t,))] == [[10.0, 2.0], [100.0, 20.0]]


def test_views_of_what_directions_are_laid_out_otherwise():
    x = fl.randn(3, 4, dtype=fl.float64)
    normed = lambda x: (fl.nn.functional.batch_norm(x, None, None, None, None, True).view(-1) ** 3).sum()  # noqa: E731
    turned = lambda x: ((x.t() * 2).t().clone().view(-1) ** 3).sum()  # noqa: E731
    for f in (normed, turned):
        expected = fl.func.jacrev(fl.func.jacrev(f))(x)
        assert fl.allclose(fl.func.hessian(f)(x), expected) and fl.allclose(fl.func.jacfwd(fl.func.jacfwd(f))(x), expected)


def test_transforms_inside_of_inference_mode():
    x = fl.tensor([1.0, 2.0, 3.0])
    made = {
        "grad": lambda x: func.grad(lambda v: (v * v).sum())(x),
        "jacrev": lambda x: func.jacrev(lambda v: (v * v).sum())(x),
        "jacfwd": lambda x: func.jacfwd(lambda v: (v * v).sum())(x),
        "vjp": lambda x: func.vjp(lambda v: v * v, x)[1](fl.ones(3))[0],
        "jvp": lambda x: func.jvp(lambda v: v * v, (x,), (fl.ones(3),))[1],
        "hessian": lambda x: func.hessian(lambda v: (v**3).sum() / 3)(x).sum(0),
        "linearize": lambda x: func.linearize(lambda v: v * v, x)[1](fl.ones(3)),
    }
    for name, f in made.items():
        with fl.inference_mode():
            assert fl.equal(f(x), 2 * x), name
            assert fl.equal(f(x.clone()), 2 * x), name  # of a tensor that was made in it
        assert fl.equal(f(x), 2 * x)

    def stopped(v):
        with fl.inference_mode():
            part = v * v
        return (v - part).sum()

    with fl.inference_mode():
        assert func.grad(stopped)(x).tolist() == [1.0, 1.0, 1.0]


def test_directions_of_real_numbers_among_imaginary_ones():
    x, t = fl.tensor([2.0, -1.0], dtype=fl.float64), fl.tensor([3.0, 0.5], dtype=fl.float64)
    for f, slope in [
        (lambda x: x * 0.5j, lambda x: 0.5j + 0 * x),
        (lambda x: x + 1j, lambda x: 1 + 0j * x),
        (lambda x: 2j / x, lambda x: -2j / x**2),
        (lambda x: (x * 1j).exp(), lambda x: 1j * (x * 1j).exp()),
        (lambda x: (1 + 1j) ** x, lambda x: (1 + 1j) ** x * cmath.log(1 + 1j)),
    ]:
        y, dy = jvp(f, (x,), (t,))
        assert_near(y, f(x))
        assert_near(dy, slope(x) * t)


def test_jacobians_are_of_real_numbers():
    for jacobian in (jacrev, jacfwd):
        with pytest.raises(RuntimeError, match="input 0 is flambeau.complex64; expected a real tensor"):
            jacobian(lambda z: z.abs())(fl.ones(2, dtype=fl.complex64))
        with pytest.raises(RuntimeError, match="output 0 is flambeau.complex64; expected a real tensor"):
            jacobian(lambda x: x * 1j)(fl.ones(2))


# ---------------------------------------------------------------- tensors that are made inside and written to


def rows(x):
    out = fl.zeros(3, dtype=x.dtype)
    out[0] = x.sum()
    out[1] = x[1] * x[2]
    return out


def total(x):
    out = fl.zeros(3, dtype=x.dtype)
    out.copy_(x * 2)
    out.mul_(x)
    return out.sum()


def table(x):
    out = fl.zeros(3, 3, dtype=x.dtype)
    for i in range(3):
        out[i, : i + 1] = (x[: i + 1] ** 2).cumsum(0)
    return out


def placed(x):
    out = fl.zeros(3, dtype=x.dtype)
    out.index_put_((fl.tensor([0, 2]),), x[:2] * x[1:])
    return out.sin()


def viewed(x):
    out = fl.ones(2, 3, dtype=x.dtype)
    out[0] = x
    row = out[1]
    row.add_(x * x)
    return (out**2).sum(0)


@pytest.mark.parametrize("f", [rows, total, table, placed, viewed], ids=lambda f: f.__name__)
def test_what_is_made_inside_can_be_written_to(f):
    x = fl.tensor([1.0, 2.0, -0.5], dtype=fl.float64)
    slope = differences(f, x)
    assert_near(jacrev(f)(x), slope, scale=1e3)
    assert_near(jacfwd(f)(x), slope, scale=1e3)
    assert_near(jvp(f, (x,), (x,))[1], slope @ x, scale=1e3)
    assert_near(vjp(f, x)[0], f(x))
    bend = differences(jacrev(f), x)
    for second in (hessian(f), jacfwd(jacrev(f)), jacrev(jacfwd(f))):
        assert_near(second(x), bend, scale=1e3)
    assert_near(grad(lambda x: jvp(f, (x,), (x.detach(),))[1].sum())(x), (bend @ x).reshape(-1, 3).sum(0), scale=1e3)


def test_what_was_written_to_is_an_ordinary_tensor_afterwards():
    kept, x = [], fl.tensor([1.0, 2.0, 3.0])

    def f(v):
        out = fl.zeros(3)
        out.note = "mine"
        out.copy_(v * v)
        kept.append(out)
        return out.sum()

    for g, times in ((lambda: jvp(f, (x,), (x,)), 1), (lambda: jacfwd(f)(x), 1), (lambda: hessian(f)(x), 1)):
        g()
        (out,) = kept[-times:]
        assert type(out) is fl.Tensor and vars(out) == {"note": "mine"} and out.tolist() == [1.0, 4.0, 9.0] and not out.requires_grad
        assert (out + 1).tolist() == [2.0, 5.0, 10.0]

    def fails(v):
        out = fl.zeros(3)
        kept.append(out)
        out.copy_(v)
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        jvp(fails, (x,), (x,))
    assert type(kept[-1]) is fl.Tensor and kept[-1].tolist() == x.tolist()


def test_shared_memory_is_not_written_to():
    x, shared = fl.ones(3), fl.zeros(3)
    base = fl.zeros(4)
    views = base[1:], base[:3]
    for other in (*views, shared.detach(), fl.zeros(3, requires_grad=True), fl.zeros(3, dtype=fl.int64)):
        with pytest.raises(RuntimeError, match="would write a value with a tangent to a tensor of shape"):
            jvp(lambda v: other.copy_(v), (x,), (x,))


ONE_VIEW = {
    "row": (lambda y, x: y[0].copy_(x), lambda x: fl.stack([x, x * 0])),
    "row after row": (lambda y, x: (y[0].copy_(x), y[1].add_(x * 2), y.mul_(3)), lambda x: fl.stack([x * 3, x * 6])),
    "diagonal": (lambda y, x: y.diagonal().add_(x), fl.diag),
    "of a view": (lambda y, x: y.t()[1].add_(x).mul_(x), lambda x: fl.stack([x * 0, x * x], 1)),
}


@pytest.mark.parametrize("name", ONE_VIEW)
def test_the_only_view_of_a_tensor_takes_a_tangent(name):
    write, want = ONE_VIEW[name]

    def f(x):
        y = fl.zeros(2, 2, dtype=x.dtype)
        write(y, x)
        return y**3

    x, v = fl.tensor([2.0, 3.0], dtype=fl.float64), fl.tensor([1.0, -0.5], dtype=fl.float64)
    for found, expected in zip(jvp(f, (x,), (v,)), jvp(lambda x: want(x) ** 3, (x,), (v,)), strict=True):
        assert_near(found, expected)
    along = lambda f: lambda x: jvp(f, (x,), (v,))[1].sum()  # noqa: E731
    assert_near(grad(along(f))(x), grad(along(lambda x: want(x) ** 3))(x))


def test_what_a_level_wrote_to_a_view_is_there_after_it():
    y = fl.zeros(4)
    v = y[1:3]
    jvp(v.copy_, (fl.ones(2),), (fl.ones(2),))
    assert type(y) is type(v) is fl.Tensor and y.tolist() == [0, 1, 1, 0] and v._base is y
    y.add_(1)
    assert v.tolist() == [2, 2]


def test_tangents_stay_whose_they_are():
    x, v = fl.tensor([1.0, 2.0, 3.0]), nn.Parameter(fl.tensor([0.5, -1.0, 2.0]))
    w = fl.ones(3, requires_grad=True)
    for transform in (grad, jacrev, lambda f: lambda x: grad_and_value(f)(x)[0], jacfwd):
        product = jvp(transform(lambda a: (a**3 * w).sum()), (x,), (v,))[1]
        assert v.requires_grad
        of_v, of_w = fl.autograd.grad(product.sum(), (v, w))
        assert_near(of_v, 6 * x)
        assert_near(of_w, 6 * x * v.detach())
        alone = jvp(transform(lambda a: (a**3).sum()), (x,), (v,))[1]  # nothing else has a history
        assert_near(fl.autograd.grad(alone.sum(), v)[0], 6 * x)


def test_index_put_of_samples_and_directions():
    index = (fl.tensor([0, 2]),)
    samples = fl.rand(4, 3, dtype=fl.float64)
    put = lambda a: a.index_put(index, (a * a)[:2])  # noqa: E731
    made = lambda a: fl.zeros(3, dtype=a.dtype).index_put(index, a[:2] * 2, accumulate=True)  # noqa: E731
    plain = lambda a: fl.stack([a[0] ** 2, a[1], a[1] ** 2])  # noqa: E731
    assert fl.allclose(vmap(jacfwd(put))(samples), vmap(jacfwd(plain))(samples))
    assert fl.allclose(jacfwd(jacfwd(put))(samples[0]), jacfwd(jacfwd(plain))(samples[0]))
    assert vmap(jacfwd(made))(samples)[1].tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]


@pytest.mark.parametrize("view", [lambda z: z.flatten(), lambda z: z.view(-1), lambda z: z.reshape(2, 6)], ids=["flatten", "view", "reshape"])
def test_writes_to_views_of_samples_reach_a_tangent_that_lies_otherwise(view):
    x, t = fl.rand(3, 4, dtype=fl.float64), fl.rand(4, 3, dtype=fl.float64).T

    def f(a):
        z = a.clone()
        view(z).sin_()
        return z

    found = vmap(lambda q: jvp(f, (q,), (t,))[1])(fl.stack([x, x + 1]))
    assert_near(found, fl.stack([x.cos() * t, (x + 1).cos() * t]))
