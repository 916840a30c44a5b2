"""Derivatives of functions as wholes: products with Jacobians and Hessians, and these themselves.

Products with a Jacobian from the right come from differentiating those from the left, so all of it is backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._errors import AssertedValueError, RefusedTypeError
from flambeau._info import a_function
from flambeau.autograd.backward import grad
from flambeau.autograd.modes import enable_grad, set_grad_enabled

Tensors = tuple[Tensor, ...]


def _listed(op: str, what: str, value: Any) -> tuple[Tensors, bool]:
    """The tensors of a tensor or a tuple of them, and whether it was a tuple."""
    many = isinstance(value, tuple)
    items = value if many else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            whose = "outputs of the user-provided function" if what == "outputs" else what
            raise TypeError(
                f"{op}: {what}[{i}] is a {type(item).__name__} (The {whose} given to {op} must be either a Tensor or a tuple of Tensors)"
            )
    return items, many


def _inputs(op: str, value: Any, create_graph: bool) -> tuple[Tensors, bool]:
    """What the function is called with: the inputs, or copies that begin a graph of their own."""
    items, many = _listed(op, "inputs", value)
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in items), many


def _begun(items: Tensors, create_graph: bool) -> Tensors:
    """The inputs; instead of those without a graph aliases that begin one, where the result shall have it."""
    return tuple(x.detach().requires_grad_() if create_graph and not x.requires_grad else x for x in items)


def _directions(op: str, v: Any, like: Tensors, many: bool) -> Tensors:
    """v, or ones where it may be left out."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{op}: The vector v can only be None if there is a single tensor of one element to give it")
        return (ops.ones_like(like[0]),)
    given, _ = _listed(op, "v", v)
    if len(given) != len(like):
        raise RuntimeError(f"{op}: v has {len(given)} tensors; expected {len(like)}")
    for i, (a, b) in enumerate(zip(given, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"{op}: v has invalid size: should be {b.shape} but got {a.shape} (v[{i}])")
    return tuple(x.detach() if not x.requires_grad else x for x in given)


def _gradients(
    op: str, outputs: Sequence[Tensor], inputs: Tensors, v: Sequence[Tensor], create_graph: bool, strict: bool, retain: bool | None = None
) -> Tensors:
    """v times the Jacobian; zeros where an input has no influence, which `strict` refuses."""
    pairs = [(y, g) for y, g in zip(outputs, v, strict=True) if y.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs:
        found = grad([y for y, _ in pairs], inputs, [g for _, g in pairs], retain, create_graph, allow_unused=True)
    if strict:
        for i, g in enumerate(found):
            if g is None:
                raise RuntimeError(
                    f"{op}: the outputs do not depend on inputs[{i}], which strict=True refuses "
                    f"(the user-provided function is independent of input {i})"
                )
            if create_graph and not g.requires_grad:
                raise RuntimeError(f"{op}: the result does not depend on inputs[{i}], which strict=True refuses")
    return tuple(ops.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True))


def _finished(values: Sequence[Tensor], many: bool, create_graph: bool) -> Any:
    out = tuple(values) if create_graph else tuple(v.detach() for v in values)
    return out if many else out[0]


def _called(op: str, func: Callable[..., Any], inputs: Tensors, strict: bool) -> tuple[Tensors, bool]:
    outputs, many = _listed(op, "outputs", func(*inputs))
    if strict:
        for i, y in enumerate(outputs):
            if not y.requires_grad:
                raise RuntimeError(
                    f"{op}: outputs[{i}] does not depend on the inputs, which strict=True refuses "
                    f"(Output {i} of the user-provided function does not require gradients)"
                )
    return outputs, many


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """func(*inputs), and `v` times the Jacobian there, shaped as the inputs.

    Args:
        inputs: a tensor or a tuple of tensors.
        v: shaped as the outputs; may be left out for one output of one element.
        create_graph: the results can be differentiated.
        strict: raises where an output does not depend on an input, instead of returning zeros.

    Raises:
        TypeError: inputs or outputs that are no tensors.
        RuntimeError: `v` of other shapes; what `strict` refuses.

    Example:
        >>> import flambeau as fl
        >>> fl.autograd.functional.vjp(lambda x: x.exp(), fl.zeros(2), fl.tensor([1.0, 2.0]))
        (tensor([1., 1.]), tensor([1., 2.]))
    """
    a_function("vjp", func)
    with enable_grad():
        x, many_in = _inputs("vjp", inputs, create_graph)
        y, many_out = _called("vjp", func, x, strict)
        v = _directions("vjp", v, y, many_out)
    with enable_grad():
        found = _gradients("vjp", y, x, v, create_graph, strict)
    return _finished(y, many_out, create_graph), _finished(found, many_in, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """func(*inputs), and the Jacobian there times `v`, shaped as the outputs; arguments as of `vjp`, `v` shaped as the inputs.

    Example:
        >>> import flambeau as fl
        >>> fl.autograd.functional.jvp(lambda x: x * x, fl.tensor([1.0, 3.0]), fl.ones(2))
        (tensor([1., 9.]), tensor([2., 6.]))
    """
    a_function("jvp", func)
    with enable_grad():
        x, many_in = _inputs("jvp", inputs, create_graph)
        v = _directions("jvp", v, x, many_in)
        y, many_out = _called("jvp", func, x, strict)
        found = _along("jvp", y, x, v, create_graph, strict)
    return _finished(y, many_out, create_graph), _finished(found, many_out, create_graph)


def _along(op: str, y: Tensors, x: Tensors, v: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """J v as the derivative by u of u J, which is linear in u."""
    u = tuple(ops.zeros_like(t).requires_grad_() for t in y)
    rows = _gradients(op, y, x, u, True, strict)
    return _gradients(op, rows, u, v, create_graph, strict)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of func at the inputs: of every output by every input, [*output.shape, *input.shape].

    Args:
        inputs: a tensor or a tuple of tensors.
        create_graph: the result can be differentiated.
        strict: raises where an output does not depend on an input, instead of returning zeros.
        vectorize: with 'forward-mode', all columns in one run of func (`func.jacfwd`), which is called inside of `vmap` then.
        strategy: 'reverse-mode' computes a row per element of the outputs, 'forward-mode' a column per element of the
            inputs, which is less work where the outputs are more.

    Returns:
        A tensor; a tuple by inputs where these are a tuple; a tuple by outputs (of tuples by inputs) where there are several.

    Raises:
        TypeError: inputs or outputs that are no tensors.
        ValueError: another strategy.
        RuntimeError: what `strict` refuses.

    Example:
        >>> import flambeau as fl
        >>> fl.autograd.functional.jacobian(lambda x: x * x, fl.tensor([1.0, 3.0]))
        tensor([[2., 0.],
                [0., 6.]])
    """
    a_function("jacobian", func)
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertedValueError(f"jacobian: strategy = {strategy!r}; expected 'reverse-mode' or 'forward-mode'")
    if vectorize and strategy == "forward-mode" and not strict:
        return _by_directions(func, inputs, create_graph)
    with enable_grad():
        x, many_in = _inputs("jacobian", inputs, create_graph)
        y, many_out = _called("jacobian", func, x, strict)
        blocks = _by_rows(y, x, create_graph, strict) if strategy == "reverse-mode" else _by_columns(y, x, create_graph, strict)
        found = [_finished(row, many_in, create_graph) for row in blocks]
    return tuple(found) if many_out else found[0]


def _unit(like: Tensor, k: int) -> Tensor:
    """Zeros shaped as `like`, with a 1 as the k-th element."""
    flat = ops.zeros(like.numel(), dtype=like.dtype, device=like.device)
    flat[k] = 1
    return flat.reshape(like.shape)


def _check_blocks(y: Tensors, x: Tensors) -> None:
    """Refuses Jacobians that no memory can hold, before as many backwards are run as they have rows."""
    for out in y:
        for given in x:
            ops.empty(out.shape + given.shape, dtype=given.dtype, device="meta")


def _by_rows(y: Tensors, x: Tensors, create_graph: bool, strict: bool) -> list[list[Tensor]]:
    _check_blocks(y, x)
    blocks = []
    for out in y:
        rows = [_gradients("jacobian", [out], x, [_unit(out, k)], create_graph, strict, True) for k in range(out.numel())]
        columns: list[Tensor] = []
        for i, given in enumerate(x):
            parts = [row[i].to_dense() if row[i].is_sparse else row[i] for row in rows]  # a sparse row could not be given out's axes
            flat = ops.stack(parts) if parts else ops.zeros((0, *given.shape), dtype=given.dtype, device=given.device)
            columns.append(flat.reshape(out.shape + given.shape))
        blocks.append(columns)
    return blocks


def _by_directions(func: Callable[..., Any], inputs: Any, create_graph: bool) -> Any:
    """By forward mode, along all directions in one run."""
    from flambeau.func import jacfwd

    x, many_in = _listed("jacobian", "inputs", inputs)

    def checked(*given: Tensor) -> Any:
        out = func(*given)
        _listed("jacobian", "outputs", out)
        return out

    with set_grad_enabled(create_graph):
        return jacfwd(checked, tuple(range(len(x))) if many_in else 0)(*_begun(x, create_graph))


def _by_columns(y: Tensors, x: Tensors, create_graph: bool, strict: bool) -> list[list[Tensor]]:
    _check_blocks(y, x)
    u = tuple(ops.zeros_like(t).requires_grad_() for t in y)
    rows = _gradients("jacobian", y, x, u, True, strict)
    blocks: list[list[Tensor]] = [[] for _ in y]
    for given, row in zip(x, rows, strict=True):
        found = [_gradients("jacobian", [row], u, [_unit(given, k)], create_graph, False, True) for k in range(given.numel())]
        for j, out in enumerate(y):
            parts = [column[j] for column in found]
            flat = ops.stack(parts, -1) if parts else ops.zeros((*out.shape, 0), dtype=out.dtype, device=out.device)
            blocks[j].append(flat.reshape(out.shape + given.shape))
    return blocks


def _scalar(op: str, func: Callable[..., Any]) -> Callable[..., Tensor]:
    def checked(*inputs: Tensor) -> Tensor:
        y = func(*inputs)
        if not isinstance(y, Tensor):
            kind = type(y).__name__
            raise RefusedTypeError(f"The function given to {op} should return a single Tensor of one element, got a {kind}")
        if y.numel() != 1:
            shape = list(y.shape)
            raise RuntimeError(f"The Tensor returned by the function given to {op} should contain a single element, got shape {shape}")
        return y

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of func, which returns one element: [*input.shape, *input.shape], by inputs as of `jacobian`.

    With `vectorize` it is `func.hessian`, which calls func inside of `vmap`.

    Example:
        >>> import flambeau as fl
        >>> fl.autograd.functional.hessian(lambda x: (x ** 3).sum(), fl.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    a_function("hessian", func)
    scalar = _scalar("hessian", func)

    def slope(*x: Tensor) -> Tensors:
        y, _ = _called("hessian", scalar, x, strict)
        return _gradients("hessian", y, x, [ops.ones_like(y[0])], True, strict)

    items, many = _listed("hessian", "inputs", inputs)
    if vectorize and not strict:
        from flambeau.func import hessian as of_func

        with set_grad_enabled(create_graph):
            found = of_func(lambda *x: scalar(*x).reshape(()), tuple(range(len(items))))(*_begun(items, create_graph))
        return found if many else found[0][0]
    blocks = jacobian(slope, items, create_graph, strict, False, outer_jacobian_strategy)
    return blocks if many else blocks[0][0]


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """func(*inputs), and `v` times its Hessian there; both shaped as the inputs. Arguments as of `vjp`."""
    a_function("vhp", func)
    return _second("vhp", func, inputs, v, create_graph, strict)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """func(*inputs), and its Hessian there times `v`: `vhp`, since a Hessian is symmetric."""
    a_function("hvp", func)
    return _second("hvp", func, inputs, v, create_graph, strict)


def _second(op: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool) -> tuple[Any, Any]:
    with enable_grad():
        x, many = _inputs(op, inputs, create_graph)
        v = _directions(op, v, x, many)
        y, _ = _called(op, _scalar(op, func), x, strict)
        slope = _gradients(op, y, x, [ops.ones_like(y[0])], True, strict)
        if op == "hvp" and strict:  # a slope without a second derivative is seen by way of columns alone
            found = _along(op, slope, x, v, create_graph, strict)
        else:
            found = _gradients(op, slope, x, v, create_graph, strict)
    return _finished(y, False, create_graph), _finished(found, many, create_graph)
