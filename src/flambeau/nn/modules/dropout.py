"""Dropout: of elements, of whole channels, and for self-normalising networks."""

from __future__ import annotations

from flambeau._C import Tensor, ops
from flambeau.nn import functional as F
from flambeau.nn.functional._dropout import check_p
from flambeau.nn.module import Module

_dropout = F.dropout  # Note [Functions that programs replace]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_p(type(self).__name__, p)
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability `p` in training and divides the rest by 1 - p.

    Raises:
        ValueError: `p` is no probability.

    Source: Srivastava et al. 2014.

    Example:
        >>> import flambeau as fl
        >>> layer = fl.nn.Dropout(0.5).eval()
        >>> layer(fl.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        if F.dropout is not _dropout:
            return F.dropout(input, self.p, self.training, self.inplace)
        if not self.training or self.p == 0.0:
            return input
        return ops.dropout(input, self.p, True, self.inplace)


class Dropout1d(_DropoutNd):
    """Drops whole channels of [N, C, L] or [C, L]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Drops whole channels of [N, C, H, W]; what has three axes is taken as [N, C, L], as in PyTorch, and a warning says so."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Drops whole channels of [N, C, D, H, W] or [C, D, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance behind SELU.

    Source: Klambauer et al. 2017, section 3.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels of [N, C, *]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
