"""What each layer of a model takes: time, activations, parameters, and what it hands on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import _C
from flambeau.nn import Module, Sequential
from flambeau.pipeline._microbatch import map_tensors, tensors_of
from flambeau.pipeline.balance import (
    _allocated,
    _begun,
    _check,
    _copies,
    _Detaching,
    _pass_back,
    _untouched,
)


@dataclass(frozen=True)
class LayerCost:
    """Of one layer and one micro-batch: seconds forward and backward; bytes that the forward leaves, of parameters, and of its input."""

    name: str
    forward_s: float
    backward_s: float
    activation: int
    parameters: int
    boundary: int


def _bytes(value: Any) -> int:
    return sum(x.numel() * x.itemsize for x in tensors_of(value))


def _measured(layers: Sequence[Module], value: Any, store: _Detaching) -> list[tuple[float, float, int, int]]:
    """One sweep: forward and backward seconds, activations, input bytes per layer."""
    found = []
    for layer in layers:
        value = _begun(value)
        boundary = _bytes(value)
        store.begin_layer()
        before = _allocated()  # runs what is recorded, so that it is not this layer's time
        start = time.perf_counter()
        output = layer(value)
        _C.graph.settle()
        middle = time.perf_counter()
        activation = max(0, _allocated() - before)
        again = time.perf_counter()
        _pass_back(tensors_of(output) + store.stashed)
        _C.graph.settle()
        found.append((middle - start, time.perf_counter() - again, activation, boundary))
        layer.zero_grad(set_to_none=True)
        value = output
        del output
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
        _measured(layers, sample, store)  # the first run makes kernels and takes memory
        sweeps = [_measured(layers, sample, store)]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sweeps.append(_measured(layers, sample, store))
    return [
        LayerCost(
            name,
            statistics.median(sweep[k][0] for sweep in sweeps),
            statistics.median(sweep[k][1] for sweep in sweeps),
            max(sweep[k][2] for sweep in sweeps),
            sum(p.numel() * p.itemsize for p in layer.parameters()),
            sweeps[0][k][3],
        )
        for k, (name, layer) in enumerate(module.named_children())
    ]
