"""Sums of products over named axes: `einsum` and `tensordot`.

What a call does depends on its equation and the shapes alone: a plan of it, a list of ops, is made once and kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau._no_tensor import wants_tensors
from flambeau._out import deliver

_LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_Shape = tuple[int, ...]
_Step = Callable[[list[Tensor]], None]


class _Plan:
    """The steps from operands to a result, which is the last operand that is left; `axes` are the labels of each."""

    def __init__(self, shapes: Iterable[_Shape], axes: Iterable[list[str]]) -> None:
        self.steps: list[_Step] = []
        self.shapes = [tuple(s) for s in shapes]
        self.axes = [list(a) for a in axes]

    def run(self, operands: Sequence[Tensor]) -> Tensor:
        values = list(operands)
        for step in self.steps:
            step(values)
        return values[0]

    def diagonal(self, k: int, i: int, j: int) -> None:
        """Of the axes i < j of operand k, which have one label."""

        def step(values: list[Tensor]) -> None:
            values[k] = ops.diagonal(values[k], 0, i, j)

        self.steps.append(step)
        label, size = self.axes[k][i], self.shapes[k][i]
        self.axes[k] = [c for n, c in enumerate(self.axes[k]) if n not in (i, j)] + [label]
        self.shapes[k] = (*(s for n, s in enumerate(self.shapes[k]) if n not in (i, j)), size)

    def sum(self, k: int, gone: Sequence[int], keep: bool = False) -> None:
        if not gone:
            return
        axes = list(gone)

        def step(values: list[Tensor]) -> None:
            x = values[k]
            values[k] = ops.sum(x, axes, keepdim=True, dtype=x.dtype) if keep else ops.sum(x, axes)

        self.steps.append(step)
        if keep:
            self.shapes[k] = tuple(1 if n in axes else s for n, s in enumerate(self.shapes[k]))
        else:
            self.axes[k] = [c for n, c in enumerate(self.axes[k]) if n not in axes]
            self.shapes[k] = tuple(s for n, s in enumerate(self.shapes[k]) if n not in axes)

    def stretch(self, k: int, size: dict[str, int]) -> None:
        """Axes of one element get the size that their label has."""
        wanted = tuple(size[c] for c in self.axes[k])
        if wanted == self.shapes[k]:
            return

        def step(values: list[Tensor]) -> None:
            values[k] = values[k].expand(wanted)

        self.steps.append(step)
        self.shapes[k] = wanted

    def permute(self, k: int, labels: list[str]) -> None:
        if labels == self.axes[k]:
            return
        order = [self.axes[k].index(c) for c in labels]

        def step(values: list[Tensor]) -> None:
            values[k] = values[k].permute(order)

        self.steps.append(step)
        self.axes[k], self.shapes[k] = list(labels), tuple(self.shapes[k][n] for n in order)

    def reshape(self, k: int, shape: _Shape) -> None:
        if shape == self.shapes[k]:
            return

        def step(values: list[Tensor]) -> None:
            values[k] = values[k].reshape(shape)

        self.steps.append(step)
        self.shapes[k] = shape

    def swap(self) -> None:
        """The first two operands change places."""

        def step(values: list[Tensor]) -> None:
            values[:2] = values[1], values[0]

        self.steps.append(step)
        self.axes[:2], self.shapes[:2] = self.axes[1::-1], self.shapes[1::-1]

    def join(self, later: set[str], size: dict[str, int], result: Sequence[str] = ()) -> None:
        """The first two operands become one: a product of matrices over the labels that both have and nobody needs afterwards.

        Axes of each part go in the order that they have in `result`, as far as they are there, so that results lie as PyTorch's do.
        """
        place = {c: k for k, c in enumerate(result)}

        def in_order(labels: Iterable[str]) -> list[str]:
            return sorted(labels, key=lambda c: place.get(c, len(place)))

        # Whether all that is summed is summed by the product: PyTorch lays the result out another way then.
        both = {c for c in self.axes[0] if c in self.axes[1] and size[c] != 1}
        only_inner = all(c in later or c in both for c in (*self.axes[0], *self.axes[1]))
        for k in (0, 1):
            gone = {c for c in self.axes[k] if c not in self.axes[1 - k] and c not in later}
            if gone:
                self.permute(k, in_order(self.axes[k]))
                self.sum(k, [n for n, c in enumerate(self.axes[k]) if c in gone])
        a, b = self.axes[0], self.axes[1]
        shared = [c for c in a if c in b]
        # What only one of them has keeps its size, which may be one, where a later operand stretches it.
        own = {c: n for axes, shape in zip((a, b), self.shapes, strict=False) for c, n in zip(axes, shape, strict=True)}
        size = {c: size[c] if c in shared else n for c, n in own.items()}
        self.stretch(0, size)
        self.stretch(1, size)
        batch, inner = in_order(c for c in shared if c in later), [c for c in shared if c not in later]
        rows, columns = in_order(c for c in a if c not in shared), in_order(c for c in b if c not in shared)
        # Results lie as [*batch, *rows, *columns], or with the columns first where that is their order in the result;
        # what has one element counts as columns.
        ones = [c for c in (*batch, *rows) if size[c] == 1]
        first_row = min((place.get(c, len(place)) for c in rows if size[c] != 1), default=-1)
        last_column = max((place.get(c, len(place)) for c in (*columns, *ones)), default=-1)
        if rows and columns and only_inner and first_row > last_column:
            self.swap()
            rows, columns = columns, rows
        whole = [*batch, *rows, *columns]
        # Where nothing is summed and one has all axes of the other, or a product of matrices would lie in another order than the result.
        elements = not inner and (not (rows and columns) or in_order(whole) != whole)
        product = ops.mul if elements else ops.bmm if batch else ops.mm
        if elements:
            whole = in_order(whole)
            for k in (0, 1):
                self.permute(k, [c for c in whole if c in self.axes[k]])
                self.reshape(k, tuple(size[c] if c in self.axes[k] else 1 for c in whole))
            self.shapes[0] = tuple(size[c] for c in whole)
        else:
            self.permute(0, [*batch, *rows, *inner])
            self.permute(1, [*batch, *inner, *columns])
            nb, nr, ni, nc = (math.prod(size[c] for c in part) for part in (batch, rows, inner, columns))
            many = (nb,) if batch else ()
            self.reshape(0, (*many, nr, ni))
            self.reshape(1, (*many, ni, nc))
            self.shapes[0] = (*many, nr, nc)

        def step(values: list[Tensor]) -> None:
            a, b = values[0], values[1]
            # Where nothing is summed this is a product of elements, which mixes types, as `arange(n)` with frequencies of float32.
            values[0] = ops.mul(a, b) if not inner and a.dtype != b.dtype else product(a, b)
            del values[1]

        self.steps.append(step)
        self.axes[0] = whole
        self.reshape(0, tuple(size[c] for c in whole))
        del self.axes[1], self.shapes[1]


@functools.lru_cache(maxsize=512)
def _contraction(a: _Shape, b: _Shape, left: _Shape, right: _Shape) -> _Plan:
    """Of `tensordot`; the axes are in order and distinct."""
    names = [f"{k}" for k in range(len(left))]
    axes = [[f"a{k}" for k in range(len(a))], [f"b{k}" for k in range(len(b))]]
    for name, i, j in zip(names, left, right, strict=True):
        axes[0][i] = axes[1][j] = name
    plan = _Plan((a, b), axes)
    for i, j in zip(left, right, strict=True):  # an axis of one element meets any
        if a[i] == 1 != b[j]:
            plan.sum(1, [j], keep=True)
        elif b[j] == 1 != a[i]:
            plan.sum(0, [i], keep=True)
    if [plan.shapes[0][i] for i in left] != [plan.shapes[1][j] for j in right]:
        i, j = next((i, j) for i, j in zip(left, right, strict=True) if 1 != a[i] != b[j] != 1)
        raise _C.ShapeError(
            f"tensordot: contracted dimensions need to match, but first has size {a[i]} in dim {i} and second has size {b[j]} in dim {j}: "
            f"axes {list(left)} of a {list(a)} and {list(right)} of b {list(b)}"
        )
    # The axes that meet go in the order in which they are given.
    kept = [[c for c in part if c not in names] for part in axes]
    plan.permute(0, [*kept[0], *names])
    plan.permute(1, [*names, *kept[1]])
    size = {c: n for part, shape in zip(plan.axes, plan.shapes, strict=True) for c, n in zip(part, shape, strict=True)}
    plan.join({*kept[0], *kept[1]}, size)
    return plan


@wants_tensors
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sum of products over several axes of both tensors.

    Args:
        dims: how many last axes of `a` meet first axes of `b`, or two lists of axes; a tensor of one number or of two rows is the same.

    Raises:
        ShapeError: axes of different sizes.
        RangeError: an axis that a tensor does not have.

    Example:
        >>> import flambeau as fl
        >>> fl.tensordot(fl.ones(2, 3, 4), fl.ones(3, 4, 5), dims=2).shape
        flambeau.Size([2, 5])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else dims.item()
    if isinstance(dims, (int, Integral)):
        dims = int(dims)
        if not 0 <= dims <= min(a.ndim, b.ndim):
            most = f"a has shape {list(a.shape)} and b {list(b.shape)}"
            bound = "dims >= 0" if dims < 0 else "dims < ndim_a or ndim_b"
            raise _C.ArgumentError(f"tensordot expects {bound}, but got dims={dims}: {most}")
        left, right = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    else:
        first, second = dims
        left, right = _axes_of("a", a, first), _axes_of("b", b, second)
        if len(left) != len(right):
            raise _C.ArgumentError(
                f"tensordot: both dimension lists should have same length: dims names {len(left)} axes of a and {len(right)} of b"
            )
    product: Tensor = deliver("tensordot", _contraction(tuple(a.shape), tuple(b.shape), left, right).run((a, b)), out)
    return product


def _axes_of(name: str, x: Tensor, given: Any) -> tuple[int, ...]:
    axes = [int(given)] if isinstance(given, (int, Integral)) else [int(d) for d in given]
    n = x.ndim
    for d in axes:
        if not -n <= d < n:
            raise no_such_axis("tensordot", "an axis", d, x.shape, name)
    axes = [d % n for d in axes]
    if len(set(axes)) != len(axes):
        raise _C.ArgumentError(f"tensordot: axes {axes} of {name} are repeated; expected distinct axes")
    return tuple(axes)


def _spelled(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """`x, [0, 1], y, [1, 2], [0, 2]` as an equation and its operands: numbers from 0 to 51 are A to Z, a to z."""

    def term(labels: Any) -> str:
        letters = []
        for label in labels:
            if label is not Ellipsis and not (isinstance(label, int) and 0 <= label < 52):
                raise _C.ArgumentError(f"einsum: {label!r} in the labels {list(labels)}; expected numbers from 0 to 51, or Ellipsis")
            letters.append("..." if label is Ellipsis else _LABELS[label])
        return "".join(letters)

    n = len(args)
    args = tuple(x.tolist() if isinstance(x, Tensor) and (k % 2 or (n % 2 and k == n - 1)) else x for k, x in enumerate(args))
    pairs, out = (args[:-1], args[-1]) if n % 2 else (args, None)
    for labels in (*pairs[1::2], *([] if out is None else [out])):
        if not isinstance(labels, (list, tuple)):
            raise TypeError(f"einsum: a {type(labels).__name__} where a list of labels goes; expected tensors and lists of numbers in turn")
    equation = ",".join(map(term, pairs[1::2]))
    return equation if out is None else f"{equation}->{term(out)}", pairs[::2]


@functools.lru_cache(maxsize=512)
def _summation(equation: str, shapes: tuple[_Shape, ...]) -> _Plan:
    """Of `einsum`."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        kind = "more" if len(shapes) > len(terms) else "fewer"
        raise _C.ArgumentError(
            f"einsum: '{equation}' names {len(terms)} operands, but {len(shapes)} were given "
            f"({kind} operands were provided than specified in the equation)"
        )
    dots = 0
    parsed: list[list[str]] = []
    for term, shape in zip(terms, shapes, strict=True):
        head, ellipsis, tail = term.partition("...")
        if not all(c.isalpha() for c in head + tail):
            raise _C.ArgumentError(
                f"einsum: invalid subscript given in '{term}' of the equation string '{equation}', subscripts must be in [a-zA-Z]"
            )
        free = len(shape) - len(head) - len(tail)
        if free < 0 or (free and not ellipsis):
            n, why = len(head) + len(tail), "" if ellipsis else " and no ellipsis was given"
            raise _C.ArgumentError(
                f"einsum: the number of subscripts in the equation ({n}) does not match the number of dimensions ({len(shape)}){why}: "
                f"'{term}' for an operand of shape {list(shape)}"
            )
        dots = max(dots, free)
        parsed.append([*head, *[f"...{k}" for k in range(free, 0, -1)], *tail])
    ellipsis_labels = [f"...{k}" for k in range(dots, 0, -1)]
    if arrow:
        head, ellipsis, tail = out.partition("...")
        result = [*head, *(ellipsis_labels if ellipsis else []), *tail]
    else:
        letters = [c for term in parsed for c in term if not c.startswith(".")]
        result = [*ellipsis_labels, *sorted(c for c in set(letters) if letters.count(c) == 1)]
    known = {c for term in parsed for c in term}
    for c in result:
        if c not in known or result.count(c) > 1:
            twice = result.count(c) > 1
            phrase = "appears more than once in the output" if twice else "does not appear in the equation for any input operand"
            raise _C.ArgumentError(f"einsum: output subscript {c} {phrase}: '{equation}'")

    plan = _Plan(shapes, parsed)
    size: dict[str, int] = {}
    first: dict[str, int] = {}  # the operand that a size is from
    for k in range(len(shapes)):
        for c in [c for c in dict.fromkeys(plan.axes[k]) if plan.axes[k].count(c) > 1]:
            while plan.axes[k].count(c) > 1:  # a repeated label is a diagonal
                i = plan.axes[k].index(c)
                plan.diagonal(k, i, plan.axes[k].index(c, i + 1))
        for c, n in zip(plan.axes[k], plan.shapes[k], strict=True):
            if size.get(c, 1) not in (1, n) and n != 1:
                raise _C.ArgumentError(
                    f"einsum: subscript {c} has size {n} for operand {k} which does not broadcast with previously seen size {size[c]} of "
                    f"operand {first[c]} ('{equation}')"
                )
            if size.get(c, 1) == 1:
                size[c], first[c] = n, k
    while len(plan.axes) > 1:
        plan.join({*result, *(c for axes in plan.axes[2:] for c in axes)}, size, result)
    plan.sum(0, [n for n, c in enumerate(plan.axes[0]) if c not in result])
    plan.permute(0, result)
    return plan


@wants_tensors
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein summation: products of operands summed over the labels that are missing from the output.

    Instead of an equation each operand may be followed by the list of its labels, numbers from 0 to 51 or Ellipsis, and the labels of
    the result may end the call: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    Supports `...`, repeated labels (diagonals) and an implicit output (labels that occur once, sorted).
    Operands are joined from left to right, each pair by one batched matrix product.

    Raises:
        ValueError: an equation that does not fit the operands.

    Example:
        >>> import flambeau as fl
        >>> fl.einsum("ij,jk->ik", fl.ones(2, 3), fl.ones(3, 4)).shape
        flambeau.Size([2, 4])
    """
    if not isinstance(equation, str):
        equation, operands = _spelled((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    found = _summation(equation, tuple([tuple(x.shape) for x in operands])).run(operands)
    return found.view_as(found) if found is operands[0] else found  # a view, as a transposed one is
