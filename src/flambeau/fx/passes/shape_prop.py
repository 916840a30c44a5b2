"""Shapes of what nodes compute, found by running the graph once."""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau
from flambeau.fx._targets import library_module
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]

Tensor = flambeau.Tensor


class TensorMetadata(NamedTuple):
    """What `node.meta["tensor_meta"]` says of a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """What is to be said of a tensor."""
    formats = [library_module().contiguous_format, library_module().channels_last, library_module().channels_last_3d]
    found = None
    for wanted, ndim in zip(formats, (None, 4, 5), strict=True):
        if include_contiguity and found is None and ndim in (None, result.ndim) and result.is_contiguous(memory_format=wanted):
            found = wanted
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, tuple(result.stride()), found, False, {})


class ShapeProp(Interpreter):
    """Runs a module's graph, and notes what each node gives: `node.meta["tensor_meta"]` (a `TensorMetadata`, or containers of such) and
    `node.meta["type"]`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import symbolic_trace
        >>> from flambeau.fx.passes.shape_prop import ShapeProp
        >>> net = symbolic_trace(fl.nn.Sequential(fl.nn.Linear(4, 3), fl.nn.ReLU()))
        >>> out = ShapeProp(net).propagate(fl.ones(2, 4))
        >>> [(node.name, tuple(node.meta["tensor_meta"].shape)) for node in net.graph.nodes]
        [('input_1', (2, 4)), ('_0', (2, 3)), ('_1', (2, 3)), ('output', (2, 3))]
    """

    def run_node(self, n: Node) -> Any:
        """The node's value, noted."""
        result = super().run_node(n)
        met = False

        def look(x: Any) -> Any:
            nonlocal met
            if not isinstance(x, Tensor):
                return x
            met = True
            return _extract_tensor_metadata(x)

        meta = map_aggregate(result, look)
        if met:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph for these arguments."""
        return self.run(*args)
