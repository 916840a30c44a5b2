"""The autograd node of an op: what is saved when, and the C++ of apply()."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .checks import emit_condition
from .emit_doc import shown_name
from .formula import Context, count_reads, differentiable, only_scaled, read_by_writer, translate
from .rules import dtype_rules, float_result, is_inplace_op, op_inplace
from .signature import Arg
from .table import Op

Table = Mapping[str, Sequence[Op]]


class NodeWriter:
    """The autograd node of an op: members, what is saved when, apply()."""

    def __init__(self, op: Op, table: Table) -> None:
        self.op, self.table = op, table
        self.name = f"{''.join(p.capitalize() for p in op.name.strip('_').split('_'))}Backward{op.overload or ''}"
        def names_of(key: str) -> list[str]:
            return [n.strip() for n in key.split(",")]

        self.grads = [(names_of(key), text) for key, text in op.formulas.items()]
        self.named = {n for names, _ in self.grads for n in names}
        flat, self.zero = ({n for key, text in op.get("grad", {}).items() if text == kind for n in names_of(key)} for kind in ("none", "zero"))
        writes = op.get("inplace") or is_inplace_op(op)
        self.inputs: list[Arg] = []  # those that own an edge, lists last
        self.refused: list[Arg] = []  # ... and have no formula: backward raises when it gets there
        for i, a in enumerate(op.sig.args):
            if not differentiable(a) or (a.name in flat and not (i == 0 and writes)):
                continue
            overwritten = i == 0 and is_inplace_op(op)
            refused = a.name not in self.named | self.zero | flat and not overwritten and float_result(op)
            if refused:
                self.refused.append(a)
            if a.name in self.named | self.zero or refused or (i == 0 and writes):
                self.inputs.append(a)
        self.inputs.sort(key=lambda a: a.type.many)
        self.lets = {k: str(v) for k, v in op.get("let", {}).items()}
        self.uses: dict[str, set[str]] = {}  # saved name -> inputs whose gradient needs it
        self.metas: dict[tuple[str, str], set[str]] = {}
        self.let_code: dict[str, tuple[str, Context]] = {}
        self.let_for: dict[str, set[str]] = {}
        self.code: list[tuple[list[str], str, Context]] = []
        self.adds: dict[str, tuple[str, Context]] = {}  # input -> what adds its gradient to `total`
        self.by_output: tuple[str, Context] | None = None  # the first input's gradient once it is overwritten
        if self.grads:
            self._translate()

    @property
    def conjugates(self) -> bool:
        """Whether formulas are by the derivative of a complex function, and not written for complex numbers (`conjugate: false`)."""
        return self.op.takes_complex and self.op.get("conjugate") is None

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
        for name, text in (self.op.get("adds") or {}).items():
            code, context = translate(self.op, self.table, str(text))
            writes = str(text).partition("(")[0].endswith("_")
            self.adds[name] = (code if writes else f"op::add_({code}, d{self.outs()[0]})", context)
            self._spread(context, {name})
        for kept in self.op.get("keeps", []):
            if kept.startswith("shape("):
                self.metas.setdefault(("shape", kept[6:-1]), set())
        if formula := op_inplace(self.op).get("grad"):
            self.by_output = translate(self.op, self.table, str(formula[self.op.sig.args[0].name]))

    def saved(self) -> list[str]:
        """Names of what the node keeps for some form of the op."""
        kept = [n for n in self.op.get("keeps", []) if not n.startswith("shape(")]
        return sorted({*self.uses, *(self.by_output[1].used if self.by_output else ()), *kept})

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
        if name not in self.named or a is None or a.type.many:
            return None
        if self.needs_fit():
            return "note"
        return "note_type" if any("given" in r for r in dtype_rules(self.op)) else None

    def member(self, name: str) -> str:
        a = self.op.sig.arg(name)
        if a is None or a.type.spelling in ("Tensor", "Tensor?"):
            return f"SavedTensor {name}_;"
        if a.type.spelling == "Operand":
            return f"SavedOperand {name}_;"
        if a.type.many:
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
        if self.adds:
            out.append("  bool adds() const override { return true; }")
        if any(len(names) > 1 for names, _ in self.grads):
            out.append("  bool divisible() const override { return false; }  // one formula for several gradients")
        if self._takes_sparse():
            out.append("  bool takes_sparse() const override { return true; }")
        out.append("  void apply([[maybe_unused]] BackwardCall& call) override {")
        out += self._apply()
        out.append("  }")
        if op_inplace(op).get("copied"):
            out.append(f"  void before_overwrite() override {{ if (by_output) {self.outs()[0]}_.detach_bytes(); }}")
        cleared = [n for n in self.saved() if self._is_saved(n)]
        if cleared:
            out.append("  void release_saved() override {")
            for n in cleared:
                a = op.sig.arg(n)
                out.append(f"    {n}_.clear();" if not (a and a.type.many) else f"    for (auto& s : {n}_) s.clear();")
            out.append("  }")
        shown = [f'    visitor.meet("{self._saved_name(n)}", {n}_);' for n in cleared] + self._shown_values()
        if shown:
            out += ["  void show_saved(SavedVisitor& visitor) const override {", *shown, "  }"]
        out.append("};")
        return out

    def _shown_values(self) -> list[str]:
        """What a node keeps beside tensors, under PyTorch's names: `_saved_dim`, `_saved_self_sym_sizes`."""
        out = []
        for n in self.saved():
            a = self.op.sig.arg(n)
            if a and a.type.store and not a.type.spelling.startswith(("str", "dtype", "device")):
                out.append(f'    visitor.meet_value("{self._saved_name(n)}", {n}_);')
        for fn, n in sorted(self.metas):
            if fn == "shape" and self.op.sig.arg(n):
                out.append(f'    visitor.meet_value("{self._saved_name(n)}_sym_sizes", {n}_shape);')
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

    def _saved_name(self, name: str) -> str:
        """The end of `grad_fn._saved_...`: PyTorch's argument names, `self` for the first, and `result` for a single output."""
        if (arg := self.op.sig.arg(name)) is None:
            return "result" if self.outs() == [name] else name
        index = self.op.sig.args.index(arg)
        shown = shown_name(self.op, index)
        return "self" if shown == "input" else shown

    def _is_saved(self, name: str) -> bool:
        a = self.op.sig.arg(name)
        return a is None or differentiable(a)

    def _unpack(self, names: set[str], done: set[str], indent: str) -> list[str]:
        out = []
        if self.conjugates:
            return self._unpack_conjugate(sorted(names - done), indent)
        for n in sorted(names - done):
            a = self.op.sig.arg(n)
            if a is None or a.type.spelling in ("Tensor", "Tensor?"):
                out.append(f'{indent}[[maybe_unused]] const Tensor {n} = {n}_.unpack(*this, "{n}");')
            elif a.type.spelling == "Operand":
                out.append(f'{indent}Tensor {n}_keep; const Operand {n} = {n}_.unpack(*this, "{n}", {n}_keep);')
            elif a.type.many:
                out.append(f"{indent}std::vector<Tensor> {n};")
                out.append(f'{indent}for (auto& s : {n}_) {n}.push_back(s.unpack(*this, "{n}"));')
            else:
                out.append(f"{indent}const auto& {n} = {n}_;")
        return out

    def _unpack_conjugate(self, names: Sequence[str], indent: str) -> list[str]:
        """The same for an op of complex numbers: Note [Gradients of complex functions]."""
        out = []
        for n in names:
            a = self.op.sig.arg(n)
            if a is None or a.type.spelling in ("Tensor", "Tensor?"):
                out.append(f'{indent}[[maybe_unused]] const Tensor {n} = conjugate_({n}_.unpack(*this, "{n}"));')
            elif a.type.spelling == "Operand":
                out.append(f"{indent}Tensor {n}_keep, {n}_conjugate;")
                out.append(f'{indent}const Operand {n} = conjugate_({n}_.unpack(*this, "{n}", {n}_keep), {n}_conjugate);')
            elif a.type.many:
                out.append(f"{indent}std::vector<Tensor> {n};")
                out.append(f'{indent}for (auto& s : {n}_) {n}.push_back(conjugate_(s.unpack(*this, "{n}")));')
            else:
                out.append(f"{indent}const auto& {n} = conjugate_({n}_);")
        return out

    def _apply(self) -> list[str]:
        op, out, given = self.op, [], False
        if self.conjugates and (self.code or self.by_output):
            out.append("    [[maybe_unused]] const Conjugate conjugate_(call.in);")
        if op.sig.is_list:
            name = self.outs()[0]
            out.append(f"    std::vector<Tensor> d{name} = materialize(call.in, out_metas);")
        elif len(self.outs()) > 1:
            texts = [code for _, code, _ in self.code] + [code for code, _ in self.let_code.values()]
            used = set(re.findall(r"\w+", " ".join(texts)))
            for i, n in enumerate(self.outs()):
                if f"d{n}_or_none" in used:
                    out.append(f"    const Tensor& d{n}_or_none = call.in[{i}];")
                if f"d{n}" in used:
                    out.append(f"    const Tensor d{n} = {n}_out.materialize(call.in[{i}]);")
        else:
            out.append(f"    [[maybe_unused]] const Tensor& d{self.outs()[0]} = call.in[0];")
            given = self._reads_once(f"d{self.outs()[0]}")
        for a in self.inputs:
            i = self.index(a.name)
            if a in self.refused:
                many = a.type.many
                out.append(f'    refuse_gradient(call, {i}, {"edges.size()" if many else i + 1}, "{op.name}", "{a.name}");')
            elif a.name in self.zero:
                out.append(f"    call.zero({i});")
            elif a.type.many:
                out.append(f"    [[maybe_unused]] const bool needs_{a.name} = edges.size() > {i};")
            else:
                out.append(f"    [[maybe_unused]] const bool needs_{a.name} = call.needs({i}) && edges[{i}].fn;")
        if given:
            out.append(f"    const Giving giving(call.in[0]{''.join(f', {t}' for t in [self._readers()] if t)});")
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
            out += self._unpack(context.used | (self.adds[names[0]][1].used if names[0] in self.adds else set()), done, "      ")
            if names[0] in self.adds:
                grad = f"d{self.outs()[0]}"
                out.append(f"      if (Tensor* const to = call.total; to && to->dtype() == {grad}.dtype() && to->sizes() == {names[0]}_shape) {{")
                out += ["        const Tensor& total = *to;", f"        {self.adds[names[0]][0]};", "      } else {", *self._store(names[0], code), "      }"]
            elif len(names) == 1:
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

    def _reads_once(self, grad: str) -> bool:
        """Whether each formula reads the gradient in at most one place, where the op can write over it."""
        texts = [text for _, text in self.grads]
        if self.by_output:
            texts.append(str(op_inplace(self.op)["grad"][self.op.sig.args[0].name]))
        if (len(texts) > 1 and any(len(names) > 1 for names, _ in self.grads)) or any(count_reads(text, grad) for text in self.lets.values()):
            return False
        reads = [count_reads(text, grad) for text in texts]
        return max(reads, default=0) == 1 and all(read_by_writer(text, grad, self.table) for text, n in zip(texts, reads, strict=True) if n)

    def _takes_sparse(self) -> bool:
        """Whether formulas do nothing to the gradient that an op for sparse tensors would not do, too."""
        if len(self.outs()) > 1 or self.op.sig.is_list or self.refused or not self.grads or any(len(names) > 1 for names, _ in self.grads):
            return False
        grad = f"d{self.outs()[0]}"
        texts = [text for _, text in self.grads]
        if self.by_output:
            texts.append(str(op_inplace(self.op)["grad"][self.op.sig.args[0].name]))
        return all(only_scaled(text, grad, self.table) for text in texts) and not any(count_reads(text, grad) for text in self.lets.values())

    def _readers(self) -> str:
        """How many formulas read the gradient in this call, as C++; nothing where there is one."""
        names = [names[0] for names, _ in self.grads]
        return " + ".join(f"needs_{n}" for n in names) if len(names) > 1 else ""

    def _store(self, name: str, code: str) -> list[str]:
        i = self.index(name)
        a = self.op.sig.arg(name)
        if a is not None and a.type.many:
            return [f"      auto grads = {code};",
                    f"      for (size_t k = 0; k < grads.size(); ++k) if (edges[{i} + k].fn) call.set({i} + k, std::move(grads[k]));"]  # fmt: skip
        return [f"      call.set({i}, {name}_fit.apply({code}));" if self.fits(name) else f"      call.set({i}, {code});"]

    # In the wrapper. `before` runs ahead of the kernel, `after` once the outputs exist.

    def before(self, inplace: bool = False) -> list[str]:
        op = self.op
        checks = [f"requires_grad({a.name})" for a in self.inputs]
        # What is written into integers has no derivative there.
        to = op.sig.args[0]
        inexact = f"is_inexact({to.name}.dtype()) && " if (inplace or is_inplace_op(op)) and to.type.spelling == "Tensor" else ""
        out = [f"  const bool record = grad_enabled() && {inexact}({' || '.join(checks)});"]
        out += [f"  Ref<{self.name}> node;", "  if (record) {", f"    node = make_ref<{self.name}>();"]
        over = self.by_output if inplace else None
        if over:
            when = op_inplace(op).get("when")
            out.append(f"    node->by_output = {emit_condition(op, when) if when else 'true'};")
        for a in self.inputs:
            if a.type.many:
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
            elif a.type.many:
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
                out.append(f"    if (is_inexact({n}.dtype())) set_history({n}, {'node' if i + 1 < len(outs) else 'std::move(node)'}, {i});")
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
