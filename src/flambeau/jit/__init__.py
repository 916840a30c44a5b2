"""`torch.jit` as PyTorch's own with `PYTORCH_JIT=0`: there is no TorchScript, and code marked for it runs as the Python that it is.

`script` and `trace` return what they were given, which computes the same; `save` and `load` keep a module whole, with the names of its
classes in the place of code; a module that was scripted, traced or loaded has `save` as a method, too. What only TorchScript could give
(a graph as text, a file of PyTorch's with code) is refused.
"""

from __future__ import annotations

import contextlib
import copy
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeVar

from flambeau import nn
from flambeau._C import Tensor
from flambeau._warn import warn
from flambeau.futures import Future

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "enable_onednn_fusion",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "run_frozen_optimizations",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

T = TypeVar("T")


class Error(RuntimeError):
    """Raised where TorchScript itself would be needed."""


class ScriptModule(nn.Module):
    """The class of scripted modules, of which there are none here: `script` returns the module itself."""


class RecursiveScriptModule(ScriptModule):
    """See ScriptModule."""


class TracedModule(ScriptModule):
    """See ScriptModule."""


class TopLevelTracedModule(TracedModule):
    """See ScriptModule."""


class CompilationUnit:
    """What scripted functions and classes are compiled into, of which there are none here."""


class TracingCheckError(Exception):
    """What PyTorch's tracer raises where two traces of a function differ."""


class ScriptFunction:
    """The class of scripted functions, of which there are none here."""


class TracerWarning(Warning):
    """What PyTorch's tracer warns with."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """There is no tracer that could warn."""


def _with_save(obj: Any) -> Any:
    """The object itself; `nn.Module.__getattr__` finds `save` for a module with this mark."""
    if _is(obj, nn.Module):
        obj.__dict__["_fl_scripted"] = True
    return obj


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """The function, class or module itself: it runs as Python, with the same results.

    >>> import flambeau as fl
    >>> @fl.jit.script
    ... def twice(x):
    ...     return 2 * x
    >>> twice(fl.ones(2))
    tensor([2., 2.])
    """
    return _with_save(obj)


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """The function or module itself; unlike a trace it goes on looking at its arguments, so that there is nothing to check or to store."""
    return _with_save(func)


def trace_module(
    mod: Any,
    inputs: Any,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """The module itself.

    Raises:
        AttributeError: it is no module, or `inputs` is no dict or names a method that the module has not.
    """
    if not _is(mod, nn.Module):
        raise AttributeError(f"jit.trace_module: expected nn.Module as the first argument, got a {type(mod).__name__}")
    if not _is(inputs, dict):
        raise AttributeError(f"jit.trace_module: expected a dictionary of (method_name, input) pairs, got a {type(inputs).__name__}")
    for name in inputs:
        getattr(mod, name)
    return _with_save(mod)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """A copy of the module whose parameters are constants: it keeps its values when the module's change, and results require no grad.

    Raises:
        RuntimeError: it trains.

    >>> import flambeau as fl
    >>> frozen = fl.jit.freeze(fl.jit.script(fl.nn.Linear(2, 3).eval()))
    >>> frozen(fl.ones(1, 2)).requires_grad
    False
    """
    if mod.training:
        raise RuntimeError("jit.freeze: the module is in training mode; call eval() first")
    values = [value for module in mod.modules() for value in vars(module).values() if _is(value, Tensor) and not value.is_leaf]
    copies: dict[int, Any] = {id(value): value.detach().clone() for value in values}  # weight_norm's weight is no leaf
    return copy.deepcopy(mod, copies).requires_grad_(False)


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """`freeze(mod.eval())`; `flambeau.compile(mode="predict")` is what makes prediction faster here."""
    return freeze(mod.eval())


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None) -> None:
    """Does nothing: what `freeze` returns runs as Python."""


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


def script_if_tracing(fn: T) -> T:
    """The function itself."""
    return fn


_script_if_tracing = script_if_tracing


class FunctionModifiers:
    """What a compiler of TorchScript would do with a function: the values of its `_torchscript_modifier`."""

    UNUSED = "unused (a call of it raises)"
    IGNORE = "ignore (a call of it goes to Python)"
    EXPORT = "export (compiled even if nothing calls it)"
    DEFAULT = "default (compiled if something calls it)"
    COPY_TO_SCRIPT_WRAPPER = "copy to script wrapper (of the scripted module as it is)"
    _DROP = "drop (ignored, and not kept)"


def _marked(fn: T, modifier: str) -> T:
    fn._torchscript_modifier = modifier  # type: ignore[attr-defined]
    return fn


def export(fn: T) -> T:
    """The method itself, which is marked for packages that look at its `_torchscript_modifier`.

    >>> import flambeau as fl
    >>> @fl.jit.export
    ... def twice(x):
    ...     return 2 * x
    >>> twice._torchscript_modifier == fl.jit.FunctionModifiers.EXPORT
    True
    """
    return _marked(fn, FunctionModifiers.EXPORT)


def interface(obj: T) -> T:
    """The class itself, marked as an interface.

    Raises:
        RuntimeError: it is no class.
    """
    if not type.__instancecheck__(type, obj):
        raise RuntimeError(f"jit.interface: interface must be applied to a class, got {obj!r}")
    obj.__torch_script_interface__ = True  # type: ignore[attr-defined]
    return obj


def ignore(drop: Any = False, *, drop_on_export: Any = None) -> Any:
    """A decorator that returns the function itself, marked as ignored; `@ignore` and `@ignore()` are the same.

    Raises:
        RuntimeError: the argument is no function and no bool.
    """
    if callable(drop):
        return _marked(drop, FunctionModifiers.IGNORE)
    if type(drop) is not bool:
        raise RuntimeError(f"jit.ignore: Argument to @ignore must be a bool or a function but got {drop!r}")
    drop = drop or bool(drop_on_export)
    return lambda fn: _marked(fn, FunctionModifiers.UNUSED if drop else FunctionModifiers.IGNORE)


def unused(fn: T) -> T:
    """The function or property itself, marked as unused."""
    if type(fn) is property:
        for part in (fn.fget, fn.fset):  # type: ignore[attr-defined]
            if part is not None:
                _marked(part, FunctionModifiers.UNUSED)
        return fn
    return _marked(fn, FunctionModifiers.UNUSED)


def _overload(fn: T) -> T:
    return fn


def _overload_method(fn: T) -> T:
    return fn


def is_scripting() -> bool:
    """False: nothing is compiled to TorchScript."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def annotate(the_type: Any, the_value: T) -> T:
    """The value."""
    return the_value


class Attribute(typing.NamedTuple):
    """A value with the type that TorchScript would have given it."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001
    """Whether an object is of a type, which may be `List[int]`, `Dict[str, Tensor]`, `Optional[...]` or a tuple of types."""
    if type(target_type) is tuple:
        return any(isinstance(obj, t) for t in target_type)
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return obj is None if target_type in (None, type(None)) else type(obj) is target_type or _is(obj, target_type)
    if origin in (list, set, frozenset):
        return _is(obj, origin) and all(isinstance(item, inner[0]) for item in obj)
    if origin is dict:
        return _is(obj, dict) and all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        return _is(obj, tuple) and len(obj) == len(inner) and all(isinstance(item, t) for item, t in zip(obj, inner))
    return any(isinstance(obj, t) for t in inner)  # a union


def _is(obj: Any, kind: Any) -> bool:
    return issubclass(type(obj), kind)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Calls the function at once, as PyTorch does outside of TorchScript."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """The result of a `fork`."""
    return future.wait()


_fork, _wait = fork, wait


def _unwrap_optional(x: T | None) -> T:
    """The value.

    Raises:
        AssertionError: it is None.
    """
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


def _no_files(name: str) -> NoReturn:
    raise Error(
        f"jit.{name}: there is no TorchScript here; keep a model's weights with torch.save(model.state_dict(), path) and build it in Python"
    )


_FILE = "flambeau.jit"  # marks what `save` writes


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Writes a module whole, with its classes by their names, for `load` in a program that has them.

    It warns that this is no TorchScript, which is code that PyTorch compiles and C++ can load.

    Raises:
        Error: it is no module.

    >>> import flambeau as fl, io, warnings
    >>> warnings.simplefilter("ignore")
    >>> file = io.BytesIO()
    >>> fl.jit.save(fl.jit.trace(fl.nn.Linear(2, 3), fl.ones(1, 2)), file)
    >>> fl.jit.load(io.BytesIO(file.getvalue()))(fl.ones(5, 2)).shape
    flambeau.Size([5, 3])
    """
    from flambeau import serialization

    if not _is(m, nn.Module):
        _no_files("save")
    warn("jit.save: the file has the module's tensors and the names of its classes, and no TorchScript; jit.load here alone reads it")
    extra = {name: text.encode() if _is(text, str) else text for name, text in (_extra_files or {}).items()}
    serialization.save({_FILE: 1, "module": m, "extra_files": extra}, f, format="pt")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """The module that `save` wrote; `_extra_files` gets the contents of the files that it names.

    Raises:
        Error: the file is another, as a TorchScript archive, whose code only PyTorch can run.
    """
    from flambeau import serialization

    content = serialization.load(f, map_location, weights_only=False)
    if not _is(content, dict) or content.get(_FILE) != 1:
        _no_files("load")
    for name in _extra_files or ():
        _extra_files[name] = content["extra_files"].get(name, _extra_files[name])
    return content["module"]


def _get_trace_graph(f: Any, args: Any = (), kwargs: Any = None, strict: bool = True, _force_outplace: bool = False,
                     return_inputs: bool = False, _return_inputs_states: bool = False) -> NoReturn:  # fmt: skip
    """Refused: there is no TorchScript, whose graph counters of operations walk over."""
    raise Error("jit._get_trace_graph: there is no TorchScript here; utils.flop_counter counts operations, flambeau.graph records them")


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """No fusion is done: the strategy is and stays empty."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Takes both without effect, as `fuser` and `set_fusion_strategy`: there is no TorchScript that could fuse."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A region without effect: there is no executor whose optimisations could be switched."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A region without effect: nothing is fused.

    Raises:
        RuntimeError: PyTorch has no fuser of that name.
    """
    if name not in (names := [f"fuser{i}" for i in range(4)]):
        raise RuntimeError(f"jit.fuser: unrecognized fuser option (name: {name}); expected one of {', '.join(names)}")
    yield


class strict_fusion:
    """A region without effect, as PyTorch's is outside of TorchScript."""

    def __init__(self) -> None:
        warn("jit.strict_fusion: Only works in script mode")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


class _Enabled:
    """What packages ask for whether TorchScript is on, as a truth value or by `enabled`: it is off."""

    enabled = False

    def __bool__(self) -> bool:
        return self.enabled


_enabled = _Enabled()
