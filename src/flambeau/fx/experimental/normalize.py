"""Calls in a graph, written one way: with all arguments by keyword (`NormalizeArgs`), as operators (`NormalizeOperators`)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from flambeau import _C
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Transformer
from flambeau.fx.node import Node, map_aggregate
from flambeau.fx.operator_schemas import create_type_hint, normalize_function, normalize_module
from flambeau.fx.proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """A module's graph with the defaults of its calls of functions and of layers of this library's written out.

    What says nothing of its parameters' names is left as it is.

    Args:
        module: what `symbolic_trace` made.
        normalize_to_only_use_kwargs: all arguments by keyword; else those that were given by position stay there.

    Example:
        >>> import flambeau as fl
        >>> net = fl.fx.symbolic_trace(lambda x: fl.sum(x, 1))
        >>> made = NormalizeArgs(net).transform()
        >>> [dict(node.kwargs, input="x") for node in made.graph.nodes if node.op == "call_function"]
        [{'input': 'x', 'dim': 1, 'keepdim': False, 'dtype': None}]
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """The node's call, in the new graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            kinds = tuple(create_type_hint(kind) for kind in map_aggregate(n.args, self._fl_type))  # type: ignore[union-attr]
            out = self.call_function(n.target, args, kwargs, kinds, {name: self._fl_type(value) for name, value in n.kwargs.items()})
        else:
            out = super().run_node(n)
        if n.op != "output":
            self.node_map[out] = n
            out.node.meta, out.node.type = n.meta, n.type
        return out

    @staticmethod
    def _fl_type(value: Any) -> Any:
        return value.meta.get("type") if isinstance(value, Node) else type(value)

    def call_function(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """A call of a function, with all of its arguments."""
        pair = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        return super().call_function(target, *(pair or (args, kwargs)))

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module, with all of its arguments."""
        pair = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(pair or (args, kwargs)))


class NormalizeOperators(Transformer):
    """A module's graph with operators in place of functions that do the same of two values: `add(x, y)` is `x + y`.

    Example:
        >>> import flambeau as fl
        >>> made = NormalizeOperators(fl.fx.symbolic_trace(lambda x: fl.mul(x, 2))).transform()
        >>> made.code.strip().splitlines()[1].strip()
        'mul = x * 2;  x = None'
    """

    binary_magic_method_remap: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {
        _C.ops.add: operator.add, _C.ops.mul: operator.mul, _C.ops.sub: operator.sub, _C.ops.div: operator.truediv,
        _C.ops.floor_divide: operator.floordiv, _C.ops.remainder: operator.mod, _C.ops.eq: operator.eq, _C.ops.ne: operator.ne,
        _C.ops.lt: operator.lt, _C.ops.le: operator.le, _C.ops.gt: operator.gt, _C.ops.ge: operator.ge,
    }  # fmt: skip

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, or the operator of two values."""
        if len(args) == 2 and not kwargs and target in self.binary_magic_method_remap:
            target = self.binary_magic_method_remap[target]
        return super().call_function(target, args, kwargs)
