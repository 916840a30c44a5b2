"""No module leaves memory behind: made, run forwards and backwards, saved, loaded, copied; without the collector."""

from __future__ import annotations

import copy
import inspect

import pytest
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import nn


def x(*shape):
    return lambda: fl.randn(*shape, requires_grad=True)


def labels(*shape):
    return lambda: fl.ones(*shape)


def classes(*shape):
    return lambda: fl.zeros(*shape, dtype=fl.int64)


line, plane, rows, seq = x(2, 4, 8), x(2, 4, 8, 8), x(4, 6), x(5, 2, 8)
prob = lambda: fl.full((4, 6), 0.5, requires_grad=True)  # noqa: E731

# class -> (arguments of its constructor, makers of forward's arguments). What is missing here and is called with (4, 6)
# and no arguments needs no entry.
CASES = {
    "AdaptiveAvgPool1d": ((3,), (line,)), "AdaptiveAvgPool2d": ((3,), (plane,)), "AdaptiveMaxPool1d": ((3,), (line,)),
    "AdaptiveMaxPool2d": ((3,), (plane,)), "AvgPool1d": ((2,), (line,)), "AvgPool2d": ((2,), (plane,)),
    "MaxPool1d": ((2,), (line,)), "MaxPool2d": ((2,), (plane,)), "LPPool2d": ((2, 2), (plane,)),
    "AdaptiveAvgPool3d": ((2,), (x(1, 2, 4, 4, 4),)), "AdaptiveMaxPool3d": ((2,), (x(1, 2, 4, 4, 4),)),
    "AvgPool3d": ((2,), (x(1, 2, 4, 4, 4),)), "MaxPool3d": ((2,), (x(1, 2, 4, 4, 4),)),
    "BatchNorm1d": ((4,), (line,)), "BatchNorm2d": ((4,), (plane,)), "BatchNorm3d": ((2,), (x(2, 2, 3, 3, 3),)),
    "InstanceNorm1d": ((4,), (line,)), "InstanceNorm2d": ((4,), (plane,)), "InstanceNorm3d": ((2,), (x(2, 2, 3, 3, 3),)),
    "GroupNorm": ((2, 4), (plane,)), "LayerNorm": ((6,), (rows,)), "RMSNorm": ((6,), (rows,)), "LocalResponseNorm": ((2,), (plane,)),
    "Bilinear": ((6, 6, 3), (rows, rows)), "Linear": ((6, 3), (rows,)), "Embedding": ((10, 3), (classes(4),)),
    "Conv1d": ((4, 2, 3), (line,)), "Conv2d": ((4, 2, 3), (plane,)), "Conv3d": ((2, 2, 2), (x(1, 2, 4, 4, 4),)),
    "ConvTranspose1d": ((4, 2, 3), (line,)), "ConvTranspose2d": ((4, 2, 3), (plane,)), "ConvTranspose3d": ((2, 2, 2), (x(1, 2, 4, 4, 4),)),
    "CircularPad1d": ((1,), (line,)), "CircularPad2d": ((1,), (plane,)), "ConstantPad1d": ((1, 0.5), (line,)),
    "ConstantPad2d": ((1, 0.5), (plane,)), "ReflectionPad1d": ((1,), (line,)), "ReflectionPad2d": ((1,), (plane,)),
    "ReplicationPad1d": ((1,), (line,)), "ReplicationPad2d": ((1,), (plane,)), "ZeroPad1d": ((1,), (line,)), "ZeroPad2d": ((1,), (plane,)),
    "CircularPad3d": ((1,), (x(1, 2, 4, 4, 4),)), "ConstantPad3d": ((1, 0.5), (x(1, 2, 4, 4, 4),)),
    "ReflectionPad3d": ((1,), (x(1, 2, 4, 4, 4),)), "ReplicationPad3d": ((1,), (x(1, 2, 4, 4, 4),)), "ZeroPad3d": ((1,), (x(1, 2, 4, 4, 4),)),
    "Dropout3d": ((), (x(1, 2, 4, 4, 4),)), "Dropout1d": ((), (line,)), "Dropout2d": ((), (plane,)), "Softmax2d": ((), (plane,)), "Softmax": ((1,), (rows,)),
    "Softmin": ((1,), (rows,)), "LogSoftmax": ((1,), (rows,)), "Threshold": ((0.1, 0.0), (rows,)), "GLU": ((), (rows,)),
    "BCELoss": ((), (prob, labels(4, 6))), "BCEWithLogitsLoss": ((), (rows, labels(4, 6))), "MSELoss": ((), (rows, rows)),
    "L1Loss": ((), (rows, rows)), "SmoothL1Loss": ((), (rows, rows)), "HuberLoss": ((), (rows, rows)), "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (rows, prob)),
    "CrossEntropyLoss": ((), (rows, classes(4))), "NLLLoss": ((), (rows, classes(4))), "PoissonNLLLoss": ((), (rows, labels(4, 6))),
    "GaussianNLLLoss": ((), (rows, labels(4, 6), prob)), "SoftMarginLoss": ((), (rows, labels(4, 6))),
    "HingeEmbeddingLoss": ((), (rows, labels(4, 6))), "MarginRankingLoss": ((), (rows, rows, labels(4, 6))),
    "CosineEmbeddingLoss": ((), (rows, rows, labels(4))), "TripletMarginLoss": ((), (rows, rows, rows)),
    "CosineSimilarity": ((), (rows, rows)), "PairwiseDistance": ((), (rows, rows)),
    "Fold": (((4, 4), 2), (x(1, 8, 9),)), "Unfold": ((2,), (plane,)), "PixelShuffle": ((2,), (plane,)), "PixelUnshuffle": ((2,), (plane,)),
    "Unflatten": ((1, (2, 3)), (rows,)), "Upsample": ((16,), (plane,)), "UpsamplingBilinear2d": ((16,), (plane,)),
    "UpsamplingNearest2d": ((16,), (plane,)),
    "RNN": ((8, 4), (seq,)), "LSTM": ((8, 4, 2), (seq,)), "GRU": ((8, 4), (seq,)),
    "RNNCell": ((6, 4), (rows,)), "LSTMCell": ((6, 4), (rows,)), "GRUCell": ((6, 4), (rows,)),
    "MultiheadAttention": ((8, 2), (seq, seq, seq)), "TransformerEncoderLayer": ((8, 2, 16), (seq,)),
    "TransformerDecoderLayer": ((8, 2, 16), (seq, seq)), "Transformer": ((8, 2, 1, 1, 16), (seq, seq)),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False), (seq,)),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2), (seq, seq)),
    "AdaptiveLogSoftmaxWithLoss": ((6, 10, [3, 7], 2.0), (rows, lambda: fl.tensor([0, 4, 8, 1]))), "ChannelShuffle": ((2,), (plane,)),
    "CTCLoss": ((), (lambda: fl.zeros(5, 2, 3, requires_grad=True).log_softmax(-1), lambda: fl.ones(2, 2, dtype=fl.int64), lambda: [5, 4], lambda: [2, 1])),
    "EmbeddingBag": ((10, 3), (classes(4, 2),)), "FeatureAlphaDropout": ((), (plane,)), "FractionalMaxPool2d": ((2, 3), (plane,)),
    "FractionalMaxPool3d": ((2, 2), (x(1, 2, 4, 4, 4),)), "LPPool1d": ((2, 2), (line,)), "LPPool3d": ((2, 2), (x(1, 2, 4, 4, 4),)),
    "MaxUnpool1d": ((2,), (line, classes(2, 4, 8))), "MaxUnpool2d": ((2,), (plane, classes(2, 4, 8, 8))), "MaxUnpool3d": ((2,), (x(1, 2, 2, 2, 2), classes(1, 2, 2, 2, 2))),
    "MultiLabelMarginLoss": ((), (rows, classes(4, 6))), "MultiLabelSoftMarginLoss": ((), (rows, labels(4, 6))), "MultiMarginLoss": ((), (rows, classes(4))),
    "TripletMarginWithDistanceLoss": ((), (rows, rows, rows)), "LazyLinear": ((3,), (rows,)),
    "LazyConv1d": ((2, 3), (line,)), "LazyConv2d": ((2, 3), (plane,)), "LazyConv3d": ((2, 2), (x(1, 2, 4, 4, 4),)),
    "LazyConvTranspose1d": ((2, 3), (line,)), "LazyConvTranspose2d": ((2, 3), (plane,)), "LazyConvTranspose3d": ((2, 2), (x(1, 2, 4, 4, 4),)),
    "LazyBatchNorm1d": ((), (line,)), "LazyBatchNorm2d": ((), (plane,)), "LazyBatchNorm3d": ((), (x(2, 2, 3, 3, 3),)),
    "LazyInstanceNorm1d": ((), (line,)), "LazyInstanceNorm2d": ((), (plane,)), "LazyInstanceNorm3d": ((), (x(2, 2, 3, 3, 3),)),
    "Sequential": (lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU(inplace=True)), (rows,)),
    "ModuleList": (lambda: nn.ModuleList([nn.Linear(6, 3)]), None), "ModuleDict": (lambda: nn.ModuleDict({"a": nn.Linear(6, 3)}), None),
    "ParameterList": (lambda: nn.ParameterList([fl.ones(3)]), None), "ParameterDict": (lambda: nn.ParameterDict({"a": fl.ones(3)}), None),
}  # fmt: skip
NO_LAYERS = {"Module", "RNNBase", "RNNCellBase"}  # bases
NAMES = sorted(
    name for name, kind in vars(nn).items() if inspect.isclass(kind) and issubclass(kind, nn.Module) and name not in NO_LAYERS
)


def tensors_in(result):
    if isinstance(result, fl.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from tensors_in(part)


@pytest.mark.parametrize("name", NAMES)
def test_module(name):
    """Fails for a module that is called otherwise than with one (4, 6) tensor until it has an entry above."""
    how, given = CASES.get(name, ((), (rows,)))
    make = how if callable(how) else lambda: getattr(nn, name)(*how)

    def action():
        module = make()
        if given is not None:
            loss = sum(y.sum() for y in tensors_in(module(*(make_input() for make_input in given))) if y.is_floating_point())
            if loss.requires_grad:
                loss.backward()
        twin = copy.deepcopy(module)
        twin.load_state_dict(module.state_dict())
        twin.zero_grad()

    assert_nothing_stays(action)
