"""What the losses share: the words of `reduction`, and shapes that must be equal."""

from __future__ import annotations

from flambeau import _tensor
from flambeau._C import ArgumentError, ShapeError, Tensor
from flambeau._functions import broadcast_tensors
from flambeau._warn import warn

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def reduction_kind(op: str, reduction: str) -> int:
    """The number by which the ops know `reduction`."""
    try:
        return REDUCTIONS[reduction]
    except (KeyError, TypeError):
        raise ArgumentError(f"{op}: {reduction} is not a valid value for reduction; expected 'none', 'mean' or 'sum'") from None


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
            f"{op}: {names[1].capitalize()} size ({list(target.shape)}) must be the same as {names[0]} size ({list(input.shape)}), "
            "since losses do not broadcast. Please ensure they have the same size: reshape, squeeze or expand one of them"
        )


def of_one_shape(
    op: str, *tensors: Tensor, names: tuple[str, ...] = ("input", "target"), warns: bool = False, as_first: bool = False,
    same_ndim: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The tensors of a loss, which are of one shape: what would otherwise broadcast in silence is refused.

    While the library answers for PyTorch, whose losses of this kind broadcast, programs count on that: the tensors come back expanded,
    with PyTorch's warning where it `warns`. `as_first`: the first tensor is not expanded. `same_ndim`: all have as many axes.
    """
    first = tensors[0]
    other = next((i for i, t in enumerate(tensors) if t.shape != first.shape), None)
    if other is None:
        return tensors
    fits = not same_ndim or all(t.ndim == first.ndim for t in tensors)
    if fits and _tensor.library == "torch" and (found := _expanded(tensors, as_first)) is not None:
        if warns:
            warn(  # programs filter this warning by PyTorch's words
                f"Using a target size ({tensors[other].shape}) that is different to the input size ({first.shape}). "
                "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
            )
        return found
    check_same_shape(op, first, tensors[other], (names[0], names[other]))
    return tensors


def _expanded(tensors: tuple[Tensor, ...], as_first: bool) -> tuple[Tensor, ...] | None:
    """All in their common shape; None where there is none."""
    try:
        found = broadcast_tensors(*tensors)
    except ValueError:
        return None
    return None if as_first and found[0].shape != tensors[0].shape else found


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
