"""Convolutions by fewer multiplications: beside the same in float64, which are added up as written."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau.backends import winograd

# (images, from channels, to channels, size, padding)
SHAPES = [
    (2, 32, 32, (16, 16), (1, 1)),
    (3, 64, 32, (13, 18), (0, 0)),
    (1, 32, 96, (31, 9), (2, 2)),
    (2, 40, 48, (15, 22), (2, 0)),  # channels that are no multiple of 16
    (8, 32, 64, (3, 3), (1, 1)),  # tiles that are hardly filled
    (9, 32, 32, (5, 1), (1, 1)),
    (2, 264, 272, (14, 15), (0, 1)),  # sums in more than one part
    (1, 32, 32, (150, 130), (1, 1)),  # tiles in blocks
    (2, 192, 208, (60, 44), (1, 1)),
    (1, 320, 288, (20, 20), (1, 1)),  # each thread makes pieces of the weight's gradient
]


def tiles_are_used() -> bool:
    """Bytes lie channels-last, as only oneDNN's convolutions make them."""
    return fl._C.get_deferred_layout() and fl._C.onednn_version() is not None


@pytest.fixture(autouse=True)
def wherever_possible():
    before = fl._C.get_winograd()
    fl._C.set_winograd(2)
    yield
    fl._C.set_winograd(before)


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    fl._C.set_winograd(0)
    try:
        yield
    finally:
        fl._C.set_winograd(2)


def parts(shape: tuple, dtype: fl.dtype, bias: bool = True, seed: int = 3) -> list[np.ndarray]:
    images, n_in, n_out, size, padding = shape
    rng = np.random.default_rng(seed)
    x = fl.tensor(rng.standard_normal((images, n_in, *size)), dtype=dtype).requires_grad_()
    w = fl.tensor(rng.standard_normal((n_out, n_in, 3, 3)) / (9 * n_in) ** 0.5, dtype=dtype).requires_grad_()
    b = fl.tensor(rng.standard_normal(n_out), dtype=dtype).requires_grad_() if bias else None
    y = F.conv2d(x, w, b, padding=padding)
    dy = fl.tensor(rng.standard_normal(tuple(y.shape)), dtype=dtype)
    return [y.detach().numpy(), *(g.numpy() for g in fl.autograd.grad(y, [t for t in (x, w, b) if t is not None], dy))]


# (op, from channels, to channels, size, window, further arguments)
KINDS = {
    "2 x 2": ("conv2d", 32, 48, (17, 30), (2, 2), {}),
    "5 x 5": ("conv2d", 48, 32, (17, 22), (5, 5), {"padding": 2}),
    "5 x 5 without padding": ("conv2d", 32, 32, (12, 40), (5, 5), {}),
    "4 x 4": ("conv2d", 32, 48, (20, 23), (4, 4), {"padding": (1, 2)}),
    "3 x 5": ("conv2d", 32, 32, (20, 23), (3, 5), {"padding": (1, 2)}),
    "7 x 7": ("conv2d", 32, 32, (22, 31), (7, 7), {"padding": 3}),
    "6 x 9 turned round": ("conv_transpose2d", 32, 32, (30, 31), (6, 9), {"padding": 4}),
    "6 x 6 dilated": ("conv2d", 32, 32, (38, 44), (6, 6), {"padding": 5, "dilation": 2}),
    "dilated": ("conv2d", 32, 32, (25, 31), (3, 3), {"padding": 2, "dilation": 2}),
    "dilated by 3, padded by 4": ("conv2d", 32, 64, (29, 23), (3, 3), {"padding": (4, 0), "dilation": 3}),
    "4 x 4 by 2": ("conv2d", 32, 64, (32, 40), (4, 4), {"stride": 2, "padding": 1}),
    "5 x 5 by 2": ("conv2d", 32, 32, (33, 41), (5, 5), {"stride": 2, "padding": (2, 1)}),
    "6 x 6 by 2": ("conv2d", 64, 32, (30, 31), (6, 6), {"stride": 2, "padding": 3}),
    "10 x 10 by 2": ("conv2d", 32, 32, (40, 39), (10, 10), {"stride": 2, "padding": 4}),
    "line of 3": ("conv1d", 64, 32, (301,), (3,), {"padding": 1}),
    "line of 5": ("conv1d", 32, 32, (250,), (5,), {"padding": 2}),
    "line of 7": ("conv1d", 32, 64, (250,), (7,), {"padding": 3}),
    "line of 11, dilated": ("conv1d", 32, 32, (400,), (11,), {"padding": 15, "dilation": 3}),
    "line of 3, dilated by 16": ("conv1d", 32, 32, (700,), (3,), {"padding": 16, "dilation": 16}),
    "line of 6 by 2": ("conv1d", 32, 32, (400,), (6,), {"padding": 2, "stride": 2}),
    "line of 10 by 2 turned round": ("conv_transpose1d", 32, 32, (200,), (10,), {"padding": 4, "stride": 2, "output_padding": 1}),
    "1 x 3": ("conv2d", 32, 48, (17, 40), (1, 3), {"padding": (0, 1)}),
    "3 x 1": ("conv2d", 32, 48, (40, 17), (3, 1), {"padding": (2, 0)}),
    "1 x 7, by 3 along the rows": ("conv2d", 32, 48, (30, 40), (1, 7), {"padding": (2, 3), "stride": (3, 1)}),
    "7 x 1 turned round": ("conv_transpose2d", 32, 32, (40, 17), (7, 1), {"padding": (3, 0)}),
    "3 x 6 by 1 and 2": ("conv2d", 32, 48, (24, 41), (3, 6), {"padding": (1, 2), "stride": (1, 2)}),
    "3 x 3, dilated along one axis": ("conv2d", 32, 48, (24, 41), (3, 3), {"padding": (1, 3), "dilation": (1, 3)}),
    "6 x 3 by 2 and 1 turned round": ("conv_transpose2d", 32, 32, (16, 30), (6, 3), {"padding": (2, 1), "stride": (2, 1)}),
    "5 x 1 x 3": ("conv3d", 32, 32, (8, 10, 40), (5, 1, 3), {"padding": (2, 0, 1)}),
    "3 x 3 turned round": ("conv_transpose2d", 48, 32, (18, 25), (3, 3), {"padding": 1}),
    "4 x 4 by 2 turned round": ("conv_transpose2d", 64, 32, (16, 18), (4, 4), {"stride": 2, "padding": 1}),
    "5 x 5 by 2 turned round": ("conv_transpose2d", 64, 32, (16, 18), (5, 5), {"stride": 2, "padding": 2, "output_padding": 1}),
    "6 x 6 by 2 turned round": ("conv_transpose2d", 32, 32, (19, 17), (6, 6), {"stride": 2, "output_padding": (1, 0)}),
    "3 x 3 x 3": ("conv3d", 32, 32, (5, 16, 20), (3, 3, 3), {"padding": 1}),
    "2 x 3 x 3 by 2": ("conv3d", 32, 48, (7, 13, 16), (2, 3, 3), {"padding": (1, 0, 2), "stride": (2, 1, 1)}),
    "1 x 3 x 3": ("conv3d", 32, 32, (4, 16, 20), (1, 3, 3), {"padding": (0, 1, 1)}),
    "3 x 3 x 3 dilated": ("conv3d", 32, 32, (9, 24, 20), (3, 3, 3), {"padding": 2, "dilation": 2}),
    "3 x 4 x 4 by 2": ("conv3d", 32, 64, (4, 30, 30), (3, 4, 4), {"stride": (1, 2, 2), "padding": 1}),
    "3 x 3 x 3 turned round": ("conv_transpose3d", 32, 32, (4, 15, 18), (3, 3, 3), {"padding": 1}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_windows(kind):
    op, n_in, n_out, size, window, given = KINDS[kind]
    rng = np.random.default_rng(5)
    turned = "transpose" in op
    x = fl.tensor(rng.standard_normal((2, n_in, *size)))
    w = fl.tensor(rng.standard_normal(((n_in, n_out) if turned else (n_out, n_in)) + window) / (n_in * np.prod(window)) ** 0.5)
    b = fl.tensor(rng.standard_normal(n_out))
    shape = getattr(F, op)(x, w, b, **given).shape
    dy = fl.tensor(rng.standard_normal(tuple(shape)))

    def all_parts(dtype: fl.dtype) -> list[np.ndarray]:
        leaves = [t.to(dtype).requires_grad_() for t in (x, w, b)]
        y = getattr(F, op)(*leaves, **given)
        return [t.detach().numpy() for t in (y, *fl.autograd.grad(y, leaves, dy.to(dtype)))]

    exact, ours = all_parts(fl.float64), all_parts(fl.float32)
    for found, true in zip(ours, exact, strict=True):
        np.testing.assert_allclose(found, true, rtol=0, atol=1e-5 * max(1.0, float(np.abs(true).max())))
    with as_written():
        written = all_parts(fl.float32)
    if tiles_are_used():
        assert any((a != c).any() for a, c in zip(ours, written, strict=True)), "none of the parts is computed by fewer multiplications"


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_result_and_gradients(shape, bias):
    for ours, exact in zip(parts(shape, fl.float32, bias), parts(shape, fl.float64, bias), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-5 * max(1.0, float(np.abs(exact).max())))


@pytest.mark.slow
def test_it_is_as_exact_as_is_said():
    """256 channels: the greatest error is some 2e-6 of the greatest result, as written some 1e-6."""
    shape = (2, 256, 64, (32, 32), (1, 1))
    for ours, exact in zip(parts(shape, fl.float32)[:3], parts(shape, fl.float64)[:3], strict=True):
        assert np.abs(ours - exact).max() <= 5e-6 * np.abs(exact).max()


@pytest.mark.slow
def test_the_switch_changes_how_results_are_made():
    if not tiles_are_used():
        pytest.skip("row-major convolutions are added up as written")
    shape = SHAPES[8]
    with winograd.flags(enabled=False):
        assert fl._C.get_winograd() == 0
        written = parts(shape, fl.float32)
    assert fl._C.get_winograd() == 1
    assert any((a != b).any() for a, b in zip(parts(shape, fl.float32), written, strict=True))
    with pytest.raises(TypeError, match="takes a bool, not 1"):
        winograd.set_flags(1)
    with pytest.raises(fl.ArgumentError, match="mode = 3"):
        fl._C.set_winograd(3)


@pytest.mark.slow
def test_the_environment_switches_it_off():
    program = "import flambeau as fl; print(fl._C.get_winograd(), fl.nn.functional.conv2d(fl.ones(1, 32, 32, 32), fl.ones(32, 32, 3, 3)).eq(288).all().item())"
    out = subprocess.run([sys.executable, "-c", program], env={**os.environ, "FLAMBEAU_WINOGRAD": "0"}, capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["0", "True"]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_stays_where_it_is(value):
    """Within a tile it would be everywhere."""
    x, w = fl.randn(2, 32, 24, 24), fl.randn(32, 32, 3, 3)
    x[1, 5, 9, 10] = value
    y = F.conv2d(x, w, padding=1)
    reached = fl.zeros(2, 32, 24, 24, dtype=fl.bool)
    reached[1, :, 8:11, 9:12] = True
    np.testing.assert_array_equal((~y.isfinite()).numpy(), reached.numpy())
    if value == value:
        assert not y.isnan().any()
    dx = fl.autograd.grad(F.conv2d(y := x.nan_to_num(0, 0, 0).requires_grad_(), w, padding=1), y, x)[0]
    np.testing.assert_array_equal((~dx.isfinite()).numpy(), reached.numpy())


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_not_finite_reaches_its_taps_alone(value):
    """A corner is seen by four taps of the window."""
    x, weight = fl.ones(2, 32, 24, 24), fl.randn(32, 32, 3, 3).requires_grad_()
    x[1, 5, 0, 0] = value
    dw = fl.autograd.grad(F.conv2d(x, weight, padding=1), weight, fl.ones(2, 32, 24, 24))[0]
    reached = fl.zeros(32, 32, 3, 3, dtype=fl.bool)
    reached[:, 5, :2, :2] = True
    np.testing.assert_array_equal((dw.isfinite()).numpy(), ~reached.numpy())
    assert dw.isnan().any() == (value != value)


def test_results_too_large_to_transform():
    """The transform makes values larger before it makes them smaller."""
    x = fl.randn(1, 32, 32, 32).sign() * 3.0e38
    w = fl.zeros(32, 32, 3, 3)
    w[:, :, 1, 1] = fl.eye(32)
    np.testing.assert_array_equal(F.conv2d(x, w, padding=1).numpy(), x.numpy())


@pytest.mark.parametrize("shape", SHAPES[:8:2], ids=str)
def test_threads_change_no_bit(shape):
    before, found = fl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            fl.set_num_threads(threads)
            found.append(parts(shape, fl.float32)[:3])
    finally:
        fl.set_num_threads(before)
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("given", [{"padding": 40, "dilation": 40}, {"padding": 300, "dilation": 300}], ids=str)
def test_dilations_beyond_the_input(given):
    x, w = fl.randn(1, 32, 24, 24), fl.randn(32, 32, 3, 3) / 17
    np.testing.assert_allclose(F.conv2d(x, w, **given).numpy(), F.conv2d(x.double(), w.double(), **given).numpy(), rtol=0, atol=1e-4)


@pytest.mark.slow
def test_one_weight_by_several_ways():
    """Each way keeps its own transform."""
    x, w = fl.randn(2, 32, 40, 40), fl.randn(32, 32, 4, 4) / 23
    ways = [{"stride": 2, "padding": 1}, {"padding": 2}, {"stride": 2}, {"padding": 3, "dilation": 2}]
    with fl.no_grad():
        exact = [op(x.double(), w.double(), **way) for way in ways for op in (F.conv2d, F.conv_transpose2d)]
        for _ in range(3):
            found = [op(x, w, **way) for way in ways for op in (F.conv2d, F.conv_transpose2d)]
            for y, true in zip(found, exact, strict=True):
                np.testing.assert_allclose(y.numpy(), true.numpy(), rtol=0, atol=1e-4)


def three_times(op, x: fl.Tensor, w: fl.Tensor, **given) -> None:
    """From the second time on with the transform that is kept."""
    exact = op(x.double(), w.double(), **given)
    for _ in range(3):
        np.testing.assert_allclose(op(x, w, **given).numpy(), exact.numpy(), rtol=0, atol=1e-4 * float(exact.abs().max()))


@pytest.mark.slow
def test_weights_that_begin_at_one_address():
    """A view of other sizes, and part of a weight, have transforms of their own."""
    w = fl.randn(64, 32, 3, 3)
    a, b = fl.randn(2, 32, 24, 24), fl.randn(2, 64, 24, 24)
    with fl.no_grad():
        for weights in ((w, w.view(32, 64, 3, 3), w[:32]), (w[:32], w, w.view(32, 64, 3, 3))):
            for v in weights:
                three_times(F.conv2d, a if v.shape[1] == 32 else b, v, padding=1)
        flat = fl.randn(64 * 32 * 27)
        for sizes in ((64, 32, 3, 3), (32, 32, 5, 5), (32, 32, 3, 3, 3), (32, 32, 4, 4), (64, 32, 3)):
            v = flat[: int(np.prod(sizes))].view(sizes)
            three_times(getattr(F, f"conv{len(sizes) - 2}d"), fl.randn(2, 32, 20, 20, 20)[(slice(None), slice(None)) + (0,) * (5 - len(sizes))], v)


@pytest.mark.parametrize("side", [3, 4, 5])
def test_one_weight_turned_round_by_several_strides(side):
    x, w = fl.randn(2, 32, 20, 20), fl.randn(32, 32, side, side)
    with fl.no_grad():
        for stride in (1, 2, 1, (1, 2), (2, 1)):
            three_times(F.conv_transpose2d, x, w, stride=stride, padding=side // 2)


def test_huge_dilations_are_added_up_as_written():
    """Their images would have no position; counted, they overflow."""
    x, w = fl.randn(16, 32, 9, 9), fl.randn(32, 32, 3, 3)
    y = F.conv2d(x, w, padding=1 << 30, dilation=1 << 30)
    np.testing.assert_allclose(y.numpy(), F.conv2d(x, w[:, :, 1:2, 1:2]).numpy(), rtol=0, atol=1e-3)


def test_gradients_keep_no_transform():
    if not tiles_are_used():
        pytest.skip("row-major convolutions keep what oneDNN made of the weight")
    x, w = fl.randn(2, 32, 20, 20).requires_grad_(), fl.randn(32, 32, 3, 3)
    y = F.conv2d(x, w, padding=1)
    before = fl._C.prepared_stats()["made"]
    for _ in range(3):
        y.sum().backward(retain_graph=True)
    assert fl._C.prepared_stats()["made"] == before


def test_a_weight_that_changes_between_uses():
    """Its transform is kept from the second use on, until it is written."""
    x, w = fl.randn(2, 32, 20, 20), fl.randn(32, 32, 3, 3)
    with fl.no_grad():
        first = [F.conv2d(x, w, padding=1) for _ in range(3)]
        w.mul_(2)
        second = [F.conv2d(x, w, padding=1) for _ in range(3)]
    for y, z in zip(first, second, strict=True):
        np.testing.assert_array_equal(y.numpy(), first[0].numpy())
        np.testing.assert_array_equal(z.numpy(), 2 * first[0].numpy())


def test_channels_of_a_slice():
    x = F.conv2d(fl.randn(2, 16, 24, 24), fl.randn(64, 16, 3, 3))
    w = fl.randn(32, 32, 3, 3) / 17
    part = x[:, 16:48]
    np.testing.assert_allclose(F.conv2d(part, w).numpy(), F.conv2d(part.double(), w.double()).numpy(), rtol=0, atol=1e-4)
