"""`autocast`: regions in which matrix products and convolutions compute in 16 bits.

Which operations do so is said by the op table (`autocast:` in ops/*.yaml) and decided in C++; this file
sets the thread's switches.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._no_tensor import CONFUSED, explain
from flambeau._warn import warn
from flambeau.autograd.modes import F, _Mode

__all__ = [
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
    "widens",
]

# Devices of PyTorch's that are none here: nothing is cast for them.
_ELSEWHERE = ("mps", "xpu", "hpu", "mtia", "xla", "ipu", "maia", "privateuseone")
_LOWER = (_C.bfloat16, _C.float16)
_of_thread = threading.local()  # has the type that is wanted of GPUs


def _device(op: str, device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"{op}: Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in ("cpu", "cuda"):
        raise RuntimeError(f"{op}: device_type = {device_type!r}; expected 'cpu' (or 'cuda', which is switched off in this build)")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` knows this device: 'cpu', and 'cuda' by name."""
    return device_type in ("cpu", "cuda")


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether operations of this thread are cast now.

    Example:
        >>> import flambeau as fl
        >>> with fl.autocast("cpu"):
        ...     fl.is_autocast_enabled("cpu")
        True
    """
    if device_type == "cpu":
        return _C.is_autocast_enabled()
    if device_type in _ELSEWHERE:
        return False
    return _device("is_autocast_enabled", device_type) == "cpu" and _C.is_autocast_enabled()


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switches autocast of this thread on or off until it is switched again. `autocast` restores what was."""
    if enabled is None:
        device_type, enabled = "cpu", device_type
    if _device("set_autocast_enabled", device_type) == "cpu":
        _C.set_autocast_enabled(bool(enabled))


def get_autocast_dtype(device_type: str) -> Any:
    """The type that products are computed in under autocast."""
    if _device("get_autocast_dtype", device_type) == "cpu":
        return _C.get_autocast_dtype()
    return getattr(_of_thread, "cuda", _C.float16)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Sets the type that this thread's autocast computes products in. Of 'cuda' it is kept, and no more.

    Raises:
        TypeError: the type of the CPU is not bfloat16 or float16.
    """
    if _device("set_autocast_dtype", device_type) == "cpu":
        _C.set_autocast_dtype(_checked("set_autocast_dtype", dtype))
    else:
        _of_thread.cuda = dtype


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`."""
    return bool(_C.is_autocast_enabled())


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`."""
    _C.set_autocast_enabled(bool(enabled))


def get_autocast_cpu_dtype() -> Any:
    """`get_autocast_dtype("cpu")`."""
    return _C.get_autocast_dtype()


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """`get_autocast_dtype("cuda")`: the type that a program wants on GPUs, of which there is none.

    Example:
        >>> import flambeau as fl
        >>> fl.get_autocast_gpu_dtype()
        flambeau.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights are kept until the outermost region ends."""
    return bool(_C.is_autocast_cache_enabled())


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether casts of weights are kept until the outermost region ends."""
    _C.set_autocast_cache_enabled(bool(enabled))


def clear_autocast_cache() -> None:
    """Drops the casts of weights that this thread keeps."""
    _C.clear_autocast_cache()


def autocast_increment_nesting() -> int:
    """Enters a region without changing the switches; returns how many there are."""
    return int(_C.enter_autocast())


def autocast_decrement_nesting() -> int:
    """Leaves a region; returns how many are left."""
    return int(_C.leave_autocast())


def _checked(op: str, dtype: Any) -> Any:
    if dtype not in _LOWER:
        raise _C.DTypeError(f"{op}: dtype = {dtype}; expected flambeau.bfloat16 or flambeau.float16")
    return dtype


class autocast(_C.AutocastSwitch, _Mode):
    """Products in 16 bits inside, of float32 weights that stay float32: a context manager and a decorator.

    Matrix products, convolutions and attention cast their float32 arguments to `dtype`; losses and a few other
    operations cast 16-bit arguments to float32; everything else computes in the types that it is given. The
    casts are part of the graph, so gradients of float32 parameters are float32. Only the forward pass and the
    loss belong inside: backward computes in the types of the forward wherever it is called.

    Regions nest, and `enabled=False` switches off inside of another. They hold for the calling thread.

    Args:
        device_type: 'cpu'. 'cuda' warns and does nothing, as there is no GPU in this build.
        dtype: `flambeau.bfloat16` or `flambeau.float16`; by default that of the region around, and bfloat16 without one. Any other type
            warns and switches the region off.
        enabled: False: operations compute in the types of their arguments.
        cache_enabled: whether the cast of a weight is kept for its next use, until the outermost region ends.

    Example:
        >>> import flambeau as fl
        >>> layer = fl.nn.Linear(4, 2)
        >>> with fl.autocast("cpu", dtype=fl.bfloat16):
        ...     y = layer(fl.ones(3, 4))
        ...     loss = fl.nn.functional.mse_loss(y, fl.zeros(3, 2))
        >>> y.dtype, loss.dtype
        (flambeau.bfloat16, flambeau.float32)
        >>> loss.backward()
        >>> layer.weight.grad.dtype
        flambeau.float32
    """

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        self.device = _device("autocast", device_type)
        self._on_cpu = self.device == "cpu"
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._enabled = bool(enabled)
        if self._enabled and self.device == "cuda":
            warn("autocast: there is no CUDA in this build; it is switched off")
            self._enabled = False
        if self._enabled and self.fast_dtype not in _LOWER:
            warn(f"autocast: dtype = {self.fast_dtype}; expected flambeau.bfloat16 or flambeau.float16; it is switched off")
            self._enabled = False
    def __call__(self, func: F) -> F:
        return super().__call__(func)

    def clone(self) -> autocast:
        return self


# ---- custom functions


def _cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.dtype != _C.float64 and value.device.type == "cpu"
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(key, dtype): _cast(entry, dtype) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        entries = [_cast(entry, dtype) for entry in value]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    return value


def widens(function: F) -> F:
    """A function of several operations that under autocast computes in float32, as `autocast: widen` does for one."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            if not _C.is_autocast_enabled():
                return function(*args, **kwargs)
        except CONFUSED as error:
            explain(error, function, args, kwargs)
            raise
        with autocast("cpu", enabled=False):
            return function(*_cast(args, _C.float32), **{k: v if k == "out" else _cast(v, _C.float32) for k, v in kwargs.items()})

    return wrapper  # type: ignore[return-value]


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorates `forward` of an `autograd.Function`, so that `custom_bwd` can restore its state of autocast.

    Args:
        cast_inputs: floating point arguments are cast to this type, and autocast is off inside. Only where
            `forward` is called under autocast; None leaves both as they are.

    Example:
        >>> import flambeau as fl
        >>> class Product(fl.autograd.Function):
        ...     @staticmethod
        ...     @fl.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, a, b):
        ...         ctx.save_for_backward(a, b)
        ...         return a @ b
        ...     @staticmethod
        ...     @fl.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, dy):
        ...         a, b = ctx.saved_tensors
        ...         return dy @ b.T, a.T @ dy
        >>> a, b = fl.ones(2, 3, requires_grad=True), fl.ones(3, 2, requires_grad=True)
        >>> with fl.autocast("cpu"):
        ...     y = Product.apply(a, b)
        >>> y.sum().backward()
        >>> y.dtype, a.grad.dtype
        (flambeau.bfloat16, flambeau.float32)
    """
    _device("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates `backward` of an `autograd.Function`: autocast is as it was in `forward`, which `custom_fwd` decorates."""
    _device("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return decorated
