"""Derivatives where formulas have a case of their own: cuts, singular matrices, what an index leaves out, types that mix."""

from __future__ import annotations

import importlib

import mpmath
import pytest

import flambeau as fl
from flambeau.autograd import gradcheck, gradgradcheck

F64, C128 = fl.float64, fl.complex128


def test_powers_of_negative_numbers_by_complex_ones():
    z = fl.tensor([0.3 + 0.4j, -1.2 - 0.7j], dtype=C128, requires_grad=True)
    y = fl.tensor([-0.7, -2.0], dtype=F64, requires_grad=True)
    got = fl.autograd.grad((y**z).real.sum(), (y, z))
    base = y.detach().to(C128).requires_grad_()
    want = fl.autograd.grad((base**z).real.sum(), (base, z))
    assert fl.allclose(got[0], want[0].real) and fl.allclose(got[1], want[1])
    for number in (-2.0, 1 + 2j, -1.5 - 0.5j, 2):
        alike = fl.autograd.grad((fl.tensor(number, dtype=C128) ** z).real.sum(), z)[0]
        assert fl.allclose(fl.autograd.grad((number**z).real.sum(), z)[0], alike)


@pytest.mark.parametrize("exponent", [-2, -2.0, 0, 1, 3])
def test_whole_powers_of_complex_numbers(exponent):
    z = fl.tensor([1 + 2j, 0.5 - 1j], dtype=C128, requires_grad=True)
    assert fl.allclose(z**exponent, z ** complex(exponent))
    assert gradcheck(lambda t: t**exponent, (z,)) and gradgradcheck(lambda t: t**exponent, (z,))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_second_derivatives_of_determinants_of_any_rank(rank):
    fl.manual_seed(rank)
    a = (fl.randn(2, 3, 3, dtype=F64) * (fl.arange(3) < rank)) @ fl.randn(2, 3, 3, dtype=F64)
    assert gradgradcheck(fl.linalg.det, (a.requires_grad_(),))


@pytest.mark.parametrize("how", ["scatter", "scatter_add", "sum", "mean", "amax", "amin", "prod"])
def test_what_no_index_names_has_no_gradient(how):
    src = fl.tensor([[2.0, 5.0, 7.0], [3.0, 1.0, 4.0], [9.0, 8.0, 6.0]], dtype=F64, requires_grad=True)
    index = fl.tensor([[1, 0], [0, 1]])

    def f(src):
        x = fl.ones(2, 4, dtype=F64)
        if how.startswith("scatter"):
            return getattr(x, how)(1, index, src * 2)
        return x.scatter_reduce(1, index, src * 2, how)

    assert gradcheck(f, (src,)) and gradgradcheck(f, (src,))
    (direct,) = fl.autograd.grad(f(src).sum(), src)
    assert direct.shape == src.shape and direct[2].eq(0).all() and direct[:, 2].eq(0).all() and (how == "amin" or direct[:2, :2].ne(0).all())


@pytest.mark.parametrize(
    "write",
    [
        lambda y, w: y.mul_(w),
        lambda y, w: y.div_(w),
        lambda y, w: y.atan2_(w),
        lambda y, w: y.lerp_(w.bfloat16(), 0.5),
        lambda y, w: y.addcmul_(w, w),
    ],
)
def test_gradients_of_what_is_written_to_have_its_type(write):
    x = fl.ones(3, dtype=fl.bfloat16, requires_grad=True)
    seen = []
    y = x.clone()
    y.register_hook(lambda g: seen.append(g.dtype))
    y = y * 1
    write(y, fl.tensor([1.5, 2.5, 3.5]))
    (g,) = fl.autograd.grad(y.float().sum(), x)
    assert g.dtype is fl.bfloat16 and seen == [fl.bfloat16]


def test_deviations_of_equal_numbers_do_not_move():
    for f in (lambda x: x.std(), lambda x: fl.std_mean(x)[0]):
        assert fl.func.jvp(f, (fl.ones(3),), (fl.tensor([1.0, 2.0, 4.0]),))[1] == 0
        assert fl.func.grad(f)(fl.ones(3)).eq(0).all()


@pytest.mark.parametrize("base", [1 + 1j, 0.3 - 2.2j, 1.7, -1.7])
def test_gradients_of_powers_of_numbers_have_all_digits(base):
    z = fl.tensor([0.3 + 0.4j, -1.2 - 0.7j], dtype=C128, requires_grad=True)
    (got,) = fl.autograd.grad((base**z).real.sum(), z)
    with mpmath.workdps(30):
        for g, v in zip(got.tolist(), z.tolist(), strict=True):
            want = complex(mpmath.conj(mpmath.mpc(base) ** v * mpmath.log(mpmath.mpc(base))))
            assert abs(g - want) < 1e-14 * abs(want)


@pytest.mark.parametrize(("dtype", "eps"), [(F64, 2.0**-52), (fl.float32, 2.0**-23)], ids=["float64", "float32"])
def test_slopes_of_sinc_near_0(dtype, eps):
    places = [0.0, 1e-300, 1e-40, 1e-20, 1e-8, 1e-3, 0.1, 0.2499, 0.2501, 0.5, 0.9, 1.1]
    x = fl.tensor([*places, *(-v for v in places)], dtype=dtype, requires_grad=True)
    (first,) = fl.autograd.grad(fl.sinc(x).sum(), x, create_graph=True)
    (second,) = fl.autograd.grad(first.sum(), x)
    with mpmath.workdps(60):
        for v, a, b in zip(x.tolist(), first.tolist(), second.tolist(), strict=True):
            u = mpmath.pi * mpmath.mpf(v)
            near = abs(v) < 1e-9  # the next terms of the series are 1e-18 of these
            slope = -mpmath.pi * u / 3 if near else mpmath.pi * (u * mpmath.cos(u) - mpmath.sin(u)) / u**2
            bend = -(mpmath.pi**2) / 3 if near else mpmath.pi**2 * ((2 - u**2) * mpmath.sin(u) - 2 * u * mpmath.cos(u)) / u**3
            assert abs(a - slope) <= 16 * eps * abs(slope) + 1e-44 and abs(b - bend) <= 64 * eps * abs(bend) + 8 * eps


def test_derivatives_of_batches_are_compared():
    x, w = fl.rand(3, 2, dtype=fl.float64, requires_grad=True), fl.rand(2, 2, dtype=fl.float64, requires_grad=True)
    both = {"check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda a, k, b: (a @ b).sin() * k, (x, 2.0, w), check_forward_ad=True, **both)
    assert gradgradcheck(lambda a: a.sin(), (x,), check_batched_grad=True)

    class Square(fl.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, dy):
            return dy * 2 * ctx.saved_tensors[0] if dy.dim() == 2 else dy

    assert gradcheck(Square.apply, (x,), check_batched_grad=True)

    calls = []

    def changes(a):
        calls.append(a)
        return a * float(len(calls))

    wrong = importlib.import_module("flambeau.autograd.gradcheck")._wrong_batch
    assert "by vmap differs from one after the other in result 0" in wrong("forward mode", changes, [x], [x], 1e-5, 1e-3)
