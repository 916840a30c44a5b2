"""Losses of several classes, of sequences, and of triplets, as modules; what they compute is described in `functional`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau._C import ArgumentError, ShapeError, Tensor
from flambeau.nn import functional as F
from flambeau.nn.functional._classifier import LinearCrossEntropyOptions
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.loss import PairwiseDistance, _Loss, _WeightedLoss


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
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.ndim != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead: shape {list(weight.shape)}"
            )
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
        self.distance_function: Any = PairwiseDistance() if distance_function is None else distance_function
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


class LinearCrossEntropyLoss(_WeightedLoss):
    """The last linear layer of a classifier, `self.linear`, and its cross entropy: `functional.linear_cross_entropy`.

    Args:
        in_features, num_classes: of the layer.
        out_features: further dimensions of the classes: target [N, *out_features].
        bias: whether the layer has one.
        weight: of the classes, [C].
        options: None, or `LinearCrossEntropyOptions` that say how rows are cut into chunks.

    Shape: input [N, I] or [I], target [N, *out_features] or [N, C, *out_features].

    >>> import flambeau as fl
    >>> loss = fl.nn.LinearCrossEntropyLoss(8, 1000, options=fl.nn.LinearCrossEntropyOptions())
    >>> loss(fl.ones(16, 8), fl.arange(16)).shape
    flambeau.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(f"LinearCrossEntropyLoss: weight has shape {list(weight.shape)}; expected [{num_classes}]")
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(f"LinearCrossEntropyLoss: label_smoothing = {label_smoothing}; expected 0 to 1")
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        weight, bias = self.linear.weight.reshape(*shape, -1), None if self.linear.bias is None else self.linear.bias.reshape(shape)
        return F.linear_cross_entropy(
            input, weight, target, linear_bias=bias, weight=self.weight, reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
