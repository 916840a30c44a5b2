"""The Python code of a graph: one function whose body has a line for each node.

    %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})        add = x + 1;  x = None

A name is let go (`x = None`) in the line that uses it last, so that values live no longer than in a program that does not keep them.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._C import Tensor
from flambeau.fx._namespace import ALWAYS_THERE, Namespace
from flambeau.fx._targets import GlobalNames, library_module, library_name
from flambeau.fx.node import Node, map_arg

__all__ = ["CodeGen", "PythonCode"]

Transform = Callable[[list[str]], list[str]]

_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%",
    operator.pow: "**", operator.lshift: "<<", operator.rshift: ">>", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.matmul: "@", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.gt: ">", operator.le: "<=", operator.ge: ">=",
}  # fmt: skip
_SHORT = {
    "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128", "bool": "b8",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
_PREFIX = {operator.neg: "-", operator.invert: "~", operator.pos: "+"}
_IN_PLACE = {
    operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=", operator.ifloordiv: "//=", operator.imod: "%=",
    operator.ipow: "**=", operator.ilshift: "<<=", operator.irshift: ">>=", operator.iand: "&=", operator.ior: "|=", operator.ixor: "^=",
    operator.imatmul: "@=",
}  # fmt: skip
_ARITY: dict[Any, int] = {
    **dict.fromkeys(_INFIX, 2), **dict.fromkeys(_PREFIX, 1), **dict.fromkeys(_IN_PLACE, 2), operator.getitem: 2, operator.setitem: 3,
}  # fmt: skip


@dataclasses.dataclass
class PythonCode:
    """Generated code, and what the names in it mean."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None  # line of `src` -> number of its node


def attribute_path(base: str, path: str) -> str:
    """`base` and the attributes below it, as an expression.

    >>> attribute_path("self", "layers.0.weight")
    'getattr(self.layers, "0").weight'
    """
    for part in path.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class CodeGen:
    """How a graph's code is written. A subclass changes its first line, its last, or what is done with arguments and results;
    `graph.set_codegen` takes it."""

    def __init__(self) -> None:
        self._body_transformer: Transform | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The first line; the root comes before the parameters, unless it is their first."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, descs: Any = None) -> str:
        """The last line."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """What of a call's arguments the parameters get."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What a call returns of what the graph returns."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """(name, value) of what this code generator's lines use besides."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *, verbose: bool = False, **unused: Any
    ) -> PythonCode:
        return _Writer(self, list(nodes), root_module, namespace, verbose).write()


class _Text(str):
    """Code in place of a value, which shows itself as it is."""

    def __repr__(self) -> str:
        return str(self)


class _Writer:
    """Writes one piece of code."""

    def __init__(self, codegen: CodeGen, nodes: list[Node], root: str, namespace: Namespace, verbose: bool) -> None:
        self.codegen, self.nodes, self.root, self.namespace, self.verbose = codegen, nodes, root, namespace, verbose
        self.globals = GlobalNames(namespace.create_name)
        self.parameters: list[str] = []
        self.returns = [""]
        self.wrapped: dict[str, None] = {}
        self.body: list[str] = []
        self.number_of_line: dict[int, int | None] = {}

    def write(self) -> PythonCode:
        for name, value in (*ALWAYS_THERE.items(), (library_name(), library_module()), *self.codegen.additional_globals()):
            self.globals.values[name] = value
        last_uses = _last_uses(self.nodes)
        for number, node in enumerate(self.nodes):
            if self.verbose and node.stack_trace:
                self.body.append("".join(f"# {line}\n" for line in _place(node.stack_trace)))
            start = sum(text.count("\n") for text in self.body)
            line = self._line(node)
            if node.op not in ("placeholder", "output"):
                gone = [self._name(n) for n in (*last_uses.get(node, ()), *(() if node.users else (node,)))]
                line += f";  {' = '.join((*gone, 'None'))}\n" if gone else "\n"
            self.body.append(line)
            for at in range(start, start + line.count("\n")):
                self.number_of_line[at] = number
        body = self.body or ["pass\n"]
        if self.codegen._body_transformer is not None:
            body = self.codegen._body_transformer(body)
        marks = "\n".join(f'{library_name()}.fx._symbolic_trace.wrap("{name}")' for name in self.wrapped)
        first = self.codegen.gen_fn_def(self.parameters, self.returns[0])
        if not "".join(body).strip():
            body = ["pass\n"]
        indented = "\n".join(f"    {line}" for line in "".join(body).lstrip("\n").split("\n"))
        src = f"\n{marks}\n\n{first}\n{indented}"
        before = src[: src.index(first)].count("\n") + first.count("\n") + 2  # lines are counted from 1
        return PythonCode(src, self.globals.values, {at + before: number for at, number in self.number_of_line.items()})

    # ------------------------------------------------------------------ values

    def _name(self, node: Node) -> str:
        return self.namespace.create_name(node.name, node)

    def value(self, arg: Any) -> str:
        """An argument as an expression."""
        if isinstance(arg, Node):
            return self._name(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return f"{self.globals.function(type(arg))}({', '.join(map(self.value, arg))})"
        if isinstance(arg, tuple):
            return f"({', '.join(map(self.value, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return f"{{{', '.join(f'{self.value(key)}: {self.value(item)}' for key, item in arg.items())}}}"
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        if isinstance(arg, enum.Enum):
            return f"{self.globals.function(type(arg))}.{arg.name}"
        text = repr(arg)
        if callable(arg) and hasattr(arg, "__name__"):  # a device can be called, too
            return self.globals.function(arg)
        if text.startswith(("flambeau.", "torch.")):  # element types, layouts, memory formats
            return self.globals.add(text, arg) if text.startswith(f"{library_name()}.") else text
        return text

    def call(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(arg)}" for key, arg in kwargs.items())])

    def _operand(self, arg: Any) -> str:
        """An argument beside an operator: a negative number would bind less than `**`."""
        text = self.value(arg)
        return f"({text})" if text.startswith("-") else text

    # ------------------------------------------------------------------ lines

    def _line(self, node: Node) -> str:
        kind = self._kind(node)
        if node.op == "placeholder":
            return self._placeholder(node, kind)
        if node.op == "output":
            if node.type is not None:
                self.returns[0] = f" -> {self.globals.type(node.type)}"
            return f"{self.codegen.generate_output(_Text(self.value(node.args[0] if node.args else None)))}\n"
        name = f"{self._name(node)}{kind}"
        target = node.target
        if node.op == "call_function":
            return self._function(node, name)
        assert isinstance(target, str)
        if node.op == "call_method":
            return f"{name} = {attribute_path(self._operand(node.args[0]), target)}({self.call(node.args[1:], node.kwargs)})"
        if node.op == "call_module":
            return f"{name} = {attribute_path(self.root, target)}({self.call(node.args, node.kwargs)})"
        return f"{name} = {attribute_path(self.root, target)}"

    def _kind(self, node: Node) -> str:
        """The annotation; what is to be read says the shape of a value that is known: `: "f32[2, 3]"`."""
        if node.type is not None:
            return f" : {self.globals.type(node.type)}"
        value = node.meta.get("val") if self.verbose else None
        return f': "{_SHORT.get(str(value.dtype).rpartition(".")[2], value.dtype)}{list(value.shape)}"' if isinstance(value, Tensor) else ""

    def _placeholder(self, node: Node, kind: str) -> str:
        target = str(node.target)
        default = f" = {self.value(node.args[0])}" if node.args else ""
        self.parameters.append(f"{target}{kind}{default}")
        plain, name = target.lstrip("*"), self._name(node)
        return "" if plain == name else f"{name} = {plain}\n"

    def _function(self, node: Node, name: str) -> str:
        target, args = node.target, node.args
        assert callable(target)
        if not node.kwargs and len(args) == _ARITY.get(target):
            if target in _INFIX:
                left = self._operand(args[0]) if target is operator.pow else self.value(args[0])
                return f"{name} = {left} {_INFIX[target]} {self.value(args[1])}"
            if target in _PREFIX:
                return f"{name} = {_PREFIX[target]}{self.value(args[0])}"
            if target is operator.getitem:
                return f"{name} = {self.value(args[0])}[{self.value(args[1])}]"
            if isinstance(args[0], Node):
                holder = self.value(args[0])
                if target is operator.setitem:
                    return f"{holder}[{self.value(args[1])}] = {self.value(args[2])};  {name} = {holder}"
                return f"{holder} {_IN_PLACE[target]} {self.value(args[1])};  {name} = {holder}"
        if target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return f"{name} = {attribute_path(self._operand(args[0]), args[1])}"
        called = self.globals.function(target)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(called)
        return f"{name} = {called}({self.call(args, node.kwargs)})"


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """node -> the nodes that nobody uses after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):

        def look(node: Node, user: Node = user) -> Node:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
            return node

        map_arg(user.args, look)
        map_arg(user.kwargs, look)
    return found


def _place(trace: str) -> list[str]:
    """The innermost line of a trace, in short."""
    match = re.findall(r'File "(.*?)", line (\d+), in (\S+)\n\s*(.*)', trace)
    return [f"File: {match[-1][0]}:{match[-1][1]} in {match[-1][2]}, code: {match[-1][3]}"] if match else []


class GeneratedBy:
    """What `graph.on_generate_code` returns: undoes it at the end of a `with`."""

    def __init__(self, graph: Any, before: Transform | None) -> None:
        self._graph, self._before = graph, before

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._graph._codegen._body_transformer = self._before
