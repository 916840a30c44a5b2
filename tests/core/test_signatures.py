"""What functions and constructors take is shown to who asks in any of the ways that Python has."""

import inspect

import pytest

import flambeau as fl
from flambeau import nn, optim
from flambeau.nn import functional as F


@pytest.mark.parametrize(
    "function, names",
    [
        (nn.Linear.__init__, "self in_features out_features bias device dtype"),
        (nn.Conv2d.__init__, "self in_channels out_channels kernel_size"),
        (nn.LayerNorm.__init__, "self normalized_shape eps"),
        (optim.Adam.__init__, "self params lr betas"),
        (F.cross_entropy, "input target weight"),
    ],
    ids=["Linear", "Conv2d", "LayerNorm", "Adam", "cross_entropy"],
)
def test_names_of_arguments(function, names):
    wanted = names.split()
    assert inspect.getfullargspec(function).args[: len(wanted)] == wanted
    assert list(inspect.signature(function).parameters)[: len(wanted)] == wanted


def test_signatures_of_classes_and_methods():
    assert str(inspect.signature(nn.Linear)).startswith("(in_features: 'int', out_features: 'int', bias: 'bool' = True")
    bound = inspect.signature(nn.Linear(1, 2).__init__)
    assert list(bound.parameters)[0] == "in_features" and bound.bind(3, out_features=4).arguments == {"in_features": 3, "out_features": 4}
    signature = inspect.signature(nn.Linear.__init__)
    assert signature == inspect.signature(nn.Linear.__init__) and hash(signature) and "out_features" in str(signature)
    assert inspect.getfullargspec(nn.Linear.__init__).defaults == (True, None, None)
    assert fl.nn.Linear.__init__.__wrapped__ is not fl.nn.Linear.__init__
