"""Entry -> C++: declarations, and the wrapper: checks, outputs, kernel, node."""

from __future__ import annotations

from . import emit_graph
from .checks import emit_check, emit_condition
from .emit_loop import each_args, each_compute, scalar_params
from .emit_node import NodeWriter, Table
from .formula import differentiable, translate
from .rules import (
    DTYPES,
    dtype_code,
    is_inplace_op,
    op_inplace,
    params,
    per_output,
    rule_code,
    wrap_dims,
)
from .table import Op


def declaration(op: Op) -> list[str]:
    lines = [f"{op.sig.cpp_result} {op.name}({params(op, True)});"]
    if op.get("inplace"):
        lines.append(f"Tensor {op.name}_({params(op, True)});")
    return lines


def native_declarations(op: Op) -> list[str]:
    """What the op expects of csrc/wrappers/native*.cpp."""
    if op.get("composite") == "native":
        written = [f"Tensor {op.name}_({params(op, False)});"] if op.get("inplace") == "native" else []
        return [f"{op.sig.cpp_result} {op.name}({params(op, False)});", *written, *_of_complex(op), *_of_sparse(op)]
    if not op.get("shortcut"):
        return [*_of_complex(op), *_of_sparse(op)]
    kinds = ("", "_") if op.get("inplace") else ("",)
    return [*(f"{op.sig.cpp_result} {op.name}_shortcut{kind}({params(op, False)});" for kind in kinds), *_of_complex(op), *_of_sparse(op)]


def _of_complex(op: Op) -> list[str]:
    return [f"{op.sig.cpp_result} {op.name}_complex({params(op, False)});"] if op.get("complex") == "native" else []


def _of_sparse(op: Op) -> list[str]:
    return [f"{op.sig.cpp_result} {op.name}_sparse({params(op, False)});"] if op.get("sparse") == "native" else []


_MAY_BE_COMPLEX = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Operand", "number", "number?", "dtype", "dtype?")


def _of_part(op: Op) -> str:
    """The arguments of a call for the real or the imaginary parts, `part`."""
    split = ("Tensor", "Tensor?", "dtype", "dtype?")
    of = {op.first_tensor: "part.of"}  # others may be indices
    return ", ".join(f"{of.get(a.name, 'part')}({a.name})" if a.type.spelling in split else a.name for a in op.sig.args)


def _complex(op: Op, table: Table, target: str | None = None) -> list[str]:
    """Where an argument is complex: Note [Ops that take no complex numbers]. `target` is what is written over, if anything."""
    value = op.get("complex")
    args = ", ".join(a.name for a in op.sig.args if a.type.spelling in _MAY_BE_COMPLEX)
    if not args or op.takes_complex:
        return []
    if value is None:
        return [f"  if (any_complex({args})) [[unlikely]] refuse_complex_arguments(\"{op.name}{'_' if target else ''}\", {args});"]
    before = []
    names = [a.name for a in op.sig.args]
    if target:
        recorded = " || ".join(f"requires_grad({a.name})" for a in op.sig.args if a.is_tensor)
        before = [f"    const bool keeps = grad_enabled() && ({recorded});"]
        if value == "parts" and op_inplace(op).get("over") == "any_strides":  # either part is a view of every other number
            numbers = [f"{a.name}.is_complex()" for a in op.sig.args if a.type.spelling == "number"]
            before += [
                f"    if ({' && '.join([f'is_complex({target}.dtype())', f'may_write_over({target}, true)', '!keeps', *(f'!{n}' for n in numbers)])}) {{",
                f"      for (const Part part : {{Part{{false}}, Part{{true}}}}) op::{op.name}_({_of_part(op)});", f"      return {target};", "    }",
            ]  # fmt: skip
        before.append(f"    const Tensor before = keeps ? op::clone({target}) : {target};")
        call = f"op::{op.name}({', '.join(['before', *names[1:]])})"
    elif value == "native":
        before = ["  " + line for line in wrap_dims(op)]
        call = f"native::{op.name}_complex({', '.join(names)})"
    elif value == "parts":
        numbers = [a.name for a in op.sig.args if a.type.spelling in ("number", "number?")]
        before += [f'    check_real("{op.name}", "{n}", {n});' for n in numbers]
        before.append(f"    const auto of_part = [&](Part part) {{ return op::{op.name}({_of_part(op)}); }};")
        call = "op::complex(of_part({false}), of_part({true}))"
    else:
        call, _ = translate(op, table, str(value), composite=True)
    if not target:
        return [f"  if (any_complex({args})) [[unlikely]] {{", *before, f"    return {call};", "  }"]
    stored = [f"    const Tensor made_ = {call};", f'    check_stored("{op.name}_", {target}, made_);', f"    return op::copy_({target}, made_);"]
    return [f"  if (any_complex({args})) [[unlikely]] {{", *before, *stored, "  }"]


def _rare(op: Op, written: bool = False) -> list[str]:
    """Kernels refuse types that have none, unless the entry says that it takes any: Note [Types without kernels] in csrc/base/dtype.h."""
    args = ", ".join(a.name for a in op.sig.args if a.type.spelling in _MAY_BE_COMPLEX and not a.type.spelling.startswith("number"))
    if not args or not op.get("kernel") or op.get("view") or op.get("any_type"):
        return []
    return [f"  if (any_rare({args})) [[unlikely]] refuse_rare_arguments(\"{op.name}{'_' if written else ''}\", {args});"]


def _shortcut(op: Op, kind: str = "") -> list[str]:
    if not op.get("shortcut"):
        return []
    args = ", ".join(a.name for a in op.sig.args)
    return [f"  if ({op.sig.cpp_result} short_way = native::{op.name}_shortcut{kind}({args}); short_way.defined()) return short_way;"]


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


def strides_declaration(op: Op) -> str | None:
    """Of the function that lays out the output, beside the kernel; its arguments are some of the op's."""
    rule = op.get("strides")
    if not rule:
        return None
    name, _, args = str(rule).rstrip(")").partition("(")
    types = {a.name: a.type.param for a in op.sig.args}
    return f"Dims {name}({', '.join(f'{types[n]} {n}' for n in args.split(', '))});"


def _devices(op: Op, inplace: bool = False) -> list[str]:
    """Tensors on meta beside others: the rule of check_devices(), for every op with more than one tensor.

    An op whose result's size depends on elements (`shape: by_value`) takes no meta tensor at all.
    """
    args = [a for a in op.sig.args if a.is_tensor or a.type.many]
    by_value = op.get("shape") == "by_value"
    formula = "composite" in op.keys and op.get("composite") != "native"  # its ops have the rule
    if not args or (len(args) == 1 and not args[0].type.many and not by_value) or (formula and not inplace):
        return []
    written = {args[0].name} if inplace or is_inplace_op(op) else set(op.get("mutates", []))
    rule = "ByValue" if by_value else "Copies" if op.get("devices") == "any" else "One"
    listed = ", ".join(f'{{"{a.name}", {a.name}, {"true" if a.name in written else "false"}}}' for a in args)
    name = f"{op.name}_" if inplace else op.name
    return [
        f"  if (any_meta({', '.join(a.name for a in args)})) [[unlikely]]",
        f'    check_devices("{name}", DeviceRule::{rule}, {{{listed}}});',
    ]


def _sparse(op: Op) -> list[str]:
    """Where an argument is sparse, of an op that takes such: Note [Sparse gradients] in csrc/tensor/sparse.h."""
    if op.get("sparse") != "native":
        return []
    tensors = ", ".join(a.name for a in op.sig.args if a.is_tensor)
    call = f"native::{op.name}_sparse({', '.join(a.name for a in op.sig.args)})"
    return [f"  if (any_meta({tensors})) [[unlikely]]", f"    if (any_sparse({tensors})) return {call};"]


def _each_head(op: Op) -> tuple[list[str], str, str]:
    """Statements, and what a loop is called with: the kernel, and the rest."""
    operands, scalars = each_args(op)
    out = [f"  const Operand each_in[] = {{{', '.join(a.name for a in operands)}}};"]
    given = ", ".join(p for a in scalars for p in scalar_params(a)) or "Scalar()"
    out.append(f"  const Scalar each_params[] = {{{given}}};")
    compute = each_compute(op, operands)
    result = "DType::Bool" if str(op.get("dtype")) == "bool" else "each_type"
    out.append(f"  const DType each_type = {compute};")
    return out, f"kernels::each_{op.ident}", f"{result}, each_type, each_in, {len(operands)}, each_params"


def _each_call(op: Op, target: str | None) -> list[str]:
    out, kernel, rest = _each_head(op)
    if target:
        out.append(f'  run_each_into({kernel}, "{op.name}_", {rest}, {target});')
        y = target
    else:
        y = op.sig.outs[0][1]
        out.append(f'  Tensor {y} = run_each({kernel}, "{op.name}", {rest});')
    out.append(f"  if (graph::recording()) [[unlikely]] {emit_graph.record(op, f'{y}.is_meta()', target)}")
    return out


def graph_infos(op: Op) -> list[str]:
    if not emit_graph.is_recorded(op):
        return emit_graph.infos(op, [], [])
    if "each" in op.keys:
        head, kernel, rest = _each_head(op)
        return emit_graph.infos(op, [*head, f"  call_(context_, {kernel}, {rest}, static_cast<int>(std::size(each_params)));"], [])
    over = _kernel_body(op, "over") if op_inplace(op).get("over") else []
    if over and op_inplace(op)["over"] != "any_strides":
        x = op.sig.args[0].name
        over = [f"  over_rows_of({x}, [&](const Tensor& {x}) {{", *("  " + line for line in over), "  });"]
    return emit_graph.infos(op, [], _kernel_body(op, "frame"), over)


def _kernel_body(op: Op, makes: str) -> list[str]:
    """The kernel's call and what it wants of its inputs. What a kernel makes goes to new variables, to a recorded call's outputs (`frame`), or
    over the first argument (`over`)."""
    out, names = [], []
    inplace = is_inplace_op(op) or makes == "over"
    contiguous = op.get("layout", "contiguous") == "contiguous" and not op.get("view")
    mutated = set(op.get("mutates", []))
    cast = str(op.get("dtype", "")).startswith("float_of") or str(op.get("dtype", "")).startswith("given")
    for i, a in enumerate(op.sig.args):
        tensor = a.type.spelling in ("Tensor", "Tensor?")
        as_it_is = a.name in mutated or a.name in op.get("any_strides", []) or (inplace and i == 0)
        if tensor and contiguous and not as_it_is:
            source = a.name
            if cast and a.name == op.first_tensor and not op.makes_output:
                source = f"cast_for_kernel({a.name}, {op.sig.outs[0][1]}.dtype())"
            rows = f"contiguous_for_kernel({source})"
            out.append(f"  const Tensor {a.name}_k = {f'apart_for_kernel({op.sig.args[0].name}, {rows})' if makes == 'over' else rows};")
            names.append(f"{a.name}_k")
        elif tensor and makes == "over" and i > 0:
            out.append(f"  const Tensor {a.name}_k = apart_for_kernel({op.sig.args[0].name}, {a.name});")
            names.append(f"{a.name}_k")
        elif a.type.many and contiguous:
            out.append(f"  const std::vector<Tensor> {a.name}_k = contiguous_for_kernel({a.name});")
            names.append(f"{a.name}_k")
        else:
            names.append(a.name)
    if op.makes_output or op.get("view"):
        call = f"kernels::{op.get('kernel')}({', '.join(names)})"
        outs = [n for _, n in op.sig.outs] + list(op.aux)
        if makes == "frame":
            return [*out, f"  graph::adopt(frame_.out(0), {call});"]
        target = f"auto {outs[0]}" if len(outs) == 1 else f"auto [{', '.join(outs)}]"
        if op.sig.is_list and len(outs) == 1:
            target = f"std::vector<Tensor> {outs[0]}"
        return [*out, f"  {target} = {call};"]
    outs = [op.sig.args[0].name] if makes == "over" else [] if inplace else [n for _, n in op.sig.outs]
    call = f"kernels::{op.get('kernel')}({', '.join([*names, *op.aux, *outs])});"
    if outs and not mutated and not any(a.type.spelling.startswith("Generator") for a in op.sig.args):
        call = f"if (any_elements({', '.join([*op.aux, *outs])})) {call}"  # a long axis beside one of none is no work
    return [*out, f"  {call}"]


def _unless_handed_on(op: Op, made: list[str]) -> list[str]:
    """`made`, whose last line declares the result, or what comes of the call where that is handed on whole: `handed_on` says which."""
    *before, line = made
    y = op.sig.outs[0][1]
    make = " ".join([*(line.strip() for line in before), f"return {line.partition(' = ')[2]}"])
    return [
        "  [[maybe_unused]] bool handed_on = false;", f"  const auto make = [&] {{ {make} }};",
        f"  {'std::vector<Tensor>' if op.sig.is_list else 'Tensor'} {y} = graph::recording() ? {emit_graph.or_handed_on(op)} : make();",
    ]  # fmt: skip


def _kernel_call(op: Op) -> list[str]:
    if op.get("view"):
        first, y = op.first_tensor, op.sig.outs[0][1]
        track = f"for (Tensor& view : {y}) track_view(view, {first});" if op.sig.is_list else f"track_view({y}, {first});"
        made = _unless_handed_on(op, _kernel_body(op, "new"))
        return [*made, "  if (!handed_on) [[likely]] {", f"    {track}", "  } else {", f"    track_returned({y}, make(), {first});", "  }"]
    if op.makes_output:
        if not emit_graph.is_recorded(op):
            read = ['  graph::note_read("the size of a result follows from values");'] if op.get("shape") == "by_value" else []
            made = [*read, *_kernel_body(op, "new")]
            return _unless_handed_on(op, made) if emit_graph.is_handed_on(op) else made
        y = op.sig.outs[0][1]
        tensors = [a.name for a in op.sig.args if a.is_tensor]
        asked = ", ".join(f"graph::meta_like({a.name})" if a.is_tensor else a.name for a in op.sig.args)
        return [
            f"  Tensor {y};",
            f"  if (graph::recording() && !any_meta({', '.join(tensors)})) [[unlikely]] {{",
            f"    {y} = graph::promised_like(kernels::{op.get('kernel')}({asked}));",
            f"    {emit_graph.record(op, 'false')}",
            "  } else {",
            *("  " + line.replace(f"auto {y} = ", f"{y} = ") for line in _kernel_body(op, "new")),
            "  }",
        ]
    outs = emit_graph.outs_of(op)
    shown = outs[0] if outs and not is_inplace_op(op) else op.sig.args[0].name
    guard = f"if (!{shown}.is_meta()) " if op.sig.outs else ""
    body = _kernel_body(op, "new")
    noted = emit_graph.record(op, f"{shown}.is_meta()" if op.sig.outs else "false")
    return ["  if (graph::recording()) [[unlikely]] {", f"    {noted}", "  } else {", *(f"  {line}" for line in body[:-1]), f"    {guard}{body[-1].strip()}", "  }"]


def _allocate(op: Op) -> list[str]:
    """Outputs and aux of a kernel, by the shape and dtype rules."""
    out = []
    shapes, dtypes = per_output(op, "shape"), per_output(op, "dtype")
    device = f"device_of({', '.join(a.name for a in op.sig.args if differentiable(a))})"
    if not any(differentiable(a) for a in op.sig.args):
        device = "device.value_or(Device{})" if op.sig.arg("device") else "Device{}"
    out.append(f"  const Device out_device = {device};")
    for (_, n), shape, dtype in zip(op.sig.outs, shapes, dtypes, strict=True):
        form = f"{rule_code(op, shape, 'shape')}, {dtype_code(op, dtype)}"
        new = f"new_output(\"{op.name}\", {form}, out_device)"
        if rule := op.get("strides"):
            shape_code, dtype_text = rule_code(op, shape, "shape"), dtype_code(op, dtype)
            new = f"thread_modes().out ? {new} : empty_strided({shape_code}, {rule_code(op, rule, 'kernels')}, {dtype_text}, out_device)"
        if over := op.get("over", {}).get(n):
            others = ", ".join(f"&{a.name}" for a in op.sig.args if a.is_tensor and a.name != over)
            new = f"takes_given({over}, {form}, {{{others}}}) ? {over} : {new}"
        out.append(f"  Tensor {n} = {new};")
    for n, rule in op.aux.items():
        text = str(rule)
        shape, _, dtype = text.rpartition(", ") if text.rsplit(", ", 1)[-1] in DTYPES else (text, "", "")
        kind = f"DType::{DTYPES[dtype]}" if dtype else f"dt::aux_of({op.sig.outs[0][1]})"
        out.append(f"  Tensor {n} = new_output(\"{op.name}\", {rule_code(op, shape, 'shape')}, {kind}, out_device);")
    return out


def _recorded(op: Op, name: str) -> list[str]:
    """The way round through the profiler: the wrapper calls itself inside of an event."""
    call = f"[&] {{ return op::{name}({', '.join(a.name for a in op.sig.args)}); }}"
    tensors = "".join(f", {a.name}" for a in op.sig.args if a.is_tensor or a.type.many)
    kind, work = "recorded", ""
    if op.get("flops"):
        kind = "recorded_work"
        outs = [n for _, n in op.sig.outs]
        results = f"const auto& {outs[0]}" if len(outs) == 1 else "const auto& results"
        unpack = "" if len(outs) == 1 else f"[[maybe_unused]] const auto& [{', '.join(outs)}] = results; "
        work = f", [&]([[maybe_unused]] {results}) -> double {{ {unpack}return {rule_code(op, str(op.get('flops')), 'flops')}; }}"
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
        args = ", ".join(f"cast({a.name})" if a.is_tensor or a.type.many else a.name for a in op.sig.args)
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
    body: list[str] = [f"{result} {op.name}({params(op, False)}) {{", *_autocast(op), *_recorded(op, op.name), *_sparse(op), *_devices(op), *_rare(op), *_complex(op, table), *_shortcut(op)]
    body += wrap_dims(op)
    body += [emit_check(op, c) for c in op.get("check", [])]
    body += [f"  if ({n}.defined()) before_write({n}.storage());" for n in op.get("mutates", [])]
    outs = [n for _, n in op.sig.outs]
    struct = node.struct() if node.exists else []
    ret = f"  return {outs[0]};" if len(outs) == 1 else f"  return {{{', '.join(outs)}}};" if outs else ""
    if "composite" in op.keys:
        text = str(op.get("composite"))
        if text == "native":
            if emit_graph.is_handed_on(op):  # a constructor: ATen's have no requires_grad
                y = outs[0]
                body += ["  if (graph::recording()) [[unlikely]] {", f"    Tensor {y};", f"    if ({emit_graph.handed_on(op, y)}) {{"]
                body += [f"      if (requires_grad) set_requires_grad({y}, true);", f"      return {y};", "    }", "  }"]
            body.append(f"  return native::{op.name}({', '.join(a.name for a in op.sig.args)});")
        else:
            code, _ = translate(op, table, text)
            body.append(f"  return {code};")
    elif is_inplace_op(op):
        x = op.sig.args[0].name
        body += _written(op.name, x, node, node.before() if node.exists else [], _kernel_call(op))
    else:
        if node.exists:
            body += node.before()
        if "each" in op.keys:
            body += _each_call(op, None)
        else:
            if not op.makes_output and not op.get("view"):
                body += _allocate(op)
            body += _kernel_call(op)
        writes = f" && {emit_condition(op, op.get('mutates_when'))}" if op.get("mutates_when") else ""
        for n in op.get("mutates", []):
            body.append(f'  if ({n}.defined(){writes}) bump_version("{op.name}", {n});')
        if node.exists:
            body += node.after()
        body.append(ret)
    body.append("}")
    if op.get("inplace"):
        body += _inplace(op, node, table)
    return struct, body


def _inplace(op: Op, node: NodeWriter, table: Table) -> list[str]:
    x = op.sig.args[0]
    body = [f"Tensor {op.name}_({params(op, False)}) {{", *_recorded(op, f"{op.name}_"), *_devices(op, inplace=True)]
    target = x.name
    if x.type.spelling == "Operand":
        body.append(f'  const Tensor& self = target_of("{op.name}_", {x.name});')
        target = "self"
    body += [*_rare(op, True), *_complex(op, table, target), *_shortcut(op, "_")]
    if op.get("inplace") == "native":
        return [*body, f"  return native::{op.name}_({', '.join(a.name if a is not x else target for a in op.sig.args)});", "}"]
    if "each" not in op.keys:
        if op_inplace(op).get("over"):
            body += _over(op, node)
        before = target
        if "composite" in op.keys or x.name in node.uses:
            # What is written over must not be what the op saves: with grad mode, it works on a copy.
            recorded = " || ".join(f"requires_grad({a.name})" for a in op.sig.args if a.is_tensor)
            body.append(f"  const Tensor before = grad_enabled() && ({recorded}) ? op::clone({target}) : {target};")
            before = "before"
        args = ", ".join([before, *(a.name for a in op.sig.args[1:])])
        body += [f"  const Tensor made_ = op::{op.name}({args});", f'  check_stored("{op.name}_", {target}, made_);']
        return [*body, f"  return op::copy_({target}, made_);", "}"]
    body += wrap_dims(op)
    body += [emit_check(op, c) for c in op.get("check", [])]
    body += _written(f"{op.name}_", target, node, node.before(inplace=True) if node.exists else [], _each_call(op, target))
    return [*body, "}"]


def _over(op: Op, node: NodeWriter) -> list[str]:
    """The kernel at work in the first argument's memory: Note [Kernels that write over what they read]."""
    x, *others = (a.name for a in op.sig.args if a.is_tensor)
    any_strides = ", true" if op_inplace(op)["over"] == "any_strides" else ""
    first = [f"may_write_over({x}{any_strides})"]
    if op.get("autocast"):
        first.append("!thread_modes().autocast")
    records = node.exists and x not in node.saved()
    if node.exists and not records:  # what is saved is a copy
        first.append(f"!(grad_enabled() && ({' || '.join(f'requires_grad({n})' for n in (x, *others))}))")
    (shape,), (dtype,) = per_output(op, "shape"), per_output(op, "dtype")
    then = []
    if shape != f"same({x})":
        then.append(f"{rule_code(op, shape, 'shape')} == {x}.sizes()")
    if dtype != f"same({x})":
        then.append(f"{dtype_code(op, dtype)} == {x}.dtype()")
    checked = [*wrap_dims(op), *(emit_check(op, c) for c in op.get("check", []))]
    *before, call = _kernel_body(op, "over")
    recorded = emit_graph.record(op, f"{x}.is_meta()", x)
    calls = ["  if (graph::recording()) [[unlikely]] {", f"    {recorded}", "  } else {", *("  " + line for line in before), f"  {call}", "  }"]
    written = _written(f"{op.name}_", x, node, node.before(inplace=True) if records else [], calls, records)
    if then:
        written = [f"  if ({' && '.join(then)}) {{", *("  " + line for line in written), "  }"]
    return [f"  if ({' && '.join(first)}) {{", *("  " + line for line in (*checked, *written)), "  }"]


def _written(name: str, target: str, node: NodeWriter, before: list[str], call: list[str], records: bool | None = None) -> list[str]:
    """`call`, which writes over `target`, between what has to stand before and behind it. `records`: whether it makes a node, if the op has one."""
    records = node.exists if records is None else records
    one_value = node.op.get("one_value")  # also where elements share places; of a tensor there would be as many gradients as elements
    same = "" if one_value is None else ", true" if one_value is True else f", !{one_value}.is_tensor()"
    body = [f'  check_inplace("{name}", {target}{same});']
    body += before if records else [f'  Ref<Node> node = overwrite_node("{name}", {target});']
    if records:
        body.append(f'  if (record) check_rebase("{name}", {target});')
    body += [*call, f'  bump_version("{name}", {target});']
    if records:
        body += ["  if (record) {", *node.save_outputs(target), f"    rebase_history({target}, std::move(node));", "  }"]
    else:
        body.append(f"  if (node) rebase_history({target}, std::move(node));")
    return [*body, f"  return {target};"]
