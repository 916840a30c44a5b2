"""`torch._tensor`: how PyTorch's own pickles make tensors of derived classes and with attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor
from flambeau.compat._torch.overlay._utils import _set_obj_state

__all__: list[str] = []


def _rebuild_from_type_v2(func: Callable[..., Any], new_type: type, args: tuple[Any, ...], state: Any) -> Tensor:
    """What `func` makes of `args`, as a tensor of another class and with its state."""
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    own = getattr(new_type, "__setstate__", None)
    if own is None or own is getattr(Tensor, "__setstate__", None):
        return _set_obj_state(made, state)  # type: ignore[no-any-return]
    made.__setstate__(state)
    return made  # type: ignore[no-any-return]
