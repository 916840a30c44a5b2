"""Translates `check` conditions into C++ that raises with the condition and the values in its text."""

from __future__ import annotations

import ast

from .table import Op, TableError

_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITH = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}


class _Condition:
    def __init__(self, op: Op, text: str) -> None:
        self.op, self.text = op, text
        self.tensors: list[str] = []
        self.values: list[str] = []
        self.dtypes = False

    def note(self, into: list[str], name: str) -> None:
        if name not in into:
            into.append(name)

    def emit(self, node: ast.AST) -> str:
        if isinstance(node, ast.Constant):
            return repr(node.value).lower() if isinstance(node.value, bool) else str(node.value)
        if isinstance(node, ast.Name):
            arg = self.op.sig.arg(node.id)
            if arg is None:
                raise TableError(f"{self.op.where}: check '{self.text}': no argument '{node.id}'")
            self.note(self.values, node.id)
            return node.id
        if isinstance(node, ast.UnaryOp):
            sign = {ast.USub: "-", ast.Not: "!"}[type(node.op)]
            return f"({sign}{self.emit(node.operand)})"
        if isinstance(node, ast.BinOp):
            return f"({self.emit(node.left)} {_ARITH[type(node.op)]} {self.emit(node.right)})"
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return "(" + sign.join(self.emit(v) for v in node.values) + ")"
        if isinstance(node, ast.Compare):
            parts, left = [], node.left
            for kind, right in zip(node.ops, node.comparators, strict=True):
                parts.append(f"{self.emit(left)} {_COMPARE[type(kind)]} {self.emit(right)}")
                left = right
            return "(" + " && ".join(parts) + ")"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            return f"static_cast<int64_t>({self.emit(node.args[0])}.size())"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return f"check::{node.func.id}({', '.join(self.emit(a) for a in node.args)})"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            self.note(self.tensors, name)
            if node.attr == "dtype":
                self.dtypes = True
            return {"ndim": f"int64_t{{{name}.ndim()}}", "numel": f"{name}.numel()", "dtype": f"{name}.dtype()",
                    "shape": f"IntList({name}.sizes())"}[node.attr]  # fmt: skip
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            name = node.value.value.id  # type: ignore[attr-defined]
            self.note(self.tensors, name)
            if isinstance(node.slice, ast.Slice):
                lower = self.emit(node.slice.lower) if node.slice.lower else "0"
                upper = self.emit(node.slice.upper) if node.slice.upper else "INT64_MAX"
                return f"slice_of({name}.sizes(), {lower}, {upper})"
            return f"{name}.size(static_cast<int>({self.emit(node.slice)}))"
        raise TableError(f"{self.op.where}: check '{self.text}': '{ast.unparse(node)}' is not understood")


def _argument(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return f'"{node.value}"'
    return {"True": "true", "False": "false", "None": "{}"}.get(ast.unparse(node), ast.unparse(node))


def emit_condition(op: Op, text: str) -> str:
    """A condition alone; calls in it are of predicates in fl::check."""
    return _Condition(op, str(text)).emit(ast.parse(str(text), mode="eval").body)


def emit_check(op: Op, text: str) -> str:
    """One C++ statement for one condition, or a call of a fl::check function."""
    tree = ast.parse(str(text), mode="eval").body
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id != "len":
        args = ", ".join([f'"{op.get("says", op.name)}"', *(_argument(a) for a in tree.args)])
        return f"  check::{tree.func.id}({args});"
    condition = _Condition(op, str(text))
    code = condition.emit(tree)
    optional = [t for t in condition.tensors if (a := op.sig.arg(t)) and a.type.spelling == "Tensor?"]
    guard = "".join(f"{t}.defined() && " for t in optional)
    kind = "DTypeError" if condition.dtypes else "ShapeError" if condition.tensors else "ArgumentError"
    said = []
    for t in condition.tensors:
        said += [f'"{t} is "', f"{t}.dtype()"] if condition.dtypes else [f'"{t} has shape "', f"{t}.sizes()"]
        said.append('", "')
    for v in condition.values:
        said += [f'"{v} = "', v, '", "']
    values = ", ".join(said[:-1])
    return f'  if ({guard}!({code})) raise<{kind}>("{op.name}: ", {values}, "; expected {text}");'
