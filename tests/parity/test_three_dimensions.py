"""Pools, convolutions and norms over three dimensions, and other sizes of pictures, beside PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from beside import as_ours, as_theirs, assert_same, beside, both_raise, randn, torch

import flambeau as fl

POOLS = [
    dict(kernel_size=k, stride=s, padding=p, ceil_mode=c)
    for k, s, p, c in itertools.product([2, 3, (3, 2, 1), (1, 2, 3)], [None, 1, 2, (2, 1, 3)], [0, (0, 1, 0)], [False, True])
]


@pytest.mark.parametrize("how", POOLS, ids=str)
def test_pools(how):
    x = randn(2, 3, 5, 6, 7)
    beside(lambda lib, x: lib.nn.functional.avg_pool3d(x, **how), x)
    beside(lambda lib, x: lib.nn.functional.avg_pool3d(x, count_include_pad=False, **how), x)
    beside(lambda lib, x: lib.nn.functional.avg_pool3d(x, divisor_override=5, **how), x)
    beside(lambda lib, x: tuple(lib.nn.functional.max_pool3d(x, return_indices=True, **how)), x)
    beside(lambda lib, x: lib.nn.functional.max_pool3d(x, **how), x[0])


@pytest.mark.parametrize("dilation", [2, (1, 2, 1), (2, 1, 3)], ids=str)
def test_dilated_max_pool(dilation):
    beside(lambda lib, x: tuple(lib.nn.functional.max_pool3d(x, 2, dilation=dilation, return_indices=True)), randn(2, 2, 7, 6, 8))


def test_ties_and_nan_of_max_pool():
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 6, 6, 6)).astype(np.float64)
    beside(lambda lib, x: tuple(lib.nn.functional.max_pool3d(x, 3, 2, return_indices=True)), x)
    x[0, 0, 2, 3, 1] = x[1, 1, 1, 1, 1] = x[1, 1, 2, 1, 1] = np.nan
    beside(lambda lib, x: tuple(lib.nn.functional.max_pool3d(x, 3, 2, return_indices=True)), x, grad=False)


@pytest.mark.parametrize("size", [1, 2, 3, (4, 5, 2), (None, 2, None), 9], ids=str)
def test_adaptive_pools(size):
    x = randn(2, 3, 5, 6, 7)
    beside(lambda lib, x: lib.nn.functional.adaptive_avg_pool3d(x, size), x)
    beside(lambda lib, x: tuple(lib.nn.functional.adaptive_max_pool3d(x, size, return_indices=True)), x)


MODULES = {
    "Conv3d": (lambda nn: nn.Conv3d(4, 6, (3, 2, 1), stride=(1, 2, 1), padding=1, groups=2), (2, 4, 5, 6, 7)),
    "Conv3d same, circular": (lambda nn: nn.Conv3d(4, 6, 3, padding="same", padding_mode="circular"), (2, 4, 5, 6, 7)),
    "Conv3d without batch": (lambda nn: nn.Conv3d(4, 6, 3, bias=False), (4, 5, 6, 7)),
    "ConvTranspose3d": (lambda nn: nn.ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 3, 4, 5)),
    "ConvTranspose3d without batch": (lambda nn: nn.ConvTranspose3d(4, 6, 2), (4, 3, 4, 5)),
    "MaxPool3d": (lambda nn: nn.MaxPool3d(3, 2, 1), (2, 4, 5, 6, 7)),
    "AvgPool3d": (lambda nn: nn.AvgPool3d(2, 1, (1, 0, 1), count_include_pad=False), (2, 4, 5, 6, 7)),
    "AdaptiveAvgPool3d": (lambda nn: nn.AdaptiveAvgPool3d((2, None, 3)), (2, 4, 5, 6, 7)),
    "AdaptiveMaxPool3d": (lambda nn: nn.AdaptiveMaxPool3d(2), (2, 4, 5, 6, 7)),
    "BatchNorm3d": (lambda nn: nn.BatchNorm3d(4), (2, 4, 5, 6, 7)),
    "BatchNorm3d in eval": (lambda nn: nn.BatchNorm3d(4).eval(), (2, 4, 5, 6, 7)),
    "InstanceNorm3d": (lambda nn: nn.InstanceNorm3d(4, affine=True, track_running_stats=True), (2, 4, 5, 6, 7)),
    "ZeroPad3d": (lambda nn: nn.ZeroPad3d((1, 0, 2, 1, 0, 3)), (2, 4, 3, 4, 5)),
    "ConstantPad3d": (lambda nn: nn.ConstantPad3d(1, 2.5), (2, 4, 3, 4, 5)),
    "ReflectionPad3d": (lambda nn: nn.ReflectionPad3d((1, 2, 0, 1, 2, 1)), (2, 4, 3, 4, 5)),
    "ReplicationPad3d": (lambda nn: nn.ReplicationPad3d(2), (2, 4, 3, 4, 5)),
    "CircularPad3d": (lambda nn: nn.CircularPad3d((1, 2, 0, 1, 2, 1)), (2, 4, 3, 4, 5)),
    "RReLU in eval": (lambda nn: nn.RReLU(0.1, 0.5).eval(), (2, 3)),
    "Dropout3d in eval": (lambda nn: nn.Dropout3d(0.5).eval(), (2, 4, 5, 6, 7)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    make, shape = MODULES[name]
    ours, theirs = make(fl.nn).double(), make(torch.nn).double()
    assert repr(ours).replace("bias=True, ", "") == repr(theirs).replace("bias=True, ", "")
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x, y = as_ours(randn(*shape), True), as_theirs(randn(*shape), True)
    a, b = ours(x), theirs(y)
    assert_same(a, b, scale=5)
    (a * a).sum().backward()
    (b * b).sum().backward()
    assert_same(x.grad, y.grad, scale=50)
    assert_same([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()], scale=200)
    assert_same(list(ours.buffers()), list(theirs.buffers()), scale=5)


def test_dropped_channels():
    x = fl.nn.Dropout3d(0.5)(fl.ones(8, 16, 2, 3, 4))
    means = x.mean([2, 3, 4])
    assert ((means == 0) | (means == 2)).all()
    assert 20 < int((means == 0).sum()) < 108


@pytest.mark.parametrize(
    "wrong",
    [
        lambda F, x: F.max_pool3d(x, 9),
        lambda F, x: F.max_pool3d(x, 2, padding=2),
        lambda F, x: F.max_pool3d(x, (2, 2)),
        lambda F, x: F.avg_pool3d(x[0, 0], 2),
        lambda F, x: F.avg_pool3d(x, 2, divisor_override=0),
        lambda F, x: F.adaptive_avg_pool3d(x, (2, 2)),
    ],
)
def test_refusals_of_pools(wrong):
    both_raise(lambda lib: wrong(lib.nn.functional, lib.ones(1, 2, 4, 4, 4)))


TRANSPOSED = [
    dict(stride=s, dilation=d, output_padding=o, padding=p, groups=g)
    for s, d, o, p, g in itertools.product([1, 2, 3], [1, 2, 3, 4], [1, 2, 3], [0, 1], [1, 2])
    if o < max(s, d)
]


@pytest.mark.parametrize("how", TRANSPOSED, ids=str)
def test_output_padding_below_stride_or_dilation(how):
    x, w, b = randn(2, 4, 5, 6), randn(4, 6 // how["groups"], 3, 2), randn(6)
    beside(lambda lib, x, w, b: lib.nn.functional.conv_transpose2d(x, w, b, **how), x, w, b, scale=5)
    beside(lambda lib, x, w, b: lib.nn.functional.conv_transpose1d(x, w, b, **how), x[..., 0], w[..., 0], b, scale=5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_output_padding_of_many_channels(dtype):
    x, w = randn(2, 32, 6, 6, dtype=dtype), randn(32, 16, 3, 3, dtype=dtype)
    beside(lambda lib, x, w: lib.nn.functional.conv_transpose2d(x, w, None, dilation=3, output_padding=2), x, w, scale=40)
    beside(lambda lib, x, w: lib.nn.functional.conv_transpose3d(x, w, None, dilation=2, output_padding=1), x[..., None], w[..., None], scale=40)


@pytest.mark.parametrize("how", [dict(output_padding=2, stride=2), dict(output_padding=2, dilation=2), dict(output_padding=-1)], ids=str)
def test_refused_output_padding(how):
    both_raise(lambda lib: lib.nn.functional.conv_transpose2d(lib.ones(1, 2, 4, 4), lib.ones(2, 2, 3, 3), **how))


SIZES = [dict(size=s) for s in (1, 3, 9, 14)] + [dict(scale_factor=f) for f in (0.5, 1.0, 1.7, 2.0, 2.6)]


@pytest.mark.parametrize("recompute", [None, True])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("to", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
def test_smooth_interpolation(mode, to, corners, recompute):
    if recompute and "size" in to:
        to = dict(scale_factor=(1.3,) * {"linear": 1, "trilinear": 3}.get(mode, 2))
    x = randn(2, 3, *((7,) if mode == "linear" else (4, 5, 6) if mode == "trilinear" else (7, 5)))
    beside(lambda lib, x: lib.nn.functional.interpolate(x, mode=mode, align_corners=corners, recompute_scale_factor=recompute, **to), x, scale=10)


@pytest.mark.parametrize("to", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
def test_other_interpolation_in_three_dimensions(mode, to):
    beside(lambda lib, x: lib.nn.functional.interpolate(x, mode=mode, **to), randn(2, 3, 4, 5, 6))


@pytest.mark.parametrize("make", [lambda nn: nn.Upsample(scale_factor=2, mode="bicubic"), lambda nn: nn.Upsample(size=(3, 4, 5), mode="trilinear")])
def test_upsample(make):
    shape = (1, 2, 4, 5) if "bicubic" in repr(make(fl.nn)) else (1, 2, 4, 5, 6)
    assert_same(make(fl.nn)(as_ours(randn(*shape))), make(torch.nn)(as_theirs(randn(*shape))), scale=10)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("how", [dict(), dict(num_layers=2), dict(bidirectional=True), dict(num_layers=2, bidirectional=True, batch_first=True)], ids=str)
def test_lstm_with_projections(how, bias):
    ours, theirs = (lib.nn.LSTM(4, 6, proj_size=3, bias=bias, **how).double() for lib in (fl, torch))
    assert repr(ours) == repr(theirs)
    assert [(n, tuple(p.shape)) for n, p in ours.named_parameters()] == [(n, tuple(p.shape)) for n, p in theirs.named_parameters()]
    assert [len(w) for w in ours.all_weights] == [len(w) for w in theirs.all_weights]
    ours.load_state_dict({k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    layers = how.get("num_layers", 1) * (2 if how.get("bidirectional") else 1)
    data = [randn(5, 2, 4), randn(layers, 5 if how.get("batch_first") else 2, 3), randn(layers, 5 if how.get("batch_first") else 2, 6)]
    grads = []
    for net, make in ((ours, as_ours), (theirs, as_theirs)):
        x, h, c = (make(d, True) for d in data)
        y, (hn, cn) = net(x, (h, c))
        (y.sum() + (hn * hn).sum() + cn.sum()).backward()
        grads.append([y, hn, cn, x.grad, h.grad, c.grad, *(p.grad for p in net.parameters()), *net(x)[1]])
    assert_same(*grads, scale=10)


def test_lstm_with_projections_of_packed_sequences():
    ours, theirs = (lib.nn.LSTM(4, 6, proj_size=3, bidirectional=True).double() for lib in (fl, torch))
    ours.load_state_dict({k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    results = []
    for lib, net, make in ((fl, ours, as_ours), (torch, theirs, as_theirs)):
        packed = lib.nn.utils.rnn.pack_padded_sequence(make(randn(5, 3, 4)), [5, 2, 3], enforce_sorted=False)
        y, (h, c) = net(packed)
        results.append([y.data, h, c])
    assert_same(*results, scale=10)


@pytest.mark.parametrize("wrong", [lambda nn: nn.GRU(4, 6, proj_size=3), lambda nn: nn.LSTM(4, 6, proj_size=6), lambda nn: nn.LSTM(4, 6, proj_size=-1)])
def test_refused_projections(wrong):
    both_raise(lambda lib: wrong(lib.nn))
