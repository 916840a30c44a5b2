"""`functorch.experimental`: branches and loops as functions."""

from flambeau.compat._torch.functorch.experimental import control_flow

__all__ = ["control_flow"]
