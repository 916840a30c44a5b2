"""Checkpointing: what a part of a model keeps for backward is dropped and computed again there.

    forward:   part(inputs) -> outputs, once; only inputs and outputs stay
    backward:  part(inputs) again, from the same random state, and its gradients

The part may use tensors that are not among its arguments, as a module does with its parameters: the
first run's graph is searched for the leaves at its ends, and these get their gradients like the
arguments do. So `backward`, `autograd.grad` and hooks see what they would see without checkpointing.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._random import get_rng_state, set_rng_state
from flambeau.amp.autocast_mode import autocast
from flambeau.autograd import Function, enable_grad, grad, is_grad_enabled

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "SelectiveCheckpointContext", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "get_device_states", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
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


def _with(value: Any, tensors: Iterator[Tensor]) -> Any:
    """The structure with its tensors replaced, in order."""
    if isinstance(value, Tensor):
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


class _Part:
    """One call: the function and its arguments, without their tensors' history."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, rng: Any, contexts: tuple[Any, Any]) -> None:
        self.function = function
        self.arguments = (args, kwargs)
        self.rng = rng
        self.contexts = contexts  # of the first run, and of the second
        self.autocast = None
        if _C.is_autocast_enabled():
            self.autocast = (_C.get_autocast_dtype(), _C.is_autocast_cache_enabled())
        self.needed: list[bool] = []  # which tensors among the arguments want gradients
        self.leaves: list[Tensor] = []  # what else does
        self.recorded: list[int] = []  # which outputs have gradients
        self.made: list[str] | None = None  # what the first run returned, where the second is compared with it

    def name(self) -> str:
        return getattr(self.function, "__qualname__", None) or type(self.function).__name__

    def run(self, inputs: Sequence[Tensor], again: bool = False) -> Any:
        args, kwargs = _with(self.arguments, iter(inputs))
        with enable_grad(), self.contexts[again]:
            if self.autocast is None or _C.is_autocast_enabled():
                return self.function(*args, **kwargs)
            dtype, cache = self.autocast  # in backward
            with autocast("cpu", dtype, cache_enabled=cache):
                return self.function(*args, **kwargs)


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
        now = get_rng_state()
        try:
            if part.rng is not None:
                set_rng_state(part.rng)
            outputs = list(_tensors(part.run(fresh, again=True)))
        finally:
            if part.rng is not None:
                set_rng_state(now)
        if part.made is not None and (made := list(map(_kind, outputs))) != part.made:
            raise CheckpointError(f"checkpoint: the second run of {part.name()} returned {made}; expected {part.made}, as the first one")
        outputs = [outputs[i] for i in part.recorded]
        pairs = [(y, dy) for y, dy in zip(outputs, grads) if dy is not None]
        wanted = [x for x, needed in zip(fresh, part.needed) if needed] + part.leaves
        found: Any = ()
        if pairs and wanted:
            # Retained: a part may end in tensors whose own history is still to be walked.
            found = grad(
                [y for y, _ in pairs],
                wanted,
                [dy for _, dy in pairs],
                retain_graph=True,
                create_graph=again,
                allow_unused=True,
            )
        by_id = {id(x): dx for x, dx in zip(wanted, found)}
        return (None, None, *(by_id.get(id(x)) for x in (*fresh, *part.leaves)))


def _kind(y: Tensor) -> str:
    return f"{y.dtype} {list(y.shape)} on {y.device}"


def _own(x: Tensor, attached: bool) -> Tensor:
    """A tensor of the same values whose gradient can be asked for apart from that of `x`."""
    if not (attached and x.requires_grad):
        return x.detach().requires_grad_()
    with enable_grad():
        return x.view(x.shape)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Calls `function(*args, **kwargs)` and keeps nothing of it for backward but its arguments.

    Args:
        use_reentrant: accepted; either way the gradients are those of the plain call, also with
            `autograd.grad` and where no argument requires one.
        preserve_rng_state: whether the second run draws what the first one drew.
        context_fn: makes two context managers, one for each run.
        determinism_check: "default" compares the second run's results with the first one's in shape, type and device, "none" does not.
        debug, early_stop: accepted.

    Raises:
        CheckpointError: in backward, where the second run gives something else.
        ValueError: `use_reentrant=True` with keyword arguments or a `context_fn`, which PyTorch's older variant does not take, or another
            `determinism_check`.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.utils.checkpoint import checkpoint
        >>> net = fl.nn.Sequential(fl.nn.Linear(4, 64), fl.nn.ReLU(), fl.nn.Linear(64, 1))
        >>> checkpoint(net, fl.ones(2, 4)).sum().backward()
        >>> net[0].weight.grad.shape
        flambeau.Size([64, 4])
    """
    if use_reentrant and (kwargs or context_fn is not None):
        raise ValueError(f"checkpoint: use_reentrant = True with {', '.join(kwargs) or 'context_fn'}; pass use_reentrant=False")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check = {determinism_check!r}; expected 'default' or 'none'")
    contexts = (contextlib.nullcontext(), contextlib.nullcontext()) if context_fn is None else context_fn()
    if not is_grad_enabled():
        return function(*args, **kwargs)
    part = _Part(function, args, kwargs, get_rng_state() if preserve_rng_state else None, contexts)
    inputs = list(_tensors((args, kwargs)))
    part.needed = [x.requires_grad for x in inputs]
    fresh = [_own(x, False) if needed else x for x, needed in zip(inputs, part.needed)]
    result = part.run(fresh)
    outputs = list(_tensors(result))
    part.recorded = [i for i, y in enumerate(outputs) if y.requires_grad]
    if not part.recorded:
        return result
    part.made = list(map(_kind, outputs)) if determinism_check != "none" else None
    part.leaves = _leaves([outputs[i] for i in part.recorded], fresh)
    plain = [outputs[i].detach() for i in part.recorded]
    # The structure is kept without the tensors: they are saved with their versions.
    part.arguments = _with(part.arguments, iter([x.detach() for x in inputs]))
    tracked = CheckpointFunction.apply(part, plain, *inputs, *part.leaves)
    for i, y in zip(part.recorded, tracked):
        outputs[i] = y
    return _with(result, iter(outputs))


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Runs a Sequential (or a list of functions) in `segments` parts, all but the last checkpointed.

    Raises:
        ValueError: fewer than one segment, or more than there are functions.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise TypeError(f"checkpoint_sequential: unexpected keyword argument '{next(iter(kwargs))}'")
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
        input = checkpoint(run(start, start + size), input, preserve_rng_state=preserve)
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
    """A region that says whether second runs may end early; as the argument of `checkpoint`, it changes nothing."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """The same of `debug`."""
    yield


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
