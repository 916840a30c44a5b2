"""Networks as they are used: batch norms that follow convolutions become part of these, and dropout goes."""

from __future__ import annotations

import copy
from typing import Any

from flambeau import nn
from flambeau.fx._members import assign, fetch
from flambeau.fx._symbolic_trace import Tracer, symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

_PAIRS = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))


def matches_module_pattern(pattern: tuple[type, ...], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the second type on what a module of the first gave."""
    if not node.args:
        return False
    for kind, at in zip(pattern, (node.args[0], node), strict=True):
        if not isinstance(at, Node) or at.op != "call_module" or type(modules.get(str(at.target))) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Puts another module where the one lies that a node calls."""
    modules[str(node.target)] = new_module
    assign(modules[""], str(node.target), new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """The model with each batch norm computed by the convolution before it, where nobody else uses that one's result.

    inplace: changes `model`'s own modules. no_trace: `model` is a GraphModule already.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx.experimental.optimization import fuse
        >>> net = fl.nn.Sequential(fl.nn.Conv2d(1, 2, 3), fl.nn.BatchNorm2d(2), fl.nn.ReLU()).eval()
        >>> [node.target for node in fuse(net).graph.nodes]
        ['input', '0', '2', 'output']

    Raises:
        TypeError: `no_trace`, and `model` has no graph.
        ValueError: the model is in training mode, in which batch norms use what they see.
    """
    if model.training:
        what = type(model).__name__
        raise ValueError(f"fuse: {what} is in training mode, in which batch norm is no part of a convolution; call model.eval() first")
    if no_trace and not isinstance(model, GraphModule):
        raise TypeError(f"fuse: no_trace, but model is a {type(model).__name__}; expected a GraphModule")
    model = model if inplace else copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    graph = copy.deepcopy(traced.graph)
    modules = {"": traced, **dict(traced.named_modules())}
    for pair in _PAIRS:
        for node in graph.nodes:
            if not matches_module_pattern(pair, node, modules) or len(node.args[0].users) > 1:
                continue
            norm = modules[str(node.target)]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(fetch(traced, str(node.args[0].target)), norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph, type(model).__name__)


class _NoDropout(Tracer):
    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if type(m) in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout):
            return args[0] if args else kwargs["input"]
        return super().call_module(m, forward, args, kwargs)


def remove_dropout(model: nn.Module) -> GraphModule:
    """The model without its dropout modules, for prediction.

    >>> import flambeau as fl
    >>> [node.target for node in remove_dropout(fl.nn.Sequential(fl.nn.Linear(2, 2), fl.nn.Dropout())).graph.nodes]
    ['input', '0', 'output']
    """
    tracer = _NoDropout()
    graph: Graph = tracer.trace(model)
    return GraphModule(tracer.root, graph, type(model).__name__)
