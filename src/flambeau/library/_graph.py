"""Custom ops as nodes of graphs.

A kernel is Python that may read numbers, so recording can not look into it. Inside of `graph.record` an op that has a fake becomes one
node instead: the fake says what the results look like, memory is set aside for them, and a `custom_call` that writes it is noted:

    custom_call("docs::sine", '{"args": [{"read": 0}], ...}', reads, writes)

Arguments are a text, in which tensors are numbers of `reads` or `writes`. What the op writes to itself is among `writes`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.modes import no_grad
from flambeau.func._tree import flatten, tree_map
from flambeau.library._op import CustomOpDef, _find, recording, tensors_in


@contextlib.contextmanager
def as_nodes() -> Iterator[None]:
    """Meanwhile custom ops become nodes."""
    before = recording.on
    recording.on, recording.call = True, record_call
    try:
        yield
    finally:
        recording.on = before


def record_call(op: CustomOpDef[..., Any], values: Sequence[Any]) -> Any:
    """Notes the call, and returns tensors whose numbers are not there yet."""
    args, kwargs = op._schema.split(tree_map(_on_meta, list(values)))
    with no_grad():
        assert op._fake is not None
        shapes = op._fake(*args, **kwargs)
    op._schema.check_result(op._qualname, shapes)
    made = [_promised(op, y) for y in flatten(shapes)[0] if y is not None]
    mutated = op._schema.mutated(values)
    reads = [t for t in tensors_in(values) if not any(t is m for m in mutated)]
    text = json.dumps({"args": [_said(v, reads, mutated) for v in values]})
    _C.graph.custom_call(op._qualname, text, [t.detach() for t in reads], [*made, *(t.detach() for t in mutated)])
    return flatten(shapes)[1](made) if made else shapes


def run_call(op: str, arguments: str, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> None:
    """Runs a node: `Graph.run` calls it.

    Raises:
        RuntimeError: there is no such op here.
        ValueError: the node is none of that op's.
    """
    found = _find(op)
    n = len(writes) - _count(arguments)
    if n < 0:
        raise ValueError(f"{op}: {len(writes)} tensors to write; the arguments name more")
    values = [_meant(v, reads, writes[n:]) for v in json.loads(arguments)["args"]]
    values = found._schema.bind(op, *found._schema.split(values))
    result = found.run(values)
    made = [y for y in flatten(result)[0] if isinstance(y, Tensor)]
    if len(made) != n:
        raise ValueError(f"{op}: returned {len(made)} tensors; the graph has {n}")
    for y, out in zip(made, writes):
        if y.shape != out.shape or y.dtype is not out.dtype:
            raise ValueError(f"{op}: returned {y.dtype} of shape {list(y.shape)}; the fake said {out.dtype} of shape {list(out.shape)}")
        out.copy_(y)


def _on_meta(leaf: Any) -> Any:
    return _C.ops.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta") if isinstance(leaf, Tensor) else leaf


def _promised(op: CustomOpDef[..., Any], y: Any) -> Tensor:
    if not isinstance(y, Tensor):
        raise RuntimeError(f"{op._qualname}: it returns a {type(y).__name__}, which a graph can not hold; expected tensors alone")
    return _C.ops.empty_strided(y.shape, y.stride(), dtype=y.dtype)


def _place(x: Tensor, tensors: Sequence[Tensor]) -> int:
    return next(i for i, t in enumerate(tensors) if t is x)


def _said(value: Any, reads: Sequence[Tensor], mutated: Sequence[Tensor]) -> Any:
    if isinstance(value, Tensor):
        if any(value is m for m in mutated):
            return {"write": _place(value, mutated)}
        return {"read": _place(value, reads)}
    if isinstance(value, (tuple, list)):
        return [_said(v, reads, mutated) for v in value]
    if isinstance(value, _C.dtype):
        return {"dtype": value.name}
    if isinstance(value, _C.device):
        return {"device": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    return value if value is None or isinstance(value, (bool, int, float, str)) else value.__index__()


def _meant(value: Any, reads: Sequence[Tensor], mutated: Sequence[Tensor]) -> Any:
    match value:
        case list():
            return [_meant(v, reads, mutated) for v in value]
        case {"read": int(i)} if 0 <= i < len(reads):
            return reads[i]
        case {"write": int(i)} if 0 <= i < len(mutated):
            return mutated[i]
        case {"dtype": str(name)} if isinstance(getattr(_C, name, None), _C.dtype):
            return getattr(_C, name)
        case {"device": str(name)}:
            return _C.device(name)
        case {"complex": [real, imaginary]}:
            return complex(real, imaginary)
        case dict():
            raise ValueError(f"custom_call: the argument {value!r} means nothing")
    return value


def _count(arguments: str) -> int:
    """How many tensors the op writes to itself."""
    return _most(json.loads(arguments)["args"])


def _most(value: Any) -> int:
    if isinstance(value, dict) and isinstance(value.get("write"), int):
        return int(value["write"]) + 1
    return max(map(_most, value), default=0) if isinstance(value, list) else 0
