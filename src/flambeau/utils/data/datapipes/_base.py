"""What data pipes have in common: steps by name, and the mark that gives a class its name."""

from __future__ import annotations

import copy
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from flambeau._C import int64, ops
from flambeau._errors import AssertedArgumentError
from flambeau.utils.data._workers import get_worker_info
from flambeau.utils.data.dataset import Dataset, IterableDataset


class DataChunk(list):  # type: ignore[type-arg]
    """The samples of a batch, as `batch` gives them."""

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples in one line."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[Any]:
        """The samples."""
        yield from self.items


class _Steps:
    """`pipe.name(...)` makes the class that is registered under the name, of the pipe and the arguments."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes `pipe.function_name(...)` call `function(pipe, ...)`."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False) -> None:
        """Makes `pipe.function_name(...)` the class of the pipe and the arguments.

        Raises:
            Exception: the name is taken.
        """
        if function_name in cls.functions:
            raise Exception(f"data pipes: the name {function_name!r} is taken by {cls.functions[function_name]!r}")  # noqa: TRY002
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__


class IterDataPipe(_Steps, IterableDataset[Any]):
    """A data pipe that is iterated; a subclass defines `__iter__`.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).map(lambda x: x * x).batch(2))
    [[0, 1], [4, 9], [16]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def reset(self) -> None:
        """Called by pipes that begin anew; nothing is kept here."""


class MapDataPipe(_Steps, Dataset[Any]):
    """A data pipe with `__getitem__` and `__len__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} defines no __len__")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Callable[[type], type]:
    """A decorator of a data pipe's class: pipes have a method of this name, which makes one.

    Raises:
        TypeError: the class is none of a data pipe.
        NotImplementedError: `enable_df_api_tracing`, for pipes of data frames.
    """
    if enable_df_api_tracing:
        raise NotImplementedError("functional_datapipe: enable_df_api_tracing = True; there are no pipes of data frames")

    def register(cls: type) -> type:
        kind = next((k for k in (IterDataPipe, MapDataPipe) if isinstance(cls, type) and issubclass(cls, k)), None)
        if kind is None:
            raise TypeError(f"functional_datapipe: {cls!r} is not derived from IterDataPipe or MapDataPipe")
        kind.register_datapipe_as_function(name, cls)
        return cls

    return register


class Shuffled:
    """The choice of an order, and its seed: given, or drawn when an iteration begins."""

    def __init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Whether the order is changed; returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """The seed of the next iteration; returns the pipe."""
        self._seed = seed
        return self

    def _generator(self) -> random.Random:
        seed = self._seed
        if get_worker_info() is None:  # the workers of a loader share pipes, and the seed that it gives for a pass
            self._seed = None
        return random.Random(draw_seed(None) if seed is None else seed)


def draw_seed(generator: Any) -> int:
    """A seed, drawn from a generator or the program's."""
    return int(ops.empty((), dtype=int64).random_(generator=generator).item())


def copied(value: Any, deep: bool, what: str) -> Any:
    """A deep copy where it is asked for and can be made."""
    if not deep:
        return value
    try:
        return copy.deepcopy(value)
    except TypeError:
        from flambeau._warn import warn

        warn(f"{what}: the data can not be copied, and several iterations may share what they change; pass deepcopy=False to say so")
        return value


def count_of(source: Any, whose: Any) -> int:
    """The length of a source, where it has one.

    Raises:
        TypeError: it has none.
    """
    if not hasattr(type(source), "__len__"):
        raise TypeError(f"{type(whose).__name__} has no valid length: its source, a {type(source).__name__}, has none")
    return len(source)


def check_size(name: str, argument: str, value: int) -> None:
    """Refuses what is no number of samples."""
    if value <= 0:
        raise AssertedArgumentError(f"{name}: {argument} = {value}; expected more than 0")


def check_pipes(name: str, pipes: tuple[Any, ...], kind: type) -> None:
    """Refuses no pipes, and what is none."""
    if not pipes:
        raise ValueError(f"{name}: there are no pipes; expected at least one")
    for i, pipe in enumerate(pipes):
        if not isinstance(pipe, kind):
            raise TypeError(f"{name}: argument {i} is a {type(pipe).__name__}; expected an {kind.__name__} (IterableWrapper makes one)")


def check_function(name: str, function: Any, columns: Any = None) -> None:
    """Refuses what can not be called with as many arguments as there are columns; one where none are named."""
    if not callable(function):
        raise TypeError(f"{name}: the function is a {type(function).__name__}; expected something to call")
    n = len(columns) if isinstance(columns, (list, tuple)) else 1
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of C's
        return
    try:
        signature.bind(*[None] * n)
    except TypeError as error:
        called = getattr(function, "__name__", type(function).__name__)
        raise ValueError(f"{name}: {called}{signature} is called with {n} arguments ({error})") from None
