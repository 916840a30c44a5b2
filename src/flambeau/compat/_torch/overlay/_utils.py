"""`torch._utils`: flat lists of gradients, exceptions that cross threads, how pickles rebuild tensors, devices by name."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flambeau import _C as _core
from flambeau._C import Tensor

# ---- several tensors as one


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements, one tensor after the other.

    Shape: N tensors of any shape, result [sum of their elements].
    """
    flat: Tensor = _core.ops.cat([t.reshape(-1) for t in tensors])
    return flat


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of `flat` in the shapes of `tensors`: the way back."""
    views, start = [], 0
    for t in tensors:
        views.append(flat.narrow(0, start, t.numel()).view(t.shape))
        start += t.numel()
    return tuple(views)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type each, of up to `size_limit` bytes (more where a single one has more)."""
    buckets: dict[Any, tuple[list[Tensor], int]] = defaultdict(lambda: ([], 0))
    for t in tensors:
        size = t.numel() * t.element_size()
        bucket, total = buckets[t.type()]
        if bucket and total + size > size_limit:
            yield bucket
            bucket, total = [], 0
        bucket.append(t)
        buckets[t.type()] = (bucket, total + size)
    yield from (bucket for bucket, _ in buckets.values() if bucket)


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """`tensors`, which came bucket by bucket of a type each, in the order of types of `ordered_tensors`."""
    queues: dict[str, list[Tensor]] = defaultdict(list)
    for t in tensors:
        queues[t.type()].append(t)
    waiting = {kind: iter(queue) for kind, queue in queues.items()}
    return tuple(next(waiting[t.type()]) for t in ordered_tensors)


# ---- devices


def _get_available_device_type() -> str | None:
    """None: no accelerator is here."""
    return None


def _get_device_module(device_type: str) -> Any:
    """`torch.cpu`, `torch.cuda` and their kin."""
    return importlib.import_module(f"torch.{device_type}")


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device, -1 for the CPU where that is allowed; None of none: no accelerator is here."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return None
    kind = _core.device(device) if isinstance(device, str) else device
    if isinstance(kind, _core.device):
        if kind.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if kind.type == "cpu" or kind.index is not None or optional:
            return -1 if kind.type == "cpu" else kind.index
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")


def _get_all_device_indices() -> None:
    """None: no accelerator is here."""


def is_compiling() -> bool:
    """Whether a program is being recorded by `compile`."""
    import flambeau

    return bool(flambeau.compiler.is_compiling())


# ---- exceptions of workers


class KeyErrorMessage(str):
    """A text whose repr has its lines as they are."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as its type and text, which other threads and processes can raise again."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = exc_info if exc_info is not None else sys.exc_info()
        self.exc_type: Any = kind
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self) -> None:
        """Raises one of the same type, whose text has where it came from."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            exception = self.exc_type(text)
        except Exception:
            raise RuntimeError(text) from None  # types that take other arguments
        raise exception


# ---- pickles


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A tensor over a storage's memory."""
    made: Tensor = _core.ops.empty(0, dtype=storage.dtype)
    return made.set_(storage.untyped() if hasattr(storage, "untyped") else storage, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, metadata: Any = None) -> Tensor:
    """The same with what autograd knows of it."""
    made = _rebuild_tensor(storage, storage_offset, size, stride)
    made.requires_grad = requires_grad
    for hook in (backward_hooks or {}).values():
        made.register_hook(hook)
    return made


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    """The same of types that have no class of storages."""
    made: Tensor = _core.ops.empty(0, dtype=dtype)
    made.set_(storage.untyped(), storage_offset, tuple(size), tuple(stride))
    made.requires_grad = requires_grad
    for hook in (backward_hooks or {}).values():
        made.register_hook(hook)
    return made


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """A tensor without bytes."""
    made: Tensor = _core.ops.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    return made.requires_grad_(requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Any:
    """Of indices, values and a size, and of a COO tensor whether it is in order."""
    from flambeau import sparse_compressed_tensor, sparse_coo, sparse_coo_tensor, strided

    if layout is sparse_coo:
        made = sparse_coo_tensor(*data[:3])
        return made.coalesce() if data[3:] == (True,) else made
    if layout is strided:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    return sparse_compressed_tensor(*data[:4], layout=layout)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    """A Parameter of saved data."""
    from flambeau.nn import Parameter

    made = Parameter(data, requires_grad)
    for hook in (backward_hooks or {}).values():
        made.register_hook(hook)
    return made


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    """The same with its attributes."""
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _get_obj_state(obj: Any) -> Any:
    """An object's attributes as pickles have them: a dict, or (dict, slots)."""
    getstate = getattr(obj, "__getstate__", None) if sys.version_info >= (3, 11) or "__getstate__" in dir(type(obj)) else None
    return getstate() if getstate is not None and type(obj).__getstate__ is not getattr(object, "__getstate__", None) else dict(vars(obj))


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Gives an object the attributes that `_get_obj_state` told."""
    values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for part in (values, slots):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


# ---- names


def _import_dotted_name(name: str) -> Any:
    """`a.b.C`, imported from the module `a.b`."""
    first, *rest = name.split(".")
    value: Any = __import__(name.rpartition(".")[0] or first)
    for part in rest:
        value = getattr(value, part)
    return value


class _ClassPropertyDescriptor:
    def __init__(self, fget: Any, fset: Any = None) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget.__get__(instance, owner if owner is not None else type(instance))()


def classproperty(func: Callable[[Any], Any]) -> _ClassPropertyDescriptor:
    """A property that a class has, as its objects do."""
    return _ClassPropertyDescriptor(func if isinstance(func, (classmethod, staticmethod)) else classmethod(func))


def _element_size(dtype: Any) -> int:
    """How many bytes an element has."""
    return int(dtype.itemsize)
