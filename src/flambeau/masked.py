"""Reductions and normalisations over the elements that a mask lets through, and tensors with a mask, as `torch.masked` has them.

A mask broadcasts to the input; elements where it is False count as if they were not there. Without a mask all count. Slices of which
nothing is let through give what an empty slice gives: 0 for `sum`, 1 for `prod`, NaN for `mean`, the type's lowest number for `amax`.

    >>> import flambeau as fl
    >>> x = fl.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> fl.masked.mean(x, 1, mask=fl.tensor([[True, False, True], [False, True, False]]))
    tensor([2., 5.])

A `MaskedTensor` brings its mask along: functions and operators heed it.

    >>> fl.masked.MaskedTensor(x, fl.tensor([[True, False, True], [False, True, False]])).mean(1)
    MaskedTensor(
      [  2.0000,   5.0000]
    )
"""

from __future__ import annotations

from flambeau._masked_functions import (
    _input_mask,  # noqa: F401  (of `torch.masked`)
    _output_mask,  # noqa: F401
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from flambeau._masked_tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor", "log_softmax",
    "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip
