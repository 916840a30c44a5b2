"""The numbers of optimizers' states, such as 'step': tensors of no axes for who looks, one array for who steps.

A step reads and writes the numbers of all its parameters, and calls per tensor would cost more than the step itself. So the tensors
of a group are windows to the elements of one array of Python's, which is read and written at once. Ops on such memory are never
deferred (docs/lazy.md), so that a write from here needs to ask nobody.

    values   [ 3. | 3. | 3. ]     array('f')
    tensors    ^    ^    ^        state[p]['step'], each with a storage of its own
"""

from __future__ import annotations

import operator
import threading
from array import array
from typing import Any, Literal, cast

from flambeau import _C, _replay
from flambeau._C import Tensor


def _zeros(n: int, like: list[Any]) -> array[float]:
    """Room for n numbers: of double precision where all tensors among `like` are, or without any, where tensors are by default.

    What was loaded in 16 bits is single from then on, since a product over steps would stand still in them.
    """
    types = {value.dtype for value in like if isinstance(value, Tensor)} or {_C.get_default_dtype()}
    return array("d" if types == {_C.float64} else "f", (0.0,)) * n


def _window(values: array[float], i: int) -> Tensor:
    size, code = values.itemsize, cast(Literal["f", "d"], values.typecode)
    element = memoryview(values).cast("B")[i * size : (i + 1) * size]
    made: Tensor = _C.from_buffer(element.cast(code, shape=[]))  # type: ignore[call-overload]
    return made


def number_tensor(value: Any) -> Tensor:
    """A number, or a tensor that has one, as the tensor that a state has."""
    if _own(value) is not None:
        return value  # type: ignore[no-any-return]
    values = _zeros(1, [value])
    values[0] = float(value)
    return _window(values, 0)


def _own(value: Any) -> memoryview | None:
    """The memory of a tensor that was made here. To look into it is no read that a recording would notice."""
    memory = _C.buffer_of(value)
    return memory if isinstance(memory, memoryview) and memory.ndim == value.ndim == 0 else None


def number_of(value: Any) -> float:
    """What a state has, a tensor or not, as a number."""
    memory = _own(value)
    return float(value if memory is None else memory[()])


def option_of(value: Any) -> float:
    """A group's option, a tensor or not, as a number.

    While a call is recorded to be replayed another thread reads the tensor: that interrupts a recording that is to write it, and no other.
    A step that is replayed reads it anew, before all that the call writes.
    """
    if not isinstance(value, Tensor) or not _C.graph.watched():
        return float(value)
    found: list[Any] = []

    def read() -> None:
        try:
            found.append(float(value))
        except BaseException as error:
            found.append(error)

    interrupted = _C.graph.interruption() is not None
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    if not interrupted and _C.graph.interruption() is not None:
        _replay.noted().why = "an optimizer reads an option (a learning rate that is a tensor) that the call has written"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]  # type: ignore[no-any-return]


class Numbers:
    """One number for each of some parameters. A tensor is given out once: who keeps one of a state that was dropped keeps its value."""

    def __init__(self, name: str, params: list[Tensor], now: list[Any]) -> None:
        self.of = operator.itemgetter(name)
        self.params = params
        self.values = _zeros(len(params), now)
        self.tensors: list[Tensor | None] = [None] * len(params)

    def give(self, i: int, value: float) -> Tensor:
        """The tensor of parameter i, which becomes `value`."""
        self.values[i] = value
        self.tensors[i] = made = _window(self.values, i)
        return made


class Column:
    """The numbers of one name in the states of a plan."""

    def __init__(self, numbers: Numbers, where: list[int]) -> None:
        self.values = numbers.values
        self.of = numbers.of
        self.where = where if len(where) < len(numbers.params) else None
        self.tensors = [numbers.tensors[i] for i in where]

    def read(self) -> list[float]:
        return self.values.tolist() if self.where is None else [self.values[i] for i in self.where]

    def write(self, new: list[Any]) -> None:
        values = self.values
        if self.where is None:
            values[:] = array(values.typecode, new)
        else:
            for i, value in zip(self.where, new):
                values[i] = value

    def count(self) -> list[int]:
        """Adds one to all and returns them."""
        values = self.values
        if self.where is None and values.count(values[0]) == len(values):  # as most often: without a loop in Python
            step = int(values[0]) + 1
            values[:] = array(values.typecode, (float(step),)) * len(values)
            return [step] * len(values)
        steps = [int(step) + 1 for step in self.read()]
        self.write(steps)
        return steps
