"""Graphs in files: the structure as JSON in the metadata of a safetensors file, constants as its tensors.

    "flambeau.graph": "1"                       the format
    "flambeau.structure": {"buffers": [...], ...}

    buffer   [kind, bytes, device, name or null]
    value    [buffer, dtype, [sizes], [strides], offset]
    node     [op, [args], [outs], [writes], "file:line" or null]
    arg      {"v": value}, {"D": dtype}, {"f": "nan"}, {"G": "default"} (a draw), a list (a tuple); numbers, text, null

What is read is checked in this order: the container against the file's size, the form of the JSON, then the graph as a whole
(`_check.py`). No size is believed before it was compared with the file's. Constants are read into memory of their own: a mapping would let
whoever writes to the file change a graph, or end the process by cutting it short.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from flambeau import _C
from flambeau._from_data import as_tensor
from flambeau.graph._check import MAX_DEPTH, check, short
from flambeau.graph._structure import (
    Arg,
    Buffer,
    Draw,
    DType,
    GraphError,
    Node,
    Ref,
    Structure,
    Value,
)
from flambeau.serialization._container import (
    container_of,
    parse_json,
    read_header,
    reader,
)
from flambeau.serialization._errors import FileFormatError
from flambeau.serialization._source import Source

FORMAT, STRUCTURE = "flambeau.graph", "flambeau.structure"
VERSION = "1"
_CONSTANT = re.compile(r"constant\.(0|[1-9][0-9]{0,17})\Z")
_NOT_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

S = TypeVar("S", bound=Structure)


# ------------------------------------------------------------------------------------------- writing


def _plain(arg: Arg) -> Any:
    if isinstance(arg, Ref):
        return {"v": arg.value}
    if isinstance(arg, DType):
        return {"D": arg.name}
    if isinstance(arg, Draw):
        return {"G": "default"}
    if isinstance(arg, tuple):
        return [_plain(item) for item in arg]
    if isinstance(arg, float) and not math.isfinite(arg):
        return {"f": repr(arg)}
    return arg


def structure_text(graph: Structure, names: bool = True) -> str:
    """The JSON; without names of buffers and lines of sources it says only what is computed."""
    return json.dumps(
        {
            "buffers": [[b.kind, b.nbytes, b.device, b.name if names else None] for b in graph.buffers],
            "values": [[v.buffer, v.dtype, v.sizes, v.strides, v.offset] for v in graph.values],
            "nodes": [[n.op, _plain(n.args), n.outs, n.writes, n.source if names else None] for n in graph.nodes],
            "inputs": graph.inputs,
            "outputs": graph.outputs,
        },
        separators=(",", ":"),
    )


def bytes_of(constant: Any) -> bytes:
    """A constant's elements, row-major."""
    value = as_tensor(constant, device="cpu").detach().contiguous()
    return value.reshape(-1).view(_C.uint8).numpy().tobytes() if value.numel() else b""


def writer(graph: Structure) -> Callable[[Any], None]:
    """What writes the file."""
    tensors = {f"constant.{index}": as_tensor(value, device="cpu") for index, value in graph.constants.items()}
    return container_of(tensors, {FORMAT: VERSION, STRUCTURE: structure_text(graph)})


# ------------------------------------------------------------------------------------------- reading


def read(path: str, cls: type[S], trusted: bool = False) -> S:
    """A graph from a file, checked."""
    try:
        with Source.open(path, mmap=False) as source:
            entries, metadata, start = read_header(source)
            if metadata.get(FORMAT) != VERSION or STRUCTURE not in metadata:
                found = short(metadata.get(FORMAT))
                _fail(f"has {FORMAT} = {found}; expected '{VERSION}', with {STRUCTURE} (no graph, or one of a later version)")
            fields = _fields(parse_json(metadata[STRUCTURE], "its structure"))
            names = _constants(entries, len(fields["buffers"]))
            made = reader(source, entries, start, lambda value: value)
            graph = cls(**fields, constants={index: made(name) for index, name in names.items()})
        check(graph)
        if not trusted:
            _refuse_parts(graph)
        return graph
    except (FileFormatError, GraphError) as error:
        what = str(error)
        raise FileFormatError(what if what.startswith("load: ") else f"load: {path} {what}") from None


def _refuse_parts(graph: Structure) -> None:
    trusting = set(_C.graph.trusting_names())
    for index, node in enumerate(graph.nodes):
        if node.op in trusting:
            advice = "expected ops, or load(..., trusted=True) for a file of your own"
            _fail(f"node {index} ({node.op}) is a part of an op, which checks nothing; {advice}")


def _fail(text: str) -> NoReturn:
    raise FileFormatError(text)


def _fields(parsed: Any) -> dict[str, Any]:
    parts = {"buffers": _buffer, "values": _value, "nodes": _node}
    if not isinstance(parsed, dict) or set(parsed) != {*parts, "inputs", "outputs"}:
        found = short(sorted(parsed)) if isinstance(parsed, dict) else f"a {type(parsed).__name__}"
        _fail(f"its structure is {found}; expected buffers, values, nodes, inputs and outputs")
    result: dict[str, Any] = {}
    for name, part in parts.items():
        if not isinstance(parsed[name], list):
            _fail(f"its {name} are {short(parsed[name])}; expected a list")
        result[name] = tuple(part(f"{name[:-1]} {index}", row) for index, row in enumerate(parsed[name]))
    for name in ("inputs", "outputs"):
        result[name] = _integers(f"its {name}", parsed[name])
    return result


def _row(where: str, row: Any, *names: str) -> list[Any]:
    if not isinstance(row, list) or len(row) != len(names):
        _fail(f"{where} is {short(row)}; expected [{', '.join(names)}]")
    return row


def _integers(where: str, numbers: Any) -> tuple[int, ...]:
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        _fail(f"{where} {'are' if where.endswith('s') else 'is'} {short(numbers)}; expected a list of integers")
    return tuple(numbers)


def _buffer(where: str, row: Any) -> Buffer:
    return Buffer(*_row(where, row, "kind", "bytes", "device", "name"))


def _value(where: str, row: Any) -> Value:
    buffer, dtype, sizes, strides, offset = _row(where, row, "buffer", "dtype", "sizes", "strides", "offset")
    return Value(buffer, dtype, _integers(f"{where}: sizes", sizes), _integers(f"{where}: strides", strides), offset)


def _node(where: str, row: Any) -> Node:
    op, args, outs, writes, source = _row(where, row, "op", "args", "outs", "writes", "source")
    where = f"{where} ({op})" if isinstance(op, str) and len(op) <= 60 else where
    if not isinstance(args, list):
        _fail(f"{where}: args are {short(args)}; expected a list")
    made = tuple(_arg(f"{where}: argument {position}", arg, 0) for position, arg in enumerate(args))
    return Node(op, made, _integers(f"{where}: outs", outs), _integers(f"{where}: writes", writes), source)


def _arg(where: str, arg: Any, depth: int) -> Arg:
    if isinstance(arg, list):
        if depth == MAX_DEPTH:
            _fail(f"{where}: lists are nested more than {MAX_DEPTH} deep")
        return tuple(_arg(where, item, depth + 1) for item in arg)
    if isinstance(arg, dict):
        if len(arg) == 1:
            ((key, inner),) = arg.items()
            if key == "v" and type(inner) is int:
                return Ref(inner)
            if key == "D" and isinstance(inner, str):
                return DType(inner)
            if key == "G" and inner == "default":
                return Draw()
            if key == "f" and isinstance(inner, str) and inner in _NOT_NUMBERS:
                return _NOT_NUMBERS[inner]
        _fail(f"{where} is {short(arg)}; expected {{'v': value}}, {{'D': dtype}}, {{'f': 'nan'}}, {{'G': 'default'}} or a plain one")
    if isinstance(arg, float) and not math.isfinite(arg):
        _fail(f"{where} is a number beyond those of 64 bits")
    return arg  # type: ignore[no-any-return]


def _constants(entries: dict[str, Any], n_buffers: int) -> dict[int, str]:
    result: dict[int, str] = {}
    for name in entries:
        match = _CONSTANT.match(name)
        if not match or int(match[1]) >= n_buffers:
            _fail(f"tensor {short(name)} belongs to no buffer; expected constant.0 to constant.{n_buffers - 1}")
        result[int(match[1])] = name
    return result
