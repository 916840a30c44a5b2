"""`opcheck`: whether what was said of an op is so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.backward import grad
from flambeau.autograd.modes import no_grad
from flambeau.func._tree import flatten, tree_map
from flambeau.library._define import find
from flambeau.library._op import CustomOpDef, tensors_in
from flambeau.testing import assert_close


class OpCheckError(Exception):
    """What `opcheck` found."""


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Calls an op and compares what happens with what was registered.

    | test | what must hold |
    |---|---|
    | `test_schema` | it writes to what `mutates_args` names, and to nothing else; results are no views of arguments |
    | `test_autograd_registration` | where arguments require grad there is a gradient, of their shapes and types |
    | `test_faketensor` | the fake gives the shapes, types and strides that the kernel gives |
    | `test_aot_dispatch_dynamic`, `test_aot_dispatch_static` | values and gradients inside of `lazy()` are those outside |

    Whether the gradient is right is another matter: use `autograd.gradcheck`.

    Returns:
        "SUCCESS" by test, or the exception where `raise_exception` is False.

    Raises:
        OpCheckError: names the op and what differs.

    Example:
        >>> import flambeau as fl
        >>> @fl.library.custom_op("docs::triple", mutates_args=())
        ... def triple(x: fl.Tensor) -> fl.Tensor:
        ...     return x * 3
        >>> fl.library.opcheck(triple, (fl.ones(2),), test_utils="test_schema")
        {'test_schema': 'SUCCESS'}
    """
    found = find(op)
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    if unknown := [n for n in names if n not in _TESTS]:
        raise ValueError(f"opcheck: test_utils has {unknown[0]!r}; expected some of {', '.join(_TESTS)}")
    values = found._schema.bind(found._qualname, args, kwargs or {})
    results: dict[str, str] = {}
    for name in names:
        try:
            _TESTS[name](found, values, rtol, atol)
        except Exception as error:
            fault = OpCheckError(f"opcheck({found._qualname}, {name}): {error}")
            if raise_exception:
                raise fault from error
            results[name] = fault  # type: ignore[assignment]
        else:
            results[name] = "SUCCESS"
    return results


def _copied(values: Sequence[Any]) -> list[Any]:
    """Arguments of their own, which require grad where the originals do."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        with no_grad():
            made = _C.ops.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
            made.copy_(leaf)
        return made.requires_grad_(leaf.requires_grad)

    return tree_map(copy, list(values))  # type: ignore[no-any-return]


def _call(op: CustomOpDef[..., Any], values: Sequence[Any]) -> Any:
    args, kwargs = op._schema.split(values)
    return op(*args, **kwargs)


def _outputs(result: Any) -> list[Tensor]:
    return [leaf for leaf in flatten(result)[0] if isinstance(leaf, Tensor)]


def _same(a: Tensor, b: Tensor) -> bool:
    return bool(_C.ops.all(_C.ops.isclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)).item()) if a.numel() else True


def _schema(op: CustomOpDef[..., Any], values: list[Any], rtol: Any, atol: Any) -> None:
    given = _copied(values)
    before = _copied(given)
    with no_grad():
        result = _call(op, given)
    written = {id(t) for t in op._schema.mutated(given)}
    for argument, now, then in zip(op._schema.arguments, given, before, strict=True):
        for a, b in zip(tensors_in([now]), tensors_in([then]), strict=True):
            if id(a) not in written and not _same(a.detach(), b.detach()):
                raise OpCheckError(f"it wrote to argument '{argument.name}', which mutates_args does not name")
    taken = {t._storage_ptr() for t in tensors_in(given) if t.numel()}
    for i, y in enumerate(_outputs(result)):
        if y.numel() and y._storage_ptr() in taken:
            raise OpCheckError(f"result {i} is a view of an argument; return a clone()")


def _gradients(op: CustomOpDef[..., Any], given: list[Any], result: Any) -> list[Any]:
    wanted = [t for t in tensors_in(given) if t.requires_grad]
    roots = [y for y in _outputs(result) if y.requires_grad]
    if not wanted or not roots:
        return []
    return list(grad(roots, wanted, [_C.ops.ones_like(y) for y in roots], allow_unused=True))


def _autograd(op: CustomOpDef[..., Any], values: list[Any], rtol: Any, atol: Any) -> None:
    given = _copied(values)
    wanted = [t for t in tensors_in(given) if t.requires_grad]
    if not wanted or op._schema.is_mutable:
        return
    result = _call(op, given)
    can = [y for y in _outputs(result) if y.is_floating_point() or y.is_complex()]
    if can and not any(y.requires_grad for y in can):
        raise OpCheckError("arguments require grad, and no result does")
    for x, g in zip(wanted, _gradients(op, given, result), strict=False):
        if g is not None and (g.shape != x.shape or g.dtype != x.dtype):
            raise OpCheckError(f"the gradient has shape {list(g.shape)} and type {g.dtype}; expected {list(x.shape)} and {x.dtype}")


def _fake(op: CustomOpDef[..., Any], values: list[Any], rtol: Any, atol: Any) -> None:
    def on_meta(leaf: Any) -> Any:
        return _C.ops.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta") if isinstance(leaf, Tensor) else leaf

    with no_grad():
        real = _call(op, _copied(values))
        faked = _call(op, tree_map(on_meta, list(values)))
    a, b = _outputs(real), _outputs(faked)
    if len(a) != len(b):
        raise OpCheckError(f"the fake returns {len(b)} tensors; the kernel {len(a)}")
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        for what, have, want in (("shape", tuple(y.shape), tuple(x.shape)), ("type", y.dtype, x.dtype)):
            if have != want:
                raise OpCheckError(f"the fake's result {i} has {what} {have}; the kernel's {want}")
        steps = [[s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] if t.numel() else [] for t in (x, y)]
        if steps[0] != steps[1]:
            raise OpCheckError(f"the fake's result {i} has strides {tuple(y.stride())}; the kernel's {tuple(x.stride())}")


def _recorded(op: CustomOpDef[..., Any], values: list[Any], rtol: Any, atol: Any) -> None:
    from flambeau.compiler import lazy

    gradients = op._backward is not None or op._composed is not None
    found = []
    for region in (False, True):
        given = _copied(values)
        with lazy() if region else _Nothing():
            result = _call(op, given)
            grads = _gradients(op, given, result) if gradients and not op._schema.is_mutable else []
        found.append((_outputs(result), grads, tensors_in(given)))
    for what, a, b in zip(("results", "gradients", "arguments"), *found, strict=True):
        for x, y in zip(a, b, strict=True):
            if x is None or y is None:
                if x is not y:
                    raise OpCheckError(f"{what} inside of lazy() differ from those outside")
                continue
            try:
                assert_close(y.detach(), x.detach(), rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                raise OpCheckError(f"{what} inside of lazy() differ from those outside: {error}") from None


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


_TESTS: dict[str, Callable[[CustomOpDef[..., Any], list[Any], Any, Any], None]] = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
    "test_aot_dispatch_dynamic": _recorded,
    "test_aot_dispatch_static": _recorded,
}
