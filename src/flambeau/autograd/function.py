"""Functions with a backward of their own.

Example:
    >>> import flambeau as fl
    >>> class Exp(fl.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, dy):
    ...         (y,) = ctx.saved_tensors
    ...         return dy * y
    >>> x = fl.zeros(2, requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._memory_format import strided
from flambeau._warn import warn
from flambeau.autograd._edges import is_sparse
from flambeau.autograd.modes import no_grad

_layout, _dense = operator.attrgetter("layout"), frozenset((strided,))


def _any_sparse(tensors: list[Tensor]) -> bool:
    return not _dense.issuperset(map(_layout, tensors))


class FunctionCtx:
    """What forward leaves for backward. Also takes attributes of any name."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors (inputs, outputs or others) for backward; their versions are checked there."""
        self._fl_to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for a static `jvp`, where `saved_tensors` and `saved_for_forward` have them."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor) and tensor is not None:
                raise TypeError(f"save_for_forward: got a {type(tensor).__name__}; expected tensors or None")
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which inputs forward wrote in place; each must be returned. Of another tensor it warns."""
        self._fl_dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says which outputs have no gradient."""
        self._fl_fixed = tensors

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Changes nothing: tensors that share memory are known."""

    def set_materialize_grads(self, value: bool) -> None:
        """Whether the gradient of an unused output arrives as zeros (default) or as None."""
        self._fl_materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        if self._fl_forwards and self.saved_for_forward:
            return self.saved_for_forward  # type: ignore[return-value]
        saved = self._fl_saved
        if saved is None:
            return tuple(getattr(self, "_fl_to_save", ()))
        with _C.held(_C.set_grad_enabled, True):  # with their histories, by which backward may differentiate although it is not recorded
            return saved.unpack()  # type: ignore[no-any-return]

    _fl_to_save: tuple[Tensor | None, ...] = ()
    saved_for_forward: tuple[Tensor | None, ...] = ()
    _fl_forwards = False  # while jvp runs
    _fl_dirty: tuple[Tensor, ...] = ()
    _fl_fixed: tuple[Tensor, ...] = ()
    _fl_materialize = True
    _fl_saved: Any = None
    _fl_function: type[Function]
    _fl_sparse: dict[int, Any] = {}  # such inputs by their positions, without history
    _fl_sparse_outputs: dict[int, Any] = {}

    def _run_backward(self, *grads: Tensor | None) -> tuple[Any, ...]:
        if self._fl_sparse_outputs:
            made = self._fl_sparse_outputs
            grads = tuple(g if g is None or i not in made else made[i]._with(g) for i, g in enumerate(grads))
        result = self._fl_function._fl_rule()(self, *grads)
        result = result if isinstance(result, tuple) else (result,)
        extra = len(result) - len(self.needs_input_grad)
        if extra > 0 and all(r is None for r in result[-extra:]):
            result = result[:-extra]
        if self._fl_sparse:
            from flambeau.sparse._functions import values_at

            result = tuple(g if g is None or i not in self._fl_sparse else values_at(self._fl_sparse[i], g) for i, g in enumerate(result))
        return result


class Function:
    """Base of functions with static `forward(ctx, *args)` and `backward(ctx, *grad_outputs)`.

    Alternatively `forward(*args)` beside `setup_context(ctx, inputs, output)`. `apply` calls it.

    Inside of `vmap` it is called once per sample, unless it has a static `vmap(info, in_dims, *args)` that takes whole batches and
    returns (output, out_dims). `info` has `batch_size` and `randomness`. With `generate_vmap_rule = True` and a `setup_context` there must
    be none: forward, backward and jvp are called once for the batch, each inside of a `vmap` of its own, and so is setup_context.
    Forward mode calls a static `jvp(ctx, *tangents)`, which gets a tangent for each argument of forward (None for what is no tensor) and
    returns one for each output. Where there is none, it differentiates `backward`, which may be called `vjp`.

    Example:
        >>> import flambeau as fl
        >>> class Double(fl.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, dy):
        ...         return dy * 2
        >>> x = fl.ones(2, requires_grad=True)
        >>> Double.apply(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Function: a subclass has to define the static method forward (you must implement the forward function)")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        name = args[0]._fl_function.__name__ if args and isinstance(args[0], FunctionCtx) else "Function"
        raise NotImplementedError(
            f"{name}: no backward to differentiate by; define the static method backward(ctx, *grad_outputs) "
            "(you must implement either the backward or vjp method)"
        )

    vjp = backward  # another name of it

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """What a subclass may define for forward mode; see the class."""
        raise NotImplementedError("Function.jvp: a subclass defines it; without one forward mode differentiates backward")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """What a subclass may define, to be called with whole batches inside of `vmap`; see the class."""
        raise NotImplementedError("Function.vmap: a subclass defines it; without one `func.vmap` calls `apply` once per sample")

    @classmethod
    def _fl_rule(cls) -> Callable[..., Any]:
        """The derivative, by the name that the subclass has it under."""
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise _C.AutogradError(
                f"{cls.__name__}: it has both backward and vjp, which are names of the same; expected one of them "
                "(Implementing both 'backward' and 'vjp' for a custom Function is not allowed)"
            )
        return cls.vjp

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        warn(f"{name}: a Function should not be instantiated; its methods are static, call {name}.apply", DeprecationWarning)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = type(self).__name__
        raise _C.AutogradError(
            f"{name}: a Function is not called; use {name}.apply(...), without making an object "
            "(Legacy autograd function with non-static forward method is deprecated)"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls forward and records backward. What is given by name has its place among forward's arguments, and its gradient; so have
        defaults before it, and with `setup_context` all that have a place.
        """
        if kwargs or hasattr(cls, "setup_context"):
            args = cls._fl_positional(args, kwargs)
        if _C.profiler.recording():
            token = _C.profiler.begin(cls.__name__, 0)
            result = None
            try:
                result = cls._fl_apply(*args)
            finally:
                outputs = result if isinstance(result, tuple) else (result,)
                tensors = [o for o in outputs if isinstance(o, Tensor)]
                _C.profiler.end(token, result is None, tensors[0] if tensors else None)
            return result
        return cls._fl_apply(*args)

    @classmethod
    def _fl_positional(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        import inspect

        separate = hasattr(cls, "setup_context")
        given = inspect.signature(cls.forward).bind(*(() if separate else (None,)), *args, **kwargs)
        named = set(given.arguments)
        given.apply_defaults()  # those before an argument that was given by name, too: otherwise it would have no place
        if names := [name for name in given.kwargs if name in kwargs]:
            raise TypeError(f"{cls.__name__}.apply: forward takes {', '.join(names)} by name alone; expected arguments that have a place")
        if separate:
            return given.args
        # Beside a context the defaults behind the last argument are none of apply's, and backward returns no gradients for them.
        while (last := next(reversed(given.arguments))) not in named:
            del given.arguments[last]
        return given.args[1:]

    @classmethod
    def _fl_apply(cls, *args: Any) -> Any:
        if _C.has_override(*args):  # inside of vmap or jvp
            from flambeau.func._functions import apply_wrapped

            result = apply_wrapped(cls, args)
            if result is not NotImplemented:
                return result
        ctx, result = cls._fl_run(args)
        if ctx.saved_for_forward:
            del ctx.saved_for_forward  # nobody goes forward
        return result

    @classmethod
    def _fl_run(cls, args: Sequence[Any]) -> tuple[FunctionCtx, Any]:
        """What `apply` does with plain arguments: the context, and the result."""
        ctx = FunctionCtx()
        ctx._fl_function = cls
        tensors = [a for a in args if isinstance(a, Tensor)]
        recording = _C.is_grad_enabled()
        record = recording and any(t.requires_grad for t in tensors)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        # No loop inside: Ctrl-C at its jump back would leave the mode off, since CPython 3.13 leaves those out of what `finally` covers.
        try:
            _C.set_grad_enabled(False)
            output, outputs = cls._fl_forward(ctx, args, tensors, record)
        finally:
            _C.set_grad_enabled(recording)
        if record:
            kept: list[Any] = [o if isinstance(o, Tensor) else None for o in outputs]
            fixed: Sequence[Any] = ctx._fl_fixed
            if _any_sparse(tensors):  # gradients go through their values
                ctx._fl_sparse = {i: a.detach() for i, a in enumerate(args) if is_sparse(a)}
                args = [a._val if i in ctx._fl_sparse else a for i, a in enumerate(args)]
            if _any_sparse([o for o in kept if o is not None]):
                ctx._fl_sparse_outputs = {i: o.detach() for i, o in enumerate(kept) if is_sparse(o)}
                kept = [o._val if i in ctx._fl_sparse_outputs else o for i, o in enumerate(kept)]
                fixed = [o._val if is_sparse(o) else o for o in fixed]
            ctx._fl_saved = _C.finish_function(
                ctx, cls.__name__ + "Backward", args, kept, ctx._fl_dirty, fixed, ctx._fl_to_save, ctx._fl_materialize
            )
            ctx._fl_to_save = ctx._fl_dirty = ()  # a view's history leads back here
        return ctx, tuple(outputs) if isinstance(output, (tuple, list)) else outputs[0]

    @classmethod
    def _fl_forward(cls, ctx: FunctionCtx, args: Sequence[Any], tensors: list[Tensor], record: bool) -> tuple[Any, list[Any]]:
        """What `forward` returns, and the tensors to record."""
        setup = getattr(cls, "setup_context", None)
        output = cls.forward(ctx, *args) if setup is None else cls.forward(*args)
        if setup is not None:
            setup(ctx, args, output)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        # An input that is handed through unchanged needs an identity of its own.
        dirty = ctx._fl_dirty
        if dirty and not all(any(d is t for t in tensors) for d in dirty):
            phrase = "ctx.mark_dirty() received a tensor that was not an input"
            warn(f"{cls.__name__}: forward marks a tensor as dirty that is none of its inputs ({phrase})")
        for i, out in enumerate(outputs):
            same = isinstance(out, Tensor) and any(out is t for t in tensors)
            if same and not any(out is d for d in dirty):
                # With a history as a view, so that writes are refused: no gradient would know of them.
                fixed = any(out is f for f in ctx._fl_fixed)
                outputs[i] = out.view_as(out) if record and not fixed and not is_sparse(out) else out.detach()
                if fixed:
                    ctx._fl_fixed = (*ctx._fl_fixed, outputs[i])
        if record:
            for d in dirty:
                if not any(out is d for out in outputs):
                    raise _C.AutogradError(
                        f"{cls.__name__}: forward marks a tensor of shape {list(d.shape)} as dirty and does not return it; "
                        "return what was written in place (Some elements marked as dirty during the forward method were not returned as "
                        "output.)"
                    )
                if d.requires_grad and d.is_leaf:
                    raise _C.AutogradError(
                        f"{cls.__name__}: a leaf tensor that requires grad can not be written in place"
                    )
        return output, outputs


class InplaceFunction(Function):
    """A Function with an attribute `inplace`: a base of older programs."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a `backward` as not differentiable itself: differentiating it raises instead of being wrong."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            result = backward(ctx, *grads)
        if not _C.is_grad_enabled() or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return result
        results = result if isinstance(result, tuple) else (result,)
        return tuple(
            _Refuse.apply(r.detach(), backward.__qualname__, *[g for g in grads if isinstance(g, Tensor)])
            if isinstance(r, Tensor)
            else r
            for r in results
        )

    return wrapper


class _Refuse(Function):
    """Hands its first argument on, and raises when it is differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, *grads: Tensor) -> Tensor:
        ctx.name = name
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise _C.AutogradError(f"{ctx.name} is marked once_differentiable; it can not be differentiated a second time")


