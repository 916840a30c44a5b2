"""What each layer of a model takes: time, activations, parameters, and what it hands on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau.nn import Module, Sequential
from flambeau.pipeline._microbatch import map_tensors, tensors_of
from flambeau.pipeline.balance import (
    _allocated,
    _check,
    _copies,
    _Detaching,
    _pass_back,
    _untouched,
)


@dataclass(frozen=True)
class LayerCost:
    """Of one layer and one micro-batch: seconds of the forward, of a whole backward, and of one in two parts, gradients of the inputs and
    of the parameters; bytes that the forward leaves, that both it and the first part leave, of parameters, and of its input."""

    name: str
    forward_s: float
    backward_s: float
    inputs_s: float
    parameters_s: float
    activation: int
    waiting: int
    parameters: int
    boundary: int


def _bytes(value: Any) -> int:
    return sum(x.numel() * x.itemsize for x in tensors_of(value))


class _Seen(NamedTuple):
    """Of one layer in one sweep. A sweep goes back as a whole, with one time, or in two parts, with two."""

    forward: float
    backward: tuple[float, ...]
    activation: int
    waiting: int
    boundary: int


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    _C.graph.settle()
    return time.perf_counter() - begin


def _back(outputs: Sequence[Tensor], leaves: Sequence[Tensor], parameters: Sequence[Tensor]) -> tuple[float, float, int]:
    """Seconds of a backward's two parts, and by how many bytes more is held between them than before."""
    roots = list({id(y): y for y in outputs if y.requires_grad}.values())
    if not roots:
        return 0.0, 0.0, 0
    before = _allocated()
    grads = [y.detach().new_ones(y.shape) for y in roots]
    begin = time.perf_counter()
    both = _C.SplitBackward(roots, grads, leaves, parameters)
    begun = time.perf_counter() - begin
    del grads
    first, held = begun + _timed(both.first), _allocated() - before
    return first, _timed(both.second), held


def _sweep(layers: Sequence[Module], value: Any, store: _Detaching, halves: bool) -> list[_Seen]:
    """Forward and backward of all layers, once."""
    found = []
    for layer in layers:
        leaves = map_tensors(value, lambda x: x.detach().requires_grad_(x.requires_grad))
        value = map_tensors(leaves, lambda x: x.clone())  # a layer may work in place
        boundary = _bytes(value)
        store.begin_layer()
        before = _allocated()  # runs what is recorded, so that it is not this layer's time
        begin = time.perf_counter()
        output = layer(value)
        _C.graph.settle()
        forward = time.perf_counter() - begin
        activation = max(0, _allocated() - before)
        outputs = tensors_of(output) + store.stashed
        if halves:
            wanted = [p for p in layer.parameters() if p.requires_grad]
            *backward, held = _back(outputs, [x for x in tensors_of(leaves) if x.requires_grad], wanted)
        else:
            backward, held = [_timed(partial(_pass_back, outputs))], 0
        found.append(_Seen(forward, tuple(backward), activation, max(0, activation + held), boundary))
        layer.zero_grad(set_to_none=True)
        value = output
        del output, outputs
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
        layers = list(_copies(module, "cpu"))
        sample = map_tensors(sample, lambda x: x.detach().requires_grad_(x.requires_grad))
        for halves in (False, True):
            _sweep(layers, sample, store, halves)  # the first run makes kernels and takes memory
        whole, parts = [_sweep(layers, sample, store, False)], [_sweep(layers, sample, store, True)]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            whole.append(_sweep(layers, sample, store, False))
            parts.append(_sweep(layers, sample, store, True))
    return [
        LayerCost(
            name,
            statistics.median(sweep[k].forward for sweep in whole + parts),
            statistics.median(sweep[k].backward[0] for sweep in whole),
            statistics.median(sweep[k].backward[0] for sweep in parts),
            statistics.median(sweep[k].backward[1] for sweep in parts),
            max(sweep[k].activation for sweep in whole),
            max(sweep[k].waiting for sweep in parts),
            sum(p.numel() * p.itemsize for p in layer.parameters()),
            whole[0][k].boundary,
        )
        for k, (name, layer) in enumerate(module.named_children())
    ]
