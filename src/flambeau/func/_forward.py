"""Derivatives by forward mode: `jvp`, `jacfwd`, `linearize`, and `hessian`, which is both modes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import RefusedTypeError
from flambeau._info import a_function
from flambeau.func._dual import DualLevel
from flambeau.func._levels import dtype_of, opened, shape_of
from flambeau.func._pullback import (
    differentiating,
    plain_stands,
    pullback,
    recording,
    running_batches,
    stand_in,
)
from flambeau.func._reverse import (
    Argnums,
    Inputs,
    called,
    check_leaf,
    check_real,
    jacrev,
    matching,
    outputs,
    units,
    with_aux,
)
from flambeau.func._tree import Make, chosen, flatten, tree_map
from flambeau.func._vmap import vmap


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """func(*primals), and its Jacobian there times `tangents`, by one run of the function.

    Args:
        primals: a tuple of tensors, or structures of them.
        tangents: shaped as the primals.
        strict: raises where an output does not depend on the primals, instead of returning zeros.

    Returns:
        (output, tangent), or (output, tangent, aux).

    Raises:
        TypeError: primals that are no tuple, or outputs that are no tensors.
        ValueError, ShapeError: tangents of another structure or other shapes.
        RuntimeError: what `strict` refuses.

    Example:
        >>> import flambeau as fl
        >>> fl.func.jvp(fl.sin, (fl.zeros(2),), (fl.tensor([1.0, 2.0]),))
        (tensor([0., 0.]), tensor([1., 2.]))
    """
    a_function("jvp", func)
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise RefusedTypeError(f"jvp: Expected {what} to be a tuple, (x,) for one tensor, got {type(value).__name__}")
    leaves, build = flatten(primals)
    if not leaves:
        raise _C.ArgumentError("jvp: there are no primals; expected at least one tensor")
    for i, leaf in enumerate(leaves):
        check_leaf("jvp", "primal", i, leaf)
    for i, leaf in enumerate(flatten(tangents)[0]):
        check_leaf("jvp", "tangent", i, leaf)
    along = matching("jvp", "tangents", tangents, primals)
    level = DualLevel()
    with opened(level):
        out, aux = with_aux("jvp", func(*build([level.dual(x.view_as(x), t) for x, t in zip(leaves, along, strict=True)])), has_aux)
        outs, remake = outputs("jvp", out)
        found = []
        for i, y in enumerate(outs):
            t = level.tangent(y)
            if t is None and strict:
                raise RuntimeError(f"jvp: output {i} does not depend on the primals, which strict=True refuses")
            found.append(ops.zeros_like(level.primal(y)) if t is None else t)
        values, tangent = tree_map(level.primal, out), remake(found)
        return (values, tangent, tree_map(level.primal, aux)) if has_aux else (values, tangent)


def _basis(leaves: Sequence[Tensor]) -> list[Tensor]:
    """The unit vectors of all leaves together: for each leaf [numel of all, *shape]."""
    sizes = [math.prod(shape_of(x)) for x in leaves]
    with recording():  # derivatives of the transform save them
        if len(leaves) == 1:
            return [units(leaves[0])]
        out = []
        for i, x in enumerate(leaves):
            before, after = sum(sizes[:i]), sum(sizes[i + 1 :])
            empty = [ops.zeros((n, *shape_of(x)), dtype=dtype_of(x), device=x.device) for n in (before, after)]
            out.append(ops.cat([empty[0], units(x), empty[1]]))
        return out


def _parted(columns: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """[numel of all, *rest] as one tensor [*shape, *rest] for each leaf."""
    parts = ops.split(columns, [math.prod(shape_of(x)) for x in leaves]) if len(leaves) > 1 else [columns]
    return [ops.reshape(p, (*shape_of(x), *shape_of(p)[1:])) for p, x in zip(parts, leaves, strict=True)]


def _last(x: Tensor, count: int) -> Tensor:
    """The first axes, `count` of them, moved to the end."""
    rank = len(shape_of(x))
    return ops.permute(x, (*range(count, rank), *range(count))) if 0 < count < rank else x


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, chunk_size: int | None = None, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, by forward mode in all directions at once.

    Less work than `jacrev` where the outputs are more than the inputs.

    Args:
        func, argnums: as of `jacrev`.
        has_aux: the function returns (output, aux), and the result is (Jacobian, aux).
        chunk_size: how many directions at once; None: all.
        randomness: of random ops in `func`, as of `vmap`.

    Example:
        >>> import flambeau as fl
        >>> fl.func.jacfwd(lambda x: x * x)(fl.tensor([1.0, 3.0]))
        tensor([[2., 0.],
                [0., 6.]])
    """
    a_function("jacfwd", func)

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions, many = chosen("jacfwd", argnums, args)
        trees = [args[n] for n in positions]
        leaves, build = flatten(trees)
        check_real("jacfwd", "input", leaves)

        def of_leaves(*given: Tensor) -> Any:
            inner = list(args)
            for n, tree in zip(positions, build(list(given)), strict=True):
                inner[n] = tree
            return func(*inner, **kwargs)

        def column(*directions: Tensor) -> Any:
            found = jvp(of_leaves, tuple(leaves), directions, has_aux=has_aux)
            return (found[1], found[2]) if has_aux else found[1]

        out_dims = (0, None) if has_aux else 0
        columns = vmap(column, out_dims=out_dims, randomness=randomness, chunk_size=chunk_size)(*_basis(leaves))
        jacobian, aux = columns if has_aux else (columns, None)

        def blocks(t: Tensor) -> Any:
            parts = [_last(p, len(shape_of(x))) for p, x in zip(_parted(t, leaves), leaves, strict=True)]
            inner = build(parts)
            return tuple(inner) if many else inner[0]

        outs, remake = flatten(jacobian)
        check_real("jacfwd", "output", outs)
        result = remake([blocks(t) for t in outs])
        return (result, aux) if has_aux else result

    return differentiated


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `func`: of each output by each pair of inputs, [*output, *input, *input].

    The function runs once, for a batch with a sample per element of the inputs: a sample's gradient is contracted with a unit vector
    of its own and differentiated again, which gives its row. So random ops in `func` are refused, as in `vmap`.

    Args:
        func, argnums: as of `jacrev`.

    Example:
        >>> import flambeau as fl
        >>> fl.func.hessian(lambda x: (x ** 3).sum())(fl.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    a_function("hessian", func)

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions, many = chosen("hessian", argnums, args)
        leaves, build = flatten([args[n] for n in positions])
        check_real("hessian", "input", leaves)
        widths = [len(shape_of(x)) for x in leaves]
        made: list[Make] = []

        def flat(*given: Tensor) -> list[Tensor]:
            inner = list(args)
            for n, tree in zip(positions, build(list(given)), strict=True):
                inner[n] = tree
            outs, remake = flatten(func(*inner, **kwargs))
            made[:] = [remake]
            return outs

        everything = tuple(range(len(leaves)))
        first = jacrev(flat, everything)

        def row(*directions: Tensor) -> Any:
            def along(*given: Tensor) -> list[Tensor]:
                """The Jacobian of each output times the direction."""
                return [functools.reduce(ops.add, map(_contracted, blocks, directions, widths)) for blocks in first(*given)]

            return jacrev(along, everything)(*leaves)

        def shaped(parts: list[Any]) -> Any:
            inner = build(parts)
            return tuple(inner) if many else inner[0]

        results = []
        for columns in vmap(row)(*_basis(leaves)):
            # columns[j]: [all elements of the inputs, *output, *input j]
            table = []
            for c, width in zip(columns, widths, strict=True):
                table.append([_moved(p, w, width) for p, w in zip(_parted(c, leaves), widths, strict=True)])
            results.append(shaped([shaped([table[j][i] for j in everything]) for i in everything]))
        return made[0](results)

    return differentiated


def _contracted(block: Tensor, direction: Tensor, axes: int) -> Tensor:
    """The sum over the last axes of a product."""
    product = ops.mul(block, direction)
    return ops.sum(product, tuple(range(-axes, 0))) if axes else product


def _moved(x: Tensor, first: int, second: int) -> Tensor:
    """[*first input, *output, *second input] -> [*output, *first input, *second input]."""
    rank = len(shape_of(x))
    return ops.permute(x, (*range(first, rank - second), *range(first), *range(rank - second, rank)))


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """func(*primals), and a function that multiplies its Jacobian there from the right, without running `func` again.

    It costs a backward through the backward of `func`, and its memory stays while the function is held.

    Returns:
        (output, jvp_fn): `jvp_fn(*tangents)`, with tangents shaped as the primals, returns what is shaped as the output.

    Example:
        >>> import flambeau as fl
        >>> y, jvp_fn = fl.func.linearize(fl.sin, fl.zeros(2))
        >>> jvp_fn(fl.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    a_function("linearize", func)
    inputs = Inputs("linearize", primals, tuple(range(len(primals))))
    levels = running_batches()
    with differentiating():
        out, leaves, build, _ = called("linearize", inputs, func, False, {})
        us = [stand_in(ops.zeros_like(y), levels, False) for y in leaves]
        rows = pullback(leaves, inputs.stands, us, True)

    def jvp_fn(*tangents: Any) -> Any:
        along = matching("jvp_fn", "tangents", tangents, primals)
        keep = _C.is_grad_enabled()
        with recording():
            found = pullback(rows, us, along, keep, others=plain_stands(inputs.stands))
        return build(found)

    return inputs.finished(out), jvp_fn
