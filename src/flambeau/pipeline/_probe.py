"""Ops of a recorded forward one by one: how autograd sees each, how long it takes, and what it keeps for its backward.

Each op gets inputs of its own, so that its backward is its own, too. Views of what an op reads count for the reader.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.amp.autocast_mode import autocast
from flambeau.autograd import backward, enable_grad, inference_mode, no_grad
from flambeau.graph import Draw, DType, Node, Ref, refs_of
from flambeau.graph._replay import _OF_LISTS, _ops
from flambeau.nn import Parameter
from flambeau.pipeline._trace import CutError, Derivative, Trace, steps
from flambeau.pipeline.balance import _allocated
from flambeau.random import fork_rng

Values = dict[int, Tensor]


def read(found: Trace, values: Values, index: int) -> Tensor:
    """A value of the graph, as a view of the tensor in its buffer."""
    value = found.graph.values[index]
    base = found.bases[value.buffer]
    x = values[value.buffer]
    if index in found.whole:
        return x
    if 0 in value.sizes:
        return ops.empty(value.sizes, dtype=getattr(_C, value.dtype))
    if steps(x.shape, x.stride()) != steps(base.sizes, base.strides):
        x = ops.empty_strided(base.sizes, base.strides, dtype=x.dtype).copy_(x)
    return x.as_strided(value.sizes, value.strides, x.storage_offset() + value.offset - base.offset)


class Step:
    """A node, ready to be performed: the call of its op, with places for tensors.

    Args:
        node: as it was recorded.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.graph import Node, Ref
        >>> from flambeau.pipeline._probe import Step
        >>> Step(Node("add", (Ref(0), Ref(1), 2), (2,)))([fl.ones(2), fl.ones(2)])
        [tensor([3., 3.])]
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        op = _ops()[node.op]
        self._function = getattr(_C.optim if op.name in _OF_LISTS else _C.ops, op.name)
        self._plain: dict[str, Any] = {}
        self._places: list[tuple[str, int | tuple[int | None, ...]]] = []
        self._generator: str | None = None
        positions = itertools.count()
        for name, arg in zip(op.arguments, node.args):
            if isinstance(arg, Ref):
                self._places.append((name, next(positions)))
            elif isinstance(arg, tuple) and any(isinstance(entry, Ref) for entry in arg):
                self._places.append((name, tuple(next(positions) if isinstance(entry, Ref) else None for entry in arg)))
            elif isinstance(arg, Draw):
                self._generator = name
            else:
                self._plain[name] = getattr(_C, arg.name) if isinstance(arg, DType) else arg

    def __reduce__(self) -> Any:
        return Step, (self.node,)

    def __call__(self, tensors: Sequence[Tensor], generator: Any = None) -> list[Tensor]:
        """What the op makes, without what it keeps for its backward.

        Args:
            tensors: the node's, in order.
            generator: what a random op draws from; None is the thread's.
        """
        args = dict(self._plain)
        for name, place in self._places:
            args[name] = tensors[place] if isinstance(place, int) else tuple(None if p is None else tensors[p] for p in place)
        if self._generator is not None:
            args[self._generator] = generator
        result = self._function(**args)
        if not self.node.outs:
            return []
        return [result] if isinstance(result, Tensor) else [x for x in result if isinstance(x, Tensor)]


@dataclass
class Cost:
    """Of one op: seconds, buffers that its backward reads, and bytes that it keeps beside these."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    saved: set[int] = field(default_factory=set)
    extra: int = 0

    @property
    def seconds(self) -> float:
        return self.forward_s + self.backward_s


class Probe:
    """Runs the nodes of a recorded forward, each with a history of its own, on the copy's parameters.

    Args:
        found: the recording.
        inputs: tensors of a sample.
    """

    def __init__(self, found: Trace, inputs: Sequence[Tensor]) -> None:
        self.found, self.inputs = found, [x.detach() for x in inputs]
        self.graded = {found.graph.values[i].buffer for i, x in zip(found.arguments, inputs) if x.requires_grad}
        written = {b for node in found.graph.nodes for b in found.written(node)}
        self.held = {b: x.detach().clone() if b in written else x.detach() for b, x in found.twins.items()}
        self.trained = {b for b, x in found.twins.items() if isinstance(x, Parameter)}
        self.steps = [Step(node) for node in found.graph.nodes]
        self.wanted: set[tuple[int, int]] | None = None  # where gradients go, when that is known

    @contextmanager
    def _modes(self) -> Iterator[None]:
        with inference_mode(False), enable_grad(), autocast("cpu", enabled=False), fork_rng():
            yield

    def _nodes(self) -> Iterator[tuple[int, Node, Values]]:
        """Index, node, and the tensors before it. Who takes one leaves there what it makes (`_leave`)."""
        found, graph = self.found, self.found.graph
        values: Values = {graph.values[i].buffer: x.clone() for i, x in zip(found.arguments, self.inputs)}
        values.update({**self.held, **graph.constants})
        for k, node in enumerate(graph.nodes):
            yield k, node, values
            for buffer in {graph.values[i].buffer for i in (*refs_of(node.args), *node.outs)}:
                if found.last.get(buffer) == k:
                    values.pop(buffer, None)

    def _leave(self, k: int, node: Node, values: Values) -> None:
        with no_grad():
            made = self.steps[k]([read(self.found, values, i) for i in refs_of(node.args)])
        values.update((self.found.graph.values[i].buffer, y) for i, y in zip(node.outs, made))

    def _leaves(self, k: int, node: Node, values: Values) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs for a node: leaves, and what it is given for them."""
        leaves, given = [], []
        for position, i in enumerate(refs_of(node.args)):
            buffer = self.found.graph.values[i].buffer
            x = read(self.found, values, i).detach()
            trained = buffer in self.trained or buffer in self.found.born if self.wanted is None else (k, position) in self.wanted
            leaves.append(x.requires_grad_() if trained and x.is_floating_point() else x)
            given.append(x.clone() if i in node.writes else x)
        return leaves, given

    def _changed(self, node: Node, given: Sequence[Tensor]) -> list[Tensor]:
        return [x for i, x in zip(refs_of(node.args), given) if i in node.writes]

    # ---- derivatives

    def derivatives(self) -> list[Derivative | None]:
        """How autograd sees each node; None where it does not."""
        with self._modes():
            return [self._derivative(k, node, values) for k, node, values in self._nodes()]

    def _derivative(self, k: int, node: Node, values: Values) -> Derivative | None:
        leaves, given = self._leaves(k, node, values)
        try:
            made = self.steps[k](given)
        except Exception as error:
            raise CutError(f"split: {self.found.at(k)} can not be called by itself: {error}") from error
        fn = next((y.grad_fn for y in (*made, *self._changed(node, given)) if y.grad_fn is not None), None)
        self._leave(k, node, values)
        if fn is None:
            return None
        position = {id(x): k for k, x in enumerate(leaves)}
        return Derivative(fn.name(), tuple(-1 if leaf is None else position[id(leaf)] for leaf in map(_leaf_of, fn.next_functions)))

    # ---- costs

    def costs(self, seconds: float) -> list[Cost]:
        """What each node takes: medians of as many sweeps as there is time for, one at least, after one for the bytes.

        The first calls of a kernel make it, and pack weights: up to four sweeps do not count.
        """
        self.wanted = self._wanted()
        with self._modes():
            costs = [self._bytes(k, node, values) for k, node, values in self._nodes()]
            sweeps: list[list[tuple[float, float]]] = []
            idle = self._idle()
            end = time.perf_counter() + seconds
            while not sweeps or time.perf_counter() < end:
                sweeps.append([self._timed(k, node, values) for k, node, values in self._nodes()])
        for cost, *times in zip(costs, *sweeps[min(4, len(sweeps) // 2) :]):
            cost.forward_s = statistics.median(forward for forward, _ in times)
            cost.backward_s = max(0.0, statistics.median(backward for _, backward in times) - idle)
        return costs

    def _wanted(self) -> set[tuple[int, int]]:
        """Along which arguments gradients go, of the parameters that are trained now."""
        found, wanted = self.found, set()
        graded = self.graded | {b for b, x in found.held.items() if x.requires_grad}
        for k, node in enumerate(found.graph.nodes):
            here = {(k, p) for p, i in enumerate(refs_of(node.args)) if (k, p) in found.joined and found.graph.values[i].buffer in graded}
            wanted |= here
            if here:
                graded |= {found.graph.values[i].buffer for i in (*node.outs, *node.writes)}
        return wanted

    def _timed(self, k: int, node: Node, values: Values) -> tuple[float, float]:
        _, given = self._leaves(k, node, values)
        _C.graph.settle()  # what is recorded until here is not this node's work
        start = time.perf_counter()
        made = self.steps[k](given)
        _C.graph.settle()
        took = time.perf_counter() - start
        back = self._backward(made or self._changed(node, given))
        self._leave(k, node, values)
        return took, back

    def _backward(self, made: Sequence[Tensor]) -> float:
        roots = [y for y in made if y.requires_grad]
        if not roots:
            return 0.0
        ones = [ops.ones_like(y.detach()) for y in roots]
        _C.graph.settle()
        start = time.perf_counter()
        try:
            backward(roots, ones)
        except _C.AutogradError:  # an op without a derivative, whose gradient nobody wants
            return 0.0
        _C.graph.settle()
        return time.perf_counter() - start

    def _idle(self) -> float:
        """What a backward of nothing takes."""
        x = ops.zeros((1,)).requires_grad_()
        return min(self._backward([x.view(1)]) for _ in range(20))

    def _bytes(self, k: int, node: Node, values: Values) -> Cost:
        """What is still there when nobody but its backward holds what the node read and made.

        What it reads is lent to it, each buffer a copy: the holders of one are dropped after those of another, and what is not free
        then is kept.
        """
        first, cost = _allocated(), Cost()
        fns, holders = self._lent(k, node, values)
        for buffer, tensors in holders.items():
            size = self.found.graph.buffers[buffer].nbytes
            before = _allocated()
            tensors.clear()
            if size and before - _allocated() < size:
                cost.saved.add(buffer)
        kept = sum(self.found.graph.buffers[buffer].nbytes for buffer in cost.saved)
        cost.extra = max(0, _allocated() - first - kept)
        del fns
        self._leave(k, node, values)
        return cost

    def _lent(self, k: int, node: Node, values: Values) -> tuple[list[Any], dict[int, list[Tensor]]]:
        """The history of what a node makes of copies, and by buffer the tensors that hold these and what it made."""
        buffers = [self.found.graph.values[i].buffer for i in refs_of(node.args)]
        copies = {b: values[b].clone() for b in buffers if b in self.found.born}
        leaves, given = self._leaves(k, node, {**values, **copies})
        made = self.steps[k](given)
        fns = [y.grad_fn for y in (*made, *self._changed(node, given))]
        holders = {b: [x] for b, x in copies.items()}
        for buffer, leaf, x in zip(buffers, leaves, given):
            holders.get(buffer, []).extend((leaf, x))
        for index, x in zip(node.outs, made):
            holders[self.found.graph.values[index].buffer] = [x]
        return fns, holders


def _leaf_of(edge: tuple[Any, int]) -> Tensor | None:
    """The leaf in which an edge ends."""
    fn: Any = edge[0]
    while fn is not None and getattr(fn, "variable", None) is None:
        fn = fn.next_functions[0][0]
    return None if fn is None else fn.variable  # type: ignore[no-any-return]
