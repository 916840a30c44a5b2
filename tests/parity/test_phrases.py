"""What programs, and people who search, look for in an error: PyTorch's phrase is in ours."""

import pytest
import torch

import flambeau

# Each statement, and the phrase.
PHRASES = {
    "T.ones(2, 3) @ T.ones(2, 3)": "mat1 and mat2 shapes cannot be multiplied",
    "T.mm(T.ones(2, 3), T.ones(2, 3))": "mat1 and mat2 shapes cannot be multiplied",
    "T.nn.Linear(3, 4)(T.ones(2, 5))": "mat1 and mat2 shapes cannot be multiplied",
    "T.nn.Conv2d(3, 4, 3)(T.ones(1, 2, 8, 8))": "to have 3 channels, but got 2 channels instead",
    "T.ones(2, 3) + T.ones(2, 4)": "size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    "T.ones(3).add_(T.ones(4))": "size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
    "T.cat([T.ones(2, 3), T.ones(2, 4)])": "Sizes of tensors must match except in dimension 0",
    "T.ones(2, 3).view(4)": "shape '[4]' is invalid for input of size 6",
    "T.ones(2, 3).reshape(-1, 4)": "shape '[-1, 4]' is invalid for input of size 6",
    "T.nn.Embedding(3, 4)(T.tensor([5]))": "index out of range in self",
    "T.ones(2)[5]": "index 5 is out of bounds for dimension 0 with size 2",
    "T.ones(2, 3)[0, 3]": "index 3 is out of bounds for dimension 1 with size 3",
    "T.ones(2)[0, 0]": "too many indices for tensor of dimension 1",
    "T.gather(T.ones(2, 2), 0, T.tensor([[5]]))": "index 5 is out of bounds for dimension 0 with size 2",
    "T.ones(2, 3).sum(5)": "Dimension out of range (expected to be in range of [-2, 1], but got",
    "T.ones(2).unsqueeze(5)": "Dimension out of range (expected to be in range of [-2, 1], but got",
    "T.ones(2, requires_grad=True).numpy()": "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    "T.ones(2, requires_grad=True).add_(1)": "a leaf Variable that requires grad is being used in an in-place operation",
    "T.ones(2, requires_grad=True)[0].add_(1)": "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "T.ones(2).sum().backward()": "does not require grad and does not have a grad_fn",
    "(2 * T.ones(2, requires_grad=True)).backward()": "grad can be implicitly created only for scalar outputs",
    "twice(T)": "Trying to backward through the graph a second time",
    "overwritten(T)": "has been modified by an inplace operation",
    "bool(T.ones(2))": "Boolean value of Tensor with more than one value is ambiguous",
    "bool(T.ones(0))": "Boolean value of Tensor with no values is ambiguous",
    "T.ones(2).item()": "a Tensor with 2 elements cannot be converted to Scalar",
    "T.ones(2, dtype=T.int64).requires_grad_()": "nly Tensors of floating point",
    "T.ones(2, dtype=T.int64).exp_()": "can't be cast to the desired output type",
    "T.ones(2, dtype=T.int64).add_(1.5)": "can't be cast to the desired output type",
    "copy.deepcopy(T.ones(2, requires_grad=True) * 2)": "Only Tensors created explicitly by the user (graph leaves)",
    "T.nn.Linear(2, 2).load_state_dict({})": 'rror(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "weight", "bias"',
    "T.nn.Linear(1, 1, bias=False).load_state_dict({'weight': T.ones(1, 1), 'x': T.ones(1)})": 'Unexpected key(s) in state_dict: "x"',
    "T.nn.Linear(1, 1, bias=False).load_state_dict({'weight': T.ones(2, 1)})": "size mismatch for weight",
    "T.empty(10**15)": "DefaultCPUAllocator: can't allocate memory",
}


def twice(T):
    y = T.ones(2, requires_grad=True).square().sum()
    y.backward()
    y.backward()


def overwritten(T):
    y = T.ones(2, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


def text_of(statement, T):
    import copy

    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)) as caught:
        eval(statement, {"T": T, "twice": twice, "overwritten": overwritten, "copy": copy})
    return str(caught.value)


@pytest.mark.parametrize(("statement", "phrase"), PHRASES.items(), ids=list(PHRASES))
def test_phrase(statement, phrase):
    for library in (torch, flambeau):
        assert phrase in text_of(statement, library)
