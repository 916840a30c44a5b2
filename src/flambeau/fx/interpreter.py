"""Running a graph node by node, and making another graph by running one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau._notes import write_note
from flambeau.fx._members import fetch
from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Argument, Node, Target, map_aggregate, map_arg
from flambeau.fx.proxy import Proxy
from flambeau.fx.traceback import set_current_meta
from flambeau.nn.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a module's graph, one node after the other. A subclass overrides what is done for a kind of node (`call_function` and the like),
    or for each (`run_node`).

    garbage_collect_values: values are let go after their last use. graph: another one than the module's.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import Interpreter, symbolic_trace
        >>> class Named(Interpreter):
        ...     def run_node(self, n):
        ...         result = super().run_node(n)
        ...         print(n.name, tuple(result.shape))
        ...         return result
        >>> net = symbolic_trace(fl.nn.Sequential(fl.nn.Linear(4, 3), fl.nn.ReLU()))
        >>> out = Named(net).run(fl.ones(2, 4))
        input_1 (2, 4)
        _0 (2, 3)
        _1 (2, 3)
        output (2, 3)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}: module is a {type(module).__name__}; expected a GraphModule")
        found = graph if graph is not None else getattr(module, "graph", None)
        if not isinstance(found, Graph):
            raise TypeError(f"{type(self).__name__}: {type(module).__name__} has no graph; fx.symbolic_trace makes a module that has one")
        self.module = module
        self.graph: Graph = found
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            last: dict[Node, Node] = {}
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in last:
                        last[used] = node
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The result of the graph for these arguments; nodes in `initial_env` have their values there, and are not run.

        Raises:
            RuntimeError: an argument is missing.
            Exception: what a node raises, with a note that says which node it was.
        """
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                with set_current_meta(node):
                    self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_where(error, node)
                raise
            for gone in self.user_to_last_uses.get(node, ()):
                self.env.pop(gone, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run` with arguments of a list, which is emptied, so that they can be let go."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            kinds = f"{type(args).__name__} and {type(kwargs).__name__}"
            raise TypeError(f"fetch_args_kwargs_from_env: expected a tuple and a dict, not {kinds}")
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument of the call; all that are left for `*args`, none for `**kwargs`."""
        name = str(target)
        if name.startswith("**"):
            return {}
        if name.startswith("*"):
            return tuple(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The function's result."""
        assert callable(target)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The submodule's result."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """The module's attribute at a path.

        Raises:
            AttributeError: there is none.
        """
        return fetch(self.module, target)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A node's arguments, with values in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """The same containers, with values in place of nodes.

        Raises:
            RuntimeError: a node has not been run.
        """

        def load(x: Any) -> Any:
            if not isinstance(x, Node):
                return x
            if x not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {x}! Run Graph.lint() to diagnose such issues")
            return self.env[x]

        return _plain(map_aggregate(args, load))


def _plain(a: Any) -> Any:
    """Lists and dicts as the program had them: a function may change, or look for, a list."""
    if isinstance(a, tuple):
        parts = [_plain(item) for item in a]
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts) if type(a) is tuple else a
    if isinstance(a, list):
        return [_plain(item) for item in a]
    if isinstance(a, dict) and type(a).__name__ == "immutable_dict":
        return {key: _plain(value) for key, value in a.items()}
    return a


def _say_where(error: Exception, node: Node) -> None:
    trace = node.stack_trace
    note = f"While executing {node.format_node()}" + (f"\nOriginal traceback:\n{trace}" if trace else "")
    write_note(error, note, None, error.args)


class _TransformerTracer(Tracer):
    """A tracer that adds to a graph, and takes every module as a leaf: the modules are those of the graph that is run."""

    def __init__(self, graph: Graph, module: Module) -> None:
        super().__init__()
        self.graph, self.root = graph, module
        self.root_module_name = type(module).__name__

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """An interpreter whose values are proxies, so that running makes a graph: `transform` returns it as a module.

    Example:
        >>> import operator
        >>> from flambeau.fx import Transformer, symbolic_trace
        >>> class Times(Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return super().call_function(operator.mul if target is operator.add else target, args, kwargs)
        >>> def f(x):
        ...     return x + 3
        >>> Times(symbolic_trace(f)).transform()(5)
        15
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer: Tracer = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A parameter of the new graph."""
        default = next(iter(args), ...)
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """The attribute, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the module, in the new graph."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the function, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the method, in the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Runs the graph with proxies, and returns what that made."""
        from flambeau.fx._takeover import functions_recorded_whole

        with functions_recorded_whole():
            result = super().run(enable_io_processing=False)
        if result is not None:
            kinds: list[Any] = [node.type for node in self.graph.nodes if node.op == "output"]
            made = self.new_graph.output(map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x))
            made.type = kinds[0] if kinds else None
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Proxies in place of nodes."""
        return map_arg(args, lambda x: self.env[x])


