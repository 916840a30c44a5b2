"""What an entry's words are in C++: parameters, rules of shape and dtype, axes, and what follows from the `dtype` key."""

from __future__ import annotations

import ast
from typing import Any

from .table import Op, TableError


def params(op: Op, defaults: bool) -> str:
    """C++ parameter list. Defaults are only written for the trailing arguments that have one."""
    tail = len(op.sig.args)
    while tail and op.sig.args[tail - 1].default is not None:
        tail -= 1
    return ", ".join(
        f"{a.type.param} {a.name}" + (f" = {a.cpp_default}" if defaults and i >= tail else "")
        for i, a in enumerate(op.sig.args)
    )


def is_inplace_op(op: Op) -> bool:
    """`copy_(Tensor x, ...) -> Tensor x`: the entry itself writes into its first argument."""
    return op.name.endswith("_") and bool(op.sig.outs) and op.sig.outs[0][1] == op.sig.args[0].name


def op_inplace(op: Op) -> dict[str, Any]:
    """What `inplace` says of the form that writes into its first argument: `grad` and `when`, if anything."""
    value = op.get("inplace")
    return value if isinstance(value, dict) else {}


def rule_code(op: Op, text: str, space: str) -> str:
    """A shape or dtype rule as a C++ call; arguments are names, numbers and x.shape[i]."""

    def emit(node: ast.AST) -> str:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return f"{space}::{node.func.id}({', '.join(emit(a) for a in node.args)})"
        if isinstance(node, ast.Name):
            return {"True": "true", "False": "false"}.get(node.id, node.id)
        if isinstance(node, ast.Constant):
            return str(node.value).lower() if isinstance(node.value, bool) else "{}" if node.value is None else str(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return "-" + emit(node.operand)
        if isinstance(node, ast.List):
            return "Dims{" + ", ".join(emit(e) for e in node.elts) + "}"
        if isinstance(node, ast.BinOp):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/"}[type(node.op)]
            return f"(Extent({emit(node.left)}) {sign} {emit(node.right)})"  # never past 64 bits
        if isinstance(node, ast.Attribute):
            return f"{emit(node.value)}.{'ndim()' if node.attr == 'ndim' else 'sizes()'}"
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            return f"{emit(node.value.value)}.size({emit(node.slice)})"
        raise TableError(f"{op.where}: {op.name}: rule '{text}' is not understood")

    return emit(ast.parse(str(text), mode="eval").body)


DTYPES = {"bool": "Bool", "int64": "Int64", "int32": "Int32", "uint8": "UInt8", "float32": "Float32", "float64": "Float64"}


def dtype_code(op: Op, text: str) -> str:
    return f"DType::{DTYPES[text]}" if text in DTYPES else rule_code(op, text, "dt")


def per_output(op: Op, key: str, default: str | None = None) -> list[str]:
    value = op.get(key, default)
    if value is None:
        raise TableError(f"{op.where}: {op.name}: no `{key}`")
    names = [n for _, n in op.sig.outs]
    if isinstance(value, dict):
        missing = [n for n in names if n not in value]
        if missing:
            raise TableError(f"{op.where}: {op.name}: `{key}` lacks '{missing[0]}'")
        return [str(value[n]) for n in names]
    return [str(value)] * len(names)


def wrap_dims(op: Op) -> list[str]:
    """Statements that wrap every dim argument against the first tensor argument."""
    out = []
    for a in op.sig.args:
        t = a.type.spelling
        if not t.startswith("dim"):
            continue
        of = op.first_tensor or ""
        first = op.sig.arg(of) if of else None
        if first is None:
            lists = [x.name for x in op.sig.args if x.type.many]
            of = f"first_of({lists[0]})"
        elif first.type.spelling == "Operand":
            of = f"{of}.tensor()"
        call = f'wrap_dims("{op.name}", "{a.name}", {a.name}, {of})'
        if t in ("dim", "dim?"):
            out.append(f"  {a.name} = {call};")
        else:
            out.append(f"  const auto {a.name}_wrapped = {call};")
            out.append(f"  {a.name} = {a.name}_wrapped.list;")
    return out


def float_result(op: Op) -> bool:
    """Whether some result may be floating point, so that a gradient may arrive."""
    return any(r not in DTYPES or r.startswith("float") for r in dtype_rules(op))


def dtype_rules(op: Op) -> list[str]:
    rule = op.get("dtype")
    return [str(r) for r in (rule.values() if isinstance(rule, dict) else [rule])]
