"""Whether a graph is one: every index, size and order, before anybody trusts them.

All faults are gathered (up to a dozen), and each names its node, value or buffer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flambeau.graph._structure import (
    BROUGHT,
    ITEM_BYTES,
    KINDS,
    Arg,
    Draw,
    DType,
    GraphError,
    Ref,
    Structure,
    refs_of,
)

MAX_BYTES = 2**63 - 1
MAX_DIMS = 64
MAX_DEPTH = 8  # of tuples among a node's arguments
MAX_FAULTS = 12

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


def is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number <= MAX_BYTES


def short(thing: Any) -> str:
    try:
        text = repr(thing)
    except ValueError:  # an int of too many digits
        text = f"a {type(thing).__name__} that is too long"
    return text if len(text) <= 60 else text[:57] + "..."


def check(graph: Structure) -> None:
    """Raises GraphError with what is wrong."""
    faults: list[str] = []
    # The later parts use indices that the earlier ones have checked.
    for part in (_buffers, _values, _nodes, _ends, _constants, _order):
        for fault in part(graph):
            faults.append(fault)
            if len(faults) == MAX_FAULTS:
                break
        if faults:
            break
    if len(faults) == 1:
        raise GraphError(faults[0])
    if faults:
        raise GraphError("the graph has faults:\n" + "\n".join(f"  - {fault}" for fault in faults))


def _buffers(graph: Structure) -> Iterator[str]:
    for index, buffer in enumerate(graph.buffers):
        if buffer.kind not in KINDS:
            yield f"buffer {index} has kind {short(buffer.kind)}; expected one of {', '.join(KINDS)}"
        if not is_count(buffer.nbytes):
            yield f"buffer {index} has {short(buffer.nbytes)} bytes; expected a number from 0 to 2^63 - 1"
        if type(buffer.device) is not str or not buffer.device:
            yield f"buffer {index} has device {short(buffer.device)}; expected a name"
        if buffer.name is not None and type(buffer.name) is not str:
            yield f"buffer {index} has name {short(buffer.name)}; expected a str or None"


def _values(graph: Structure) -> Iterator[str]:
    for index, value in enumerate(graph.values):
        where = f"value %{index}"
        if type(value.buffer) is not int or not 0 <= value.buffer < len(graph.buffers):
            yield f"{where}: buffer {short(value.buffer)} does not exist; there are {len(graph.buffers)}"
            continue
        if type(value.dtype) is not str or value.dtype not in ITEM_BYTES:
            yield f"{where}: dtype {short(value.dtype)}; expected one of {', '.join(sorted(ITEM_BYTES))}"
            continue
        geometry = (value.sizes, value.strides)
        if not all(type(part) is tuple and len(part) <= MAX_DIMS and all(map(is_count, part)) for part in geometry):
            yield f"{where}: sizes {short(value.sizes)}, strides {short(value.strides)}; expected tuples of at most {MAX_DIMS} counts"
            continue
        if len(value.sizes) != len(value.strides):
            yield f"{where}: {len(value.sizes)} sizes, but {len(value.strides)} strides"
            continue
        if not is_count(value.offset):
            yield f"{where}: offset {short(value.offset)}; expected a number >= 0"
            continue
        end, nbytes = value.end_bytes, graph.buffers[value.buffer].nbytes
        if end > nbytes:
            yield f"{where}: reaches byte {end} of buffer {value.buffer}, which has {nbytes}"


def _argument(arg: Arg, n_values: int, depth: int = 0) -> str | None:
    kind = type(arg)
    if kind is tuple:
        if depth == MAX_DEPTH:
            return f"tuples are nested more than {MAX_DEPTH} deep"
        for item in arg:  # type: ignore[union-attr]
            fault = _argument(item, n_values, depth + 1)
            if fault:
                return fault
        return None
    if isinstance(arg, Ref):
        if type(arg.value) is not int or not 0 <= arg.value < n_values:
            return f"value %{short(arg.value)} does not exist; there are {n_values}"
        return None
    if isinstance(arg, DType):
        return None if arg.name in ITEM_BYTES else f"dtype {short(arg.name)}; expected one of {', '.join(sorted(ITEM_BYTES))}"
    if arg is None or kind in (bool, int, float, str) or (kind is Draw and depth == 0):
        return None
    return f"{short(arg)} of type {kind.__name__}; expected a Ref, a number, a str, a DType, a Draw, None or a tuple of these"


def _nodes(graph: Structure) -> Iterator[str]:
    maker: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        if type(node.op) is not str or not _IDENTIFIER.match(node.op):
            yield f"node {index}: op {short(node.op)}; expected the name of an op"
            continue
        where = f"node {index} ({node.op})"
        if node.source is not None and type(node.source) is not str:
            yield f"{where}: source {short(node.source)}; expected 'file:line' or None"
        if type(node.args) is not tuple:
            yield f"{where}: args are a {type(node.args).__name__}; expected a tuple"
            continue
        fault = None
        for position, arg in enumerate(node.args):
            fault = _argument(arg, len(graph.values))
            if fault:
                yield f"{where}: argument {position}: {fault}"
                break
        if fault:
            continue
        read = set(refs_of(node.args))
        for what, list_ in (("outs", node.outs), ("writes", node.writes)):
            if type(list_) is not tuple or not all(type(v) is int for v in list_):
                yield f"{where}: {what} are {short(list_)}; expected a tuple of value indices"
                break
            for value in list_:
                if not 0 <= value < len(graph.values):
                    yield f"{where}: {what}: value %{value} does not exist; there are {len(graph.values)}"
                    continue
                buffer = graph.values[value].buffer
                if graph.buffers[buffer].kind == "constant":
                    yield f"{where}: writes value %{value} of buffer {buffer}, which is a constant"
                steps = zip(graph.values[value].sizes, graph.values[value].strides)
                if 0 not in graph.values[value].sizes and any(stride == 0 and size > 1 for size, stride in steps):
                    yield f"{where}: writes value %{value}, whose elements share memory (a stride of 0)"
                if what == "writes" and value not in read:
                    yield f"{where}: overwrites value %{value}, which is none of its arguments"
                if what == "outs":
                    if value in read:
                        yield f"{where}: value %{value} is an argument and a fresh output"
                    if value in maker:
                        other = f"node {maker[value]} ({graph.nodes[maker[value]].op})" if maker[value] != index else "the same node"
                        yield f"{where}: value %{value} is already an output of {other}"
                    maker[value] = index
            if len(set(list_)) != len(list_) and what == "writes":
                yield f"{where}: writes {short(list_)} name a value twice"


def _ends(graph: Structure) -> Iterator[str]:
    for what, list_ in (("input", graph.inputs), ("output", graph.outputs)):
        for position, value in enumerate(list_):
            if type(value) is not int or not 0 <= value < len(graph.values):
                yield f"{what} {position}: value %{short(value)} does not exist; there are {len(graph.values)}"
                continue
            kind = graph.buffers[graph.values[value].buffer].kind
            if what == "input" and kind not in ("argument", "parameter"):
                yield f"input {position}: value %{value} lies in a buffer of kind {kind}; expected argument or parameter"
            if what == "output" and kind == "intermediate":
                yield f"output {position}: value %{value} lies in a buffer of kind intermediate; expected output"
    if len(set(graph.inputs)) != len(graph.inputs):
        yield f"inputs {short(graph.inputs)} name a value twice"


def _constants(graph: Structure) -> Iterator[str]:
    expected = {index for index, buffer in enumerate(graph.buffers) if buffer.kind == "constant"}
    for index in sorted(expected - set(graph.constants)):
        yield f"buffer {index} is a constant, but its bytes are not given"
    for index in graph.constants:
        if index not in expected:
            yield f"constants: buffer {short(index)} is not of kind constant"
        elif getattr(graph.constants[index], "nbytes", None) != graph.buffers[index].nbytes:
            given = getattr(graph.constants[index], "nbytes", None)
            yield f"constants: buffer {index} has {graph.buffers[index].nbytes} bytes, but {short(given)} are given"


def _order(graph: Structure) -> Iterator[str]:
    given = {graph.values[value].buffer for value in graph.inputs}
    ready = [buffer.kind == "constant" or index in given for index, buffer in enumerate(graph.buffers)]

    def why(buffer: int) -> str:
        return "is no input" if graph.buffers[buffer].kind in BROUGHT else "nobody has written before"

    for index, (node, (_, writes)) in enumerate(zip(graph.nodes, graph.touched())):
        for value in refs_of(node.args):
            if not ready[graph.values[value].buffer]:
                buffer = graph.values[value].buffer
                yield f"node {index} ({node.op}): reads value %{value} of buffer {buffer}, which {why(buffer)}"
        for buffer in writes:
            if graph.buffers[buffer].kind in BROUGHT and not ready[buffer]:
                yield f"node {index} ({node.op}): writes to buffer {buffer}, which {why(buffer)}"
            ready[buffer] = True
    for position, value in enumerate(graph.outputs):
        if not ready[graph.values[value].buffer]:
            yield f"output {position}: value %{value} of buffer {graph.values[value].buffer}, which {why(graph.values[value].buffer)}"
