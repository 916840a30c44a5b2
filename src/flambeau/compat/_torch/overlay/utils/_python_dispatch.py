"""`torch.utils._python_dispatch`: calls below autograd are not handed to Python here; `torch.overrides` hands over those above it."""

from __future__ import annotations

from typing import Any


class TorchDispatchMode:
    """A region that takes over what lies below autograd; none can be entered (`torch.overrides.TorchFunctionMode` can)."""

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: there is no dispatch below autograd to take over; use torch.overrides.TorchFunctionMode")

    def __exit__(self, *exc: object) -> None:
        raise AssertionError("a mode that can not be entered")


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: no tensor consists of others by `__tensor_flatten__` and `__torch_dispatch__`."""
    return False


is_traceable_wrapper_subclass_type = is_traceable_wrapper_subclass


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False."""
    return False


def _get_current_dispatch_mode() -> None:
    """None: there is none."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Nothing."""
    return []
