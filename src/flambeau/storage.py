"""Storages as objects: the memory that tensors are views of, as bytes (`UntypedStorage`) or as elements of one type (`TypedStorage`).

A storage object holds a tensor of bytes over the whole memory; two objects of one memory are equal. `Tensor.untyped_storage()` makes one,
or finds the one that there is, and `Tensor.set_` makes a tensor a view of one.

>>> import flambeau as fl
>>> x = fl.arange(6, dtype=fl.int32)
>>> s = x[2:].untyped_storage()
>>> len(s), s == x.untyped_storage(), s.data_ptr() == x.data_ptr()
(24, True, True)
>>> fl.empty(0, dtype=fl.int32).set_(s, 1, (2, 2), (1, 2))
tensor([[1, 3],
        [2, 4]], dtype=flambeau.int32)
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn

from flambeau import _C, _tensor
from flambeau._C import Tensor, ops
from flambeau._errors import NoCUDAError
from flambeau._from_buffer import copied, swap
from flambeau._info import whole_number
from flambeau._no_tensor import wants_tensors

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


class UntypedStorage:
    """Bytes that tensors are views of. `UntypedStorage(n)` makes n bytes without values, `UntypedStorage([1, 2])` has these.

    Raises:
        ValueError: n is negative.
        TypeError: it is neither an int nor a list of them.
    """

    __slots__ = ("_bytes", "__weakref__")
    is_cuda = is_hpu = is_sparse = is_sparse_csr = False
    _bytes: Tensor  # 1-d, uint8, all of it

    def __init__(self, size: int | Sequence[int] = 0, *, device: Any = None) -> None:
        if isinstance(size, (list, tuple)):
            self._bytes = _C.tensor_from(size, _C.uint8)
            return
        if isinstance(size, bool) or not isinstance(size, (int, Integral)):
            raise TypeError(f"UntypedStorage: size is a {type(size).__name__}; expected a number of bytes")
        if size < 0:
            raise ValueError(f"UntypedStorage: size = {size}; expected at least 0")
        self._bytes = ops.empty((size,), dtype=_C.uint8, device=device)

    @classmethod
    def _of(cls, flat: Tensor) -> UntypedStorage:
        self = cls.__new__(cls)
        self._bytes = flat
        return self

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0, **kwargs: Any) -> UntypedStorage:
        """The first `nbytes` bytes of a file, mapped into memory: read when they are wanted. `shared` writes changes back to the file.

        Raises:
            ValueError: the file is shorter, unless `shared`, which makes it as long.
        """
        from flambeau._from_file import FilePages

        nbytes = int(kwargs.get("size", nbytes))
        path = os.fspath(filename)
        if shared:
            with open(path, "ab") as grown:
                if grown.tell() < nbytes:
                    grown.truncate(nbytes)
        length = os.path.getsize(path)
        nbytes = nbytes or length
        if length < nbytes:
            raise _C.ArgumentError(f"UntypedStorage.from_file: {path} has {length} bytes; expected at least nbytes = {nbytes}")
        if nbytes == 0:
            return cls(0)
        with open(path, "r+b" if shared else "rb") as file:
            pages = FilePages.of(file.fileno(), nbytes, path, shared)
        return cls._of(_C.from_buffer(memoryview(pages)))

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, *, dtype: Any = None, count: int = -1, offset: int = 0
    ) -> UntypedStorage:
        """A copy of the bytes of a buffer, in which elements of `dtype` lie in the order `byte_order`: 'native', 'little' or 'big'.

        Args:
            count: elements that are taken; all, for -1.
            offset: the byte at which the first one begins.

        Raises:
            ValueError: the buffer has fewer elements, or a part of one; another order.
            TypeError: the object is no buffer; there is no `dtype`, or no order for elements of several bytes.
        """
        flat = copied("UntypedStorage.from_buffer", buffer, byte_order, dtype, count, offset)
        return cls._of(flat.view(_C.uint8))

    def resize_(self, size: int) -> UntypedStorage:
        """Makes it larger, in place; what is new has no values.

        Raises:
            ValueError: `size` bytes are fewer than it has: tensors see those.
        """
        if size < self.nbytes():
            raise _C.ArgumentError(
                f"UntypedStorage.resize_: size = {size}, but it has {self.nbytes()} bytes, which tensors see; expected at least as many"
            )
        self._bytes.resize_((size,))
        return self

    def new(self) -> UntypedStorage:
        """One without bytes."""
        return UntypedStorage(0)

    # ---- questions

    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._bytes.numel()

    size = __len__ = nbytes

    def element_size(self) -> int:
        """1."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte; 0 without bytes."""
        return 0 if self._bytes.is_meta else int(self._bytes.data_ptr())

    @property
    def _cdata(self) -> int:
        return int(self._bytes._storage_ptr())

    @property
    def device(self) -> Any:
        """Where it lies."""
        return self._bytes.device

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    @property
    def filename(self) -> str | None:
        """The path of the file that the memory is, where changes are written to it (`from_file(..., shared=True)`); else None."""
        memory = _C.buffer_of(self._bytes)
        while isinstance(memory, memoryview):
            memory = memory.obj
        return getattr(memory, "filename", None)

    def is_shared(self) -> bool:
        """Whether other processes can see the memory (`share_memory_`)."""
        return self._bytes.is_shared()  # type: ignore[no-any-return]

    def is_pinned(self, device: Any = None) -> bool:
        """False: nothing is pinned without a GPU."""
        return False

    def resizable(self) -> bool:
        """False: a storage has the size that it was made with."""
        return False

    def _as_tensor(self, dtype: _C.dtype | None) -> Tensor:
        """The bytes read as elements of `dtype`, int64 without it; a rest that makes no element is left out."""
        kind = dtype or _C.int64
        return self._bytes[: len(self) // kind.itemsize * kind.itemsize].view(kind)

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        return self._bytes.tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise RuntimeError(f"UntypedStorage: a slice has step {step}; expected 1")
            return UntypedStorage._of(self._bytes[start : max(start, stop)])
        return int(self._bytes[index].item())

    def __setitem__(self, index: Any, value: Any) -> None:
        self._bytes[index] = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return False
        return (self._cdata, self.data_ptr(), len(self)) == (other._cdata, other.data_ptr(), len(other))

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __repr__(self) -> str:
        return _printed(self, f"device={self.device}")

    # ---- copies

    def clone(self) -> UntypedStorage:
        """A copy."""
        return UntypedStorage._of(self._bytes.clone())

    @wants_tensors
    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        copied: UntypedStorage = memo.setdefault(id(self), self.clone())
        return copied

    def cpu(self) -> UntypedStorage:
        """Itself, on the CPU."""
        return self.to(device="cpu")

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a device: itself where they lie there."""
        moved = self._bytes.to(device)
        return self if moved is self._bytes else UntypedStorage._of(moved)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> NoReturn:
        """Refused: there is no GPU."""
        raise NoCUDAError("UntypedStorage.cuda")

    def type(self, dtype: Any = None, non_blocking: bool = False) -> str:
        """'torch.storage.UntypedStorage'. A storage of bytes is not converted: `Tensor.set_` reads it as elements of a type.

        Raises:
            TypeError: a `dtype` is given.
        """
        if dtype is not None:
            raise TypeError(f"UntypedStorage.type: dtype = {dtype!r}; expected None (float() and its kin make numbers of the bytes)")
        return f"{_tensor.library}.storage.UntypedStorage"

    def byteswap(self, dtype: Any) -> None:
        """Turns the bytes of each element of `dtype` around, in place."""
        swap(self._bytes, dtype)

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Takes the bytes of another of the same size."""
        self._bytes.copy_(source._bytes)
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte."""
        self._bytes.fill_(value)
        return self

    def share_memory_(self) -> UntypedStorage:
        """Moves it, with all tensors on it, to memory that other processes see."""
        self._bytes.share_memory_()
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        """One of n bytes in memory that other processes see."""
        return cls(size, device=device).share_memory_()

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def __reduce__(self) -> Any:
        return _rebuild, (self._bytes,)


def _rebuild(flat: Tensor) -> UntypedStorage:
    return UntypedStorage._of(flat)


def _wrapped(storage: Any, args: Sequence[Any], dtype: Any, device: Any) -> UntypedStorage:
    if not isinstance(storage, UntypedStorage):
        raise TypeError(f"TypedStorage: wrap_storage must be UntypedStorage, not {type(storage).__name__}")
    if args or device is not None:
        phrase = "No positional arguments should be given" if args else "Argument 'device' should not be specified"
        raise RuntimeError(f"TypedStorage: {phrase} together with wrap_storage")
    if dtype is None:
        raise RuntimeError("TypedStorage: Argument 'dtype' must be specified together with wrap_storage: bytes have none")
    return storage


class TypedStorage:
    """A storage read as elements of one type; PyTorch's older form. It is made of a number of elements, of their values, or of bytes.

    Raises:
        TypeError: it is made of something else, or `dtype` is no element type.
        RuntimeError: bytes are given together with a number, values or a device, or without a type.
    """

    is_cuda = is_hpu = is_sparse = False

    def __init__(
        self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None, _internal: bool = False
    ) -> None:
        if not isinstance(dtype, (_C.dtype, NoneType)):
            raise TypeError(f"TypedStorage: Argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            self._untyped_storage = _wrapped(wrap_storage, args, dtype, device)
            return
        if len(args) > 1:
            raise RuntimeError(f"TypedStorage: Too many positional arguments: {len(args)}; expected at most one")
        of: Any = args[0] if args else 0
        if isinstance(of, (list, tuple)):
            self._untyped_storage = untyped_storage(_C.tensor_from(of, self.dtype))
        elif isinstance(of, Integral) and not isinstance(of, bool):
            self._untyped_storage = UntypedStorage(int(of) * self.dtype.itemsize, device=device)
        else:
            kind = type(of).__name__
            phrase = f"invalid data type '{kind}'" if isinstance(of, Sequence) else f"Argument type not recognized: {kind}"
            raise TypeError(f"TypedStorage: {phrase}; expected a number of elements, or a list of their values")

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *, dtype: Any = None
    ) -> TypedStorage:
        """A copy of the elements of a buffer; see `UntypedStorage.from_buffer`. `FloatStorage` and its kin know their type.

        Example:
            >>> import flambeau as fl
            >>> fl.ShortStorage.from_buffer(b"\\x00\\x01\\x00\\x02", "big").tolist()
            [1, 2]
        """
        flat = copied("TypedStorage.from_buffer", buffer, byte_order, dtype, count, offset)
        return cls(wrap_storage=UntypedStorage._of(flat.view(_C.uint8)), dtype=dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first `size` elements of a file, mapped into memory, by `FloatStorage` and its kin; see `UntypedStorage.from_file`.

        Raises:
            RuntimeError: always, of this class.
        """
        raise RuntimeError("TypedStorage.from_file: no type is known; expected a call of FloatStorage.from_file, or of another such class")

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def _elements(self) -> Tensor:
        return self._untyped_storage._bytes.view(self.dtype)

    def _as_tensor(self, dtype: _C.dtype | None) -> Tensor:
        return self._elements()  # whose type is the storage's

    def __len__(self) -> int:
        return len(self._untyped_storage) // int(self.dtype.itemsize)

    size = __len__

    def __getitem__(self, index: Any) -> Any:
        found = self._elements()[index]
        return TypedStorage(wrap_storage=found.untyped_storage()[self._bytes_of(index)], dtype=self.dtype) if found.ndim else found.item()

    def _bytes_of(self, index: slice) -> slice:
        start, stop, _ = index.indices(len(self))
        return slice(start * self.dtype.itemsize, stop * self.dtype.itemsize)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements."""
        return self._elements().tolist()  # type: ignore[no-any-return]

    def nbytes(self) -> int:
        """How many bytes it has."""
        return len(self._untyped_storage)

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    @property
    def device(self) -> Any:
        """Where it lies."""
        return self._untyped_storage.device

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    @property
    def filename(self) -> str | None:
        """The path of the file that the memory is; see `UntypedStorage.filename`."""
        return self._untyped_storage.filename

    def get_device(self) -> int:
        """-1: the CPU."""
        return -1

    def is_pinned(self, device: Any = None) -> bool:
        """False: nothing is pinned without a GPU."""
        return False

    def resizable(self) -> bool:
        """False: a storage has the size that it was made with."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes can see the memory."""
        return self._untyped_storage.is_shared()

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The elements on a device: itself where they lie there."""
        moved = self._untyped_storage.to(device=device)
        return self if moved is self._untyped_storage else TypedStorage(wrap_storage=moved, dtype=self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> NoReturn:
        """Refused: there is no GPU."""
        raise NoCUDAError("TypedStorage.cuda")

    def share_memory_(self) -> TypedStorage:
        """Moves it, with all tensors on it, to memory that other processes see."""
        self._untyped_storage.share_memory_()
        return self

    def _new_shared(self, size: int, *, device: Any = "cpu") -> TypedStorage:
        """One of n elements of this one's type in memory that other processes see."""
        return TypedStorage(wrap_storage=UntypedStorage._new_shared(size * self.dtype.itemsize, device=device), dtype=self.dtype)

    def resize_(self, size: int) -> None:
        """Makes room for n elements; see `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """Itself, on the CPU."""
        return self.to(device="cpu")

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Takes the elements of another of the same length."""
        self._elements().copy_(source._elements())
        return self

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element."""
        self._elements().fill_(value)
        return self

    def pickle_storage_type(self) -> str:
        """The name of its class in files, `FloatStorage` for float32."""
        kind = next((kind for kind, name in STORAGES.items() if getattr(_C, name) is self.dtype), None)
        if kind is None:
            raise KeyError(f"pickle_storage_type: {self.dtype} has no class of storages")
        return f"{kind}Storage"

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class, 'torch.FloatStorage'; with a `dtype`, a class of storages or its name the elements as that type."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        if isinstance(dtype, str) and dtype.rpartition(".")[2].removesuffix("Storage") in STORAGES:
            dtype = globals()[dtype.rpartition(".")[2]]
        return self._to(dtype.dtype if isinstance(dtype, _StorageKind) else dtype)

    def _to(self, dtype: Any) -> TypedStorage:
        if dtype is self.dtype:
            return self
        return TypedStorage(wrap_storage=untyped_storage(self._elements().to(dtype)), dtype=dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.dtype is other.dtype and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        return _printed(self, f"dtype={self.dtype}, device={self.device}")


def _to_type(method: str, dtype: str) -> tuple[Any, Any]:
    """The methods of both kinds of storages that convert to a type."""

    def convert(self: TypedStorage) -> TypedStorage:
        return self._to(getattr(_C, dtype))

    def numbers(self: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=self, dtype=_C.uint8)._to(getattr(_C, dtype))

    for function in (convert, numbers):
        function.__name__ = function.__qualname__ = method
    convert.__doc__ = f"The elements as {dtype}: itself where they are that."
    numbers.__doc__ = f"The bytes, numbers from 0 to 255, as {dtype}."
    return convert, numbers


# The kinds of storages, by the names that their classes have (here and in files), and the method that converts to each.
STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
    "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip


UntypedStorage.__module__ = TypedStorage.__module__ = f"{_tensor.library}.storage"  # no facade sees this module before a storage is made


class _StorageKind(type):
    """The class of `FloatStorage` and its kin: storages of its element type are its instances, and calling it makes one."""

    dtype: Any

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, TypedStorage) and value.dtype is cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if given := [name for name in ("dtype", "device") if name in kwargs]:
            raise RuntimeError(f"{cls.__name__}: '{given[0]}' cannot be specified: the class says it")
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)

    def from_buffer(cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0) -> TypedStorage:
        """A copy of the elements of a buffer; see `UntypedStorage.from_buffer`."""
        flat = copied(f"{cls.__name__}.from_buffer", buffer, byte_order, cls.dtype, count, offset)
        return TypedStorage(wrap_storage=UntypedStorage._of(flat.view(_C.uint8)), dtype=cls.dtype)

    _from_buffer = from_buffer  # the name that packages know

    def _new_shared(cls, size: int, *, device: Any = "cpu") -> TypedStorage:
        return TypedStorage(0, dtype=cls.dtype)._new_shared(size, device=device)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first `size` elements of a file, mapped into memory; see `UntypedStorage.from_file`."""
        mapped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=mapped, dtype=cls.dtype)


if TYPE_CHECKING:

    class FloatStorage(TypedStorage): ...

    class DoubleStorage(TypedStorage): ...

    class HalfStorage(TypedStorage): ...

    class BFloat16Storage(TypedStorage): ...

    class LongStorage(TypedStorage): ...

    class IntStorage(TypedStorage): ...

    class ShortStorage(TypedStorage): ...

    class CharStorage(TypedStorage): ...

    class ByteStorage(TypedStorage): ...

    class BoolStorage(TypedStorage): ...

    class ComplexFloatStorage(TypedStorage): ...

    class ComplexDoubleStorage(TypedStorage): ...
else:
    for _kind, _dtype in STORAGES.items():
        _method = {"ComplexFloat": "complex_float", "ComplexDouble": "complex_double"}.get(_kind, _kind.lower())
        for _class, _function in zip((TypedStorage, UntypedStorage), _to_type(_method, _dtype), strict=True):
            setattr(_class, _method, _function)
        _doc = f"Storages of {_dtype}: of a number of elements, of values, and their class for `isinstance`."
        globals()[f"{_kind}Storage"] = _StorageKind(
            f"{_kind}Storage", (), {"dtype": getattr(_C, _dtype), "__doc__": _doc, "__module__": _tensor.library}
        )


def _printed(storage: UntypedStorage | TypedStorage, about: str) -> str:
    """One element a line, the middle of many left out, and what it is."""
    n = len(storage)
    if storage.device.type == "meta":
        text = "..."
    else:
        shown = storage.tolist() if n <= 1000 else [*(storage[i] for i in range(3)), "...", *(storage[i] for i in range(n - 3, n))]
        text = " " + "\n ".join(map(str, shown))
    return "\n".join([text, f"[{type(storage).__module__}.{type(storage).__name__}({about}) of size {n}]"])


# ---- methods of tensors

# Of a memory that some object stands for, there is this one object.
_objects: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()


def is_storage(obj: Any) -> bool:
    """True for a storage, with a type or without.

    Example:
        >>> import flambeau as fl
        >>> fl.is_storage(fl.ones(1).untyped_storage()), fl.is_storage(fl.ones(1))
        (True, False)
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory of this tensor, as bytes."""
    size = self._storage_bytes()
    if self.is_meta:
        return UntypedStorage._of(ops.empty((size,), dtype=_C.uint8, device="meta"))
    number = self._storage_ptr()
    known = _objects.get(number)
    if known is not None and (known._cdata, len(known)) == (number, size):
        return known
    none = self.detach().as_strided((0,), (1,), 0)
    whole = (none if self.dtype is _C.uint8 else none.view(_C.uint8)).as_strided((size,), (1,), 0)
    if known is None or known._cdata != number:
        known = _objects[number] = UntypedStorage._of(whole)
    known._bytes = whole  # which may be more than they were
    return known


def storage(self: Tensor) -> TypedStorage:
    """The memory of this tensor, as elements."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self.dtype)


_typed_storage = storage  # the name that packages know


def storage_type(self: Tensor) -> Any:
    """The class of this tensor's storage, `FloatStorage` for float32."""
    return globals()[storage(self).pickle_storage_type()]


def _sizes(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, (int, Integral)):
        return (int(value),)
    if not isinstance(value, Iterable):
        raise TypeError(f"set_: {name} = {value!r} is a {type(value).__name__}; expected a tuple of ints")
    return tuple(whole_number("set_", name, n) for n in value)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Makes this tensor a view of a storage, or of another tensor's memory, in place. It has no derivative: a backward through it raises.

    A storage grows where the view reaches beyond it; what is new has no values.

    Raises:
        TypeError: `source` is neither.
        RuntimeError: this tensor is a leaf that requires grad (outside of `no_grad`), or the storage would have to grow and is not ours.
    """
    if self.requires_grad and self.is_leaf and _C.is_grad_enabled():
        raise _C.AutogradError("set_: a leaf tensor that requires grad can not be written in place; use no_grad(), or x.data.set_(...)")
    if self.is_inference() and not _C.is_inference_mode_enabled():
        raise _C.AutogradError("set_: a tensor made in inference_mode can only be written in inference_mode; clone() it first")
    given = [source] if isinstance(source, Tensor) else []
    traced = _C.is_grad_enabled() and any(x.requires_grad for x in [self, *given])
    _set(self, source, storage_offset, size, stride)
    if traced:
        _C.lose_history(self, "set_ has no derivative; use it under no_grad(), or copy_()", given)
    return self


def _set(self: Tensor, source: Any, storage_offset: int, size: Any, stride: Any) -> None:
    if source is None:
        self.data = ops.empty((0,), dtype=self.dtype)
        return
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise _C.DTypeError(f"set_: source is {source.dtype}; expected {self.dtype}, as this tensor is")
        if size is None:
            self.data = source.detach()
            return
    elif not isinstance(source, (UntypedStorage, TypedStorage)):
        raise TypeError(f"set_: source is a {type(source).__name__}; expected a storage or a tensor")
    storage_offset = whole_number("set_", "storage_offset", storage_offset)
    memory = untyped_storage(source) if isinstance(source, Tensor) else source.untyped()
    itemsize = self.dtype.itemsize
    shape = (memory.nbytes() // itemsize,) if size is None else _sizes("size", size)
    if stride is None:
        steps, step = [], 1
        for n in reversed(shape):
            steps.append(step)
            step *= max(n, 1)
        stride = tuple(reversed(steps))
    strides = _sizes("stride", stride)
    if len(strides) == len(shape) and min((storage_offset, *shape, *strides)) >= 0 and math.prod(shape):
        end = storage_offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
        if end * itemsize > memory.nbytes():
            memory.resize_(end * itemsize)
    if isinstance(source, Tensor):
        flat = source.detach()
    else:
        flat = memory._bytes
        flat = flat if self.dtype is _C.uint8 else flat[: len(flat) // itemsize * itemsize].view(self.dtype)
    self.data = flat.as_strided(shape, strides, storage_offset)
