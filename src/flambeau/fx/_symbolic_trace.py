"""The tracer: runs a program with a `Proxy` for each argument, and makes a graph of what it does.

    root.forward(Proxy x)                              graph
      self.conv(x)        leaf: one node               conv   call_module[target=conv]
      self.block(x)       not a leaf: is run           block_0, block_1, ...
      self.weight         looked at                    weight get_attr[target=weight]
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau.fx._parameters import PH, PHBase, _assert_is_none, annotation, parameters_of
from flambeau.fx._patches import Patcher, find_tracer, patch_listed, patch_wrapped, wrap
from flambeau.fx._takeover import functions_recorded_whole
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Argument
from flambeau.fx.proxy import ParameterProxy, Scope, TracerBase
from flambeau.nn.containers import Sequential
from flambeau.nn.module import Module, by_call_impl
from flambeau.nn.parameter import Parameter

__all__ = ["PH", "PHBase", "Tracer", "_assert_is_none", "is_fx_tracing", "symbolic_trace", "wrap"]

_state = threading.local()  # the innermost trace of this thread
_lock = threading.RLock()  # patches of modules are the process's: one program is traced at a time


def is_fx_tracing() -> bool:
    """Whether this thread is tracing a program."""
    return getattr(_state, "tracer", None) is not None


class Tracer(TracerBase):
    """Makes graphs of programs. A subclass says what a leaf is (`is_leaf_module`), or what becomes of values (`create_arg`).

    autowrap_modules: functions of these modules are recorded as one call where they get a traced value. autowrap_functions: these, too.
    param_shapes_constant: shapes of parameters are numbers, and not nodes.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import GraphModule, Tracer
        >>> class Shallow(Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return True
        >>> net = fl.nn.Sequential(fl.nn.Sequential(fl.nn.Linear(2, 2), fl.nn.ReLU()), fl.nn.Linear(2, 1))
        >>> graph = Shallow().trace(net)
        >>> [node.target for node in graph.nodes]
        ['input', '0', '1', 'output']
    """

    def __init__(
        self, autowrap_modules: tuple[types.ModuleType, ...] = (math,), autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        names = [(name, value) for module in autowrap_modules for name, value in vars(module).items()]
        listed = [value for name, value in names if not name.startswith("_") and callable(value)]
        self._autowrap_function_ids = {id(value) for value in (*listed, *autowrap_functions)}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.tensor_attrs: dict[int, str] = {}
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = {}
        self.root: Module

    # ------------------------------------------------------------------ what a subclass may say

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one node; the library's own are, but for `Sequential`."""
        return m.__module__.startswith(("flambeau.nn", "torch.nn", "flambeau.ao.nn", "torch.ao.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the root.

        Raises:
            NameError: it is no module of the root.
        """
        if self.submodule_paths and (path := self.submodule_paths.get(mod)) is not None:
            return path
        for name, child in self.root.named_modules():
            if child is mod:
                return name
        raise NameError(
            f"fx: module {type(mod).__name__} is not installed as a submodule of {self.root_module_name}; "
            "make it in __init__ and assign it to self"
        )

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is done where the program calls a module: a node for a leaf, else `forward`, which runs it."""
        path = self.path_of_module(m)
        before = self.scope
        self.scope = Scope(path, type(m))
        key, number = path, 0
        while key in self.module_stack:
            number += 1
            key = f"{path}@{number}"
        self.module_stack[key] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            del self.module_stack[key]
            self.scope = before

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What the program sees of an attribute of a module: a proxy for a parameter (and a buffer, if they are to be)."""
        return self._module_getattr(attr, attr_val, parameter_proxy_cache)

    def create_arg(self, a: Any) -> Argument:
        """As `TracerBase.create_arg`; parameters, buffers, other tensors and modules become attributes of the root."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
            what = f"a parameter of shape {list(a.shape)}"
            raise NameError(f"fx: {what} is no parameter of {self.root_module_name}; assign it to self in __init__")
        if isinstance(a, flambeau.Tensor):
            path = self._fl_path_of_tensor(a) or self._fl_keep("_tensor_constant", a)
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            fields = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), fields, {}) if find_tracer((tuple(a),), {}) else type(a)(*fields)
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name for an attribute that the root has not."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def _fl_keep(self, prefix: str, value: Any) -> str:
        name = self.get_fresh_qualname(prefix)
        self.tensor_attrs[id(value)] = name
        setattr(self.root, name, value)
        return name

    def _fl_path_of_tensor(self, value: flambeau.Tensor) -> str | None:
        name = self.tensor_attrs.get(id(value))
        return name or next((path for path, buffer in self.root.named_buffers() if buffer is value), None)

    def _module_getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        named: Iterator[tuple[str, Any]]
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, flambeau.Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        path = next((name for name, value in named if value is attr_val), None)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            more: dict[str, Any] = {}
            # Tracers of packages override create_proxy without it, and get ordinary proxies.
            takes_factory = "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters
            if self.param_shapes_constant and takes_factory and isinstance(attr_val, Parameter):
                more["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, path, attr_val)
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {}, **more)
        return parameter_proxy_cache[path]

    # ------------------------------------------------------------------ tracing

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """(what is to be called, with what): a proxy for each parameter of `root_fn`, but for those that `concrete_args` has."""
        return parameters_of(self, root_fn, is_module, concrete_args)

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or a function; `concrete_args` has values for arguments by which the program decides.

        Raises:
            TraceError: the program decides by a value that is not known.
            TypeError: `root` is neither.
        """
        function, module = self._fl_taken(root)
        with _lock, functions_recorded_whole(), _active(self):
            self.root = module
            self.submodule_paths = {child: name for name, child in module.named_modules()}
            self.tensor_attrs = _tensors_in(module)
            self.graph = Graph(tracer_cls=type(self))
            function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
            cache: dict[str, Any] = {}
            with Patcher() as patcher:
                self._fl_patch_modules(patcher, cache)
                patch_wrapped(patcher)
                for space in (vars(m) for m in self._autowrap_search):
                    patch_listed(patcher, space, self._autowrap_function_ids)
                patch_listed(patcher, getattr(inspect.unwrap(function), "__globals__", {}), self._autowrap_function_ids)
                result = function(*args)
                kind = annotation(function, "return")
                self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
            self.submodule_paths = None
        return self.graph

    def _fl_taken(self, root: Any) -> tuple[Callable[..., Any], Module]:
        if isinstance(root, Module):
            self.root_module_name = root._get_name()
            function = getattr(type(root), self.traced_func_name, None)
            if function is None:
                raise TypeError(f"Tracer.trace: {type(root).__name__} has no method {self.traced_func_name} (traced_func_name) to trace")
            return function, root
        if not callable(root):
            raise TypeError(f"Tracer.trace: root is a {type(root).__name__}; expected a Module or a function")
        self.root_module_name = getattr(root, "__name__", type(root).__name__)
        return root, Module()

    def _fl_patch_modules(self, patcher: Patcher, cache: dict[str, Any]) -> None:
        original_getattr = Module.__getattr__
        tracer = self

        def recorded(original_call: Callable[..., Any]) -> Callable[..., Any]:
            def call(mod: Any, *args: Any, **kwargs: Any) -> Any:
                if getattr(_state, "tracer", None) is not tracer:
                    return original_call(mod, *args, **kwargs)

                def forward(*args: Any, **kwargs: Any) -> Any:
                    return original_call(mod, *args, **kwargs)

                patch_listed(patcher, getattr(getattr(mod, "forward", mod), "__globals__", {}), tracer._autowrap_function_ids)
                return tracer.call_module(mod, forward, args, kwargs)

            return call

        def get(mod: Any, name: str) -> Any:
            value = original_getattr(mod, name)
            if getattr(_state, "tracer", None) is not tracer:
                return value
            return tracer.getattr(name, value, cache)

        # Beside Module's own: those of classes that say what a call is by `_call_impl`.
        own = {kind for m in self.root.modules() for kind in type(m).__mro__ if vars(kind).get("__call__") is by_call_impl}
        for kind in (Module, *own):
            patcher.patch_method(kind, "__call__", recorded(kind.__call__))
        patcher.patch_method(Module, "__getattr__", get)


@contextlib.contextmanager
def _active(tracer: Tracer) -> Iterator[None]:
    before = getattr(_state, "tracer", None)
    _state.tracer = tracer
    try:
        yield
    finally:
        _state.tracer = before


def _tensors_in(root: Module) -> dict[int, str]:
    """id -> path of tensors that are plain attributes of modules."""
    return {
        id(value): f"{path}.{name}" if path else name
        for path, module in root.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, flambeau.Tensor)
    }


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The graph of a module or a function as a module that runs it; it has the parameters of `root` itself, not copies.

    Example:
        >>> import flambeau as fl
        >>> def f(x, scale=2.0):
        ...     return fl.relu(x) * scale
        >>> traced = fl.fx.symbolic_trace(f)
        >>> print(traced.code.strip())
        def forward(self, x, scale = 2.0):
            relu = flambeau.relu(x);  x = None
            mul = relu * scale;  relu = scale = None
            return mul
        >>> traced(fl.tensor([-1.0, 3.0]))
        tensor([0., 6.])

    Raises:
        TraceError: the program decides by a value that is not known (`if x.sum() > 0`); `concrete_args={"flag": True}` makes an argument
            known, and `wrap` or a leaf module keeps a decision out of the graph.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)


