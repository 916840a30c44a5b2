"""Skip connections: tensors that one layer of a Sequential hands to a later one, past those between.

A layer says which names it stashes and pops, and does so where its forward, a generator, yields:

    @skippable(stash=["long"])                     @skippable(pop=["long"])
    class Encode(nn.Module):                       class Decode(nn.Module):
        def forward(self, x):                          def forward(self, x):
            yield stash("long", x)                         long = yield pop("long")
            return self.down(x)                            return self.up(x) + long

Such a layer works alone and in any model: a table of the thread keeps what was stashed. In a pipeline
the executor lends a store of its own (`use_store`), and sends a tensor straight from the partition that
stashes it to the one that pops it (`layout`). Moving tensors is the executor's part; none of it is here.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from inspect import isgenerator
from itertools import count
from typing import Any, ClassVar, Protocol, TypeVar

from flambeau._C import Tensor
from flambeau.nn import Module, Sequential
from flambeau.nn._errors import kind_of

__all__ = ["Namespace", "Skippable", "Store", "layout", "pop", "skippable", "stash", "use_store", "verify_skippables"]

# ------------------------------------------------------------------------------------------- namespaces

_created = count()


@functools.total_ordering
class Namespace:
    """Keeps names of one part of a model apart from the same names of another part.

    Equal to its copies, pickled ones too, and to nothing else. Namespaces are ordered as they were made, behind
    None, which is the namespace of layers that were not isolated.

    Example:
        >>> import copy
        >>> from flambeau.pipeline.skip import Namespace
        >>> a, b = Namespace(), Namespace()
        >>> a == copy.deepcopy(a), a == b, a < b, None < a
        (True, False, True, True)
    """

    __slots__ = ("_id",)

    def __init__(self) -> None:
        self._id = (next(_created), os.urandom(16))  # the bits tell those of two processes apart

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self._id == other._id

    def __lt__(self, other: Namespace | None) -> bool:
        if other is None:
            return False
        return self._id < other._id if isinstance(other, Namespace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"<Namespace {self._id[0]}>"


Key = tuple["Namespace | None", str]

# ---------------------------------------------------------------------------------------------- stores


class Store(Protocol):
    """Where stashed tensors are until they are popped."""

    def stash(self, namespace: Namespace | None, name: str, tensor: Tensor | None, /) -> None:
        """Keeps a tensor, or None."""

    def pop(self, namespace: Namespace | None, name: str, /) -> Tensor | None:
        """Gives back what was stashed, and forgets it.

        Raises:
            KeyError: nothing was stashed. Its argument is the pair of namespace and name.
        """


class _Table(dict[Key, "Tensor | None"]):
    """The store of a thread that runs no pipeline.

    A model that fails after a stash leaves the tensor here, until the same name is stashed again.
    """

    def stash(self, namespace: Namespace | None, name: str, tensor: Tensor | None, /) -> None:
        self[namespace, name] = tensor

    def pop(self, namespace: Namespace | None, name: str, /) -> Tensor | None:  # type: ignore[override]
        return super().pop((namespace, name))


class _Thread(threading.local):
    def __init__(self) -> None:
        self.store: Store = _Table()


_thread = _Thread()


class use_store:  # noqa: N801 (it is called as a function is)
    """Has this thread's skippable layers stash into and pop from `store` within the scope.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.skip import skippable, stash, use_store
        >>> @skippable(stash=["x"])
        ... class Keep(fl.nn.Module):
        ...     def forward(self, x):
        ...         yield stash("x", x)
        ...         return x * 2
        >>> class Log:
        ...     def stash(self, namespace, name, tensor):
        ...         print(namespace, name, tensor)
        ...     def pop(self, namespace, name): ...
        >>> with use_store(Log()):
        ...     y = Keep()(fl.ones(2))
        None x tensor([1., 1.])
    """

    __slots__ = ("_before", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        self._before = _thread.store
        _thread.store = self._store

    def __exit__(self, *error: object) -> None:
        _thread.store = self._before


# -------------------------------------------------------------------------------------------- commands


class _Stash:
    def __init__(self, name: str, tensor: Tensor | None) -> None:
        self.name, self.tensor = name, tensor

    def __repr__(self) -> str:
        return f"stash({self.name!r})"


class _Pop:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"pop({self.name!r})"


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{what}: name = {name!r} ({kind_of(name)}); expected a str")


def stash(name: str, tensor: Tensor | None) -> Any:
    """Yielded by a skippable layer: keeps `tensor` for the layer that pops `name`.

    Args:
        name: one of those that the layer declared to stash.
        tensor: a tensor, or None.

    Raises:
        TypeError: `name` is no str, or `tensor` neither.

    Example:
        >>> from flambeau.pipeline.skip import stash
        >>> stash("long", None)
        stash('long')
    """
    _check_name("stash", name)
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"stash: tensor = {kind_of(tensor)} for '{name}'; expected a Tensor or None (stash several under a name each)")
    return _Stash(name, tensor)


def pop(name: str) -> Any:
    """Yielded by a skippable layer: gives what an earlier layer stashed, as the value of the yield.

    Args:
        name: one of those that the layer declared to pop.

    Raises:
        TypeError: `name` is no str.

    Example:
        >>> from flambeau.pipeline.skip import pop
        >>> pop("long")
        pop('long')
    """
    _check_name("pop", name)
    return _Pop(name)


class _Call:
    """One run of a layer's forward: what it did so far of what it declared."""

    def __init__(self, layer: Skippable, store: Store) -> None:
        self.layer, self.store = layer, store
        self.stashed: set[str] = set()
        self.popped: set[str] = set()

    def _once(self, name: str, declared: frozenset[str], done: set[str], kind: str, past: str) -> None:
        if name not in declared:
            raise RuntimeError(f"'{name}' has not been declared as {kind}")
        if name in done:
            raise RuntimeError(f"'{name}' has been {past} already by this forward; {past} names are used once each")
        done.add(name)

    def answer(self, command: Any) -> Tensor | None:
        """Does what was yielded; what it returns is the value of the yield."""
        if isinstance(command, _Stash):
            self._once(command.name, self.layer.stashable_names, self.stashed, "stashable", "stashed")
            self.store.stash(self.layer.namespace_of(command.name), command.name, command.tensor)
            return None
        if isinstance(command, _Pop):
            self._once(command.name, self.layer.poppable_names, self.popped, "poppable", "popped")
            return self._popped((self.layer.namespace_of(command.name), command.name))
        raise TypeError(f"{command!r} is not a command from @skippable")

    def _popped(self, key: Key) -> Tensor | None:
        try:
            return self.store.pop(*key)
        except KeyError as error:
            if error.args != (key,):  # not the store's answer, but a fault of its own
                raise
        raise RuntimeError(f"'{key[1]}' has not been stashed")

    def run(self, steps: Generator[Any, Any, Any]) -> Any:
        with closing(steps):
            answer = None
            while True:
                try:
                    command = steps.send(answer)
                except StopIteration as end:
                    return end.value
                answer = self.answer(command)

    def finish(self) -> None:
        for declared, done, past in (
            (self.layer.stashable_names, self.stashed, "stashed"),
            (self.layer.poppable_names, self.popped, "popped"),
        ):
            left = sorted(declared - done)
            if left:
                raise RuntimeError(f"{', '.join(map(repr, left))} must be {past} but have not")


# ---------------------------------------------------------------------------------------------- layers


class Skippable(Module):
    """What `@skippable` makes of a class of modules; the layer itself is at `.module`."""

    module_cls: ClassVar[type[Module]]
    stashable_names: ClassVar[frozenset[str]]
    poppable_names: ClassVar[frozenset[str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = self.module_cls(*args, **kwargs)
        self.namespaces: dict[str, Namespace] = {}

    def __repr__(self) -> str:
        return f"@skippable({self.module!r})"

    def namespace_of(self, name: str) -> Namespace | None:
        """The namespace in which this layer stashes or pops `name`."""
        return self.namespaces.get(name)

    def stashable(self) -> list[Key]:
        """What this layer stashes: pairs of namespace and name, sorted by name."""
        return [(self.namespace_of(name), name) for name in sorted(self.stashable_names)]

    def poppable(self) -> list[Key]:
        """What this layer pops: pairs of namespace and name, sorted by name."""
        return [(self.namespace_of(name), name) for name in sorted(self.poppable_names)]

    def isolate(self: S, namespace: Namespace, *, only: Iterable[str] | None = None) -> S:
        """Moves names of this layer into a namespace.

        Args:
            namespace: where the partner of this layer has been moved, too.
            only: the names that are moved; all by default.

        Returns:
            This layer.

        Raises:
            TypeError: `namespace` is none, or `only` is a str.
            ValueError: `only` has a name that the layer did not declare.

        Example:
            >>> import flambeau as fl
            >>> from flambeau.pipeline.skip import Namespace, skippable
            >>> @skippable(pop=["x", "y"])
            ... class Join(fl.nn.Module): ...
            >>> Join().isolate(Namespace(), only=["y"]).namespace_of("x") is None
            True
        """
        if not isinstance(namespace, Namespace):
            raise TypeError(f"isolate: namespace = {namespace!r}; expected a Namespace()")
        declared = self.stashable_names | self.poppable_names
        names = declared if only is None else _names("isolate", "only", only)
        if names - declared:
            raise ValueError(f"isolate: only = {sorted(names)}; this layer declared {sorted(declared)}")
        self.namespaces.update((name, namespace) for name in names)
        return self

    def forward(self, input: Any) -> Any:
        """Runs the layer, and does what it yields."""
        call = _Call(self, _thread.store)
        output = self.module(input)
        if isgenerator(output):
            output = call.run(output)
        call.finish()
        return output

    # The class of `module` can not be found by its name, which is now that of the wrapper. So a pickle holds its state.

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["_modules"] = {name: child for name, child in self._modules.items() if name != "module"}
        state["_inner"] = self.module.__getstate__()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        inner = self.module_cls.__new__(self.module_cls)
        inner.__setstate__(state.pop("_inner"))
        super().__setstate__(state)
        self._modules["module"] = inner


S = TypeVar("S", bound=Skippable)


def _names(where: str, what: str, names: Any) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"{where}: {what} = {names!r} is a str, whose characters would be taken for names; expected [{names!r}]")
    names = list(names)
    for name in names:
        _check_name(f"{where}: {what}", name)
    return frozenset(names)


def skippable(stash: Iterable[str] = (), pop: Iterable[str] = ()) -> Callable[[type[Module]], type[Skippable]]:
    """Decorates a class of modules whose forward stashes or pops tensors.

    The forward is a generator: it yields `stash(name, tensor)` or `pop(name)`, and returns the output. A layer must
    stash and pop each time all that it declared.

    Args:
        stash: the names that the layer stashes.
        pop: the names that the layer pops.

    Returns:
        The decorator. The class that it makes has the layer at `.module`, so `weight` becomes `module.weight`.

    Raises:
        TypeError: `stash` or `pop` is a str or has something else in it, or the class is none of modules.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.skip import pop, skippable, stash
        >>> @skippable(stash=["x"])
        ... class Keep(fl.nn.Module):
        ...     def forward(self, x):
        ...         yield stash("x", x)
        ...         return x * 2
        >>> @skippable(pop=["x"])
        ... class Add(fl.nn.Module):
        ...     def forward(self, y):
        ...         x = yield pop("x")
        ...         return x + y
        >>> fl.nn.Sequential(Keep(), fl.nn.ReLU(), Add())(fl.ones(2))
        tensor([3., 3.])
    """
    stashable, poppable = _names("skippable", "stash", stash), _names("skippable", "pop", pop)

    def decorate(module_cls: type[Module]) -> type[Skippable]:
        if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
            raise TypeError(f"skippable: decorates {module_cls!r}; expected a class of modules")
        body = {
            "__module__": module_cls.__module__,
            "__qualname__": module_cls.__qualname__,
            "__doc__": module_cls.__doc__,
            "module_cls": module_cls,
            "stashable_names": stashable,
            "poppable_names": poppable,
        }
        return type(module_cls.__name__, (Skippable,), body)

    return decorate


# --------------------------------------------------------------------------------- a model's connections


def _layers(modules: Iterable[tuple[str, Module]], prefix: str = "") -> Iterator[tuple[str, Skippable]]:
    """The skippable layers in the order in which they run, with their names.

    Of other modules than Sequentials nobody knows the order, so what they hold is their own affair.
    """
    for name, module in modules:
        if isinstance(module, Skippable):
            yield prefix + name, module
        elif isinstance(module, Sequential) and type(module).forward is Sequential.forward:
            yield from _layers(module._modules.items(), f"{prefix}{name}.")


class _Matching:
    """Pairs each stash with its pop, and collects what does not match."""

    def __init__(self) -> None:
        self.stashed: dict[Key, int] = {}
        self.popped: dict[Key, int] = {}
        self.faults: list[str] = []

    def _fault(self, layer: str, text: str) -> None:
        self.faults.append(f"'{layer}' {text}")

    def add(self, label: str, layer: Skippable, partition: int) -> None:
        both = layer.stashable_names & layer.poppable_names
        for name in sorted(both):
            self._fault(label, f"declared '{name}' both as stashable and as poppable")
        for key in layer.stashable():
            if key[1] in both:
                continue
            if key in self.stashed:
                self._fault(label, f"redeclared '{key[1]}' as stashable but not isolated by namespace")
            else:
                self.stashed[key] = partition
        for key in layer.poppable():
            if key[1] in both:
                continue
            if key in self.popped:
                self._fault(label, f"redeclared '{key[1]}' as poppable but not isolated by namespace")
            elif key not in self.stashed:
                self._fault(label, f"declared '{key[1]}' as poppable but it was not stashed")
            else:
                self.popped[key] = partition

    def finish(self) -> dict[Key, tuple[int, int]]:
        unused = [f"no module declared '{name}' as poppable but stashed" for ns, name in self.stashed if (ns, name) not in self.popped]
        faults = self.faults + unused
        if faults:
            raise TypeError("one or more pairs of stash and pop do not match:\n\n" + "\n".join(f"* {fault}" for fault in faults))
        return {key: (source, self.popped[key]) for key, source in self.stashed.items()}


def verify_skippables(module: Sequential) -> None:
    """Checks that each name is stashed once, and popped once by a later layer.

    Args:
        module: a Sequential. Sequentials among its layers are looked into; other modules are not.

    Raises:
        TypeError: some pairs do not match; all of them are listed.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.skip import skippable, verify_skippables
        >>> @skippable(pop=["x"])
        ... class Add(fl.nn.Module): ...
        >>> verify_skippables(fl.nn.Sequential(fl.nn.ReLU(), Add()))
        Traceback (most recent call last):
        TypeError: one or more pairs of stash and pop do not match:
        <BLANKLINE>
        * '1' declared 'x' as poppable but it was not stashed
    """
    layout([module])


def layout(partitions: Iterable[Sequential]) -> dict[Key, tuple[int, int]]:
    """Where each skip connection begins and ends.

    Connections that a module other than a Sequential has inside of itself are not in it: such a name is stashed and
    popped by one layer, so its store keeps it.

    Args:
        partitions: the parts of a model, in order; a Sequential of Sequentials will do.

    Returns:
        For each pair of namespace and name the index of the partition that stashes it, and of that which pops it.

    Raises:
        TypeError: some pairs of stash and pop do not match.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.skip import layout, skippable
        >>> @skippable(stash=["x"])
        ... class Keep(fl.nn.Module): ...
        >>> @skippable(pop=["x"])
        ... class Add(fl.nn.Module): ...
        >>> layout([fl.nn.Sequential(Keep()), fl.nn.Sequential(fl.nn.ReLU()), fl.nn.Sequential(Add())])
        {(None, 'x'): (0, 2)}
    """
    matching = _Matching()
    for j, partition in enumerate(partitions):
        for label, layer in _layers(partition._modules.items()):
            matching.add(label, layer, j)
    return matching.finish()
