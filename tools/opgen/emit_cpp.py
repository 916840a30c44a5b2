"""Entry -> C++: declaration, checks, wrapper, autograd node, and the loops of `each` bodies."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from .checks import emit_check, emit_condition
from .formula import Context, differentiable, translate
from .signature import Arg
from .table import Op, TableError

Table = Mapping[str, Sequence[Op]]


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


def declaration(op: Op) -> list[str]:
    lines = [f"{op.sig.cpp_result} {op.name}({params(op, True)});"]
    if op.get("inplace"):
        lines.append(f"Tensor {op.name}_({params(op, True)});")
    return lines


def native_declarations(op: Op) -> list[str]:
    """What the op expects of csrc/wrappers/native*.cpp."""
    if op.get("composite") == "native":
        written = [f"Tensor {op.name}_({params(op, False)});"] if op.get("inplace") == "native" else []
        return [f"{op.sig.cpp_result} {op.name}({params(op, False)});", *written]
    if not op.get("shortcut"):
        return []
    kinds = ("", "_") if op.get("inplace") else ("",)
    return [f"{op.sig.cpp_result} {op.name}_shortcut{kind}({params(op, False)});" for kind in kinds]


def _shortcut(op: Op, kind: str = "") -> list[str]:
    if not op.get("shortcut"):
        return []
    args = ", ".join(a.name for a in op.sig.args)
    return [f"  if ({op.sig.cpp_result} short_way = native::{op.name}_shortcut{kind}({args}); short_way.defined()) return short_way;"]


# ---------------------------------------------------------------- rules


def _rule(op: Op, text: str, space: str) -> str:
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


_DTYPES = {"bool": "Bool", "int64": "Int64", "int32": "Int32", "uint8": "UInt8", "float32": "Float32", "float64": "Float64"}


def _dtype_rule(op: Op, text: str) -> str:
    return f"DType::{_DTYPES[text]}" if text in _DTYPES else _rule(op, text, "dt")


def _per_output(op: Op, key: str, default: str | None = None) -> list[str]:
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


def _wrap_dims(op: Op) -> list[str]:
    """Statements that wrap every dim argument against the first tensor argument."""
    out = []
    for a in op.sig.args:
        t = a.type.spelling
        if not t.startswith("dim"):
            continue
        of = op.first_tensor or ""
        first = op.sig.arg(of) if of else None
        if first is None:
            lists = [x.name for x in op.sig.args if x.type.spelling == "Tensor[]"]
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


# ---------------------------------------------------------------- autograd


def _float_result(op: Op) -> bool:
    """Whether some result may be floating point, so that a gradient may arrive."""
    return any(r not in _DTYPES or r.startswith("float") for r in _dtype_rules(op))


def _dtype_rules(op: Op) -> list[str]:
    rule = op.get("dtype")
    return [str(r) for r in (rule.values() if isinstance(rule, dict) else [rule])]


class NodeWriter:
    """The autograd node of an op: members, what is saved when, apply()."""

    def __init__(self, op: Op, table: Table) -> None:
        self.op, self.table = op, table
        self.name = f"{''.join(p.capitalize() for p in op.name.strip('_').split('_'))}Backward{op.overload or ''}"
        grads = [([n.strip() for n in key.split(",")], str(text)) for key, text in op.get("grad", {}).items()]
        self.grads = [(names, text) for names, text in grads if text != "none"]
        self.named = {n for names, _ in self.grads for n in names}
        flat = {n for names, text in grads if text == "none" for n in names}
        writes = op.get("inplace") or is_inplace_op(op)
        self.inputs: list[Arg] = []  # those that own an edge, lists last
        self.refused: list[Arg] = []  # ... and have no formula: backward raises when it gets there
        for i, a in enumerate(op.sig.args):
            if not differentiable(a) or (a.name in flat and not (i == 0 and writes)):
                continue
            overwritten = i == 0 and is_inplace_op(op)
            refused = a.name not in self.named and a.name not in flat and not overwritten and _float_result(op)
            if refused:
                self.refused.append(a)
            if a.name in self.named or refused or (i == 0 and writes):
                self.inputs.append(a)
        self.inputs.sort(key=lambda a: a.type.spelling == "Tensor[]")
        self.lets = {k: str(v) for k, v in op.get("let", {}).items()}
        self.uses: dict[str, set[str]] = {}  # saved name -> inputs whose gradient needs it
        self.metas: dict[tuple[str, str], set[str]] = {}
        self.let_code: dict[str, tuple[str, Context]] = {}
        self.let_for: dict[str, set[str]] = {}
        self.code: list[tuple[list[str], str, Context]] = []
        self.by_output: tuple[str, Context] | None = None  # the first input's gradient once it is overwritten
        if self.grads:
            self._translate()

    @property
    def exists(self) -> bool:
        return bool(self.grads or self.refused)

    def _translate(self) -> None:
        for name, text in self.lets.items():
            earlier = {k: v for k, v in self.lets.items() if k in self.let_code}
            self.let_code[name] = translate(self.op, self.table, text, earlier)
        for names, text in self.grads:
            code, context = translate(self.op, self.table, text, self.lets)
            self.code.append((names, code, context))
            self._spread(context, set(names))
        if formula := op_inplace(self.op).get("grad"):
            self.by_output = translate(self.op, self.table, str(formula[self.op.sig.args[0].name]))

    def saved(self) -> list[str]:
        """Names of what the node keeps for some form of the op."""
        return sorted({*self.uses, *(self.by_output[1].used if self.by_output else ())})

    def _spread(self, context: Context, wanted: set[str]) -> None:
        for n in context.used:
            self.uses.setdefault(n, set()).update(wanted)
        for m in context.meta:
            self.metas.setdefault(m, set()).update(wanted)
        for let in context.used_lets:
            self.let_for.setdefault(let, set()).update(wanted)
            self._spread(self.let_code[let][1], wanted)

    def needs_fit(self) -> bool:
        shape = str(self.op.get("shape", ""))
        return shape.startswith("broadcast") or is_inplace_op(self.op) or "each" in self.op.keys or bool(self.op.get("inplace"))

    def fits(self, name: str) -> str | None:
        """How a gradient is fitted to its argument: `note` (shape and type), `note_type`, or not at all."""
        a = self.op.sig.arg(name)
        if name not in self.named or a is None or a.type.spelling == "Tensor[]":
            return None
        if self.needs_fit():
            return "note"
        return "note_type" if any("given" in r for r in _dtype_rules(self.op)) else None

    def member(self, name: str) -> str:
        a = self.op.sig.arg(name)
        if a is None or a.type.spelling in ("Tensor", "Tensor?"):
            return f"SavedTensor {name}_;"
        if a.type.spelling == "Operand":
            return f"SavedOperand {name}_;"
        if a.type.spelling == "Tensor[]":
            return f"std::vector<SavedTensor> {name}_;"
        return f"{a.type.store} {name}_{{}};"

    def outs(self) -> list[str]:
        return [n for _, n in self.op.sig.outs]

    def index(self, name: str) -> int:
        return [a.name for a in self.inputs].index(name)

    def struct(self) -> list[str]:
        op = self.op
        out = [f"struct {self.name} final : Node {{", f"  {self.name}() : Node({len(self.outs())}) {{}}"]
        out += [f"  {self.member(n)}" for n in self.saved()]
        if self.by_output:
            out.append("  bool by_output = false;  // written in place: the gradient follows from what was written")
        for fn, n in sorted(self.metas):
            kind = {"shape": "Dims", "dtype": "DType", "ndim": "int64_t", "numel": "int64_t", "sizes_along": "Dims", "strides_of": "Dims", "offset_of": "int64_t"}[fn]
            out.append(f"  {kind} {n}_{fn}{{}};")
        out += [f"  Fit {a.name}_fit;" for a in self.inputs if self.fits(a.name)]
        if op.sig.is_list:
            out.append("  std::vector<OutMeta> out_metas;")
        elif len(self.outs()) > 1:
            out += [f"  OutMeta {n}_out;" for n in self.outs()]
        out.append(f"  const char* name() const override {{ return {self._shown_name()}; }}")
        out.append("  void apply([[maybe_unused]] BackwardCall& call) override {")
        out += self._apply()
        out.append("  }")
        cleared = [n for n in self.saved() if self._is_saved(n)]
        if cleared:
            out.append("  void release_saved() override {")
            for n in cleared:
                a = op.sig.arg(n)
                out.append(f"    {n}_.clear();" if not (a and a.type.spelling == "Tensor[]") else f"    for (auto& s : {n}_) s.clear();")
            out.append("  }")
        out.append("};")
        return out

    def _shown_name(self) -> str:
        """What `grad_fn.name()` returns, as a C++ expression: a number stands at the end, by default that of the overload."""
        node = self.op.get("node") or f"{self.name.removesuffix(str(self.op.overload or ''))}{self.op.overload}"
        if isinstance(node, str):
            return f'"{node}"'
        (argument,) = (name for name in node if name != "else")
        if argument not in self.uses:
            raise ValueError(f"{self.op.where}: node asks for '{argument}', which no gradient uses")
        return f'{argument}_ ? "{node[argument]}" : "{node["else"]}"'

    def _is_saved(self, name: str) -> bool:
        a = self.op.sig.arg(name)
        return a is None or differentiable(a)

    def _unpack(self, names: set[str], done: set[str], indent: str) -> list[str]:
        out = []
        for n in sorted(names - done):
            a = self.op.sig.arg(n)
            if a is None or a.type.spelling in ("Tensor", "Tensor?"):
                out.append(f'{indent}[[maybe_unused]] const Tensor {n} = {n}_.unpack(*this, "{n}");')
            elif a.type.spelling == "Operand":
                out.append(f'{indent}Tensor {n}_keep; const Operand {n} = {n}_.unpack(*this, "{n}", {n}_keep);')
            elif a.type.spelling == "Tensor[]":
                out.append(f"{indent}std::vector<Tensor> {n};")
                out.append(f'{indent}for (auto& s : {n}_) {n}.push_back(s.unpack(*this, "{n}"));')
            else:
                out.append(f"{indent}const auto& {n} = {n}_;")
        return out

    def _apply(self) -> list[str]:
        op, out = self.op, []
        if op.sig.is_list:
            name = self.outs()[0]
            out.append(f"    std::vector<Tensor> d{name} = materialize(call.in, out_metas);")
        elif len(self.outs()) > 1:
            used = " ".join(code for _, code, _ in self.code) + " ".join(c for c, _ in self.let_code.values())
            for i, n in enumerate(self.outs()):
                if f"d{n}" in used:
                    out.append(f"    const Tensor d{n} = {n}_out.materialize(call.in[{i}]);")
        else:
            out.append(f"    [[maybe_unused]] const Tensor& d{self.outs()[0]} = call.in[0];")
        for a in self.inputs:
            i = self.index(a.name)
            if a in self.refused:
                many = a.type.spelling == "Tensor[]"
                out.append(f'    refuse_gradient(call, {i}, {"edges.size()" if many else i + 1}, "{op.name}", "{a.name}");')
            elif a.type.spelling == "Tensor[]":
                out.append(f"    [[maybe_unused]] const bool needs_{a.name} = edges.size() > {i};")
            else:
                out.append(f"    [[maybe_unused]] const bool needs_{a.name} = call.needs({i}) && edges[{i}].fn;")
        done: set[str] = set()
        for let, (code, context) in self.let_code.items():
            if let not in self.let_for:
                continue
            wanted = " || ".join(f"needs_{n}" for n in sorted(self.let_for[let]))
            out.append(f"    Tensor {let};")
            out.append(f"    if ({wanted}) {{")
            out += self._unpack(context.used, done, "      ")
            out.append(f"      {let} = {code};")
            out.append("    }")
        for names, code, context in self.code:
            wanted = " || ".join(f"needs_{n}" for n in names)
            if self.by_output and names == [op.sig.args[0].name]:
                over, over_context = self.by_output
                out.append(f"    if ({wanted} && by_output) {{")
                out += self._unpack(over_context.used, done, "      ")
                out += self._store(names[0], over)
                out.append(f"    }} else if ({wanted}) {{")
            else:
                out.append(f"    if ({wanted}) {{")
            out += self._unpack(context.used, done, "      ")
            if len(names) == 1:
                out += self._store(names[0], code)
            else:
                parts = ", ".join(f"g_{n}" for n in names)
                out.append(f"      auto [{parts}] = {code};")
                for n in names:
                    out.append(f"      if (needs_{n}) {{")
                    out += self._store(n, f"std::move(g_{n})")
                    out.append("      }")
            out.append("    }")
        return out

    def _store(self, name: str, code: str) -> list[str]:
        i = self.index(name)
        a = self.op.sig.arg(name)
        if a is not None and a.type.spelling == "Tensor[]":
            return [f"      auto grads = {code};",
                    f"      for (size_t k = 0; k < grads.size(); ++k) if (edges[{i} + k].fn) call.set({i} + k, std::move(grads[k]));"]  # fmt: skip
        return [f"      call.set({i}, {name}_fit.apply({code}));" if self.fits(name) else f"      call.set({i}, {code});"]

    # In the wrapper. `before` runs ahead of the kernel, `after` once the outputs exist.

    def before(self, inplace: bool = False) -> list[str]:
        op = self.op
        checks = [f"requires_grad({a.name})" for a in self.inputs]
        out = [f"  const bool record = grad_enabled() && ({' || '.join(checks)});"]
        out += [f"  Ref<{self.name}> node;", "  if (record) {", f"    node = make_ref<{self.name}>();"]
        over = self.by_output if inplace else None
        if over:
            when = op_inplace(op).get("when")
            out.append(f"    node->by_output = {emit_condition(op, when) if when else 'true'};")
        for a in self.inputs:
            if a.type.spelling == "Tensor[]":
                out.append(f"    for (const Tensor& t : {a.name}) node->edges.push_back(edge_of(t));")
            else:
                out.append(f"    node->edges.push_back(edge_of({a.name}));")
        outs = set(self.outs())
        for n in self.saved():
            a = op.sig.arg(n)
            if a is None or (is_inplace_op(op) and n in outs):
                continue
            guard = self._guard(self.uses[n]) if n in self.uses else ""
            if over and n == op.sig.args[0].name:
                guard = "if (!node->by_output) "
            if a.type.spelling in ("Tensor", "Tensor?", "Operand"):
                how = "save_copy" if inplace and n == op.sig.args[0].name else "save"
                out.append(f"    {guard}node->{n}_.{how}({n});")
            elif a.type.spelling == "Tensor[]":
                out.append(f"    for (const Tensor& t : {n}) node->{n}_.emplace_back().save(t);")
            elif a.type.spelling in ("int[]?", "dim[]?"):
                out.append(f"    if ({n}) node->{n}_ = Dims(*{n});")
            elif a.type.spelling in ("str", "str?"):
                out.append(f"    node->{n}_ = {n};")
            elif a.type.store == "Dims":
                out.append(f"    node->{n}_ = Dims({n});")
            else:
                out.append(f"    node->{n}_ = {n};")
        for fn, n in sorted(self.metas):
            if n not in outs and n not in op.aux:
                if fn == "sizes_along":
                    out.append(f"    node->{n}_{fn} = fl::sizes_along({n}, dim);")
                else:
                    out.append(f"    node->{n}_{fn} = meta::{'sizes' if fn == 'shape' else fn}({n});")
        out.append("  }")
        return out

    def _guard(self, wanted: set[str]) -> str:
        all_inputs = {a.name for a in self.inputs}
        names = sorted(n for n in wanted if n in all_inputs)
        if len(all_inputs) == 1 or set(names) >= {a.name for a in self.inputs}:
            return ""
        return "if (" + " || ".join(f"requires_grad({n})" for n in names) + ") "

    def after(self) -> list[str]:
        """Saves outputs and aux, notes shapes, and makes the node the outputs' history (not in place)."""
        op, out = self.op, ["  if (record) {"]
        outs = self.outs()
        out += self.save_outputs()
        if op.sig.is_list:
            out.append(f"    node->outputs = static_cast<uint32_t>({outs[0]}.size());")
            out.append(f"    for (size_t k = 0; k < {outs[0]}.size(); ++k) {{")
            out.append(f"      node->out_metas.emplace_back({outs[0]}[k]);")
            out.append(f"      set_history({outs[0]}[k], node, static_cast<uint32_t>(k));")
            out.append("    }")
        else:
            for i, n in enumerate(outs):
                if len(outs) > 1:
                    out.append(f"    node->{n}_out = OutMeta({n});")
                out.append(f"    if (is_float({n}.dtype())) set_history({n}, {'node' if i + 1 < len(outs) else 'std::move(node)'}, {i});")
        out.append("  }")
        return out

    def save_outputs(self, output: str | None = None) -> list[str]:
        op, out = self.op, []
        outs = self.outs()
        for n in self.saved():
            if op.sig.arg(n) is not None and not (is_inplace_op(op) and n in outs):
                continue
            if n in outs:
                if n not in self.uses:
                    if not output:
                        continue
                    out.append("    if (node->by_output)")
                out.append(f"    node->{n}_.save_output({output or n}, {outs.index(n)});")
            elif n in op.aux:
                out.append(f"    node->{n}_.save({n});")
        for fn, n in sorted(self.metas):
            if (n in outs and not is_inplace_op(op)) or n in op.aux:
                out.append(f"    node->{n}_{fn} = meta::{'sizes' if fn == 'shape' else fn}({output if output and n in outs else n});")
        reference = output or (outs[0] if not op.sig.is_list else None)
        if reference:
            out += [f"    node->{a.name}_fit.{how}({a.name}, {reference});" for a in self.inputs if (how := self.fits(a.name))]
        return out


# ---------------------------------------------------------------- wrappers


def _devices(op: Op, inplace: bool = False) -> list[str]:
    """Tensors on meta beside others: the rule of check_devices(), for every op with more than one tensor.

    An op whose result's size depends on elements (`shape: by_value`) takes no meta tensor at all.
    """
    args = [a for a in op.sig.args if a.is_tensor or a.type.spelling == "Tensor[]"]
    by_value = op.get("shape") == "by_value"
    formula = "composite" in op.keys and op.get("composite") != "native"  # its ops have the rule
    if not args or (len(args) == 1 and args[0].type.spelling != "Tensor[]" and not by_value) or (formula and not inplace):
        return []
    written = {args[0].name} if inplace or is_inplace_op(op) else set(op.get("mutates", []))
    rule = "ByValue" if by_value else "Copies" if op.get("devices") == "any" else "One"
    listed = ", ".join(f'{{"{a.name}", {a.name}, {"true" if a.name in written else "false"}}}' for a in args)
    name = f"{op.name}_" if inplace else op.name
    return [
        f"  if (any_meta({', '.join(a.name for a in args)})) [[unlikely]]",
        f'    check_devices("{name}", DeviceRule::{rule}, {{{listed}}});',
    ]


def _each_args(op: Op) -> tuple[list[Arg], list[Arg]]:
    operands = [a for a in op.sig.args if a.is_tensor]
    return operands, [a for a in op.sig.args if not a.is_tensor]


def _scalar_params(arg: Arg) -> list[str]:
    """An optional number takes two parameters: its value, and whether it was given (`has_x` in the body)."""
    value = f"scalar_of({arg.name})"
    return [value, f"Scalar({arg.name}.has_value())"] if arg.type.spelling.endswith("?") else [value]


def _each_compute(op: Op, operands: list[Arg]) -> str:
    """The type the loop runs in: the result's, or for bool results what the operands promote to."""
    if str(op.get("dtype")) == "bool":
        rule = "promote_float" if op.get("types") == "float" else "promote"
        return f"dt::{rule}(" + ", ".join(a.name for a in operands) + ")"
    return _dtype_rule(op, str(op.get("dtype")))


def _each_call(op: Op, target: str | None) -> list[str]:
    operands, scalars = _each_args(op)
    out = [f"  const Operand each_in[] = {{{', '.join(a.name for a in operands)}}};"]
    given = ", ".join(p for a in scalars for p in _scalar_params(a)) or "Scalar()"
    out.append(f"  const Scalar each_params[] = {{{given}}};")
    compute = _each_compute(op, operands)
    result = "DType::Bool" if str(op.get("dtype")) == "bool" else "each_type"
    out.append(f"  const DType each_type = {compute};")
    head = f'kernels::each_{op.ident}, "{op.name}{"_" if target else ""}", {result}, each_type, each_in, {len(operands)}, each_params'
    if target:
        out.append(f"  run_each_into({head}, {target});")
    else:
        out.append(f"  Tensor {op.sig.outs[0][1]} = run_each({head});")
    return out


def _kernel_call(op: Op) -> list[str]:
    out, names = [], []
    inplace = is_inplace_op(op)
    contiguous = op.get("layout", "contiguous") == "contiguous" and not op.get("view")
    mutated = set(op.get("mutates", []))
    cast = str(op.get("dtype", "")).startswith("float_of") or str(op.get("dtype", "")).startswith("given")
    for i, a in enumerate(op.sig.args):
        tensor = a.type.spelling in ("Tensor", "Tensor?")
        if tensor and contiguous and a.name not in mutated and not (inplace and i == 0):
            source = a.name
            if cast and a.name == op.first_tensor:
                source = f"cast_for_kernel({a.name}, {op.sig.outs[0][1]}.dtype())" if not op.makes_output else a.name
            out.append(f"  const Tensor {a.name}_k = contiguous_for_kernel({source});")
            names.append(f"{a.name}_k")
        elif a.type.spelling == "Tensor[]" and contiguous:
            out.append(f"  const std::vector<Tensor> {a.name}_k = contiguous_for_kernel({a.name});")
            names.append(f"{a.name}_k")
        elif a.type.spelling == "Operand":
            names.append(a.name)
        else:
            names.append(a.name)
    if op.makes_output or op.get("view"):
        outs = [n for _, n in op.sig.outs] + list(op.aux)
        target = f"auto {outs[0]}" if len(outs) == 1 else f"auto [{', '.join(outs)}]"
        if op.sig.is_list and len(outs) == 1:
            target = f"std::vector<Tensor> {outs[0]}"
        out.append(f"  {target} = kernels::{op.get('kernel')}({', '.join(names)});")
        if op.get("view"):
            first = op.first_tensor
            if op.sig.is_list:
                out.append(f"  for (Tensor& view : {outs[0]}) track_view(view, {first});")
            else:
                out.append(f"  track_view({outs[0]}, {first});")
        return out
    outs = [] if inplace else [n for _, n in op.sig.outs]
    call = f"kernels::{op.get('kernel')}({', '.join([*names, *op.aux, *outs])});"
    guard = f"if (!{(outs[0] if outs else op.sig.args[0].name)}.is_meta()) " if op.sig.outs else ""
    out.append(f"  {guard}{call}")
    return out


def _allocate(op: Op) -> list[str]:
    """Outputs and aux of a kernel, by the shape and dtype rules."""
    out = []
    shapes, dtypes = _per_output(op, "shape"), _per_output(op, "dtype")
    device = f"device_of({', '.join(a.name for a in op.sig.args if differentiable(a))})"
    if not any(differentiable(a) for a in op.sig.args):
        device = "device.value_or(Device{})" if op.sig.arg("device") else "Device{}"
    out.append(f"  const Device out_device = {device};")
    for (_, n), shape, dtype in zip(op.sig.outs, shapes, dtypes, strict=True):
        out.append(f"  Tensor {n} = new_output(\"{op.name}\", {_rule(op, shape, 'shape')}, {_dtype_rule(op, dtype)}, out_device);")
    for n, rule in op.aux.items():
        text = str(rule)
        shape, _, dtype = text.rpartition(", ") if text.rsplit(", ", 1)[-1] in _DTYPES else (text, "", "")
        kind = f"DType::{_DTYPES[dtype]}" if dtype else f"dt::aux_of({op.sig.outs[0][1]})"
        out.append(f"  Tensor {n} = new_output(\"{op.name}\", {_rule(op, shape, 'shape')}, {kind}, out_device);")
    return out


def _recorded(op: Op, name: str) -> list[str]:
    """The way round through the profiler: the wrapper calls itself inside of an event."""
    call = f"[&] {{ return op::{name}({', '.join(a.name for a in op.sig.args)}); }}"
    tensors = "".join(f", {a.name}" for a in op.sig.args if a.is_tensor or a.type.spelling == "Tensor[]")
    kind, work = "recorded", ""
    if op.get("flops"):
        kind = "recorded_work"
        outs = [n for _, n in op.sig.outs]
        results = f"const auto& {outs[0]}" if len(outs) == 1 else "const auto& results"
        unpack = "" if len(outs) == 1 else f"[[maybe_unused]] const auto& [{', '.join(outs)}] = results; "
        work = f", [&]([[maybe_unused]] {results}) -> double {{ {unpack}return {_rule(op, str(op.get('flops')), 'flops')}; }}"
    return [
        "  if (profile::on()) [[unlikely]]",
        f'    if (profile::enter()) return profile::{kind}("{name}", {call}{work}{tensors});',
    ]


def _autocast(op: Op) -> list[str]:
    """Inside of an autocast region: the same call, with other arguments and autocast off.

    An op that widens and has an argument `dtype` is given that instead of a cast of its first tensor.
    """
    kind = op.get("autocast")
    if kind is None:
        return []
    tensors = [a.name for a in op.sig.args if a.type.spelling in ("Tensor", "Tensor?")]
    how = "{" + ", ".join(f"&{n}" for n in tensors) + "}" if kind == "promote" else f"(AutocastCall::{str(kind).capitalize()})"
    if kind == "widen" and any(a.name == "dtype" for a in op.sig.args):
        given = {"dtype": f"dtype ? dtype : cast.result({tensors[0]})", tensors[0]: tensors[0]}
        args = ", ".join(given.get(a.name, f"cast({a.name})" if a.is_tensor else a.name) for a in op.sig.args)
    else:
        args = ", ".join(f"cast({a.name})" if a.is_tensor or a.type.spelling == "Tensor[]" else a.name for a in op.sig.args)
    return [
        "  if (thread_modes().autocast) [[unlikely]] {",
        f"    const AutocastCall cast{how};",
        f"    return op::{op.name}({args});",
        "  }",
    ]


def wrapper(op: Op, table: Table) -> tuple[list[str], list[str]]:
    """(node struct, function bodies)."""
    node = NodeWriter(op, table)
    result = op.sig.cpp_result
    body: list[str] = [f"{result} {op.name}({params(op, False)}) {{", *_autocast(op), *_recorded(op, op.name), *_devices(op), *_shortcut(op)]
    body += _wrap_dims(op)
    body += [emit_check(op, c) for c in op.get("check", [])]
    outs = [n for _, n in op.sig.outs]
    struct = node.struct() if node.exists else []
    ret = f"  return {outs[0]};" if len(outs) == 1 else f"  return {{{', '.join(outs)}}};" if outs else ""
    if "composite" in op.keys:
        text = str(op.get("composite"))
        if text == "native":
            body.append(f"  return native::{op.name}({', '.join(a.name for a in op.sig.args)});")
        else:
            code, _ = translate(op, table, text)
            body.append(f"  return {code};")
    elif is_inplace_op(op):
        x = op.sig.args[0].name
        body.append(f'  check_inplace("{op.name}", {x});')
        if node.exists:
            body += node.before()
        else:
            body.append(f'  Ref<Node> node = overwrite_node("{op.name}", {x});')
        body += _kernel_call(op)
        body.append(f'  bump_version("{op.name}", {x});')
        if node.exists:
            body.append("  if (record) {")
            body += node.save_outputs(x)
            body.append(f"    rebase_history({x}, std::move(node));")
            body.append("  }")
        else:
            body.append(f"  if (node) rebase_history({x}, std::move(node));")
        body.append(f"  return {x};")
    else:
        if node.exists:
            body += node.before()
        if "each" in op.keys:
            body += _each_call(op, None)
        else:
            if not op.makes_output and not op.get("view"):
                body += _allocate(op)
            body += _kernel_call(op)
        for n in op.get("mutates", []):
            body.append(f'  if ({n}.defined()) bump_version("{op.name}", {n});')
        if node.exists:
            body += node.after()
        body.append(ret)
    body.append("}")
    if op.get("inplace"):
        body += _inplace(op, node)
    return struct, body


def _inplace(op: Op, node: NodeWriter) -> list[str]:
    x = op.sig.args[0]
    body = [f"Tensor {op.name}_({params(op, False)}) {{", *_recorded(op, f"{op.name}_"), *_devices(op, inplace=True), *_shortcut(op, "_")]
    target = x.name
    if x.type.spelling == "Operand":
        body.append(f'  const Tensor& self = target_of("{op.name}_", {x.name});')
        target = "self"
    if op.get("inplace") == "native":
        return [*body, f"  return native::{op.name}_({', '.join(a.name if a is not x else target for a in op.sig.args)});", "}"]
    if "each" not in op.keys:
        before = target
        if "composite" in op.keys or x.name in node.uses:
            # What is written over must not be what the op saves: with grad mode, it works on a copy.
            recorded = " || ".join(f"requires_grad({a.name})" for a in op.sig.args if a.is_tensor)
            body.append(f"  const Tensor before = grad_enabled() && ({recorded}) ? op::clone({target}) : {target};")
            before = "before"
        args = ", ".join([before, *(a.name for a in op.sig.args[1:])])
        value = f"op::{op.name}({args})"
        return [*body, f"  return op::copy_({target}, {value});", "}"]
    body += _wrap_dims(op)
    body += [emit_check(op, c) for c in op.get("check", [])]
    body.append(f'  check_inplace("{op.name}_", {target});')
    if node.exists:
        body += node.before(inplace=True)
    else:
        body.append(f'  Ref<Node> node = overwrite_node("{op.name}_", {target});')
    body += _each_call(op, target)
    body.append(f'  bump_version("{op.name}_", {target});')
    if node.exists:
        body.append("  if (record) {")
        body += node.save_outputs(target)
        body.append(f"    rebase_history({target}, std::move(node));")
        body.append("  }")
    else:
        body.append(f"  if (node) rebase_history({target}, std::move(node));")
    body += [f"  return {target};", "}"]
    return body


# ---------------------------------------------------------------- kernels


def kernel_declaration(op: Op) -> str | None:
    name = op.get("kernel")
    if not name:
        return None
    ins = [f"{a.type.param} {a.name}" for a in op.sig.args]
    if op.makes_output or op.get("view"):
        outs = len(op.sig.outs) + len(op.aux)
        result = op.sig.cpp_result if outs == len(op.sig.outs) else "std::tuple<" + ", ".join(["Tensor"] * outs) + ">"
        return f"{result} {name}({', '.join(ins)});"
    outs = [] if is_inplace_op(op) else [n for _, n in op.sig.outs]
    ins += [f"const Tensor& {n}" for n in [*op.aux, *outs]]
    return f"void {name}({', '.join(ins)});"


def each_types(op: Op) -> list[str]:
    """C++ compute types of an `each` body."""
    kind = op.get("types")
    if kind is None:
        rule = str(op.get("dtype"))
        kind = "float" if rule.startswith(("float_of", "promote_float")) else "all"
    return {"float": ["float", "double"], "int": ["int32_t", "int64_t"], "all": ["float", "double", "int32_t", "int64_t"]}[kind]


def each_loop(op: Op) -> list[str]:
    """The tile loops of one op, inside namespace fl::kernels::FL_ISA."""
    operands, scalars = _each_args(op)
    out_type = "bool" if str(op.get("dtype")) == "bool" else "T"
    # Two operands that broadcast get a second loop, for a last one of a single element.
    single = len(operands) == 2 and str(op.get("shape")).startswith("broadcast")
    template = "template <class T, bool kSingle>" if single else "template <class T>"
    out = ["namespace {", template, f"void tile_{op.ident}(int64_t n_, void* out_raw, [[maybe_unused]] const void* const* in_raw, [[maybe_unused]] const Scalar* params_) {{"]
    out.append("  using namespace fl::vm;")
    out.append(f"  auto* out_ = static_cast<{out_type}*>(out_raw);")
    for i, a in enumerate(operands):
        out.append(f"  const T* {a.name}_in = static_cast<const T*>(in_raw[{i}]);")
    i = 0
    for a in scalars:
        as_type = {"int": "int64_t", "dim": "int64_t", "bool": "bool"}.get(a.type.spelling, "T")
        out.append(f"  [[maybe_unused]] const {as_type} {a.name} = params_[{i}].as<{as_type}>();")
        i += 1
        if a.type.spelling.endswith("?"):
            out.append(f"  [[maybe_unused]] const bool has_{a.name} = params_[{i}].as<bool>();")
            i += 1
    values = [f"    [[maybe_unused]] const T {a.name} = {a.name}_in[i_];" for a in operands]
    if single:
        last = operands[-1].name
        out.append(f"  const T {last}_first = {last}_in[0];")
        values[-1] = f"    [[maybe_unused]] const T {last} = kSingle ? {last}_first : {last}_in[i_];"
    result = f"    out_[i_] = static_cast<{out_type}>({op.get('each')});"
    if rare := op.get("rare"):
        # A thousand at a time; looked for first, since the result may lie where an operand does.
        loop = ["  for (int64_t i_ = from_; i_ < to_; ++i_) {", *values]
        out += ["  for (int64_t from_ = 0; from_ < n_; from_ += 1024) {", "  const int64_t to_ = from_ + 1024 < n_ ? from_ + 1024 : n_;"]
        out += ["  int rare_ = 0;", "#pragma omp simd reduction(| : rare_)", *loop, f"    rare_ |= ({rare['when']}) ? 1 : 0;", "  }"]
        out += ["  if (rare_) {", *loop]
        out += [f"    out_[i_] = static_cast<{out_type}>(({rare['when']}) ? ({rare['each']}) : ({op.get('each')}));", "  }", "  continue;", "  }"]
        out += ["#pragma omp simd", *loop, result, "  }", "  }"]
    else:
        out += ["#pragma omp simd", "  for (int64_t i_ = 0; i_ < n_; ++i_) {", *values, result, "  }"]
    out += ["}", "}  // namespace"]
    types = each_types(op) + (["uint8_t"] if "bytes" in op.keys else [])

    def cells(arguments: str) -> str:
        return ", ".join(f"tile_{op.ident}<{t}{arguments}>" if t in types else "nullptr" for t in ("float", "double", "int32_t", "int64_t", "uint8_t"))

    boolean = "true" if out_type == "bool" else "false"
    loops = f"{{{cells(', false')}}}, {{{cells(', true')}}}" if single else f"{{{cells('')}}}, {{}}"
    out.append(f"extern const EachKernel table_{op.ident};")
    narrow = {"ints": "Bytes::Ints", "all": "Bytes::All"}.get(str(op.get("bytes")), "Bytes::None")
    out.append(f"const EachKernel table_{op.ident} = {{{loops}, {boolean}, {narrow}}};")
    return out


def each_declaration(op: Op) -> str:
    return f"FL_EACH({op.ident})"
