"""Switches of TorchScript's executor and of its fusers, which training scripts turn off. Kept for who asks: there is no TorchScript here
to heed them."""

from __future__ import annotations

from collections.abc import Callable

_on = {"profiling_executor": True, "profiling_mode": True, "texpr_fuser": True, "nvfuser": False, "fuse_on_cpu": False, "fuse_on_gpu": True}


def _asked(name: str) -> Callable[[], bool]:
    return lambda: _on[name]


def _setting(name: str, answers: bool) -> Callable[[bool], bool | None]:
    """A function that sets a switch, and returns what it was where PyTorch's does."""

    def set_switch(on: bool) -> bool | None:
        before, _on[name] = _on[name], bool(on)
        return before if answers else None

    return set_switch


_jit_set_profiling_executor = _setting("profiling_executor", True)
_jit_set_profiling_mode = _setting("profiling_mode", True)
_jit_set_nvfuser_enabled = _setting("nvfuser", False)
_jit_set_texpr_fuser_enabled = _setting("texpr_fuser", False)
_jit_texpr_fuser_enabled = _asked("texpr_fuser")
_jit_override_can_fuse_on_cpu = _setting("fuse_on_cpu", False)
_jit_can_fuse_on_cpu = _asked("fuse_on_cpu")
_jit_override_can_fuse_on_gpu = _setting("fuse_on_gpu", False)
_jit_can_fuse_on_gpu = _asked("fuse_on_gpu")
