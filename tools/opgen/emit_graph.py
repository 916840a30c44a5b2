"""Entry -> what a recorder and an executor need: the registry's OpInfo, and the function that runs a recorded call."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import emit_check
from .rules import is_inplace_op
from .table import Op

# One letter per argument type, `?` behind it where it may lack (csrc/graph/op_info.h).
_LETTERS = {
    "Tensor": "T", "Tensor[]": "L", "Tensor?[]": "L", "Operand": "O", "int": "i", "dim": "i", "int[]": "l", "dim[]": "l", "float": "d",
    "bool": "b", "number": "n", "str": "s", "dtype": "y", "device": "p", "Generator": "g",
}  # fmt: skip


def _kinds(op: Op) -> str:
    kinds = ""
    for a in op.sig.args:
        spelling = a.type.spelling
        bare = "int[]" if spelling.startswith("int[") else spelling.removesuffix("?")
        kinds += _LETTERS[bare] + ("?" if spelling.endswith("?") else " ")
    return kinds


def is_recorded(op: Op) -> bool:
    """Not compositions, whose ops are, nor views, which do not run, nor what makes sizes of values."""
    makes_of_nothing = op.makes_output and not any(a.is_tensor for a in op.sig.args)
    return "composite" not in op.keys and not op.get("view") and op.get("shape") != "by_value" and not makes_of_nothing


def is_handed_on(op: Op) -> bool:
    """What is taken below autograd as a whole, before anything is made: views, constructors, and what makes sizes of values."""
    constructor = op.get("composite") == "native" and op.sig.arg("requires_grad") is not None
    return bool(op.get("view")) or constructor or (op.get("shape") == "by_value" and len(op.sig.outs) == 1 and not op.aux)


def handed_on(op: Op, y: str) -> str:
    """Whether a call is, on a thread that records; then `y`, a variable without a value so far, is what came of it."""
    return f"graph::handed_on(info_{op.ident}, {y}, {', '.join(a.name for a in op.sig.args)})"


def or_handed_on(op: Op) -> str:
    """The result of a call on a thread that records: what comes of it where it is handed on, else what `make` makes."""
    return f"graph::or_handed_on(handed_on, info_{op.ident}, make, {', '.join(a.name for a in op.sig.args)})"


def outs_of(op: Op) -> list[str]:
    """Fresh outputs in the order in which they are recorded."""
    return [*([] if is_inplace_op(op) else [n for _, n in op.sig.outs]), *op.aux]


def _writes(op: Op, inplace: bool) -> int:
    written = set(op.get("mutates", []))
    if inplace or is_inplace_op(op):
        written.add(op.sig.args[0].name)
    return sum(1 << i for i, a in enumerate(op.sig.args) if a.name in written)


def _position_of_bool(op: Op, name: str) -> int:
    """Where the argument is that says whether `mutates` holds; recordings know nothing but numbers."""
    found = [i for i, a in enumerate(op.sig.args) if a.name == name and a.type.spelling == "bool"]
    if not found:
        raise ValueError(f"{op.name}: mutates_when: {name}; expected the name of a bool argument")
    return found[0]


def record(op: Op, meta: str, inplace: str | None = None) -> str:
    """The statement that appends a call; `meta` says in C++ whether it computes nothing, `inplace` is what is written over, of the form that does so."""
    args = [a.name for a in op.sig.args]
    if inplace:
        args[0] = inplace
    outs = "" if inplace else ", ".join(f"&{n}" for n in outs_of(op))
    return f"graph::record(info_{op.ident}{'_' if inplace else ''}, {meta}, {{{outs}}}, {', '.join(args)});"


def _unboxed(op: Op) -> list[str]:
    out = []
    for i, a in enumerate(op.sig.args):
        param = a.type.param
        kind = "const Tensor&" if param == "const Tensor&" else "const auto"
        out.append(f"  [[maybe_unused]] {kind} {a.name} = graph::Unbox<{param}>::get(frame_, {i});")
    return out


def infos(op: Op, each: Sequence[str], kernel: Sequence[str], over_kernel: Sequence[str] = ()) -> list[str]:
    """`each` or `kernel`: the body of the call between arguments and outputs, in the names of the entry; `over_kernel` that of the call in place."""
    signature = str(op.keys["op"]).replace('"', '\\"')
    if is_handed_on(op):
        return [f'const graph::OpInfo info_{op.ident}{{"{op.name}", "{op.ident}", "{signature}"}};']
    if not is_recorded(op):
        return []
    out = []

    def info(name: str, run: str, inplace: bool, extra: str = "") -> str:
        ident = op.ident + ("_" if inplace else "")
        outs = 0 if inplace else len(outs_of(op))
        return (
            f'const graph::OpInfo info_{ident}{{"{name}", "{ident}", "{signature}", "{_kinds(op)}", {_writes(op, inplace)}, {outs}, {run}, {check}{extra}}};'
        )

    check = "nullptr"
    if op.get("check"):
        check = f"check_{op.ident}"
        out += [f"void {check}(const graph::Frame& frame_) {{", *_unboxed(op), *(emit_check(op, c) for c in op.get("check")), "}"]
    if each:
        out += [f"void loop_{op.ident}(const graph::Frame& frame_, graph::OpInfo::EachCall call_, void* context_) {{"]
        out += [*_unboxed(op), *each, "}"]
        extra = f", loop_{op.ident}"
        out.append(info(op.name, f"[](const graph::Frame& f) {{ run_recorded_each(f, loop_{op.ident}, \"{op.name}\", false); }}", False, extra))
        if op.get("inplace"):
            out.append(info(f"{op.name}_", f"[](const graph::Frame& f) {{ run_recorded_each(f, loop_{op.ident}, \"{op.name}_\", true); }}", True, extra))
        return out
    out.append(f"void run_{op.ident}(const graph::Frame& frame_) {{")
    out += _unboxed(op)
    if not op.makes_output:
        out += [f"  [[maybe_unused]] const Tensor& {n} = frame_.out({i});" for i, n in enumerate(outs_of(op))]
    over = "-1, -1"
    if over_pairs := op.get("over"):
        (y, x), = over_pairs.items()
        over = f"{outs_of(op).index(y)}, {[a.name for a in op.sig.args].index(x)}"
    when = f", {_position_of_bool(op, op.get('mutates_when'))}" if op.get("mutates_when") else ""
    trusts = "true" if op.trusts else "false"
    out += [*kernel, "}", info(op.name, f"run_{op.ident}", False, f", nullptr, {over}, {trusts}{when}")]
    if over_kernel:
        out += [f"void run_{op.ident}_(const graph::Frame& frame_) {{", *_unboxed(op), *over_kernel, "}"]
        out.append(info(f"{op.name}_", f"run_{op.ident}_", True, f", nullptr, -1, -1, {trusts}"))
    return out
