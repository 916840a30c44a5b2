"""`Chi2`: sums of squares of normal draws."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.distributions import constraints
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import broadcast_all


class Chi2(Gamma):
    """The chi-square distribution of `df` degrees of freedom: Gamma(df / 2, 1 / 2).

    Example:
        >>> from flambeau.distributions import Chi2
        >>> Chi2(3.0).mean
        tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def _fl_expand_more(self, new: Any, batch_shape: Any) -> None:
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
