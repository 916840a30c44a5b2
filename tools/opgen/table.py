"""Reads ops/*.yaml into `Op`s and checks them; every complaint carries file:line."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
from typing import Any

import yaml

from .signature import Signature, parse

KEYS = {
    "op", "doc", "example", "complex", "conjugate", "shape", "dtype", "check", "each", "rare", "half_bits", "types", "first", "single", "bytes", "any_type", "shortcut", "kernel", "composite", "aux", "let", "grad", "adds",
    "view", "inplace", "over", "mutates", "mutates_when", "keywords", "ignores", "layout", "any_strides", "strides", "flops", "methods", "total", "autocast", "devices", "draws", "batch", "aliases", "node", "keeps",
    "one_value", "values", "says", "sparse", "numbers_first", "named", "ref", "samples", "errors",
}  # fmt: skip
BYTES = ("ints", "all", "order", "bits")
COMPLEX_WAYS = ("native", "parts")  # values of `complex` by which other ops are called
BATCHES = ("each", "axes", "leading")
AUTOCASTS = ("lower", "widen", "promote")
BODIES = ("each", "kernel", "composite")


class TableError(Exception):
    """A fault in the table: `file:line: what`."""


@dataclasses.dataclass
class Op:
    sig: Signature
    keys: dict[str, Any]
    file: str
    line: int
    overload: int = 0
    gives: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.sig.name

    @property
    def ident(self) -> str:
        """Unique C++ identifier: softmax, max, max_1, ..."""
        return self.name if self.overload == 0 else f"{self.name}_{self.overload}"

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    def get(self, key: str, default: Any = None) -> Any:
        return self.keys.get(key, default)

    @property
    def formulas(self) -> dict[str, str]:
        """The formulas of its gradients: those that are not `none` (the argument has no edge) or `zero` (it has, and gets 0 by it)."""
        return {k: str(v) for k, v in (self.get("grad") or {}).items() if v not in ("none", "zero")}

    @property
    def takes_complex(self) -> bool:
        """Whether the body itself, and so its node, meets complex numbers, and not other ops in its place."""
        value = self.get("complex")
        return value is True or ("each" in self.keys and value is not None and value not in COMPLEX_WAYS)

    @property
    def makes_output(self) -> bool:
        """Whether the kernel makes its outputs: from meta tensors, too, unless their size is a matter of values."""
        return self.get("shape") in ("dynamic", "by_value")

    @property
    def methods(self) -> list[str]:
        return self.keys.get("methods", ["function", "method"])

    @property
    def trusts(self) -> bool:
        """Whether its kernel is safe by what calls it alone."""
        return "internal" in self.methods and "kernel" in self.keys and "check" not in self.keys and "total" not in self.keys

    @property
    def aux(self) -> dict[str, str]:
        return self.keys.get("aux", {})

    @property
    def first_tensor(self) -> str | None:
        return next((a.name for a in self.sig.args if a.is_tensor), None)


def _construct(node: yaml.Node, file: str, inside_samples: bool = False) -> Any:
    """YAML node -> Python, refusing nulls, repeated keys and flow maps outside of samples."""
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        if node.flow_style and not inside_samples:
            raise TableError(f"{file}:{line}: a flow map {{...}} outside of samples (YAML splits it at commas)")
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in out:
                raise TableError(f"{file}:{key_node.start_mark.line + 1}: key '{key}' stands twice")
            out[key] = _construct(value_node, file, inside_samples or key in ("samples", "errors"))
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, file, inside_samples) for item in node.value]
    value = yaml.constructor.SafeConstructor().construct_object(node) if isinstance(node, yaml.ScalarNode) else None
    if value is None and not inside_samples:
        raise TableError(f"{file}:{line}: a null value; leave the key out instead")
    return value


def _check_entry(entry: dict[str, Any], where: str) -> Signature:
    unknown = sorted(set(entry) - KEYS)
    if unknown:
        raise TableError(f"{where}: unknown key '{unknown[0]}'; expected one of {', '.join(sorted(KEYS))}")
    if "op" not in entry:
        raise TableError(f"{where}: no `op` signature")
    try:
        sig = parse(entry["op"])
    except ValueError as fault:
        raise TableError(f"{where}: {fault}") from None
    bodies = [b for b in BODIES if b in entry]
    if len(bodies) != 1:
        raise TableError(f"{where}: {sig.name}: {len(bodies)} bodies; expected exactly one of each, kernel, composite")
    if "example" in entry and not str(entry["example"]).startswith(">>> "):
        raise TableError(f"{where}: {sig.name}: example; expected lines of Python's prompt, the first of them with >>>")
    if "strides" in entry:
        _check_strides(entry, sig, where)
    if "rare" in entry and ("each" not in entry or not isinstance(entry["rare"], dict) or set(entry["rare"]) - {"block"} != {"when", "each"}):
        raise TableError(f"{where}: {sig.name}: rare; expected `when`, `each` and perhaps `block` below it, and an `each` beside it")
    if "half_bits" in entry and ("each" not in entry or len(sig.args) != 1):
        raise TableError(f"{where}: {sig.name}: half_bits; expected an expression of x's bits, beside an `each` of one tensor and nothing else")
    if "conjugate" in entry and (entry["conjugate"] is not False or "complex" not in entry):
        raise TableError(f"{where}: {sig.name}: conjugate; expected false, beside `complex`")
    if "complex" in entry and entry["complex"] in ("", False):
        raise TableError(f"{where}: {sig.name}: complex; expected true, native, parts or an expression")
    if "shortcut" in entry and (entry["shortcut"] is not True or "composite" in entry):
        raise TableError(f"{where}: {sig.name}: shortcut; expected true, beside an each or a kernel")
    if "first" in entry and (entry["first"] is not True or "each" not in entry or len([a for a in sig.args if a.is_tensor]) != 2):
        raise TableError(f"{where}: {sig.name}: first; expected true, beside an `each` of two operands")
    if "single" in entry and ("each" not in entry or len([a for a in sig.args if a.is_tensor]) != 2 or not isinstance(entry["single"], dict) or set(entry["single"]) != {"number", "each"}):
        raise TableError(f"{where}: {sig.name}: single; expected `number` and `each` below it, beside an `each` of two operands")
    if "bytes" in entry and ("each" not in entry or entry["bytes"] not in BYTES):
        raise TableError(f"{where}: {sig.name}: bytes; expected one of {', '.join(BYTES)} beside an `each`")
    if "any_type" in entry and (entry["any_type"] is not True or "kernel" not in entry):
        raise TableError(f"{where}: {sig.name}: any_type; expected true, beside a kernel")
    if "total" in entry and (entry["total"] is not True or "kernel" not in entry or "internal" not in entry.get("methods", [])):
        raise TableError(f"{where}: {sig.name}: total; expected true, beside the kernel of an internal op")
    numbers = [a for a in sig.args if a.keyword_only]
    if "numbers_first" in entry and (entry["numbers_first"] is not True or not 0 < len(numbers) < 3 or any(a.type.kind != "Number" for a in numbers)):
        raise TableError(f"{where}: {sig.name}: numbers_first; expected true, beside one or two keyword-only numbers")
    if "named" in entry and (entry["named"] is not True or len(sig.outs) < 2):
        raise TableError(f"{where}: {sig.name}: named; expected true, where there are several results")
    if entry.get("devices", "any") != "any":
        raise TableError(f"{where}: {sig.name}: devices: '{entry['devices']}'; expected any, or no such key")
    if "inplace" in entry:
        _check_inplace(entry, sig, where)
    if entry.get("batch", "each") not in BATCHES:
        raise TableError(f"{where}: {sig.name}: batch: '{entry['batch']}'; expected one of {', '.join(BATCHES)}")
    for key in ("draws", "values"):
        if entry.get(key, True) is not True:
            raise TableError(f"{where}: {sig.name}: {key}: '{entry[key]}'; expected true, or no such key")
    one_value = entry.get("one_value", True)
    if one_value is not True and not any(a.name == one_value and a.type.spelling == "Operand" for a in sig.args):
        raise TableError(f"{where}: {sig.name}: one_value: '{one_value}'; expected true, or an Operand of the op")
    autocast = entry.get("autocast")
    if autocast is not None and autocast not in AUTOCASTS:
        raise TableError(f"{where}: {sig.name}: autocast: '{autocast}'; expected one of {', '.join(AUTOCASTS)}")
    if autocast is not None and any(a.type.spelling == "Operand" for a in sig.args):
        raise TableError(f"{where}: {sig.name}: autocast for an Operand, which would outlive its cast; expected Tensor arguments")
    known = {a.name for a in sig.args}
    node = entry.get("node")
    if node is not None and not isinstance(node, str) and not (isinstance(node, dict) and len(node) == 2 and "else" in node):
        raise TableError(f"{where}: {sig.name}: node; expected a name, or one under an argument and one under `else`")
    for name in node if isinstance(node, dict) else ():
        if name != "else" and name not in known:
            raise TableError(f"{where}: {sig.name}: node names '{name}', which is no argument")
    for name in entry.get("keeps", []):
        if name.removeprefix("shape(").removesuffix(")") not in known:
            raise TableError(f"{where}: {sig.name}: keeps names '{name}', which is no argument and no shape of one")
    for name in entry.get("keywords", {}):
        if name not in known:
            raise TableError(f"{where}: {sig.name}: keywords names '{name}', which is no argument")
    for key in entry.get("grad", {}):
        for name in key.split(","):
            if name.strip() not in known:
                raise TableError(f"{where}: {sig.name}: grad names '{name.strip()}', which is no argument")
    inplace = entry["inplace"] if isinstance(entry.get("inplace"), dict) else {}
    for name in entry.get("adds", {}):
        if not isinstance(entry.get("grad", {}).get(name), str) or name != next(k for k, v in entry["grad"].items() if v != "none"):
            raise TableError(f"{where}: {sig.name}: adds: '{name}'; expected the first argument with a gradient of its own")
    for formula in [*entry.get("grad", {}).values(), *entry.get("adds", {}).values(), *entry.get("let", {}).values(), *inplace.get("grad", {}).values()]:
        try:
            ast.parse(str(formula), mode="eval")
        except SyntaxError as fault:
            raise TableError(f"{where}: {sig.name}: formula '{formula}': {fault.msg}") from None
    return sig


def _check_strides(entry: dict[str, Any], sig: Signature, where: str) -> None:
    """A function of the kernel's file applied to some of the arguments, for an only output that the wrapper allocates."""
    name, bracket, args = str(entry["strides"]).removesuffix(")").partition("(")
    have = [a.name for a in sig.args]
    if "kernel" not in entry or "shape" not in entry or len(sig.outs) != 1:
        raise TableError(f"{where}: {sig.name}: strides; expected a kernel with `shape` and one output")
    if not bracket or not name.isidentifier() or any(a not in have for a in args.split(", ")):
        raise TableError(f"{where}: {sig.name}: strides: '{entry['strides']}'; expected a function of arguments, f({', '.join(have)})")


def _check_inplace(entry: dict[str, Any], sig: Signature, where: str) -> None:
    """`inplace: true`, or with the gradient by the output, which the form that overwrites its input can keep."""
    value = entry["inplace"]
    if value is True or (value == "native" and entry.get("composite") == "native") or (value in ({"over": True}, {"over": "any_strides"}) and "kernel" in entry):
        return
    tensors = [a.name for a in sig.args if a.is_tensor]
    fitting = isinstance(value, dict) and {"grad"} <= set(value) <= {"grad", "when", "copied"} and isinstance(value["grad"], dict)
    fitting = fitting and value.get("copied", True) is True
    if not fitting or "each" not in entry or len(tensors) != 1 or set(value["grad"]) != set(tensors) or tensors[0] not in entry.get("grad", {}):
        raise TableError(
            f"{where}: {sig.name}: inplace; expected true, native (beside a native composite), `over: true` or `over: any_strides` (beside a kernel), or `grad` (the only tensor's gradient by the output) and maybe `when` and `copied: true`, beside an `each`"
        )
    if re.search(rf"\b{tensors[0]}\b", str(value["grad"][tensors[0]])):
        raise TableError(f"{where}: {sig.name}: inplace: the gradient uses '{tensors[0]}', which is overwritten; expected a formula of the output")


def load(folder: pathlib.Path) -> list[Op]:
    """All entries of all files, in file-name and file order."""
    ops: list[Op] = []
    count: dict[str, int] = {}
    for path in sorted(folder.rglob("*.yaml")):
        file = str(path.relative_to(folder.parent))
        try:
            root = yaml.compose(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # the parser in C where it was built
        except yaml.YAMLError as fault:
            raise TableError(f"{file}: {fault}") from None
        if root is None:
            continue
        if not isinstance(root, yaml.SequenceNode):
            raise TableError(f"{file}:1: expected a list of entries")
        for node in root.value:
            line = node.start_mark.line + 1
            entry = _construct(node, file)
            sig = _check_entry(entry, f"{file}:{line}")
            op = Op(sig, entry, file, line, count.get(sig.name, 0))
            count[sig.name] = op.overload + 1
            ops.append(op)
    names = {}
    for op in ops:
        for alias in op.get("aliases", []):
            if names.setdefault(alias, op.name) != op.name:
                raise TableError(f"{op.where}: alias '{alias}' belongs to '{names[alias]}' already")
    return ops
