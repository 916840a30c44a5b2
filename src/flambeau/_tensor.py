"""The part of Tensor that is Python: conversion, hooks, pickling, and rarely called methods.

What runs per op is in the extension; what is here is attached to its type when the package is imported.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import operator
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flambeau import _C, _hollow, _whole_calls
from flambeau._C import Tensor, ops
from flambeau._errors import NoCUDAError
from flambeau._from_data import of_bytes, tensor
from flambeau._handles import GradientHandle
from flambeau._late import late_method
from flambeau._memory_format import check_memory_format, strided
from flambeau._no_tensor import explained, wants_tensors
from flambeau._print import tensor_text
from flambeau._running import run_backward
from flambeau._spelled import spelled
from flambeau._warn import warn

if TYPE_CHECKING:
    import numpy as np

library = "flambeau"  # whose names texts say: `flambeau.compat.torch` changes it


def sizes_of(name: str, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The sizes that an old constructor is given, None where it is given data. One number is a size, also where it is NumPy's.

    Raises:
        TypeError: one number that is none.
    """
    if len(args) != 1:
        return args or (0,)
    (given,) = args
    if isinstance(given, _C.Size):
        return tuple(given)
    if isinstance(given, Tensor) or bool(getattr(given, "ndim", 0)) or not hasattr(given, "__float__"):
        return None
    if not isinstance(given, bool):
        with contextlib.suppress(TypeError):
            return (operator.index(given),)
    raise TypeError(f"{name}: got {given!r}, a {type(given).__name__}; expected sizes or a sequence of values ({library}.tensor makes one)")


def _construct(cls: type, *args: Any, **kwargs: Any) -> Tensor:
    """`Tensor()`, `Tensor(2, 3)`, `Tensor([1, 2])`: the old constructor, always of the default float type."""
    if kwargs.pop("device", None) not in (None, "cpu"):
        raise ValueError(f"Tensor: the constructor makes CPU tensors; use {library}.empty(..., device=...)")
    if kwargs:
        raise TypeError(f"Tensor: unexpected keyword argument '{next(iter(kwargs))}'")
    sizes = sizes_of("Tensor", args)
    if sizes is not None:
        out = ops.empty(sizes)
    elif isinstance(args[0], Tensor):  # the same elements, and the same history
        return args[0].as_subclass(cls)  # type: ignore[return-value]
    else:
        out = tensor(args[0], dtype=_C.get_default_dtype(), device="cpu")
    return out if cls is Tensor else Tensor._make_subclass(cls, out, False)


# ---------------------------------------------------------------- methods


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds the gradient of this tensor to the `.grad` of the leaves it was computed from."""
    if inputs is None and not isinstance(gradient, (list, tuple)):
        run_backward((self,), (gradient,), create_graph if retain_graph is None else retain_graph, create_graph, (), True, True)
        return
    from flambeau.autograd import backward

    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


# Types that NumPy and the buffer protocol do not know, and the integers as which their bytes are handed over.
LIES_AS: dict[Any, Any] = {
    _C.bfloat16: _C.int16, _C.complex32: _C.int32,
    **dict.fromkeys((_C.float8_e4m3fn, _C.float8_e5m2, _C.float8_e4m3fnuz, _C.float8_e5m2fnuz, _C.float8_e8m0fnu), _C.uint8),
}  # fmt: skip


def _numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """A NumPy array on the tensor's own memory. `force` detaches, and copies where it has to. Of a tensor that requires grad inside of
    `no_grad` alone."""
    import numpy as np

    x = self
    if force:
        x = x.detach()
        if x.dtype in LIES_AS:
            x = x.to(_C.complex64 if x.is_complex() else _C.float32)
    if x.requires_grad:
        if _C.is_grad_enabled():
            raise _C.AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        x = x.detach()
    if x.dtype in LIES_AS:
        cast = ".to(complex64)" if x.is_complex() else ".float()"
        raise _C.DTypeError(f"numpy: NumPy has no {x.dtype.name}; use {cast}.numpy()")
    if x.is_meta:
        raise _C.DeviceError("numpy: a meta tensor has no data")
    return np.asarray(memoryview(x))  # type: ignore[arg-type]


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    import numpy as np

    out: np.ndarray = self.numpy()
    if dtype is not None and out.dtype != np.dtype(dtype):
        out = out.astype(dtype)
        copy = False
    return out.copy() if copy else out


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """What NumPy's functions return of a tensor: a tensor, where it has the element type."""
    try:
        return _C.from_buffer(array)
    except TypeError:
        return array


def _tolist(self: Tensor) -> Any:
    """Nested lists of Python numbers; a number for a 0-d tensor."""
    return _C.to_list(self)


def _dlpack(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    if dl_device is not None and tuple(dl_device) != (1, 0):
        raise BufferError(f"__dlpack__: dl_device = {dl_device}; the tensor is on the CPU, (1, 0)")
    if stream is not None:
        raise BufferError("__dlpack__: stream has no meaning on the CPU; expected None")
    try:
        return _C.to_dlpack(self, max_version is not None and max_version[0] >= 1, bool(copy))
    except (_C.AutogradError, _C.DeviceError, _C.ArgumentError) as error:
        from flambeau._errors import not_exported

        raise not_exported(error) from None


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """`flambeau.array_api`, the functions of the Python array API standard for this tensor.

    Raises:
        ValueError: a version that it does not follow.
    """
    known = ("2021.12", "2022.12", "2023.12", "2024.12")
    if api_version is not None and api_version not in known:
        raise ValueError(f"__array_namespace__: api_version = {api_version!r}; expected None or one of {', '.join(known)}")
    from flambeau import array_api

    return array_api


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device, itself where it is there already; the array API's name of `to`."""
    if stream is not None:
        raise ValueError("to_device: stream has no meaning on the CPU; expected None")
    return self.to(device)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    return (1, 0)


def _copy_with_storage(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy in a copy of x's whole storage, which tensors over the same storage share for the time of one deepcopy."""
    if x.is_meta:
        return x.clone()
    if not hasattr(memo, "setdefault"):
        raise TypeError(f"deepcopy: memo is a {type(memo).__name__}; expected a dict")
    copies = memo.setdefault(id(_copy_with_storage), {})  # storage -> its copy, flat
    key = (x._storage_ptr(), x.dtype)
    if key not in copies:
        if x.is_contiguous() and x.numel() * x.element_size() == x._storage_bytes():
            copies[key] = x.clone()
            return copies[key].detach()  # type: ignore[no-any-return]
        copies[key] = x.as_strided((x._storage_bytes() // x.element_size(),), (1,), 0).clone()
    return copies[key].view(-1).as_strided(x.shape, x.stride(), x.storage_offset())  # type: ignore[no-any-return]


@wants_tensors
def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    if self.requires_grad and not self.is_leaf:
        raise _C.AutogradError(
            "deepcopy: Only Tensors created explicitly by the user (graph leaves) can be copied deeply; use .detach() or .clone()"
        )
    if _C.graph.is_hollow(self):
        return _hollow.deep_copy(self, memo)
    out = _copy_with_storage(self.detach(), memo)
    if type(self) is not Tensor:
        out = Tensor._make_subclass(type(self), out, False)
    if self.requires_grad:
        out.requires_grad_(True)
    memo[id(self)] = out
    if self.grad is not None:
        out.grad = copy.deepcopy(self.grad, memo)
    for key, value in getattr(self, "__dict__", {}).items():
        setattr(out, key, copy.deepcopy(value, memo))
    return out


def _copy(self: Tensor) -> Tensor:
    """`copy.copy`: another tensor on the same memory, a leaf, with the attributes."""
    out = self.detach()
    if type(self) is not Tensor:
        out = Tensor._make_subclass(type(self), out, False)
    for key, value in getattr(self, "__dict__", {}).items():  # first: those of a batch say what it is
        setattr(out, key, value)
    if self.requires_grad:
        out.requires_grad_(True)
    return out


def _reversed(self: Tensor) -> Tensor:
    """`reversed(x)`: along the first axis; a number as it is."""
    return self.flip(0) if self.ndim else self


def _rebuild(
    cls: type,
    data: bytes | None,
    dtype: Any,
    shape: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
    order: tuple[int, ...] | None = None,
) -> Tensor:
    device = "meta" if data is None else "cpu"
    out = of_bytes(memoryview(data), dtype).clone().view(shape) if data else ops.empty(shape, dtype=dtype, device=device)
    if order is not None:
        out = out.permute(order)
    if cls is not Tensor:
        out = Tensor._make_subclass(cls, out, False)
    for key, value in attributes.items():
        setattr(out, key, value)
    return out.requires_grad_(True) if requires_grad else out


def _reduce_ex(self: Tensor, protocol: Any) -> Any:
    """By value: what multiprocessing's queues send of tensors that are not in shared memory. What comes back is a leaf."""
    if _C.graph.is_hollow(self):
        return _hollow.reduce(self)
    plain, order = _in_order_of_memory(self.detach())
    data: bytes | None = b""
    if self.is_meta:
        data = None
    elif plain.numel():
        data = bytes(memoryview(plain.view(LIES_AS[plain.dtype]) if plain.dtype in LIES_AS else plain))
    return _rebuild, (type(self), data, self.dtype, tuple(plain.shape), self.requires_grad, dict(getattr(self, "__dict__", {})), order)


def _in_order_of_memory(x: Tensor) -> tuple[Tensor, tuple[int, ...] | None]:
    """x contiguous, and how its axes lie in it where they were only exchanged: a transpose comes back with its strides."""
    if x.is_contiguous():
        return x, None
    strides = x.stride()
    axes = sorted(range(x.ndim), key=lambda d: -strides[d])
    lying = x.permute(axes)
    if not lying.is_contiguous():  # parts of a larger tensor, or elements that are seen more than once
        return x.contiguous(), None
    return lying, tuple(axes.index(d) for d in range(x.ndim))


def _iter(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor; use .item() for its value")
    return iter(self.unbind(0))


def _contains(self: Tensor, item: Any) -> bool:
    if not isinstance(item, (Tensor, int, float, bool, complex)):
        raise _C.DTypeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(item)}")
    return bool((self == item).any().item())


@wants_tensors
def _format(self: Tensor, spec: str) -> str:
    """A 0-d tensor is formatted as its number; others have no format but the empty one, which is `str`.

    So have subclasses (`f"{parameter}"` says that it is one), though a format for numbers is done.
    """
    if self.ndim == 0 and not self.is_meta and (spec or type(self) is Tensor):
        return format(self.item(), spec)
    if spec:
        what = "on the meta device" if self.is_meta else f"of shape {list(self.shape)}"
        raise TypeError(f"format: '{spec}' for a tensor {what}; only a 0-d tensor has a number to format (use .item(), or repr)")
    return str(self)


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    # It imports nothing: at the interpreter's end nothing can be imported any more.
    if _C.graph.is_hollow(self):
        return _hollow.text(self)
    text: str = _C.no_torch_function(tensor_text, (), (self, tensor_contents))
    return text


def _repr_html(self: Tensor) -> str:
    """What a notebook shows."""
    from flambeau._rich import tensor_html

    text: str = _C.no_torch_function(tensor_html, (), (self,))
    return text


def _register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """Calls `hook(grad)` whenever a gradient of this tensor is computed; it may return a replacement."""
    return GradientHandle(_C.register_tensor_hook(self, hook))


def _register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Any:
    """Calls `hook(self)` after a gradient was added to `.grad` of this leaf."""
    return GradientHandle(_C.register_post_accumulate_hook(self, _returns_none(hook) if callable(hook) else hook))


def _returns_none(hook: Callable[[Tensor], None]) -> Callable[[Tensor], Any]:
    """The hook, which may return nothing new: nobody would take it."""

    @functools.wraps(hook)
    def checked(leaf: Tensor) -> Any:
        result: Any = hook(leaf)  # type: ignore[func-returns-value]
        if isinstance(result, Tensor) and result is not leaf:
            raise _C.AutogradError(
                "register_post_accumulate_grad_hook: hooks should return None, "
                f"but one returned a tensor of shape {list(result.shape)} (what it changes is the tensor's .grad)"
            )
        return result

    return checked


def _retain_grad(self: Tensor) -> None:
    """Makes this non-leaf keep its gradient in `.grad`."""
    _C.retain_grad(self)


# Names of tensor types in old programs: x.type(), x.type("torch.LongTensor").
TYPE_NAMES: dict[str, str] = {
    "float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor", "bfloat16": "BFloat16Tensor", "int64": "LongTensor",
    "int32": "IntTensor", "int16": "ShortTensor", "int8": "CharTensor", "uint8": "ByteTensor", "bool": "BoolTensor",
    "complex64": "ComplexFloatTensor", "complex128": "ComplexDoubleTensor", "complex32": "ComplexHalfTensor", "uint16": "UInt16Tensor",
    "uint32": "UInt32Tensor", "uint64": "UInt64Tensor",
}  # fmt: skip


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False, *, memory_format: Any = None) -> Any:
    """The old name of the tensor's type, or the tensor in another type: a dtype, such a name, or Tensor for the default type."""
    check_memory_format("type", memory_format)
    form = {} if memory_format is None else {"memory_format": memory_format}
    if dtype is None:
        part = "sparse." if self.is_sparse else ""
        return f"{library}.{part}{TYPE_NAMES.get(self.dtype.name, self.dtype.name)}"
    if dtype is Tensor or dtype == f"{library}.Tensor":
        return self.to(_C.get_default_dtype(), **form)
    if isinstance(dtype, str):
        found = [name for name, text in TYPE_NAMES.items() if text == dtype.rpartition(".")[2]]
        if not found or ".cuda." in dtype:
            raise ValueError(f"type: dtype = {dtype!r}; expected a dtype or one of {', '.join(TYPE_NAMES.values())}")
        dtype = getattr(_C, found[0])
    if isinstance(dtype, type):
        named = getattr(dtype, "dtype", None)  # FloatTensor and its like have one; Tensor and NumPy's types have another thing of that name
        if not isinstance(named, _C.dtype) and dtype not in (bool, int, float, complex):
            raise ValueError(f"type: dtype = {dtype.__name__}; expected a dtype, Tensor or one of {', '.join(TYPE_NAMES.values())}")
        dtype = named or dtype
    elif not isinstance(dtype, _C.dtype):
        raise TypeError(f"type: dtype must be a type, str, or dtype object; got a {type(dtype).__name__}")
    return self.to(dtype, **form)


def _cast_method(method: str, name: str) -> Callable[..., Tensor]:
    dtype = getattr(_C, name)

    def cast(self: Tensor, *args: Any, memory_format: Any = None, **kwargs: Any) -> Tensor:
        if args or kwargs:  # by hand, so that the text names the method
            raise TypeError(f"{method}: got {', '.join([*map(repr, args), *kwargs])}; expected memory_format= or nothing")
        if memory_format is None:
            return self.to(dtype)
        check_memory_format(method, memory_format)
        return self.to(dtype, memory_format=memory_format)

    cast.__name__ = cast.__qualname__ = method
    cast.__doc__ = f"The same values as {name}; the tensor itself where it is {name} already."
    return cast


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False, *, memory_format: Any = None) -> Tensor:
    raise NoCUDAError("Tensor.cuda")


def _cpu(self: Tensor, *args: Any, memory_format: Any = None) -> Tensor:
    if memory_format is None:
        return self.to("cpu")
    check_memory_format("cpu", memory_format)
    return self.to("cpu", memory_format=memory_format)


def _random_(self: Tensor, *bounds: int, generator: Any = None, **named: int) -> Tensor:
    """Fills with integers: all the dtype can hold exactly, [0, to), or [from, to)."""
    if named.keys() - {"from", "to"}:
        raise TypeError(f"random_: got an unexpected keyword argument '{min(named.keys() - {'from', 'to'})}'; expected 'from' or 'to'")
    bounds += tuple(named[key] for key in ("from", "to") if key in named)
    limit = {"bool": 2, "uint8": 256, "int8": 128, "int16": 2**15, "int32": 2**31, "int64": 2**63 - 1,
             "uint16": 2**16, "uint32": 2**32, "uint64": 2**63 - 1, "float16": 2**11 + 1, "bfloat16": 2**8 + 1, "float32": 2**24 + 1,
             "float64": 2**53 + 1}  # fmt: skip
    if self.dtype.name not in limit:  # complex numbers, floats of 8 bits
        raise _C.DTypeError(f"random_: the tensor is {self.dtype}; expected whole numbers, bool or a real float of 16 bits or more")
    if len(bounds) > 2:
        raise TypeError(f"random_: got {len(bounds)} bounds; expected at most two, from and to")
    low, high = (0, limit[self.dtype.name]) if not bounds else (0, bounds[0]) if len(bounds) == 1 else bounds
    return ops.random_between_(self, low, high, generator=generator)


@wants_tensors
def _sum_to_size(self: Tensor, *sizes: Any, size: Any = ()) -> Tensor:
    """Sums over the axes along which a tensor of `size` would be repeated to become this one.

    Raises:
        ShapeError: no such tensor broadcasts to this one's shape.
    """
    given = sizes or (size,)
    wanted = tuple(given[0]) if len(given) == 1 and not isinstance(given[0], int) else given
    last = self.shape[self.ndim - len(wanted) :]
    if len(wanted) > self.ndim or any(w not in (1, n) for w, n in zip(wanted, last)):
        raise _C.ShapeError(f"sum_to_size: size = {list(wanted)} does not broadcast to the shape {list(self.shape)}")
    return self if wanted == tuple(self.shape) else ops.sum_to(self, wanted)


def _fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Writes one value along the main diagonal; `wrap` starts it anew below a tall matrix."""
    if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) > 1):
        raise _C.ShapeError(f"fill_diagonal_: the tensor has shape {list(self.shape)}; expected a matrix, or equal sizes")
    step = sum(self.stride())
    count = min(self.shape)
    if wrap and self.ndim == 2 and self.shape[0] > self.shape[1]:
        count = (self.numel() + self.shape[1]) // (self.shape[1] + 1)
    ops.as_strided(self, (count,), (step,), self.storage_offset()).fill_(fill_value)
    return self


def _resize(self: Tensor, *sizes: Any) -> Tensor:
    """The elements in another shape: what PyTorch's deprecated `resize` without _ is."""
    warn("resize: is deprecated in PyTorch; use reshape, or resize_")
    size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    return self.reshape(size)


def _record_stream(self: Tensor, stream: Any) -> None:
    """Refused: there are streams on a GPU alone, and a tensor on the CPU is finished when a call returns."""
    raise _C.DeviceError(f"record_stream: the tensor is on {self.device}; expected a tensor on a GPU")


def _stft(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`flambeau.stft(self, ...)`."""
    from flambeau._stft import stft

    return stft(self, *args, **kwargs)


def _istft(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`flambeau.istft(self, ...)`."""
    from flambeau._stft import istft

    return istft(self, *args, **kwargs)


def _new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    if _C.has_override(self):
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        return _C.call_override(_new_tensor, (self, data), options)  # type: ignore[no-any-return]
    kind, where = self.dtype if dtype is None else dtype, self.device if device is None else device
    return tensor(data, dtype=kind, device=where, requires_grad=requires_grad)


_new_tensor.__name__ = _new_tensor.__qualname__ = "new_tensor"  # by which a transformation finds it


def _share_memory_(self: Tensor) -> Tensor:
    """Moves the storage, with all its views, to memory that other processes see: forked ones, and those to which the tensor is sent.

    Raises:
        ArgumentError: a NumPy array or another library looks at the memory, which would move; the tensor is on the meta device.

    >>> import flambeau as fl
    >>> x = fl.zeros(3)
    >>> x.share_memory_().is_shared()
    True
    """
    from flambeau.multiprocessing._sharing import share

    share(self)
    return self


def _is_shared(self: Tensor) -> bool:
    """Whether other processes can see the memory (`share_memory_`)."""
    if _C.buffer_of(self) is None:
        return False
    from flambeau.multiprocessing._sharing import segment_of

    return segment_of(self) is not None


def _volatile(self: Tensor) -> bool:
    """False: PyTorch before 0.4 had it where `no_grad` is now."""
    warn("volatile: PyTorch removed it, and it is always False")
    return False


def _set_volatile(self: Tensor, value: bool) -> None:
    warn("volatile: PyTorch removed it, and it has no effect; use `with no_grad():`")


def _grad_dtype(self: Tensor) -> Any:
    """The element type of `grad`: this tensor's own."""
    if not self.is_leaf:
        raise RuntimeError("grad_dtype: the tensor is the result of an operation; only leaves have one (detach() it)")
    return self.dtype


def _set_grad_dtype(self: Tensor, dtype: Any) -> None:
    if not isinstance(dtype, _C.dtype) and dtype is not None:
        raise RuntimeError(f"grad_dtype = {dtype!r} is a {type(dtype).__name__}; expected a dtype or None")
    if dtype is not _grad_dtype(self):
        raise _C.DTypeError(f"grad_dtype = {dtype}: a gradient has its tensor's type here, {self.dtype}; convert `grad` after backward()")


def _is_all_true(self: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are True, as a tensor."""
    if self.dtype is not _C.bool:
        raise _C.DTypeError(f"_is_all_true: the tensor is {self.dtype}; expected bool")
    return ops.all(self)


def _is_any_true(self: Tensor) -> Tensor:
    """Whether an element of a bool tensor is True, as a tensor."""
    if self.dtype is not _C.bool:
        raise _C.DTypeError(f"_is_any_true: the tensor is {self.dtype}; expected bool")
    return ops.any(self)


@wants_tensors
def _module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` swaps this parameter or buffer with, where `__future__.set_swap_module_params_on_conversion` says so.

    It is the tensor itself with the values of `other`, or `other` where that is to be assigned. A subclass may return something else by
    its `__torch_function__`.
    """
    if _C.has_override(self, other):
        return _C.call_override(_module_load, (self, other), {"assign": assign})  # type: ignore[no-any-return]
    return other.detach() if assign else self.copy_(other).detach()


def _to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """This tensor, which is dense already."""
    return self if dtype is None else self.to(dtype)


def _sparse_method(module: str, name: str) -> Callable[..., Any]:
    """A method of dense tensors that gives a sparse one."""
    return _method_of(f"sparse.{module}", name, f"`flambeau.sparse`'s `{name}` of this tensor.")


def _older_method(name: str) -> Callable[..., Any]:
    return _method_of("_older", name, f"`{name}` of `flambeau._older`.")


def _storage_method(name: str) -> Callable[..., Any]:
    return _method_of("storage", name, f"`{name}` of `flambeau.storage`.")


def _method_of(module: str, name: str, doc: str) -> Callable[..., Any]:
    return late_method(name, lambda: getattr(importlib.import_module(f"flambeau.{module}"), name), doc)


def _storage_view_method(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An in-place geometry method (`transpose_`, `squeeze_`, ...): takes the view's geometry over."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        become = getattr(type(self), "_fl_become", None)
        if become is not None:  # it stands for another tensor
            if self.requires_grad and self.is_leaf and _C.is_grad_enabled():
                raise _C.AutogradError(f"{op.__name__}_: a leaf Variable that requires grad is being used in an in-place operation")
            become(self, op(self, *args, **kwargs))
            return self
        if self.requires_grad and _C.is_grad_enabled():
            if self.layout is not strided:
                raise _C.AutogradError(f"{op.__name__}_: a sparse tensor that requires grad can not become a view; use {op.__name__}()")
            _C.check_inplace(f"{op.__name__}_", self)
            view = op(self, *args, **kwargs)
            if view.grad_fn is not None:  # there is none in inference mode
                _C.become_view(self, view)
                return self
        view = op(self.detach(), *args, **kwargs)
        if type(self).data is not Tensor.data or _C.graph.is_hollow(self):  # which a class of its own says
            self.data = view
        else:
            _C.reshape_in_place(self, view)
        return self

    return method


def _torch_function(cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Calls `func` with subclasses taken as plain tensors; tensors among its results are made of the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    result = _C.no_torch_function(func, types, args, kwargs)
    if cls.__torch_dispatch__ is not _C.no_torch_dispatch:  # type: ignore[attr-defined]
        return result  # the class has made it, and says what it is
    owner = getattr(func, "__self__", None)
    return result if owner is Tensor.grad or owner is Tensor._base else _of_subclass(result, cls)


def _of_subclass(result: Any, cls: type) -> Any:
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and any(isinstance(r, (Tensor, tuple, list)) for r in result):
        parts = [_of_subclass(r, cls) for r in result]
        return result._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def attach() -> None:
    """Puts the methods of this file on the type. Called once, by the package."""
    methods: dict[str, Any] = {
        "__torch_function__": classmethod(_torch_function), "__init_subclass__": classmethod(_whole_calls.hear_of),
        "backward": _backward, "numpy": _numpy, "__array__": _array,
        "__array_wrap__": _array_wrap, "tolist": _tolist, "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device,
        "__array_namespace__": _array_namespace, "to_device": _to_device,
        "__copy__": _copy, "__deepcopy__": _deepcopy, "__reversed__": _reversed, "__reduce_ex__": _reduce_ex,
        "__iter__": _iter, "__contains__": _contains, "__format__": _format, "__repr__": _repr, "_repr_html_": _repr_html,
        "register_hook": _register_hook, "_make_wrapper_subclass": staticmethod(_hollow.make_wrapper_subclass),
        "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook, "retain_grad": _retain_grad,
        "__setstate__": _method_of("_older", "setstate", "Takes over what pickles of PyTorch's old versions have."),
        "type": _type, "cuda": _cuda, "cpu": _cpu, "random_": _random_, "new_tensor": _new_tensor,
        "share_memory_": _share_memory_, "stft": _stft, "istft": _istft,
        "type_as": _type_as,
        "view_as": _view_as,
        "reshape_as": _reshape_as,
        "expand_as": _expand_as,
        "is_same_size": _is_same_size,
        "_is_view": lambda self: self._base is not None,
        "_cdata": property(id),
        "is_distributed": lambda self: False,
        "name": property(lambda self: None),
        "grad_dtype": property(_grad_dtype, _set_grad_dtype),
        "_is_all_true": _is_all_true,
        "_is_any_true": _is_any_true,
        "is_conj": lambda self: False,
        "is_neg": lambda self: False,
        "is_signed": lambda self: self.dtype.is_signed,
        "is_nonzero": lambda self: bool(self),
        "is_pinned": lambda self: False,
        "volatile": property(_volatile, _set_volatile), "is_shared": _is_shared, "module_load": _module_load,
        "pin_memory": lambda self: self,
        "get_device": lambda self: -1,
        "ravel": lambda self: self.contiguous().view(-1),
        "where": lambda self, condition, other: ops.where(condition, self, other),
        "sum_to_size": _sum_to_size,
        "new_empty_strided": lambda self, size, stride, **kw: ops.empty_strided(size, stride, **{"dtype": self.dtype, **kw}),
        "resize_as_": spelled(the_template="other")(_resize_as_),
        "fill_diagonal_": _fill_diagonal_,
        "index": lambda self, indices: ops.index(self, indices),
        "polygamma": lambda self, n: ops.polygamma_of(self, n),
        "polygamma_": lambda self, n: ops.polygamma_of_(self, n),
        "record_stream": _record_stream,
        "resize": _resize,
        "__complex__": lambda self: complex(self.item()),
        "layout": property(lambda self: strided),
        "is_sparse": property(lambda self: False),
        "is_sparse_csr": property(lambda self: False),
        "to_dense": _to_dense,
        "__array_priority__": 1000,
        "__bool__": Tensor.__bool__,
        "__rdiv__": Tensor.__rtruediv__, "__div__": Tensor.div, "__idiv__": Tensor.div_,
    }  # fmt: skip
    for name, dtype in {
        "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
        "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
        "chalf": "complex32",
    }.items():  # fmt: skip
        methods[name] = _cast_method(name, dtype)
    for name in ("to_sparse", "sparse_mask"):
        methods[name] = _sparse_method("_construct", name)
    for name in ("to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc"):
        methods[name] = _sparse_method("_compressed", name)
    # Kinds of tensors and devices that are not here.
    for name in ("quantized", "nested", "mkldnn", "mps", "xpu", "xla", "ipu", "mtia", "maia", "vulkan"):
        methods[f"is_{name}"] = property(lambda self: False)
    for name in ("new", "apply_", "map_", "map2_", "hardshrink", "is_set_to", "dim_order", "dense_dim", "sparse_dim", "dequantize"):
        methods[name] = _older_method(name)
    for name in ("storage", "_typed_storage", "storage_type", "untyped_storage", "set_"):
        methods[name] = _storage_method(name)
    methods["to_sparse_coo"] = methods["to_sparse"]
    for name in ("t", "transpose", "squeeze", "unsqueeze", "swapaxes", "swapdims", "as_strided"):
        methods[name + "_"] = _storage_view_method(getattr(ops, name))
    for name, value in methods.items():
        if isinstance(value, types.FunctionType) and value.__name__.strip("_") == name.strip("_"):
            value.__name__ = name  # which is what it is called by who takes calls over
        setattr(Tensor, name, value)


def _type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in another one's type."""
    try:
        return self.to(other.dtype)
    except AttributeError as error:
        raise explained(error, _type_as, (self, other)) from None


def _reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The elements in another tensor's shape."""
    try:
        return self.reshape(other.shape)
    except AttributeError as error:
        raise explained(error, _reshape_as, (self, other)) from None


def _expand_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor expanded to another one's shape."""
    try:
        return self.expand(other.shape)
    except AttributeError as error:
        raise explained(error, _expand_as, (self, other)) from None


def _is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether another tensor has the same shape."""
    try:
        return self.shape == other.shape
    except AttributeError as error:
        raise explained(error, _is_same_size, (self, other)) from None


def _resize_as_(self: Tensor, other: Tensor) -> Tensor:
    """The tensor resized to another one's shape."""
    return self.resize_(other.shape)


def _view_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor's elements in another one's shape."""
    try:
        return self.view(other.shape)
    except AttributeError as error:
        raise explained(error, _view_as, (self, other)) from None
