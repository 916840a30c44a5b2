"""Graphs: nodes in the order in which they are run, and how they are made, moved and taken away.

    nodes    _root <-> placeholder x <-> call_function add <-> output <-> _root       a ring; `_root` is never seen
                                              ^
                                        _insert: where the next node goes (before or after a node)
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.fx._codegen import CodeGen, GeneratedBy, PythonCode, Transform
from flambeau.fx._lint import lint
from flambeau.fx._namespace import Namespace, snake_case
from flambeau.fx._targets import function_name, is_ours
from flambeau.fx.node import Argument, Node, Target, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]


class _NodeList:
    """The nodes of a graph; a node may be erased while the list is gone through."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._length

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        at = getattr(root, self.direction)
        while at is not root:
            if at._erased:  # erased while it was looked at: its neighbours are still known
                at = getattr(at, self.direction)
                continue
            yield at
            at = getattr(at, self.direction)

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")

    def __repr__(self) -> str:
        return f"[{', '.join(node.name for node in self)}]"


class _InsertAt:
    """The region of `inserting_before` and `inserting_after`."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before, graph._insert = graph, graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.graph._insert = self.before


class Graph:
    """A program as a list of operations, which can be read, changed, and written as Python code.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import Graph, GraphModule
        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(fl.relu, (x,))
        >>> result = graph.output(y)
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=flambeau.relu](args = (%x,), kwargs = {})
            return relu
        >>> GraphModule({}, graph)(fl.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: type | None = None, tracer_extras: dict[str, Any] | None = None) -> None:
        self._length = 0
        self._names = Namespace()
        self._order_known = True
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._codegen = CodeGen()
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self.owning_module: Any = owning_module

    @property
    def nodes(self) -> _NodeList:
        """The nodes, in order; `reversed` goes through them from behind."""
        return _NodeList(self)

    @property
    def _graph_namespace(self) -> Namespace:
        return self._names

    def _number_nodes(self) -> None:
        if not self._order_known:
            for number, node in enumerate(self.nodes):
                node._place = number
            self._order_known = True

    # ------------------------------------------------------------------ making nodes

    def create_node(
        self, op: str, target: Target, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A new node where the graph inserts (at its end, unless `inserting_before` or `inserting_after` say otherwise).

        Raises:
            ValueError: `op` is none of a node's, or `target` does not go with it; an argument is a node of another graph.
            TypeError: `args` is not a tuple or `kwargs` not a dict.
        """
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, (tuple, list)):
            raise TypeError(f"Graph.create_node: args is a {type(args).__name__}; expected a tuple")
        if not isinstance(kwargs, dict):
            raise TypeError(f"Graph.create_node: kwargs is a {type(kwargs).__name__}; expected a dict")
        map_arg((tuple(args), kwargs), self._check_mine)
        # The node is made under no name first: what is wrong with it is said before a name is taken.
        node = Node(self, str(name or target), op, target, tuple(args), kwargs, type_expr)
        node.name = self._names.create_name(name if name is not None else self._target_to_str(target), node)
        self._insert(node)
        self._length += 1
        return node

    def _check_mine(self, node: Node) -> Node:
        if node.graph is not self:
            raise ValueError(f"Graph.create_node: argument {node.name} is a node of another graph; graph.node_copy brings it here")
        return node

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        if name.startswith("__") and name.endswith("__") and len(name) > 4:
            name = name[2:-2]
        if isinstance(target, types.FunctionType) and is_ours(target.__module__ or ""):
            space = function_name(target).split(".")[-2]
            if space in ("fft", "linalg", "special"):
                name = f"{space}_{name}"  # as PyTorch calls these functions inside
        return snake_case(name)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """A parameter, `name`; `*args` and `**kwargs` begin with stars."""
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the root, at a path with dots."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None, type_expr: Any = None
    ) -> Node:
        """A call of a method; the first argument is whose method it is."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None, type_expr: Any = None
    ) -> Node:
        """A call of a module of the root, at a path with dots."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the graph returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """A copy of another graph's node, whose arguments are what `arg_transform` makes of its nodes.

        Raises:
            ValueError: `arg_transform` gives a node of another graph than this one.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Argument | None:
        """Copies all nodes of `g` that are not in `val_map` to here, which then says what became of each; its output is not copied.

        Returns:
            what `g` returned, as this graph has it (with `return_output_node`: that, and the node); None where `g` has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    # ------------------------------------------------------------------ where, and away

    def inserting_before(self, n: Node | None = None) -> _InsertAt:
        """Nodes made from now on (inside of the `with`, if it is used so) go before `n`; None is the beginning of the graph.

        Raises:
            TypeError: `n` is no node.
            ValueError: `n` is of another graph, or erased.
        """
        return self.inserting_after(self._root) if n is None else _InsertAt(self, self._checked_place("before", n).prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertAt:
        """Nodes made from now on go after `n`, the last made the nearest; None is the end of the graph."""
        return self.inserting_before(self._root) if n is None else _InsertAt(self, self._checked_place("after", n).append)

    def _checked_place(self, side: str, n: Any) -> Node:
        if not isinstance(n, Node):
            raise TypeError(f"Graph.inserting_{side}: n is a {type(n).__name__}; expected a Node of this graph, or None")
        if n.graph is not self or n._erased:
            raise ValueError(f"Graph.inserting_{side}: node {n.name} {'was erased' if n._erased else 'is not in this graph'}")
        return n

    def erase_node(self, to_erase: Node) -> None:
        """Takes a node that nobody uses out of the graph.

        Raises:
            ValueError: the node is of another graph.
            RuntimeError: others use the node.
        """
        if to_erase.graph is not self:
            raise ValueError(f"Graph.erase_node: {to_erase.name} is a node of another graph")
        if to_erase.users:
            users = ", ".join(user.name for user in to_erase.users)
            raise RuntimeError(
                f"Graph.erase_node: {to_erase.name} still has {len(to_erase.users)} users in the graph: {users}; give them another value "
                "(replace_all_uses_with) or erase them first"
            )
        if to_erase._erased:
            return
        before, after = to_erase._prev, to_erase._next
        to_erase._leave_list()
        to_erase._prev, to_erase._next = before, after  # for who goes through the graph just now
        to_erase._erased = True
        to_erase._take((), {})
        self._names.forget(to_erase)
        self._length -= 1

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases, from behind, what nobody uses and what does nothing else (`Node.is_impure`).

        Returns:
            whether anything was erased.

        Raises:
            RuntimeError: the graph is not right (`lint`).
        """
        self.lint()
        keeps = Node.is_impure if is_impure_node is None else is_impure_node
        before = self._length
        for node in reversed(self.nodes):
            if not node.users and node.op not in ("placeholder", "output") and not keeps(node):
                self.erase_node(node)
        return self._length < before

    # ------------------------------------------------------------------ looking

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """All nodes of a kind, in order.

        Raises:
            ValueError: a function is looked for, and not said which.
        """
        if op == "call_function" and target is None:
            raise ValueError("Graph.find_nodes: target must not be None for call_function; say which function")
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """The node of what the graph returns.

        Raises:
            ValueError: there is none.
        """
        found = next((node for node in reversed(self.nodes) if node.op == "output"), None)
        if found is None:
            raise ValueError("Graph.output_node: the graph has no output; graph.output(value) makes one")
        return found

    def lint(self) -> None:
        """Checks that the graph can be run: names, order, users, and that the root has what is called.

        Raises:
            RuntimeError: it can not; the text has all faults.
        """
        lint(self)

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(str(node.format_node()) for node in self.nodes)])

    def print_tabular(self) -> None:
        """Prints a table of the nodes."""
        head = ("opcode", "name", "target", "args", "kwargs")
        rows = [tuple(str(x) for x in (n.op, n.name, n.target, n.args, n.kwargs)) for n in self.nodes]
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        for row in (head, tuple("-" * width for width in widths), *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    # ------------------------------------------------------------------ code

    def python_code(self, root_module: str, *, verbose: bool = False, **unused: Any) -> PythonCode:
        """The graph as Python code; `root_module` is what the code calls the root (`self`).

        Returns:
            `src`, the text, and `globals`, what its names mean.
        """
        return self._codegen._gen_python_code(self.nodes, root_module, Namespace(), verbose=verbose)

    def on_generate_code(self, make_transformer: Callable[[Transform | None], Transform]) -> GeneratedBy:
        """Sets what is made of the lines of the code: `make_transformer` gets what did it so far (or None), and returns a function from
        lines to lines. As a region it is undone at the end."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return GeneratedBy(self, before)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Lets another `CodeGen` write the code."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of a call as the parameters get them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What a call returns of what the output node has."""
        return self._codegen.process_outputs(out)

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        memo[id(self)] = copied
        nodes: dict[Node, Node] = {}
        for node in self.nodes:
            new = copied.node_copy(node, nodes.__getitem__)
            nodes[node] = memo[id(node)] = new
            if new.name != node.name:
                new._rename(node.name)
        for new in nodes.values():
            new.meta = {key: copy.deepcopy(value, memo) if key == "val" else value for key, value in new.meta.items()}
        copied._codegen = copy.deepcopy(self._codegen, memo)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """A list of nodes by number, as a ring would be followed too deep."""
        numbers = {node: i for i, node in enumerate(self.nodes)}

        def number(node: Node) -> _Numbered:
            return _Numbered(numbers[node])

        rows = [(n.op, n.target, map_arg(n.args, number), map_arg(n.kwargs, number), n.name, n.type, n.meta) for n in self.nodes]
        return {"rows": rows, "codegen": self._codegen, "tracer_cls": self._tracer_cls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from flambeau.fx.node import map_aggregate

        Graph.__init__(self, tracer_cls=state["tracer_cls"])
        made: list[Node] = []

        def node_of(x: Any) -> Any:
            return made[x.number] if isinstance(x, _Numbered) else x

        for op, target, args, kwargs, name, kind, meta in state["rows"]:
            made.append(self.create_node(op, target, map_aggregate(args, node_of), map_aggregate(kwargs, node_of), name, kind))
            made[-1].meta = meta
        self._codegen = state["codegen"]


class _Numbered:
    """A node in a pickle."""

    def __init__(self, number: int) -> None:
        self.number = number
