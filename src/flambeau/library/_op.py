"""A custom op, and the way of a call.

    op(x, n=2)
       |  Schema.bind       types and defaults; refused here, before anything runs
       |  taken over?       vmap, forward mode: _transforms.py; subclasses and modes: their __torch_function__
       |  autocast?         arguments are cast
       |  recorded by a function of the user's (the dispatch key Autograd)?   it is called, with gradients, and the rest is its affair
       |  gradient wanted?  through an autograd.Function of the op's own
       v
    kernel                  of the device, without recording; or the fake on meta
       |  checks            results are of the types declared, and views of no argument
       v
    versions                of what it wrote to are raised, so that autograd notices
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from flambeau import _C, _replay
from flambeau._C import Tensor
from flambeau._errors import NoExtensionError
from flambeau.amp.autocast_mode import autocast, is_autocast_enabled
from flambeau.autograd.function import Function
from flambeau.autograd.modes import no_grad
from flambeau.func._tree import flatten
from flambeau.library._schema import Schema

P = ParamSpec("P")
R = TypeVar("R")

# By qualified name.
registry: dict[str, CustomOpDef[..., Any]] = {}
# What computes ops that are not defined yet, by qualified name: (dispatch key, function). `define` hands it over.
early: dict[str, list[tuple[str, Callable[..., Any]]]] = {}
RESERVED = ("flambeau", "aten", "prim", "prims")  # namespaces that are no user's
KINDS = ("cpu", "cuda", "meta", "mps", "xpu", "hpu", "mtia", "privateuseone")


class _Recording(threading.local):
    """Whether the thread is inside of `graph.record`, and what notes a call there: `_graph.record_call`."""

    on = False
    call: Callable[..., Any]


recording = _Recording()


class _Below(threading.local):
    """Whether functions for the dispatch key Autograd are passed over, as such a function wants it when it calls its op."""

    autograd = False


below = _Below()


def set_below_autograd(on: bool) -> bool:
    """Passes these functions over in this thread, or not; returns what held before. For `_C.held`."""
    before, below.autograd = below.autograd, on
    return before


def tensors_in(values: Sequence[Any]) -> list[Tensor]:
    """The tensors among values, also in lists and tuples."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += [v for v in value if isinstance(v, Tensor)]
    return found


def _listed(device_types: str | Sequence[str] | None) -> list[str]:
    """Kinds of devices, "" for any."""
    if device_types is None:
        return [""]
    kinds = [device_types] if isinstance(device_types, str) else list(device_types)
    if wrong := [k for k in kinds if k not in KINDS]:
        raise ValueError(f"device_types has {wrong[0]!r}; expected {', '.join(KINDS)}, or None for all")
    return kinds


class CustomOpDef(Generic[P, R]):
    """An op that was made by `custom_op` or `define`: call it, or say more of it by its `register_` methods."""

    def __init__(self, qualname: str, schema: Schema, where: str) -> None:
        self._qualname, self._schema, self._where = qualname, schema._replace(name=qualname), where
        self._namespace, self._name = qualname.split("::")
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._composed: Callable[..., Any] | None = None
        self._disabled: set[str] = set()
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._autocast: dict[str, Any] = {}
        self._recorders: dict[str, Callable[..., Any]] = {}
        names = f"{self._namespace}_{self._name.replace('.', '_')}"
        self._function: type[Any] = type(f"GeneratedBackwardFor_{names}_default", (_Recorded,), {"op": self})
        self.__name__ = self.__qualname__ = self._name
        self.__module__ = f"flambeau.ops.{self._namespace}"
        registry[qualname] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __reduce__(self) -> Any:
        return _find, (self._qualname,)

    @property
    def default(self) -> CustomOpDef[..., Any]:
        """The op itself: PyTorch's name for its only overload."""
        return self

    _opoverload = default

    def overloads(self) -> list[str]:
        """The names of its overloads, `default` first."""
        return ["default", *(name.rpartition(".")[2] for name in registry if name.startswith(f"{self._qualname}."))]

    def __getattr__(self, overload: str) -> Any:
        if (other := registry.get(f"{self.__dict__.get('_qualname')}.{overload}")) is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{overload}'")
        return other

    # ------------------------------------------------------------------------------------- what is said of it

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """The function that computes on some kinds of device ("cpu", "cuda", "meta"; None: all); also a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in _listed(device_types):
                self._kernels[kind] = _checked_function(self, "register_kernel", function)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The function that returns empty tensors of the shapes, types and strides that a call would return.

        It sees tensors on the meta device, and must not read numbers. Graphs and the meta device call it.
        """
        self._fake = _checked_function(self, "register_fake", fn)
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """The gradient.

        Args:
            backward: `f(ctx, *grads)`, with a gradient for each result; returns one for each positional argument, None for those
                that have none (a list of gradients for a list of tensors).
            setup_context: `f(ctx, inputs, output)` keeps what backward needs: `ctx.save_for_backward(...)`, or attributes. Where
                the op has arguments by keyword alone, `f(ctx, inputs, keyword_only_inputs, output)`.

        Raises:
            RuntimeError: the op writes to arguments, or has tensors by keyword alone.
        """
        if self._schema.is_mutable:
            raise RuntimeError(
                f"{self._qualname}: an op that writes to its arguments can have no gradient; expected {self._schema.form} "
                "without mutates_args"
            )
        if hidden := [a.name for a in self._schema.arguments if a.keyword_only and a.kind.tensors]:
            raise RuntimeError(
                f"{self._qualname}: argument '{hidden[0]}' is a tensor by keyword alone; expected tensors by position, for a gradient"
            )
        self._recorders.pop("", None)
        self._backward = _checked_function(self, "register_autograd", backward)
        self._setup = setup_context if setup_context is None else _checked_function(self, "register_autograd", setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """What the op makes of batches; also a decorator.

        `func(info, in_dims, *args, **kwargs)` is given whole batches: `info.batch_size`, `info.randomness`, and in `in_dims` for each
        positional argument the axis of the batch or None (a list of these for a list). It returns (output, out_dims).
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._vmap = _checked_function(self, "register_vmap", function)
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Inside of an autocast region, floating point tensors are cast to the type `cast_inputs` first."""
        if not isinstance(cast_inputs, _C.dtype) or device_type not in KINDS:
            raise ValueError(
                f"{self._qualname}: register_autocast({device_type!r}, {cast_inputs!r}); expected a kind of device and a dtype"
            )
        self._autocast[device_type] = cast_inputs

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """While it lasts, the kernel that was registered for a kind of device is left out, and the one for all devices taken; or not."""
        (kind,) = _listed(device_type)
        before = set(self._disabled)
        (self._disabled.discard if enabled else self._disabled.add)(kind)
        try:
            yield
        finally:
            self._disabled = before

    # ------------------------------------------------------------------------------------- a call

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            values = self._schema.bind(self._qualname, args, kwargs)
            tensors = tensors_in(values)
            if _C.has_override(*tensors):
                from flambeau.library._transforms import taken_over

                return taken_over(self, values)
            return self._apply(values, tensors)

    def _apply(self, values: list[Any], tensors: list[Tensor]) -> Any:
        if self._autocast and (cast := self._autocast.get(kind_of(tensors))) is not None and is_autocast_enabled():
            if callable(cast):
                args, kwargs = self._schema.split(values)
                return cast(*args, **kwargs)
            values = [_cast(v, cast) for v in values]
            with autocast("cpu", enabled=False):
                return self._apply_plain(values, tensors_in(values))
        return self._apply_plain(values, tensors)

    def _apply_plain(self, values: list[Any], tensors: list[Tensor]) -> Any:
        if self._recorders and not below.autograd and not _C.is_inference_mode_enabled():
            if (recorder := self._recorders.get(kind_of(tensors)) or self._recorders.get("")) is not None:
                args, kwargs = self._schema.split(values)
                return recorder(*args, **kwargs)
        if self._composed is not None and not self._kernels:
            args, kwargs = self._schema.split(values)
            return self._composed(*args, **kwargs)
        if not _C.is_grad_enabled() or not any(t.requires_grad for t in tensors):
            return self.run(values)
        written = [t for t in self._schema.mutated(values) if t.requires_grad]
        for t in written:
            if t.is_leaf:
                raise _C.AutogradError(
                    f"{self._qualname}: it writes to a leaf that requires grad; wrap the call in no_grad(), or pass a clone()"
                )
        if not written and not any(kind.tensors for kind in self._schema.returns):
            return self.run(values)
        leaves, build = flatten(values)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        call = _Call(leaves, places, build)
        made = self._function.apply(call, *(leaves[i] for i in places))
        return call.result(made)

    def run(self, values: list[Any]) -> Any:
        """The kernel, and the checks of what it returns; nothing is recorded."""
        mutated = self._schema.mutated(values)
        kind = kind_of(tensors_in(values))
        if recording.on and self._fake is not None and kind == "cpu":
            return recording.call(self, values)
        if not _replay.is_noting():
            return self._run(kind, values, mutated)
        noted, inside, before = _replay.noted(), _replay.noted().inside, _replay.interruptions()
        result = _of_our_own(self._run(kind, values, mutated))
        noted.inside = inside + _replay.interruptions() - before  # those of ops that the kernel calls are among them
        return result

    def _run(self, kind: str, values: list[Any], mutated: list[Tensor]) -> Any:
        args, kwargs = self._schema.split([_without_history(v) for v in values])
        with no_grad():
            try:
                result = self._kernel(kind)(*args, **kwargs)
            except NoExtensionError:
                if self._kernels.get("") in (None, self._kernels.get(kind)):
                    raise
                result = self._kernels[""](*args, **kwargs)
        for t in mutated:
            _C.bump_version(t, self._qualname)
        self._schema.check_result(self._qualname, result)
        self._check_aliases(values, result)
        return tuple(result) if isinstance(result, list) and len(self._schema.returns) > 1 else result

    def _kernel(self, kind: str) -> Callable[..., Any]:
        found = None if kind in self._disabled else self._kernels.get(kind)
        if found is None and kind == "meta":
            if self._fake is None:
                raise NotImplementedError(
                    f"{self._qualname} (defined at {self._where}): there is no fake, so shapes without numbers are not known; use "
                    f"register_fake"
                )
            return self._fake
        found = found or self._kernels.get("")
        if found is None:
            have = ", ".join(sorted(self._kernels)) or "none"
            raise NotImplementedError(
                f"{self._qualname} (defined at {self._where}): no kernel for {kind}; there are {have}; use register_kernel"
            )
        return found

    def _check_aliases(self, values: Sequence[Any], result: Any) -> None:
        given = {t._storage_ptr() for t in tensors_in(values) if t.numel()}
        results = [t for t in tensors_in(result if isinstance(result, (tuple, list)) else (result,)) if t.numel()]
        if results and results[0].is_meta:
            given = set()
            if any(r is t for r in results for t in tensors_in(values)):
                given = {r._storage_ptr() for r in results}
        for i, t in enumerate(results):
            if t._storage_ptr() in given or any(t is r for r in results[:i]):
                raise RuntimeError(
                    f"{self._qualname} (defined at {self._where}): result {i} shares memory with an argument or another result; return "
                    f"a clone()"
                )


def kind_of(tensors: Sequence[Tensor]) -> str:
    """Of which kind of device the tensors are."""
    kinds = dict.fromkeys(t.device.type for t in tensors)
    return "meta" if "meta" in kinds else next(iter(kinds), "cpu")


def _cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype is not _C.float64 else value
    return type(value)(_cast(v, dtype) for v in value) if type(value) in (tuple, list) else value


def _of_our_own(result: Any) -> Any:
    """Copies, since a recording runs at once, as an interruption, what is done with memory that NumPy shares."""
    if isinstance(result, Tensor):
        with no_grad():
            return result.clone()
    return type(result)(map(_of_our_own, result)) if type(result) in (tuple, list) else result


def _without_history(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach() if value.requires_grad else value
    return type(value)(map(_without_history, value)) if type(value) in (tuple, list) else value


def _checked_function(op: CustomOpDef[..., Any], what: str, function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"{op._qualname}: {what} is given a {type(function).__name__}; expected a function")
    return function  # type: ignore[no-any-return]


def _find(qualname: str) -> CustomOpDef[..., Any]:
    """What a pickle of an op names."""
    if qualname not in registry:
        raise RuntimeError(f"{qualname}: there is no such op; import what defines it first")
    return registry[qualname]


# ---------------------------------------------------------------- gradients


class _Call:
    """Arguments of one call: the tensors among them go through the graph, and the rest stays here."""

    def __init__(self, leaves: list[Any], places: list[int], build: Any) -> None:
        self.leaves, self.places, self.build = leaves, places, build
        self.make: Any = None  # puts results together
        self.count = 0

    def values(self, tensors: Sequence[Any], others: Any = ...) -> list[Any]:
        """All arguments, with these in the places of tensors; `others` in the places of the rest, if it is given."""
        leaves = list(self.leaves) if others is ... else [others] * len(self.leaves)
        for i, t in zip(self.places, tensors, strict=True):
            leaves[i] = t
        return self.build(leaves)  # type: ignore[no-any-return]

    def result(self, made: tuple[Any, ...]) -> Any:
        return self.make(list(made[: self.count]))


class _Recorded(Function):
    """The node of an op; each op has a class of its own, whose name says which."""

    op: CustomOpDef[..., Any]

    @classmethod
    def forward(cls, ctx: Any, call: _Call, *tensors: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        op = cls.op
        values = call.values(tensors)
        result = op.run(values)
        outs, call.make = flatten(result)
        call.count = len(outs)
        written = [t for t in op._schema.mutated(values) if t.requires_grad]
        ctx.mark_dirty(*written)
        ctx.mark_non_differentiable(*(t for t in outs if isinstance(t, Tensor) and not (t.is_floating_point() or t.is_complex())))
        ctx.call = call
        ctx.refused = op._backward is None
        if op._setup is not None and not ctx.refused:
            args, kwargs = op._schema.split(values)
            given = {"keyword_only_inputs": kwargs} if kwargs else {}
            with _user_needs(ctx, op):
                op._setup(ctx=ctx, inputs=args, output=result, **given)
        return (*outs, *written)

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> tuple[Any, ...]:  # type: ignore[override]
        op = cls.op
        if ctx.refused or op._backward is None:
            raise _C.AutogradError(
                f"{op._qualname} (defined at {op._where}): no gradient was registered; use register_autograd, or call it on detach()ed "
                f"tensors"
            )
        call: _Call = ctx.call
        made = call.make(list(grads[: call.count]))  # the gradients of a list of results are a list
        given = made if isinstance(made, tuple) else (made,) if call.count else ()
        with _user_needs(ctx, op):
            result = op._backward(ctx, *given, *grads[call.count :])
        result = result if isinstance(result, tuple) else (result,)
        positional = op._schema.positional
        if len(result) != len(positional):
            names = ", ".join(a.name for a in positional)
            raise _C.AutogradError(f"{op._qualname}: backward returned {len(result)} gradients; expected one for each of: {names}")
        found: list[Any] = []
        for argument, value, grad in zip(positional, call.build(list(call.leaves)), result, strict=False):
            if isinstance(value, (tuple, list)):
                grad = [None] * len(value) if grad is None else grad
                if not isinstance(grad, (tuple, list)) or len(grad) != len(value):
                    raise _C.AutogradError(
                        f"{op._qualname}: backward returned a {type(grad).__name__} for '{argument.name}'; expected a list of "
                        f"{len(value)}, or None"
                    )
                found += [g for g, v in zip(grad, value, strict=True) if isinstance(v, Tensor)]
            elif isinstance(value, Tensor):
                found.append(grad)
            elif grad is not None:
                raise _C.AutogradError(
                    f"{op._qualname}: backward returned a gradient for '{argument.name}', which is no tensor; expected None"
                )
        return (None, *found)


@contextlib.contextmanager
def _user_needs(ctx: Any, op: CustomOpDef[..., Any]) -> Iterator[None]:
    """Meanwhile `ctx.needs_input_grad` has an entry for each argument of the op, and not for each tensor."""
    flat = ctx.needs_input_grad
    call: _Call = ctx.call
    ctx.needs_input_grad = tuple(call.values(flat[1:], False))[: len(op._schema.positional)]
    try:
        yield
    finally:
        ctx.needs_input_grad = flat
