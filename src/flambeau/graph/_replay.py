"""Running a graph as eager mode would: each node is a call of its op by name, with the checks that a call always has.

A graph may come from a file, so nothing that it says is believed: an op must be one of the table, its arguments pass the op's own
checks, what comes out must be of the type and shape that the graph says, memory is reached through tensors that
know its bounds, and inputs only between the first and the last element of what was given.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau._from_data import as_tensor
from flambeau.amp.autocast_mode import autocast
from flambeau.autograd.modes import no_grad
from flambeau.compiler import lazy
from flambeau.graph._structure import (
    EMPTY,
    ITEM_BYTES,
    Arg,
    Draw,
    DType,
    GraphError,
    Node,
    Ref,
    Structure,
    Value,
    refs_of,
)
from flambeau.library._graph import run_call

_ARGUMENT = re.compile(r"[\w\[\]?]+ (\w+)")


_OF_LISTS = ("optimizer_step", "scale_all_", "total_norm")  # ops over all parameters


def _function(name: str) -> Any:
    return run_call if name == "custom_call" else getattr(_C.optim if name in _OF_LISTS else _C.ops, name)


class _Op(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    results: int  # that a caller gets; a node may make more, for backward


@functools.cache
def _ops() -> dict[str, _Op]:
    """By identifier, how an op is called."""
    ops = {EMPTY: _Op(EMPTY, ("size", "dtype"), 1)}
    for ident, signature in _C.graph.op_names().items():
        head, _, tail = signature.partition(" -> ")
        name, _, inside = head.partition("(")
        if ident.endswith("_") and not name.endswith("_"):
            name += "_"
        arguments = tuple(match[1] for match in map(_ARGUMENT.match, inside.rstrip(")").split(", ")) if match)
        ops[ident] = _Op(name, arguments, tail.count(",") + 1)
    return ops


@functools.cache
def _writing() -> frozenset[str]:
    """Ops that write arguments, or may."""
    return frozenset(_C.graph.writing_names())


def keep_parameters(graph: Structure, tensors: Sequence[Tensor]) -> None:
    """`run` takes these where it is given arguments alone. They are not saved, and passes drop them."""
    graph._kept["parameters"] = tuple(tensors)


def covered(extent: tuple[int, int], by: Sequence[tuple[int, int]]) -> bool:
    """Whether bytes lie in one of several extents."""
    first, end = extent
    return end == 0 or any(low <= first and end <= high for low, high in by)


def run(graph: Structure, inputs: Sequence[Tensor]) -> list[Tensor]:
    """`Graph.run`."""
    kept = graph._kept.get("parameters", ())
    if kept and len(inputs) == len(graph.inputs) - len(kept):
        inputs = (*inputs, *kept)
    with no_grad(), autocast("cpu", enabled=False), _C.held(_C.set_new_device, None), lazy():
        return _Replay(graph, inputs, "run").run()


class Placed:
    """Where the buffers of a graph lie while it runs: constants and inputs from the beginning, the others where a subclass puts them.

    `what` is who asks, for errors.
    """

    def __init__(self, graph: Structure, inputs: Sequence[Tensor], what: str) -> None:
        self.graph, self.what = graph, what
        self.memory: dict[int, tuple[Tensor, int]] = {}  # by buffer: a tensor in it, and the byte at which element 0 lies
        self.given: dict[int, list[tuple[int, int]]] = {}  # by buffer: the bytes that inputs span
        self._take(inputs)
        for index, constant in graph.constants.items():
            flat = self.constant(index, as_tensor(constant, device="cpu").detach()).contiguous().reshape(-1)
            start = flat.storage_offset() * flat.element_size()
            self.memory[index] = (flat.view(_C.uint8), start) if flat.numel() else (flat.to(_C.uint8), 0)

    def constant(self, index: int, given: Tensor) -> Tensor:
        """A copy, since a constant may be a file's bytes, and be returned."""
        return given.clone()

    def _take(self, inputs: Sequence[Tensor]) -> None:
        graph, what = self.graph, self.what
        if len(inputs) != len(graph.inputs):
            kinds = [graph.buffers[graph.values[index].buffer].kind for index in graph.inputs]
            n = kinds.count("parameter")
            raise GraphError(f"{what}: {len(inputs)} inputs; the graph has {len(kinds) - n} arguments and {n} parameters")
        for position, (tensor, index) in enumerate(zip(inputs, graph.inputs)):
            value = graph.values[index]
            if not isinstance(tensor, Tensor):
                raise GraphError(f"{what}: input {position} is a {type(tensor).__name__}; expected a tensor")
            if not _fits(tensor, value):
                raise GraphError(f"{what}: input {position} is {_form(tensor)}; expected {_form_of(value)}")
            base = tensor.detach()
            zero = base.storage_offset() * base.element_size() - value.offset * ITEM_BYTES[value.dtype]
            if value.buffer not in self.memory:
                self.memory[value.buffer] = (base, zero)
            other, its_zero = self.memory[value.buffer]
            if other._storage_ptr() != base._storage_ptr() or zero != its_zero:
                raise GraphError(f"{what}: input {position} lies apart from another input; the graph has both in buffer {value.buffer}")
            self.given.setdefault(value.buffer, []).append((value.offset * ITEM_BYTES[value.dtype], value.end_bytes))

    def tensor(self, index: int) -> Tensor:
        value = self.graph.values[index]
        dtype = getattr(_C, value.dtype)
        if 0 in value.sizes:
            return _C.ops.empty(value.sizes, dtype=dtype)
        base, zero = self.memory[value.buffer]
        item = ITEM_BYTES[value.dtype]
        start = value.offset * item
        if value.buffer in self.given and not covered((start, value.end_bytes), self.given[value.buffer]):
            raise GraphError(f"value %{index} lies outside of what was given for buffer {value.buffer}")
        if (zero + start) % item:
            raise GraphError(f"value %{index} begins in the middle of an element")
        if base.dtype != dtype:
            whole = max(item, base.element_size())  # a pool's block may end in the middle of an element
            base = base.as_strided((base._storage_bytes() // whole * whole // base.element_size(),), (1,), 0).view(dtype)
        return base.as_strided(value.sizes, value.strides, (zero + start) // item)

    def argument(self, arg: Arg) -> Any:
        if isinstance(arg, Ref):
            return self.tensor(arg.value)
        if isinstance(arg, DType):
            return getattr(_C, arg.name)
        if isinstance(arg, Draw):
            return self.generator()
        if isinstance(arg, tuple):
            return tuple(map(self.argument, arg))
        return arg

    def generator(self) -> Any:
        """What a node that draws gets."""
        return None  # the default one, as ops take it


class _Replay(Placed):
    def run(self) -> list[Tensor]:
        graph, lives = self.graph, self.graph.lives()
        for index, node, reads, writes in graph.walk():
            try:
                self._node(node)
            except Exception as error:
                at = f", {node.source}" if node.source else ""
                raise GraphError(f"run: node {index} ({node.op}{at}): {error}") from error
            for buffer in {*reads, *writes}:
                if lives[buffer].end == index:
                    self.memory.pop(buffer, None)
        return [self.tensor(value) for value in graph.outputs]

    def _node(self, node: Node) -> None:
        op = _ops().get(node.op)
        if op is None:
            raise GraphError("there is no such op")
        if len(node.args) > len(op.arguments):  # fewer is a matter of defaults
            raise GraphError(f"{len(node.args)} arguments; expected {len(op.arguments)}: {', '.join(op.arguments)}")
        more = len(node.outs) > op.results
        if more:
            _C.graph.settle()  # so that the recording is this node alone
        args = [self.argument(arg) for arg in node.args]
        seen = {index: self.tensor(index) for index in dict.fromkeys(refs_of(node.args))}
        versions = {index: _C.version_of(x) for index, x in seen.items()}
        result = _function(op.name)(**dict(zip(op.arguments, args)))
        made = [x for x in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(x, Tensor)]
        if more:
            made = _made_by(node.op, [x for x in args if isinstance(x, Tensor)])
        elif not node.outs:
            made = []
        values, buffers = self.graph.values, self.graph.buffers
        written = {values[index].buffer for index in node.writes}
        for index, x in seen.items():
            changed, declared = _C.version_of(x) != versions[index], values[index].buffer in written
            if changed != declared and (changed or node.op not in _writing()):  # a norm writes its statistics in training alone
                raise GraphError(f"value %{index} is {'' if changed else 'not '}written by the op; the graph says otherwise")
        if len(made) != len(node.outs):
            raise GraphError(f"makes {len(made)} tensors; the graph has {len(node.outs)}")
        storages = {x._storage_ptr() for x in seen.values()}
        for x, out in zip(made, node.outs):
            value = values[out]
            if not _fits(x, value):
                raise GraphError(f"value %{out} is {_form(x)}; the graph says {_form_of(value)}")
            known = value.buffer in self.memory or x._storage_ptr() in storages
            if known or value.offset or x.storage_offset() or x._storage_bytes() != buffers[value.buffer].nbytes:
                raise GraphError(f"value %{out} is not all of a new buffer")
            self.memory[value.buffer] = (x, 0)


def _made_by(op: str, args: Sequence[Tensor]) -> list[Tensor]:
    """What the last node of the recording made, with what it keeps for backward."""
    recorded = _C.graph.recorded()
    if not recorded["nodes"]:
        raise GraphError("an argument shares its memory with others (NumPy), so that only the op's results are known; pass a clone() of it")
    ident, _, outs, _, _ = recorded["nodes"][-1]
    if ident != op:
        raise GraphError(f"was computed by {ident} instead")
    return [recorded["buffers"][recorded["values"][out][0]][3] for out in outs]


def _steps(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    return [] if 0 in sizes else [(size, stride) for size, stride in zip(sizes, strides) if size > 1]


def _fits(x: Tensor, value: Value) -> bool:
    same = x.dtype == getattr(_C, value.dtype) and tuple(x.shape) == value.sizes
    return same and x.device.type == "cpu" and _steps(value.sizes, value.strides) == _steps(x.shape, x.stride())


def _form(x: Tensor) -> str:
    return f"{x.dtype.name} of shape {list(x.shape)}, strides {list(x.stride())}, on {x.device}"


def _form_of(value: Value) -> str:
    return f"{value.dtype} of shape {list(value.sizes)}, strides {list(value.strides)}, on cpu"
