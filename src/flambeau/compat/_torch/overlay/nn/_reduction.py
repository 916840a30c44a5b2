"""`torch.nn._reduction`: reductions by number, and by the flags that losses took before there was `reduction=`."""

from __future__ import annotations

import warnings


def get_enum(reduction: str) -> int:
    """0, 1 and 2 for 'none', 'mean' and 'sum'."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return 1
    try:
        return {"none": 0, "mean": 1, "sum": 2}[reduction]
    except KeyError:
        raise ValueError(f"{reduction} is not a valid value for reduction") from None


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """What `size_average` and `reduce` meant."""
    average, reduced = size_average is None or size_average, reduce is None or reduce
    found = "mean" if average and reduced else "sum" if reduced else "none"
    if emit_warning:
        warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.", stacklevel=2)
    return found


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The same as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
