"""What a step does with a sparse gradient: it reads and writes the places of the gradient alone."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops


class Rows:
    """The places of a coalesced gradient, most often rows of a table, and the gradient's values there."""

    def __init__(self, grad: Any, maximize: bool) -> None:
        grad = grad.coalesce()
        self.places = list(grad._indices().unbind(0))
        self.values: Tensor = -grad._values() if maximize else grad._values()

    def of(self, x: Tensor) -> Tensor:
        """The elements of x at the places, a copy."""
        if len(self.places) == 1:
            return ops.index_select(x, 0, self.places[0])
        return ops.index(x, self.places) if self.places else x.unsqueeze(0)

    def put(self, x: Tensor, values: Tensor) -> None:
        """Writes values to the places of x."""
        self._write(x, values, False)

    def add(self, x: Tensor, values: Tensor) -> None:
        """Adds values at the places of x."""
        self._write(x, values, True)

    def _write(self, x: Tensor, values: Tensor, accumulate: bool) -> None:
        if self.places:
            ops.index_put_(x, self.places, values, accumulate)
        elif values.shape[0]:  # a tensor without axes
            x.add_(values[0]) if accumulate else x.copy_(values[0])
