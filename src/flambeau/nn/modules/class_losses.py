"""Losses of several classes, of sequences, and of triplets, as modules; what they compute is described in `functional`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.loss import _Loss, _WeightedLoss


class MultiMarginLoss(_WeightedLoss):
    """The mean over classes j of max(0, margin - x[target] + x[j])^p.

    Shape: input [N, C] or [C], target [N] or [].
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p = {p}; expected 1 or 2")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight has shape {list(weight.shape)}; expected [C]")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """The sum over targets y and other classes i of max(0, 1 - x[y] + x[i]), over the number of classes.

    Shape: input [N, C] or [C], target of the same shape: classes up to the first -1.
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of -(y log sigmoid(x) + (1 - y) log sigmoid(-x)).

    Shape: input and target [N, C].
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance d (default: `PairwiseDistance`)."""

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin = {margin}; expected > 0")
        self.distance_function: Any = F.pairwise_distance if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative,
            distance_function=self.distance_function, margin=self.margin, swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class CTCLoss(_Loss):
    """-log of the probability of targets, summed over all alignments with blanks between them.

    Shape: log_probs [T, N, C], targets [N, S] or [sum of target_lengths], lengths [N]; or [T, C], [S] and [].

    Source: Graves et al., ICML 2006.
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)
