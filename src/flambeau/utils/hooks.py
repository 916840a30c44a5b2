"""`torch.utils.hooks`: handles of hooks, and the taps by which hooks of a module's backward are laid around a call of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flambeau._handles import RemovableHandle
from flambeau.nn._hooks import _Call, tap_inputs, tap_outputs

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook"]

F = TypeVar("F", bound=Callable[..., Any])


class BackwardHook:
    """Calls hooks when gradients pass through what is computed between its two methods, as `Module.__call__` does.

    Args:
        module: what the hooks are told of.
        user_hooks: `hook(module, grad_input, grad_output)`, behind that part of the backward.
        user_pre_hooks: `hook(module, grad_output)`, ahead of it.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.utils.hooks import BackwardHook
        >>> around = BackwardHook(fl.nn.Identity(), [lambda module, into, out: print(into, out)], [])
        >>> (x,) = around.setup_input_hook((fl.ones(1, requires_grad=True),))
        >>> around.setup_output_hook(x * 3).backward()
        (tensor([3.]),) (tensor([1.]),)
    """

    def __init__(self, module: Any, user_hooks: Sequence[Any], user_pre_hooks: Sequence[Any]) -> None:
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self._call = _Call(module, list(user_pre_hooks), list(user_hooks))

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, to be computed with in their stead."""
        self._call, tapped = tap_inputs(self._call, args)
        return tapped

    def setup_output_hook(self, args: Any) -> Any:
        """What was computed, to be returned in its stead."""
        return tap_outputs(self._call, args)


def unserializable_hook(f: F) -> F:
    """Marks a hook as one that is not meant to be saved with its tensor. None is: hooks are not part of what is pickled."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f
