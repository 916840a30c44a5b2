"""Which nodes a backend can run: rules, and what is made of several."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau._C import dtype
from flambeau.fx.node import Node
from flambeau.fx.passes.shape_prop import TensorMetadata
from flambeau.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from flambeau.nn.module import Module

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

TargetTypeName = str
SupportedArgumentDTypes = tuple[Sequence[Sequence[dtype] | None], dict[str, Sequence[dtype]]] | None
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Says of each node whether it is supported; `submodules` is `dict(module.named_modules())`."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """What a table names: from paths of functions and classes (`get_node_target`) to types of elements.

    None stands for all types; else ([types of the first argument, or None], ...), {name: [types of that argument]}.

    >>> import flambeau as fl
    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> support = OperatorSupport({"flambeau.relu": None})
    >>> [support.is_node_supported({}, node) for node in fl.fx.symbolic_trace(lambda x: fl.relu(x) + 1).graph.nodes]
    [True, True, False, True]
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        types = self._support_dict[target]
        if types is None:
            return True
        given = [*zip(node.args, types[0]), *((node.kwargs[name], kinds) for name, kinds in types[1].items() if name in node.kwargs)]
        return all(kinds is None or not isinstance(arg, Node) or _dtype_of(arg) in kinds for arg, kinds in given)


class _ByFunction(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self._function = function

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self._function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """A rule by a function of (submodules, node)."""
    return _ByFunction(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported is what all of these rules support."""
    return create_op_support(lambda submodules, node: all(rule.is_node_supported(submodules, node) for rule in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supported is what one of these rules supports."""
    return create_op_support(lambda submodules, node: any(rule.is_node_supported(submodules, node) for rule in op_support))


class OpSupports:
    """Small rules, for `chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: Any) -> OperatorSupportBase:
        """Nodes without an argument of this type of elements."""
        return create_op_support(lambda submodules, node: all(_dtype_of(arg) != dtype for arg in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Nodes of other names than these."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


def _dtype_of(node: Node) -> Any:
    """The type of a tensor's elements, or the type of another value: what `ShapeProp` has noted."""
    meta = node.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else node.meta["type"]
