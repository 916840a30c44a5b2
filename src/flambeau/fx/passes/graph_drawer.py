"""Pictures of graphs by Graphviz: a box for each node, an arrow for each use. Needs the package pydot."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.operator_schemas import normalize_function

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue", "get_attr": "LightGrey", "call_module": "LemonChiffon1", "call_function": "DarkSeaGreen1",
    "call_method": "PaleTurquoise2", "output": "PowderBlue", "parameter": "Salmon",
}  # fmt: skip


def _pydot() -> Any:
    try:
        import pydot  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        raise RuntimeError(
            "FxGraphDrawer: the package pydot is not installed, which draws; `pip install pydot`, or print(graph_module.graph)"
        ) from error
    return pydot


def _safe(text: str) -> str:
    """Text in a record, where some characters divide it."""
    return "".join("\\" + c if c in '{}|<>"' else c for c in text)


class FxGraphDrawer:
    """Draws the graph of a GraphModule, and those of GraphModules in it that it calls.

    Args:
        name: of the picture.
        ignore_getattr: leaves out what is read from the module.
        ignore_parameters_and_buffers: leaves out the parameters and buffers of the layers that are called.
        skip_node_names_in_args: arguments that are nodes are shown by arrows alone.
        parse_stack_trace: shows the line that a node was made in, where it is known.
        dot_graph_shape: Graphviz's name of the boxes' shape.
        normalize_args: arguments of functions are shown by their names.

    Raises:
        RuntimeError: pydot is not installed.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._pydot = _pydot()
        self._name = name
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self._without_getattr, self._without_parameters = ignore_getattr, ignore_parameters_and_buffers
        self._skip_names, self._with_lines = skip_node_names_in_args, parse_stack_trace
        self._dot_graphs = {name: self._drawn(graph_module, name)}
        for node in graph_module.graph.nodes:
            if node.op == "call_module" and isinstance(layer := graph_module.get_submodule(str(node.target)), GraphModule):
                inner = f"{name}_{node.target}"
                self._dot_graphs[inner] = self._drawn(layer, inner)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The picture, a `pydot.Dot`, or that of a GraphModule inside."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """The picture of the whole."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The picture of a GraphModule inside."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All pictures, by name."""
        return self._dot_graphs

    def _box(self, name: str, label: str, kind: str) -> Any:
        return self._pydot.Node(
            name, label=label, shape=self.dot_graph_shape, fillcolor=_COLORS[kind], style='"filled,rounded"', fontcolor="#000000"
        )

    def _drawn(self, module: GraphModule, name: str) -> Any:
        picture = self._pydot.Dot(name, rankdir="TB")
        shown = [node for node in module.graph.nodes if not (self._without_getattr and node.op == "get_attr")]
        for node in shown:
            picture.add_node(self._box(node.name, self._label(module, node), node.op))
            if node.op == "call_module" and not self._without_parameters:
                self._add_parameters(picture, module, node)
        for node in shown:
            for before in node.all_input_nodes:
                if before in shown:
                    picture.add_edge(self._pydot.Edge(before.name, node.name))
        return picture

    def _add_parameters(self, picture: Any, module: GraphModule, node: Node) -> None:
        layer = module.get_submodule(str(node.target))
        if isinstance(layer, GraphModule):
            return
        for kind, found in (("parameter", layer.named_parameters()), ("buffer", layer.named_buffers())):
            for own, value in found:
                path = f"{node.target}.{own}"
                picture.add_node(self._box(path, f"{{{path}|op_code=get_{kind}\\n{_tensor_text(value)}}}", "parameter"))
                picture.add_edge(self._pydot.Edge(path, node.name))

    def _label(self, module: GraphModule, node: Node) -> str:
        parts = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            layer = module.get_submodule(str(node.target))
            parts.append(f"{type(layer).__module__}.{type(layer).__name__}")
            parts += [_safe(f"{key}: {getattr(layer, key)}") for key in getattr(layer, "__constants__", ()) if hasattr(layer, key)]
        else:
            parts.append(_safe(f"target={node._pretty_print_target(node.target)}"))
            parts += [_safe(text) for text in self._arguments(node)]
        parts.append(f"num_users={len(node.users)}")
        for value in node.meta.get("tensor_meta", ()) if isinstance(node.meta.get("tensor_meta"), list) else [node.meta.get("tensor_meta")]:
            if value is not None:
                parts.append(_safe(f"dtype={getattr(value, 'dtype', '')}, shape={tuple(getattr(value, 'shape', ()))}"))
        if self._with_lines and node.stack_trace:
            parts.append(_safe(node.stack_trace.strip().splitlines()[0].strip()))
        return "{" + "\\n|".join(parts) + "\\n}"

    def _arguments(self, node: Node) -> list[str]:
        args, kwargs = node.args, node.kwargs
        if self.normalize_args and node.op == "call_function":
            try:
                pair = normalize_function(node.target, args, dict(kwargs), normalize_to_only_use_kwargs=True)  # type: ignore[arg-type]
            except RuntimeError:  # one of several forms
                pair = None
            args, kwargs = pair if pair is not None else (args, kwargs)
        if self._skip_names:
            args = tuple(a for a in args if not _has_node(a))
            kwargs = {key: a for key, a in kwargs.items() if not _has_node(a)}
        return [f"{what}={found}" for what, found in (("args", args), ("kwargs", dict(kwargs))) if found]


def _has_node(value: Any) -> bool:
    met: list[Node] = []
    map_arg(value, met.append)
    return bool(met)


def _tensor_text(x: Tensor) -> str:
    return _safe(f"{x.dtype}{list(x.shape)}")
