"""What the graph keeps for backward, in other hands: hooks that pack it when it is saved and unpack it when it is used.

Beside them hooks of several tensors, which are called once per backward, and edges, which stand for tensors there.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._errors import AssertedValueError
from flambeau._handles import GradientHandle
from flambeau._running import Run, innermost, will_ask
from flambeau.autograd._edges import GradientEdge, get_gradient_edge
from flambeau.autograd.modes import no_grad

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

Node = _C.Node  # the class of `x.grad_fn`


def _handled(register: Callable[[Node, Any], Any]) -> Callable[[Node, Any], GradientHandle]:
    @functools.wraps(register)
    def wrapper(self: Node, hook: Callable[..., Any], /) -> GradientHandle:
        return GradientHandle(register(self, hook))

    return wrapper


for _name in ("register_hook", "register_prehook"):
    setattr(Node, _name, _handled(getattr(Node, _name)))


class saved_tensors_hooks:
    """Inside, `pack_hook(tensor)` is called for every tensor that is saved for backward, and what it returns is kept instead.

    `unpack_hook` is given that when backward needs the tensor, and returns one of the same shape, type and device. Both see
    plain tensors without history and run without recording. Blocks nest; the innermost one counts. It holds for the calling
    thread. What a hook keeps is not watched for in-place writes.

    Raises:
        RuntimeError: inside of `disable_saved_tensors_hooks`.
        AutogradError: `pack_hook` wrote to the tensor; `unpack_hook` returned another shape, type or device.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([1.0, 2.0], requires_grad=True)
        >>> with fl.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), fl.from_numpy):
        ...     y = x.exp()
        >>> y.sum().backward()
        >>> x.grad
        tensor([2.7183, 7.3891])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    __enter__ = _C.as_method(_C.enter_saved_hooks)
    __exit__ = _C.as_method(_C.leave_saved_hooks)


class save_on_cpu(saved_tensors_hooks):
    """What is saved for backward lies in the host's memory and returns to its device when it is used.

    On the CPU it stays where it is.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(x: Tensor) -> tuple[Any, Tensor]:
            return x.device, x if x.is_meta else x.cpu()

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, x = packed
            return x.to(device)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Entering `saved_tensors_hooks` inside raises RuntimeError with this message, as does entering this inside of hooks."""
    if _C.saved_hooks() is not None:
        raise RuntimeError(error_message)
    with _C.held(_C.refuse_saved_hooks, error_message):
        yield


class _Kept:
    """A copy of a saved tensor; None after the region has ended."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor


class _OutsideError(_C.AutogradError, AssertionError):
    """A backward outside of the region that made its graph."""


class _AllowMutation(saved_tensors_hooks):
    """What `allow_mutation_on_saved_tensors` returns: the copies that were made in it."""

    entered = False  # by any thread

    def __init__(self) -> None:
        self._kept: weakref.WeakSet[_Kept] = weakref.WeakSet()
        super().__init__(self._pack, self._unpack)

    def _pack(self, x: Tensor) -> _Kept:
        kept = _Kept(x.clone())
        self._kept.add(kept)
        return kept

    @staticmethod
    def _unpack(kept: _Kept) -> Tensor:
        if kept.tensor is None:
            raise _OutsideError("backward: outside of the allow_mutation_on_saved_tensors in which the graph was made; call it inside")
        return kept.tensor

    def clear(self) -> None:
        """Drops the copies, without which no backward can be run."""
        for kept in self._kept:
            kept.tensor = None


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutation]:
    """Inside, tensors that are saved for backward may be written: backward uses them as they were. It has to be called inside, too.

    Each is copied when it is saved, whether it is written later or not.

    Raises:
        RuntimeError: inside of another one.
        AutogradError: by a backward after it, over a graph that was made inside.

    Example:
        >>> import flambeau as fl
        >>> with fl.autograd.graph.allow_mutation_on_saved_tensors():
        ...     x = fl.ones(2, requires_grad=True)
        ...     y = x.clone()
        ...     loss = (y ** 2).sum()
        ...     y = y.sin_()
        ...     loss.backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if _AllowMutation.entered:
        raise RuntimeError("allow_mutation_on_saved_tensors: entered inside of another one; expected one around all")
    region = _AllowMutation()
    with region:
        _AllowMutation.entered = True
        try:
            yield region
        finally:
            _AllowMutation.entered = False
            region.clear()


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tells autograd that tensors were written by what it does not see, such as code that got their `data_ptr()`.

    A graph that saved one of them before then refuses to be run. Tensors that were made in `inference_mode` have no version.

    Raises:
        RuntimeError: neither a tensor nor an iterable of tensors.

    Example:
        >>> import flambeau as fl
        >>> x = fl.ones(2)
        >>> fl.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    tensors: list[Any] = [tensor] if isinstance(tensor, Tensor) or not isinstance(tensor, Iterable) else list(tensor)
    if not all(isinstance(x, Tensor) for x in tensors):
        raise RuntimeError(f"increment_version: got {type(tensor).__name__}; expected a tensor or an iterable of tensors")
    with no_grad():
        for x in tensors:
            if not x.is_inference():
                own = x.detach()
                (own.unsqueeze(0) if own.ndim == 0 else own)[:0].zero_()  # writes no element


def region_activation_memory_budget(budget: float) -> contextlib.AbstractContextManager[None]:
    """What a compiler may keep of the forward pass, between 0 and 1. Nothing is compiled, so that all is kept: see `utils.checkpoint`.

    Raises:
        TypeError: not a number.
        ValueError: not between 0 and 1.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"region_activation_memory_budget: budget is a {type(budget).__name__}; expected a float")
    if not 0 <= budget <= 1:
        raise ValueError(f"region_activation_memory_budget: budget = {budget}; expected 0 <= budget <= 1")
    return contextlib.nullcontext()


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Changes nothing: there are no streams on a CPU."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Changes nothing: there are no streams on a CPU."""


class _Seen:
    """What a hook of several tensors has seen of one backward."""

    def __init__(self, n: int, waiting: int) -> None:
        self.grads: list[Tensor | None] = [None] * n
        self.waiting = waiting


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all") -> GradientHandle:
    """Calls `fn` once per backward with the gradients of several tensors: of all that this backward computes, or of the first one.

    Args:
        fn: with mode "all" it is given a list as long as `tensors`, with None for those that this backward does not reach, as soon as the
            last of the others is there; with "any" one gradient, the first that comes. What it returns is not looked at.

    Returns:
        What removes the hook by `remove()`, or at the end of a `with`.

    Raises:
        ValueError: another mode, or a tensor that does not require grad.

    Example:
        >>> import flambeau as fl
        >>> x, y = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
        >>> handle = fl.autograd.graph.register_multi_grad_hook((x, y), lambda grads: print(grads))
        >>> (2 * x).sum().backward()
        [tensor([2., 2.]), None]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode = {mode!r}; expected 'all' or 'any'")
    will_ask()
    if mode == "any":
        return _on_first(tensors, fn)
    for i, x in enumerate(tensors):
        if not x.requires_grad:
            raise AssertedValueError(f"register_multi_grad_hook: tensors[{i}] (shape {list(x.shape)}) does not require grad")
    edges = [(_C.gradient_node(x), x.output_nr) for x in tensors]
    key = object()

    def hook(i: int, grad: Tensor) -> None:
        run: Run = innermost()
        seen = run.notes.get(key)
        if seen is None:
            reached = run.edges()
            seen = run.notes[key] = _Seen(len(edges), sum(edge in reached for edge in edges))
        seen.grads[i] = grad
        seen.waiting -= 1
        if seen.waiting == 0:
            fn(seen.grads)

    return GradientHandle(*(x.register_hook(functools.partial(hook, i)) for i, x in enumerate(tensors)))


def _on_first(tensors: Sequence[Tensor], fn: Callable[[Any], None]) -> GradientHandle:
    key = object()

    def hook(grad: Tensor) -> None:
        run = innermost()
        if key not in run.notes:
            run.notes[key] = True
            fn(grad)

    return GradientHandle(*(x.register_hook(hook) for x in tensors if x.requires_grad))
