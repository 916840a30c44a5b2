"""How ops come to be: `custom_op` from a function, `define` and `Library` from a schema."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, overload

from flambeau import _C
from flambeau.library._op import KINDS, RESERVED, CustomOpDef, P, R, early, registry
from flambeau.library._schema import infer_schema, parse

_QUALNAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)$")
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _here() -> str:
    """The line outside of this package that makes an op."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _check_name(qualname: str) -> str:
    match = _QUALNAME.match(qualname) if isinstance(qualname, str) else None
    if match is None:
        raise ValueError(f"custom op {qualname!r}: expected 'namespace::name', or 'namespace::name.overload'")
    if match[1] in RESERVED:
        raise ValueError(f"custom op {qualname!r}: the namespace '{match[1]}' is taken; expected another one")
    return qualname


@overload
def custom_op(
    name: str,
    fn: None = ...,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = ...,
    schema: str | None = ...,
    tags: Any = ...,
) -> Callable[[Callable[P, R]], CustomOpDef[P, R]]: ...


@overload
def custom_op(
    name: str,
    fn: Callable[P, R],
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = ...,
    schema: str | None = ...,
    tags: Any = ...,
) -> CustomOpDef[P, R]: ...


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes an op of a function; also a decorator.

    Args:
        name: "namespace::name". Another op of that name is replaced.
        mutates_args: names of the tensors that the function writes to, or "unknown": any of them.
        device_types: the kinds of device that the function is for; None: all.
        schema: arguments and results, "(Tensor x, int n=1) -> Tensor"; without it they are read from the annotations.
        tags: taken for PyTorch's sake.

    The function computes; it may call anything. It is called without recording, with tensors that have no history. It returns new tensors,
    no views of its arguments, and writes to none but those in `mutates_args`.

    Raises:
        ValueError: the name, an annotation or the schema is none.

    Example:
        >>> import flambeau as fl
        >>> @fl.library.custom_op("docs::double_", mutates_args={"x"})
        ... def double_(x: fl.Tensor) -> None:
        ...     x.numpy()[...] *= 2
        >>> x = fl.ones(2)
        >>> double_(x)
        >>> x, x._version
        (tensor([2., 2.]), 1)
    """
    _check_name(name)

    def make(function: Callable[..., Any]) -> CustomOpDef[..., Any]:
        if schema is None:
            text = infer_schema(function, mutates_args=mutates_args)
        else:
            text = schema
        declared = parse(text)
        if schema is not None and not isinstance(mutates_args, str):
            written = {a.name for a in declared.arguments if a.mutated}
            if written != set(mutates_args):
                raise ValueError(
                    f"custom op '{name}': mutates_args has {sorted(mutates_args)}, the schema {sorted(written)}; expected the same"
                )
        op: CustomOpDef[..., Any] = CustomOpDef(name, declared, _here())
        op.register_kernel(device_types, function)
        op.__doc__, op.__wrapped__ = function.__doc__, function  # type: ignore[attr-defined]
        return op

    return make if fn is None else make(fn)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Makes an op of a schema; kernels follow by `impl`.

    Raises:
        RuntimeError: there is an op of that name.

    Example:
        >>> import flambeau as fl
        >>> fl.library.define("docs::cube", "(Tensor x) -> Tensor")
        >>> @fl.library.impl("docs::cube", "cpu")
        ... def cube(x):
        ...     return x ** 3
        >>> fl.ops.docs.cube(fl.tensor([2.0]))
        tensor([8.])
    """
    if _check_name(qualname) in registry:
        raise RuntimeError(f"define: '{qualname}' is there already, defined at {registry[qualname]._where}; expected another name")
    CustomOpDef(qualname, parse(schema), _here())
    for key, function in early.pop(qualname, []):
        _implement(qualname, key, function)
    if lib is not None:
        lib._made.append(qualname)


def find(op: Any) -> CustomOpDef[..., Any]:
    """The op that is meant: itself, or by its qualified name."""
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, str) and op in registry:
        return registry[op]
    name = f"'{op}'" if isinstance(op, str) else f"a {type(op).__name__}"
    raise RuntimeError(f"{name} is no custom op; expected one made by custom_op or define, or its 'namespace::name'")


_KEYS = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta", "CompositeExplicitAutograd": "", "default": "", **{kind: kind for kind in KINDS},
         "MPS": "mps", "XPU": "xpu", "HPU": "hpu", "MTIA": "mtia", "PrivateUse1": "privateuseone"}  # fmt: skip


def _checked_key(key: str) -> str:
    known = key in _KEYS or key == "CompositeImplicitAutograd" or key.startswith("Autocast") or _kind_recorded(key) is not None
    if not known:
        raise _C.ArgumentError(
            f"impl: '{key}'; expected one of {', '.join(_KEYS)}, CompositeImplicitAutograd, AutocastCPU, Autograd, AutogradCPU "
            "(register_autograd takes the backward alone)"
        )
    return key


def _kind_recorded(key: str) -> str | None:
    """Whose calls a function for this key records: "" (any device) of Autograd, "cpu" of AutogradCPU; None of other keys."""
    if not key.startswith("Autograd"):
        return None
    kind = key.removeprefix("Autograd")
    return _KEYS.get(kind) if kind else ""


def _name_of(op: Any) -> str:
    """The qualified name of what is meant: an op, or one that is to come."""
    return op._qualname if isinstance(op, CustomOpDef) else _check_name(op)


def fallthrough_kernel() -> NoReturn:
    """For `Library.impl`: the op is to behave for the key as if there were no function for it. It is not called itself.

    Example:
        >>> import flambeau as fl
        >>> lib = fl.library.Library("docs_through", "DEF")
        >>> name = lib.define("same(Tensor x) -> Tensor")
        >>> lib.impl("same", lambda x: x.clone(), "CPU")
        >>> lib.impl("same", fl.library.fallthrough_kernel, "AutogradCPU")
        >>> fl.ops.docs_through.same(fl.ones(2))
        tensor([1., 1.])
    """
    raise NotImplementedError("fallthrough_kernel: it stands for no function, and is not called; hand it to Library.impl")


def _forgotten(op: CustomOpDef[..., Any], key: str) -> None:
    """Without the function that it had for a key."""
    if key == "CompositeImplicitAutograd":
        op._composed = None
    elif key.startswith("Autocast"):
        op._autocast.pop(key.removeprefix("Autocast").lower(), None)
    elif (kind := _kind_recorded(key)) is not None:
        op._recorders.pop(kind, None)
    else:
        op._kernels.pop(_KEYS[key], None)


def _implement(name: str, key: str, function: Callable[..., Any]) -> None:
    """Tells the op of that name, or has it told when it is defined."""
    op, _ = registry.get(name), _checked_key(key)
    if op is None:
        early.setdefault(name, []).append((key, function))
    elif function is fallthrough_kernel:
        _forgotten(op, key)
    elif key == "CompositeImplicitAutograd":
        op._composed = function
    elif key.startswith("Autocast"):
        op._autocast[key.removeprefix("Autocast").lower()] = function
    elif (kind := _kind_recorded(key)) is not None:
        op._recorders[kind] = function
    else:
        op._kernels[_KEYS[key]] = function


def _implemented(name: str, key: str) -> bool:
    """Whether `_implement` was called with this key, or one that means the same."""
    if name not in registry:
        return any(key == known or _KEYS.get(key, key) == _KEYS.get(known, known) for known, _ in early.get(name, []))
    op = registry[name]
    if key == "CompositeImplicitAutograd":
        return op._composed is not None
    if key.startswith("Autocast"):
        return key.removeprefix("Autocast").lower() in op._autocast
    if (kind := _kind_recorded(key)) is not None:
        return kind in op._recorders
    return _KEYS.get(key) in op._kernels


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """The function that computes an op on some kinds of device; also a decorator. The op may be defined later.

    Args:
        qualname: "namespace::name", or a `Library`; `types` is then the name of the op in it, and `func` a dispatch key.
        types: "cpu", "meta", "default" (all), or several.

    Raises:
        ValueError: the name is none, or one of the kinds.

    Example:
        >>> import flambeau as fl
        >>> _ = fl.library.impl("docs::half", "cpu", lambda x: x / 2)
        >>> fl.library.define("docs::half", "(Tensor x) -> Tensor")
        >>> fl.ops.docs.half(fl.tensor([3.0]))
        tensor([1.5000])
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or "CompositeImplicitAutograd"

        def of_library(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, key)
            return function

        return of_library
    kinds = [_checked_key(kind) for kind in ([types] if isinstance(types, str) else types)]
    of_op = _name_of(qualname)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for kind in kinds:
            _implement(of_op, kind, function)
        return function

    return register if func is None else register(func)


class Library:
    """A namespace of ops, by PyTorch's older interface: `define` their schemas, then `impl` their kernels.

    Args:
        ns: the namespace.
        kind: "DEF", "FRAGMENT" or "IMPL"; no difference is made.
        dispatch_key: what `impl` takes for granted.

    Example:
        >>> import flambeau as fl
        >>> lib = fl.library.Library("docs_shop", "DEF")
        >>> name = lib.define("price(Tensor x, float tax=0.5) -> Tensor")
        >>> lib.impl("price", lambda x, tax=0.5: x * (1 + tax), "CompositeImplicitAutograd")
        >>> fl.ops.docs_shop.price(fl.ones(2))
        tensor([1.5000, 1.5000])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Library: Unsupported kind: {kind}; expected DEF, FRAGMENT or IMPL")
        _check_name(f"{ns}::op")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[str] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """An op from "name(arguments) -> results"; returns its name."""
        name, opening, rest = schema.strip().partition("(")
        define(f"{self.ns}::{name.strip()}", opening + rest, lib=self)
        return name.strip()

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = True
    ) -> None:
        """The function that computes an op for a dispatch key: CPU, Meta, CompositeExplicitAutograd (all devices),
        CompositeImplicitAutograd (a composition of differentiable ops, which needs no gradient of its own), AutocastCPU
        (called in place of the op inside of an autocast region; it calls the op again, with autocast off), or Autograd and AutogradCPU
        (called in place of the op outside of inference mode; what it computes has the gradient, such as a composition or an
        `autograd.Function`).

        Raises:
            ValueError: there is no such key.
            RuntimeError: the op has such a function, and `allow_override` is False.
        """
        name = _name_of(f"{self.ns}::{op_name}" if isinstance(op_name, str) and "::" not in op_name else op_name)
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if not allow_override and _implemented(name, key):
            raise RuntimeError(f"impl: {name} has a function for '{key}' already; allow_override=True puts another in its place")
        _implement(name, key, fn)

    def _destroy(self) -> None:
        for name in self._made:
            registry.pop(name, None)
        self._made.clear()


# ---------------------------------------------------------------- the methods as functions


def register_kernel(op: Any, device_types: str | Sequence[str] | None, func: Any = None, /, *, lib: Any = None) -> Any:
    """`CustomOpDef.register_kernel` of the op, or of the op of that name."""
    return find(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = True) -> Any:
    """`CustomOpDef.register_fake` of the op, or of the op of that name; also a decorator."""
    found = find(op)
    return found.register_fake if func is None else found.register_fake(func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """`CustomOpDef.register_autograd` of the op, or of the op of that name."""
    find(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """`CustomOpDef.register_vmap` of the op, or of the op of that name; also a decorator."""
    return find(op).register_vmap(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """`CustomOpDef.register_autocast` of the op, or of the op of that name."""
    find(op).register_autocast(device_type, cast_inputs)


class _FakeContext:
    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Refused: shapes are numbers here."""
        raise _C.ShapeError(
            "get_ctx().new_dynamic_size(): the shape follows from numbers, which a fake does not have; call the op on real tensors"
        )

    new_unbacked_symint = create_unbacked_symint = new_dynamic_size


def get_ctx() -> Any:
    """Inside of a fake: what it may ask. A size that follows from numbers is refused."""
    return _FakeContext()
