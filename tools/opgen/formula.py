"""Translates gradient formulas (a subset of Python expressions) into C++ calls of ops.

`Formulas(op)` says, per gradient, which inputs, outputs, shapes and arguments it uses (what must be saved),
and gives the C++ text. Types are only told apart as far as needed: an expression is a tensor ("T"), a
number ("N"), either of the two ("O"), or something that is passed through ("X": lists, dtypes, flags).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from .signature import Arg
from .table import Op, TableError

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_NUMBERS = {ast.Add: "plus", ast.Sub: "minus", ast.Mult: "product"}
_META = ("shape", "dtype", "ndim", "numel", "sizes_along", "strides_of", "offset_of")


class Context:
    """Names that a formula may use, and those that it did."""

    def __init__(self, op: Op, ops: Mapping[str, Sequence[Op]], lets: Mapping[str, str] | None = None) -> None:
        self.op = op
        self.ops = ops
        self.lets = dict(lets or {})
        self.used: set[str] = set()  # inputs, outputs, aux, arguments by value
        self.meta: set[tuple[str, str]] = set()  # ("shape", "x") ...
        self.used_lets: set[str] = set()
        self.outs = {name for _, name in op.sig.outs}
        self.is_composite = "composite" in op.keys

    def fail(self, what: str) -> TableError:
        return TableError(f"{self.op.where}: {self.op.name}: {what}")

    def is_gradient(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id.startswith("d") and node.id[1:] in self.outs and not self.is_composite

    def name(self, name: str) -> tuple[str, str]:
        if name in ("True", "False"):
            return name.lower(), "X"
        if name == "None":
            return "{}", "X"
        if name in self.lets:
            self.used_lets.add(name)
            return name, "T"
        if name.startswith("needs_") and self.op.sig.arg(name[6:]):
            return f"needs_{name[6:]}", "X"
        if name.startswith("d") and name[1:] in self.outs:
            return name, "T"
        if name in self.outs or name in self.op.aux:
            self.used.add(name)
            return name, "T"
        arg = self.op.sig.arg(name)
        if arg is not None:
            self.used.add(name)
            kind = arg.type.spelling
            if kind == "Operand":
                return name, "O"
            if arg.is_tensor:
                return name, "T"
            return name, "N" if kind in ("int", "dim", "float", "number", "bool") else "X"
        if name == "total" and self.op.get("adds"):
            return name, "T"
        if name in ("inf", "nan", "pi"):
            return {"inf": "INFINITY", "nan": "NAN", "pi": "M_PI"}[name], "N"
        if name in ("bool", "int64", "int32", "float32", "float64", "uint8"):
            return {"uint8": "DType::UInt8"}.get(name, f"DType::{name.capitalize()}"), "X"
        raise self.fail(f"formula uses '{name}', which is no argument, output, aux or let")

    def call(self, node: ast.Call) -> tuple[str, str]:
        if not isinstance(node.func, ast.Name):
            raise self.fail(f"'{ast.unparse(node)}': only ops can be called")
        fn = node.func.id
        if fn in _META and fn not in self.ops:
            return self.meta_call(fn, node)
        if fn == "shape_at" and self.is_composite:  # one size of an argument's shape
            return f"{self.emit(node.args[0])[0]}.size({self.emit(node.args[1])[0]})", "N"
        if fn in ("float", "int"):
            return f"static_cast<{'double' if fn == 'float' else 'int64_t'}>({self.emit(node.args[0])[0]})", "N"
        if fn not in self.ops:
            raise self.fail(f"formula calls '{fn}', which is no op")
        overload = self.choose(fn, node, {k.arg for k in node.keywords if k.arg})
        names = [a.name for a in overload.sig.args]
        parts = [self.fitted(a, overload.sig.args[i]) for i, a in enumerate(node.args)]
        positional = parts
        parts = list(parts)
        keywords = {k.arg: self.fitted(k.value, overload.sig.args[names.index(k.arg)]) for k in node.keywords if k.arg}
        rest = overload.sig.args[len(positional) :]
        last = max((i for i, a in enumerate(rest) if a.name in keywords), default=-1)
        for a in rest[: last + 1]:
            if a.name in keywords:
                parts.append(keywords[a.name])
            elif a.cpp_default is not None:
                parts.append(a.cpp_default)
            else:
                raise self.fail(f"call '{ast.unparse(node)}' lacks argument '{a.name}'")
        return f"op::{fn}({', '.join(parts)})", "T"

    def fitted(self, node: ast.AST, arg: Arg) -> str:
        """An argument's code; a number or Operand becomes a 0-d tensor where the op wants a Tensor."""
        if arg.type.spelling == "Tensor?" and isinstance(node, ast.Name) and self.is_gradient(node) and len(self.outs) > 1:
            return f"{node.id}_or_none"  # a gradient that has not come needs no zeros
        code, kind = self.emit(node)
        if kind in ("O", "N") and arg.type.spelling == "Tensor":
            return f"as_tensor({code})"
        return code

    def choose(self, fn: str, node: ast.Call, keywords: set[str]) -> Op:
        n = len(node.args)
        for op in self.ops[fn]:
            names = [a.name for a in op.sig.args]
            required = [a.name for a in op.sig.args[n:] if a.default is None]
            if n <= len(names) and keywords <= set(names[n:]) and set(required) <= keywords:
                return op
        raise self.fail(f"no overload of '{fn}' takes '{ast.unparse(node)}'")

    def meta_call(self, fn: str, node: ast.Call) -> tuple[str, str]:
        target = node.args[0]
        if not isinstance(target, ast.Name):
            raise self.fail(f"{fn}() takes an argument's name")
        if fn == "sizes_along":
            dim = self.emit(node.args[1])[0]
            if self.is_composite:
                return f"fl::sizes_along({target.id}, {dim})", "X"
            self.meta.add(("sizes_along", f"{target.id}"))
            return f"{target.id}_sizes_along", "X"
        name = target.id
        is_grad = name.startswith("d") and name[1:] in self.outs
        if self.is_composite or is_grad or name in self.lets:
            self.name(name)
            return {"shape": f"meta::sizes({name})", "dtype": f"meta::dtype({name})", "ndim": f"meta::ndim({name})",
                    "numel": f"meta::numel({name})"}[fn], "N" if fn in ("ndim", "numel") else "X"  # fmt: skip
        if not (self.op.sig.arg(name) or name in self.outs or name in self.op.aux):
            raise self.fail(f"{fn}({name}): no such argument")
        self.meta.add((fn, name))
        return f"{name}_{fn}", "N" if fn in ("ndim", "numel") else "X"

    def emit(self, node: ast.AST) -> tuple[str, str]:
        if isinstance(node, ast.Expression):
            return self.emit(node.body)
        if isinstance(node, ast.Constant):
            v = node.value
            if isinstance(v, bool):
                return str(v).lower(), "X"
            if v is None:
                return "{}", "X"
            if isinstance(v, str):
                return f'"{v}"', "X"
            return f"int64_t{{{v}}}" if isinstance(v, int) else repr(v), "N"
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            code, kind = self.emit(node.operand)
            return (f"op::neg({code if kind == 'T' else f'as_tensor({code})'})", "T") if kind in ("T", "O") else (f"(-{code})", kind)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"(!{self.emit(node.operand)[0]})", "X"
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            (a, ka), (b, kb) = self.emit(node.left), self.emit(node.right)
            if isinstance(node.op, ast.Mult) and (ka, kb) == ("T", "N") and self.is_gradient(node.left):
                return f"times({a}, scalar_of({b}))", "T"
            if ka in ("T", "O") or kb in ("T", "O"):
                return f"op::{_BINARY[type(node.op)]}({a}, {b})", "T"
            if isinstance(node.op, ast.Div):
                return f"(static_cast<double>(number({a})) / static_cast<double>(number({b})))", "N"
            return f"{_NUMBERS[type(node.op)]}(number({a}), number({b}))", "N"
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.emit(e) for e in node.elts]
            if any(k in ("T", "O") for _, k in items):
                return "std::array<Tensor, " + str(len(items)) + ">{" + ", ".join(f"Tensor({c})" for c, _ in items) + "}", "X"
            values = [c for c, _ in items]
            return "Dims{" + ", ".join(values) + "}", "X"
        raise self.fail(f"'{ast.unparse(node)}' is not part of the formula language")


def translate(
    op: Op, ops: Mapping[str, Sequence[Op]], formula: str, lets: Mapping[str, str] | None = None, composite: bool = False
) -> tuple[str, Context]:
    """C++ text of one formula, and what it used. `composite`: of a body that stands in for the op's own."""
    context = Context(op, ops, lets)
    context.is_composite = context.is_composite or composite
    code, _ = context.emit(ast.parse(str(formula), mode="eval"))
    return code, context


def count_reads(formula: str, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(formula, mode="eval")))


def read_by_writer(formula: str, name: str, ops: Mapping[str, Sequence[Op]]) -> bool:
    """Whether the name is a direct argument of an op that can write its result there: an element-wise one, or one that says so (`over`)."""
    for node in ast.walk(ast.parse(formula, mode="eval")):
        if isinstance(node, ast.BinOp) and any(isinstance(side, ast.Name) and side.id == name for side in (node.left, node.right)):
            return True
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Name) and a.id == name for a in node.args):
            place = [isinstance(a, ast.Name) and a.id == name for a in node.args].index(True)
            called = ops.get(node.func.id, ()) if isinstance(node.func, ast.Name) else ()
            called = [op for op in called if len(op.sig.args) > place]
            return bool(called) and all("each" in op.keys or op.sig.args[place].name in op.get("over", {}).values() for op in called)
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Name) and node.operand.id == name:
            return True
    return False


def only_scaled(formula: str, name: str, ops: Mapping[str, Sequence[Op]]) -> bool:
    """Whether the formula is the named gradient times, or divided by, what does not depend on it, or an op of it that takes sparse tensors:
    `dy`, `neg(dy) * y / b`, `cast(dy, dtype(x))`.
    """

    def reads(node: ast.AST) -> bool:
        return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))

    def scaled(node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id == name
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return scaled(node.operand)
        if isinstance(node, ast.Call):
            takes = isinstance(node.func, ast.Name) and any(op.get("sparse") for op in ops.get(node.func.id, ()))
            return takes and scaled(node.args[0]) and not any(map(reads, node.args[1:]))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            if reads(node.left):
                return scaled(node.left) and not reads(node.right)
            return isinstance(node.op, ast.Mult) and scaled(node.right)
        return False

    return scaled(ast.parse(formula, mode="eval").body)


def differentiable(arg: Arg) -> bool:
    return arg.is_tensor or arg.type.many
