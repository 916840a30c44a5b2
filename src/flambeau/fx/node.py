"""A node of a graph: one operation, its arguments, and who uses its result.

    op              target                       args
    placeholder     the parameter's name         () or (default,)
    get_attr        path of an attribute         ()
    call_function   the function                 its arguments
    call_method     the method's name            self, then its arguments
    call_module     path of the module           its arguments
    output          "output"                     what is returned

Nodes of a graph are a list in the order in which they are run; arguments that are nodes are counted, in `users` of these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._symbolic import _assert
from flambeau.fx._targets import function_name, library_name, pretty_type
from flambeau.fx.immutable_collections import immutable_dict, immutable_list
from flambeau.fx.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any
BaseArgumentTypes = str | int | float | bool | complex | Any
OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

_impure: set[Callable[..., Any]] = {_assert, operator.setitem, operator.delitem}
# Functions that draw: two calls are not one call, though nobody uses the result.
_DRAW = frozenset("bernoulli binomial multinomial normal poisson rand rand_like randint randint_like randn randn_like randperm".split())


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function whose calls stay in a graph though nobody uses their results; returns it, so that it is a decorator, too.

    Raises:
        TypeError: `fn` can not be called.
    """
    if not callable(fn):
        raise TypeError(f"has_side_effect: fn is a {type(fn).__name__}; expected a function")
    _impure.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """The same tuples (named ones, too), lists, dicts and slices, with `fn` of everything else in them; lists and dicts can not be changed.

    >>> map_aggregate((1, [2, {"a": 3}], slice(4)), lambda x: x and 10 * x)
    (10, [20, {'a': 30}], slice(None, 40, None))
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(item, fn) for item in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`map_aggregate` with `fn` of nodes alone.

    Raises:
        TypeError: `fn` can not be called.
    """
    if not callable(fn):
        raise TypeError(f"map_arg: fn is a {type(fn).__name__}; expected a function")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """One operation of a `Graph`; graphs make them (`graph.call_function(...)`).

    Example:
        >>> import operator
        >>> from flambeau.fx import Graph
        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(operator.add, (x, 1))
        >>> y.format_node()
        '%add : [num_users=0] = call_function[target=operator.add](args = (%x, 1), kwargs = {})'
        >>> y.args, list(x.users), y.all_input_nodes
        ((x, 1), [add], [x])

    Raises:
        ValueError: `op` is not one of the table above, or `target` is not what such an op has.
    """

    def __init__(
        self, graph: Any, name: str, op: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in OPS:
            raise ValueError(f"Node {name}: op = {op!r}; expected one of {', '.join(OPS[:-1])}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node {name}: target = {target!r} has type {type(target).__name__}; a Callable is expected for call_function")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"Node {name}: target = {target!r} has type {type(target).__name__}; a str is expected for {op}")
        self.graph = graph  # a Graph, whose module imports this one
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}  # in the order in which they came
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._erased = False
        self._place = 0  # its number in the graph, where the graph says that numbers are right
        self._prev = self._next = self
        self._take(args, kwargs)

    # ------------------------------------------------------------------ order

    @property
    def next(self) -> Node:
        """The node that is run after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node that is run before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves `x` to right before this node.

        Raises:
            ValueError: `x` is of another graph.
        """
        if self.graph is not x.graph:
            raise ValueError(f"Node.prepend: {x.name} is a node of another graph than {self.name}; graph.node_copy brings it here")
        if x is self:
            return
        x._leave_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._order_known = False

    def append(self, x: Node) -> None:
        """Moves `x` to right after this node.

        Raises:
            ValueError: `x` is of another graph.
        """
        if self.graph is not x.graph:
            raise ValueError(f"Node.append: {x.name} is a node of another graph than {self.name}; graph.node_copy brings it here")
        if x is not self:
            self._next.prepend(x)

    def _leave_list(self) -> None:
        before, after = self._prev, self._next
        before._next, after._prev = after, before
        self._prev = self._next = self
        self.graph._order_known = False

    def _number(self) -> int:
        self.graph._number_nodes()
        return self._place

    def __lt__(self, other: Node) -> bool:
        return self._number() < other._number()

    def __gt__(self, other: Node) -> bool:
        return self._number() > other._number()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # ------------------------------------------------------------------ arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments; assigning others says who is used now."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._take(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Keyword arguments; assigning others says who is used now."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._take(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def _take(self, args: Iterable[Argument], kwargs: dict[str, Argument]) -> None:
        """The only place where arguments, and with them the users of others, change."""
        inputs: dict[Node, None] = {}

        def note(node: Node) -> Node:
            inputs[node] = None
            return node

        taken = tuple(map_arg(list(args), note))
        named = map_arg(dict(kwargs), note)
        for old in self._input_nodes:
            if old not in inputs:
                old.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = taken, named, inputs
        for node in inputs:
            node.users.setdefault(self)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Puts `arg` at place `idx` of the arguments.

        Raises:
            IndexError: there are not so many arguments.
        """
        if not -len(self._args) <= idx < len(self._args):
            raise IndexError(f"Node.update_arg: idx = {idx}, but {self.name} has {len(self._args)} positional arguments")
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Puts `arg` before the argument at place `idx`, which may be behind the last.

        Raises:
            IndexError: there are not so many arguments.
        """
        if not 0 <= idx <= len(self._args):
            raise IndexError(f"Node.insert_arg: idx = {idx}; expected 0 <= idx <= {len(self._args)}, as many arguments {self.name} has")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Gives the keyword argument `key` the value `arg`."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses `new_input` wherever this node uses `old_input`."""

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._take(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Lets those who use this node use `replace_with`; `delete_user_cb` says of each whether it shall.

        Returns:
            the nodes that were changed.

        Raises:
            ValueError: `propagate_meta`, and `replace_with` has notes of its own.
        """
        if propagate_meta:
            if replace_with.meta:
                kept = sorted(replace_with.meta)
                raise ValueError(f"replace_all_uses_with: {replace_with.name} has meta {kept}; propagate_meta would lose it")
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ------------------------------------------------------------------ what it is

    @property
    def stack_trace(self) -> str | None:
        """Where the program said this, if the tracer kept it (`record_stack_traces`)."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node matters though nobody uses it: parameters, the output, functions and modules that do more than compute."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _impure or (impure_random and _draws(self.target))
        if self.op == "call_module":
            owner = self.graph.owning_module
            module = None if owner is None else owner.get_submodule(str(self.target))
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False
    ) -> ArgsKwargsPair | None:
        """The arguments with all parameters of the target, where it says their names; None for others: see `operator_schemas`."""
        if self.op == "call_module":
            return normalize_module(root, str(self.target), self._args, self._kwargs, normalize_to_only_use_kwargs)
        if self.op == "call_function":
            target: Any = self.target
            return normalize_function(target, self._args, self._kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.graph._names.forget(self)
            self.name = self.graph._names.create_name(candidate, self)

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        """Nodes are copied with their graph; one that is met elsewhere (in notes of another) stays who it is."""
        found: Node = memo.get(id(self), self)
        return found

    def _pretty_print_target(self, target: Target) -> str:
        return target if isinstance(target, str) else function_name(target)

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None, *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node's line in the text of its graph; parameters go to `placeholder_names` instead, if that is given."""
        kind = "" if self.type is None else f"{pretty_type(self.type)} "
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            if placeholder_names is not None:
                placeholder_names.append(f"%{self.target}{f' : {kind.strip()}' if kind else ''}")
                return None
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self.target}]"
        if self.op == "output":
            if self.type is not None and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {pretty_type(self.type)}"
            return f"return {self._args[0] if self._args else None}"
        args, kwargs = _formatted(self._args), _formatted(self._kwargs)
        return f"{head}[target={self._pretty_print_target(self.target)}](args = {args}, kwargs = {kwargs})"


def _formatted(arg: Any) -> str:
    if isinstance(arg, Node):
        return f"%{arg.name}"
    if isinstance(arg, list):
        return f"[{', '.join(map(_formatted, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_formatted, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_formatted(value)}' for key, value in arg.items())}}}"
    return str(arg)


def _draws(target: Any) -> bool:
    if getattr(target, "__name__", "") not in _DRAW:
        return False
    return function_name(target) == f"{library_name()}.{target.__name__}"
