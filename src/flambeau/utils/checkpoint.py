"""Checkpointing: what a part of a model keeps for backward is dropped and computed again there.

    forward:   part(inputs) -> outputs, once; only inputs and outputs stay
    backward:  part(inputs) again, from the same random state, and its gradients

There are two ways. With `use_reentrant=False` the graph is that of the plain call, but what it saves is not kept (`_Frame`): the first
node that needs some of it has the part run again, until as much was saved as in the first run. Otherwise the whole part is one node
(`CheckpointFunction`), whose backward runs it again and differentiates that.

The part may use tensors that are not among its arguments, as a module does with its parameters. For the one node the first run's graph
is searched for the leaves at its ends, and these get their gradients like the arguments do. So `backward`, `autograd.grad` and hooks
see what they would see without checkpointing.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._errors import RefusedTypeError
from flambeau._redraw import Place
from flambeau._running import run_backward
from flambeau._warn import warn
from flambeau.amp.autocast_mode import autocast
from flambeau.autograd import Function, enable_grad, is_grad_enabled
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.overrides import TorchFunctionMode, resolve_name

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "SelectiveCheckpointContext", "checkpoint", "checkpoint_sequential",
    "check_backward_validity", "create_selective_checkpoint_contexts", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
    "set_device_states",
]  # fmt: skip


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a nested structure, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _tensors(entry)


class _Hole:
    """The place of a tensor in a structure that is kept without it."""


def _with(value: Any, tensors: Iterator[Any]) -> Any:
    """The structure with its tensors replaced, in order."""
    if isinstance(value, (Tensor, _Hole)):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        entries = [_with(entry, tensors) for entry in value]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    if isinstance(value, dict):
        return {key: _with(entry, tensors) for key, entry in value.items()}
    return value


def _leaves(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The leaves that `outputs` depend on, but for `inputs`."""
    known = {id(x) for x in inputs}
    found: list[Tensor] = []
    seen: set[Any] = set()
    waiting = [x.grad_fn for x in outputs]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of the nodes that end in a leaf
        if leaf is not None and id(leaf) not in known:
            known.add(id(leaf))
            found.append(leaf)
        waiting += [below for below, _ in node.next_functions]
    found += [x for x in outputs if x.is_leaf and x.requires_grad and id(x) not in known]
    return found


class _Call:
    """A function that is called a second time as the first time."""

    def __init__(self, function: Callable[..., Any], rng: Any, contexts: tuple[Any, Any]) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", None) or type(function).__name__
        self.rng = rng
        self.first, self.second = contexts  # of the two runs
        self.autocast = None
        if _C.is_autocast_enabled():
            self.autocast = (_C.get_autocast_dtype(), _C.is_autocast_cache_enabled())

    def call(self, args: Any, kwargs: Any) -> Any:
        with enable_grad(), self.first:
            return self.function(*args, **kwargs)

    def again(self, args: Any, kwargs: Any) -> Any:
        with self.rng.again() if self.rng is not None else contextlib.nullcontext(), enable_grad(), self.second:
            if self.autocast is None or _C.is_autocast_enabled():
                return self.function(*args, **kwargs)
            dtype, cache = self.autocast  # in backward
            with autocast("cpu", dtype, cache_enabled=cache):
                return self.function(*args, **kwargs)


class _Part(_Call):
    """The function and its arguments, without their tensors' history, where the call is one node."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, rng: Any) -> None:
        super().__init__(function, rng, noop_context_fn())
        self.arguments = (args, kwargs)
        self.needed: list[bool] = []  # which tensors among the arguments want gradients
        self.leaves: list[Tensor] = []  # what else does
        self.recorded: list[int] = []  # which outputs have gradients
        self.made: list[str] | None = None  # what the first run returned, where the second is compared with it


def noop_context_fn() -> tuple[Any, Any]:
    """The contexts of the two runs where none are given."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns where no tensor among `inputs` requires grad. For checkpoints of a program's own."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """`inputs` with tensors that have no history, and require grad as before. For checkpoints of a program's own."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: inputs are {type(inputs).__name__}; expected a tuple of tensors")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


class CheckpointError(RuntimeError):
    """The second run of a part did not give what the first one did."""


class CheckpointFunction(Function):
    """The node of a part in the graph."""

    @staticmethod
    def forward(ctx: Any, part: _Part, outputs: list[Tensor], *tensors: Tensor) -> Any:
        ctx.part = part
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        part: _Part = ctx.part
        inputs = ctx.saved_tensors[: len(part.needed)]
        again = is_grad_enabled()  # the gradients are to be differentiated themselves
        fresh = [_own(x, again) if needed else x for x, needed in zip(inputs, part.needed)]
        outputs = list(_tensors(part.again(*_with(part.arguments, iter(fresh)))))
        if part.made is not None and (made := [_shown(_kind(y)) for y in outputs]) != part.made:
            raise CheckpointError(f"checkpoint: the second run of {part.name} returned {made}; expected {part.made}, as the first one")
        outputs = [outputs[i] for i in part.recorded]
        pairs = [(y, dy) for y, dy in zip(outputs, grads) if dy is not None]
        wanted = [x for x, needed in zip(fresh, part.needed) if needed] + part.leaves
        found: Any = ()
        if pairs and wanted:
            # Retained: a part may end in tensors whose own history is still to be walked. Hooks of leaves see the sums, to which
            # this adds a part.
            with _ending_at(fresh):
                found = run_backward(
                    [y for y, _ in pairs],
                    [dy for _, dy in pairs],
                    retain=True,
                    create=again,
                    inputs=wanted,
                    accumulate=False,
                    unused=True,
                    leaf_hooks=False,
                )
        by_id = {id(x): dx for x, dx in zip(wanted, found)}
        return (None, None, *(by_id.get(id(x)) for x in (*fresh, *part.leaves)))


def _own(x: Tensor, attached: bool) -> Tensor:
    """A tensor of the same values whose gradient can be asked for apart from that of `x`."""
    if not (attached and x.requires_grad):
        return x.detach().requires_grad_()
    with enable_grad():
        return x.view(x.shape)


@contextlib.contextmanager
def _ending_at(inputs: Iterable[Tensor]) -> Iterator[None]:
    """Gradients end at `inputs`: a leaf that a part and what is before it both use gets from the part what the part gives it.

    The graph itself stays, since the gradients' own gradients go on through it.
    """
    nodes = [node for x in inputs if (node := x.grad_fn) is not None]
    closed = [node.register_hook(lambda *_: (None,)) for node in nodes]
    try:
        yield
    finally:
        for hook in closed:
            hook.remove()


class _EnoughError(Exception):
    """Ends a second run once it has saved what the first one did."""


class CheckpointInputs(Function):
    """Saves tensors where the hooks around the part, and the checks of written ones, know of them."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return anchor.detach()


class _Slot:
    """The place of a tensor that the first run saved: empty until a second run fills it."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self) -> None:
        self.tensor: Tensor | None = None


class _Names(TorchFunctionMode):
    """Notes the functions that are called inside."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        self.names.append(resolve_name(func) or str(getattr(func, "__name__", func)))
        return func(*args, **(kwargs or {}))


class _Frame(_Call):
    """A call whose graph keeps nothing that it saves: a slot stands for each saved tensor, and `_unpack` fills all of them at once.

    A slot is emptied when it is read, so a second backward runs the function again.
    """

    def __init__(self, function: Callable[..., Any], rng: Any, contexts: tuple[Any, Any], checks: bool, ends_early: bool) -> None:
        super().__init__(function, rng, contexts)
        self.checks, self.ends_early = checks, ends_early
        self.slots: list[weakref.ref[_Slot]] = []
        self.kinds: list[tuple[Any, ...]] = []
        self.complete = False  # the first run is over

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        every = [*args, *kwargs.values()]
        # What stands for a value inside of a transformation is no tensor that could be saved.
        self.saved = [i for i, x in enumerate(every) if isinstance(x, Tensor) and not hasattr(type(x), "_parts")]
        anchor = _C.ops.empty(0).requires_grad_()
        self.keeper = CheckpointInputs.apply(anchor, *(every[i] for i in self.saved))
        self.others = [None if i in self.saved else x for i, x in enumerate(every)]
        self.keys = tuple(kwargs)
        with saved_tensors_hooks(self._pack, self._unpack):
            result = self.call(args, kwargs)
        self.complete = True
        return result

    def _pack(self, x: Tensor) -> _Slot:
        slot = _Slot()
        self.slots.append(weakref.ref(slot))
        self.kinds.append(_kind(x))
        return slot

    def _unpack(self, slot: _Slot) -> Tensor:
        if slot.tensor is None:
            self._fill()
        x, slot.tensor = slot.tensor, None
        assert x is not None  # else _fill had raised
        return x

    def _fill(self) -> None:
        every = list(self.others)
        for i, x in zip(self.saved, self.keeper.grad_fn.saved_tensors, strict=True):
            every[i] = x
        first = len(every) - len(self.keys)
        found: list[tuple[Any, ...]] = []

        def pack(x: Tensor) -> Tensor:
            i, x = len(found), x.detach()
            if i < len(self.slots):
                if (slot := self.slots[i]()) is not None:
                    slot.tensor = x
            elif self.complete:
                raise CheckpointError(f"checkpoint: the second run of {self.name} saves more tensors than the first one ({i}); {_ADVICE}")
            found.append(_kind(x))
            if self.ends_early and len(found) == len(self.slots):
                raise _EnoughError
            return x

        with contextlib.suppress(_EnoughError), saved_tensors_hooks(pack, lambda x: x):
            self.again(every[:first], dict(zip(self.keys, every[first:], strict=True)))
        if len(found) < len(self.slots):
            raise CheckpointError(
                f"checkpoint: A different number of tensors was saved during the original forward and recomputation of {self.name}: "
                f"{len(self.slots)} and {len(found)}; {_ADVICE}"
            )
        other = [i for i, kind in enumerate(self.kinds) if self.checks and found[i] != kind]
        if other:
            lines = [f"\n  tensor {i}: {_shown(found[i])}; expected {_shown(self.kinds[i])}" for i in other]
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass of "
                f"{self.name}:{''.join(lines)}"
            )


_ADVICE = "expected the same in both (debug=True lists the functions that they call)"


class _TalkingFrame(_Frame):
    """The same, with what both runs called in its errors."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.runs: list[list[str]] = []
        self.function = functools.partial(self._noted, self.function)
        return super().run(args, kwargs)

    def _noted(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode = _Names()
        self.runs.append(mode.names)
        with mode:
            return function(*args, **kwargs)

    def _fill(self) -> None:
        try:
            super()._fill()
        except CheckpointError as error:
            lists = f"first run:  {', '.join(self.runs[0])}\nsecond run: {', '.join(self.runs[-1])}"
            raise CheckpointError(f"{error}\n{lists}") from error


def _kind(x: Tensor) -> tuple[Any, ...]:
    return tuple(x.shape), x.dtype, x.device


def _shown(kind: tuple[Any, ...]) -> str:
    shape, dtype, device = kind
    return f"{dtype} {list(shape)} on {device}"


_early_stop: bool | None = None  # set_checkpoint_early_stop
_debug: bool | None = None  # set_checkpoint_debug_enabled


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls `function(*args, **kwargs)` and keeps nothing of it for backward but its arguments.

    Args:
        use_reentrant: with False the graph is that of the plain call, and the second run ends as soon as it has saved what the first one
            did. Else the whole call is one node. Either way the gradients are those of the plain call, also with `autograd.grad` and
            where no argument requires one.
        preserve_rng_state: whether the second run draws what the first one drew.
        context_fn: makes two context managers, one for each run.
        determinism_check: "default" compares what the second run saves with what the first one did in shape, type and device (of one
            node: their results), "none" does not.
        debug: errors list the functions that were called in both runs.
        early_stop: False has the second run go on to its end.

    Raises:
        CheckpointError: in backward, where the second run gives something else.
        ValueError: `context_fn` or `debug` without `use_reentrant=False`, or both of them; keyword arguments with `use_reentrant=True`;
            another `determinism_check`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.utils.checkpoint import checkpoint
        >>> net = fl.nn.Sequential(fl.nn.Linear(4, 64), fl.nn.ReLU(), fl.nn.Linear(64, 1))
        >>> checkpoint(net, fl.ones(2, 4)).sum().backward()
        >>> net[0].weight.grad.shape
        flambeau.Size([64, 4])
    """
    if use_reentrant and kwargs:
        given = ", ".join(kwargs)
        raise ValueError(f"checkpoint: use_reentrant = True with {given}; pass use_reentrant=False (Unexpected keyword arguments)")
    if use_reentrant in (None, True) and (context_fn is not noop_context_fn or debug):
        given = "debug = True" if context_fn is noop_context_fn else "a context_fn"
        raise ValueError(
            "checkpoint: Passing `context_fn` or `debug` is only supported when use_reentrant=False, "
            f"got use_reentrant = {use_reentrant} with {given}"
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check should be one of 'default' and 'none', but is {determinism_check!r}")
    talks = debug if _debug is None else _debug
    if talks and context_fn is not noop_context_fn:
        raise ValueError("checkpoint: debug = True with a context_fn; expected one of them")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    rng = Place() if preserve_rng_state else None
    if use_reentrant is False:
        contexts = context_fn()
        kind = _TalkingFrame if talks else _Frame
        ends_early = early_stop if _early_stop is None else _early_stop
        return kind(function, rng, contexts, determinism_check != "none", ends_early).run(args, kwargs)
    part = _Part(function, args, kwargs, rng)
    inputs = list(_tensors((args, kwargs)))
    part.needed = [x.requires_grad for x in inputs]
    fresh = [_own(x, False) if needed else x for x, needed in zip(inputs, part.needed)]
    result = part.call(*_with(part.arguments, iter(fresh)))
    outputs = list(_tensors(result))
    part.recorded = [i for i, y in enumerate(outputs) if y.requires_grad]
    if not part.recorded:
        return result
    part.made = [_shown(_kind(y)) for y in outputs] if determinism_check != "none" else None
    part.leaves = _leaves([outputs[i] for i in part.recorded], fresh)
    plain = [outputs[i].detach() for i in part.recorded]
    # The structure is kept without the tensors: they are saved with their versions.
    part.arguments = _with(part.arguments, repeat(_Hole()))
    tracked = CheckpointFunction.apply(part, plain, *inputs, *part.leaves)
    for i, y in zip(part.recorded, tracked):
        outputs[i] = y
    return _with(result, iter(outputs))


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs a Sequential (or a list of functions) in `segments` parts, all but the last checkpointed.

    Args:
        use_reentrant, preserve_rng_state: as of `checkpoint`.

    Raises:
        ValueError: fewer than one segment, or more than there are functions; other keyword arguments.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise RefusedTypeError(f"checkpoint_sequential: unexpected keyword argument '{next(iter(kwargs))}'")
    every = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= len(every):
        raise ValueError(
            f"checkpoint_sequential: segments = {segments} for {len(every)} functions; expected 1 to "
            f"{len(every)}"
        )

    def run(first: int, last: int) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for function in every[first:last]:
                x = function(x)
            return x

        return forward

    size = len(every) // segments
    start = 0
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(size * (segments - 1), len(every))(input)


class CheckpointPolicy(enum.Enum):
    """What a policy says of an op's result: whether it is kept for the second run, or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the op: which of the two runs it is."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:
    """Two contexts for `checkpoint(..., context_fn=)`, of which the policy says what is kept.

    The gradients are the same whatever it says, and here everything is computed again: a policy is a matter of memory and time.

    Args:
        policy_fn_or_list: a function of a context, an op and its arguments that returns a CheckpointPolicy, or a list of ops to keep.

    Raises:
        TypeError: neither of these.
    """
    if not callable(policy_fn_or_list) and not isinstance(policy_fn_or_list, list):
        kind = type(policy_fn_or_list).__name__
        raise TypeError(f"create_selective_checkpoint_contexts: policy_fn_or_list is a {kind}; expected a function or a list of ops")
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A region whose calls of `checkpoint(use_reentrant=False)` may end their second runs early, or may not.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.utils.checkpoint import checkpoint, set_checkpoint_early_stop
        >>> def part(x):
        ...     y = x.exp()
        ...     print("done")
        ...     return y
        >>> x = fl.ones(2, requires_grad=True)
        >>> with set_checkpoint_early_stop(False):
        ...     y = checkpoint(part, x, use_reentrant=False)
        done
        >>> y.sum().backward()
        done
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """A region whose calls of `checkpoint(use_reentrant=False)` have this `debug`; with None what they are given."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices of the arguments other than the CPU, and the states of their generators: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Sets those states again: there are none.

    Raises:
        ValueError: states of devices that are not here.
    """
    if list(devices) or list(states):
        raise ValueError(f"set_device_states: devices {list(devices)!r}; expected none, there is the CPU alone")
