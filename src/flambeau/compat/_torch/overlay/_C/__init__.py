"""`torch._C`: what packages take from the extension module of PyTorch's."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._errors import NoCUDAError
from flambeau.amp.autocast_mode import autocast
from flambeau.compat._torch.overlay import _scripts
from flambeau.compat._torch.overlay._C import _switches
from flambeau.library._op import set_below_autograd
from flambeau.overrides import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass"]

TensorBase = _TensorBase = _C.Tensor
_LinAlgError = _C.LinAlgError
_TensorMeta = type(_C.Tensor)
globals().update({_name: getattr(_scripts, _name) for _name in _scripts.JIT_TYPES})
globals().update({_name: _value for _name, _value in vars(_switches).items() if _name.startswith("_jit_")})
Type, ScriptMethod, ScriptObject = _scripts.JitType, _scripts.ScriptMethod, _scripts.ScriptObject
_disabled_torch_function_impl = _C.no_torch_function
_disabled_torch_dispatch_impl = _C.no_torch_dispatch


class Graph:
    """A graph of TorchScript's, of which there are none."""


class Value(Graph):
    """A value of such a graph."""


class Node(Graph):
    """A node of such a graph."""


def _log_api_usage_once(event: str) -> None:
    """Usage is not logged."""


def _get_tracing_state() -> Any:
    """None: nothing is traced."""
    return None


def _is_tracing() -> bool:
    return False


def _are_functorch_transforms_active() -> bool:
    """Whether this thread is inside of vmap, grad or another transformation of `func`."""
    from flambeau.func._levels import active

    return bool(active.levels)


def _is_alias_of(x: Any, other: Any) -> bool:
    """Whether two tensors show the same memory."""
    return bool(x.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def _is_torch_function_mode_enabled() -> bool:
    """Whether this thread is inside of a `TorchFunctionMode`."""
    from flambeau.overrides import _stack

    return bool(_stack())


def _get_cudnn_enabled() -> bool:
    """The switch `torch.backends.cudnn.enabled`."""
    from flambeau.backends import cudnn

    return bool(cudnn.enabled)


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _get_accelerator(check: Any = None) -> Any:
    """The CPU: there is no accelerator."""
    return _C.device("cpu")


def _get_default_device() -> str:
    """The name of the device that new tensors lie on."""
    from flambeau import get_default_device

    return str(get_default_device())


def _mps_is_available() -> bool:
    return False


def _cuda_getCurrentRawStream(device: int) -> int:
    raise NoCUDAError("cuda")


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """Names of PyTorch's ways to compute an operator, which can be named and not chosen: a call here has one way."""


class DispatchKeySet:
    """A set of such names."""

    def __init__(self, *keys: str) -> None:
        self._keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self._keys, *other._keys)

    def has(self, key: str) -> bool:
        """Whether a name is among them."""
        return key in self._keys


class _ExcludeDispatchKeyGuard:
    """A region without some ways to compute. Autocast is the only one that a call here could leave out.

    Raises:
        NotImplementedError: another way is named.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        if other := sorted(key for key in keys._keys if not key.startswith("Autocast")):
            raise NotImplementedError(f"_ExcludeDispatchKeyGuard: operators have no dispatch key {other[0]} here; expected those of autocast")
        self._region = autocast("cpu", enabled=False)

    def __enter__(self) -> None:
        self._region.__enter__()

    def __exit__(self, *args: Any) -> None:
        self._region.__exit__(*args)


def _AutoDispatchBelowAutograd() -> Any:  # noqa: N802
    """A region in which ops of `torch.library` compute, passing over what was given for the dispatch key Autograd."""
    return _C.held(set_below_autograd, True)
