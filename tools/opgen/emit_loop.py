"""The tile loops of `each` bodies: compiled once per instruction set."""

from __future__ import annotations

from .rules import dtype_code
from .signature import Arg
from .table import Op

COMPLEX_TYPES = ("Complex<float>", "Complex<double>")


def each_args(op: Op) -> tuple[list[Arg], list[Arg]]:
    operands = [a for a in op.sig.args if a.is_tensor]
    return operands, [a for a in op.sig.args if not a.is_tensor]


def scalar_params(arg: Arg) -> list[str]:
    """An optional number takes two parameters: its value, and whether it was given (`has_x` in the body)."""
    value = f"scalar_of({arg.name})"
    return [value, f"Scalar({arg.name}.has_value())"] if arg.type.spelling.endswith("?") else [value]


def each_compute(op: Op, operands: list[Arg]) -> str:
    """The type the loop runs in: the result's, or for bool results what the operands promote to."""
    if str(op.get("dtype")) == "bool":
        rule = "promote_float" if op.get("types") == "float" else "promote"
        return f"dt::{rule}(" + ", ".join(a.name for a in operands) + ")"
    return dtype_code(op, str(op.get("dtype")))


def each_types(op: Op) -> list[str]:
    """C++ compute types of an `each` body."""
    kind = op.get("types")
    if kind is None:
        rule = str(op.get("dtype"))
        kind = "float" if rule.startswith(("float_of", "promote_float")) else "all"
    return {"float": ["float", "double"], "int": ["int32_t", "int64_t"], "all": ["float", "double", "int32_t", "int64_t"]}[kind]


def each_loop(op: Op, registers: str) -> list[str]:
    """The tile loops of one op, inside namespace fl::kernels::FL_ISA; and the initializer of its register steps."""
    operands, scalars = each_args(op)
    out_type = "bool" if str(op.get("dtype")) == "bool" else "T"
    # Two operands that broadcast get a second loop, for a last one of a single element; with `first` a third one, for such a first one.
    single = len(operands) == 2 and str(op.get("shape")).startswith("broadcast")
    # Bools are computed as bytes, which memory from elsewhere may hold other values in than 0 and 1.
    truths = op.get("bytes") in ("all", "order")
    template = "template <class T" + (", int kSingle" if single else "") + (", bool kTruths = false" if truths else "") + ">"
    read = "read_byte<kTruths>({})" if truths else "{}"
    out = ["namespace {", template, f"void tile_{op.ident}(int64_t n_, void* out_raw, [[maybe_unused]] const void* const* in_raw, [[maybe_unused]] const Scalar* params_, int64_t rows_, const int64_t* steps_) {{"]
    out.append("  using namespace fl::vm;")
    i = 0
    for a in scalars:
        as_type = {"int": "int64_t", "dim": "int64_t", "bool": "bool"}.get(a.type.spelling, "T")
        out.append(f"  [[maybe_unused]] const {as_type} {a.name} = params_[{i}].as<{as_type}>();")
        i += 1
        if a.type.spelling.endswith("?"):
            out.append(f"  [[maybe_unused]] const bool has_{a.name} = params_[{i}].as<bool>();")
            i += 1
    out.append("  for (int64_t row_ = 0; row_ < rows_; ++row_) {")
    out.append(f"  auto* out_ = reinterpret_cast<{out_type}*>(static_cast<char*>(out_raw) + row_ * steps_[0]);")
    for i, a in enumerate(operands):
        out.append(f"  const T* {a.name}_in = reinterpret_cast<const T*>(static_cast<const char*>(in_raw[{i}]) + row_ * steps_[{i + 1}]);")
    values = [f"    [[maybe_unused]] const T {a.name} = {read.format(f'{a.name}_in[i_]')};" for a in operands]
    if single:
        for i, a in list(enumerate(operands, 1))[0 if op.get("first") else 1 :]:
            out.append(f"  const T {a.name}_first = {read.format(f'{a.name}_in[0]')};")
            values[i - 1] = f"    [[maybe_unused]] const T {a.name} = kSingle == {i} ? {a.name}_first : {read.format(f'{a.name}_in[i_]')};"
    if by_number := op.get("single"):
        last = operands[1].name
        out += ["  if constexpr (kSingle == 2 && !is_complex_type<T>) {", f"    const T {last} = {last}_first, number = {by_number['number']};", "    if (number != 0) {"]
        out += ["#pragma omp simd", "  for (int64_t i_ = 0; i_ < n_; ++i_) {", values[0], f"    out_[i_] = static_cast<{out_type}>({by_number['each']});", "  }"]
        out += ["    continue;", "    }", "  }"]
    start = len(out)
    result = f"    out_[i_] = static_cast<{out_type}>({op.get('each')});"
    if rare := op.get("rare"):
        # Looked for first, since the result may lie where an operand does.
        loop = ["  for (int64_t i_ = from_; i_ < to_; ++i_) {", *values]
        block, vectors = rare.get("block", 1024), ["#pragma omp simd"] if "block" in rare else []
        out += [f"  for (int64_t from_ = 0; from_ < n_; from_ += {block}) {{", f"  const int64_t to_ = from_ + {block} < n_ ? from_ + {block} : n_;"]
        out += ["  int rare_ = 0;", "#pragma omp simd reduction(| : rare_)", *loop, f"    rare_ |= ({rare['when']}) ? 1 : 0;", "  }"]
        out += ["  if (rare_) {", *vectors, *loop]
        out += [f"    out_[i_] = static_cast<{out_type}>(({rare['when']}) ? ({rare['each']}) : ({op.get('each')}));", "  }", "  continue;", "  }"]
        out += ["#pragma omp simd", *loop, result, "  }", "  }"]
    else:
        out += ["#pragma omp simd", "  for (int64_t i_ = 0; i_ < n_; ++i_) {", *values, result, "  }"]
    if op.takes_complex:
        expression = op.get("each") if op.get("complex") is True else op.get("complex")
        of_complex = [*values, f"    out_[i_] = static_cast<{out_type}>({expression});"]
        out[start:] = ["  if constexpr (is_complex_type<T>) {", "  for (int64_t i_ = 0; i_ < n_; ++i_) {", *of_complex, "  }", "  } else {", *out[start:], "  }"]
    out += ["  }", "}", "}  // namespace"]
    types = each_types(op) + (["uint8_t", "int16_t"] if op.get("bytes") in ("ints", "all", "order") else []) + (list(COMPLEX_TYPES) if op.takes_complex else [])
    if op.get("bytes") == "order":
        types.append("int8_t")

    def cells(arguments: str) -> str:
        all_types = ("float", "double", "int32_t", "int64_t", "uint8_t", *COMPLEX_TYPES, "int16_t", "int8_t")
        of_types = [f"tile_{op.ident}<{t}{arguments}>" if t in types else "nullptr" for t in all_types]
        of_types.insert(-1, f"tile_{op.ident}<uint8_t{arguments}, true>" if truths else "nullptr")
        return ", ".join(of_types)

    halves = ""
    if expression := op.get("half_bits"):
        halves = f"halves_{op.ident}"
        name = operands[0].name
        out += ["namespace {", f"void {halves}(int64_t n_, void* out_raw, const void* const* in_raw, const Scalar*, int64_t, const int64_t*) {{"]
        out += ["  auto* out_ = static_cast<uint16_t*>(out_raw);", f"  const auto* {name}_in = static_cast<const uint16_t*>(in_raw[0]);", "#pragma omp simd"]
        out += ["  for (int64_t i_ = 0; i_ < n_; ++i_) {", f"    const uint16_t {name} = {name}_in[i_];", f"    out_[i_] = static_cast<uint16_t>({expression});", "  }", "}", "}  // namespace"]
    boolean = "true" if out_type == "bool" else "false"
    loops = f"{{{cells(', 0')}}}, {{{cells(', 2')}}}" if single else f"{{{cells('')}}}, {{}}"
    loops += f", {{{cells(', 1')}}}" if single and op.get("first") else ", {}"
    out.append(f"extern const EachKernel table_{op.ident};")
    narrow = {"ints": "Bytes::Ints", "all": "Bytes::All", "order": "Bytes::Order", "bits": "Bytes::Bits"}.get(str(op.get("bytes")), "Bytes::None")
    out.append(f"constinit const EachKernel table_{op.ident} = {{{loops}, {boolean}, {narrow}, {registers}{', ' + halves if halves else ''}}};")
    return out


def each_declaration(op: Op) -> str:
    return f"FL_EACH({op.ident})"
