"""Tensors of what is none: numbers and lists, arrays, buffers, DLPack's capsules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._info import element_type
from flambeau._no_tensor import wants_tensors
from flambeau._spelled import spelled
from flambeau._warn import warn, warn_once

if TYPE_CHECKING:
    import numpy as np


_COPY = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)"
)


def tensor(
    data: Any,
    *,
    dtype: _C.dtype | None = None,
    device: _C.device | str | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, arrays or tensors. One of an `UntypedStorage` shares its bytes.

    Floats become the default dtype (float32), complex numbers the complex type of two of these (complex64), integers int64,
    bools bool, unless `dtype` is given.

    Raises:
        ValueError: nested lists of unequal lengths.
        TypeError: something that is no number.

    Example:
        >>> import flambeau as fl
        >>> fl.tensor([[1, 2], [3, 4]]).shape
        flambeau.Size([2, 2])
    """
    if _C.has_override(data) and _is_wrapped(data):
        copied = _moved(data, dtype, device).clone().detach()
        return copied.requires_grad_() if requires_grad else copied
    if isinstance(data, Tensor):
        warn(_COPY.format("tensor"))
    try:
        out = data._as_tensor(dtype) if hasattr(type(data), "_as_tensor") else _C.tensor_from(data, dtype)
    except _C.DTypeError:
        if (numbers := _as_numbers(data)) is not data:
            out = _C.tensor_from(numbers, dtype)
        elif not hasattr(data, "__dlpack__") or type(data).__module__ == "numpy":
            raise  # arrays were read as they are: DLPack knows no more types
        else:
            out = _C.to(from_dlpack(data), dtype, None, True)
    except ValueError:
        _refuse_times(data)
        raise
    device = _C.new_device() if device is None else device
    if device is not None:
        out = _C.to(out, None, device, False)
    if requires_grad:
        out.requires_grad_(True)
    return out


def _as_numbers(data: Any) -> Any:
    """Nested lists with tensors in the place of arrays without axes, which may stand beside numbers; `data` itself where there are none."""
    if isinstance(data, (list, tuple)):
        items = [_as_numbers(value) for value in data]
        return items if any(a is not b for a, b in zip(items, data, strict=True)) else data
    return _C.tensor_from(data, None) if type(data).__name__ == "ndarray" and not data.ndim else data


def _is_wrapped(data: Any) -> bool:
    """True for what stands for a value inside of `vmap` or `jvp`."""
    from flambeau.func._levels import Wrapped

    return isinstance(data, Wrapped)


def _moved(data: Tensor, dtype: Any, device: Any) -> Tensor:
    """`data` in another type and on another device, by methods, which it takes over."""
    data = data if dtype is None else data.to(dtype)
    return data if device is None else data.to(device)


def as_tensor(data: Any, dtype: _C.dtype | None = None, device: _C.device | str | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where it is a tensor, a storage, an array of the right type or an object with `__dlpack__`.

    Example:
        >>> import flambeau as fl
        >>> import numpy as np
        >>> array = np.ones(2, dtype=np.float32)
        >>> x = fl.as_tensor(array)
        >>> x[0] = 5
        >>> array
        array([5., 1.], dtype=float32)
    """
    device = _C.new_device() if device is None else device
    if isinstance(data, Tensor):
        if _C.has_override(data) and _is_wrapped(data):
            return _moved(data, dtype, device)
        return data if dtype is None and device is None else _C.to(data, dtype, device, False)
    if type(data).__module__ == "numpy" and hasattr(data, "ndim") and data.ndim > 0:
        return _C.to(_of_array(data), dtype, device, False)
    if hasattr(type(data), "_as_tensor"):  # a storage
        return _C.to(data._as_tensor(dtype), dtype, device, False)
    if hasattr(type(data), "__dlpack__") and type(data).__module__ != "numpy":
        return _C.to(from_dlpack(data), dtype, device, False)
    return tensor(data, dtype=dtype, device=device)


def _on_memory(obj: Any, dtype: _C.dtype | None) -> Tensor | None:
    """A tensor on the memory of a storage, of what DLPack hands over, or of a buffer; None for anything else."""
    kind = type(obj)
    if hasattr(kind, "_as_tensor"):
        return obj._as_tensor(dtype)  # type: ignore[no-any-return]
    if kind in (list, tuple, int, float, complex, bool) or isinstance(obj, Tensor) or kind.__module__ == "numpy":
        return None
    if hasattr(kind, "__dlpack__") or kind.__name__ == "PyCapsule":
        return from_dlpack(obj)
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype or _C.get_default_dtype())


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None) -> Tensor:
    """`obj` as a tensor; `copy` True always copies, False raises where a copy would be needed.

    Tensors, arrays, storages, what DLPack hands over and objects with the buffer protocol share their memory. A buffer is bytes: they are
    read as elements of `dtype`, and of the default type without it.

    Args:
        requires_grad: whether the result does; None leaves it to a tensor that is given, whose history the result has then, too.

    Example:
        >>> import array
        >>> import flambeau as fl
        >>> numbers = array.array("f", [1.0, 2.0])
        >>> shared, own = fl.asarray(numbers), fl.asarray(numbers, copy=True)
        >>> numbers[0] = 5.0
        >>> shared, own
        (tensor([5., 2.]), tensor([1., 2.]))
    """
    if copy is None and requires_grad is None and (isinstance(obj, Tensor) or type(obj).__module__ == "numpy"):
        return as_tensor(obj, dtype, device)
    shared_memory = _on_memory(obj, dtype)
    obj = obj if shared_memory is None else shared_memory
    if copy and isinstance(obj, Tensor):
        out = _C.to(obj, dtype, device, True)
    elif copy:
        out = tensor(obj, dtype=dtype, device=device)
    else:
        out = as_tensor(obj, dtype, device)
        shared = out is obj if isinstance(obj, Tensor) else hasattr(obj, "__array_interface__")
        if copy is False and not (shared and (dtype is None or dtype is as_tensor(obj).dtype)):
            raise ValueError(f"asarray: a {type(obj).__name__} can not be shared without a copy; pass copy=None")
    if requires_grad is False and out.requires_grad:
        return out.requires_grad_(False) if out.is_leaf else out.detach()
    return out.requires_grad_() if requires_grad and not out.requires_grad else out


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the array's own memory: writes to one show in the other.

    A read-only array gives a tensor that refuses in-place ops.

    Raises:
        TypeError: not an array, or an element type without counterpart.
        ValueError: negative strides, or strides that are no multiple of the element size.

    Example:
        >>> import flambeau as fl
        >>> import numpy as np
        >>> array = np.zeros(2)
        >>> x = fl.from_numpy(array)
        >>> x += 1
        >>> array
        array([1., 1.])
    """
    # NumPy's scalars have the first two.
    if not hasattr(type(array), "__array_interface__") or not hasattr(array, "flags") or not hasattr(array, "__setitem__"):
        raise TypeError(f"from_numpy: expected np.ndarray (got {type(array).__name__})")
    return _of_array(array)


def _of_array(array: np.ndarray) -> Tensor:
    if not array.flags.writeable:
        warn_once("The given NumPy array is not writable, nor is the tensor on its memory: writes raise. array.copy() gives one that is")
    try:
        return _C.from_buffer(array)
    except ValueError:
        _refuse_times(array)
        raise


def _refuse_times(array: Any) -> None:
    """Dates and times are no buffer, which NumPy says as if it were the values that are wrong."""
    if getattr(getattr(array, "dtype", None), "kind", "") in ("m", "M"):
        raise _C.DTypeError(f"from_numpy: elements are {array.dtype}, which no tensor has; array.astype('int64') has their ticks")


@wants_tensors
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor on the memory of an object with the buffer protocol.

    Raises:
        ValueError: the buffer is empty, or has not as many whole elements from `offset` on as asked for.
    """
    view = memoryview(buffer).cast("B")
    dtype = element_type(dtype)
    size = dtype.itemsize
    if not len(view) or not count:
        raise ValueError(f"frombuffer: a buffer of {len(view)} bytes with count = {count}; expected neither to be 0")
    if not 0 <= offset < len(view):
        raise ValueError(f"frombuffer: offset = {offset}, but the buffer has {len(view)} bytes")
    if count < 0:
        if (len(view) - offset) % size:
            raise ValueError(
                f"frombuffer: buffer length ({len(view)} bytes) after offset ({offset} bytes) must be a multiple of "
                f"element size ({size})"
            )
        count = (len(view) - offset) // size
    if offset + count * size > len(view):
        raise ValueError(f"frombuffer: {count} elements of {size} bytes from {offset} reach past the buffer's {len(view)} bytes")
    if view.readonly:
        warn_once("The given buffer is not writable, nor is the tensor on its memory: writes raise. bytearray(buffer) gives one that is")
    out = of_bytes(view[offset : offset + count * size], dtype)
    return out.requires_grad_(requires_grad) if requires_grad else out


def of_bytes(part: memoryview, dtype: Any) -> Tensor:
    formats: dict[str, Any] = {
        "bool": "?", "uint8": "B", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f", "float64": "d",
        "uint16": "H", "uint32": "I", "uint64": "Q",
    }  # fmt: skip
    name = dtype.name
    # memoryviews can not be cast to types that have no format
    return _C.from_buffer(part.cast(formats[name])) if name in formats else _C.from_buffer(part).view(dtype)


@wants_tensors
def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of a tensor's memory, which `from_dlpack` takes once: without a history, where `x.__dlpack__()` refuses one.

    Example:
        >>> import flambeau as fl
        >>> fl.from_dlpack(fl.to_dlpack(fl.ones(2)))
        tensor([1., 1.])
    """
    return tensor.detach().__dlpack__() if isinstance(tensor, Tensor) else tensor.__dlpack__()


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of any object with `__dlpack__` (NumPy, PyTorch, JAX, ...), or of a capsule.

    Args:
        device: where the tensor is wanted; None for where the object is.
        copy: True for memory of its own, False for the object's in any case, None for a copy where there must be one.

    Raises:
        ArgumentError: a capsule with `device` or `copy`, as what it holds is settled already.
        ValueError: another device with `copy=False`.

    >>> import flambeau as fl, numpy as np
    >>> a = np.zeros(2)
    >>> shared, own = fl.from_dlpack(a), fl.from_dlpack(a, copy=True)
    >>> a[0] = 1.0
    >>> shared.tolist(), own.tolist()
    ([1.0, 0.0], [0.0, 0.0])
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        if device is not None or copy is not None:
            raise _C.ArgumentError(
                f"from_dlpack: device = {device}, copy = {copy} with a {type(ext_tensor).__name__}; expected None: "
                "pass the tensor that the capsule was made of, or call .to() or .clone() on the result"
            )
        return _C.from_dlpack(ext_tensor)
    place = None if device is None else _C.device(device)
    asked: dict[str, Any] = {} if copy is None else {"copy": copy}
    if place is not None and place.type == "cpu":
        asked["dl_device"] = (1, 0)
    elif place is not None and copy is False:
        raise ValueError(f"from_dlpack: device = {place} with copy = False; expected 'cpu', or copy = None")
    try:
        found = _C.from_dlpack(ext_tensor.__dlpack__(max_version=(1, 0), **asked))
    except TypeError:  # a producer from before DLPack 1.0
        found = _C.from_dlpack(ext_tensor.__dlpack__())
        found = found.clone() if copy else found
    return found if place is None else found.to(place)


@spelled(s="value")
def scalar_tensor(
    value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False
) -> Tensor:
    """A 0-d tensor, of the default float type unless `dtype` is given."""
    return tensor(value, dtype=_C.get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)


def is_tensor(obj: Any) -> bool:
    """True for a Tensor.

    Example:
        >>> import flambeau as fl
        >>> fl.is_tensor(fl.ones(1)), fl.is_tensor([1])
        (True, False)
    """
    return isinstance(obj, Tensor)
