"""`AdaptiveLogSoftmaxWithLoss`: a softmax over many classes, most of which are rare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau._C import ShapeError, Tensor, ops
from flambeau.nn import functional as F
from flambeau.nn.containers import ModuleList, Sequential
from flambeau.nn.module import Module
from flambeau.nn.modules.linear import Linear


class _OutOfRange(IndexError, RuntimeError):
    """A class that there is not; PyTorch raises a RuntimeError."""


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes stand in a head beside clusters of rare ones, whose scores come through fewer features.

    Classes must be sorted by frequency, the most frequent first.

    Args:
        cutoffs: where clusters begin; the head has the classes before the first.
        div_value: cluster i has in_features / div_value^(i + 1) features.

    Shape: input [N, in_features], target [N] -> output [N] (log-probabilities of targets) and the loss []; or without N.

    Raises:
        ValueError: cutoffs that do not rise between 1 and n_classes - 1.

    Source: Grave et al., "Efficient softmax approximation for GPUs", ICML 2017.

    >>> import flambeau as fl
    >>> layer = fl.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
    >>> layer(fl.zeros(3, 8), fl.tensor([0, 7, 19])).output.shape, layer.log_prob(fl.zeros(3, 8)).shape
    (flambeau.Size([3]), flambeau.Size([3, 20]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        rising = all(a < b for a, b in zip(ends, ends[1:]))
        if not ends or not rising or ends[0] < 1 or ends[-1] > n_classes - 1 or any(int(c) != c for c in ends):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                f"where each value is between 1 and n_classes-1 = {n_classes - 1}, got {ends}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = ends[0]
        self.n_clusters = len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, hidden, bias=False, **options), Linear(hidden, classes, bias=False, **options))
            )

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        self.head.reset_parameters()
        for layer in self.tail.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        shapes = f"input has shape {list(input_.shape)}, target {list(target_.shape)}"
        if target_.ndim > 1 or input_.ndim != target_.ndim + 1 or input_.shape[:-1] != target_.shape:
            n = self.in_features
            many = "0D or 1D target tensor expected, multi-target not supported"
            why = many if target_.ndim > 1 else "Input and target should have the same size in the batch dimension"
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: {why}: {shapes}; "
                f"expected [N, {n}] and [N], or [{n}] and []"
            )
        x, target = (input_, target_) if target_.ndim else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and bool(((target < 0) | (target >= self.n_classes)).any()):
            ends = f"[{int(target.min())}, {int(target.max())}]"
            raise _OutOfRange(
                f"AdaptiveLogSoftmaxWithLoss: Target values should be in [0, {self.n_classes - 1}], but values in range {ends} were found"
            )
        head = F.log_softmax(self.head(x), 1)
        column = target.clone()
        parts = []
        for i in range(self.n_clusters):
            rows = ((target >= self.cutoffs[i]) & (target < self.cutoffs[i + 1])).nonzero().squeeze(1)
            if rows.numel():
                column[rows] = self.shortlist_size + i
                inside = F.log_softmax(self.tail[i](x[rows]), 1)
                parts.append((rows, inside.gather(1, (target[rows] - self.cutoffs[i]).unsqueeze(1)).squeeze(1)))
        output = head.gather(1, column.unsqueeze(1)).squeeze(1)
        for rows, value in parts:
            output = output.index_add(0, rows, value)
        return _ASMoutput(output if target_.ndim else output.squeeze(0), -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes, [N, in_features] -> [N, n_classes]."""
        head = F.log_softmax(self.head(input), 1)
        n = self.shortlist_size
        parts = [F.log_softmax(cluster(input), 1) + head[:, n + i : n + i + 1] for i, cluster in enumerate(self.tail)]
        return ops.cat([head[:, :n], *parts], 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row, [N]; clusters are looked into only where the head says so."""
        best: Tensor = self.head(input).argmax(1)
        rare = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            best[rare] = self.log_prob(input[rare]).argmax(1)
        return best
