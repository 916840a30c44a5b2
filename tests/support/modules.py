"""How every module of `nn` is made and called, as text: for tests that go over all of them, and for random calls.

Texts are expressions over `fl` and `T` (tests/fuzz/values.py), a tensor of a shape and a dtype.
"""

from __future__ import annotations

import inspect

from flambeau import nn

LINE = "T((2, 4, 8), grad=True)"
PLANE = "T((2, 4, 8, 8), grad=True)"
ROWS = "T((4, 6), grad=True)"
STEPS = "T((5, 2, 8), grad=True)"
CHANCES = "T((4, 6), fill='positive', grad=True)"
VOLUME = "T((1, 2, 4, 4, 4), grad=True)"
CLASSES = "T((4,), 'int64', fill='zeros')"
ONES = "fl.ones(4, 6)"

# class -> (arguments of its constructor, arguments of forward; None: it has none). What is missing here and is called with
# ROWS and no arguments needs no entry.
CASES = {
    "AdaptiveAvgPool1d": ("3", (LINE,)), "AdaptiveAvgPool2d": ("3", (PLANE,)), "AdaptiveMaxPool1d": ("3", (LINE,)), "AdaptiveMaxPool2d": ("3", (PLANE,)),
    "AvgPool1d": ("2", (LINE,)), "AvgPool2d": ("2", (PLANE,)), "MaxPool1d": ("2", (LINE,)), "MaxPool2d": ("2", (PLANE,)), "LPPool2d": ("2, 2", (PLANE,)),
    "AdaptiveAvgPool3d": ("2", (VOLUME,)), "AdaptiveMaxPool3d": ("2", (VOLUME,)), "AvgPool3d": ("2", (VOLUME,)), "MaxPool3d": ("2", (VOLUME,)),
    "BatchNorm1d": ("4", (LINE,)), "BatchNorm2d": ("4", (PLANE,)), "BatchNorm3d": ("2", ("T((2, 2, 3, 3, 3), grad=True)",)),
    "InstanceNorm1d": ("4", (LINE,)), "InstanceNorm2d": ("4", (PLANE,)), "InstanceNorm3d": ("2", ("T((2, 2, 3, 3, 3), grad=True)",)),
    "GroupNorm": ("2, 4", (PLANE,)), "LayerNorm": ("6", (ROWS,)), "RMSNorm": ("6", (ROWS,)), "LocalResponseNorm": ("2", (PLANE,)), "CrossMapLRN2d": ("2", (PLANE,)),
    "Bilinear": ("6, 6, 3", (ROWS, ROWS)), "Linear": ("6, 3", (ROWS,)), "Embedding": ("10, 3", (CLASSES,)), "Conv1d": ("4, 2, 3", (LINE,)),
    "Conv2d": ("4, 2, 3", (PLANE,)), "Conv3d": ("2, 2, 2", (VOLUME,)), "ConvTranspose1d": ("4, 2, 3", (LINE,)), "ConvTranspose2d": ("4, 2, 3", (PLANE,)),
    "ConvTranspose3d": ("2, 2, 2", (VOLUME,)), "CircularPad1d": ("1", (LINE,)), "CircularPad2d": ("1", (PLANE,)), "ConstantPad1d": ("1, 0.5", (LINE,)),
    "ConstantPad2d": ("1, 0.5", (PLANE,)), "ReflectionPad1d": ("1", (LINE,)), "ReflectionPad2d": ("1", (PLANE,)), "ReplicationPad1d": ("1", (LINE,)),
    "ReplicationPad2d": ("1", (PLANE,)), "ZeroPad1d": ("1", (LINE,)), "ZeroPad2d": ("1", (PLANE,)), "CircularPad3d": ("1", (VOLUME,)),
    "ConstantPad3d": ("1, 0.5", (VOLUME,)), "ReflectionPad3d": ("1", (VOLUME,)), "ReplicationPad3d": ("1", (VOLUME,)), "ZeroPad3d": ("1", (VOLUME,)),
    "Dropout3d": ("", (VOLUME,)), "Dropout1d": ("", (LINE,)), "Dropout2d": ("", (PLANE,)), "Softmax2d": ("", (PLANE,)), "Softmax": ("1", (ROWS,)),
    "Softmin": ("1", (ROWS,)), "LogSoftmax": ("1", (ROWS,)), "Threshold": ("0.1, 0.0", (ROWS,)), "GLU": ("", (ROWS,)), "BCELoss": ("", (CHANCES, ONES)),
    "BCEWithLogitsLoss": ("", (ROWS, ONES)), "MSELoss": ("", (ROWS, ROWS)), "L1Loss": ("", (ROWS, ROWS)), "SmoothL1Loss": ("", (ROWS, ROWS)),
    "HuberLoss": ("", (ROWS, ROWS)), "KLDivLoss": ("reduction='batchmean'", (ROWS, CHANCES)), "CrossEntropyLoss": ("", (ROWS, CLASSES)),
    "NLLLoss": ("", (ROWS, CLASSES)), "NLLLoss2d": ("", (ROWS, CLASSES)), "PoissonNLLLoss": ("", (ROWS, ONES)), "GaussianNLLLoss": ("", (ROWS, ONES, CHANCES)),
    "SoftMarginLoss": ("", (ROWS, ONES)), "HingeEmbeddingLoss": ("", (ROWS, ONES)), "MarginRankingLoss": ("", (ROWS, ROWS, ONES)),
    "CosineEmbeddingLoss": ("", (ROWS, ROWS, "fl.ones(4)")), "TripletMarginLoss": ("", (ROWS, ROWS, ROWS)), "CosineSimilarity": ("", (ROWS, ROWS)),
    "PairwiseDistance": ("", (ROWS, ROWS)), "Fold": ("(4, 4), 2", ("T((1, 8, 9), grad=True)",)), "Unfold": ("2", (PLANE,)),
    "PixelShuffle": ("2", (PLANE,)), "PixelUnshuffle": ("2", (PLANE,)), "Unflatten": ("1, (2, 3)", (ROWS,)), "Upsample": ("16", (PLANE,)),
    "UpsamplingBilinear2d": ("16", (PLANE,)), "UpsamplingNearest2d": ("16", (PLANE,)), "RNN": ("8, 4", (STEPS,)), "LSTM": ("8, 4, 2", (STEPS,)),
    "GRU": ("8, 4", (STEPS,)), "RNNCell": ("6, 4", (ROWS,)), "LSTMCell": ("6, 4", (ROWS,)), "GRUCell": ("6, 4", (ROWS,)),
    "MultiheadAttention": ("8, 2", (STEPS, STEPS, STEPS)), "TransformerEncoderLayer": ("8, 2, 16", (STEPS,)),
    "TransformerDecoderLayer": ("8, 2, 16", (STEPS, STEPS)), "Transformer": ("8, 2, 1, 1, 16", (STEPS, STEPS)),
    "TransformerEncoder": ("fl.nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False", (STEPS,)),
    "TransformerDecoder": ("fl.nn.TransformerDecoderLayer(8, 2, 16), 2", (STEPS, STEPS)),
    "AdaptiveLogSoftmaxWithLoss": ("6, 10, [3, 7], 2.0", (ROWS, "fl.tensor([0, 4, 8, 1])")), "ChannelShuffle": ("2", (PLANE,)),
    "CTCLoss": ("", ("T((5, 2, 3), grad=True).log_softmax(-1)", "fl.ones(2, 2, dtype=fl.int64)", "[5, 4]", "[2, 1]")),
    "EmbeddingBag": ("10, 3", ("T((4, 2), 'int64', fill='zeros')",)), "FeatureAlphaDropout": ("", (PLANE,)), "FractionalMaxPool2d": ("2, 3", (PLANE,)),
    "FractionalMaxPool3d": ("2, 2", (VOLUME,)), "LPPool1d": ("2, 2", (LINE,)), "LPPool3d": ("2, 2", (VOLUME,)),
    "MaxUnpool1d": ("2", (LINE, "T((2, 4, 8), 'int64', fill='zeros')")), "MaxUnpool2d": ("2", (PLANE, "T((2, 4, 8, 8), 'int64', fill='zeros')")),
    "MaxUnpool3d": ("2", ("T((1, 2, 2, 2, 2), grad=True)", "T((1, 2, 2, 2, 2), 'int64', fill='zeros')")),
    "MultiLabelMarginLoss": ("", (ROWS, "T((4, 6), 'int64', fill='zeros')")), "MultiLabelSoftMarginLoss": ("", (ROWS, ONES)),
    "MultiMarginLoss": ("", (ROWS, CLASSES)), "TripletMarginWithDistanceLoss": ("", (ROWS, ROWS, ROWS)), "LazyLinear": ("3", (ROWS,)),
    "LazyConv1d": ("2, 3", (LINE,)), "LazyConv2d": ("2, 3", (PLANE,)), "LazyConv3d": ("2, 2", (VOLUME,)), "LazyConvTranspose1d": ("2, 3", (LINE,)),
    "LazyConvTranspose2d": ("2, 3", (PLANE,)), "LazyConvTranspose3d": ("2, 2", (VOLUME,)), "LazyBatchNorm1d": ("", (LINE,)),
    "LazyBatchNorm2d": ("", (PLANE,)), "LazyBatchNorm3d": ("", ("T((2, 2, 3, 3, 3), grad=True)",)), "LazyInstanceNorm1d": ("", (LINE,)),
    "LazyInstanceNorm2d": ("", (PLANE,)), "LazyInstanceNorm3d": ("", ("T((2, 2, 3, 3, 3), grad=True)",)),
    "Sequential": ("fl.nn.Linear(6, 3), fl.nn.ReLU(inplace=True)", (ROWS,)), "ModuleList": ("[fl.nn.Linear(6, 3)]", None),
    "Container": ("layer=fl.nn.Linear(6, 3)", None), "LinearCrossEntropyLoss": ("6, 3", (ROWS, CLASSES)),
    "ModuleDict": ("{'a': fl.nn.Linear(6, 3)}", None), "ParameterList": ("[fl.ones(3)]", None), "ParameterDict": ("{'a': fl.ones(3)}", None),
}  # fmt: skip
NO_LAYERS = {"Module", "RNNBase", "RNNCellBase"}  # bases
NAMES = sorted(
    name for name, kind in vars(nn).items() if inspect.isclass(kind) and issubclass(kind, nn.Module) and name not in NO_LAYERS
)


def made(name: str) -> str:
    """The constructor's call."""
    return f"fl.nn.{name}({CASES.get(name, ('', ()))[0]})"


def given_to(name: str) -> str:
    """The tuple of what forward is given, or None."""
    given = CASES.get(name, ("", (ROWS,)))[1]
    return "None" if given is None else f"({', '.join(given)},)"


def called(name: str) -> str:
    """The module made and called, or only made where it can not be called."""
    given = given_to(name)
    return made(name) if given == "None" else f"{made(name)}(*{given})"
