"""What a module computes from its own parameters and buffers alone, computed once: `split_const_subgraphs`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor
from flambeau.fx._members import fetch
from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn.containers import ParameterList
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module of a graph, and a graph of constants that runs once, before the first call; see `split_const_subgraphs`.

    Args:
        root: what has the modules and tensors that both graphs use.
        graph: what each call runs.
        const_subgraph: what makes the constants: one, or a tuple of them.
        fx_const_folded_attrs_name: the attribute that they become.
        device_for_folded_attrs: where they are put.
    """

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None, device_for_folded_attrs: str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result; the constants are computed where they were not yet."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Computes the constants, which become parameters; what is no tensor stays as it is.

        Raises:
            RuntimeError: that was done already.
        """
        name = self.fx_const_folded_attrs_name
        if self.const_subgraph_module is None or name is None:
            return
        if self.has_folding_been_run:
            raise RuntimeError("FoldedGraphModule.run_folding: the constants are there already; split the module again for new ones")
        self.has_folding_been_run = True
        made = self.const_subgraph_module()
        value = ParameterList([self._fl_kept(v) for v in made]) if isinstance(made, tuple) else self._fl_kept(made)
        delattr(self, name)
        setattr(self, name, value)

    def _fl_kept(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return Parameter(value.detach().clone().to(self.device_for_folded_attrs), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: Module, name: str) -> str:
    """`name` as a name of an attribute that the module has not: what can not stand there becomes "_"; a number follows if it has it.

    >>> import flambeau as fl
    >>> get_unique_attr_name_in_module(fl.nn.Linear(1, 1), "weight"), get_unique_attr_name_in_module(fl.nn.Linear(1, 1), "0.a")
    ('weight_1', '_0_a')
    """
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[:1].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        ends = re.fullmatch(r"(.*)_(\d+)", name)
        name = f"{ends[1]}_{int(ends[2]) + 1}" if ends else f"{name}_1"
    return name


def _is_impure(node: Node, module: GraphModule) -> bool:
    if node.is_impure():
        return True
    called = fetch(module, str(node.target)) if node.op == "call_module" else None
    return isinstance(called, GraphModule) and any(
        _is_impure(inner, called) for inner in called.graph.nodes if inner.op in ("call_function", "call_module")
    )


def split_const_subgraphs(
    module: Module, skip_folding_node_fn: Callable[[Node], bool] | None = None, device_for_folded_attrs: str = "cpu"
) -> FoldedGraphModule:
    """A module that does the same, and computes once what depends on no input.

    The module is traced unless it is a GraphModule, and is not changed. What is random or writes is not folded.

    Args:
        skip_folding_node_fn: says of a node whether it is to stay where it is.
        device_for_folded_attrs: where the constants are put.

    Example:
        >>> import flambeau as fl
        >>> class Scaled(fl.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.w = fl.nn.Parameter(fl.tensor([1.0, 2.0]))
        ...     def forward(self, x):
        ...         return x * self.w.exp().sum()
        >>> folded = split_const_subgraphs(Scaled())
        >>> [node.target for node in folded.graph.nodes if node.op == "get_attr"]
        ['_FX_CONST_FOLDED_ATTRS']
        >>> folded(fl.ones(1))
        tensor([10.1073], grad_fn=<MulBackward0>)
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant: dict[Node, None] = {}
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output") or (node.op != "get_attr" and not all(n in constant for n in node.all_input_nodes)):
            continue
        if not (skip_folding_node_fn is not None and skip_folding_node_fn(node)) and not _is_impure(node, traced):
            constant[node] = None
    computed = [node for node in constant if node.op != "get_attr"]
    if not computed:
        return FoldedGraphModule(traced, traced.graph)

    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    handed_on = [node for node in computed if any(user not in constant for user in node.users)]
    constants, copies = Graph(), dict[Node, Node]()
    for node in constant:
        copies[node] = constants.node_copy(node, copies.__getitem__)
    constants.output(copies[handed_on[0]] if len(handed_on) == 1 else tuple(copies[node] for node in handed_on))
    constants.eliminate_dead_code()

    rest = Graph()
    rest.set_codegen(traced.graph._codegen)
    copies = {}
    table: Node | None = None
    for node in traced.graph.nodes:
        if node.op == "output":
            rest.output(map_arg(node.args[0], copies.__getitem__), node.type)
        elif node.op == "get_attr" or node not in constant:
            copies[node] = rest.node_copy(node, copies.__getitem__)
        elif node in handed_on:
            table = table or rest.get_attr(name)
            copies[node] = table if len(handed_on) == 1 else rest.call_function(operator.getitem, (table, handed_on.index(node)))
            copies[node].meta = dict(node.meta)
    rest.eliminate_dead_code()

    paths = {str(node.target) for graph in (constants, rest) for node in graph.nodes if node.op in ("get_attr", "call_module")}
    members = {path: fetch(traced, path) for path in paths - {name}}
    members[name] = Parameter(Tensor()) if len(handed_on) == 1 else ParameterList()
    made = FoldedGraphModule(members, rest, constants, name, device_for_folded_attrs)
    return made.train(traced.training)
