"""`torch.cuda.amp`: autocast and gradient scaling for a GPU; without one they warn and are switched off, as in PyTorch."""

from __future__ import annotations

from typing import Any

from flambeau import amp
from flambeau._warn import warn

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU to use `cuda.amp` with: always True here.

    >>> amp_definitely_not_available()
    True
    """
    return True


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`amp.custom_fwd(device_type="cuda")`, which is for what runs under autocast of a GPU."""
    warn("cuda.amp.custom_fwd is the older name of amp.custom_fwd(device_type='cuda')", FutureWarning)
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`amp.custom_bwd(device_type="cuda")`."""
    warn("cuda.amp.custom_bwd is the older name of amp.custom_bwd(device_type='cuda')", FutureWarning)
    return amp.custom_bwd(bwd, device_type="cuda")


class autocast(amp.autocast):  # noqa: N801
    """`torch.amp.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        warn("cuda.amp.autocast is the older name of amp.autocast('cuda')", FutureWarning)
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn("cuda.amp.GradScaler is the older name of amp.GradScaler('cuda')", FutureWarning)
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
