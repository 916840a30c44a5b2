"""`torch._dynamo._trace_wrapped_higher_order_op`."""

from __future__ import annotations

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A region in which `x[i]` inside of `vmap` takes a 0-d tensor for an index and not for a number; here it does so everywhere."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
