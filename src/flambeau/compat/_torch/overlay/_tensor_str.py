"""`torch._tensor_str`: how tensors are printed, and what classes of packages that print themselves call."""

from flambeau._print import _with_suffixes as _add_suffixes

__all__: list[str] = []
_private = (_add_suffixes,)
