"""Observers tell PyTorch's scales and zero points, and modules that round by them give its values and gradients."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from beside import torch

import flambeau as fl

TENSOR, CHANNEL = ("per_tensor_affine", "per_tensor_symmetric"), ("per_channel_affine", "per_channel_symmetric")
OBSERVERS = [
    *((name, scheme) for name in ("MinMaxObserver", "MovingAverageMinMaxObserver") for scheme in TENSOR),
    *((name, scheme) for name in ("PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver") for scheme in CHANNEL),
    ("PerChannelMinMaxObserver", "per_channel_affine_float_qparams"),
]
RANGES = [("quint8", {"quant_min": 0, "quant_max": 255, "reduce_range": True}), ("quint8", {}), ("qint8", {}), ("quint8", {"quant_min": 0, "quant_max": 15}), ("qint8", {"quant_min": -8, "quant_max": 7}), ("qint32", {}), ("qint8", {"reduce_range": True})]  # fmt: skip


def seen(k):
    return np.random.default_rng(k).normal(size=(3, 4)).astype(np.float32) * (k + 1) + (3 if k == 2 else 0)


def both(name, scheme, dtype, **kwargs):
    if "Channel" in name:
        kwargs["ch_axis"] = 1
    theirs = getattr(torch.ao.quantization, name)(dtype=getattr(torch, dtype), qscheme=getattr(torch, scheme), **kwargs)
    return getattr(fl.ao.quantization, name)(dtype=dtype, qscheme=scheme, **kwargs), theirs


def same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "more"), RANGES)
@pytest.mark.parametrize(("name", "scheme"), OBSERVERS)
def test_scales(name, scheme, dtype, more):
    if more.get("reduce_range") and dtype == "quint8" and scheme.endswith("symmetric"):
        for m in (fl, torch):
            with pytest.raises(NotImplementedError, match="educe range for symmetric"):
                getattr(m.ao.quantization, name)(dtype=getattr(m, dtype, dtype), qscheme=getattr(m, scheme, scheme), **more)
        return
    if scheme.endswith("float_qparams"):
        more = {}
    ours, theirs = both(name, scheme, dtype, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(ours.calculate_qparams(), theirs.calculate_qparams())
    assert list(ours.state_dict()) == list(theirs.state_dict()) and (ours.quant_min, ours.quant_max) == (theirs.quant_min, theirs.quant_max)
    for k in range(3):
        x = seen(k)
        assert ours(fl.tensor(x)).numpy().shape == theirs(torch.tensor(x)).shape
        same(ours.calculate_qparams(), theirs.calculate_qparams())
    other = type(ours)(dtype=dtype, qscheme=scheme, **more)
    other.load_state_dict(ours.state_dict())
    same(other.calculate_qparams(), theirs.calculate_qparams())
    ours.reset_min_max_vals()
    theirs.reset_min_max_vals()
    same(list(ours.state_dict().values()), list(theirs.state_dict().values()))


@pytest.mark.parametrize(("name", "scheme"), OBSERVERS[:-1])
def test_rounding(name, scheme):
    kwargs = {"ch_axis": 1} if "Channel" in name else {}
    made = [
        m.ao.quantization.FakeQuantize(getattr(m.ao.quantization, name), -8, 7, dtype=dtype, qscheme=said, **kwargs)
        for m, dtype, said in ((fl, "qint8", scheme), (torch, torch.qint8, getattr(torch, scheme)))
    ]
    for k in range(4):
        if k == 2:
            for m in made:
                m.disable_observer()
        inputs = [fl.tensor(seen(k)).requires_grad_(), torch.tensor(seen(k)).requires_grad_()]
        outputs = [m(x) for m, x in zip(made, inputs)]
        for y in outputs:
            y.sum().backward()
        np.testing.assert_allclose(outputs[0].detach().numpy(), outputs[1].detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(inputs[0].grad.numpy(), inputs[1].grad.numpy())
    assert list(made[0].state_dict()) == list(made[1].state_dict())
    same(list(made[0].state_dict().values()), list(made[1].state_dict().values()))
    for m, x in zip(made, inputs):
        m.disable_fake_quant()
        assert m(x) is x


def test_what_is_refused():
    watch = fl.ao.quantization.MinMaxObserver
    with pytest.raises(NotImplementedError, match="qscheme = per_channel_affine; expected per_tensor_affine or per_tensor_symmetric"):
        watch(qscheme="per_channel_affine")
    with pytest.raises(ValueError, match="quant_min = 3, quant_max = None; expected both"):
        watch(quant_min=3)
    with pytest.raises(ValueError, match="quant_min = 3, quant_max = 7; expected quant_min < quant_max, with 0"):
        watch(quant_min=3, quant_max=7)
    with pytest.raises(NotImplementedError, match="is_dynamic = True"):
        fl.ao.quantization.MovingAverageMinMaxObserver(is_dynamic=True)
    with pytest.raises(NotImplementedError, match="it watches nothing"):
        fl.ao.quantization.PlaceholderObserver().calculate_qparams()
    with pytest.warns(UserWarning, match="before anything was seen"):
        watch().calculate_qparams()


@pytest.mark.parametrize("bins", [2048, 100])
@pytest.mark.parametrize("seed", range(10))
def test_histograms(seed, bins):
    more = [{}, {"reduce_range": True}, {"quant_min": 0, "quant_max": 127}][seed % 3]
    dtype, scheme = ("qint8", "per_tensor_symmetric") if seed % 4 == 1 else ("quint8", "per_tensor_affine")
    ours, theirs = both("HistogramObserver", scheme, dtype, bins=bins, **more)
    draw = np.random.default_rng(seed)
    for k in range(4):
        x = draw.standard_normal((30, 40)).astype(np.float32) * (1 + k % 3) * (0.5 + seed) + seed % 3
        x = np.abs(x) ** 1.5 if seed % 2 else x
        ours(fl.tensor(x))
        theirs(torch.tensor(x))
        same(ours.calculate_qparams(), theirs.calculate_qparams())
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):  # roundings may move a part of a value to the next bin
        np.testing.assert_allclose(a.numpy().cumsum(), b.numpy().cumsum(), rtol=1e-6, atol=0.2)
    assert list(ours.state_dict()) == list(theirs.state_dict())


FUSED = [
    ({}, {}), ({"quant_min": 0, "quant_max": 127}, {}), ({"dtype": "qint8", "qscheme": "per_tensor_symmetric", "quant_min": -128, "quant_max": 127}, {}),
    ({"qscheme": "per_tensor_symmetric"}, {}),
    ({"dtype": "qint8", "qscheme": "per_channel_symmetric", "quant_min": -128, "quant_max": 127}, {"observer": "MovingAveragePerChannelMinMaxObserver"}),
]  # fmt: skip


@pytest.mark.parametrize("sign", ["both", "above", "below", "none"])
@pytest.mark.parametrize(("options", "more"), FUSED)
def test_rounding_by_the_kernel_of_moving_averages(options, more, sign):
    made = []
    for m in (fl, torch):
        named = {k: getattr(torch, v) if m is torch and isinstance(v, str) else v for k, v in options.items()}
        observer = {k: getattr(m.ao.quantization, v) for k, v in more.items()}
        made.append(m.ao.quantization.FusedMovingAvgObsFakeQuantize(**observer, **named))
    for k in range(3):
        x = {"both": seen(k), "above": abs(seen(k)), "below": -abs(seen(k)), "none": seen(k) * 0}[sign]
        outputs = made[0](fl.tensor(x)), made[1](torch.tensor(x))
        np.testing.assert_allclose(outputs[0].numpy(), outputs[1].numpy(), rtol=1e-5, atol=1e-6)
    same(list(made[0].state_dict().values()), list(made[1].state_dict().values()))


@pytest.mark.parametrize("backend", ["x86", "fbgemm", "qnnpack", "onednn"])
@pytest.mark.parametrize("name", ["get_default_qconfig", "get_default_qat_qconfig"])
def test_what_backends_would_have(name, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (getattr(m.ao.quantization, name)(backend) for m in (fl, torch))
        for part in ("activation", "weight"):
            a, b = getattr(ours, part)(), getattr(theirs, part)()
            assert type(a).__name__ == type(b).__name__ and (a.quant_min, a.quant_max) == (b.quant_min, b.quant_max)
            assert str(a.qscheme) == str(b.qscheme).split(".")[1]
