"""`functorch.einops`: `rearrange`, which moved to `torch.func`."""

from flambeau.func import rearrange

__all__ = ["rearrange"]
