"""Balances: how many layers each partition of a pipeline gets, so that the slowest one is as fast as can be.

    costs of layers   1  2  3  4 | 5  6       measured on copies, layer by layer
    of partitions         10     |  11        balance [4, 2]: no other cut has a smaller maximum

A pipeline runs at the pace of its dearest partition, so the maximum is what is minimised, exactly; among
the balances that reach it the most even one is taken. Measuring leaves the model as it is.
"""

from __future__ import annotations

import copy
import math
import operator
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd import backward, enable_grad
from flambeau.nn import Module, Sequential
from flambeau.nn._errors import kind_of
from flambeau.pipeline._microbatch import map_tensors, scatter, tensors_of
from flambeau.pipeline.skip import Namespace, use_store
from flambeau.random import fork_rng

__all__ = ["balance_by_size", "balance_by_time", "balance_cost"]

# n: layers, k: partitions, sums[j]: cost of the layers before j; block (i, j]: the layers i .. j-1

# ----------------------------------------------------------------------------------- exact partitions


def _integers(costs: Iterable[Any]) -> list[int]:
    """The costs, scaled to integers: sums of these are exact, so that ties are what they seem to be."""
    costs = list(costs)
    for j, cost in enumerate(costs):
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(f"costs[{j}] = {cost}; expected a finite number that is not negative")
    ratios = [(int(c), 1) if isinstance(c, int) else float(c).as_integer_ratio() for c in costs]
    scale = max((d for _, d in ratios), default=1)  # of powers of two, so all divide the largest
    return [n * (scale // d) for n, d in ratios]


def _fits(sums: list[int], k: int, limit: int) -> bool:
    """Whether k blocks of at most `limit` hold all layers, each taking as many as it can."""
    end = 0
    for _ in range(k):
        end = bisect_right(sums, sums[end] + limit) - 1
        if end == len(sums) - 1:
            return True
    return False


def _least_maximum(sums: list[int], k: int) -> int:
    low, high = max(b - a for a, b in zip(sums, sums[1:])), sums[-1]
    while low < high:
        middle = (low + high) // 2
        if _fits(sums, k, middle):
            high = middle
        else:
            low = middle + 1
    return low


class _Evenest:
    """Of all partitions into k blocks of at most `limit` that with the least variance of block sums.

    Their mean is given, so the sum of squares is what is minimised, by dynamic programming over the number of
    blocks. The square of a block's sum satisfies the quadrangle inequality: the best start of the last block moves
    only forward as its end does. So one row of the table is found in O(n log n), dividing at its middle.
    """

    def __init__(self, sums: list[int], limit: int) -> None:
        self.sums, self.limit = sums, limit

    def row(self, best: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """From the least sums of squares up to each end with b blocks to those with b + 1, and where the last starts.

        Ends that can not be reached are left out; the others are neighbours.
        """
        sums, first = self.sums, min(best)
        last_start = max(best)
        last = min(len(sums) - 1, bisect_right(sums, sums[last_start] + self.limit) - 1)
        found: dict[int, int] = {}
        starts: dict[int, int] = {}
        todo = [(first + 1, last, first, last_start)]
        while todo:
            low, high, start_low, start_high = todo.pop()
            if low > high:
                continue
            end = (low + high) // 2
            lightest = bisect_left(sums, sums[end] - self.limit)
            value, start = min(
                # Of equal ones the latest start: the earlier partitions are the larger ones.
                (best[i] + (sums[end] - sums[i]) ** 2, -i)
                for i in range(max(start_low, lightest, first), min(start_high, end - 1) + 1)
            )
            found[end], starts[end] = value, -start
            todo += [(low, end - 1, start_low, -start), (end + 1, high, -start, start_high)]
        return found, starts

    def sizes(self, k: int) -> list[int]:
        best = {0: 0}
        rows = []
        for _ in range(k):
            best, starts = self.row(best)
            rows.append(starts)
        end, sizes = len(self.sums) - 1, []
        for starts in reversed(rows):
            sizes.append(end - starts[end])
            end = starts[end]
        return sizes[::-1]


def balance_cost(costs: Iterable[float], partitions: int) -> list[int]:
    """Cuts a row of layers into partitions so that the dearest one costs as little as possible.

    Of several such balances the one with the least variance is taken, and of those that with more layers in front.
    Takes O(k n log n) steps for n layers and k partitions.

    Args:
        costs: of each layer, none negative.
        partitions: how many there shall be. None is empty.

    Returns:
        The number of layers in each partition.

    Raises:
        ValueError: `partitions` is not positive, there are fewer layers than partitions, or a cost is negative or
            not finite.

    Example:
        >>> from flambeau.pipeline.balance import balance_cost
        >>> balance_cost([1, 2, 3, 4, 5, 6], 2)
        [4, 2]
    """
    k = operator.index(partitions)
    whole = _integers(costs)
    if k < 1:
        raise ValueError(f"partitions must be a positive integer ({k} < 1)")
    if len(whole) < k:
        raise ValueError(f"sequence is shorter than intended partitions ({len(whole)} < {k})")
    sums = list(accumulate(whole, initial=0))
    return _Evenest(sums, _least_maximum(sums, k)).sizes(k)


# ------------------------------------------------------------------------------------------ measuring


class _Detaching:
    """A store whose tensors begin anew where they are popped, as inputs of layers do."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Namespace | None, str], Tensor | None] = {}
        self.stashed: list[Tensor] = []  # by the layer that is measured
        self.popped: list[Any] = []  # by the same: freeing these is not its work

    def begin_layer(self) -> None:
        self.stashed.clear()
        self.popped.clear()

    def stash(self, namespace: Namespace | None, name: str, tensor: Tensor | None, /) -> None:
        self.kept[namespace, name] = None if tensor is None else tensor.detach().requires_grad_(tensor.requires_grad)
        if tensor is not None:
            self.stashed.append(tensor)

    def pop(self, namespace: Namespace | None, name: str, /) -> Tensor | None:
        found = self.kept.pop((namespace, name))
        self.popped.append(found)
        return _begun(found)  # type: ignore[no-any-return]


def _begun(value: Any) -> Any:
    """The same values without their history. They are copies, and no leaves: a layer may work in place."""
    return map_tensors(value, lambda x: x.detach().requires_grad_(x.requires_grad).clone())


def _check(module: Any, sample: Any, partitions: int) -> None:
    if not isinstance(module, Sequential):
        raise TypeError(f"module must be nn.Sequential to be partitioned, got {kind_of(module)}")
    graded = [name for name, p in module.named_parameters() if p.grad is not None]
    if graded:
        raise ValueError(
            f"some parameter already has gradient: {', '.join(graded[:3])}{', ...' if len(graded) > 3 else ''}; "
            "balance before training, or call zero_grad() first"
        )
    if not tensors_of(sample):
        raise TypeError(f"expected Tensor, but got {kind_of(sample)} with no Tensor in it as the sample to measure with")
    balance_cost([0] * len(module), partitions)  # before anything is measured


def _copies(module: Sequential, device: Any) -> Iterator[Module]:
    """Copies of the layers, one at a time in training mode, on the device."""
    for layer in module:
        yield copy.deepcopy(layer).to(device).train()


@contextmanager
def _untouched() -> Iterator[_Detaching]:
    """Random state and stashed tensors are restored at the end; gradients are recorded meanwhile."""
    store = _Detaching()
    with fork_rng(), enable_grad(), use_store(store):
        yield store


def _pass_back(outputs: list[Tensor]) -> None:
    roots = {id(y): y for y in outputs if y.requires_grad}
    if roots:
        backward(list(roots.values()), [y.detach().new_ones(y.shape) for y in roots.values()])


def _sweep(layers: list[Module], value: Any, store: _Detaching) -> list[int]:
    """Nanoseconds of forward and backward of each layer."""
    times = []
    for layer in layers:
        value = _begun(value)
        store.begin_layer()
        _C.graph.settle()  # what is recorded until here is not this layer's work
        start = time.perf_counter_ns()
        output = layer(value)
        _pass_back(tensors_of(output) + store.stashed)
        _C.graph.settle()
        times.append(time.perf_counter_ns() - start)
        layer.zero_grad(set_to_none=True)
        value = output
        del output  # or the next layer's time would have the freeing of it
    return times


def balance_by_time(
    partitions: int, module: Sequential, sample: Any, *, timeout: float = 1.0, device: Any = "cpu"
) -> list[int]:
    """Balances a model by how long forward and backward of each layer take.

    Copies of the layers are run in training mode, one after the other, until `timeout` seconds have passed, once at
    least; a layer costs the median of its times. The model and random state stay as they are.

    Args:
        partitions: how many there shall be.
        module: the model.
        sample: an input for it, of the size of a micro-batch: a tensor, or a nest of tuples, lists and dicts.
        timeout: seconds.
        device: where to measure.

    Returns:
        The number of layers in each partition.

    Raises:
        TypeError: `module` is no Sequential, or there is no tensor in `sample`.
        ValueError: some parameter has a gradient, `timeout` is not finite, or the layers are fewer than `partitions`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.balance import balance_by_time
        >>> model = fl.nn.Sequential(fl.nn.Linear(512, 512), fl.nn.ReLU(), fl.nn.Linear(512, 8))
        >>> balance_by_time(3, model, fl.rand(64, 512), timeout=0.0)
        [1, 1, 1]
    """
    _check(module, sample, partitions)
    if not math.isfinite(timeout):
        raise ValueError(f"timeout = {timeout}; expected a finite number of seconds")
    with _untouched() as store:
        layers = list(_copies(module, device))
        sample = map_tensors(sample, lambda x: x.detach().to(device).requires_grad_(x.requires_grad))
        sweeps: list[list[int]] = []
        deadline = time.perf_counter() + timeout
        while not sweeps or time.perf_counter() < deadline:
            sweeps.append(_sweep(layers, sample, store))
    # The lower of two middle ones: what disturbs a run makes it slower.
    return balance_cost([sorted(times)[(len(times) - 1) // 2] for times in zip(*sweeps)], partitions)


def _allocated() -> int:
    _C.graph.settle()
    return int(_C.memory_stats()["allocated_bytes"])


def _sizes(module: Sequential, value: Any, param_scale: float, device: Any, store: _Detaching) -> list[float]:
    """Bytes of each layer: what its forward leaves for backward, and its parameters."""
    costs = []
    for layer in _copies(module, device):
        value = _begun(value)
        store.begin_layer()
        before = _allocated()
        output = layer(value)
        latent = max(0, _allocated() - before)
        params = sum(p.numel() * p.itemsize for p in layer.parameters())
        costs.append(latent + params * param_scale)
        value = output
        del output  # or the next layer would seem to free memory
    return costs


def balance_by_size(
    partitions: int,
    module: Sequential,
    input: Any,
    *,
    chunks: int = 1,
    param_scale: float = 2.0,
    device: Any = "cpu",
) -> list[int]:
    """Balances a model by how much memory each layer takes.

    A layer costs the bytes that its forward leaves allocated until backward, for one micro-batch, plus those of its
    parameters times `param_scale`. Copies of the layers are run in training mode; the model and random state stay as
    they are. Other threads should not allocate meanwhile.

    Args:
        partitions: how many there shall be.
        module: the model.
        input: a whole mini-batch for it: a tensor, or a nest of tuples, lists and dicts.
        chunks: how many micro-batches it will be split into; one of them is measured.
        param_scale: bytes that training takes per byte of parameters, gradients and the optimizer's state included:
            2 to 3 for SGD, 4 to 5 for Adam, 4 for Adadelta, 3 for Adagrad, 3 to 5 for RMSprop.
        device: where to measure; memory of the CPU is known.

    Returns:
        The number of layers in each partition.

    Raises:
        TypeError: `module` is no Sequential, or there is no tensor in `input`.
        ValueError: some parameter has a gradient, `chunks` is not positive, `param_scale` is negative, the device is not
            the CPU, the batch is empty, or the layers are fewer than `partitions`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.balance import balance_by_size
        >>> model = fl.nn.Sequential(*(fl.nn.Linear(256, 256) for _ in range(4)))
        >>> balance_by_size(2, model, fl.rand(8, 256), chunks=4)
        [2, 2]
    """
    _check(module, input, partitions)
    if not (math.isfinite(param_scale) and param_scale >= 0):
        raise ValueError(f"param_scale = {param_scale}; expected a finite number that is not negative")
    if _C.device(device).type != "cpu":
        raise ValueError(f"size profiler supports only the CPU, got device = {str(device)!r}; balance_by_time takes others")
    piece = scatter(input, chunks, "chunk")[0]  # the largest
    if tensors_of(piece)[0].shape[0] == 0:
        raise ValueError("balance_by_size: the input has no samples; expected one or more")
    with _untouched() as store:
        return balance_cost(_sizes(module, piece, param_scale, device, store), partitions)
