"""`torch._higher_order_ops.out_dtype`: an operator whose result has another type."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor


def out_dtype(op: Any, output_dtype: Any, *args: Any) -> Any:
    """`op(*args)`, computed in `output_dtype`: the product of matrices of int8 in int32, say."""
    return op(*(x.to(output_dtype) if isinstance(x, Tensor) else x for x in args))
