"""What slides a window: convolutions, pools, unfold and fold."""

import numpy as np
import pytest
from support.compare import assert_near
from support.tensors import doubles

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize("kernel, dilation", [(3, 1), (4, 1), (3, 2), (2, 3)])
def test_conv_padding_by_name(kernel, dilation):
    x, w = fl.randn(2, 3, 9), fl.randn(4, 3, kernel)
    same = F.conv1d(x, w, padding="same", dilation=dilation)
    assert same.shape == (2, 4, 9)
    total = dilation * (kernel - 1)
    padded = F.pad(x, (total // 2, total - total // 2))
    fl.testing.assert_close(same, F.conv1d(padded, w, dilation=dilation))
    fl.testing.assert_close(F.conv1d(x, w, padding="valid"), F.conv1d(x, w))


def test_conv_without_a_batch_axis():
    x, w = fl.randn(3, 6, 6), fl.randn(2, 3, 3, 3)
    fl.testing.assert_close(F.conv2d(x, w, padding=1), F.conv2d(x.unsqueeze(0), w, padding=1).squeeze(0))


def test_conv_refuses_same_with_a_stride():
    with pytest.raises(ValueError, match=r"conv1d: padding = 'same' with stride = 2; expected stride 1"):
        F.conv1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), stride=2, padding="same")


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.float16], ids=str)
@pytest.mark.parametrize(("size", "stride"), [((3, 3), (3, 3)), ((2, 5), (2, 1)), ((5, 2), (1, 2)), ((4, 4), (2, 4))])
def test_convolution_of_one_element_that_leaves_positions_out(size, stride, dtype):
    x = fl.arange(2 * 3 * size[0] * size[1], dtype=dtype).reshape(2, 3, *size).remainder(7).requires_grad_()
    w = fl.arange(6, dtype=dtype).reshape(2, 3, 1, 1).requires_grad_()
    y = F.conv2d(x, w, stride=stride)
    seen, taps = x.detach().numpy()[:, :, :: stride[0], :: stride[1]], w.detach().numpy()[:, :, 0, 0]
    np.testing.assert_allclose(y.detach().numpy(), np.einsum("oc,nchw->nohw", taps, seen))
    y.sum().backward()
    dx = np.zeros(x.shape)
    dx[:, :, :: stride[0], :: stride[1]] = taps.sum(0)[:, None, None]
    np.testing.assert_array_equal(x.grad.numpy(), dx)
    np.testing.assert_array_equal(w.grad.numpy()[:, :, 0, 0], np.tile(seen.sum((0, 2, 3)), (2, 1)))


@pytest.mark.parametrize("name", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("given", [(), []], ids=str)
def test_an_empty_list_is_no_extent(name, given):
    """It was taken as "as the kernel", which only pooling has; a convolution divided by what lay behind the list."""
    with pytest.raises(ValueError, match=rf"conv2d: {name} = \[\]; expected one int or 2 ints"):
        F.conv2d(fl.ones(1, 2, 5, 5), fl.ones(3, 2, 3, 3), **{name: given})
    with pytest.raises((ValueError, TypeError), match="stride"):
        F.conv2d(fl.ones(1, 2, 5, 5), fl.ones(3, 2, 3, 3), stride=None)


@pytest.mark.slow
@pytest.mark.parametrize("dilation, extra", [(2, 1), (3, 2), ((4, 2), (3, 1))])
def test_output_padding_below_dilation(dilation, extra):
    """It reveals more of the full transposed convolution, and zeros behind its end."""
    x = fl.tensor(np.random.default_rng(0).normal(size=(2, 3, 4, 4)), requires_grad=True)
    w = fl.tensor(np.random.default_rng(1).normal(size=(3, 2, 3, 3)), requires_grad=True)
    got = F.conv_transpose2d(x, w, padding=1, dilation=dilation, output_padding=extra)
    full = F.pad(F.conv_transpose2d(x, w, dilation=dilation), (0, 9, 0, 9))
    assert_near(got, full[:, :, 1 : 1 + got.shape[2], 1 : 1 + got.shape[3]].detach().numpy())
    call = lambda a, b: F.conv_transpose2d(a, b, padding=1, dilation=dilation, output_padding=extra)  # noqa: E731
    assert fl.autograd.gradcheck(call, (x, w))
    assert fl.autograd.gradgradcheck(call, (x[:1, :, :2, :2].detach().requires_grad_(), w))


# --------------------------------------------------------------------- input without a batch

CHANNELS = 4
UNBATCHED = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), 1),
    "max_pool1d indices": (lambda x: F.max_pool1d(x, 2, return_indices=True), 1),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), 2),
    "max_pool2d indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), 2),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), 1),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), 2),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), 2),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), 1),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, None)), 2),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), 1),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, None), return_indices=True), 2),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2.0, 2), 2),
    "MaxPool1d": (nn.MaxPool1d(2), 1),
    "MaxPool2d": (nn.MaxPool2d(2, return_indices=True), 2),
    "AvgPool1d": (nn.AvgPool1d(2), 1),
    "AvgPool2d": (nn.AvgPool2d(2), 2),
    "AdaptiveAvgPool1d": (nn.AdaptiveAvgPool1d(2), 1),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d((2, 3)), 2),
    "AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(2), 1),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d((2, 3), return_indices=True), 2),
    "Conv1d": (nn.Conv1d(CHANNELS, 2, 3), 1),
    "Conv2d": (nn.Conv2d(CHANNELS, 2, 3, padding=1, padding_mode="reflect"), 2),
    "ConvTranspose1d": (nn.ConvTranspose1d(CHANNELS, 2, 3), 1),
    "ConvTranspose2d": (nn.ConvTranspose2d(CHANNELS, 2, 3, stride=2), 2),
}


@pytest.mark.parametrize("name", list(UNBATCHED))
def test_input_without_a_batch_axis(name):
    f, axes = UNBATCHED[name]
    x = fl.randn(CHANNELS, *(7, 6)[:axes])
    one, batch = f(x), f(x.unsqueeze(0))
    pairs = zip(one, batch) if isinstance(one, tuple) else [(one, batch)]
    for a, b in pairs:
        np.testing.assert_array_equal(a.detach().numpy(), b[0].detach().numpy())


# ------------------------------------------------------------------------------------- pools


@pytest.mark.parametrize(
    "name, axes",
    [(f"{kind}{n}d", n) for n in (1, 2) for kind in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")],
)
def test_pool_errors_name_the_function(name, axes):
    with pytest.raises(ValueError, match=rf"^{name}: .*{axes + 1}D or {axes + 2}D .*but got \[3\]; expected \[N, C"):
        getattr(F, name)(fl.zeros(3), 2)
    if name.startswith("max"):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            getattr(F, name)(fl.zeros(1, 1, *(3, 3)[:axes]), 9)


def test_adaptive_max_pool_takes_the_largest_of_each_window():
    y, i = F.adaptive_max_pool1d(fl.tensor([[[1.0, 5.0, 2.0, 4.0]]]), 2, return_indices=True)
    assert y.tolist() == [[[5, 4]]] and i.tolist() == [[[1, 3]]]


@pytest.mark.parametrize("given", [(), [], None], ids=str)
def test_pooling_without_a_stride_steps_by_its_kernel(given):
    x = fl.arange(16.0).reshape(1, 1, 4, 4)
    assert F.max_pool2d(x, 2, stride=given).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]


def windows(x, kernel, stride, padding, fill):
    """[N, C, D', H', W', elements of a window] of [N, C, D, H, W]."""
    p = np.pad(x, [(0, 0), (0, 0), *[(k, k) for k in padding]], constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(p, kernel, axis=(2, 3, 4))
    view = view[:, :, :: stride[0], :: stride[1], :: stride[2]]
    return view.reshape(*view.shape[:5], -1)


@pytest.mark.parametrize("kernel, stride, padding", [((2, 2, 2), (2, 2, 2), (0, 0, 0)), ((3, 2, 1), (1, 2, 3), (1, 1, 0)), ((3, 3, 3), (2, 1, 2), (1, 0, 1))])
def test_pools_over_three_axes(kernel, stride, padding):
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 6, 7))
    assert_near(F.max_pool3d(doubles(x), kernel, stride, padding), windows(x, kernel, stride, padding, -np.inf).max(-1))
    assert_near(F.avg_pool3d(doubles(x), kernel, stride, padding), windows(x, kernel, stride, padding, 0).mean(-1))
    assert_near(F.avg_pool3d(doubles(x), kernel, stride, padding, count_include_pad=False), np.nanmean(windows(x, kernel, stride, padding, np.nan), -1))
    values, at = F.max_pool3d(doubles(x), kernel, stride, padding, return_indices=True)
    flat = x.reshape(2, 3, -1)
    assert_near(values, np.take_along_axis(flat, at.numpy().reshape(2, 3, -1), 2).reshape(values.shape))


@pytest.mark.parametrize("function", [lambda x: F.max_pool3d(x, 2, 1), lambda x: F.avg_pool3d(x, 2, 1, 1), lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)),
                                      lambda x: F.adaptive_max_pool3d(x, 2), lambda x: F.interpolate(x, scale_factor=1.5, mode="trilinear")])
def test_gradients_over_three_axes(function):
    x = fl.tensor(np.random.default_rng(0).normal(size=(1, 2, 3, 4, 3)), requires_grad=True)
    assert fl.autograd.gradcheck(function, (x,))


def test_lp_pool_of_zeros_has_no_gradient_and_odd_powers_keep_signs():
    x = fl.tensor([[[0.0, 0.0], [0.0, 0.0]]], requires_grad=True)
    F.lp_pool2d(x, 2, 2).sum().backward()
    assert x.grad.tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
    y = F.lp_pool2d(fl.tensor([[[2.0, -1.0], [0.0, 0.0]]]), 3, 2)
    assert y.item() == pytest.approx(7 ** (1 / 3))


# ------------------------------------------------------------------------ windows as columns

WINDOWS = [
    dict(kernel_size=2), dict(kernel_size=(3, 2), padding=1), dict(kernel_size=2, stride=(2, 3)),
    dict(kernel_size=(2, 3), dilation=2, padding=(1, 2), stride=2),
]  # fmt: skip


@pytest.mark.parametrize("how", WINDOWS, ids=str)
def test_unfold_makes_a_convolution_a_product(how):
    x, kernel = fl.randn(2, 3, 7, 8, dtype=fl.float64), how["kernel_size"]
    kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
    w = fl.randn(4, 3, *kernel, dtype=fl.float64)
    want = F.conv2d(x, w, None, **{k: v for k, v in how.items() if k != "kernel_size"})
    columns = nn.Unfold(**how)(x)
    assert_near((w.reshape(4, -1) @ columns).reshape(want.shape), want.numpy())
    assert_near(F.unfold(x[0], **how), columns[0].numpy())


@pytest.mark.parametrize("how", WINDOWS, ids=str)
def test_fold_is_the_adjoint_of_unfold(how):
    x = fl.randn(2, 3, 7, 8, dtype=fl.float64, requires_grad=True)
    columns = F.unfold(x, **how)
    dy = fl.randn(*columns.shape, dtype=fl.float64)
    (columns * dy).sum().backward()
    folded = nn.Fold((7, 8), **how)(dy)
    assert_near(folded, x.grad.numpy())
    assert_near(F.fold(dy[0], (7, 8), **how), folded[0].numpy())


def test_window_errors():
    with pytest.raises(ValueError, match=r"unfold: kernel_size = 9.* do not fit 4 x 5 positions"):
        F.unfold(fl.ones(1, 1, 4, 5), 9)
    with pytest.raises(ValueError, match="expected size of input's dimension 2 to match the calculated number of sliding blocks"):
        F.fold(fl.ones(1, 4, 3), (4, 4), 2)


@pytest.mark.parametrize("f", [F.conv1d, F.conv_transpose1d])
def test_more_groups_than_numbers(f):
    with pytest.raises(ValueError, match="groups = 9223372036854775807"):
        f(fl.zeros(2, 4, 9), fl.zeros(4, 2, 3), groups=2**63 - 1)


@pytest.mark.parametrize("f", [
    lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), lambda x: F.adaptive_avg_pool2d(x, (2**30, 4)), lambda x: F.adaptive_max_pool2d(x, (2**30, 4)),
], ids=["avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d"])  # fmt: skip
def test_no_planes_of_any_size(f):
    """Nothing is laid out for planes that are not there: it would be 24 bytes a row of theirs."""
    x = fl.zeros(2, 0, 2**31 - 1, 8, requires_grad=True)
    y = f(x)
    assert y.numel() == 0
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_a_norm_over_windows_of_a_number():
    with pytest.raises(TypeError):
        F.lp_pool2d(-2, 2**62, 3)


def test_means_of_no_windows():
    x = fl.ones(1, 2, 4, 4, requires_grad=True)
    y = F.adaptive_avg_pool2d(x, 0)
    assert y.shape == (1, 2, 0, 0) and F.adaptive_max_pool2d(x, (0, 2)).shape == (1, 2, 0, 2)
    y.sum().backward()
    assert x.grad.sum().item() == 0
    with pytest.raises(ValueError, match="elements of output_size must be greater than or equal to 0"):
        F.adaptive_avg_pool2d(x, -1)
