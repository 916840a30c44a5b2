"""Modules whose attributes a program changes after they were made (dilated backbones, other strides, dropout that is switched on), beside PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from beside import randn, torch

import flambeau as fl

# How it is made, the input's shape, what is changed.
CASES = {
    "conv1d": (lambda nn: nn.Conv1d(2, 4, 3), (2, 2, 9), {"padding": (2,), "stride": (2,), "dilation": (2,)}),
    "conv2d": (lambda nn: nn.Conv2d(2, 4, 3, stride=2, padding=1), (2, 2, 8, 8), {"stride": (1, 1), "padding": (2, 2), "dilation": (2, 2)}),
    "conv2d same": (lambda nn: nn.Conv2d(2, 4, 3, padding="same"), (2, 2, 8, 8), {"dilation": (2, 2)}),
    "conv2d to same": (lambda nn: nn.Conv2d(2, 4, 4), (2, 2, 8, 8), {"padding": "same"}),
    "conv2d to valid": (lambda nn: nn.Conv2d(2, 4, 3, padding=1), (2, 2, 8, 8), {"padding": "valid"}),
    "conv2d lists": (lambda nn: nn.Conv2d(2, 4, 3), (2, 2, 8, 8), {"padding": [1, 2], "stride": [2, 1]}),
    "conv2d groups": (lambda nn: nn.Conv2d(2, 4, 3), (2, 4, 8, 8), {"groups": 2}),
    "conv2d mode": (lambda nn: nn.Conv2d(2, 4, 3, padding=1), (2, 2, 8, 8), {"padding_mode": "reflect"}),
    "conv2d mode back": (lambda nn: nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), (2, 2, 8, 8), {"padding_mode": "zeros"}),
    "conv2d without batch": (lambda nn: nn.Conv2d(2, 4, 3), (2, 8, 8), {"padding": (1, 1)}),
    "conv2d another weight": (lambda nn: nn.Conv2d(2, 4, 3), (2, 3, 8, 8), {"weight": (5, 3, 1, 1), "bias": (5,)}),
    "conv3d": (lambda nn: nn.Conv3d(1, 2, 2), (1, 1, 5, 5, 5), {"padding": (1, 0, 1), "stride": (2, 1, 1)}),
    "conv_transpose2d": (lambda nn: nn.ConvTranspose2d(2, 3, 3), (1, 2, 5, 5), {"stride": (2, 2), "padding": (1, 1), "output_padding": (1, 1)}),
    "max_pool2d": (lambda nn: nn.MaxPool2d(2), (1, 2, 9, 9), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    "avg_pool2d": (lambda nn: nn.AvgPool2d(2), (1, 2, 9, 9), {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    "adaptive_avg_pool2d": (lambda nn: nn.AdaptiveAvgPool2d(1), (1, 2, 9, 9), {"output_size": (3, 2)}),
    "batch_norm eps": (lambda nn: nn.BatchNorm2d(3), (4, 3, 5, 5), {"eps": 0.1, "momentum": 0.5}),
    "batch_norm statistics": (lambda nn: nn.BatchNorm2d(3), (4, 3, 5, 5), {"track_running_stats": False}),
    "layer_norm": (lambda nn: nn.LayerNorm(4), (3, 4), {"eps": 0.5}),
    "group_norm": (lambda nn: nn.GroupNorm(2, 4), (2, 4, 3), {"num_groups": 4, "eps": 0.1}),
    "linear": (lambda nn: nn.Linear(3, 4), (2, 5), {"weight": (2, 5), "bias": (2,)}),
    "linear with a bias": (lambda nn: nn.Linear(3, 4, bias=False), (2, 3), {"bias": (4,)}),
    "leaky_relu": (lambda nn: nn.LeakyReLU(), (3, 4), {"negative_slope": 0.7}),
    "elu": (lambda nn: nn.ELU(), (3, 4), {"alpha": 0.3}),
    "gelu": (lambda nn: nn.GELU(), (3, 4), {"approximate": "tanh"}),
    "softmax": (lambda nn: nn.Softmax(0), (3, 4), {"dim": 1}),
    "softplus": (lambda nn: nn.Softplus(), (3, 4), {"beta": 3, "threshold": 1}),
    "hardtanh": (lambda nn: nn.Hardtanh(), (3, 4), {"min_val": -0.2, "max_val": 0.1}),
    "upsample": (lambda nn: nn.Upsample(scale_factor=2), (1, 2, 4, 4), {"scale_factor": 3.0, "mode": "bilinear", "align_corners": True}),
    "flatten": (lambda nn: nn.Flatten(), (2, 3, 4), {"start_dim": 0}),
    "pixel_shuffle": (lambda nn: nn.PixelShuffle(2), (1, 9, 2, 2), {"upscale_factor": 3}),
    "pad": (lambda nn: nn.ZeroPad2d(1), (1, 1, 3, 3), {"padding": (0, 2, 1, 0)}),
    "unfold": (lambda nn: nn.Unfold(2), (1, 2, 5, 5), {"kernel_size": 3, "stride": 2}),
    "lstm": (lambda nn: nn.LSTM(3, 4), (5, 2, 3), {"batch_first": True}),
    "gru": (lambda nn: nn.GRU(3, 4, 2), (5, 2, 3), {"batch_first": True, "dropout": 0.0}),
    "attention": (lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (5, 2, 4), {"norm_first": True}),
    "local_response_norm": (lambda nn: nn.LocalResponseNorm(2), (1, 4, 3, 3), {"size": 3, "alpha": 0.5, "k": 2.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_changed_attributes(name):
    make, shape, changes = CASES[name]
    ours, theirs = make(fl.nn), make(torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    for attribute, value in changes.items():
        for lib, module in ((fl, ours), (torch, theirs)):
            if attribute in ("weight", "bias"):
                made = lib.nn.Parameter(lib.tensor(randn(*value, seed=len(attribute), dtype=np.float32)))
                setattr(module, attribute, made)
            else:
                setattr(module, attribute, value)
    x = randn(*shape, seed=3, dtype=np.float32)
    inputs = fl.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    results = [m(i) for m, i in zip((ours, theirs), inputs, strict=True)]
    results = [r[0] if isinstance(r, tuple) else r for r in results]
    np.testing.assert_allclose(results[0].detach().numpy(), results[1].detach().numpy(), rtol=1e-4, atol=1e-5)
    for r in results:
        (r * r).sum().backward()
    np.testing.assert_allclose(inputs[0].grad.numpy(), inputs[1].grad.numpy(), rtol=1e-3, atol=1e-4)
