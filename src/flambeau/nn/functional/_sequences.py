"""A loss of sequences without a given alignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau import _C
from flambeau._C import DTypeError, ShapeError, Tensor, ops
from flambeau._from_data import as_tensor
from flambeau._info import switch
from flambeau.amp.autocast_mode import widens
from flambeau.nn.functional._reduction import reduction_kind

__all__ = ["ctc_loss"]


def _lengths(name: str, value: Any, n: int) -> Tensor:
    if not isinstance(value, (Tensor, int)) and not isinstance(value, Iterable):
        raise TypeError(f"ctc_loss: {name} = {value!r} is a {type(value).__name__}; expected a tensor or a list of ints")
    lengths = as_tensor(value if isinstance(value, Tensor) else list(value) if not isinstance(value, int) else [value])
    if lengths.is_floating_point():
        raise DTypeError(f"ctc_loss: {name} must be integral, got {lengths.dtype}")
    lengths = lengths.reshape(1) if lengths.ndim == 0 else lengths
    if tuple(lengths.shape) != (n,):
        raise ShapeError(f"ctc_loss: {name} must be of size batch_size, [{n}], got {list(lengths.shape)}")
    return lengths.to(_C.int64)


def _rows(targets: Tensor, lengths: Tensor, n: int) -> Tensor:
    """Targets one after the other, [sum of lengths], as rows [N, S]."""
    counts = lengths.tolist()
    if sum(counts) != targets.shape[0]:
        raise ShapeError(f"ctc_loss: targets has shape {list(targets.shape)}; expected [{sum(counts)}], the sum of target_lengths {counts}")
    rows = ops.zeros((n, max(counts, default=0)), dtype=_C.int64)
    at = 0
    for i, count in enumerate(counts):
        rows[i, :count] = targets[at : at + count]
        at += count
    return rows


@widens
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of the targets, summed over all alignments with blanks between them.

    The gradient is exp(log_probs) minus shares of alignments: that of scores whose log_softmax log_probs is.

    Args:
        log_probs: of log_softmax over classes, [T, N, C] or [T, C].
        targets: [N, S], or the targets of all sequences one after the other, [sum of target_lengths]; none is `blank`. Of floats the whole
            part counts.
        reduction: 'mean' divides each loss by its target's length first.
        zero_infinity: 0 instead of infinity, with its gradient, where a target is longer than its input allows.

    Raises:
        ShapeError, ValueError: lengths or classes out of range, or shapes that do not fit.

    Source: Graves et al., "Connectionist temporal classification", ICML 2006.

    Example:
        >>> import flambeau as fl
        >>> scores = fl.zeros(3, 1, 2).log_softmax(-1)
        >>> fl.nn.functional.ctc_loss(scores, fl.tensor([[1]]), [3], [1]).exp()
        tensor(1.3333)
    """
    if zero_infinity is not False and zero_infinity is not True:
        zero_infinity = switch("ctc_loss", "zero_infinity", zero_infinity)
    kind = reduction_kind("ctc_loss", reduction)
    single = log_probs.ndim == 2
    if log_probs.ndim not in (2, 3) or not log_probs.numel():
        raise ShapeError(f"ctc_loss: log_probs has shape {list(log_probs.shape)}; expected [T, N, C] or [T, C], not empty")
    x = log_probs.unsqueeze(1) if single else log_probs
    n = x.shape[1]
    inputs, counts = _lengths("input_lengths", input_lengths, n), _lengths("target_lengths", target_lengths, n)
    targets = targets.to(_C.int64)
    if targets.ndim == 1:
        targets = targets.unsqueeze(0) if single else _rows(targets, counts, n)
    loss = ops.ctc_loss(x, targets, inputs, counts, blank)
    if zero_infinity:
        loss = loss.masked_fill(loss == float("inf"), 0)
    if kind == 0:
        return loss.squeeze(0) if single else loss
    return (loss / counts.clamp(min=1).to(loss.dtype)).mean() if kind == 1 else loss.sum()
