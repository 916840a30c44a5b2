"""Entry -> what `flambeau.func` asks of an op: its signature, kind of body, and in which arguments it is linear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .emit_node import NodeWriter
from .table import Op


def draws(op: Op) -> bool:
    """Whether results differ from call to call: a generator is an argument, or the entry says so."""
    return bool(op.get("draws")) or any(a.type.spelling == "Generator?" for a in op.sig.args)


def body(op: Op) -> str:
    """`each`, `view`, `kernel` or `composite`."""
    if op.get("view"):
        return "view"
    return next(kind for kind in ("each", "kernel", "composite") if kind in op.keys)


def linear(op: Op, table: Mapping[str, Sequence[Op]]) -> str:
    """`a: b; b: a`: the op is linear in a with b held and all other tensors and numbers zero.

    That is so where the gradient of a reads neither a nor a result, and what it reads of the other arguments is linear in turn, as
    the factors of a product are. Element-wise ops are left out: some are linear in pieces (`frac`).
    """
    if "kernel" not in op.keys or draws(op):
        return ""
    writer = NodeWriter(op, table)
    results = {name for _, name in op.sig.outs} | set(op.aux)
    names = {n for names, _ in writer.grads for n in names}
    reads = {n: {used for used, wanted in writer.uses.items() if n in wanted} for n in names}

    def is_linear(name: str) -> bool:
        return name not in reads[name] and not reads[name] & results

    found = []
    for name in sorted(names):
        if is_linear(name) and all(is_linear(other) and name in reads[other] for other in reads[name] & names):
            found.append(f"{name}: {' '.join(sorted(reads[name]))}")
    return "; ".join(found)


def batch(op: Op) -> str:
    """How the op takes axes before its own: see `batch` in docs/op-table.md; empty where only a rule of `flambeau.func` knows."""
    if said := op.get("batch"):
        return str(said)
    if "each" in op.keys:
        return "each"
    kinds = [a.type.spelling for a in op.sig.args]
    axes = any(kind.startswith("dim") for kind in kinds)
    tensors = sum(kind.startswith("Tensor") or kind == "Operand" for kind in kinds)
    return "axes" if axes and tensors == 1 else ""


def row(op: Op, table: Mapping[str, Sequence[Op]]) -> str:
    """One initializer of OpTraits (csrc/bindings/args.h)."""
    texts = [op.name, str(op.keys["op"]), body(op), " ".join(op.get("aliases", [])), linear(op, table), batch(op)]
    quoted = ", ".join('"' + text.replace('"', '\\"') + '"' for text in texts)
    flags = ", ".join(str(bool(flag)).lower() for flag in (draws(op), op.get("inplace")))
    return f"  {{{quoted}, {flags}}},"
