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
    "T.autograd.grad(T.ones(1, requires_grad=True) * 2, [])": "cannot be empty",
    "T.autograd.backward(T.ones(1, requires_grad=True) * 2, inputs=[])": "cannot be empty",
    "unused_and_made(T)": "Expected allow_unused to be True or not passed when",
    "T.autograd.Function.apply(T.ones(1))": "ou must implement the forward function",
    "function(T).apply(T.ones(1, requires_grad=True)).backward()": "ou must implement either the backward or vjp method",
    "function(T, backward=same, vjp=same).apply(T.ones(1, requires_grad=True)).backward()": "Implementing both 'backward' and 'vjp'",
    "function(T, backward=same)()(T.ones(1))": "Legacy autograd function with non-static forward method is deprecated",
    "function(T, forward=dirty, backward=same).apply(T.ones(1, requires_grad=True).clone())": "Some elements marked as dirty during the forward",
    "T.autograd.gradcheck(function(T, backward=twice_that).apply, leaf(T))": "Jacobian mismatch for output 0 with respect to input 0",
    "T.autograd.gradcheck(function(T, backward=and_more).apply, leaf(T), atol=0.1)": "backward not multiplied by grad_output",
    "T.autograd.gradcheck(function(T, backward=sparse).apply, leaf(T))": "grad is incorrect layout",
    "T.autograd.gradcheck(function(T, backward=drifting).apply, leaf(T))": "Backward is not reentrant",
    "T.autograd.gradcheck(T.sin, T.ones(1))": "at least one input tensor to require gradient",
    "T.autograd.gradcheck(T.sin, leaf(T), check_backward_ad=False)": "Expected at least one of check_forward_ad",
    "T.utils.checkpoint.checkpoint(T.sin, leaf(T), use_reentrant=True, foo=1)": "Unexpected keyword arguments",
    "T.utils.checkpoint.checkpoint(T.sin, leaf(T), use_reentrant=False, determinism_check='x')": "determinism_check should be one of",
    "T.autograd.functional.vjp(lambda x: x.sum(1), T.ones(2, 2), T.ones(3))": "v has invalid size: should be",
    "T.autograd.functional.vjp(lambda x: x.sum(1), T.ones(2, 2))": "The vector v can only be None if",
    "T.autograd.functional.jvp(lambda x: x.sum(1), T.ones(2, 2))": "The vector v can only be None if",
    "T.autograd.functional.vjp(lambda x: (x, 3), T.ones(2))": "The outputs of the user-provided function given to vjp must be either a Tensor or",
    "T.autograd.functional.vjp(lambda x: x, 3)": "The inputs given to vjp must be either a Tensor or a tuple",
    "T.autograd.functional.hessian(lambda x: x, T.ones(2))": "the function given to hessian should contain a single element",
    "T.autograd.functional.hessian(lambda x: (x, x), T.ones(2))": "The function given to hessian should return a single Tensor",
    "T.autograd.functional.jacobian(lambda x: x.detach(), T.ones(2), strict=True)": "Output 0 of the user-provided function does not require",
    "T.autograd.functional.jacobian(lambda x, y: x * 2, (T.ones(2), T.ones(2)), strict=True)": "user-provided function is independent of input 1",
    "T.einsum('ij,jk', T.ones(2, 2))": "fewer operands were provided than specified in the equation",
    "T.einsum('ij', T.ones(2, 2), T.ones(2, 2))": "more operands were provided than specified in the equation",
    "T.einsum('ij->k', T.ones(2, 2))": "output subscript k does not appear in the equation for any input operand",
    "T.einsum('ij->ii', T.ones(2, 2))": "output subscript i appears more than once in the output",
    "T.block_diag(T.ones(1, 1, 1))": "Input tensors must have 2 or fewer dimensions",
    "T.broadcast_shapes((-1,))": "Attempting to broadcast a dimension with negative length!",
    "T.manual_seed(2**64)": "Overflow when unpacking long long",
    "T.FloatStorage(device='cpu')": "'device' cannot be specified",
    "T.FloatStorage(0, 0)": "Too many positional arguments",
    "T.FloatStorage('text')": "invalid data type 'str'",
    "T.FloatStorage(T.ones(1))": "Argument type not recognized",
    "T.TypedStorage(wrap_storage=T.UntypedStorage(4))": "Argument 'dtype' must be specified",
}


def function(T, **methods):
    methods.setdefault("forward", lambda ctx, x: x.clone())
    return type("Mine", (T.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})


def leaf(T):
    return T.ones(2, dtype=T.float64, requires_grad=True)


def same(ctx, g):
    return g


def twice_that(ctx, g):
    return g * 2


def and_more(ctx, g):
    return g + 1e-2


def sparse(ctx, g):
    return g.to_sparse()


def drifting(ctx, g, calls=[0]):  # noqa: B006
    calls[0] += 1
    return g * (1 + 1e-9 * calls[0])


def dirty(ctx, x):
    ctx.mark_dirty(x.add_(1))
    return x.clone()


def unused_and_made(T):
    x = T.ones(1, requires_grad=True)
    T.autograd.grad(x * 2, x, allow_unused=False, materialize_grads=True)


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

    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError, AssertionError)) as caught:
        eval(statement, {**globals(), "T": T, "copy": copy})
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(("statement", "phrase"), PHRASES.items(), ids=list(PHRASES))
def test_phrase(statement, phrase):
    for library in (torch, flambeau):
        assert phrase in text_of(statement, library)
