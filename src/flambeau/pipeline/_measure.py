"""What each layer of a model takes: time, activations, parameters, and what it hands on; and stages, which are layers in a row."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.nn import Module, Sequential
from flambeau.pipeline._microbatch import map_tensors, tensors_of
from flambeau.pipeline.balance import (
    _allocated,
    _check,
    _Detaching,
    _pass_back,
    _untouched,
)
from flambeau.pipeline.simulate import Costs
from flambeau.pipeline.skip import Key, Namespace, use_store


@dataclass(frozen=True)
class LayerCost:
    """Of one layer and one micro-batch: seconds, and bytes.

    Args:
        forward_s, backward_s: of the forward, and of a whole backward.
        inputs_s, parameters_s: of a backward in two parts.
        activation: what the forward leaves beside its input. output: the share of it that the layer itself has no use for.
        kept: the share of its input that its backward needs.
        waiting: all that is held between both parts of a backward.
        parameters: of parameters.
        boundary: of its input. gradient: of the input's gradient.
        stashed: of skip tensors that it stashes for later layers, and of their gradients. popped: those of earlier ones.
    """

    name: str
    forward_s: float
    backward_s: float
    inputs_s: float
    parameters_s: float
    activation: int
    waiting: int
    parameters: int
    boundary: int
    gradient: int = 0
    output: int = 0
    kept: int = 0
    stashed: Mapping[Key, tuple[int, int]] = field(default_factory=dict)
    popped: frozenset[Key] = frozenset()


def costs_of(parts: Sequence[Sequence[LayerCost]]) -> Costs:
    """What stages take that have these layers."""
    messages = _messages(parts)
    waiting = [float(sum(c.waiting for c in part)) for part in parts]
    first, second = [sum(c.inputs_s for c in part) for part in parts], [sum(c.parameters_s for c in part) for part in parts]
    for s, part in enumerate(parts):
        back = [size for (source, target), size in messages.items() if source == s > target]
        if not part[0].gradient and not any(back):  # nobody waits for a gradient, so nothing is done in the first part
            arrived = sum(size for (source, target), size in messages.items() if target == s != source)
            waiting[s] = _left(part) - part[-1].output + arrived
            first[s], second[s] = 0.0, sum(c.backward_s for c in part)
    return Costs(
        F=[sum(c.forward_s for c in part) for part in parts],
        B=[sum(c.backward_s for c in part) for part in parts],
        I=first,
        W=second,
        activation=[_left(part) for part in parts],
        waiting=waiting,
        messages=messages,
    )


def _left(part: Sequence[LayerCost]) -> float:
    """What a stage's forward leaves beside its input: a layer's output goes if neither it nor the next needs it. The stage's own stays."""
    between = sum(max(0, a.output - b.kept) for a, b in pairwise(part))
    return float(sum(c.activation for c in part) - between)


def _messages(parts: Sequence[Sequence[LayerCost]]) -> dict[tuple[int, int], float]:
    """Bytes from stage to stage, forward and back."""
    found: dict[tuple[int, int], float] = {}
    stashed: dict[Key, tuple[int, tuple[int, int]]] = {}  # in which stage, and the bytes

    def add(source: int, target: int, value: int, gradient: int) -> None:
        for pair, size in (((source, target), value), ((target, source), gradient)):
            found[pair] = found.get(pair, 0.0) + size

    for s, part in enumerate(parts):
        if s:
            add(s - 1, s, part[0].boundary, part[0].gradient)
        for c in part:
            stashed.update({key: (s, sizes) for key, sizes in c.stashed.items()})
            for source, sizes in (stashed[key] for key in c.popped):
                if source != s:
                    add(source, s, *sizes)
    return found


def _bytes(value: Any) -> int:
    return sum(x.numel() * x.itemsize for x in tensors_of(value))


def _wanted(value: Any) -> int:
    """Bytes of the gradients of a nest."""
    return _bytes([x for x in tensors_of(value) if x.requires_grad])


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    _C.graph.settle()
    return time.perf_counter() - begin


# ----------------------------------------------------------------------------------------------------------------------------- seconds


def _both_parts(outputs: Sequence[Tensor], leaves: Any, layer: Module) -> Any:
    """A backward in two parts, with ones for the gradients of the outputs; None if there is nothing to do."""
    roots = list({id(y): y for y in outputs if y.requires_grad}.values())
    wanted = [x for x in tensors_of(leaves) if x.requires_grad], [p for p in layer.parameters() if p.requires_grad]
    return _C.SplitBackward(roots, [y.detach().new_ones(y.shape) for y in roots], *wanted) if roots else None


def _back(outputs: Sequence[Tensor], leaves: Any, layer: Module) -> tuple[float, float]:
    """Seconds of a backward's two parts."""
    begin = time.perf_counter()
    both = _both_parts(outputs, leaves, layer)
    begun = time.perf_counter() - begin
    return (begun + _timed(both.first), _timed(both.second)) if both else (0.0, 0.0)


def _leaves(value: Any) -> Any:
    return map_tensors(value, lambda x: x.detach().requires_grad_(x.requires_grad))


def _sweep(layers: Sequence[Module], value: Any, store: _Detaching, halves: bool) -> list[tuple[float, ...]]:
    """Seconds of each layer's forward and backward, in one or in two parts, once."""
    found = []
    for layer in layers:
        leaves = _leaves(value)
        value = map_tensors(leaves, lambda x: x.clone())  # a layer may work in place
        store.begin_layer()
        _C.graph.settle()  # runs what is recorded, so that it is not this layer's time
        begin = time.perf_counter()
        output = layer(value)
        _C.graph.settle()
        forward = time.perf_counter() - begin
        outputs = tensors_of(output) + store.stashed
        back = _back(outputs, leaves, layer) if halves else (_timed(partial(_pass_back, outputs)),)
        found.append((forward, *back))
        layer.zero_grad(set_to_none=True)
        value = output
        del output, outputs
    return found


# ------------------------------------------------------------------------------------------------------------------------------- bytes


class _Passing(_Detaching):
    """A store that copies nothing: a skip tensor is the one that was stashed, under another identity, as in a stage."""

    def pop(self, namespace: Namespace | None, name: str, /) -> Tensor | None:
        found = self.kept.pop((namespace, name))
        self.popped.append(found)
        return _C.stand_in(found) if found is not None and found.requires_grad else found


def _lent(leaves: Any, layer: Module) -> tuple[int, Any, Any]:
    """What was allocated before a layer's input was copied, the copy, and what the layer makes of it."""
    start = _allocated()
    lent = map_tensors(leaves, lambda x: x.clone())
    return start, lent, layer(lent)


def _forward_bytes(layer: Module, leaves: Any, store: _Passing) -> tuple[Any, int, int, int]:
    """What follows on a layer, and the bytes of `LayerCost.activation`, `output` and `kept`.

    Input and output are dropped after each other: what is still there then, the backward needs.
    """
    store.begin_layer()
    start, lent, output = _lent(leaves, layer)
    boundary, left = _bytes(lent), _allocated() - start
    following = map_tensors(output, lambda x: x.detach().clone().requires_grad_(x.requires_grad))
    start = _allocated() - left
    places = {x._storage_ptr() for x in tensors_of(lent)}
    passes_on = any(y._storage_ptr() in places for y in tensors_of(output))
    history = [y.grad_fn for y in tensors_of(output) + store.stashed]
    store.stashed.clear()
    del output
    needed = _allocated() - start
    del lent
    kept = boundary if passes_on else boundary - (needed - (_allocated() - start))
    del history
    return following, max(0, left - boundary), max(0, left - needed), max(0, kept)


def _waiting_bytes(layer: Module, leaves: Any, store: _Passing) -> int:
    """The bytes of `LayerCost.waiting`. What was stashed before is there again."""
    store.begin_layer()
    before = dict(store.kept)
    start, lent, output = _lent(leaves, layer)
    both = _both_parts(tensors_of(output) + store.stashed, [leaves, store.popped], layer)
    if both is not None:
        both.first()
    store.stashed.clear()
    store.kept = before
    del lent, output
    waiting = _allocated() - start
    if both is not None:
        both.second()
    layer.zero_grad(set_to_none=True)
    return max(0, waiting)


def _weigh(layers: Sequence[Module], value: Any) -> list[dict[str, Any]]:
    """Of each layer its bytes, by their names in `LayerCost`."""
    found = []
    with use_store(store := _Passing()):
        for layer in layers:
            leaves, before = _leaves(value), frozenset(store.kept)
            waiting = _waiting_bytes(layer, leaves, store)
            value, activation, output, kept = _forward_bytes(layer, leaves, store)
            sizes = {key: (_bytes(x), _wanted(x)) for key, x in store.kept.items() if key not in before}
            found.append({
                "activation": activation, "output": output, "kept": kept, "waiting": waiting, "boundary": _bytes(leaves),
                "gradient": _wanted(leaves), "stashed": sizes, "popped": before - frozenset(store.kept),
                "parameters": sum(p.numel() * p.itemsize for p in layer.parameters()),
            })  # fmt: skip
    return found


def measure(module: Sequential, sample: Any, seconds: float = 1.0) -> list[LayerCost]:
    """Runs copies of the layers one after the other, in training mode, for that long and twice at least; medians.

    Args:
        module: the model.
        sample: a micro-batch.

    Raises:
        TypeError: `module` is no Sequential, or there is no tensor in `sample`.
    """
    _check(module, sample, 1)
    with _untouched() as store:
        layers = list(copy.deepcopy(module).to("cpu").train())  # at once: segments share a recording
        sample = map_tensors(sample, lambda x: x.detach().requires_grad_(x.requires_grad))
        for halves in (False, True):
            _sweep(layers, sample, store, halves)  # the first run makes kernels and takes memory
        whole, parts = [_sweep(layers, sample, store, False)], [_sweep(layers, sample, store, True)]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            whole.append(_sweep(layers, sample, store, False))
            parts.append(_sweep(layers, sample, store, True))
        sizes = _weigh(layers, sample)
    return [
        LayerCost(
            name,
            statistics.median(sweep[k][0] for sweep in whole + parts),
            statistics.median(sweep[k][1] for sweep in whole),
            statistics.median(sweep[k][1] for sweep in parts),
            statistics.median(sweep[k][2] for sweep in parts),
            **sizes[k],
        )
        for k, (name, _) in enumerate(module.named_children())
    ]
