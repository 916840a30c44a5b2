"""What the losses share: the words of `reduction`, and shapes that must be equal."""

from __future__ import annotations

from flambeau._C import ArgumentError, ShapeError, Tensor
from flambeau._warn import warn

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def reduction_kind(op: str, reduction: str) -> int:
    """The number by which the ops know `reduction`."""
    try:
        return REDUCTIONS[reduction]
    except (KeyError, TypeError):
        raise ArgumentError(
            f"{op}: reduction = {reduction!r}; expected 'none', 'mean' or 'sum'"
        ) from None


def reduction_word(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, or the word that the two older arguments mean where one is given."""
    if size_average is None and reduce is None:
        return reduction
    averaged, reduced = (given is None or bool(given) for given in (size_average, reduce))  # numbers are taken for what they are worth
    word = "none" if not reduced else "mean" if averaged else "sum"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{word}' instead")
    return word


def check_same_shape(
    op: str, input: Tensor, target: Tensor, names: tuple[str, str] = ("input", "target")
) -> None:
    """Refuses what would otherwise broadcast in silence."""
    if input.shape != target.shape:
        raise ShapeError(
            f"{op}: {names[1]} has shape {list(target.shape)}, but {names[0]} has shape "
            f"{list(input.shape)}; "
            "expected equal shapes (losses do not broadcast: reshape, squeeze or expand one of "
            "them)"
        )


def reduced(op: str, loss: Tensor, reduction: str, weight: Tensor | None = None) -> Tensor:
    """The losses of the elements as `reduction` wants them; with `weight` the mean is the weighted one."""
    kind = reduction_kind(op, reduction)
    if weight is not None:
        if weight.shape != loss.shape:
            raise ShapeError(
                f"{op}: weight has shape {list(weight.shape)}; expected the input's {list(loss.shape)}"
            )
        loss = loss * weight
        if kind == 1:
            return loss.sum() / weight.sum()
    return loss if kind == 0 else loss.mean() if kind == 1 else loss.sum()
