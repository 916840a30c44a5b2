"""Running the graph backwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from flambeau import _C
from flambeau._C import Tensor
from flambeau._running import run_backward
from flambeau._warn import warn
from flambeau.autograd._edges import GradientEdge, is_sparse, tensors_of

End = Tensor | GradientEdge  # of a backward


def backward(
    tensors: End | Sequence[End],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: End | Sequence[End] | dict[str, Tensor] | None = None,
) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves (or of `inputs` alone; of a dict its values).

    Each of `tensors` and `inputs` may be an edge, which `graph.get_gradient_edge` returns.

    Args:
        grad_variables: the older name of `grad_tensors`.

    Raises:
        ArgumentError: `grad_tensors` is given by both of its names.
        AutogradError: a tensor does not require grad, has more than one element and no gradient, or the
            graph was used up by an earlier backward.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([1.0, 2.0], requires_grad=True)
        >>> fl.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        warn("backward: grad_variables is the older name of grad_tensors", FutureWarning)
        if grad_tensors is not None:
            raise _C.ArgumentError("backward: grad_tensors and grad_variables, its older name, are both given; pass grad_tensors alone")
        grad_tensors = grad_variables
    roots = tensors_of(tensors, "backward", "tensors")
    grads = [None] * len(roots) if grad_tensors is None else tensors_of(grad_tensors, "backward", "grad_tensors")
    if inputs is not None:
        wanted = tensors_of(list(inputs.values()) if isinstance(inputs, dict) else inputs, "backward", "inputs")
        if not wanted:
            raise _C.ArgumentError(
                "backward: inputs is empty; expected at least one tensor, or None for all leaves (`inputs` cannot be empty)"
            )
    else:
        wanted = []
    retain = create_graph if retain_graph is None else retain_graph
    roots, grads = _by_values(roots, grads)
    run_backward(roots, grads, retain, create_graph, [x._val if is_sparse(x) else x for x in wanted], True, True)


@overload
def grad(
    outputs: End | Sequence[End], inputs: dict[str, Tensor], grad_outputs: Tensor | Sequence[Tensor | None] | None = ...,
    retain_graph: bool | None = ..., create_graph: bool = ..., only_inputs: bool = ..., allow_unused: bool | None = ...,
    is_grads_batched: bool = ..., materialize_grads: bool = ...,
) -> dict[str, Tensor]: ...  # fmt: skip


@overload
def grad(
    outputs: End | Sequence[End], inputs: End | Sequence[End], grad_outputs: Tensor | Sequence[Tensor | None] | None = ...,
    retain_graph: bool | None = ..., create_graph: bool = ..., only_inputs: bool = ..., allow_unused: bool | None = ...,
    is_grads_batched: bool = ..., materialize_grads: bool = ...,
) -> tuple[Tensor, ...]: ...  # fmt: skip


def grad(
    outputs: End | Sequence[End],
    inputs: End | Sequence[End] | dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...] | dict[str, Tensor]:
    """The gradients of `outputs` with respect to `inputs`, without touching any `.grad`.

    Each of them may be an edge, which `graph.get_gradient_edge` returns. For a dict of inputs, such as
    `dict(model.named_parameters())`, the gradients are a dict with its keys.

    Args:
        only_inputs: has to be True; False is ignored, with a warning.
        is_grads_batched: each of `grad_outputs` has one more axis in front, and each gradient gets it: one backward for each entry, and
            one of zeros where there are none.

    Raises:
        ValueError: `is_grads_batched` without `grad_outputs`, or with axes of several sizes.
        TypeError: `is_grads_batched`, and a gradient is sparse.
        AutogradError: an input was not used and `allow_unused` is False; there are no inputs.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor(3.0, requires_grad=True)
        >>> (dx,) = fl.autograd.grad(x ** 3, x, create_graph=True)
        >>> fl.autograd.grad(dx, x)
        (tensor(18.),)
    """
    if isinstance(inputs, dict):
        by_name = grad(
            outputs, list(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched,
            materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, by_name, strict=True))
    if not only_inputs:
        warn("grad: only_inputs=False is ignored, and no other .grad is filled; call backward() for that", FutureWarning)
    if is_grads_batched:
        once: Callable[..., Any] = functools.partial(
            grad, outputs, inputs, create_graph=create_graph,
            allow_unused=allow_unused, materialize_grads=materialize_grads,
        )
        return _batched(once, grad_outputs, create_graph if retain_graph is None else retain_graph)
    unused = materialize_grads if allow_unused is None else allow_unused
    if materialize_grads and not unused:
        raise ValueError("grad: Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False")
    roots, wanted = tensors_of(outputs, "grad", "outputs"), tensors_of(inputs, "grad", "inputs")
    if not wanted:
        raise _C.AutogradError(
            "grad requires non-empty inputs: `inputs` argument to `grad()` cannot be empty; backward() fills the .grad of all leaves"
        )
    grads = [None] * len(roots) if grad_outputs is None else tensors_of(grad_outputs, "grad", "grad_outputs")
    retain = create_graph if retain_graph is None else retain_graph
    if any(hasattr(type(g), "_parts") for g in grads):
        from flambeau.func._batched import unbatched

        level, rows = unbatched(grads)  # inside of a vmap, whose samples are rows
        if level is not None:
            every = grad(outputs, inputs, rows, retain_graph, create_graph, True, allow_unused, True, materialize_grads)
            return tuple(None if g is None else level.wrap(g) for g in every)  # type: ignore[misc]
    roots, grads = _by_values(roots, grads)
    if any(map(is_sparse, wanted)):
        found = run_backward(roots, grads, retain, create_graph, [x._val if is_sparse(x) else x for x in wanted], False, unused)
        found = tuple(x._with(x.once(g)) if g is not None and is_sparse(x) else g for x, g in zip(wanted, found, strict=True))
    else:
        found = run_backward(roots, grads, retain, create_graph, wanted, False, unused)
    if materialize_grads:
        found = tuple(_C.ops.zeros_like(x).requires_grad_(create_graph) if g is None else g for g, x in zip(found, wanted, strict=True))
    return tuple(found)


def _by_values(roots: list[Any], grads: list[Any]) -> tuple[list[Any], list[Any]]:
    """Roots and their gradients, of sparse ones the values."""
    if not any(map(is_sparse, roots)):
        return roots, grads
    from flambeau.sparse._functions import values_at

    grads = [g if g is None or not is_sparse(y) else values_at(y, g) for y, g in zip(roots, grads, strict=True)]
    return [y._val if is_sparse(y) else y for y in roots], grads


def _batched(once: Callable[..., tuple[Tensor, ...]], grad_outputs: Any, retain: bool) -> tuple[Tensor, ...]:
    given = [] if grad_outputs is None else tensors_of(grad_outputs, "grad", "grad_outputs")
    sizes = {len(g) if g.ndim else None for g in given if g is not None}
    if len(sizes) != 1 or None in sizes:
        found = [None if g is None else list(g.shape) for g in given]
        raise ValueError(f"grad: is_grads_batched with grad_outputs of shapes {found}; expected one first axis, of the batch, in all")
    n = sizes.pop() or 0
    # Without rows one of zeros says which inputs have a gradient, and of which kind; nothing of it is taken.
    inputs = [g if g is None or n else _C.ops.zeros((1, *g.shape[1:]), dtype=g.dtype, device=g.device) for g in given]
    columns: list[list[Tensor]] = []
    for i in range(n or 1):
        row = once([None if g is None else g[i] for g in inputs], retain_graph=retain or i < n - 1)
        for k, g in enumerate(row):
            if g is not None and g.is_sparse:
                what = f"is_grads_batched, and gradient {k} (shape {list(g.shape)}) is sparse"
                raise TypeError(f"grad: {what}; expected dense ones, or a call for each row")
        columns = columns or [[] for _ in row]
        for column, g in zip(columns, row, strict=True):
            column.append(g)
    return tuple(None if column[0] is None else _C.ops.stack(column, 0)[:n] for column in columns)  # type: ignore[misc]


def zero_gradient(param: Tensor, set_to_none: bool) -> None:
    """Drops the gradient of a leaf, or fills it with zeros where it is. One that is dropped is not looked at: a replayed step takes any."""
    if set_to_none:
        param.grad = None
    elif (grad := param.grad) is not None:
        if grad.grad_fn is not None:
            grad.detach_()
        else:
            grad.requires_grad_(False)
        grad.zero_()
