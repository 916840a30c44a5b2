"""Mixed precision: `autocast` chooses the types of operations, `GradScaler` keeps small gradients from vanishing."""

from __future__ import annotations

from flambeau.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from flambeau.amp.grad_scaler import GradScaler, OptState

__all__ = ["GradScaler", "OptState", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
