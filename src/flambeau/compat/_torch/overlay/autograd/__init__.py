"""Helpers of `torch.autograd` that packages use."""

from __future__ import annotations

from flambeau._C import profiler as _recorder
from flambeau.profiler import _profile

__all__: list[str] = []


def _profiler_enabled() -> bool:
    """Whether a profile records at this moment."""
    return _recorder.recording()


def _disable_profiler() -> None:
    """Ends the profile that is running, if one is."""
    if (running := _profile._running) is not None:
        running.stop()
