"""Entries of one name -> the Python function: tries its overloads in order, converts, calls, wraps."""

from __future__ import annotations

from collections.abc import Sequence

from .emit_doc import also, documentation
from .emit_traits import draws
from .rules import is_inplace_op
from .signature import Arg
from .table import Op

# What says how memory is taken, of ops that make a tensor from nothing: here there is one way.
_IGNORED = ("memory_format", "layout", "pin_memory")
# Arguments that say how large the result is.
_SIZES = {("int[]", "size"), ("int", "n"), ("int", "steps")}


def _kind(arg: Arg) -> str:
    return arg.type.kind


def ignored(op: Op) -> list[str]:
    """Keywords that are taken and change nothing."""
    return [*op.get("ignores", []), *(n for n in _IGNORED if any(a.name == "device" for a in op.sig.args))]


def _spec(op: Op, index: int, inplace: bool) -> str:
    args = []
    for i, a in enumerate(op.sig.args):
        flags = []
        if a.default is not None:
            flags.append("kOptional")
        if a.keyword_only:
            flags.append("kKeywordOnly")
            if op.get("numbers_first"):
                flags.append("kNumberFirst")
        other = also(op, i)
        known = "nullptr" if other is None else f'"{other}"'
        args.append(f'{{"{a.name}", {known}, Kind::{_base_kind(a)}, {" | ".join(flags) or "0"}}}')
    return (
        f"ArgSpec spec_{op.ident}[] = {{{', '.join(args) or '{nullptr, nullptr, Kind::Int, 0}'}}};\n"
        f'Signature sig_{op.ident}{{"{op.name}", spec_{op.ident}, {len(op.sig.args)}, {varargs(op)}, "{" ".join(ignored(op))}"}};'
    )


def _base_kind(a: Arg) -> str:
    kind = a.type.kind
    return "IntList" if kind.startswith("IntTuple") else kind


def varargs(op: Op) -> int:
    """Index of the int[] argument that also takes `f(2, 3)`, or -1."""
    positional = [i for i, a in enumerate(op.sig.args) if not a.keyword_only]
    if positional:
        last = positional[-1]
        if op.sig.args[last].type.spelling in ("int[]", "dim[]"):
            return last
    return -1


def _convert(op: Op, i: int, a: Arg) -> tuple[str, str]:
    """(statement, expression for the call)."""
    t = a.type.spelling
    kind = a.type.kind
    n = f'"{op.name}", "{a.name}"'
    slot = f"s[{i}]"
    default = a.cpp_default
    given = f"{slot} ? " if a.default is not None else ""
    if t == "Tensor":
        return f"const Tensor& {a.name} = to_tensor({slot}, {n});", a.name
    if t == "Tensor?":
        return f"const Tensor& {a.name} = to_optional_tensor({slot}, {n});", a.name
    if t == "Operand":
        value = f"to_operand({slot}, {n})"
        if a.default is not None:
            value = f"{slot} ? {value} : Operand({default})"
        return f"const Operand {a.name} = {value};", a.name
    if a.type.many:
        lacking = ", true" if kind == "OptTensorList" else ""
        return f"const std::vector<Tensor> {a.name} = to_tensor_list({slot}, {n}{lacking});", a.name
    if t in ("int[]", "dim[]") or (t.startswith("int[") and not t.endswith("?")):
        length = t[4:-1] if t.startswith("int[") and t != "int[]" else "0"
        fallback = f" : Dims({default})" if a.default is not None else ""
        may_lack = ", true" if length != "0" and default == "IntList()" else ""  # `int[2] stride=[]`
        return f"const Dims {a.name} = {given}to_dims({slot}, {n}, {length}{may_lack}){fallback};", a.name
    if t in ("int[]?", "dim[]?"):
        return (f"const std::optional<Dims> {a.name}_dims = to_optional_dims({slot}, {n});",
                f"{a.name}_dims ? std::optional<IntList>(*{a.name}_dims) : std::nullopt")  # fmt: skip
    convert = {
        "Int": "to_int", "OptInt": "to_optional_int", "Float": "to_double", "OptFloat": "to_optional_double",
        "Bool": "to_bool", "OptBool": "to_optional_bool", "Number": "to_scalar", "OptNumber": "to_optional_scalar",
        "Str": "to_string_view", "OptStr": "to_optional_string_view", "DType": "to_dtype", "OptDType": "to_optional_dtype",
        "OptDevice": "to_optional_device", "OptGenerator": "to_generator",
    }[kind]  # fmt: skip
    if kind == "OptDevice" and not any(b.is_tensor or b.type.many for b in op.sig.args):
        convert = "to_new_device"  # made of nothing: the default device is asked
    value = f"{convert}({slot}, {n}{', true' if kind == 'Number' and op.get('values') else ''})"
    if a.default is not None and not kind.startswith("Opt"):
        value = f"{slot} ? {value} : {a.type.param}({default})" if kind != "Str" else f"{slot} ? {value} : std::string_view({default})"
    return f"const auto {a.name} = {value};", a.name


def _call(op: Op, inplace: bool) -> list[str]:
    out, args, tensors = [], [], []
    for i, a in enumerate(op.sig.args):
        statement, expression = _convert(op, i, a)
        out.append("      " + statement)
        args.append(expression)
        if a.is_tensor or a.type.many:
            tensors.append(a.name)
    # What is made of nothing, or is only like its tensor, is as much work as it has elements.
    made = not tensors or op.name.startswith("new_")
    sizes = [a.name for a in op.sig.args if made and (a.type.spelling, a.name) in _SIZES]
    work = " + ".join(f"work_of({t})" for t in tensors + sizes) or "0"
    result = "Tensor" if inplace else op.sig.cpp_result
    out.append(f"      {result} result = without_gil({work}, [&] {{ return op::{op.name}{'_' if inplace else ''}({', '.join(args)}); }});")
    if "memory_format" in ignored(op):
        out.append("      if (bound.row_major) [[unlikely]] result = in_row_major(std::move(result));")
    if op.sig.is_list and not inplace:
        out.append("      return wrap_list(std::move(result));")
    elif len(op.sig.outs) > 1 and not inplace:
        if op.get("named"):
            names = ", ".join(f'"{n}"' for _, n in op.sig.outs)
            out.append(f'      static ResultType type("{op.name}", {{{names}}});')
        out.append(f"      return wrap_tuple({'type, ' if op.get('named') else ''}std::move(result));")
    else:
        out.append("      return wrap(std::move(result));")
    return out


def _is_method(ops: Sequence[Op], inplace: bool = False) -> bool:
    takes_tensor = any(op.sig.args and op.sig.args[0].type.spelling in ("Tensor", "Operand") for op in ops)
    return (takes_tensor or inplace) and any("method" in op.methods for op in ops)


def _tensors_first(ops: Sequence[Op]) -> Sequence[Op]:
    """Overloads as they are tried: an integer tensor of no axes fits an int, so what takes a tensor in its place comes first."""
    second = [op.sig.args[1].type.kind if len(op.sig.args) > 1 else "" for op in ops]
    return sorted(ops, key=lambda op: second[ops.index(op)] in ("Int", "IntList", "DimList", "OptIntList")) if "Tensor" in second else ops


def function(name: str, ops: Sequence[Op], inplace: bool = False) -> list[str]:
    """The implementation and its entry points, `f_NAME` (module function) and, if it has one, `m_NAME` (method)."""
    shown = name + ("_" if inplace else "")
    out = [f"PyObject* impl_{shown}(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {{"]
    if any(draws(op) for op in ops):  # before a class takes the call over: the hook draws for all of them
        out.append(f'  if (draw_hook) [[unlikely]] return call_draw_hook("{shown}", self, args, nargs, kw);')
    out += [f'  if (call_taken_over(self, args, nargs, kw)) [[unlikely]] return call_overridden("{shown}", self, args, nargs, kw);', "  try {"]
    biggest = max(len(op.sig.args) for op in ops) or 1
    out.append(f"    PyObject* s[{biggest}];")
    out.append("    Bound bound;")
    for op in _tensors_first(ops):
        last = len(ops) == 1
        test = "bind" if last else "try_bind"
        if last:
            out.append(f"    sig_{op.ident}.bind(self, args, nargs, kw, s, bound);")
            out.append("    {")
        else:
            out.append(f"    if (sig_{op.ident}.{test}(self, args, nargs, kw, s, bound)) {{")
        out += _call(op, inplace)
        out.append("    }")
    if len(ops) > 1:
        sigs = ", ".join(f"&sig_{op.ident}" for op in ops)
        out.append(f"    no_overload({{{sigs}}}, self, args, nargs, kw);")
    out += ["  } catch (...) {", f'    return overridden_or_error("{shown}", self, args, nargs, kw);', "  }", "}"]
    knows_out = inplace or any(a.name == "out" for op in ops for a in op.sig.args)
    typed = any(a.type.spelling == "dtype?" for op in ops for a in op.sig.args)
    written = "" if knows_out else f'if (gives_out(a, n, k)) return with_out("{shown}", impl_{shown}, a, n, k, {str(typed).lower()}); '
    out.append(f"PyObject* f_{shown}(PyObject*, PyObject* const* a, Py_ssize_t n, PyObject* k) {{ {written}return impl_{shown}(nullptr, a, n, k); }}")
    if _is_method(ops, inplace):
        out.append(f"PyObject* m_{shown}(PyObject* self, PyObject* const* a, Py_ssize_t n, PyObject* k) {{ return impl_{shown}(self, a, n, k); }}")
    return out


def specs(ops: Sequence[Op]) -> list[str]:
    return [_spec(op, i, False) for i, op in enumerate(ops)]


def _literal(text: str) -> str:
    """A C++ string; what is not ASCII is UTF-8, as Python wants it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def table_rows(name: str, ops: Sequence[Op]) -> tuple[list[str], list[str], list[str]]:
    """(function rows, method rows, public names) of one op name with its aliases and in-place form."""
    functions, methods, public = [], [], []
    kinds = {m for op in ops for m in op.methods}
    names = [name, *dict.fromkeys(a for op in ops for a in op.get("aliases", []))]

    def row(shown: str, impl: str, prefix: str) -> str:
        said = [op for op in ops if op.get("inplace")] if impl != name else ops
        doc = "nullptr" if kinds == {"internal"} else _literal(documentation(shown, said, prefix == "m"))
        return f'  {{"{shown}", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>({prefix}_{impl})), METH_FASTCALL | METH_KEYWORDS, {doc}}},'

    inplace = any(op.get("inplace") for op in ops)
    for shown in names:
        functions.append(row(shown, name, "f"))
        if "function" in kinds:
            public.append(shown)
        if _is_method(ops):
            methods.append(row(shown, name, "m"))
        if inplace:
            functions.append(row(shown + "_", name + "_", "f"))
            if _is_method(ops, inplace=True):
                methods.append(row(shown + "_", name + "_", "m"))
    return functions, methods, public


def inplace_overloads(ops: Sequence[Op]) -> list[Op]:
    return [op for op in ops if op.get("inplace") and not is_inplace_op(op)]
