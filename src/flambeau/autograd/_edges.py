"""Where a graph computes a gradient: an edge, in place of the tensor whose gradient it is."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau._errors import AssertedTypeError, RefusedTypeError
from flambeau._memory_format import strided


class _Token:
    """The tensor of an edge."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __repr__(self) -> str:
        return "<keeps the graph alive>"


class GradientEdge(NamedTuple):
    """What `get_gradient_edge` returns: the node that gets a tensor's gradient, and the tensor's number among what the node made."""

    node: Any
    output_nr: int
    ownership_token: Any = None

    def __eq__(self, other: object) -> bool:
        """Edges of one node and number are equal, also to those that a walk along `next_functions` makes."""
        return isinstance(other, tuple) and self[:2] == other[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])


# Tokens of edges that live, by the identity of the node and the number: for equal edges that were made without one.
_tokens: weakref.WeakValueDictionary[tuple[int, int], _Token] = weakref.WeakValueDictionary()


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` is computed: `grad` and `backward` take it in place of the tensor.

    Keeps the graph alive, and the tensor's memory, too. Where the tensor was written in place since, `grad` and `backward` refuse the edge.

    Raises:
        RuntimeError: the tensor does not require grad.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor(3.0, requires_grad=True)
        >>> edge = fl.autograd.graph.get_gradient_edge(x)
        >>> fl.autograd.grad(x * x, edge)
        (tensor(6.),)
    """
    if not tensor.requires_grad:
        raise RuntimeError(f"get_gradient_edge: the tensor (shape {list(tensor.shape)}) does not require grad, so it gets no gradient")
    node, number = _C.gradient_node(tensor), tensor.output_nr
    token = _tokens.get((id(node), number))
    if token is None or token.tensor is not tensor:
        token = _tokens[id(node), number] = _Token(tensor)
    return GradientEdge(node, number, token)


def tensor_of(edge: GradientEdge, who: str) -> Tensor:
    """The tensor whose gradient an edge is."""
    node, number, token = edge
    if token is None and number == 0 and (leaf := getattr(node, "variable", None)) is not None:
        return leaf  # type: ignore[no-any-return]
    if token is None:
        token = _tokens.get((id(node), number))
    if not isinstance(token, _Token):
        raise RuntimeError(f"{who}: the edge to {node} was not made by get_gradient_edge; pass get_gradient_edge(tensor), or the tensor")
    tensor = token.tensor
    if _C.gradient_node(tensor) is not node or tensor.output_nr != number:
        raise RuntimeError(f"{who}: the tensor (shape {list(tensor.shape)}) of the edge to {node} was written in place since")
    return tensor


def tensors_of(value: Any, who: str, what: str) -> list[Any]:
    """What `backward` and `grad` are given, one or several: tensors, and edges as tensors.

    Raises:
        TypeError: something else.
    """
    if isinstance(value, (Tensor, GradientEdge)) or value is None:
        value = [value]
    elif not isinstance(value, Iterable):
        raise TypeError(f"{who}: {what} is a {type(value).__name__}; expected a Tensor, or a list of them")
    return [x if isinstance(x, Tensor) or x is None else _from_edge(x, who, what, i) for i, x in enumerate(value)]


def _from_edge(x: Any, who: str, what: str, i: int) -> Tensor:
    if isinstance(x, GradientEdge):
        return tensor_of(x, who)
    error = AssertedTypeError if what in ("outputs", "tensors") else RefusedTypeError
    raise error(f"{who}: {what}[{i}] is a {type(x).__name__}; expected a Tensor")


def is_sparse(end: Any) -> bool:
    """Whether gradients go through the values of an end of a backward (`sparse._tensor.SparseTensor._val`)."""
    return type(end) is not Tensor and isinstance(end, Tensor) and end.layout is not strided
