"""Recording instead of running: `lazy`, `compile`, and what is known about them.

While a thread records, an op checks its arguments as always, but is noted instead of run. Reading a value (`item`, `numpy`,
`print`, `if x > 0`) runs what was noted, and so does the end of the region; a program can not tell, but by the time
that it takes. docs/lazy.md says more.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flambeau import _C, _replay, nn
from flambeau._call_forms import (
    Entry,
    Place,
    Unfit,
    View,
    attributes_of,
    described,
    filled,
    is_look,
    key_of,
    references,
    references_alone,
    tensors_in,
)
from flambeau._compiler_marks import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    get_default_backend,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    nested_compile_region,
    reset,
    set_default_backend,
    set_stance,
    substitute_in_graph,
    switches,
)
from flambeau._errors import RefusedValueError
from flambeau._warn import warn
from flambeau.autograd.modes import no_grad

__all__ = [
    "CompileError", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "explain",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "lazy", "list_backends",
    "nested_compile_region", "reset", "set_default_backend", "set_stance", "stats", "substitute_in_graph",
]  # fmt: skip

Tensor = _C.Tensor
F = TypeVar("F", bound=Callable[..., Any])


class CompileError(RuntimeError):
    """A function can not be compiled as a whole, though `fullgraph=True` asked for it."""


def _budget(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name} = {value!r}; expected a number from 0 to 1")
    return float(value)


class lazy(contextlib.ContextDecorator):
    """A region whose ops are recorded and run together: results that nobody reads are not computed.

    Results, gradients, random numbers and errors are those of eager mode. Only an error that an op finds while it computes (an index
    that was changed after it had been checked) comes when the region is run, and again whenever something that depends on it
    is read. Regions nest; each thread has its own. docs/lazy.md says more.

    Args:
        activation_memory_budget: a share from 0 to 1 of the memory that what is recorded takes at its fullest moment. Below 1, what is
            cheap to make (activations, what norms give, concatenations) is not kept until it is read again (in a backward), but
            made again, with the same bits, until no more than that share is held or nothing is left to let go. Of nested
            regions the least one holds for all.

    Raises:
        ValueError: a budget that is no number from 0 to 1.

    Example:
        >>> import flambeau as fl
        >>> x = fl.ones(3)
        >>> with fl.lazy():
        ...     y = (x * 2 + 1).relu()
        ...     unused = x.exp()
        >>> y
        tensor([3., 3., 3.])
    """

    def __init__(self, *, activation_memory_budget: float = 1.0) -> None:
        self._budget = _budget("lazy: activation_memory_budget", activation_memory_budget)

    if TYPE_CHECKING:

        def __enter__(self) -> lazy: ...
        def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...

    else:
        __enter__ = _C.as_method(_C.graph.enter_lazy)
        __exit__ = _C.as_method(_C.graph.leave_lazy)


class _Here(threading.local):
    plain = False  # inside of a compiled function that is not recorded


_here = _Here()


def is_compiling() -> bool:
    """Whether this thread records, or is inside of a compiled function that is not worth it, or of a module that is exported."""
    return _C.graph.recording() or _here.plain or is_exporting()


def stats() -> dict[str, int]:
    """What was recorded since the start, by all threads.

    Returns:
        recorded: ops that were recorded and have run or were dropped; pruned: those that nobody wanted; joined: those that went
        through memory together with others, in `passes` passes; in_registers: steps of passes that handed on what they made in
        registers; settled: how often something recorded was run; replayed: calls of compiled functions that did not run Python;
        captured: programs that were made for them.

    Example:
        >>> import flambeau as fl
        >>> sorted(fl.compiler.stats())
        ['captured', 'in_registers', 'joined', 'passes', 'pruned', 'recorded', 'replayed', 'settled']
    """
    return {**_C.graph.stats(), "captured": _counts["captured"], "replayed": _counts["replayed"]}


_counts = {"captured": 0, "replayed": 0}


# ---- replay


@functools.cache
def _planner() -> types.ModuleType:
    from flambeau.graph._plan import _arena

    return _arena


def _place(program: _C.graph.Program) -> None:
    """Puts the program's own buffers into an arena."""
    plan = _planner()
    lives = program.lives()
    boxes = [plan.Box(first, last, plan.round_up(nbytes, 64)) for _, nbytes, first, last in lives]
    total, offsets = plan.place(boxes, 64)
    program.place([(life[0], offset) for life, offset in zip(lives, offsets, strict=True)], total)


# Note [Recording that is not worth it]
# To record an op costs a third of a microsecond more than to run it; what comes back is memory that joined and unwanted ops do not go
# through. Where ops are small nothing comes back. So a function that is compiled without a mode is recorded, and as long as that
# spares fewer bytes than an op's share it is called as it is, but for every 2^k-th call, which looks again, and calls with much larger
# arguments. Counts decide and no clock, so that a program does the same each time; the results are the same either way.
_BYTES_FOR_AN_OP = 4096


def _size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Elements of the tensors among arguments."""
    total = 0
    for value in args:
        if isinstance(value, Tensor):
            total += value.numel()
    for value in kwargs.values():
        if isinstance(value, Tensor):
            total += value.numel()
    return total


class _Weighed:
    """Whether calls of one function are recorded: Note [Recording that is not worth it]."""

    __slots__ = ("calls", "ops", "plain", "size", "spared")

    def __init__(self) -> None:
        self.plain = False
        self.calls = self.size = self.ops = self.spared = 0

    def skips(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call is not recorded."""
        if not self.plain:
            return False
        self.calls += 1
        return self.calls & (self.calls - 1) != 0 and _size(args, kwargs) <= 2 * self.size

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What came of a call that was recorded."""
        self.ops, self.spared = _C.graph.worth()
        plain = self.spared < self.ops * _BYTES_FOR_AN_OP
        if not plain:
            self.calls = 0
        self.plain, self.size = plain, _size(args, kwargs)


_UNSEEN = "it returns a tensor that it neither got nor made"  # or one that no op has seen
_KEEPS = "it keeps an argument or a view of it (in a list, an attribute)"


class _Compiled:
    """A function that is recorded, and in mode "replay" run again without Python.

    Args:
        always: record every call, whether it is worth it or not.
    """

    MOST = 64   # programs of one function that are kept
    TRIES = 3   # calls that may differ, or leave something behind, before it is believed: state is often made by the first
    APART = 8   # programs that no call can fit again

    def __init__(
        self, function: Callable[..., Any], replay: bool, fullgraph: bool, fold: bool, always: bool = False, budget: float = 1.0
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        own = {k: v for k, v in getattr(function, "__dict__", {}).items() if not hasattr(type(self), k)}
        self.__dict__.update(own)
        self.function = function
        self.replay = replay
        self.fullgraph = fullgraph
        self.fold = fold
        self.budget = budget
        self.always = always
        self.weighed = None if always or fullgraph or replay else _Weighed()
        self.entries: OrderedDict[Any, list[Entry]] = OrderedDict()
        self.refused: str | None = None
        self.failures = self.kept = self.gone = 0
        self.touches = False  # what it returns, since it returns what no op has seen

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        # As functions are copied and pickled: by name where it has one, so that it stays what it is. Programs belong to the original.
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for name in self._name().split("."):
            found = getattr(found, name, None)
        if found is self:
            return self._name()
        return _Compiled, (self.function, self.replay, self.fullgraph, self.fold, self.always, self.budget)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if switches.stance == "force_eager":
            return self.function(*args, **kwargs)
        if not self.replay or self.refused or _C.graph.recording():
            return self._recorded(args, kwargs)
        try:
            call, tensors = _C.graph.call_key(args, kwargs, described)
        except (Unfit, TypeError, RecursionError) as fault:
            self._refuse(str(fault))
            return self(*args, **kwargs)
        key: Any = call
        if (device := _C.new_device()) is not None and key is not None:  # as key_of() has it
            key = (key, str(device))
        if key is None or _C.saved_hooks() is not None:  # a TorchFunctionMode, or hooks of what is saved, have to see every op
            return self._recorded(args, kwargs)
        version = _C.graph.objects_version()
        for entry in self.entries.get(key, ()):
            if not entry.confirmed:
                continue
            if entry.version != version:
                break  # recorded again and compared
            entry.calls += 1
            if entry.calls & (entry.calls - 1) == 0:
                break  # likewise
            alone = entry.alone
            out = entry.run(tensors) if alone < 0 else entry.program.run(tensors)
            if out is None:
                entry.calls -= 1
                continue
            _counts["replayed"] += 1
            return entry.result(tensors, out) if alone < 0 else out[alone]
        return self._record(key, tensors, args, kwargs)

    def _recorded(self, args: Any, kwargs: Any) -> Any:
        weighed = self.weighed if not _C.graph.recording() else None
        if weighed and weighed.skips(args, kwargs):
            before, _here.plain = _here.plain, True
            try:
                return self.function(*args, **kwargs)
            finally:
                _here.plain = before
        whole = (_replay.checks_later(), _replay.noting()) if self.fullgraph else ()
        with lazy(activation_memory_budget=self.budget), contextlib.ExitStack() as stack:
            for region in whole:
                stack.enter_context(region)
            count = _replay.interruptions()
            result = self.function(*args, **kwargs)
            self._insist(count)
        if weighed:
            weighed.note(args, kwargs)
        return result

    def _insist(self, before: int) -> None:
        if not self.fullgraph or _replay.interruptions() - before == (inside := _replay.noted().inside):
            return
        why = _C.graph.interruption()  # the first
        if inside and (latest := _C.graph.latest_interruption()):
            why = latest[1:]
        if why:
            raise CompileError(f"{self._name()}: {why[0]} at {why[1] or 'an unknown line'}; fullgraph=True allows no such thing")

    def _name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def _refuse(self, why: str) -> None:
        if self.fullgraph:
            raise CompileError(f"{self._name()}: {why}")
        self.refused = why
        self.entries.clear()
        warn(f"compile: {self._name()} is recorded at every call instead of replayed: {why}")

    def _record(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """A call that Python runs, and whose recording is kept or compared."""
        _planner()  # before the call, since to import needs memory
        why, final, entry = "", False, None
        entries = self.entries.setdefault(key, [])
        with contextlib.suppress(KeyError):  # here and below: another thread may have taken it out meanwhile
            self.entries.move_to_end(key)
        version = _C.graph.objects_version()
        fitting = [e for e in entries if e.program.takes(tensors)]  # now: the call may change what they look at
        foreign = [e.program.foreign(tensors) for e in fitting]
        ready = [all(a.ready() for a in e.again) for e in fitting]  # not where an optimizer's state was loaded, say
        bases = [t._base for t in tensors]
        unshared, held, attributes = references_alone(), references([args, kwargs, bases]), attributes_of(tensors)
        owners = _C.graph.owners(tensors, [])
        for e in entries:
            e.program.rest()  # the call needs the memory
        with lazy(activation_memory_budget=self.budget), _replay.checks_later(), _replay.noting() as again:
            _C.graph.watch()
            values = [args, kwargs, bases, self.function(*args, **kwargs)]
            try:
                entry = self._capture(tensors, values[3], again, version, set(held))
                self._check_keepers(values, held, unshared)
                self._check_arguments(key, tensors, args, kwargs)
                owned = _C.graph.owners(tensors, tensors_in(values[3], [], set(held)))
                if any(now > then for now, then in zip(owned, owners, strict=True)):
                    raise ValueError(_KEEPS)
                if attributes_of(tensors) != attributes:
                    raise ValueError("it sets attributes of a tensor among its arguments")
            except MemoryError:  # for what is kept; the call itself is as good as done
                why = "there is no memory for its program"
            except (Unfit, ValueError) as fault:
                if str(fault) == _UNSEEN and not self.touches:
                    self.touches = True
                    return values[3]
                at = _C.graph.interruption()
                why = again.why or f"{fault}" + (f" ({at[1]})" if at and at[1] else "")
                final = at is not None or isinstance(fault, Unfit)
        result = values[3]
        if why or entry is None:
            self.kept += why == _KEEPS
            # another thread may hold the argument for a while
            if why != _KEEPS or threading.active_count() == 1 or self.kept > 4 * self.TRIES:
                self._fail(why, final)
            return result
        for old, before, as_it_was in zip(fitting, foreign, ready, strict=True):
            if old.program.foreign(tensors) != before:
                self._fail("memory that NumPy or another library shares changed while it ran", final=True)
                return result
            other = old.program.difference(entry.program)
            if other is None and old.given == entry.given and old.views == entry.views and repr(old.form) == repr(entry.form):
                entry.program.confirm(old.program)
                if not old.confirmed:
                    try:
                        _place(entry.program)
                    except MemoryError:
                        return result
                    entry.confirmed = True
                    with contextlib.suppress(ValueError):
                        entries[entries.index(old)] = entry
                    _counts["captured"] += 1
                    self.failures = self.kept = 0
                else:
                    old.version = version
                    old.program.confirm(entry.program)
                return result
            with contextlib.suppress(ValueError):
                entries.remove(old)
            if old.version == version:
                where = f"op {other[0]} ({other[1]}) at {other[2] or 'an unknown line'}" if other else "its result"
                self._fail(f"two calls with equal arguments differ in {where}", final=old.confirmed and as_it_was)
                if self.refused:
                    return result
        entries.append(entry)
        gone = [e for e in entries if e.program.is_gone()]
        entries[:] = [e for e in entries if e not in gone]
        self.gone += len(gone)
        if self.gone > self.APART:
            self._fail("it looks at gradients that are other ones in each call", final=True)
        while sum(map(len, [*self.entries.values()])) > self.MOST:
            with contextlib.suppress(KeyError):
                self.entries.popitem(last=False)
        return result

    def _fail(self, why: str, final: bool) -> None:
        """A recording that can not be kept."""
        self.failures += 1
        if final or self.failures >= self.TRIES:
            self._refuse(why)

    def _capture(self, tensors: list[Tensor], result: Any, again: list[_replay.Again], version: int, holders: set[int]) -> Entry:
        outs = tensors_in(result, [], holders)
        places: dict[int, int] = {id(t): i for i, t in reversed([*enumerate(tensors)])}
        outer = [t._base for t in tensors]  # kept, so that no other object gets their ids
        under = {id(b): i for i, b in reversed([*enumerate(outer)]) if b is not None}
        distinct = {id(y): y for y in outs if id(y) not in places}  # one that is returned twice is one object at each call
        known = {*places, *under, *distinct}
        made: list[Tensor] = []
        looks: list[tuple[Tensor, Tensor]] = []
        for y in distinct.values():
            base = y._base
            if base is None or not is_look(y, base) or (base.requires_grad and not (y.requires_grad and id(base) in known)):
                made.append(y)
                continue
            looks.append((y, base))
            if id(base) not in known:  # comes along, unseen
                known.add(id(base))
                made.append(base)
        # Views of what is made are told to the program, too, which counts who has its memory, and so are those with a history.
        made += [y for y, base in looks if y.requires_grad or (id(base) not in places and id(base) not in under)]
        for n, y in enumerate(made):
            places[id(y)] = -1 - n
        views: list[View] = []
        for y, base in looks:
            places[id(y)] = -1 - len(made) - len(views)
            of = places.get(id(base), under.get(id(base), 0))
            views.append((of, (y.shape, y.stride(), y.storage_offset()), y.dtype is not base.dtype))
        if self.touches:
            with no_grad():
                for y in made:
                    y.clone()  # tells of its memory; nobody reads the copy, so that none is made
        program = _C.graph.capture(tensors, made, self.fold, self.budget)
        return Entry(program, filled(result, repeat(Place())), [places[id(y)] for y in outs], views, again, version)

    def _check_keepers(self, values: list[Any], before: dict[int, int], unshared: int) -> None:
        """Refuses a call that keeps what it returns, or an argument, since a replay gives nothing to whom it keeps it for."""
        values.append([y._base for y in tensors_in(values[-1], [], set())])
        for key, n in references(values).items():
            if n > before.get(key, unshared):
                raise ValueError(_KEEPS if key in before else "what it returns lives on elsewhere, too (in a list, an attribute)")

    def _check_arguments(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> None:
        """Refuses a call that leaves its lists and dicts, or the modes of its modules, as other ones than it got."""
        then, now = key_of(args, kwargs)
        if then != key or any(a is not b for a, b in zip(tensors, now, strict=True)):
            raise ValueError("it changes what a list or dict among its arguments holds, or the mode of a module among them")


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: None = ...,
) -> F: ...


@overload
def compile(
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: Any = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: None = ...,
) -> Callable[[F], F]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "flambeau",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: None = None,
) -> Any:
    """A function or module whose calls are recorded and run together.

    Args:
        model: the function or module; None makes a decorator.
        mode: "replay" keeps what two equal calls recorded and runs it without Python from then on, as long as arguments have the
            same shapes, types and plain values; each time the number of calls is a power of two it is recorded and compared again. What
            Python would do beside (counters, prints, branches on other things than arguments) does not happen in a replayed call.
            A function that can not be replayed (it reads a value, what it makes or got lives on elsewhere, it changes a list or dict that
            it got, its result has a history that no backward has gone through, recordings keep differing) is recorded
            at every call, after a warning that says why.
            "predict" is "replay" for networks whose training is over: batch norms that use their running statistics become part of the
            convolutions before them, so that results differ from eager mode's by rounding (float32: about 1e-6 of the largest), and those
            of calls that are recorded again have its bits. "lazy" is recorded at every call, which is always right. Any other mode
            is "lazy" where that spares memory traffic, and calls the function as it is where its ops are too small for that.
        fullgraph: raise CompileError where a value is read in the middle, or a call can not be replayed. Indices that the function
            computes are checked when they have been computed, here and with mode="replay": one out of range is an error of the call,
            which the function itself can not catch.
        disable: return the model as it is.
        options: of these "activation_memory_budget" is looked at: that of `lazy`, for each call. It is for functions that are whole
            training steps; a forward alone keeps what its backward will read.
        dynamic, backend: taken for PyTorch's sake; shapes may always change, and there is one backend. A warning says that a function
            which is given as one is not called.
        name, recompile_limit, isolate_recompiles: taken for PyTorch's sake, too; each compiled function keeps what it recorded for itself.

    Raises:
        ValueError: a mode that is not known; a budget that is no number from 0 to 1; `shapes_spec` is given, which nothing checks here.

    Example:
        >>> import flambeau as fl
        >>> @fl.compile
        ... def f(x):
        ...     return (x * 2 + 1).relu()
        >>> f(fl.tensor([-1.0, 1.0]))
        tensor([0., 3.])
    """
    if mode not in (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lazy", "replay", "predict"):
        raise RefusedValueError(f"compile: Unrecognized mode={mode}; expected None, 'default', 'replay', 'predict' or another of PyTorch's")
    if shapes_spec is not None:
        raise ValueError(f"compile: shapes_spec = {shapes_spec!r}; expected None: shapes may always change, and are not checked")
    if callable(backend):
        given = getattr(backend, "__name__", type(backend).__name__)
        warn(f"compile: backend = {given} is not called, since there are no graphs to give it; calls are recorded as ever")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, mode=mode, options=options, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: model is a {type(model).__name__}; expected a function or a module")
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"compile: options is a {type(options).__name__}; expected a dict of them by name, or None")
    if disable:
        return model
    replay = mode in ("replay", "predict")
    budget = _budget("compile: options['activation_memory_budget']", (options or {}).get("activation_memory_budget", 1.0))
    how: dict[str, Any] = {"replay": replay, "fullgraph": fullgraph, "fold": mode == "predict", "budget": budget}
    how["always"] = mode == "lazy" or budget < 1
    return _compiled(model, how)


def _compiled(model: Callable[..., Any], how: dict[str, Any]) -> Any:
    return OptimizedModule(model, **how) if isinstance(model, nn.Module) else _Compiled(model, **how)


class _Forward:
    """What is compiled of a module: the call of one that is an argument, so that it is copied with its module."""

    def __init__(self, name: str) -> None:
        self.__qualname__ = name

    def __call__(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)


class _Body(_Forward):
    """The same of a module that compiled itself: its call with hooks, past what is compiled."""

    def __call__(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return module._fl_call_uncompiled(args, kwargs)


def compile_in_place(module: nn.Module, disable: bool = False, **options: Any) -> None:
    """What `Module.compile` does: from now on calls of the module itself are compiled."""
    if disable:
        module.__dict__.pop("_compiled_call_impl", None)
        return
    module.__dict__["_compiled_call_impl"] = compile(_Body(type(module).__qualname__), **options)
    module._forward_hooks.hooked = True


class _Alike:
    """Compiles others as a module was: `OptimizedModule.dynamo_ctx`, by which programs take a module's compilation over to its parts."""

    def __init__(self, how: dict[str, Any]) -> None:
        self.how = how

    def __call__(self, model: Callable[..., Any]) -> Any:
        return _compiled(model, self.how)


class OptimizedModule(nn.Module):
    """A module whose forward is compiled. Parameters, attributes and modes are those of the module, which it keeps as `_orig_mod`."""

    _orig_mod: nn.Module

    def __init__(self, module: nn.Module, **how: Any) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training

        object.__setattr__(self, "_compiled", _Compiled(_Forward(type(module).__qualname__), **how))
        object.__setattr__(self, "dynamo_ctx", _Alike(how))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(self._orig_mod, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._modules["_orig_mod"], name)


def explain(function: Callable[..., Any]) -> str:
    """What is known of a compiled function: programs that are kept, what they hold, and why it is not replayed.

    Example:
        >>> import flambeau as fl
        >>> f = fl.compile(lambda x: x.exp(), mode="replay")
        >>> with fl.no_grad():
        ...     for _ in range(4):
        ...         y = f(fl.ones(3))
        >>> print(fl.compiler.explain(f))
        <lambda>: replayed; 1 program
          1 op, 2 calls
    """
    compiled = function._compiled if isinstance(function, OptimizedModule) else function
    if not isinstance(compiled, _Compiled):
        raise TypeError(f"explain: {function!r} is not compiled; expected what flambeau.compile() returned")
    if not compiled.replay or compiled.refused:
        weighed = compiled.weighed
        how = "recorded at every call"
        if weighed and weighed.plain:
            how = f"called as it is (recording {weighed.ops} op{'s' * (weighed.ops != 1)} spares {weighed.spared} bytes of memory traffic)"
        return f"{compiled._name()}: {how}" + (f", because {compiled.refused}" if compiled.refused else "")
    entries = [e for known in compiled.entries.values() for e in known]
    lines = [f"{compiled._name()}: replayed; {len(entries)} program{'s' * (len(entries) != 1)}"]
    for e in entries:
        n, once = len(e.program), e.program.n_kept()
        ops = f"{n} op{'s' * (n != 1)}" + (f" ({once} computed once)" if once else "")
        lines.append(f"  {ops}, " + (f"{e.calls} call{'s' * (e.calls != 1)}" if e.confirmed else "recorded once"))
    return "\n".join(lines)
