"""`torch.autograd.profiler`: what packages take from it beside the profiler."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau.profiler import EventAverages

EventList = EventAverages


def kineto_available() -> bool:
    """False: profiles are recorded by flambeau itself."""
    return False


class emit_nvtx:  # noqa: N801
    """Marks for NVIDIA's tools; refused, as there is no GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("emit_nvtx: this build of flambeau has no CUDA backend; torch.profiler.profile records what runs on the CPU")
