"""Helpers whose signatures say Tensor."""
from collections.abc import Callable, Iterable, Sequence

import flambeau as fl

Activation = Callable[[fl.Tensor], fl.Tensor]


def apply_all(functions: Sequence[Activation], x: fl.Tensor) -> fl.Tensor:
    for f in functions:
        x = f(x)
    return x


def total(tensors: Iterable[fl.Tensor]) -> fl.Tensor:
    result = fl.zeros(())
    for t in tensors:
        result = result + t.sum()
    return result


print(apply_all([fl.relu, fl.tanh, fl.nn.GELU(), lambda t: t + 1], fl.ones(2)), total([fl.ones(2), fl.ones(3)]))
