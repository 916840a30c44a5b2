"""Fourier transforms beside NumPy's, for every direction, norm, size and axis; gradients; types and refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.fft import _linear

RNG = np.random.default_rng(3)
NORMS = [None, "backward", "ortho", "forward"]
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY = ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn"]
TAKES_REAL = {"rfft", "ihfft", "rfft2", "rfftn", "ihfft2", "ihfftn"}


def numbers(name, *shape, wide=True):
    real = RNG.standard_normal(shape)
    out = real if name in TAKES_REAL else real + 1j * RNG.standard_normal(shape)
    return out if wide else out.astype("float32" if name in TAKES_REAL else "complex64")


@pytest.fixture(params=["scipy", "numpy"], autouse=True)
def library(request, monkeypatch):
    """Each library computes all of this."""
    _linear._library.cache_clear()
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "scipy.fft", None)
    else:
        pytest.importorskip("scipy.fft")
    yield request.param
    _linear._library.cache_clear()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n, dim", [(None, -1), (None, 0), (4, 1), (9, -1), (1, 0)])
@pytest.mark.parametrize("name", ONE)
def test_one_axis(name, n, dim, norm):
    x = numbers(name, 5, 6)
    assert_near(getattr(fl.fft, name)(fl.tensor(x), n, dim, norm), getattr(np.fft, name)(x, n, dim, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s, dim", [(None, (0, 1)), (None, (2, 0)), ((3, 4), (1, 2)), ((8, 2), (-1, 0))], ids=str)
@pytest.mark.parametrize("name", MANY)
def test_several_axes(name, s, dim, norm):
    x = numbers(name, 3, 4, 6)
    assert_near(getattr(fl.fft, name)(fl.tensor(x), s, dim, norm), getattr(np.fft, name)(x, s, dim, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s, dim", [(None, (0, 2)), ((4, 7), (0, 2)), (None, (2,))], ids=str)
def test_hermitian_along_several_axes(s, dim, norm):
    other = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
    x, r = numbers("hfftn", 3, 2, 5), numbers("ihfftn", 3, 2, 5)
    assert_near(fl.fft.hfftn(fl.tensor(x), s, dim, norm), np.fft.irfftn(x.conj(), s, dim, other))
    assert_near(fl.fft.ihfftn(fl.tensor(r), s, dim, norm), np.fft.rfftn(r, s, dim, other).conj())
    if len(dim) == 2:
        assert_near(fl.fft.hfft2(fl.tensor(x), s, dim, norm), np.fft.irfftn(x.conj(), s, dim, other))
        assert_near(fl.fft.ihfft2(fl.tensor(r), s, dim, norm), np.fft.rfftn(r, s, dim, other).conj())


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_all_axes_and_the_last_ones(name):
    x = numbers(name, 3, 4, 6)
    assert_near(getattr(fl.fft, name)(fl.tensor(x)), getattr(np.fft, name)(x))
    assert_near(getattr(fl.fft, name)(fl.tensor(x), (2, 6)), getattr(np.fft, name)(x, (2, 6), (1, 2)))
    assert_near(getattr(fl.fft, name)(fl.tensor(x), (-1, 6), (0, 2)), getattr(np.fft, name)(x, (3, 6), (0, 2)))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "fft2", "ifft2"])
def test_along_no_axis_is_a_new_tensor(name):
    x = fl.tensor(numbers(name, 3, 4), requires_grad=True)
    y = getattr(fl.fft, name)(x, dim=())
    assert y.data_ptr() != x.data_ptr() and y.requires_grad and fl.equal(y, x.to(y.dtype))


@pytest.mark.parametrize("name", ONE)
def test_single_precision_stays(name):
    x = numbers(name, 64, wide=False)
    y = getattr(fl.fft, name)(fl.tensor(x))
    assert y.dtype is (fl.float32 if name in ("irfft", "hfft") else fl.complex64)
    assert_near(y, getattr(np.fft, name)(x.astype("float64" if name in TAKES_REAL else "complex128")), scale=5)


def test_strided_and_large_inputs():
    x = numbers("fft", 300, 256)
    t = fl.tensor(x)
    assert_near(fl.fft.fft(t.T, dim=0), np.fft.fft(x.T, axis=0))
    assert_near(fl.fft.fft(t[::3, ::2]), np.fft.fft(x[::3, ::2]))
    assert_near(fl.fft.fft(fl.ones(1, 1).expand(3, 8)), np.fft.fft(np.ones((3, 8), "f")))


def test_types():
    assert fl.fft.fft(fl.arange(4)).dtype is fl.complex64 and fl.fft.rfft(fl.tensor([True, False])).dtype is fl.complex64
    assert fl.fft.fft(fl.ones(3, dtype=fl.float64)).dtype is fl.complex128 and fl.fft.irfft(fl.ones(3)).dtype is fl.float32
    y = fl.fft.rfft(fl.empty(3, 8, device="meta"))
    assert y.is_meta and y.shape == (3, 5) and y.dtype is fl.complex64
    assert fl.fft.fft(fl.ones(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("n, d", [(1, 1.0), (4, 0.5), (7, 2.0)])
def test_frequencies_and_their_order(n, d):
    assert_near(fl.fft.fftfreq(n, d, dtype=fl.float64), np.fft.fftfreq(n, d))
    assert_near(fl.fft.rfftfreq(n, d, dtype=fl.float64), np.fft.rfftfreq(n, d))
    x = RNG.standard_normal((n, 3))
    for dim in (None, 0, (0, 1)):
        assert_near(fl.fft.fftshift(fl.tensor(x), dim), np.fft.fftshift(x, dim))
        assert_near(fl.fft.ifftshift(fl.tensor(x), dim), np.fft.ifftshift(x, dim))
    assert fl.fft.fftfreq(3, requires_grad=True).requires_grad


def test_out():
    x = fl.ones(4)
    out = fl.empty(0, dtype=fl.complex64)
    assert fl.fft.fft(x, out=out) is out and out.tolist() == [4, 0, 0, 0]
    with pytest.raises(TypeError, match=r"result type flambeau\.complex64 can't be cast to the desired output type flambeau\.float32"):
        fl.fft.fft(x, out=fl.empty(4))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        fl.fft.fft(fl.ones(4, requires_grad=True), out=out)


def test_out_of_a_wider_type_and_one_that_requires_grad():
    x = fl.ones(4)
    assert fl.fft.fft(x, out=fl.empty(0, dtype=fl.complex128)).tolist() == [4, 0, 0, 0]
    out = fl.empty(6, requires_grad=True)
    with fl.no_grad():
        assert fl.fft.irfft(x, out=out) is out and out.tolist() == fl.fft.irfft(x).tolist()


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_computed_in_the_type_of_out(name):
    compute = getattr(fl.fft, name)
    assert fl.equal(compute(5, 0.3, out=fl.empty(0, dtype=fl.float64)), compute(5, 0.3, dtype=fl.float64))


REFUSED = [
    (lambda: fl.fft.fft(fl.ones(3), norm="no"), ValueError, "Invalid normalization mode"),
    (lambda: fl.fft.fft(fl.ones(3), n=0), ValueError, "Invalid number of data points"),
    (lambda: fl.fft.fft(fl.ones(3, 0)), ValueError, "Invalid number of data points"),
    (lambda: fl.fft.fft(fl.ones(())), IndexError, "no axis to transform"),
    (lambda: fl.fft.fft(fl.ones(3), dim=1), IndexError, "dim = 1, but input has shape"),
    (lambda: fl.fft.fftn(fl.ones(3, 3), dim=(0, -2)), ValueError, "names an axis twice"),
    (lambda: fl.fft.fftn(fl.ones(3, 3), s=(2, 2, 2)), ValueError, "expected at most 2 sizes"),
    (lambda: fl.fft.fftn(fl.ones(3, 3), s=(2,), dim=(0, 1)), ValueError, "When given, dim and shape arguments must have the same length"),
    (lambda: fl.fft.rfft(fl.ones(3, dtype=fl.complex64)), TypeError, r"fft expects a real input tensor, but got flambeau\.complex64"),
    (lambda: fl.fft.ihfft(fl.ones(3, dtype=fl.complex64)), TypeError, r"fft expects a real input tensor, but got flambeau\.complex64"),
    (lambda: fl.fft.fft(fl.ones(3).half()), TypeError, "input is flambeau.float16"),
    (lambda: fl.fft.irfft(fl.ones(1)), ValueError, "Invalid number of data points"),
    (lambda: fl.fft.fft([1.0]), TypeError, "input is a list"),
    (lambda: fl.fft.fftfreq(0), ValueError, "at least 1 point"),
    (lambda: fl.fft.fftfreq(4, dtype=fl.int32), fl.DTypeError, "fftfreq: dtype = .*int32; expected a floating point"),
    (lambda: fl.fft.rfftfreq(4, dtype=fl.int32), fl.DTypeError, "rfftfreq: dtype = .*int32; expected a floating point"),
]


@pytest.mark.parametrize("call, kind, text", REFUSED, ids=range(len(REFUSED)))
def test_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def leaf(name, *shape):
    return fl.tensor(numbers(name, *shape)).requires_grad_()


GRADIENTS = [
    ("fft", (5,), {}), ("fft", (4,), {"n": 6, "norm": "ortho"}), ("fft", (4, 2), {"n": 3, "norm": "forward", "dim": 0}), ("ifft", (4,), {}),
    ("fft2", (2, 3), {}), ("ifftn", (2, 2, 2), {"norm": "ortho"}), ("rfft", (5,), {}), ("rfft", (4,), {"norm": "forward"}),
    ("irfft", (3,), {}), ("irfft", (3,), {"n": 5, "norm": "ortho"}), ("irfft", (4,), {"n": 2}), ("rfft2", (2, 4), {}), ("irfft2", (2, 3), {}),
    ("irfftn", (2, 3), {"s": (3, 3), "dim": (0, 1)}), ("hfft", (3,), {"n": 5}), ("ihfft", (4,), {}), ("hfft2", (2, 3), {}),
    ("ihfft2", (2, 4), {}), ("fftshift", (3,), {}),
]  # fmt: skip


@pytest.mark.parametrize("name, shape, options", GRADIENTS, ids=lambda v: str(v))
def test_gradients(name, shape, options):
    x = leaf(name, *shape)

    def function(a):
        return getattr(fl.fft, name)(a, **options)

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_gradient_of_a_real_signal_is_real():
    x = leaf("rfft", 4)
    assert gradcheck(fl.fft.fft, (x,)) and gradgradcheck(fl.fft.fft, (x,))
    fl.fft.fft(x).abs().square().sum().backward()
    assert x.grad.dtype is fl.float64
    assert_near(x.grad, 8 * x.detach().numpy())


# --------------------------------------------------------------------------- windows along a signal


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
def test_stft_is_the_transforms_of_windows(center, normalized, onesided):
    x, w = RNG.standard_normal((2, 40)), RNG.uniform(0.5, 1, 6)
    got = fl.stft(fl.tensor(x), 8, 3, 6, fl.tensor(w), center=center, normalized=normalized, onesided=onesided, return_complex=True)
    padded = np.pad(x, ((0, 0), (4, 4)), mode="reflect") if center else x
    window = np.pad(w, 1)
    frames = np.stack([padded[:, t : t + 8] * window for t in range(0, padded.shape[1] - 7, 3)], 1)
    want = (np.fft.rfft if onesided else np.fft.fft)(frames, norm="ortho" if normalized else None)
    assert_near(got, want.swapaxes(1, 2))
    parts = fl.stft(fl.tensor(x), 8, 3, 6, fl.tensor(w), center=center, normalized=normalized, onesided=onesided, return_complex=False)
    assert parts.shape == (*got.shape, 2) and fl.equal(fl.view_as_complex(parts.contiguous()), got)


@pytest.mark.parametrize("options", [{}, {"normalized": True}, {"onesided": False}, {"center": False}, {"length": 37}, {"length": 50}], ids=str)
def test_istft_gives_the_signal_back(options):
    x, w = fl.tensor(RNG.standard_normal((2, 40))), fl.tensor(RNG.uniform(0.5, 1, 8))
    forward = {k: v for k, v in options.items() if k != "length"}
    y = fl.istft(x.stft(8, 4, window=w, return_complex=True, **forward), 8, 4, window=w, **options)
    n = min(y.shape[1], 40)
    assert y.shape[1] == options.get("length", 40)
    assert_near(y[:, :n], x[:, :n])
    assert not y[:, 44:].any()  # which no window reaches
    z = fl.tensor(numbers("fft", 40))
    again = z.stft(8, 4, window=w).istft(8, 4, window=w, return_complex=True)
    assert_near(again, z)


def test_gradients_of_windows():
    w = leaf("rfft", 4)
    assert gradcheck(lambda a, w: fl.stft(a, 4, 2, window=w, return_complex=True), (leaf("rfft", 8), w))
    assert gradcheck(lambda a: fl.istft(a, 4, 2), (leaf("fft", 3, 4),)) and gradgradcheck(lambda a: fl.istft(a, 4, 2), (leaf("fft", 3, 4),))


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: fl.stft(fl.ones(8), 4), ValueError, "stft requires the return_complex parameter be given for real inputs"),
        (lambda: fl.stft(fl.ones(8), 4, window=fl.ones(3), return_complex=True), ValueError, "expected a 1D window tensor of size equal to win_length=4"),
        (lambda: fl.stft(fl.ones(8), 4, 0, return_complex=True), ValueError, "hop_length = 0"),
        (lambda: fl.stft(fl.ones(8), 0, return_complex=True), ValueError, "n_fft = 0"),
        (lambda: fl.stft(fl.ones(3), 4, center=False, return_complex=True), ValueError, "fewer than n_fft"),
        (lambda: fl.stft(fl.ones(8).cfloat(), 4, onesided=True), ValueError, "no redundant half"),
        (lambda: fl.stft(fl.ones(2, 2, 8), 4, return_complex=True), ValueError, "expected 1 axes"),
        (lambda: fl.istft(fl.ones(3, 4), 4), TypeError, "istft requires a complex-valued input tensor"),
        (lambda: fl.istft(fl.ones(4, 4).cfloat(), 8), ValueError, "expected 5 frequencies"),
        (lambda: fl.istft(fl.ones(3, 4).cfloat(), 4, 4, window=fl.tensor([0.0, 1, 1, 0])), ValueError, "cover every point"),
    ],
)  # fmt: skip
def test_windows_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("name", MANY)
def test_one_size_may_be_a_number(name):
    x = fl.tensor(numbers(name, 5, 6))
    transform = getattr(fl.fft, name)
    assert_near(transform(x, 4, 0), transform(x, [4], [0]).numpy())
    if name.endswith("n"):
        assert_near(transform(x, 4), transform(x, (4,)).numpy())
    else:
        with pytest.raises(ValueError, match=r"fft2: When given, dim and shape arguments must have the same length: s = \[4\], dim = \[-2, -1\]"):
            transform(x, 4)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_made_as_other_tensors_are(name):
    made = getattr(fl.fft, name)(4, layout=fl.strided, pin_memory=False, dtype=fl.float64, device="cpu")
    assert_near(made, getattr(np.fft, name)(4))
