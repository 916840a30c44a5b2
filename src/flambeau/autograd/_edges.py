"""Where a graph computes a gradient: an edge, in place of the tensor whose gradient it is."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor


class _Token:
    """The tensor of an edge. All are equal: two edges are told apart by their nodes."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Token)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<keeps the graph alive>"


class GradientEdge(NamedTuple):
    """What `get_gradient_edge` returns: the node that gets a tensor's gradient, and the tensor's number among what the node made."""

    node: Any
    output_nr: int
    ownership_token: Any = None


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
    return GradientEdge(_C.gradient_node(tensor), tensor.output_nr, _Token(tensor))


def tensor_of(edge: GradientEdge, who: str) -> Tensor:
    """The tensor whose gradient an edge is."""
    node, number, token = edge
    if token is None and number == 0 and (leaf := getattr(node, "variable", None)) is not None:
        return leaf  # type: ignore[no-any-return]
    if not isinstance(token, _Token):
        raise RuntimeError(f"{who}: the edge to {node} was not made by get_gradient_edge; pass get_gradient_edge(tensor), or the tensor")
    tensor = token.tensor
    if _C.gradient_node(tensor) is not node or tensor.output_nr != number:
        raise RuntimeError(f"{who}: the tensor (shape {list(tensor.shape)}) of the edge to {node} was written in place since")
    return tensor


def tensors_of(value: Any, who: str) -> list[Any]:
    """What `backward` and `grad` are given, one or several: tensors, and edges as tensors."""
    if isinstance(value, (Tensor, GradientEdge)) or value is None:
        value = [value]
    return [tensor_of(x, who) if isinstance(x, GradientEdge) else x for x in value]
