"""Derivatives by reverse mode: `grad`, `grad_and_value`, `vjp`, `jacrev`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Literal, ParamSpec, overload

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import RefusedElementsError, RefusedTypeError
from flambeau._info import a_function
from flambeau.func._levels import dtype_of, shape_of
from flambeau.func._pullback import (
    differentiating,
    end,
    finished,
    pullback,
    pullbacks,
    recording,
    running_batches,
    stand_in,
)
from flambeau.func._tree import Make, chosen, flatten, structure, tree_map

Argnums = int | tuple[int, ...]
P = ParamSpec("P")


class Inputs:
    """What a function is differentiated by: leaves of some of its arguments, and their stand-ins."""

    def __init__(self, op: str, args: Sequence[Any], argnums: Argnums) -> None:
        self.positions, self.many = chosen(op, argnums, args)
        self.keep = _C.is_grad_enabled()
        trees = [args[n] for n in self.positions]
        self.given, self._build = flatten(trees)
        for i, leaf in enumerate(self.given):
            check_leaf(op, "input", i, leaf)
        levels = running_batches()
        with recording():
            self.stands = [stand_in(x, levels, self.keep) for x in self.given]
        self.args = list(args)
        for n, tree in zip(self.positions, self._build(self.stands), strict=True):
            self.args[n] = tree

    def shaped(self, leaves: list[Any]) -> Any:
        """Values, one per leaf, shaped as the arguments are."""
        trees = self._build(leaves)
        return tuple(trees) if self.many else trees[0]

    def finished(self, tree: Any) -> Any:
        """Results without a graph that leads to the stand-ins alone."""
        return tree_map(lambda x: finished(x, self.stands, self.keep), tree)


def check_leaf(op: str, what: str, i: int, leaf: Any) -> None:
    """Raises for what has no derivative."""
    if not isinstance(leaf, Tensor):
        raise RefusedTypeError(f"{op}: {what} {i} is a {type(leaf).__name__}; expected tensors, or tuples, lists and dicts of them")
    dtype = dtype_of(leaf)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RefusedElementsError(
            f"{op}: {what} {i} is {dtype}, but only Tensors of floating point dtype (or complex ones) have gradients; convert it: x.float()"
        )


def check_real(op: str, what: str, leaves: Sequence[Any]) -> None:
    """Raises for complex tensors, whose Jacobian would be two: by real and by imaginary parts."""
    for i, leaf in enumerate(leaves):
        check_leaf(op, what, i, leaf)
        if dtype_of(leaf).is_complex:
            raise _C.DTypeError(f"{op}: {what} {i} is {dtype_of(leaf)}; expected a real tensor (view_as_real)")


def with_aux(op: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """The result, and what is handed on beside it."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RefusedTypeError(f"{op}: has_aux=True, but the function returned a {type(result).__name__}; expected a tuple (output, aux)")
    return result


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, and the value of `func`.

    Args:
        func: returns a tensor of one number, shape []; with `has_aux` a tuple of it and anything else.
        argnums: by which positional arguments is differentiated: a position, or several, which makes the gradient a tuple.
        has_aux: the result is then (gradient, (value, aux)).

    Raises:
        TypeError, ShapeError: the function returns something else than a number.

    Example:
        >>> import flambeau as fl
        >>> fl.func.grad_and_value(lambda x: (x * x).sum())(fl.tensor([1.0, 2.0]))
        (tensor([2., 4.]), tensor(5.))
    """
    a_function("grad_and_value", func)

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        inputs = Inputs("grad", args, argnums)
        with differentiating():
            value, aux = with_aux("grad", func(*inputs.args, **kwargs), has_aux)
            if not isinstance(value, Tensor):
                raise RefusedTypeError(f"grad: Expected f(*args) to return a Tensor of shape [], got {type(value).__name__}")
            if shape_of(value) != ():
                got = f"the function returned shape {list(shape_of(value))}"
                raise _C.ShapeError(
                    f"grad: Expected f(*args) to return a scalar Tensor, but {got}; expected shape [] (or use vjp or jacrev)"
                )
            if dtype_of(value).is_complex:
                raise _C.DTypeError(f"grad: the function returned a {dtype_of(value)} number; expected a real one (abs, real, or use vjp)")
            found = pullback([value], inputs.stands, [ops.ones_like(value)], inputs.keep, retain=has_aux)
        value, aux = inputs.finished((value, aux))
        end(inputs.stands)
        return inputs.shaped(found), ((value, aux) if has_aux else value)

    return differentiated


@overload
def grad(func: Callable[P, Tensor], argnums: int = ..., has_aux: Literal[False] = ...) -> Callable[P, Tensor]: ...


@overload
def grad(func: Callable[P, Tensor], argnums: tuple[int, ...], has_aux: Literal[False] = ...) -> Callable[P, tuple[Tensor, ...]]: ...


@overload
def grad(func: Callable[P, Any], argnums: Argnums = ..., has_aux: bool = ...) -> Callable[P, Any]: ...


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`; arguments as of `grad_and_value`.

    With `has_aux` it returns (gradient, aux).

    Example:
        >>> import flambeau as fl
        >>> from flambeau.func import grad
        >>> grad(grad(lambda x: x ** 3))(fl.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return differentiated


def outputs(op: str, out: Any) -> tuple[list[Tensor], Make]:
    """The tensors that a function returned, and what puts others in their places."""
    leaves, build = flatten(out)
    if not leaves:
        raise _C.ArgumentError(f"{op}: the function returned {out!r}; expected at least one tensor")
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            raise RefusedTypeError(
                f"{op}: expected the function to return only tensors, or tuples, lists and dicts of them, "
                f"got unsupported type {type(leaf)} at {i}"
            )
    return leaves, build


def called(op: str, inputs: Inputs, func: Callable[..., Any], has_aux: bool, kwargs: dict[str, Any]) -> tuple[Any, list[Tensor], Make, Any]:
    """The function's result, its leaves, what puts others in their places, and what it returns beside it."""
    out, aux = with_aux(op, func(*inputs.args, **kwargs), has_aux)
    leaves, build = outputs(op, out)
    for i, leaf in enumerate(leaves):
        check_leaf(op, "output", i, leaf)
    return out, leaves, build, aux


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """func(*primals), and a function that multiplies its Jacobian there from the left.

    Returns:
        (output, vjp_fn), or (output, vjp_fn, aux). `vjp_fn(v)`, with v shaped as the output, returns a tuple with a product for each
        of the primals, and can be called again, and mapped over by `vmap`.

    Raises:
        TypeError: primals or outputs that are no tensors.
        ValueError, ShapeError: v has another structure or other shapes than the output.

    Example:
        >>> import flambeau as fl
        >>> y, vjp_fn = fl.func.vjp(fl.exp, fl.zeros(2))
        >>> vjp_fn(fl.tensor([1.0, 3.0]))
        (tensor([1., 3.]),)
    """
    a_function("vjp", func)
    if not primals:
        raise ValueError("vjp: there are no primals; expected at least one tensor to differentiate by")
    inputs = Inputs("vjp", primals, tuple(range(len(primals))))
    with differentiating():
        out, leaves, _, aux = called("vjp", inputs, func, has_aux, {})

    def vjp_fn(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        vs = matching("vjp_fn", "v", given, out)
        keep = _C.is_grad_enabled() if create_graph is None else create_graph
        with recording():
            return inputs.shaped(pullback(leaves, inputs.stands, vs, keep, retain_graph))

    value, aux = inputs.finished((out, aux))
    return (value, vjp_fn, aux) if has_aux else (value, vjp_fn)


def matching(op: str, what: str, tree: Any, like: Any) -> list[Tensor]:
    """The leaves of a tree that is shaped as another one, in its types."""
    found, wanted = flatten(tree)[0], flatten(like)[0]
    if len(found) != len(wanted):
        raise _C.ArgumentError(f"{op}: {what} has {len(found)} tensors; expected {len(wanted)}, in the structure that they are for")
    if structure(tree) != structure(like):
        raise _C.ArgumentError(f"{op}: {what} is {structure(tree)}; expected {structure(like)}, the structure that it is for")
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if not isinstance(a, Tensor):
            raise RefusedTypeError(f"{op}: {what} has a {type(a).__name__} at {i}; expected tensors")
        if shape_of(a) != shape_of(b):
            raise _C.ShapeError(f"{op}: {what} has shape {list(shape_of(a))} at {i}; expected {list(shape_of(b))}")
    return [a if dtype_of(a) is dtype_of(b) else a.to(dtype_of(b)) for a, b in zip(found, wanted, strict=True)]


def units(like: Tensor) -> Tensor:
    """A tensor with a one at k and zeros elsewhere, shaped as `like`, for each k: [numel, *shape]."""
    shape = shape_of(like)
    count = math.prod(shape)
    return ops.reshape(ops.eye(count, dtype=dtype_of(like), device=like.device), (count, *shape))


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, by a backward for each element of its outputs.

    Args:
        func: of tensors, or structures of them; returns such. With `has_aux` a tuple of them and anything else.
        argnums: by which positional arguments is differentiated: a position, or several, which makes the Jacobian a tuple.
        chunk_size, _preallocate_and_copy: accepted for PyTorch's sake; rows are computed one by one, and take no memory beside their own.

    Returns:
        The function. A Jacobian has the output's structure, in place of each tensor the structure of the arguments, and in place of
        their tensors [*output.shape, *input.shape].

    Example:
        >>> import flambeau as fl
        >>> fl.func.jacrev(lambda x: x * x)(fl.tensor([1.0, 3.0]))
        tensor([[2., 0.],
                [0., 6.]])
    """
    a_function("jacrev", func)
    if chunk_size is not None and (isinstance(chunk_size, bool) or not isinstance(chunk_size, (int, Integral)) or chunk_size < 1):
        raise RefusedTypeError(f"jacrev: chunk_size = {chunk_size!r}; expected None or at least 1")

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        inputs = Inputs("jacrev", args, argnums)
        check_real("jacrev", "input", inputs.given)
        with differentiating():
            _, leaves, build, aux = called("jacrev", inputs, func, has_aux, kwargs)
            check_real("jacrev", "output", leaves)
            blocks = [inputs.shaped(_rows(y, inputs)) for y in leaves]
        aux = inputs.finished(aux)
        end(inputs.stands)
        return (build(blocks), aux) if has_aux else build(blocks)

    return differentiated


def _rows(y: Tensor, inputs: Inputs) -> list[Tensor]:
    """The Jacobian of one output by every input."""
    shape = shape_of(y)
    if math.prod(shape) == 0:
        return [ops.zeros((*shape, *shape_of(x)), dtype=dtype_of(x), device=x.device) for x in inputs.given]
    if math.prod(shape) == 1:
        found = pullback([y], inputs.stands, [ops.ones_like(y)], inputs.keep)
        return [ops.reshape(g, (*shape, *shape_of(x))) if shape else g for g, x in zip(found, inputs.given, strict=True)]
    rows = pullbacks(y, inputs.stands, units(y).unbind(0), inputs.keep)
    columns = [[g.to_dense() if g.is_sparse else g for g in column] for column in zip(*rows, strict=True)]
    return [ops.reshape(ops.stack(column), (*shape, *shape_of(x))) for column, x in zip(columns, inputs.given, strict=True)]
