"""What is no tensor, given to functions in Python: a TypeError that names function and argument."""

import pytest

import flambeau as fl
from flambeau._no_tensor import explained
from flambeau.nn import functional as F

x, filters = fl.ones(1, 1, 4, 4), fl.ones(1, 1, 2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: F.conv2d([1, 2], filters), "conv2d: input is a list; expected a Tensor"),
        (lambda: F.conv_transpose2d(None, filters), "conv_transpose2d: input is a NoneType; expected a Tensor"),
        (lambda: F.max_pool2d("a", 2), "max_pool2d: input is a str; expected a Tensor"),
        (lambda: F.batch_norm(1.5, None, None), "batch_norm: input is a float; expected a Tensor"),
        (lambda: F.embedding(fl.tensor([0]), [1.0]), "embedding: weight is a list; expected a Tensor"),
        (lambda: F.cross_entropy(fl.ones(2), [1]), "cross_entropy: target is a list; expected a Tensor"),
        (lambda: F.unfold((1,), 2), "unfold: input is a tuple; expected a Tensor"),
        (lambda: F.hinge_embedding_loss(x, target=3), "hinge_embedding_loss: target is a int; expected a Tensor"),
        (lambda: fl.equal(x, 2), "equal: other is a int; expected a Tensor"),
        (lambda: fl.cdist(None, x), "cdist: x1 is a NoneType; expected a Tensor"),
        (lambda: fl.vstack([x, 3]), r"vstack: tensors\[1\] is a int; expected a Tensor"),
        (lambda: fl.is_floating_point([1.0]), "is_floating_point: input is a list; expected a Tensor"),
        (lambda: fl.fft.fft(fl.ones(2), out=[1]), "fft: out = list; expected a tensor"),
    ],
)
def test_the_error_names_function_and_argument(call, text):
    with pytest.raises(TypeError, match=f"^{text}$"):
        call()


def test_an_error_that_no_argument_causes_stays_as_it_is():
    def size(input: fl.Tensor, other: "fl.Tensor | None" = None) -> int:
        return input.shape[0]

    def error_of(call):
        try:
            call()
        except AttributeError as error:
            return error
        return None

    for error in (error_of(lambda: (7).shape), error_of(lambda: x.nowhere), error_of(lambda: None.shape), AttributeError("by hand")):
        assert explained(error, size, (x, None)) is error


def test_the_error_is_an_attribute_error_too():
    with pytest.raises(AttributeError):
        F.conv2d(None, filters)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (fl.optim.Adam.__init__, {"lr", "betas", "weight_decay", "amsgrad"}),
        (fl.optim.lr_scheduler.StepLR.__init__, {"step_size", "gamma"}),
        (fl.nn.Linear.__init__, {"in_features", "bias"}),
        (F.cross_entropy, {"reduction", "weight"}),
    ],
)
def test_code_names_the_parameters(function, names):
    """Programs take from their options those that a constructor knows, by the names of its variables."""
    assert names <= set(function.__code__.co_varnames[1:])
