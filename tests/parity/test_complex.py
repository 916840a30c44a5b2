"""Complex numbers beside PyTorch: values, types and gradients of a vector-Jacobian product; printing; transforms."""

from __future__ import annotations

import random

import numpy as np
import pytest
from beside import dtype_name, torch
from test_printing import numbers, one_name, options, text  # noqa: F401  (a fixture)

import flambeau as fl

RTOL = {"complex64": 2e-5, "float32": 2e-5, "complex128": 1e-9, "float64": 1e-9}


def made(seed, *shape, dtype="complex128"):
    rng = np.random.default_rng(seed + sum(shape))
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.startswith("complex") else 0)
    return np.asarray(x).astype(dtype)


def plain(x):
    x = x.detach()
    return x.resolve_conj().resolve_neg().numpy() if isinstance(x, torch.Tensor) else x.numpy()


def assert_same(ours, theirs):
    assert dtype_name(ours) == dtype_name(theirs) and tuple(ours.shape) == tuple(theirs.shape)
    tolerance = RTOL.get(dtype_name(theirs), 0)
    np.testing.assert_allclose(plain(ours), plain(theirs), rtol=tolerance, atol=10 * tolerance)


def beside(function, *arrays):
    """Values, and the gradients of all arguments for one random gradient of the result."""
    ours = [fl.tensor(a).requires_grad_() if a.dtype.kind in "fc" else fl.tensor(a) for a in arrays]
    theirs = [torch.tensor(a).requires_grad_() if a.dtype.kind in "fc" else torch.tensor(a) for a in arrays]
    y, z = function(fl, *ours), function(torch, *theirs)
    assert_same(y, z)
    if not z.requires_grad:
        return
    seed = made(9, *z.shape, dtype=dtype_name(z))
    y.backward(fl.tensor(seed))
    z.backward(torch.tensor(seed))
    for a, b in zip(ours, theirs, strict=True):
        if b.grad is not None:
            assert_same(a.grad, b.grad)


UNARY = ("neg positive square exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
         "sigmoid sinc abs sgn angle conj_physical real imag view_as_real isnan isinf isfinite isreal logical_not sum mean prod var std").split()  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    beside(lambda lib, x: getattr(lib, name)(x), made(1, 3, 4, dtype=dtype))


BINARY = "add sub mul div pow eq ne logical_and matmul dot vdot outer inner kron lerp".split()


@pytest.mark.parametrize("a, b", [("complex128", "complex128"), ("complex64", "complex64"), ("complex128", "float64"), ("float32", "complex64")])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, a, b):
    if a != b and name in ("matmul", "dot", "vdot", "inner", "lerp"):
        pytest.skip("operands of one type")
    x, y = made(1, 4, dtype=a), made(2, 4, dtype=b)
    if name == "pow":
        x = np.abs(x) if x.dtype.kind == "f" else x
    beside(lambda lib, x, y: lib.lerp(x, y, 0.3) if name == "lerp" else getattr(lib, name)(x, y), x, y)


CALLS = {
    "addmm": (lambda lib, i, a, b: lib.addmm(i, a, b, beta=0.5j, alpha=2), [(2, 2), (2, 3), (3, 2)]),
    "baddbmm": (lambda lib, i, a, b: lib.baddbmm(i, a, b, alpha=1j), [(2, 2, 2), (2, 2, 3), (2, 3, 2)]),
    "matmul of batches": (lambda lib, a, b: lib.matmul(a, b), [(2, 1, 2, 3), (4, 3, 2)]),
    "einsum": (lambda lib, a, b: lib.einsum("bij,kj->bki", a, b), [(2, 2, 3), (4, 3)]),
    "addcmul": (lambda lib, x, a, b: lib.addcmul(x, a, b, value=2), [(3,), (3,), (2, 3)]),
    "addcdiv": (lambda lib, x, a, b: lib.addcdiv(x, a, b, value=-1), [(3,), (3,), (2, 3)]),
    "cumsum": (lambda lib, x: lib.cumsum(x, 1), [(2, 4)]),
    "cumprod": (lambda lib, x: lib.cumprod(x, 1), [(2, 4)]),
    "norm": (lambda lib, x: lib.norm(x, dim=1), [(2, 4)]),
    "index": (lambda lib, x: x[:, [0, 2, 2]], [(3, 4)]),
    "setitem": (lambda lib, x, y: _set(x.clone(), y), [(3, 4), (4,)]),
    "masked_fill": (lambda lib, x: x.masked_fill(x.real > 0, 2 - 1j), [(3, 4)]),
    "cat": (lambda lib, x, y: lib.cat([x, y.real]), [(3,), (2,)]),
    "conv2d": (lambda lib, x, w, b: lib.conv2d(x, w, b, padding=1), [(1, 2, 4, 4), (3, 2, 2, 2), (3,)]),
    "conv_transpose1d": (lambda lib, x, w: lib.conv_transpose1d(x, w, stride=2), [(1, 2, 4), (2, 3, 2)]),
    "linear": (lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), [(2, 3), (4, 3), (4,)]),
    "pad": (lambda lib, x: lib.nn.functional.pad(x, (1, 2)), [(2, 3)]),
    "mH": (lambda lib, x: x.mH @ x, [(2, 3)]),
    "polar": (lambda lib, x: lib.polar(x.abs(), x.real), [(3,)]),
    "complex": (lambda lib, x: lib.complex(x.imag, x.real), [(3,)]),
    "number": (lambda lib, x: (2 - 1j) / x + x**2 - 1j, [(3,)]),
    "number beside real": (lambda lib, x: x.real * (1 + 2j), [(3,)]),
    "index_add": (lambda lib, x, y: x.index_add(0, lib.tensor([0, 0]), y), [(3, 2), (2, 2)]),
    "scatter_add": (lambda lib, x, y: x.scatter_add(0, lib.tensor([0, 0]), y), [(3,), (2,)]),
    "fft": (lambda lib, x: lib.fft.fft(x, 6, norm="ortho"), [(2, 4)]),
    "ifft2": (lambda lib, x: lib.fft.ifft2(x), [(3, 4)]),
    "rfftn": (lambda lib, x: lib.fft.rfftn(x.real, norm="forward"), [(3, 4)]),
    "irfft": (lambda lib, x: lib.fft.irfft(x, 5), [(2, 4)]),
    "hfftn": (lambda lib, x: lib.fft.hfftn(x, norm="ortho"), [(2, 4)]),
    "ihfft2": (lambda lib, x: lib.fft.ihfft2(x.real), [(2, 4)]),
    "stft": (lambda lib, x: lib.stft(x.real, 4, 2, return_complex=True), [(9,)]),
    "stft of complex": (lambda lib, x: lib.stft(x, 4, 1, normalized=True), [(2, 9)]),
    "istft": (lambda lib, x: lib.istft(x, 4, 1), [(3, 5)]),
}


def _set(x, y):
    x[1] = y
    return x * x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, dtype):
    function, shapes = CALLS[name]
    beside(function, *(made(k, *shape, dtype=dtype) for k, shape in enumerate(shapes)))


DTYPES = ["bool", "int32", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", ["complex64", "complex128", "number"])
def test_promotion(a, b):
    for shapes in (((2,), (2,)), ((), (2,)), ((2,), ()), ((), ())):
        def both(lib, shapes=shapes):
            y = 1j if b == "number" else lib.ones(shapes[1], dtype=getattr(lib, b))
            return lib.ones(shapes[0], dtype=getattr(lib, a)) * y

        if a in ("float16", "bfloat16"):
            continue  # PyTorch has complex32 there
        assert dtype_name(both(fl)) == dtype_name(both(torch)), shapes


@pytest.mark.parametrize("block", range(4))
def test_printing(block):
    for seed in range(500 * block, 500 * (block + 1)):
        rng = random.Random(seed)
        dtype = rng.choice(["complex64", "complex128"])
        shape = tuple(rng.choice([1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 1, 2, 3])))
        count = int(np.prod(shape))
        parts = [numbers(rng, "float32" if dtype == "complex64" else "float64", count) for _ in range(2)]
        given = rng.choice([{}, {}, dict(precision=rng.randint(0, 8)), dict(linewidth=rng.randint(20, 140)), dict(sci_mode=rng.choice([True, False])), dict(threshold=3, edgeitems=rng.choice([1, 2, 3]))])

        def one(lib, dtype=dtype, shape=shape, parts=parts):
            x = lib.complex(*(lib.tensor(p, dtype=lib.float64) for p in parts))
            return x.reshape(shape).to(getattr(lib, dtype))

        with options(**given):
            assert text(one(fl)) == text(one(torch)), f"seed {seed}: {given}"
