"""What the graph keeps for backward, in other hands: hooks that pack it when it is saved and unpack it when it is used."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from flambeau import _C
from flambeau._C import Tensor

Node = _C.Node  # the class of `x.grad_fn`


class _Disabled(threading.local):
    message: str | None = None


_disabled = _Disabled()


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

    def __enter__(self) -> None:
        if _disabled.message is not None:
            raise RuntimeError(_disabled.message)
        _C.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: Any) -> None:
        _C.pop_saved_hooks()


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
    before = _disabled.message
    _disabled.message = error_message
    try:
        yield
    finally:
        _disabled.message = before
