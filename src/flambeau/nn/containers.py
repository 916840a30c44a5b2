"""Modules that hold other modules or parameters: in a row, by index, by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import Any, TypeVar, overload

from flambeau._C import Tensor
from flambeau._errors import AssertedTypeError
from flambeau._warn import warn
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

T = TypeVar("T", bound=Module)


def _index(what: Any, i: Any) -> int:
    n = len(what)
    i = operator.index(i)
    if not -n <= i < n:
        raise IndexError(f"{type(what).__name__}: index {i} is out of range, it has {n} entries")
    position: int = i % n
    return position


class Container(Module):
    """A Module that takes its modules by name: of older programs, which should derive from Module instead.

    >>> import flambeau as fl, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     list(dict(fl.nn.Container(encoder=fl.nn.Linear(4, 2)).named_children()))
    ['encoder']
    """

    def __init__(self, **kwargs: Module | None) -> None:
        warn("nn.Container: deprecated; derive from nn.Module, which does the same", FutureWarning)
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Calls its modules one after the other.

    Takes modules, or an OrderedDict from names to modules. Type checkers take the result for a tensor, which it nearly always is.

    >>> import flambeau as fl
    >>> net = fl.nn.Sequential(fl.nn.Linear(4, 8), fl.nn.ReLU(), fl.nn.Linear(8, 2))
    >>> net(fl.zeros(3, 4)).shape
    flambeau.Size([3, 2])
    """

    _modules: dict[str, Module]

    @overload
    def __init__(self, modules: OrderedDict[str, Module], /) -> None: ...

    @overload
    def __init__(self, *args: Module) -> None: ...

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Tensor:
        for module in self._modules.values():
            input = module(input)
        return input  # type: ignore[no-any-return]

    def _fl_name(self, i: Any) -> str:
        return next(islice(self._modules, _index(self, i), None))

    @overload
    def __getitem__(self, i: int) -> Module: ...

    @overload
    def __getitem__(self, i: slice) -> Sequential: ...

    def __getitem__(self, i: Any) -> Module:
        if isinstance(i, slice):
            return type(self)(OrderedDict(list(self._modules.items())[i]))
        return self._modules[self._fl_name(i)]

    def __setitem__(self, i: int, module: Module) -> None:
        setattr(self, self._fl_name(i), module)

    def __delitem__(self, i: Any) -> None:
        names = list(self._modules)[i] if isinstance(i, slice) else [self._fl_name(i)]
        for name in names:
            del self._modules[name]
        self._fl_renumber()

    def _fl_renumber(self) -> None:
        modules = list(self._modules.values())
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __add__(self, other: Any) -> Sequential:
        self._fl_addable("+", other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        self._fl_addable("+=", other)
        return self.extend(other)

    def _fl_addable(self, sign: str, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential {sign} other: add operator supports only objects of Sequential class, but {type(other)} is given")

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*self._fl_repeated(times))

    def __imul__(self, times: int) -> Sequential:
        return self.extend(self._fl_repeated(times)[len(self) :])

    def _fl_repeated(self, times: int) -> list[Module]:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: Sequential and {type(times)}; expected a positive int")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return list(self) * times

    __rmul__ = __mul__

    def append(self, module: Module) -> Sequential:
        """Adds a module at the end and returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Puts a module before position `index` and returns self."""
        if not isinstance(module, Module):
            raise AssertedTypeError(f"Sequential.insert: module should be of type: {Module}, got {type(module)}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Sequential.insert: Index out of range: {index}, it has {n} entries")
        modules = list(self._modules.values())
        modules.insert(index + n if index < 0 else index, module)
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Adds several modules at the end and returns self."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Removes and returns the module at the index `key`, or those of a slice."""
        module: Module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """A list whose modules are found by `parameters()` and `state_dict()`.

    Example:
        >>> import flambeau as fl
        >>> blocks = fl.nn.ModuleList([fl.nn.Linear(2, 2), fl.nn.ReLU()])
        >>> len(blocks), blocks[-1]
        (2, ReLU())
    """

    _modules: dict[str, Module]

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _get_abs_string_index(self, idx: int) -> str:
        return str(_index(self, idx))

    @overload
    def __getitem__(self, i: int) -> Module: ...

    @overload
    def __getitem__(self, i: slice) -> ModuleList: ...

    def __getitem__(self, i: Any) -> Module:
        if isinstance(i, slice):
            return type(self)(list(self._modules.values())[i])
        return self._modules[self._get_abs_string_index(i)]

    def __setitem__(self, i: int, module: Module) -> None:
        setattr(self, self._get_abs_string_index(i), module)

    def __delitem__(self, i: Any) -> None:
        modules = list(self._modules.values())
        del modules[i]
        self._modules.clear()
        self._modules.update((str(k), m) for k, m in enumerate(modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before position `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        for k, m in enumerate(modules):
            self.add_module(str(k), m)

    def append(self, module: Module) -> ModuleList:
        """Adds a module at the end and returns self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Module:
        """Removes and returns the module at the index `key`, or those of a slice."""
        module: Module = self[key]
        del self[key]
        return module

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Adds several modules at the end and returns self.

        Raises:
            TypeError: `modules` is no iterable.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Runs of modules that print alike are folded: `(0-2): 3 x Linear(...)`."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        runs: list[list[int]] = []
        for i, text in enumerate(texts):
            if runs and texts[runs[-1][0]] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i])
        lines = []
        for first, last in runs:
            text = texts[first].replace("\n", "\n  ")
            label = f"({first})" if first == last else f"({first}-{last}): {last - first + 1} x"
            lines.append(f"{label}: {text}" if first == last else f"{label} {text}")
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """An ordered dict whose modules are found by `parameters()` and `state_dict()`.

    Example:
        >>> import flambeau as fl
        >>> heads = fl.nn.ModuleDict({"a": fl.nn.ReLU()})
        >>> heads["b"] = fl.nn.Tanh()
        >>> list(heads)
        ['a', 'b']
    """

    _modules: dict[str, Module]

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes and returns the module named `key`."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from (name, module) pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(what: str, given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        return list(given.items())
    if not isinstance(given, Iterable):
        raise TypeError(f"{what}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}")
    pairs = []
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what}.update: {what} update sequence element #{i} should be Iterable, a (name, value) pair; is {pair!r}")
        entry = list(pair)
        if len(entry) != 2:
            raise ValueError(
                f"{what}.update: {what} update sequence element #{i} has length {len(entry)}; 2 is required, (name, value), got {pair!r}"
            )
        pairs.append((entry[0], entry[1]))
    return pairs


def _as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _tensor_line(key: Any, value: Any, kind_of_elements: Any) -> str:
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        size = "x".join(str(s) for s in value.shape)
        return f"  ({key}): {kind} containing: [{kind_of_elements} of size {size}]"
    return f"  ({key}): Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters; plain tensors become parameters on entry."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, i: int) -> Any: ...

    @overload
    def __getitem__(self, i: slice) -> ParameterList: ...

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return type(self)([self[k] for k in range(*i.indices(len(self)))])
        if type(i) is int and 0 <= i < self._size:
            return getattr(self, str(i))
        return getattr(self, str(_index(self, i)))

    def __setitem__(self, i: int, value: Any) -> None:
        setattr(self, str(_index(self, i)), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end and returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds several values at the end and returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_tensor_line(i, value, getattr(value, "dtype", None)) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called. It only holds parameters")


class _NoSuchKey(KeyError, AttributeError):
    """What a ParameterDict raises for a name that it lacks; PyTorch's is an AttributeError."""


class ParameterDict(Module):
    """A dict of parameters; plain tensors become parameters on entry."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise _NoSuchKey(key)
        return getattr(self, self._key_to_attr(key))

    @staticmethod
    def _key_to_attr(key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'): {key!r}"
            )
        return key

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        if key not in self._keys and hasattr(self, name):
            raise KeyError(f"ParameterDict: key '{key}' is the name of an attribute")
        setattr(self, name, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: Any) -> ParameterDict:
        copy = ParameterDict(self)
        copy.update(other)
        return copy

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return [self[key] for key in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, value) pairs."""
        return [(key, self[key]) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """The value under `key`, or `default`."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under `key`, after setting it to `default` if there was none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Removes and returns the value under `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the last (name, value)."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("ParameterDict.popitem: there are no parameters")
        return key, self.pop(key)

    def clear(self) -> None:
        """Removes everything."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """A new dict with the same values."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict from `keys`, all with the value `default`."""
        return ParameterDict([(key, default) for key in keys])

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping or from (name, value) pairs, in order; a plain dict's by name, as PyTorch does.

        So two programs that fill a dict in another order give the optimizer the same parameters.
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_tensor_line(key, value, value.type() if isinstance(value, Tensor) else None) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called. It only holds parameters")
