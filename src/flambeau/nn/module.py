"""`Module`: the base class of everything with parameters.

A module is a tree: `_modules` holds the children, `_parameters` and `_buffers` the tensors of this
node. Attributes of these three kinds live in those dicts, never in `__dict__`, so that `to`,
`state_dict` and the optimizers find them; everything else is an ordinary attribute.

`__call__` goes straight to `forward` unless a hook was ever registered (`_hooked`); while a profile
with modules runs, `flambeau.profiler` puts a function in its place that records the call. Saving and
loading of state is in `_state.py`, the machinery of backward hooks in `_hooks.py`, error paths in
`_errors.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._handles import HookTable, RemovableHandle
from flambeau._memory_format import check_memory_format
from flambeau.autograd import no_grad
from flambeau.nn._errors import annotate
from flambeau.nn._hooks import tap_inputs, tap_outputs
from flambeau.nn._state import StateMixin
from flambeau.nn.parameter import Buffer, Parameter

T = TypeVar("T", bound="Module")

_TABLES = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_CALL_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def _kind(value: Any) -> str:
    module = type(value).__module__
    name = type(value).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


class Module(StateMixin):
    """Base class of all layers and models.

    Assign parameters, buffers and other modules as attributes and define `forward`.

    >>> import flambeau as fl
    >>> class Net(fl.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = fl.nn.Linear(4, 2)
    ...     def forward(self, x):
    ...         return self.fc(x).relu()
    >>> Net()(fl.zeros(3, 4)).shape
    flambeau.Size([3, 2])
    """

    training: bool
    call_super_init: bool = False
    _version: int = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            got = f"{len(args)} positional arguments" if args else f"keyword '{next(iter(kwargs))}'"
            raise TypeError(f"{type(self).__name__}.__init__: Module takes no arguments, got {got}")
        put = super().__setattr__
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        put("_modules", {})
        put("_hooked", False)
        for table in _TABLES:
            put(table, HookTable())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's result; every subclass defines it."""
        raise NotImplementedError(
            f"{type(self).__name__} has no forward(): define `def forward(self, x): ...` in it"
        )

    # ------------------------------------------------------------------------------------- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooked:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            annotate(self, error)
            raise

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(getattr(self, table) for table in _CALL_TABLES):
            self.__dict__["_hooked"] = False
            return self.forward(*args, **kwargs)
        called: set[int] = set()
        result: Any = None
        try:
            for key, hook in tuple(self._forward_pre_hooks.items()):
                if key in self._forward_pre_hooks_with_kwargs:
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        if not (isinstance(changed, tuple) and len(changed) == 2):
                            raise RuntimeError(
                                f"forward pre-hook of {type(self).__name__} returned "
                                f"{_kind(changed)}; "
                                "expected None or a tuple (args, kwargs)"
                            )
                        args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            call = None
            if self._backward_hooks or self._backward_pre_hooks:
                call, args = tap_inputs(self, args)
            result = self.forward(*args, **kwargs)
            for key, hook in tuple(self._forward_hooks.items()):
                called.add(key)
                changed = self._call_forward_hook(key, hook, args, kwargs, result)
                if changed is not None:
                    result = changed
            return result if call is None else tap_outputs(call, result)
        except Exception:
            for key in tuple(self._forward_hooks_always_called):
                if key in called or key not in self._forward_hooks:
                    continue
                try:
                    self._call_forward_hook(key, self._forward_hooks[key], args, kwargs, result)
                except Exception as second:
                    warnings.warn(
                        f"an always_call forward hook raised as well: {second!r}", stacklevel=2
                    )
            raise

    def _call_forward_hook(
        self, key: int, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        if key in self._forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    # --------------------------------------------------------------------------------------- hooks

    def _add_hook(self, table: HookTable, hook: Any, prepend: bool, *marks: HookTable) -> Any:
        handle = RemovableHandle(table, *marks)
        if prepend:
            table.prepend(handle.id, hook)
        else:
            table[handle.id] = hook
        for mark in marks:
            mark[handle.id] = True
        self.__dict__["_hooked"] = True
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` (or `hook(module, args, kwargs)`) before `forward`.

        The hook may return changed arguments.
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return self._add_hook(self._forward_pre_hooks, hook, prepend, *marks)  # type: ignore[no-any-return]

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
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return self._add_hook(self._forward_hooks, hook, prepend, *marks)  # type: ignore[no-any-return]

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before the module's backward; may return other
        gradients.
        """
        return self._add_hook(self._backward_pre_hooks, hook, prepend)  # type: ignore[no-any-return]

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` after the module's gradients were computed.

        It may return another `grad_input`. `grad_input` covers the positional arguments; entries of
        arguments without gradient are None.
        """
        return self._add_hook(self._backward_hooks, hook, prepend)  # type: ignore[no-any-return]

    # The older spelling; only the full hooks exist, so both names mean them.
    register_backward_hook = register_full_backward_hook

    # ---------------------------------------------------------------------------------- registering

    def _check_name(self, what: str, name: Any, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name = {name!r} ({_kind(name)}); expected a str")
        if "." in name:
            raise KeyError(f"{what} name = '{name}' contains '.', which separates names in a path")
        if name == "":
            raise KeyError(f"{what} name = '' is empty")
        if hasattr(self, name) and name not in table:
            raise KeyError(
                f"{what} name = '{name}': {type(self).__name__} already has this attribute"
            )

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under `name`; None reserves the name (a layer without bias).

        Raises:
            AttributeError: before `super().__init__()`.
            KeyError: the name is empty, holds a dot, or is taken.
            TypeError: `param` is no Parameter.
            ValueError: `param` is the result of an operation, not a leaf.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before super().__init__() was called")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_kind(param)}' object to parameter '{name}' "
                    "(flambeau.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"cannot assign the result of an operation to parameter '{name}': a parameter "
                    "must be a leaf; express it in forward() instead"
                )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a buffer under `name`; `persistent=False` leaves it out of the state_dict.

        Raises:
            AttributeError: before `super().__init__()`.
            KeyError: the name is empty, holds a dot, or is taken.
            TypeError: `tensor` is no Tensor.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before super().__init__() was called")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_kind(tensor)}' object to buffer '{name}' (Tensor or None "
                "required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child module under `name`.

        Raises:
            TypeError: `module` is no Module.
            KeyError: the name is empty, holds a dot, or is taken.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"add_module: '{name}' is {_kind(module)}; expected a Module or None")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # --------------------------------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if table in own and name in own[table]:
                return own[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        params = own.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError(
                    "cannot assign parameters before super().__init__() was called"
                )
            self._forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_kind(value)}' as parameter '{name}' "
                    "(flambeau.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = own.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before super().__init__() was called")
            self._forget(name, own, own["_parameters"], own["_buffers"])
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_kind(value)}' as child module '{name}' "
                    "(flambeau.nn.Module or None expected)"
                )
            modules[name] = value
            return
        buffers = own.get("_buffers")
        if isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffer before super().__init__() was called")
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_kind(value)}' as buffer '{name}' "
                    "(flambeau.nn.Buffer, Tensor or None expected)"
                )
            if isinstance(value, Buffer):
                self._forget(name, own, own["_parameters"], own["_modules"])
                self.register_buffer(name, value, value.persistent)
            else:
                buffers[name] = value
            return
        super().__setattr__(name, value)

    def _forget(self, name: str, *tables: dict[str, Any]) -> None:
        for table in tables:
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for table in _TABLES:
            self.__dict__.setdefault(table, HookTable())
        self.__dict__.setdefault("_hooked", False)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    # ------------------------------------------------------------------------------- looking around

    def _named_members(
        self,
        members: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{module_prefix}.{name}" if module_prefix else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields (dotted name, parameter); a tied parameter comes once unless
        `remove_duplicate=False`.
        """
        return self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields the parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields (dotted name, buffer)."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields (name, module) of the direct children, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yields the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yields (dotted name, module) of this module and all below it, depth first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def get_submodule(self, target: str) -> Module:
        """Returns the module at the dotted path `target`; '' is this module.

        Raises:
            AttributeError: there is none, or it is no Module; the text names the part that is
            missing.
        """
        module: Module = self
        walked: list[str] = []
        for part in target.split(".") if target else []:
            where = ".".join(walked) or type(self).__name__
            if not hasattr(module, part):
                names = ", ".join(module._modules) or "none"
                raise AttributeError(
                    f"get_submodule('{target}'): {where} ({type(module).__name__}) has no "
                    "attribute "
                    f"'{part}'; its children: {names}"
                )
            found = getattr(module, part)
            if not isinstance(found, Module):
                raise AttributeError(
                    f"get_submodule('{target}'): '{part}' of {where} is {_kind(found)}"
                )
            module = found
            walked.append(part)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at the dotted path `target`; `strict` demands that one is there already."""
        if not target:
            raise ValueError("set_submodule: target is empty; a module cannot replace itself")
        parent_path, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_path)
        if strict and name not in parent._modules:
            raise AttributeError(
                f"set_submodule('{target}'): {type(parent).__name__} has no '{name}'"
            )
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter at the dotted path `target`.

        Raises:
            AttributeError: there is none, or it is no Parameter.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(
                f"get_parameter('{target}'): '{name}' is {_kind(found)}, no Parameter"
            )
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer at the dotted path `target`.

        Raises:
            AttributeError: there is none, or it is no buffer.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = getattr(module, name)
        if name not in module._buffers:
            raise AttributeError(f"get_buffer('{target}'): '{name}' is {_kind(found)}, no buffer")
        return found  # type: ignore[no-any-return]

    # ----------------------------------------------------------------------------- changing it all

    def apply(self: T, fn: Callable[[Module], Any]) -> T:
        """Calls `fn` on every module, children first, and returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replaces each tensor by `fn(tensor)`; a Parameter stays the same object."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                data = fn(param.detach())
                grad = param.grad
                new_grad = None if grad is None else fn(grad.detach())
                param.grad = None
                param.data = data
                param.grad = new_grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Moves and casts parameters and buffers in place and returns self.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`. `memory_format=` is
        taken without effect. Only floating-point
        tensors are cast.

        Raises:
            TypeError: the dtype is not floating point.
        """
        device, dtype = _parse_to(args, kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"Module.to: dtype = {dtype}; parameters can only become floating point")

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() else None
            options = {"device": device, "dtype": wanted}
            options = {key: value for key, value in options.items() if value is not None}
            return t.to(**options) if options else t  # type: ignore[no-any-return]

        return self._apply(convert)

    def _cast(self: T, dtype: Any) -> T:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: T) -> T:
        """Casts floating-point parameters and buffers to float32."""
        return self._cast(_C.float32)

    def double(self: T) -> T:
        """Casts floating-point parameters and buffers to float64."""
        return self._cast(_C.float64)

    def half(self: T) -> T:
        """Casts floating-point parameters and buffers to float16."""
        return self._cast(_C.float16)

    def bfloat16(self: T) -> T:
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._cast(_C.bfloat16)

    def type(self: T, dst_type: Any) -> T:
        """Casts all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.to(dst_type))

    def cpu(self: T) -> T:
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.to("cpu"))

    def cuda(self: T, device: Any = None) -> T:
        """Moves parameters and buffers to a GPU (the current one by default)."""
        where = (
            "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
        )
        return self._apply(lambda t: t.to(where))

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Moves to `device` without copying: the values are undefined afterwards."""
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse)

    def share_memory(self: T) -> T:
        """Accepted for PyTorch's sake: tensors travel between processes by value."""
        return self._apply(lambda t: t.share_memory_())

    def train(self: T, mode: bool = True) -> T:
        """Sets training mode (dropout, batch norm) here and below, and returns self.

        Raises:
            ValueError: `mode` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode = {mode!r}; expected a bool")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Sets evaluation mode: the same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Says for all parameters whether autograd records on them (False freezes the module)."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, or with `set_to_none=False` fills them with zeros."""
        for param in self.parameters():
            if param.grad is not None:
                if set_to_none:
                    param.grad = None
                else:
                    param.grad = param.grad.detach().zero_()

    # ------------------------------------------------------------------------------------ printing

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What `repr` prints between the brackets; layers override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        body = lines + children
        if not body:
            return f"{self._get_name()}()"
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(body) + "\n)"


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Returns (device, dtype) of a `to(...)` call; either may be None."""
    known = {"device", "dtype", "non_blocking", "memory_format", "tensor", "copy"}
    unknown = set(kwargs) - known
    if unknown:
        raise TypeError(
            f"Module.to: unknown argument '{min(unknown)}'; expected one of {sorted(known)}"
        )
    check_memory_format("Module.to", kwargs.get("memory_format"))
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    tensors = [kwargs["tensor"]] if "tensor" in kwargs else []
    for arg in args:
        if isinstance(arg, Tensor):
            tensors.append(arg)
        elif isinstance(arg, _C.dtype):
            dtype = arg
        elif isinstance(arg, bool) or arg is None:
            continue  # non_blocking, copy
        elif isinstance(arg, (str, int, _C.device)):
            device = f"cuda:{arg}" if isinstance(arg, int) else arg
        else:
            raise TypeError(f"Module.to: got {_kind(arg)}; expected a device, a dtype or a Tensor")
    for tensor in tensors:
        device, dtype = tensor.device, tensor.dtype
    return device, dtype
