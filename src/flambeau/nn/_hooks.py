"""How Module hooks are kept, removed, called and tied to the backward pass.

A hook is kept in an ordered dict under the id of its handle. The backward hooks need to
see gradients at the border of a module, so two identity Functions ("taps") are laid around the
call:

    inputs --[InputTap]--> forward --[OutputTap]--> outputs          (forward)
    grad_input <--[InputTap]-- ... <--[OutputTap]-- grad_output      (backward)
        2. full_backward hooks          1. full_backward_pre hooks
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._handles import HookTable, RemovableHandle, Table, put_hook
from flambeau._warn import warn
from flambeau.autograd import Function, is_grad_enabled
from flambeau.nn._errors import kind_of

TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_KINDS: dict[str, type[Table]] = {"_parameters": Table, "_buffers": Table, "_modules": Table, **dict.fromkeys(TABLES, HookTable)}
# Those that make a call look for hooks.
CALL_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


# Hooks of all modules (`nn.modules.module`), called before a module's own.
REGISTRATIONS = ("parameter", "buffer", "module")
EVERYWHERE = {
    table: HookTable() for table in (*CALL_TABLES, "_forward_hooks_with_kwargs", "_forward_hooks_always_called", *REGISTRATIONS)
}


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the hooks of registrations make of a part that `module` gets."""
    for hook in tuple(EVERYWHERE[kind].values()):
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def add_everywhere(table: str, hook: Any, *marks: str) -> RemovableHandle:
    """Puts a hook of all modules into one of the tables."""
    handle = put_hook(EVERYWHERE[table], hook, False, *(EVERYWHERE[mark] for mark in marks))
    if table in CALL_TABLES:
        HookTable.hooked = True
    return handle


class HookMixin:
    """The half of Module that keeps hooks and calls them."""

    _forward_pre_hooks: HookTable
    _forward_pre_hooks_with_kwargs: HookTable
    _forward_hooks: HookTable
    _forward_hooks_with_kwargs: HookTable
    _forward_hooks_always_called: HookTable
    _backward_pre_hooks: HookTable
    _backward_hooks: HookTable
    _compiled_call_impl: Any = None  # of a module that compiled itself
    _is_full_backward_hook: bool | None  # of which kind the backward hooks are, once there was one

    def _fl_link_tables(self) -> None:
        """Has the tables that calls need led by one of them, at which a call looks."""
        leader = self.__dict__["_forward_hooks"]
        own = self.__dict__
        for name in CALL_TABLES:
            table = own[name]
            led_by = None if table is leader else leader
            if table.leader is not led_by:
                table.leader = led_by
            if table:
                leader.hooked = True

    def _fl_adopt_tables(self) -> bool:
        """Makes tables of plain dicts, which files have, and programs that write into `__dict__`; tells whether there are hooks."""
        own = self.__dict__
        for name, kind in _KINDS.items():
            table = own.get(name, ())
            if type(table) is not kind and not isinstance(table, kind):  # an old file lacks some
                own[name] = kind(table)
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)
        self._fl_link_tables()
        return bool(own["_forward_hooks"].hooked)

    def _fl_table(self, name: str) -> HookTable:
        if not isinstance(getattr(self, name), HookTable):
            self._fl_adopt_tables()
        return self.__dict__[name]  # type: ignore[no-any-return]

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` (or `hook(module, args, kwargs)`) before `forward`.

        The hook may return changed arguments.
        """
        marks = [self._fl_table("_forward_pre_hooks_with_kwargs")] if with_kwargs else []
        return put_hook(self._fl_table("_forward_pre_hooks"), hook, prepend, *marks)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` (`with_kwargs`: `hook(module, args, kwargs, output)`)
        after `forward`; the hook may return another output. `always_call` runs it on an error
        too."""
        marks = [self._fl_table("_forward_hooks_with_kwargs")] if with_kwargs else []
        if always_call:
            marks.append(self._fl_table("_forward_hooks_always_called"))
        return put_hook(self._fl_table("_forward_hooks"), hook, prepend, *marks)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before the module's backward; may return other
        gradients.
        """
        return put_hook(self._fl_table("_backward_pre_hooks"), hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` after the module's gradients were computed.

        It may return another `grad_input`. `grad_input` covers the positional arguments: entries of what is no tensor are None; those
        of tensors that do not require grad are zeros, and None where no argument requires grad.

        Raises:
            RuntimeError: there is a hook of `register_backward_hook`; a module has one kind.
        """
        self._fl_of_one_kind(full=True)
        return put_hook(self._fl_table("_backward_hooks"), hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older name of `register_full_backward_hook`: a full hook, which lists and dicts that the module returns may have.

        Raises:
            RuntimeError: there is a hook of `register_full_backward_hook`; a module has one kind.
        """
        self._fl_of_one_kind(full=False)
        return put_hook(self._fl_table("_backward_hooks"), hook, prepend=False)

    def _fl_of_one_kind(self, full: bool) -> None:
        names = ("register_backward_hook", "register_full_backward_hook")
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module: "
                f"{names[full]}: {type(self).__name__} has a hook of {names[not full]}; use {names[True]} for both"
            )
        self._is_full_backward_hook = full

    def _fl_call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (compiled := self.__dict__.get("_compiled_call_impl")) is not None:
            return compiled(self, *args, **kwargs)
        return self._fl_call_uncompiled(args, kwargs)

    def _fl_call_uncompiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._fl_has_hooks():
            if not self._fl_look_again():
                return self.forward(*args, **kwargs)  # type: ignore[attr-defined]
        called: set[int] = set()
        result: Any = None
        try:
            # The backward runs the hooks that there are now: a handle may be removed, and a hook added, before it.
            before = [hook for _, hook in self._fl_all("_backward_pre_hooks")]
            after = [hook for _, hook in self._fl_all("_backward_hooks")]
            for key, hook in self._fl_all("_forward_pre_hooks"):
                if key in self._forward_pre_hooks_with_kwargs:
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        if not (isinstance(changed, tuple) and len(changed) == 2):
                            raise RuntimeError(
                                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {kind_of(changed)} "
                                f"from one of {type(self).__name__}"
                            )
                        args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            call = None
            if before or after:
                call, args = tap_inputs(_Call(self, before, after), args)
            result = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
            for key, hook in self._fl_all("_forward_hooks"):
                called.add(key)
                changed = self._fl_call_forward_hook(key, hook, args, kwargs, result)
                if changed is not None:
                    result = changed
            return result if call is None else tap_outputs(call, result)
        except Exception:
            always = {key for key, _ in self._fl_all("_forward_hooks_always_called")}
            for key, hook in self._fl_all("_forward_hooks"):
                if key in called or key not in always:
                    continue
                try:
                    self._fl_call_forward_hook(key, hook, args, kwargs, result)
                except Exception as second:
                    warn(f"an always_call forward hook raised as well: {second!r}")
            raise

    def _fl_call_forward_hook(
        self, key: int, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        if key in self._forward_hooks_with_kwargs or key in EVERYWHERE["_forward_hooks_with_kwargs"]:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _fl_has_hooks(self) -> bool:
        """Whether a call of the module runs hooks of its own."""
        return any(getattr(self, table) for table in CALL_TABLES)

    def _fl_look_again(self) -> bool:
        """Lowers the flags and raises them again where there is a hook: one that a thread adds meanwhile raises its own."""
        leader = self._forward_hooks
        leader.__dict__.pop("hooked", None)
        HookTable.hooked = False
        if "_compiled_call_impl" in self.__dict__ or self._fl_has_hooks():
            leader.hooked = True
        if any(EVERYWHERE[table] for table in CALL_TABLES):
            HookTable.hooked = True
        return leader.hooked

    def _fl_all(self, table: str) -> list[tuple[int, Any]]:
        """The hooks of all modules, then the module's own; a copy, since a hook may take itself out."""
        return [*EVERYWHERE[table].items(), *getattr(self, table).items()]


class _Call:
    """What the two taps of one call share."""

    def __init__(self, module: Any, before: list[Any], after: list[Any]) -> None:
        self.module = module
        self.before = before  # hooks of the backward: ahead of the module's part, and behind it
        self.after = after
        self.grad_outputs: tuple[Tensor | None, ...] | None = None  # of no output where none is a tensor
        self.n_inputs = 0
        self.input_positions: list[int] = []
        self.constants: list[tuple[int, Any, Any, Any]] = []  # position, shape, dtype and device of tensors that do not require grad
        self.taps_inputs = False


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _checked(kind: str, module: Any, result: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    results = tuple(result) if isinstance(result, list) else _as_tuple(result)
    if len(results) != len(given):
        which, part = ("Backward hook", "grad_input") if kind == "full_backward" else ("Backward pre hook", "grad_output")
        raise RuntimeError(
            f"{which} returned an invalid number of {part}, got {len(results)}, but expected {len(given)} "
            f"(or None to leave them as they are): {kind} hook of {type(module).__name__}"
        )
    for i, (new, old) in enumerate(zip(results, given, strict=True)):
        if new is None or old is None:
            continue
        what = f"{kind} hook of {type(module).__name__}: gradient {i} is"
        if not isinstance(new, Tensor):
            raise TypeError(f"{what} a {kind_of(new)}; expected a Tensor or None")
        if new.shape != old.shape or new.dtype is not old.dtype:
            raise RuntimeError(f"{what} {new.dtype} {list(new.shape)}; expected {old.dtype} {list(old.shape)}, as it was")
    return results


def _run_backward_hooks(
    call: _Call, grad_inputs: tuple[Tensor | None, ...], changeable: bool = True
) -> tuple[Tensor | None, ...]:
    if call.grad_outputs is None:
        return grad_inputs
    # A second derivative may reach the inputs without passing the outputs: no hook is called then.
    grad_outputs, call.grad_outputs = call.grad_outputs, None
    for hook in call.after:
        result = hook(call.module, grad_inputs, grad_outputs)
        if result is None:
            continue
        if not changeable:
            if not isinstance(result, tuple) or any(grad is not None for grad in result):
                raise RuntimeError(
                    f"full_backward hook of {type(call.module).__name__}: Backward hook for Modules where no input requires gradient "
                    "should always return None or None for all gradients, but it returned a gradient"
                )
            continue
        grad_inputs = _checked("full_backward", call.module, result, grad_inputs)
    return grad_inputs


class BackwardHookFunction(Function):  # type: ignore[misc]
    """The tap of outputs, whose name is that of their `grad_fn` in PyTorch."""

    @staticmethod
    def forward(ctx: Any, call: _Call, positions: list[int], n: int, *xs: Tensor) -> Any:
        ctx.call, ctx.positions, ctx.n = call, positions, n
        ctx.set_materialize_grads(False)  # hooks see None for an output that nothing used
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        call: _Call = ctx.call
        full: list[Tensor | None] = [None] * ctx.n
        for i, grad in zip(ctx.positions, grads):
            full[i] = grad
        grad_outputs = tuple(full)
        for hook in call.before:
            result = hook(call.module, grad_outputs)
            if result is not None:
                grad_outputs = _checked("full_backward_pre", call.module, result, grad_outputs)
        call.grad_outputs = grad_outputs
        if not call.input_positions:
            warn(
                f"the backward hooks of {type(call.module).__name__} are called without a grad_input: none of the module's arguments "
                "requires grad"
            )
        if not call.taps_inputs:
            _run_backward_hooks(call, (None,) * call.n_inputs, changeable=False)
        return (None, None, None, *(grad_outputs[i] for i in ctx.positions))


class _InputTap(Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, call: _Call, *xs: Tensor) -> Any:
        ctx.call = call
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        call: _Call = ctx.call
        full: list[Tensor | None] = [None] * call.n_inputs
        for i, grad in zip(call.input_positions, grads):
            full[i] = grad
        if call.grad_outputs is not None:
            for i, shape, dtype, device in call.constants:
                full[i] = ops.zeros(shape, dtype=dtype, device=device)
        grad_inputs = _run_backward_hooks(call, tuple(full))
        return (None, *(grad_inputs[i] for i in call.input_positions))


def tap_inputs(call: _Call, args: tuple[Any, ...]) -> tuple[_Call, tuple[Any, ...]]:
    """Lays the input tap: the positional tensor arguments that require gradients pass through
    it.
    """
    call.n_inputs = len(args)
    call.input_positions = [
        i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad
    ]
    if not (is_grad_enabled() and call.input_positions):
        return call, args
    call.taps_inputs = True
    call.constants = [
        (i, a.shape, a.dtype, a.device) for i, a in enumerate(args) if isinstance(a, Tensor) and not a.requires_grad
    ]
    tapped = _InputTap.apply(call, *(args[i] for i in call.input_positions))
    out = list(args)
    for i, x in zip(call.input_positions, _as_tuple(tapped)):
        out[i] = x
    return call, tuple(out)


def tap_outputs(call: _Call, result: Any) -> Any:
    """Lays the output tap on a tensor or on the tensors of a tuple; others pass untouched.

    Hooks of `register_backward_hook` are called for a list, too, and for the first tensor of a dict.
    """
    older = getattr(call.module, "_is_full_backward_hook", None) is False
    if older and isinstance(result, dict) and (keys := [key for key, value in result.items() if isinstance(value, Tensor)]):
        changed: Any = copy.copy(result)
        changed[keys[0]] = tap_outputs(call, result[keys[0]])
        return changed
    if not isinstance(result, (Tensor, tuple)) and not (older and isinstance(result, list)):
        warn(
            f"the backward hooks of {type(call.module).__name__} are not called: forward returned a {kind_of(result)}; expected a Tensor "
            "or a tuple of Tensors"
        )
        return result
    flat = list(result) if isinstance(result, (tuple, list)) else [result]
    positions = [i for i, x in enumerate(flat) if isinstance(x, Tensor) and x.requires_grad]
    if not (is_grad_enabled() and positions):
        return result
    tapped = BackwardHookFunction.apply(call, positions, len(flat), *(flat[i] for i in positions))
    for i, x in zip(positions, _as_tuple(tapped)):
        flat[i] = x
    if not isinstance(result, (tuple, list)):
        return flat[0]
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*flat)
    return type(result)(flat)
