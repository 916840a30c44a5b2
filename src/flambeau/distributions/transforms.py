"""Invertible functions with the logarithms of their Jacobian determinants, for `TransformedDistribution`.

A transform maps its `domain` to its `codomain`: `t(x)`, and `t.inv(y)` back. `t.log_abs_det_jacobian(x, y)` takes both
sides, since one of them is often cheaper.

Example:
    >>> import flambeau as fl
    >>> from flambeau.distributions import transforms
    >>> t = transforms.ComposeTransform([transforms.AffineTransform(1.0, 2.0), transforms.ExpTransform()])
    >>> x = fl.tensor([0.0, 1.0])
    >>> t.inv(t(x))
    tensor([0., 1.])
"""

from __future__ import annotations

from flambeau.distributions._transforms_base import ComposeTransform, Transform, identity_transform
from flambeau.distributions._transforms_base import (
    _InverseTransform as _InverseTransform,  # by which packages register
)
from flambeau.distributions._transforms_elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from flambeau.distributions._transforms_shaped import (
    CatTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
)
from flambeau.distributions._transforms_vector import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "ExpTransform", "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip
