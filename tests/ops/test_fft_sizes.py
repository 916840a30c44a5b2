"""Transforms of the sizes that have kernels here, of every number of lines and way to lie, beside NumPy's in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau._C import ops

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 25, 27, 31, 32, 48, 49, 60, 64, 81, 125, 128, 243, 256, 400, 510, 512, 625, 961, 1024, 2048, 4095, 4096]
SHAPES = {
    "line": lambda n: ((n,), 0), "rows": lambda n: ((3, n), 1), "more rows than lanes": lambda n: ((37, n), -1), "columns": lambda n: ((n, 5), 0),
    "more columns than lanes": lambda n: ((n, 40), 0), "blocks of columns": lambda n: ((2, n, 19), 1), "strided": lambda n: ((9, n), 1),
}  # fmt: skip
LIMITS = {"float32": 3e-6, "float64": 1e-13}


def numbers(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def same(got, want, dtype):
    assert tuple(got.shape) == want.shape
    assert np.abs(got.numpy() - want).max() <= LIMITS[dtype] * max(np.abs(want).max(), 1e-30)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("lie", SHAPES)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_all_forms_are_numpys(dtype, lie, norm):
    rng = np.random.default_rng(0)
    for n in SIZES if norm == "backward" else SIZES[::3]:
        shape, dim = SHAPES[lie](n)
        kind = {"float32": np.complex64, "float64": np.complex128}[dtype]
        x = numbers(rng, shape, dtype)
        z = (x + 1j * numbers(rng, shape, dtype)).astype(kind)
        half = tuple(n // 2 + 1 if i == dim % len(shape) else s for i, s in enumerate(shape))
        h = (numbers(rng, half, dtype) + 1j * numbers(rng, half, dtype)).astype(kind)
        for name, a in (("fft", z), ("ifft", z), ("fft", x), ("rfft", x), ("ihfft", x)):
            t = fl.from_numpy(a)
            if lie == "strided":
                t = fl.stack([t, t * 2], -1)[..., 0]
            same(getattr(fl.fft, name)(t, dim=dim, norm=norm), getattr(np.fft, name)(a, axis=dim, norm=norm), dtype)
        for name in ("irfft", "hfft"):
            same(getattr(fl.fft, name)(fl.from_numpy(h), n, dim=dim, norm=norm), getattr(np.fft, name)(h, n, axis=dim, norm=norm), dtype)


def test_several_axes_and_the_halves_of_several():
    x = np.random.default_rng(1).standard_normal((4, 12, 20, 6))
    for name in ("fftn", "ifftn", "rfftn", "fft2", "rfft2", "ifft2"):
        same(getattr(fl.fft, name)(fl.from_numpy(x)), getattr(np.fft, name)(x), "float64")
    same(fl.fft.irfftn(fl.from_numpy(np.fft.rfftn(x)), s=x.shape), x, "float64")
    same(fl.fft.fftn(fl.from_numpy(x), dim=(2, 0), norm="ortho"), np.fft.fftn(x, axes=(2, 0), norm="ortho"), "float64")


@pytest.mark.parametrize("threads", [1, 3])
def test_bits_do_not_depend_on_threads_or_neighbours(threads):
    before = fl.get_num_threads()
    x = fl.randn(200, 256, dtype=fl.complex64, generator=fl.Generator().manual_seed(0))
    alone = fl.cat([fl.fft.fft(row.unsqueeze(0)) for row in x[:20]])
    fl.set_num_threads(threads)
    try:
        assert fl.equal(fl.fft.fft(x)[:20], alone)
    finally:
        fl.set_num_threads(before)


@pytest.mark.slow
def test_gradients_and_recordings():
    x = fl.randn(3, 12, dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradcheck(lambda a: fl.fft.rfft(a).abs().square().sum(), x)
    assert fl.autograd.gradcheck(lambda a: fl.fft.irfft(fl.fft.rfft(a), 12), x)
    assert fl.autograd.gradcheck(lambda a: fl.view_as_real(fl.fft.fft2(a)), x)
    with fl.lazy():
        y = fl.fft.rfft(x * 2)
        value = y.abs().sum().item()
    assert value == fl.fft.rfft(x.detach() * 2).abs().sum().item()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ops.fft_complex(fl.zeros(2, 37, dtype=fl.complex64), 1, True, 1.0), "37 points along axis 1 of x .2, 37.; expected 1 to 4096, of factors that are at most 31"),
        (lambda: ops.fft_complex(fl.zeros(2, 8), 1, True, 1.0), "expected complex64 or complex128"),
        (lambda: ops.fft_complex(fl.zeros((), dtype=fl.complex64), 0, True, 1.0), "no axes"),
        (lambda: ops.fft_real(fl.zeros(2, 8), 1, 4, 1.0), "points = 4 of 8 numbers; expected 5"),
        (lambda: ops.fft_real(fl.zeros(2, 8, dtype=fl.bfloat16), 1, 5, 1.0), "x is bfloat16; expected float32, float64"),
        (lambda: ops.fft_to_real(fl.zeros(2, 8, dtype=fl.complex64), 1, 12, 1.0), "n = 12, but x has 8 points along axis 1; expected 7"),
        (lambda: ops.fft_to_real(fl.zeros(2, 8, dtype=fl.complex64), 1, -(2**63), 1.0), "points along axis 1"),
    ],
)  # fmt: skip
def test_what_has_no_transform_is_refused(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()
