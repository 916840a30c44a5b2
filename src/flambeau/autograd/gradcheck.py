"""Gradients against finite differences.

A complex number counts as two real ones, its parts: with respect to both of them the gradient of a real function f by z = x + i y is
df/dx + i df/dy, and an output is two functions, its real part (which the gradient 1 asks for) and its imaginary part (i).

A sparse input is its values: its elements at other places are no arguments, as gradients by it have none there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.autograd._edges import is_sparse
from flambeau.autograd.backward import grad


class GradcheckError(RuntimeError):
    """The computed gradient differs from finite differences."""


def _outputs(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    result = function(*inputs)
    every = list(result) if isinstance(result, (tuple, list)) else [result]
    every = [y.to_dense() if is_sparse(y) else y for y in every]
    return [y for y in every if isinstance(y, Tensor) and (y.is_floating_point() or y.is_complex())]


def _elements(x: Any) -> Tensor:
    """What an input's elements are in: itself, or its values."""
    found: Tensor = x._val if is_sparse(x) else x
    return found


def _parts(x: Tensor) -> tuple[complex, ...]:
    """Steps along the real numbers that an element is made of."""
    return (1, 1j) if x.is_complex() else (1,)


def _flat(x: Tensor) -> list[float]:
    return list((flambeau.view_as_real(x) if x.is_complex() else x).reshape(-1).tolist())


def _numeric(function: Callable[..., Any], inputs: Sequence[Any], x: Tensor, eps: float) -> list[list[list[float]]]:
    """Per part of an element of x and per output, the central differences of the output's elements."""
    # x itself is moved, since the function may know it by another way than its arguments, as the parameter of a module. Where elements
    # lie in one place a copy is.
    own = _elements(x)
    moved = x.detach().clone().requires_grad_() if any(n > 1 and step == 0 for n, step in zip(own.shape, own.stride())) else x
    args = [moved if a is x else a for a in inputs]
    cells = _elements(moved).data  # writes to it are no writes to what a graph has saved
    rows = []
    for index in _indices(cells.shape):
        before = cells[index].item()
        try:
            for step in _parts(moved):
                cells[index] = before + eps * step
                high = [y.detach().clone() for y in _outputs(function, args)]
                cells[index] = before - eps * step
                low = [y.detach().clone() for y in _outputs(function, args)]
                rows.append([_flat((h - lo) / (2 * eps)) for h, lo in zip(high, low, strict=True)])
        finally:
            cells[index] = before
    return rows


def _indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = [()]
    for n in shape:
        out = [(*i, k) for i in out for k in range(n)]
    return out


def _refuse(op: str, **wanted: bool) -> None:
    for name, value in wanted.items():
        if value:
            raise NotImplementedError(f"{op}: {name} = {value}; expected False: this is not compared here")


@wants_tensors
def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares backward with central differences, for every input that requires grad and every output.

    Use float64 or complex128 inputs: float32 has too few digits for the default eps. With `check_forward_ad` the tangents of forward mode
    are compared, too, and with `check_backward_ad=False` they alone. Of a sparse input the values are moved, whether or not `masked` says
    so, and a sparse output is compared as a dense one. A second backward must give the same numbers, up to `nondet_tol`, and gradients 0 of
    the outputs must give 0. `check_batched_grad` compares gradients by `vmap` with those one by one, `check_batched_forward_grad` the
    tangents of forward mode. The other arguments make PyTorch's check shorter or stricter in ways that change nothing.

    Raises:
        ValueError: no input requires grad.
        AssertionError: nothing is to be compared.
        GradcheckError: with input, output and both values, unless `raise_exception` is False.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([0.5, 1.5], dtype=fl.float64, requires_grad=True)
        >>> fl.autograd.gradcheck(fl.sin, (x,))
        True
    """
    if not check_backward_ad and not check_forward_ad:
        raise AssertionError("gradcheck: Expected at least one of check_forward_ad and check_backward_ad to be True")
    every = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [x for x in every if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck: no input requires grad; it expects at least one input tensor to require gradient")
    for k, x in enumerate(every):
        if isinstance(x, Tensor) and x.requires_grad and x.dtype not in (_C.float64, _C.complex128):
            dtype = "complex128" if x.is_complex() else "float64"
            warn(f"gradcheck: input[{k}] is {x.dtype}, which has too few digits for finite differences; expected {dtype}")
            break
    differences = [_numeric(func, every, x, eps) for x in wanted]
    outputs = _outputs(func, every)  # whose graph is made once nothing is moved any more
    at_zero = _at_zero(wanted, outputs) if check_backward_ad else [None] * len(wanted)
    for k, (x, g) in enumerate(zip(wanted, at_zero)):
        if g is not None and is_sparse(g) != is_sparse(x):
            if not raise_exception:
                return False
            raise GradcheckError(f"gradcheck: grad is incorrect layout by input[{k}]: {g.layout}, where the input is {x.layout}")
    for k, (x, numeric) in enumerate(zip(wanted, differences)):
        places = [i for i in _indices(_elements(x).shape) for _ in _parts(x)]
        for way, rows in (("backward", _backward_rows), ("forward mode", _forward_rows)):
            if not (check_backward_ad if way == "backward" else check_forward_ad):
                continue
            again = rows(func, every, x, outputs) if way == "backward" else None
            for j, a, b, got in rows(func, every, x, outputs):
                if again is not None and not _same(got, second := next(again)[3], nondet_tol):
                    if not raise_exception:
                        return False
                    raise GradcheckError(
                        f"gradcheck: Backward is not reentrant: of output[{j}] it gives {got} and then {second} by the same element of "
                        f"input[{k}] (nondet_tol {nondet_tol}); expected the same numbers of each call"
                    )
                expected = numeric[b][j][a]
                if abs(got - expected) > atol + rtol * abs(expected) or (got != got) != (expected != expected):
                    if not raise_exception:
                        return False
                    index = [i for i in _indices(outputs[j].shape) for _ in _parts(outputs[j])][a]
                    phrase = "Jacobian mismatch" if way == "backward" else "Jacobian computed with forward mode mismatch"
                    raise GradcheckError(
                        f"gradcheck: {phrase} for output {j} with respect to input {k}: "
                        f"d output[{j}]{list(index)} / d input[{k}]{list(places[b])}: {way} gives {got}, "
                        f"finite differences {expected} (atol {atol}, rtol {rtol})"
                        + ("" if outputs[j].requires_grad else " (Numerical gradient for function expected to be zero)")
                    )
    for k, g in enumerate(at_zero):
        if g is not None and bool((_elements(g.detach()).abs() > 0).any()):
            if not raise_exception:
                return False
            raise GradcheckError(
                f"gradcheck: backward gives a gradient by input[{k}] that is not 0 where those of all outputs are; "
                "it has to multiply by them (backward not multiplied by grad_output)"
            )
    wrong = check_batched_grad and _wrong_batch("backward", func, every, wanted, atol, rtol)
    wrong = wrong or (check_batched_forward_grad and _wrong_batch("forward mode", func, every, wanted, atol, rtol))
    if wrong and raise_exception:
        raise GradcheckError(f"gradcheck: {wrong}")
    return not wrong


def _same(a: float, b: float, tolerance: float) -> bool:
    return a == b or abs(a - b) <= tolerance or (a != a and b != b)


def _at_zero(wanted: Sequence[Tensor], outputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradients where those of all outputs are 0."""
    seen = [y for y in outputs if y.requires_grad]
    if not seen:
        return [None] * len(wanted)
    return grad(seen, wanted, [flambeau.zeros_like(y) for y in seen], retain_graph=True, allow_unused=True)


def _wrong_batch(way: str, func: Any, inputs: Sequence[Any], wanted: Sequence[Tensor], atol: float, rtol: float) -> str:
    """What is wrong with derivatives of a batch of directions by `vmap`; nothing where they are those of one after the other."""
    from flambeau.func import jvp, vjp, vmap

    places = [k for k, x in enumerate(inputs) if any(x is w for w in wanted)]

    def function(*xs: Tensor) -> tuple[Tensor, ...]:
        args = list(inputs)
        for k, x in zip(places, xs, strict=True):
            args[k] = x
        return tuple(_outputs(func, args))

    at = tuple(inputs[k].detach() for k in places)
    if way == "backward":
        like, pull = vjp(function, *at)
        call: Any = lambda *seeds: pull(seeds)  # noqa: E731
    else:
        like, call = at, lambda *directions: jvp(function, at, directions)[1]
    generator = flambeau.Generator().manual_seed(0)
    try:
        batch = tuple(flambeau.randn((2, *x.shape), dtype=x.dtype, generator=generator) for x in like)
        together = vmap(call)(*batch)
    except Exception as error:
        return f"{way} of a batch of directions by vmap failed: {type(error).__name__}: {error}"
    for k in range(2):
        for j, (a, b) in enumerate(zip(together, call(*[x[k] for x in batch]), strict=True)):
            if not flambeau.allclose(a[k], b, atol=atol, rtol=rtol, equal_nan=True):
                values = f"{a[k].tolist()}, {b.tolist()}"
                return f"{way} of a batch of directions by vmap differs from one after the other in result {j}: {values}"
    return ""


def _backward_rows(function: Any, inputs: Any, x: Tensor, outputs: Sequence[Tensor]) -> Iterator[tuple[int, int, int, float]]:
    """Output, part of its elements, part of those of x, and what backward says of them."""
    for j, y in enumerate(outputs):
        for a, (index, unit) in enumerate((index, unit) for index in _indices(y.shape) for unit in _parts(y)):
            row = [0.0] * (_elements(x).numel() * len(_parts(x)))
            if y.requires_grad:
                seed = flambeau.zeros_like(y)
                seed[index] = unit
                (g,) = grad(y, x, seed, retain_graph=True, allow_unused=True)
                row = row if g is None else _flat(_elements(g.detach()))
            yield from ((j, a, b, got) for b, got in enumerate(row))


def _forward_rows(function: Any, inputs: Sequence[Any], x: Tensor, outputs: Any) -> Iterator[tuple[int, int, int, float]]:
    """The same of forward mode, which goes through the function once for each part of x."""
    from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual

    for b, (index, unit) in enumerate((index, unit) for index in _indices(x.shape) for unit in _parts(x)):
        direction = flambeau.zeros_like(x.detach())
        direction[index] = unit
        with dual_level():
            dual = make_dual(x, direction)
            found = [unpack_dual(y) for y in _outputs(function, [dual if i is x else i for i in inputs])]
        for j, (y, tangent) in enumerate(found):
            row = _flat((flambeau.zeros_like(y) if tangent is None else tangent).detach())
            yield from ((j, a, b, got) for a, got in enumerate(row))


@wants_tensors
def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    gen_non_contig_grad_outputs: bool = False,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradient: second derivatives, by backward of backward, against finite differences of the first."""
    _refuse("gradgradcheck", check_fwd_over_rev=check_fwd_over_rev)
    if not check_rev_over_rev:
        raise NotImplementedError("gradgradcheck: check_rev_over_rev = False; expected True: backward of backward is what is compared")
    every = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    outputs = [y for y in _outputs(func, every) if y.requires_grad]
    if grad_outputs is None:
        generator = flambeau.Generator().manual_seed(0)
        seeds = [flambeau.randn(y.shape, dtype=y.dtype, generator=generator).requires_grad_() for y in outputs]
    else:
        seeds = list(grad_outputs)
    count = len(every)

    def first(*args: Any) -> tuple[Tensor, ...]:
        xs, gs = args[:count], args[count:]
        ys = [y for y in _outputs(func, xs) if y.requires_grad]
        need = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        with flambeau.enable_grad():
            found = grad(ys, need, list(gs), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    def recorded(*args: Any) -> tuple[Tensor, ...]:
        with flambeau.enable_grad():
            return first(*args)

    return gradcheck(
        recorded,
        [*every, *seeds],
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_batched_grad=check_batched_grad,
    )
