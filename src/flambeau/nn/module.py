"""`Module`: the base class of everything with parameters.

A module is a tree: `_modules` holds the children, `_parameters` and `_buffers` the tensors of this
node. Attributes of these three kinds live in those dicts, never in `__dict__`, so that `to`,
`state_dict` and the optimizers find them; everything else is an ordinary attribute.

`__call__` goes straight to `forward` unless there was a hook (`HookTable.hooked`); while a profile
with modules runs, `flambeau.profiler` puts a function in its place that records the call. Here are
calling, registering and attributes. Hooks are in `_hooks.py`, walking over the tree in `_tree.py`,
what changes a whole tree in `_changes.py`, saving and loading of state in `_state.py`, error paths in
`_errors.py`.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, TypeVar

from flambeau import _tensor
from flambeau._C import Tensor, graph
from flambeau._handles import HookTable, Table
from flambeau._no_tensor import CONFUSED, explained
from flambeau.nn._changes import ChangeMixin
from flambeau.nn._errors import annotate, kind_of
from flambeau.nn._hooks import CALL_TABLES, EVERYWHERE, TABLES, HookMixin, registered
from flambeau.nn._state import StateMixin
from flambeau.nn._tree import TreeMixin
from flambeau.nn.parameter import Buffer, Parameter

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


_TABLE_NAMES = frozenset(TABLES)
_PLAIN = frozenset((bool, int, float, str))  # types of values that are neither parts nor tables


class _Forward(Protocol[P, R]):
    """By what type checkers know what a module is called with and gives: its own `forward`."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


_LIBRARY = __file__.rpartition("nn")[0]
_OURS = __name__.partition(".")[0] + "."


def is_op(function: FunctionType) -> bool:
    """Whether it is an op of this library, such as `conv2d`: native in PyTorch, where no class binds it to its objects.

    What a decorator of ours (`no_grad`, `autocast`) made of a program's function is the program's.
    """
    while (wrapped := getattr(function, "__wrapped__", None)) is not None:  # inspect, which has this, is dear to import
        function = wrapped
    ours = str(function.__globals__.get("__file__")).startswith(_LIBRARY)
    first = function.__code__.co_varnames[:1]
    return ours and function.__qualname__.isidentifier() and function.__name__[0] != "_" and first != ("self",)


def _persistence(module: Module, buffer: Buffer) -> tuple[bool, ...]:
    """What a module's `register_buffer` is told of it: nothing, where the class has one of its own that does not ask."""
    register = module.register_buffer
    if getattr(register, "__func__", None) is Module.register_buffer:
        return (buffer.persistent,)
    import inspect

    if "persistent" in inspect.signature(register).parameters:
        return (buffer.persistent,)
    if not buffer.persistent:
        raise RuntimeError(
            f"{type(module).__name__}: the buffer is not persistent, but {type(module).__name__}.register_buffer takes no `persistent`; "
            "give it one, or leave out persistent=False"
        )
    return ()


def by_call_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._call_impl(*args, **kwargs)


class Module(HookMixin, ChangeMixin["Module"], StateMixin):
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
    dump_patches: bool = False
    _version: int = 1
    _fl_later: ClassVar[dict[str, Any]] = {}  # what files lack that were written before there were these attributes

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            got = f"an unexpected keyword argument '{next(iter(kwargs))}'" if kwargs else f"{len(args) + 1} positional arguments"
            raise TypeError(f"{type(self).__name__}.__init__() got {got}: Module takes none but self")
        put = super().__setattr__
        put("training", True)
        put("_parameters", Table())
        put("_buffers", Table())
        put("_non_persistent_buffers_set", set())
        for table in TABLES:
            put(table, HookTable())
        self._fl_link_tables()
        put("_is_full_backward_hook", None)
        put("_modules", Table())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's result; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function: '
            "define `def forward(self, x): ...` in it"
        )

    # ------------------------------------------------------------------------------------- calling

    if TYPE_CHECKING:

        def __call__(self: _Forward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                try:
                    hooked = self._forward_hooks.hooked
                except AttributeError:
                    if "_forward_hooks" not in self.__dict__:
                        raise
                    hooked = self._fl_adopt_tables()
                if hooked:
                    return self._fl_call_with_hooks(args, kwargs)
                return self.forward(*args, **kwargs)
            except Exception as error:
                clearer: Exception = error
                try:
                    if isinstance(error, CONFUSED) and type(self).__module__.startswith(_OURS):  # whose annotations are known
                        clearer = explained(error, type(self).forward, (self, *args), kwargs)
                    annotate(self, clearer)
                    if clearer is not error:
                        raise clearer from None
                    raise
                finally:
                    del clearer  # it holds this frame

        _call_impl = _wrapped_call_impl = __call__  # PyTorch's names of it; who overrides the first is called by the others

        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            for name, value in list(vars(cls).items()):
                if isinstance(value, FunctionType) and is_op(value):
                    setattr(cls, name, staticmethod(value))
            if "_call_impl" in vars(cls) and "__call__" not in vars(cls):
                cls.__call__ = cls._wrapped_call_impl = by_call_impl

    def compile(self, **options: Any) -> None:
        """Compiles the module's own calls: `flambeau.compile` in place, with its options. Attributes and state dict stay.

        >>> import flambeau as fl
        >>> layer = fl.nn.Linear(2, 2)
        >>> layer.compile()
        >>> layer(fl.ones(1, 2)).shape
        flambeau.Size([1, 2])
        """
        from flambeau.compiler import compile_in_place

        compile_in_place(self, **options)

    # ---------------------------------------------------------------------------------- registering

    def _fl_too_early(self, what: str, name: str) -> str:
        return (
            f"cannot assign {what} before Module.__init__() call ('{name}'); call super().__init__() first in "
            f"{type(self).__name__}.__init__"
        )

    def _fl_check_name(self, what: str, name: Any, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {kind_of(name)}: {name!r}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", which separates names in a path: got {name!r}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"{what}: attribute '{name}' already exists in {type(self).__name__}")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under `name`; None reserves the name (a layer without bias).

        Raises:
            AttributeError: before `super().__init__()`.
            KeyError: the name is empty, holds a dot, or is taken.
            TypeError: `param` is no Parameter.
            ValueError: `param` is the result of an operation, not a leaf.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError(self._fl_too_early("parameter", name))
        self._fl_check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{kind_of(param)}' object to parameter '{name}' "
                    f"({_tensor.library}.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"cannot assign the result of an operation to parameter '{name}': a parameter "
                    "must be a leaf; express it in forward() instead"
                )
        self._parameters[name] = registered("parameter", self, name, param) if EVERYWHERE["parameter"] and param is not None else param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a buffer under `name`; `persistent=False` leaves it out of the state_dict.

        Raises:
            AttributeError: before `super().__init__()`.
            KeyError: the name is empty, holds a dot, or is taken.
            TypeError: `tensor` is no Tensor.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError(self._fl_too_early("buffer", name))
        self._fl_check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{kind_of(tensor)}' object to buffer '{name}' (Tensor or None "
                "required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor) if EVERYWHERE["buffer"] else tensor
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
            raise TypeError(f"add_module: {kind_of(module)} is not a Module subclass, nor None (for '{name}')")
        self._fl_check_name("module", name, self._modules)
        self._modules[name] = registered("module", self, name, module) if EVERYWHERE["module"] else module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # --------------------------------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if (table := own.get("_parameters")) and name in table:
            return table[name]
        if (table := own.get("_buffers")) and name in table:
            return table[name]
        if (table := own.get("_modules")) and name in table:
            return table[name]
        if name == "save" and own.get("_fl_scripted"):
            from flambeau import jit

            return partial(jit.save, self)
        hint = ""
        if name in ("code", "graph", "inlined_graph", "save", "save_to_buffer"):
            hint = "; jit.script and jit.trace return the module itself, TorchScript is not here: save(model.state_dict(), file) saves it"
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if type(value) in _PLAIN and name in own:  # what is there is in no table
            if own[name] is not value:
                graph.objects_changed()
            super().__setattr__(name, value)
            return
        params = own.get("_parameters")
        is_tensor = isinstance(value, Tensor)
        if is_tensor and isinstance(value, Parameter):
            if params is None:
                raise AttributeError(self._fl_too_early("parameter", name))
            self._fl_forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as parameter '{name}' "
                    f"({_tensor.library}.nn.Parameter or None expected)"
                    + (f"; wrap it: nn.Parameter(value), of {value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else "")
                )
            self.register_parameter(name, value)
            return
        modules = own.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError(self._fl_too_early("module", name))
            self._fl_forget(name, own, own["_parameters"], own["_buffers"])
            modules[name] = registered("module", self, name, value) if EVERYWHERE["module"] else value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as child module '{name}' "
                    f"({_tensor.library}.nn.Module or None expected)"
                )
            modules[name] = registered("module", self, name, value) if EVERYWHERE["module"] else value
            return
        buffers = own.get("_buffers")
        if (is_tensor and isinstance(value, Buffer)) or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError(self._fl_too_early("buffer", name))
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as buffer '{name}' "
                    f"({_tensor.library}.nn.Buffer, Tensor or None expected)"
                )
            if isinstance(value, Buffer):
                said = _persistence(self, value)
                self._fl_forget(name, own, own["_parameters"], own["_modules"])
                self.register_buffer(name, value, *said)
            else:
                buffers[name] = registered("buffer", self, name, value) if EVERYWHERE["buffer"] else value
            return
        if own.get(name, own) is not value:
            graph.objects_changed()
        if name not in _TABLE_NAMES:
            super().__setattr__(name, value)
            return
        own[name] = value if isinstance(value, HookTable) else HookTable(value or ())
        if own.keys() >= set(CALL_TABLES):
            self._fl_link_tables()

    def _fl_forget(self, name: str, *tables: dict[str, Any]) -> None:
        for table in tables:
            if name in table:
                del table[name]
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
            graph.objects_changed()
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name, value in self._fl_later.items():
            self.__dict__.setdefault(name, value)
        self._fl_adopt_tables()

    # ------------------------------------------------------------------------------------ printing

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What `repr` prints between the brackets; layers override it."""
        return ""

    def _repr_html_(self) -> str:
        """What a notebook shows: the tree, with parameters and bytes."""
        from flambeau._rich import module_html

        return module_html(self)

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


if not TYPE_CHECKING:
    del TreeMixin.__class_getitem__
