"""Complex numbers: types and their promotion, parts and conjugates, conversions, what has no reference in the table, and gradients."""

from __future__ import annotations

import cmath
import copy
import pickle
import warnings

import numpy as np
import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau import _C
from flambeau.autograd import gradcheck, gradgradcheck

COMPLEX = {fl.complex64: np.complex64, fl.complex128: np.complex128}
RNG = np.random.default_rng(7)


def made(*shape, dtype=np.complex128):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)


def leaf(*shape, real=False):
    x = RNG.standard_normal(shape) if real else made(*shape)
    return fl.tensor(x).requires_grad_()


# ---------------------------------------------------------------------------------------- types


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_type(dtype):
    x = fl.zeros(2, dtype=dtype)
    real = fl.float32 if dtype is fl.complex64 else fl.float64
    assert dtype.is_complex and not dtype.is_floating_point and dtype.is_signed and dtype.itemsize == 2 * real.itemsize
    assert x.is_complex() and fl.is_complex(x) and not x.is_floating_point() and x.element_size() == dtype.itemsize
    assert dtype.to_real() is real and real.to_complex() is dtype and fl.float16.to_complex() is fl.complex32
    assert fl.finfo(dtype).eps == fl.finfo(real).eps and fl.cfloat is fl.complex64 and fl.cdouble is fl.complex128
    with pytest.raises(TypeError, match=r"iinfo\(\) requires an integer input type, got flambeau\.complex"):
        fl.iinfo(dtype)


PROMOTED = [
    (fl.complex64, fl.complex128, fl.complex128), (fl.complex64, fl.float64, fl.complex128), (fl.complex64, fl.float32, fl.complex64),
    (fl.complex64, fl.bfloat16, fl.complex64), (fl.complex128, fl.float16, fl.complex128), (fl.complex64, fl.int64, fl.complex64),
    (fl.complex64, fl.bool, fl.complex64),
]  # fmt: skip


@pytest.mark.parametrize("a, b, both", PROMOTED, ids=str)
def test_promotion_of_tensors(a, b, both):
    assert fl.promote_types(a, b) is both and fl.promote_types(b, a) is both
    assert (fl.ones(2, dtype=a) + fl.ones(2, dtype=b)).dtype is both


@pytest.mark.parametrize(
    "dtype, both", [(fl.float32, fl.complex64), (fl.float64, fl.complex128), (fl.int64, fl.complex64), (fl.bool, fl.complex64),
                    (fl.complex64, fl.complex64), (fl.complex128, fl.complex128)], ids=str)  # fmt: skip
def test_promotion_with_complex_numbers(dtype, both):
    assert (fl.ones(2, dtype=dtype) * 1j).dtype is both and (2j + fl.ones(2, dtype=dtype)).dtype is both
    assert (fl.ones((), dtype=dtype) * 1j).dtype is both


def test_a_0d_complex_tensor_keeps_the_precision_of_floats():
    assert (fl.ones(2, dtype=fl.float64) * fl.tensor(1j)).dtype is fl.complex128
    assert (fl.ones(2, dtype=fl.float32) * fl.tensor(1j, dtype=fl.complex128)).dtype is fl.complex64


def test_creation_and_values():
    x = fl.tensor([1 + 2j, 3, 2.5])
    assert x.dtype is fl.complex64 and x.tolist() == [1 + 2j, 3 + 0j, 2.5 + 0j] and x[0].item() == 1 + 2j and complex(x[0]) == 1 + 2j
    assert fl.full((2,), 1j).tolist() == [1j, 1j] and fl.full((), 2j, dtype=fl.complex128).item() == 2j
    assert fl.eye(2, dtype=fl.complex64).tolist() == [[1, 0], [0, 1]] and fl.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]
    assert 1j in fl.tensor([1j]) and bool(fl.tensor(1j)) and not bool(fl.tensor(0j))
    assert fl.tensor(np.complex64(1 + 1j)).dtype is fl.complex64
    with pytest.raises(TypeError, match=r"\(1\+2j\) is complex"):
        fl.tensor([1 + 2j], dtype=fl.float32)
    for convert in (float, int):
        with pytest.raises(TypeError, match="expected a real number"):
            convert(fl.tensor(1j))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_draws_have_parts_of_half_the_variance(dtype):
    x = fl.randn(40_000, dtype=dtype, generator=fl.Generator().manual_seed(1))
    assert abs(float(x.abs().square().mean()) - 1) < 0.02 and abs(float(x.real.var()) - 0.5) < 0.02
    u = fl.rand(1000, dtype=dtype)
    assert 0 <= float(u.real.min()) and float(u.imag.max()) < 1 and float(u.imag.max()) > 0.9


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_memory_is_shared_with_numpy_and_dlpack(dtype):
    a = made(3, 4, dtype=COMPLEX[dtype])
    x = fl.from_numpy(a)
    assert x.dtype is dtype and np.shares_memory(x.numpy(), a) and np.shares_memory(np.from_dlpack(x), a)
    back = fl.from_dlpack(a)
    back[0, 0] = 5
    assert x[0, 0].item() == 5 and a[0, 0] == 5
    assert np.shares_memory(fl.from_numpy(a.T).numpy(), a)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_copies(dtype):
    x = fl.tensor(made(3, 2, dtype=COMPLEX[dtype]))
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), x.clone()):
        assert y.dtype is dtype and fl.equal(x, y) and y.data_ptr() != x.data_ptr()


def test_conversions():
    x = fl.tensor([1 + 2j, 0, 2j])
    assert x.to(fl.bool).tolist() == [True, False, True] and x.cdouble().dtype is fl.complex128 and fl.ones(2).cfloat().tolist() == [1, 1]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert x.float().tolist() == [1, 0, 0]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert fl.zeros(3).copy_(x).tolist() == [1, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.real.tolist() == [1, 0, 0]
    assert fl.tensor([300.5], dtype=fl.float16).to(fl.complex64).item() == 300.5


@pytest.mark.parametrize("to", [fl.complex64, fl.complex128, fl.float32, fl.int64, fl.bool], ids=str)
@pytest.mark.parametrize("start", [fl.complex64, fl.complex128, fl.float64, fl.int32, fl.bool], ids=str)
@pytest.mark.parametrize("n", [7, 600, 3000])
@pytest.mark.filterwarnings("ignore:casting complex")
def test_conversions_of_strided_memory(start, to, n):
    a = np.round(4 * made(n, 5))
    names = {t: t.name for t in (start, to)}
    source = (a if start.is_complex else a.real).astype(names[start])
    want = source.astype(names[to]) if start.is_complex <= to.is_complex or to is fl.bool else source.real.astype(names[to])
    for x, y in ((fl.tensor(source), want), (fl.tensor(source).T, want.T), (fl.tensor(source)[::2, ::2], want[::2, ::2])):
        np.testing.assert_array_equal(x.to(to).numpy(), y)
        np.testing.assert_array_equal((fl.zeros(y.shape, dtype=to).copy_(x)).numpy(), y)


# ---------------------------------------------------------------------------------------- printing


@pytest.mark.parametrize(
    "x, text",
    [
        (lambda: fl.tensor([1 + 2j, -3 - 1j]), "tensor([ 1.+2.j, -3.-1.j])"),
        (lambda: fl.tensor([1.5 + 2j]), "tensor([1.5000+2.j])"),
        (lambda: fl.tensor(1j, dtype=fl.complex128), "tensor(0.+1.j, dtype=flambeau.complex128)"),
        (lambda: fl.zeros(0, dtype=fl.complex64), "tensor([], dtype=flambeau.complex64)"),
    ],
)
def test_printing(x, text):
    assert repr(x()) == text


# ------------------------------------------------------------------------------------ parts


def test_parts_are_views():
    x = fl.tensor([1 + 2j, 3 - 4j])
    x.real.mul_(2)
    x.imag = fl.tensor([0.5, 0.25])
    assert x.tolist() == [2 + 0.5j, 6 + 0.25j]
    x.real = 1
    fl.view_as_real(x)[:, 1] = 0
    assert x.tolist() == [1, 1] and x._version > 0
    pairs = fl.zeros(2, 2)
    fl.view_as_complex(pairs)[0] = 1 + 2j
    assert pairs.tolist() == [[1, 2], [0, 0]]
    assert fl.real(pairs) is not None and pairs.real is pairs
    with pytest.raises(TypeError, match="expected a complex tensor"):
        _ = pairs.imag


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (lambda: fl.view_as_real(fl.ones(2)), TypeError, "x is float32"),
        (lambda: fl.view_as_complex(fl.ones(2, 3)), ValueError, "last dimension of size 2"),
        (lambda: fl.view_as_complex(fl.ones(())), ValueError, "last dimension of size 2"),
        (lambda: fl.view_as_complex(fl.ones(2, 3).T), ValueError, "last stride of 1"),
        (lambda: fl.view_as_complex(fl.ones(5)[1:3]), ValueError, "even begin"),
        (lambda: fl.view_as_complex(fl.ones(2, dtype=fl.int64)), TypeError, "expected float16, float32 or float64"),
        (lambda: fl.complex(fl.ones(2), fl.ones(2).double()), TypeError, "expected one type"),
        (lambda: fl.complex(fl.ones(2).bfloat16(), fl.ones(2).bfloat16()), TypeError, "real is bfloat16"),
        (lambda: fl.complex(fl.ones(2), fl.ones(3)), ValueError, "do not broadcast"),
        (lambda: fl.ones(2).add_(1j), TypeError, "desired output type float32 of x"),
        (lambda: fl.ones(2).fill_(1j), TypeError, "is complex"),
        (lambda: fl.ones(2).masked_fill(fl.ones(2) > 0, 1j), TypeError, "is complex"),
        (lambda: fl.ones(2).index_put((fl.tensor([0]),), fl.tensor([1j])), TypeError, "complex64"),
        (lambda: fl.softmax(fl.ones(2), 0, dtype=fl.complex64), TypeError, "softmax: not defined for complex64"),
        (lambda: fl.clamp(fl.ones(2), 1j), TypeError, "clamp: not defined for complex128"),
        (lambda: fl.arange(3, dtype=fl.complex64), TypeError, "arange: not defined for complex64"),
        (lambda: fl.cumsum(fl.ones(2), 0).cumsum_(0, dtype=fl.complex64), TypeError, "desired output type"),
        (lambda: fl.index_add(fl.zeros(2, dtype=fl.complex64), 0, fl.tensor([0]), fl.ones(1, dtype=fl.complex64), alpha=1j), TypeError, "alpha"),
        (lambda: fl.nn.functional.dropout(fl.ones(2), 1j), TypeError, "complex"),
        (lambda: fl.tensor([1j])[fl.tensor([0j])], IndexError, "tensors used as indices must be"),
        (lambda: fl.ones(2).to(fl.complex64).H, ValueError, "two axes"),
    ],
)  # fmt: skip
def test_refused(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_conjugates():
    a = made(2, 3)
    x = fl.tensor(a)
    assert_near(x.conj(), a.conj())
    assert_near(x.mH, a.conj().T)
    assert_near(x.H, a.conj().T)
    assert_near(fl.adjoint(x), a.conj().T)
    assert_near(x.clone().conj_physical_(), a.conj())
    assert not x.conj().is_conj() and not fl.is_neg(-x) and x.resolve_conj() is not None and fl.equal(x.resolve_neg(), x)
    r = fl.ones(2)
    assert r.conj().data_ptr() == r.data_ptr()
    assert fl.isreal(fl.tensor([1 + 0j, 1j])).tolist() == [True, False] and fl.isreal(r).tolist() == [True, True]


def test_polar_and_angle():
    a = made(5)
    assert_near(fl.polar(fl.tensor(np.abs(a)), fl.tensor(np.angle(a))), a)
    assert_near(fl.angle(fl.tensor(a)), np.angle(a))
    assert_near(fl.angle(fl.tensor([-1.0, 2.0, np.nan])), np.array([np.pi, 0, np.nan]), dtype=fl.float32)


# ------------------------------------------------------------------------ values beside NumPy's


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 2), -1], ids=str)
def test_reductions(dim, dtype):
    a = made(4, 5, 3, dtype=COMPLEX[dtype])
    x = fl.tensor(a)
    for y, z in ((x, a), (x.transpose(0, 1), a.swapaxes(0, 1))):
        wide = z.astype(np.complex128)
        assert_near(fl.sum(y, dim), wide.sum(dim), scale=10)
        assert_near(fl.mean(y, dim, keepdim=True), wide.mean(dim, keepdims=True), scale=10)
        assert_near(fl.prod(y, dim), wide.prod(dim), scale=100)
        assert_near(fl.var(y, dim), wide.var(dim, ddof=1), scale=10)
        assert_near(fl.std(y, dim), wide.std(dim, ddof=1), scale=10)
        assert_near(fl.norm(y, dim=dim), np.sqrt((np.abs(wide) ** 2).sum(dim)), scale=10)
        assert fl.any(y, dim).dtype is fl.bool and fl.equal(fl.count_nonzero(y, dim), fl.tensor(np.count_nonzero(z, dim)))
    assert fl.sum(fl.ones(2, 2), 0, dtype=fl.complex64).tolist() == [2, 2] and fl.sum(fl.arange(3), dtype=dtype).item() == 3
    assert fl.prod(fl.ones(0, 3, dtype=dtype), 0).tolist() == [1, 1, 1] and fl.sum(fl.ones(0, dtype=dtype)).item() == 0


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("a, b", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 2)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (2, 4, 3)),
                                  ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((1, 70), (70, 1)), ((65, 130), (130, 33))], ids=str)  # fmt: skip
def test_products(a, b, dtype):
    m, n = made(*a, dtype=COMPLEX[dtype]), made(*b, dtype=COMPLEX[dtype])
    x, y = fl.tensor(m), fl.tensor(n)
    want = m.astype(np.complex128) @ n.astype(np.complex128)
    assert_near(x @ y, want, scale=20)
    if len(a) == 2 and len(b) == 2:
        assert_near(fl.tensor(np.ascontiguousarray(m.T)).T @ fl.tensor(np.ascontiguousarray(n.T)).T, want, scale=20)
        assert_near(fl.addmm(fl.ones(want.shape, dtype=dtype), x, y, beta=2j, alpha=1 + 1j), 2j + (1 + 1j) * want, scale=20)
        assert_near(fl.addmm(fl.full(want.shape, np.nan, dtype=dtype), x, y, beta=0), want, scale=20)
    if len(a) == 1 and len(b) == 1:
        assert_near(fl.vdot(x, y), np.vdot(m.astype(np.complex128), n), scale=20)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(groups):
    x, w, b = made(2, 4, 9), made(6, 4 // groups, 3), made(6)
    got = fl.conv1d(fl.tensor(x), fl.tensor(w), fl.tensor(b), stride=2, padding=1, groups=groups)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    per, out = 4 // groups, 6 // groups
    want = np.stack([
        np.stack([(padded[:, o // out * per : (o // out + 1) * per, t : t + 3] * w[o]).sum((1, 2)) + b[o] for t in range(0, 9, 2)], -1) for o in range(6)
    ], 1)  # fmt: skip
    assert_near(got, want)


SPECIAL = [0, -0.0, 1, -1, 1j, -1j, 1e-200, 1e200, -3 + 1e-10j, -3 - 1e-10j, 0.5 + 0.5j, 20 - 30j]
FUNCTIONS = ("exp log log10 sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh square reciprocal "
             "sign expm1 log1p log2 exp2").split()  # fmt: skip
OURS = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "sign": "sgn"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_branches_and_large_arguments(name):
    z = np.array(SPECIAL, complex)
    with np.errstate(all="ignore"):
        want = np.where(z == 0, 0, z / np.where(z == 0, 1, np.abs(z))) if name == "sign" else getattr(np, name)(z)
    got = getattr(fl, OURS.get(name, name))(fl.tensor(z)).numpy()
    usable = np.isfinite(want.real) & np.isfinite(want.imag)
    np.testing.assert_allclose(got[usable], want[usable], rtol=1e-13, atol=1e-18)


def test_infinities_stay_apart_in_sums():
    x = fl.tensor([complex("inf"), complex(0, float("inf"))])
    assert (x + 1).tolist() == [complex("inf"), complex(1, float("inf"))]
    assert fl.isinf(x).tolist() == [True, True] and fl.isfinite(x + 0j).tolist() == [False, False]
    assert fl.isnan(fl.tensor([complex("nan"), 1j])).tolist() == [True, False]


# ------------------------------------------------------------------------------------ gradients

CASES = {
    "real times complex": (lambda a, b: a * b, lambda: [leaf(3, real=True), leaf(2, 3)]),
    "complex factor": (lambda a: a * (2 + 1j), lambda: [leaf(3, real=True)]),
    "alpha": (lambda a, b: fl.add(a, b, alpha=2 + 1j), lambda: [leaf(2, 3), leaf(3)]),
    "power of a number": (lambda a: a ** (1.5 + 0.5j), lambda: [leaf(3)]),
    "number to a power": (lambda a: (2 + 1j) ** a, lambda: [leaf(3)]),
    "polar": (fl.polar, lambda: [leaf(3, real=True), leaf(3, real=True)]),
    "complex": (fl.complex, lambda: [leaf(3, real=True), leaf(1, real=True)]),
    "view_as_real": (fl.view_as_real, lambda: [leaf(2, 2)]),
    "view_as_complex": (fl.view_as_complex, lambda: [leaf(3, 2, real=True)]),
    "imag": (lambda a: a.imag * a.real, lambda: [leaf(3)]),
    "angle": (fl.angle, lambda: [leaf(3)]),
    "abs": (fl.abs, lambda: [leaf(3)]),
    "sgn": (fl.sgn, lambda: [leaf(3)]),
    "matmul": (fl.matmul, lambda: [leaf(2, 1, 2, 3), leaf(2, 3, 2)]),
    "linear": (fl.nn.functional.linear, lambda: [leaf(2, 3), leaf(4, 3), leaf(4)]),
    "addmm": (lambda i, a, b: fl.addmm(i, a, b, beta=2, alpha=1 + 1j), lambda: [leaf(2, 2), leaf(2, 3), leaf(3, 2)]),
    "einsum": (lambda a, b: fl.einsum("ij,jk->ik", a, b), lambda: [leaf(2, 3), leaf(3, 2)]),
    "conv2d": (fl.conv2d, lambda: [leaf(1, 2, 3, 3), leaf(2, 2, 2, 2), leaf(2)]),
    "conv_transpose1d": (fl.conv_transpose1d, lambda: [leaf(1, 2, 3), leaf(2, 1, 2)]),
    "cat": (lambda a, b: fl.cat([a, b]), lambda: [leaf(3), leaf(2, real=True)]),
    "where": (lambda a, b: fl.where(fl.tensor([True, False, True]), a, b), lambda: [leaf(3), leaf(3, real=True)]),
    "cast": (lambda a: a.to(fl.complex128), lambda: [leaf(3, real=True)]),
    "prod with a zero": (lambda a: (a * fl.tensor([1.0, 0.0, 1.0])).prod(), lambda: [leaf(3)]),
    "in place": (lambda a, b: a.clone().mul_(b).exp_(), lambda: [leaf(3), leaf(3)]),
    "real part written": (lambda a, b: _after(a.clone(), lambda c: c.real.mul_(b)), lambda: [leaf(3), leaf(3, real=True)]),
    "imaginary part copied to": (lambda a, b: _after(a.clone(), lambda c: c.imag.copy_(b)), lambda: [leaf(3), leaf(3, real=True)]),
    "pairs written": (lambda a, b: _after(a.clone(), lambda c: fl.view_as_complex(c).mul_(b)), lambda: [leaf(3, 2, real=True), leaf(3)]),
    "a slice set": (lambda a, b: _after(a.clone(), lambda c: c.__setitem__(0, b)), lambda: [leaf(3, 2), leaf(2)]),
    "an index set": (lambda a, b: _after(a.clone(), lambda c: c.__setitem__(fl.tensor([0, 2]), b)), lambda: [leaf(3, 2), leaf(2, 2)]),
    "complex copied": (lambda a, b: a.clone().copy_(b), lambda: [leaf(3), leaf(3, real=True)]),
    "overlapping windows": (lambda a: a.as_strided((3, 2), (1, 1)) * a.unfold(0, 2, 1), lambda: [leaf(4)]),
}


def _after(x, write):
    write(x)
    return x * x if not x.is_complex() else x * x.conj() + x


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, inputs = CASES[name]
    assert gradcheck(function, inputs())
    assert gradgradcheck(function, inputs())


def test_the_gradient_is_the_direction_of_steepest_ascent():
    z = fl.tensor([3 - 4j], requires_grad=True)
    z.abs().sum().backward()
    assert z.grad.tolist() == pytest.approx([0.6 - 0.8j])
    w = fl.tensor([1 + 1j], requires_grad=True)
    (w * w.conj()).real.sum().backward()
    assert w.grad.tolist() == [2 + 2j]
    r = fl.tensor([2.0], requires_grad=True)
    (r * fl.tensor([1 + 1j])).abs().sum().backward()
    assert r.grad.dtype is fl.float32 and r.grad.item() == pytest.approx(2**0.5)


def test_a_complex_loss_needs_a_gradient():
    z = fl.tensor([1j], requires_grad=True)
    with pytest.raises(RuntimeError, match="implicitly created only for real scalar outputs"):
        (z * 2).sum().backward()
    (z * 2).sum().backward(fl.tensor(1j))
    assert z.grad.item() == 2j


def test_abs_and_sgn_at_zero():
    z = fl.zeros(2, dtype=fl.complex64, requires_grad=True)
    (z.abs().sum() + fl.sgn(z).real.sum()).backward()
    assert z.grad.tolist() == [0, 0]


# ------------------------------------------------------------------------------ recorded and lazy


def test_lazy_and_compiled():
    x = fl.tensor(made(50, dtype=np.complex64))

    def function(a):
        return ((a * (1 + 2j) + 3).exp().conj() @ a).abs() + (a.real * 2).sum()

    want = function(x)
    with fl.lazy():
        got = function(x)
    assert_near(got, want)
    compiled = fl.compile(function)
    for _ in range(4):
        assert_near(compiled(x), want)


def test_anomaly_mode_finds_nan_of_complex_gradients():
    z = fl.zeros(1, dtype=fl.complex64, requires_grad=True)
    with fl.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        fl.log(z).abs().sum().backward()


def test_modules_hold_complex_parameters():
    layer = fl.nn.Linear(3, 2, bias=True, dtype=fl.complex64)
    y = layer(fl.randn(4, 3, dtype=fl.complex64))
    y.abs().sum().backward()
    assert y.dtype is fl.complex64 and layer.weight.grad.dtype is fl.complex64 and _C.complex64 is layer.bias.dtype


def test_float_power_keeps_imaginary_parts():
    x = fl.tensor(made(3, dtype=np.complex64))
    assert_near(fl.float_power(x, 2), x.numpy().astype(np.complex128) ** 2)
    assert fl.float_power(x, fl.tensor(2)).dtype is fl.complex128 and fl.float_power(fl.ones(1), 2j).dtype is fl.complex128


def test_halves_are_put_in_their_own_type():
    x = fl.zeros(3, 2, dtype=fl.complex32)
    x[fl.tensor([1])] = fl.tensor([1 + 2j, 3 + 4j]).to(fl.complex32)
    assert x.to(fl.complex64).tolist() == [[0, 0], [1 + 2j, 3 + 4j], [0, 0]]


@pytest.mark.parametrize("shape, dim", [((1,), None), ((2, 1), 1), ((), None)])
def test_a_product_of_one_number_has_its_own_memory(shape, dim):
    x = fl.ones(shape, dtype=fl.complex64)
    (fl.prod(x) if dim is None else fl.prod(x, dim)).fill_(7)
    assert fl.equal(x, fl.ones(shape, dtype=fl.complex64))


def test_parts_are_widened_below_autocast():
    halves = fl.ones(3, 2, dtype=fl.bfloat16)
    with fl.autocast("cpu", dtype=fl.bfloat16):
        assert fl.view_as_complex(halves).dtype == fl.polar(halves, halves).dtype == fl.complex64


def test_halves_make_complex_numbers_of_halves():
    x = fl.complex(fl.tensor([1.0, 2.0]).half(), fl.tensor([3.0, 0.5]).half())
    assert x.dtype == fl.complex32 and x.to(fl.complex64).tolist() == [1 + 3j, 2 + 0.5j]
    with pytest.raises(TypeError, match="imag is bfloat16"):
        fl.complex(fl.ones(2).half(), fl.ones(2).bfloat16())


def test_logaddexp():
    inf = float("inf")
    a = fl.tensor([1 + 2j, -3 + 0.5j, 700 + 1j, complex(-inf, 0), complex(inf, 1), 0j], dtype=fl.complex128)
    b = fl.tensor([2 - 1j, -3 - 0.5j, 702 - 1j, complex(-inf, 0), complex(1, 1), complex(-inf, 0)], dtype=fl.complex128)
    got = fl.logaddexp(a, b)
    assert fl.allclose(got[:2], (a[:2].exp() + b[:2].exp()).log(), rtol=1e-14)
    assert abs(got[2].item() - (702 - 1j + cmath.log(1 + cmath.exp(-2 + 2j)))) < 1e-12
    assert [z.real for z in got[3:].tolist()] == [-inf, inf, 0]
    assert fl.autograd.gradcheck(fl.logaddexp, (a[:2].clone().requires_grad_(), b[:2].clone().requires_grad_()))


def test_nan_to_num():
    inf, nan = float("inf"), float("nan")
    z = fl.tensor([complex(nan, 1), complex(inf, -inf), 2 + 3j, complex(1, nan)])
    largest = fl.finfo(fl.float32).max
    assert fl.nan_to_num(z).tolist() == [1j, complex(largest, -largest), 2 + 3j, 1]
    assert z.clone().nan_to_num_(0.5, 6.0, -7.0).tolist() == [0.5 + 1j, 6 - 7j, 2 + 3j, 1 + 0.5j]


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "cumsum", "cumprod"])
def test_folds_to_real_types_are_of_the_real_parts(name):
    x = fl.tensor([[1 + 2j, 3 - 1j], [0.5 + 1j, -2j]], requires_grad=True)
    for dtype in (fl.float64, fl.float32):
        y = getattr(fl, name)(x, 1, dtype=dtype)
        assert y.dtype is dtype and fl.equal(y, getattr(fl, name)(x.real, 1, dtype=dtype))
        (g,) = fl.autograd.grad(y.sum(), x)
        assert g.dtype is x.dtype and not g.imag.any()
    if name != "mean":
        assert getattr(fl, name)(x.detach(), 1, dtype=fl.int64).dtype is fl.int64
