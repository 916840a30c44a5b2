"""Gradients against finite differences.

A complex number counts as two real ones, its parts: with respect to both of them the gradient of a real function f by z = x + i y is
df/dx + i df/dy, and an output is two functions, its real part (which the gradient 1 asks for) and its imaginary part (i).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.autograd.backward import grad
from flambeau.autograd.modes import no_grad


class GradcheckError(RuntimeError):
    """The computed gradient differs from finite differences."""


def _outputs(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    result = function(*inputs)
    every = list(result) if isinstance(result, (tuple, list)) else [result]
    return [y for y in every if isinstance(y, Tensor) and (y.is_floating_point() or y.is_complex())]


def _parts(x: Tensor) -> tuple[complex, ...]:
    """Steps along the real numbers that an element is made of."""
    return (1, 1j) if x.is_complex() else (1,)


def _flat(x: Tensor) -> list[float]:
    return list((flambeau.view_as_real(x) if x.is_complex() else x).reshape(-1).tolist())


def _numeric(function: Callable[..., Any], inputs: Sequence[Any], x: Tensor, eps: float) -> list[list[list[float]]]:
    """Per part of an element of x and per output, the central differences of the output's elements."""
    rows = []
    with no_grad():
        # A copy is moved, so that what the graph has saved stays as it was.
        moved = x.detach().clone().requires_grad_(x.requires_grad)
        args = [moved if a is x else a for a in inputs]
        for index in _indices(moved.shape):
            before = moved[index].item()
            for step in _parts(moved):
                moved[index] = before + eps * step
                high = [y.detach().clone() for y in _outputs(function, args)]
                moved[index] = before - eps * step
                low = [y.detach().clone() for y in _outputs(function, args)]
                moved[index] = before
                rows.append([_flat((h - lo) / (2 * eps)) for h, lo in zip(high, low, strict=True)])
    return rows


def _indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = [()]
    for n in shape:
        out = [(*i, k) for i in out for k in range(n)]
    return out


def _refuse(op: str, **wanted: bool) -> None:
    for name, value in wanted.items():
        if value:
            raise NotImplementedError(f"{op}: {name} = {value}; expected False: backward alone is compared with finite differences")


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

    Use float64 or complex128 inputs: float32 has too few digits for the default eps. What else PyTorch's function may compare beside
    backward (forward mode, gradients of batches) is refused; the other arguments make its check shorter or stricter in ways that change
    nothing here.

    Raises:
        NotImplementedError: something beside backward is to be compared.
        GradcheckError: with input, output and both values, unless `raise_exception` is False.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([0.5, 1.5], dtype=fl.float64, requires_grad=True)
        >>> fl.autograd.gradcheck(fl.sin, (x,))
        True
    """
    _refuse("gradcheck", check_batched_grad=check_batched_grad, check_batched_forward_grad=check_batched_forward_grad)
    _refuse("gradcheck", check_forward_ad=check_forward_ad)
    if not check_backward_ad:
        raise NotImplementedError("gradcheck: check_backward_ad = False; expected True: backward is what is compared")
    every = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [x for x in every if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck: no input requires grad; expected at least one")
    outputs = _outputs(func, every)
    for k, x in enumerate(wanted):
        numeric = _numeric(func, every, x, eps)
        places = [i for i in _indices(x.shape) for _ in _parts(x)]
        for j, y in enumerate(outputs):
            seeds = [(index, unit) for index in _indices(y.shape) for unit in _parts(y)]
            for a, (index, unit) in enumerate(seeds):
                row = [0.0] * len(places)
                if y.requires_grad:
                    seed = flambeau.zeros_like(y)
                    seed[index] = unit
                    (g,) = grad(y, x, seed, retain_graph=True, allow_unused=True)
                    row = row if g is None else _flat(g.detach())
                for b, got in enumerate(row):
                    expected = numeric[b][j][a]
                    if abs(got - expected) > atol + rtol * abs(expected) or (got != got) != (expected != expected):
                        if not raise_exception:
                            return False
                        raise GradcheckError(
                            f"gradcheck: d output[{j}]{list(index)} / d input[{k}]{list(places[b])}: backward gives {got}, "
                            f"finite differences {expected} (atol {atol}, rtol {rtol})"
                        )
    return True


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
    """`gradcheck` of the gradient: second derivatives against finite differences of the first."""
    _refuse("gradgradcheck", check_batched_grad=check_batched_grad, check_fwd_over_rev=check_fwd_over_rev)
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

    return gradcheck(recorded, [*every, *seeds], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
