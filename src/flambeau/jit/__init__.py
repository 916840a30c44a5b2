"""`torch.jit` as PyTorch's own with `PYTORCH_JIT=0`: there is no TorchScript, and code marked for it runs as the Python that it is.

`script` and `trace` return what they were given, which computes the same. What only TorchScript could give (a file that C++ loads, a
graph as text) is refused.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeVar

from flambeau import nn
from flambeau.futures import Future

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "freeze",
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
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
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


class TopLevelTracedModule(ScriptModule):
    """See ScriptModule."""


class ScriptFunction:
    """The class of scripted functions, of which there are none here."""


class TracerWarning(Warning):
    """What PyTorch's tracer warns with."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """There is no tracer that could warn."""


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """The function, class or module itself: it runs as Python, with the same results.

    >>> import flambeau as fl
    >>> @fl.jit.script
    ... def twice(x):
    ...     return 2 * x
    >>> twice(fl.ones(2))
    tensor([2., 2.])
    """
    return obj


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
    return func


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
        AttributeError: `inputs` names a method that the module has not.
    """
    for name in inputs:
        getattr(mod, name)
    return mod


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself, which has to be in evaluation mode as in PyTorch.

    Raises:
        RuntimeError: it trains.
    """
    if mod.training:
        raise RuntimeError("jit.freeze: the module is in training mode; call eval() first")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself; `flambeau.compile(mode="predict")` is what makes prediction faster here."""
    return mod


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


def script_if_tracing(fn: T) -> T:
    """The function itself."""
    return fn


_script_if_tracing = script_if_tracing


def export(fn: T) -> T:
    """The method itself."""
    return fn


def interface(obj: T) -> T:
    """The class itself."""
    return obj


def ignore(drop: Any = False, *, drop_on_export: Any = None) -> Any:
    """A decorator that returns the function itself."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: T) -> T:
    """The function itself."""
    return fn


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


def _no_files(name: str) -> NoReturn:
    raise Error(
        f"jit.{name}: there is no TorchScript here; keep a model's weights with torch.save(model.state_dict(), path) and build it in Python"
    )


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Refused: a TorchScript archive holds code that only PyTorch can compile."""
    _no_files("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> NoReturn:
    """Refused: a TorchScript archive holds code that only PyTorch can run."""
    _no_files("load")


def _get_trace_graph(f: Any, args: Any = (), kwargs: Any = None, strict: bool = True, _force_outplace: bool = False,
                     return_inputs: bool = False, _return_inputs_states: bool = False) -> NoReturn:  # fmt: skip
    """Refused: there is no TorchScript, whose graph counters of operations walk over."""
    raise Error("jit._get_trace_graph: there is no TorchScript here; utils.flop_counter counts operations, flambeau.graph records them")


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """No fusion is done: the strategy is and stays empty."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Refused where it is asked for: there is no TorchScript that could fuse."""
    if enabled:
        _no_files("enable_onednn_fusion")


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A region without effect: there is no executor whose optimisations could be switched."""
    yield


class _JitState:
    enabled = False


_state = _JitState()
