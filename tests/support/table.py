"""The op table as test data: entries, their samples as arrays and tensors, and calls.

    case = (op, index of the sample)   ->   arrays(case)    NumPy arrays and literals, by argument name
                                       ->   tensors(...)    the same as tensors
                                       ->   call(op, args)  the result as a list of tensors
"""

from __future__ import annotations

import ast
import pathlib
import re
import zlib

import numpy as np
import scipy.special
from opgen.table import Op, load

import flambeau as fl
from flambeau import _C
from support.compare import NUMPY_TYPES

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = load(ROOT / "ops")
PREFIX = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
SPEC = re.compile(r"^(bool|[fiuc]\d+)\[([\d, ]*)\](?: +(pos|unit|prob|above1|< *(\d+)))?$")


def seeded(*parts):
    return np.random.default_rng(zlib.crc32("/".join(map(str, parts)).encode()))


def is_spec(value):
    return isinstance(value, str) and SPEC.match(value) is not None


def dtype_of(spec):
    name = SPEC.match(spec)[1]
    return name if name == "bool" else PREFIX[name[0]] + name[1:]


def shape_of(spec):
    return tuple(int(n) for n in SPEC.match(spec)[2].split(",") if n.strip())


def make(spec, rng, shape=None, dtype=None):
    """The array a sample's text describes; see docs/op-table.md."""
    _, _, kind, bound = SPEC.match(spec).groups()
    name = dtype or dtype_of(spec)
    shape = shape_of(spec) if shape is None else shape
    if name == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if name.startswith("complex"):
        parts = [make(f"f64[] {kind or ''}".strip(), rng, shape) for _ in range(2)]
        return np.asarray(parts[0] + 1j * parts[1]).astype(name)
    if not name.startswith("float"):
        low, high = (0, int(bound)) if bound else (0, 10) if name.startswith("u") else (-5, 6)
        return np.asarray(rng.integers(low, high, shape)).astype(NUMPY_TYPES[name])
    low, high = {None: (-2, 2), "pos": (0.1, 2), "unit": (-0.9, 0.9), "prob": (0.05, 0.95), "above1": (1.1, 3)}[kind]
    return np.asarray(rng.uniform(low, high, shape)).astype(NUMPY_TYPES[name])


def arrays(op: Op, index, **how):
    """Sample `index` of an entry: arguments by name."""
    rng = seeded(op.ident, index)
    out = {}
    for name, value in op.get("samples")[index].items():
        if is_spec(value):
            out[name] = make(value, rng, **how)
        elif isinstance(value, list) and value and all(is_spec(v) for v in value):
            out[name] = [make(v, rng, **how) for v in value]
        elif value == "None":
            out[name] = None
        else:
            out[name] = value
    return out


def _each(value, function):
    if isinstance(value, np.ndarray):
        return function(value)
    if isinstance(value, list) and any(isinstance(v, np.ndarray) for v in value):
        return [function(v) for v in value]
    return value


def map_arrays(args, function):
    """`args` with `function` applied to every array."""
    return {name: _each(value, function) for name, value in args.items()}


def tensors(op: Op, args):
    """Arrays to tensors; and the names of element types, which samples give as text, to types."""
    out = map_arrays(args, fl.tensor)
    for arg in op.sig.args:
        if arg.type.spelling.startswith("dtype") and isinstance(out.get(arg.name), str):
            out[arg.name] = getattr(fl, out[arg.name])
    return out


def strided(array):
    """A tensor with these values that is not row-major: axes reversed in memory, and every second element."""
    if array.ndim == 0:
        return fl.tensor([array.item(), array.item()], dtype=getattr(fl, array.dtype.name))[1]
    spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    spread[..., ::2] = array
    order = tuple(reversed(range(array.ndim)))
    return fl.tensor(np.ascontiguousarray(spread.transpose(order))).permute(order)[..., ::2]


def call(op: Op, args):
    """Calls an entry by keywords, and gives its results as a list."""
    result = getattr(_C.ops, op.name)(**args)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def reference(op: Op, args, wide=True):
    """The entry's NumPy expression, computed in float64 when `wide`; a list, one array per result."""

    def widen(a):
        if wide and a.dtype == np.complex64:
            return a.astype(np.complex128)
        return a.astype(np.float64) if wide and a.dtype in (np.float16, np.float32) else a

    scope = {a.name: None for a in op.sig.args}
    for arg in op.sig.args:
        if arg.default is not None:
            try:
                scope[arg.name] = ast.literal_eval(arg.default)
            except (ValueError, SyntaxError):
                pass
    scope.update(map_arrays(args, widen))
    with np.errstate(all="ignore"):
        result = eval(op.get("ref"), {"np": np, "sp": scipy.special, **scope})
    return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else [np.asarray(result)]


def cases(where=lambda op: True):
    """(op, sample index) of all entries that pass `where`, as pytest parameters with readable ids."""
    import pytest

    out = []
    for op in OPS:
        if where(op):
            for i, sample in enumerate(op.get("samples", [])):
                text = ",".join(f"{k}={v}" if not is_spec(v) else v for k, v in sample.items())
                out.append(pytest.param(op, i, id=f"{op.ident}-{i}-{text}".replace(" ", "")))
    return out
