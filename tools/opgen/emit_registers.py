"""The register steps of `each` bodies that are an instruction or two: csrc/dispatch/registers.h."""

from __future__ import annotations

import re

from .emit_loop import each_args, each_loop, each_types
from .signature import Arg
from .table import Op

# What a processor does in a few instructions that leave the eight vectors in their registers.
_LIGHT = {
    "T", "abs", "ceil", "clamped", "copysign", "floor", "fmax", "fmin", "frac", "lerp", "maximum", "minimum", "minus_product", "plus_product",
    "reciprocal", "rsqrt", "sign", "sqrt", "trunc",
}  # fmt: skip
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_INPUTS, _NUMBERS = 3, 6  # RegisterStep::kInputs, kNumbers
_MEMORY_TYPES = ("float", "BFloat16", "Float16")  # fl::register_type
_PARAMETERS = ("Vector held_", "const RegisterStep* step_", "const char* const* in_", "int k_")


def _numbers(scalars: list[Arg]) -> int:
    return sum(2 if a.type.spelling.endswith("?") else 1 for a in scalars)


def has_register_steps(op: Op) -> bool:
    """Whether the op is computed in float, gives what it computes in, and is light."""
    operands, scalars = each_args(op)
    plain = "float" in each_types(op) and str(op.get("dtype")) != "bool" and not op.get("rare")
    fits = 1 <= len(operands) <= _INPUTS and _numbers(scalars) <= _NUMBERS
    no_ints = all(a.type.spelling not in ("int", "dim") for a in scalars) and not (op.get("single") and scalars)
    return plain and fits and no_ints and set(_CALL.findall(str(op.get("each")))) <= _LIGHT


def register_steps(op: Op) -> list[str]:
    """The steps of one op, inside namespace fl::kernels::FL_ISA: one for each operand that may be in the registers."""
    operands, scalars = each_args(op)
    by_number = op.get("single")
    out = ["namespace {", "template <int kHeld, bool kSingle, class S>", f"struct Registers_{op.ident} {{"]
    out.append(f"  static FL_VM Vector of({', '.join(f'[[maybe_unused]] {p}' for p in _PARAMETERS)}) {{")
    out += ["    using namespace fl::vm;", "    using T = float;"]
    i = 0
    for a in scalars:
        out.append(f"    [[maybe_unused]] const {'bool' if a.type.spelling == 'bool' else 'T'} {a.name} = step_->numbers[{i}]{' != 0' if a.type.spelling == 'bool' else ''};")
        i += 1
        if a.type.spelling.endswith("?"):
            out.append(f"    [[maybe_unused]] const bool has_{a.name} = step_->numbers[{i}] != 0;")
            i += 1
    out.append("    T r_[kVectorFloats];")
    for i, a in enumerate(operands):
        out.append(f"    const Vector {a.name}_read = kHeld == {i} ? held_ : widened<S>(in_[{i}] + bytes_of<S>(k_));")
        out += [f"    T {a.name}_[kVectorFloats];", f"    std::memcpy({a.name}_, &{a.name}_read, kVector);"]
    values = [f"      [[maybe_unused]] const T {a.name} = {a.name}_[i_];" for a in operands]
    loop = ["#pragma omp simd", "    for (int i_ = 0; i_ < kVectorFloats; ++i_) {"]
    expression = str(op.get("each"))
    if by_number:
        out += ["    if constexpr (kSingle) {", "    const T number = step_->numbers[0];", *loop, values[0], f"      r_[i_] = static_cast<T>({by_number['each']});", "    }", "    } else {"]
    out += [*loop, *values, f"      r_[i_] = static_cast<T>({expression});", "    }"]
    if by_number:
        out.append("    }")
    out += ["    Vector made_;", "    std::memcpy(&made_, r_, kVector);", "    return made_;", "  }"]
    out.append("  static void run(FL_REGISTERS) {")
    reads = ", ".join(f"kHeld == {i} ? nullptr : read_at<S>(step_, {i}, at_)" for i in range(len(operands)))
    out += [f"    [[maybe_unused]] const char* const in_[] = {{{reads}}};"]
    out += ["#define FL_STEP(v, k) of(v, step_, in_, k)", "    FL_EACH_REGISTER(FL_STEP);", "#undef FL_STEP", "    FL_NEXT_STEP;", "  }"]
    if by_number:
        last = operands[1].name
        out += [f"  static float number(float {last}) {{", "    using namespace fl::vm;", f"    return {by_number['number']};", "  }"]
    out += ["};", "}  // namespace"]
    return out


def register_runs(op: Op) -> tuple[list[str], str]:
    """What finds the op's steps, and the initializer of its RegisterRuns."""
    if not has_register_steps(op):
        return [], "{}"
    operands, scalars = each_args(op)
    name, runs = f"Registers_{op.ident}", f"runs_{op.ident}"
    # Where all operands are 16-bit floats it is the first one that is loaded.
    cases = [("float", i) for i in range(len(operands))] + [(s, 0) for s in _MEMORY_TYPES[1:] if len(operands) > 1]
    out = ["namespace {", f"RegisterStep::Run {runs}(int type_, int held_) {{", f"  switch (type_ * {_INPUTS} + held_) {{"]
    out += [f"    case {_MEMORY_TYPES.index(s) * _INPUTS + i}: return opaque({name}<{i}, false, {s}>::run);" for s, i in cases]
    out += ["    default: return nullptr;", "  }", "}"]
    single = "nullptr, nullptr"
    if op.get("single"):
        out.append(f"RegisterStep::Run single_{runs}() {{ return opaque({name}<0, true, float>::run); }}")
        single = f"single_{runs}, {name}<0, true, float>::number"
    return [*out, "}  // namespace"], f"{{{runs}, {_numbers(scalars)}, {single}}}"


def loops(op: Op) -> list[str]:
    """All loops of one op."""
    steps = register_steps(op) if has_register_steps(op) else []
    find, runs = register_runs(op)
    return [*steps, *find, *each_loop(op, runs)]
