"""A reference executor: the nodes one after another, with the memory where a plan puts it.

It says what a plan means, and finds out whether one is right: poisoned, every buffer is filled with 0xFF bytes (NaN in all
floating types) before its first write and after its last use, so that a wrong plan gives other bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.modes import no_grad
from flambeau.graph._plan import Plan
from flambeau.graph._replay import Placed
from flambeau.graph._structure import EMPTY, GraphError, Structure

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
    with no_grad(), _C.held(_C.set_new_device, None):
        return _Run(graph, inputs, plan, poison).run(run_node)


class _Run(Placed):
    def __init__(self, graph: Structure, inputs: Sequence[Tensor], plan: Plan | None, poison: bool) -> None:
        self.returned = {graph.values[value].buffer for value in graph.outputs}
        super().__init__(graph, inputs, "execute")
        self.plan, self.poison = plan, poison
        places = plan.places if plan is not None else {}
        blocks = [_bytes(block.nbytes) for block in plan.blocks] if plan is not None else []
        self.own: dict[int, Tensor] = {}  # the bytes of buffers that are neither constants nor inputs
        for index, buffer in enumerate(graph.buffers):
            if index in places:
                spot = places[index]
                self.own[index] = blocks[spot.block][spot.offset : spot.offset + buffer.nbytes]
            elif index not in self.memory:
                self.own[index] = _bytes(buffer.nbytes)
        self.memory.update((index, (part, part.storage_offset())) for index, part in self.own.items())

    def constant(self, index: int, given: Tensor) -> Tensor:
        return given.clone() if index in self.returned else given

    def generator(self) -> Any:
        return _C.current_generator()

    def run(self, run_node: RunNode) -> list[Tensor]:
        graph, lives = self.graph, self.graph.lives()
        took = self.plan.took if self.plan is not None else {}
        given_on = set(took.values())
        for index, node, reads, writes in graph.walk():
            if self.poison:
                for buffer in writes:
                    # What takes a place finds there the operand that is still to be read.
                    if lives[buffer].start == index and buffer in self.own and buffer not in took:
                        self.own[buffer].fill_(POISON)
            if node.op != EMPTY:
                run_node(node.op, tuple(map(self.argument, node.args)), [self.tensor(value) for value in node.outs])
            if self.poison:
                for buffer in {*reads, *writes}:
                    if buffer in self.own and lives[buffer].end == index and buffer not in given_on:
                        self.own[buffer].fill_(POISON)
        return [self.tensor(value) for value in graph.outputs]


def _bytes(n: int) -> Tensor:
    return _C.ops.empty((n,), dtype=_C.uint8)
