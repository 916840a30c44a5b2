"""A reference executor: the nodes one after another, with the memory where a plan puts it.

It says what a plan means, and finds out whether one is right: poisoned, every buffer is filled with 0xFF bytes (NaN in all
floating types) before its first write and after its last use, so that a wrong plan gives other bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._from_data import as_tensor
from flambeau.autograd.modes import no_grad
from flambeau.graph._plan import Plan
from flambeau.graph._structure import (
    EMPTY,
    ITEM_BYTES,
    Arg,
    Draw,
    DType,
    GraphError,
    Ref,
    Structure,
    Value,
)

RunNode = Callable[[str, tuple[Any, ...], list[Tensor]], object]

POISON = 0xFF


def execute(
    graph: Structure,
    inputs: Sequence[Tensor],
    run_node: RunNode,
    plan: Plan | None = None,
    poison: bool = False,
) -> list[Tensor]:
    """Runs a graph and returns its outputs.

    Args:
        inputs: one tensor for each of the graph's inputs, with the dtype, sizes and strides of its value.
        run_node: called with the op, its arguments (tensors, and what else the node has) and the tensors that it has to fill.
            What a node overwrites in place is among the arguments.
        plan: where intermediate buffers lie; without one each has memory of its own.
        poison: fill memory with 0xFF bytes before its first write and after its last use.

    Raises:
        GraphError: inputs that are not the graph's, or a plan of another graph.

    >>> import flambeau as fl
    >>> from flambeau import graph
    >>> def run_node(op, args, outs):
    ...     outs[0].copy_(getattr(fl, op)(*args))
    >>> g = graph.example()
    >>> x, w, b = fl.ones(8, 16), fl.eye(16), fl.zeros(16)
    >>> graph.execute(g, [x, w, b], run_node, g.plan("both"), poison=True)[0][:4]
    tensor([16., 16., 16., 16.])
    """
    if plan is not None and plan.graph is not graph:
        raise GraphError("execute: the plan is of another graph")
    with no_grad():
        return _Run(graph, inputs, plan, poison).run(run_node)


class _Run:
    def __init__(self, graph: Structure, inputs: Sequence[Tensor], plan: Plan | None, poison: bool) -> None:
        self.graph, self.plan, self.poison = graph, plan, poison
        self.given = _given(graph, inputs)  # by buffer: an input's tensor and value
        places = plan.places if plan is not None else {}
        blocks = [_bytes(block.nbytes) for block in plan.blocks] if plan is not None else []
        self.memory: dict[int, Tensor] = {}  # by buffer: its bytes
        for index, buffer in enumerate(graph.buffers):
            if index in graph.constants:
                constant = as_tensor(graph.constants[index]).detach().contiguous().reshape(-1)
                self.memory[index] = constant.view(_C.uint8) if constant.numel() else _bytes(0)
            elif index in places:
                spot = places[index]
                self.memory[index] = blocks[spot.block][spot.offset : spot.offset + buffer.nbytes]
            elif index not in self.given:
                self.memory[index] = _bytes(buffer.nbytes)

    def tensor(self, index: int) -> Tensor:
        value = self.graph.values[index]
        dtype = getattr(_C, value.dtype)
        if 0 in value.sizes:
            return _C.ops.empty(value.sizes, dtype=dtype)
        if value.buffer in self.given:
            base, given = self.given[value.buffer]
            if ITEM_BYTES[given.dtype] != ITEM_BYTES[value.dtype]:
                raise GraphError(f"execute: value %{index} is {value.dtype} in a buffer that was given as {given.dtype}")
            base, offset = base.view(dtype), base.storage_offset() + value.offset - given.offset
        else:
            whole = self.memory[value.buffer]
            item = ITEM_BYTES[value.dtype]
            base = whole[: whole.numel() // item * item].view(dtype)
            offset = base.storage_offset() + value.offset
        return base.as_strided(value.sizes, value.strides, offset)

    def argument(self, arg: Arg) -> Any:
        if isinstance(arg, Ref):
            return self.tensor(arg.value)
        if isinstance(arg, DType):
            return getattr(_C, arg.name)
        if isinstance(arg, Draw):
            return _C.current_generator()
        if isinstance(arg, tuple):
            return tuple(map(self.argument, arg))
        return arg

    def run(self, run_node: RunNode) -> list[Tensor]:
        graph, lives = self.graph, self.graph.lives()
        took = self.plan.took if self.plan is not None else {}
        given_on = set(took.values())
        for index, node, reads, writes in graph.walk():
            if self.poison:
                for buffer in writes:
                    # What takes a place finds there the operand that is still to be read.
                    if lives[buffer].start == index and buffer in self.memory and buffer not in took:
                        self.memory[buffer].fill_(POISON)
            if node.op != EMPTY:
                run_node(node.op, tuple(map(self.argument, node.args)), [self.tensor(value) for value in node.outs])
            if self.poison:
                for buffer in {*reads, *writes}:
                    own = graph.buffers[buffer].kind in ("intermediate", "output")
                    if own and lives[buffer].end == index and buffer not in given_on:
                        self.memory[buffer].fill_(POISON)
        return [self.tensor(value) for value in graph.outputs]


def _bytes(n: int) -> Tensor:
    return _C.ops.empty((n,), dtype=_C.uint8)


def _given(graph: Structure, inputs: Sequence[Tensor]) -> dict[int, tuple[Tensor, Value]]:
    if len(inputs) != len(graph.inputs):
        raise GraphError(f"execute: {len(inputs)} inputs; the graph has {len(graph.inputs)}")
    result: dict[int, tuple[Tensor, Value]] = {}
    for position, (tensor, index) in enumerate(zip(inputs, graph.inputs)):
        value = graph.values[index]
        steps = [(size, stride) for size, stride in zip(value.sizes, value.strides) if size > 1]
        found = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]
        same = tuple(tensor.shape) == value.sizes and (steps == found or 0 in value.sizes)
        if tensor.dtype != getattr(_C, value.dtype) or not same:
            raise GraphError(
                f"execute: input {position} is {tensor.dtype} of shape {list(tensor.shape)}, strides {list(tensor.stride())}; "
                f"expected {value.dtype}, {list(value.sizes)}, {list(value.strides)}"
            )
        result.setdefault(value.buffer, (tensor.detach(), value))
    return result
