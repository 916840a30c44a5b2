"""Functions that a program puts in the place of those in `nn.functional` are what layers call: Note [Functions that programs replace]."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

x, rows, signal, picture, volume = fl.ones(2, 4), fl.ones(1, 4), fl.ones(1, 4, 8), fl.ones(1, 4, 8, 8), fl.ones(1, 4, 4, 4, 4)
CASES = [
    ("linear", nn.Linear(4, 2), x), ("bilinear", nn.Bilinear(4, 4, 2), (x, x)), ("conv1d", nn.Conv1d(4, 2, 3), signal),
    ("conv2d", nn.Conv2d(4, 2, 3), picture), ("conv3d", nn.Conv3d(4, 2, 3), volume), ("conv2d", nn.Conv2d(4, 2, 3), picture[0]),
    ("conv_transpose1d", nn.ConvTranspose1d(4, 2, 3), signal), ("conv_transpose2d", nn.ConvTranspose2d(4, 2, 3), picture),
    ("conv_transpose3d", nn.ConvTranspose3d(4, 2, 3), volume), ("relu", nn.ReLU(), x), ("relu", nn.ReLU(inplace=True), x.clone()),
    ("relu6", nn.ReLU6(), x), ("silu", nn.SiLU(), x), ("mish", nn.Mish(), x), ("selu", nn.SELU(), x), ("celu", nn.CELU(), x), ("elu", nn.ELU(), x),
    ("hardswish", nn.Hardswish(), x), ("hardsigmoid", nn.Hardsigmoid(), x), ("hardtanh", nn.Hardtanh(), x), ("gelu", nn.GELU(), x), ("logsigmoid", nn.LogSigmoid(), x),
    ("softsign", nn.Softsign(), x), ("tanhshrink", nn.Tanhshrink(), x), ("softshrink", nn.Softshrink(), x), ("hardshrink", nn.Hardshrink(), x),
    ("leaky_relu", nn.LeakyReLU(), x), ("rrelu", nn.RReLU(), x), ("softplus", nn.Softplus(), x), ("threshold", nn.Threshold(0.0, 1.0), x), ("prelu", nn.PReLU(), x), ("glu", nn.GLU(), x),
    ("softmax", nn.Softmax(1), x), ("softmax", nn.Softmax2d(), picture), ("log_softmax", nn.LogSoftmax(1), x), ("softmin", nn.Softmin(1), x),
    ("dropout", nn.Dropout(), x), ("dropout", nn.Dropout().eval(), x), ("dropout2d", nn.Dropout2d(), picture), ("alpha_dropout", nn.AlphaDropout(), x),
    ("batch_norm", nn.BatchNorm1d(4), x), ("batch_norm", nn.BatchNorm2d(4).eval(), picture), ("instance_norm", nn.InstanceNorm1d(4), signal), ("layer_norm", nn.LayerNorm(4), x),
    ("group_norm", nn.GroupNorm(2, 4), picture), ("rms_norm", nn.RMSNorm(4), x), ("local_response_norm", nn.LocalResponseNorm(2), picture),
    ("max_pool1d", nn.MaxPool1d(2), signal), ("max_pool2d", nn.MaxPool2d(2), picture), ("max_pool3d", nn.MaxPool3d(2), volume), ("avg_pool1d", nn.AvgPool1d(2), signal),
    ("avg_pool2d", nn.AvgPool2d(2), picture), ("avg_pool3d", nn.AvgPool3d(2), volume), ("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(2), picture), ("adaptive_max_pool2d", nn.AdaptiveMaxPool2d(2), picture),
    ("lp_pool2d", nn.LPPool2d(2, 2), picture), ("embedding", nn.Embedding(4, 2), fl.tensor([1, 2])), ("embedding_bag", nn.EmbeddingBag(4, 2), fl.tensor([[1, 2]])),
    ("interpolate", nn.Upsample(scale_factor=2), picture), ("pad", nn.ZeroPad2d(1), picture), ("pixel_shuffle", nn.PixelShuffle(2), picture), ("unfold", nn.Unfold(2), picture),
    ("scaled_dot_product_attention", nn.MultiheadAttention(4, 2), (x, x, x, None, False)), ("linear", nn.MultiheadAttention(4, 2), (x, x, x)), ("softmax", nn.MultiheadAttention(4, 2), (x, x, x)),
    ("mse_loss", nn.MSELoss(), (x, x)), ("cross_entropy", nn.CrossEntropyLoss(), (x, fl.tensor([1, 2]))), ("log_softmax", nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2]), (x, fl.tensor([1, 2]))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "layer", "inputs"), CASES, ids=[f"{name}-{type(layer).__name__}" for name, layer, _ in CASES])
def test_layers_call_what_is_there(monkeypatch, name, layer, inputs):
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    fl.manual_seed(0)
    expected, own, calls = layer(*inputs), getattr(F, name), []

    def counted(*args, **kwargs):
        calls.append(args)
        return own(*args, **kwargs)

    monkeypatch.setattr(F, name, counted)
    fl.manual_seed(0)
    found = layer(*inputs)
    assert calls
    monkeypatch.undo()
    first, second = (value if isinstance(value, tuple) else (value,) for value in (expected, found))
    assert all(a is b is None or fl.equal(a, b) for a, b in zip(first, second))
