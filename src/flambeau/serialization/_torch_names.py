"""What PyTorch's pickles may name, and what stands for it here.

A function of this table gets the arguments that the file gives it, which may be anything, and checks all of them. Nothing else of a
file's names exists: `TorchNames.find` refuses what is neither here nor allowed by the user (`_allowed.py`), with the reason where there
is one.

A file may call these functions often, with the same arguments, so all that they copy is counted (`charge`) and may be as much as the
file holds.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._memory_format import sparse_coo, sparse_csr, strided
from flambeau.serialization._allowed import allowed_by_name, is_never_allowed
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._keys import Keys
from flambeau.serialization._pickle import Global, Inner, plain
from flambeau.serialization._sharing import check_place

STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
    "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
_DTYPES = {name: name for name in STORAGES.values()} | {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16", "cfloat": "complex64",
    "cdouble": "complex128",
}  # fmt: skip
_OTHER_DTYPES = ("float8_", "float4_", "uint", "int", "complex32", "chalf", "bits", "quint", "qint")
_NO_COUNTERPART = {
    "torch._utils._rebuild_qtensor": "quantised tensors (dequantize() them)",
    "torch._utils._rebuild_nested_tensor": "nested tensors (unbind() them)",
    "torch._utils._rebuild_wrapper_subclass": "tensors of classes that wrap others (save what they hold)",
    "torch.storage._load_from_bytes": "storages that are pickled by value (save tensors by torch.save)",
    "torch.jit._pickle.build_tensor_from_id": "tensors of a TorchScript archive that lie outside of it",
}


class Storage(Inner):
    """Bytes of the file, by their key; `count` elements of a type, or bytes where that is None."""

    def __init__(self, key: str, dtype: Any, count: int, location: str, view: tuple[int, int] | None = None) -> None:
        self.key, self.dtype, self.count, self.location = key, dtype, count, location
        self.view = view  # the first element and the number of elements of a storage within another
        self.what = f"the storage {key!r}"


class _StorageType(Global):
    def __init__(self, name: str, dtype: Any) -> None:
        super().__init__(name)
        self.dtype = dtype


class _NumpyType(Inner):
    """numpy.dtype, which BUILD completes."""

    what = "a NumPy dtype"

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "="

    def dtype(self) -> Any:
        import numpy as np

        return np.dtype(self.code).newbyteorder(self.order if self.order != "|" else "=")  # type: ignore[arg-type]


class Script:
    """An object of a TorchScript archive: its attributes, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}


def _expect(name: str, args: tuple[Any, ...], *kinds: type | tuple[type, ...], optional: int = 0) -> None:
    """The arguments' number and their types, to the letter: bool is no int."""
    fits = len(kinds) - optional <= len(args) <= len(kinds)
    for arg, kind in zip(args, kinds):
        fits = fits and (kind is object or type(arg) in (kind if isinstance(kind, tuple) else (kind,)))
    if not fits:
        raise FileFormatError(f"{name} is called with {short(args)}, which are not its arguments")


def _is_dict(value: Any) -> bool:
    return type(value) in (dict, OrderedDict)


class TorchNames:
    """Names of one pickle. A reader of a format says where the bytes of a storage are, by `flat`."""

    def __init__(self, size: int, in_script: bool = False) -> None:
        self._user = allowed_by_name()
        self._user_ids = {id(what): name for name, what in self._user.items()}
        self._budget = size + 10_000
        self._in_script = in_script
        self.keys = Keys()

    # ---- for readers

    def storage_of(self, pid: tuple[Any, ...]) -> Storage:
        raise NotImplementedError

    def flat(self, storage: Storage, dtype: Any) -> Tensor:
        """All of a storage as elements of a type."""
        raise NotImplementedError

    # ---- the machine's

    def find(self, name: str) -> Any:
        if name in self._user:
            return self._user[name]
        if name in _FUNCTIONS:
            function = _FUNCTIONS[name]
            return Global(name, lambda args: function(self, args))
        if name in _CLASSES:
            return Global(name, None)
        if name in _MADE:
            make = _MADE[name]
            return Global(name, lambda args: make(self, args), new=True)
        module, _, last = name.rpartition(".")
        if module in ("torch", "torch.cuda", "torch.storage") and last.endswith("Storage"):
            kind = last.removesuffix("Storage")
            if kind == "Untyped" or kind in STORAGES:
                return _StorageType(name, None if kind == "Untyped" else getattr(_C, STORAGES[kind]))
            raise FileFormatError(f"{name} holds elements of a type that has no counterpart here (convert the tensors before saving)")
        if module == "torch" and last in _DTYPES:
            return getattr(_C, _DTYPES[last])
        if module == "torch" and last.startswith(_OTHER_DTYPES):
            raise FileFormatError(f"the element type {name} has no counterpart here (convert the tensors before saving)")
        if name in _NO_COUNTERPART:
            raise FileFormatError(f"{name}: {_NO_COUNTERPART[name]} have no counterpart here")
        if self._in_script and (name.startswith("__torch__.")):
            return Global(name, lambda args: _script_object(name, args), new=True)
        if is_never_allowed(name):
            raise FileFormatError(f"it names {short(name)}, which no file may use: a hostile file, most likely")
        raise FileFormatError(
            f"it names {short(name)}, which is not among what a file may name; expected tensors in plain containers (if you trust the "
            "file, allow it: flambeau.serialization.add_safe_globals([...]), with (what stands for it, its name) where it is another here)"
        )

    def is_allowed(self, cls: Any) -> bool:
        return id(cls) in self._user_ids

    def persistent(self, pid: Any) -> Inner:
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage" or not isinstance(pid[1], _StorageType):
            raise FileFormatError(f"a persistent id is {short(pid)}; expected ('storage', type, key, location, count)")
        if type(pid[2]) is not str or type(pid[3]) is not str or type(pid[4]) is not int or pid[4] < 0:
            raise FileFormatError(
                f"a storage has key {short(pid[2])}, location {short(pid[3])}, count {short(pid[4])}; expected text, text, a number >= 0"
            )
        return self.storage_of(pid)

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        return self._run(function, lambda: function(*args))

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(cls, type):
            raise FileFormatError(f"an instance of {short(cls)} is wanted, which is no class")
        return self._run(cls, lambda: cls.__new__(cls, *args, **kwargs))

    def _run(self, what: Any, do: Callable[[], Any]) -> Any:
        """Runs the user's code, if what is asked for is allowed."""
        if id(what) not in self._user_ids:
            raise FileFormatError(f"{short(what)} is called, which is no function")
        try:
            return do()
        except Exception as error:
            raise FileFormatError(f"{self._user_ids[id(what)]}, which was allowed, raised {type(error).__name__}: {error}") from error

    def fill(self, target: Any, items: list[Any], pairs: bool) -> None:
        if not self.is_allowed(type(target)) or not isinstance(target, dict if pairs else list):
            raise FileFormatError(f"items are added to {_kind(target)}; expected a {'dict' if pairs else 'list'}")

        def do() -> None:
            if pairs:
                for key, value in zip(items[::2], items[1::2]):
                    target[key] = value
            else:
                list.extend(target, items)  # type: ignore[arg-type]

        self._run(type(target), do)

    def build(self, target: Any, state: Any) -> None:
        if isinstance(target, _NumpyType):
            _build_dtype(target, state)
        elif type(target).__module__ == "numpy" and type(target).__name__ == "ndarray":
            _build_array(self, target, state)
        elif isinstance(target, Script):
            if not _is_dict(state) or not all(type(key) is str for key in state):
                raise FileFormatError(f"an object of {target.name} has the state {short(state)}; expected attributes by names")
            target.attributes.update(state)
        elif type(target) is OrderedDict:
            plain((state,))
            target.__dict__.update(_attributes(state, "an OrderedDict", _OF_ORDERED_DICT))
        elif self.is_allowed(type(target)):
            plain((state,))
            self._run(type(target), lambda: _set_state(target, state))
        else:
            raise FileFormatError(f"a state is given to {_kind(target)}, which takes none")

    # ---- for the functions below

    def charge(self, n: int, what: str) -> None:
        """Counts n bytes or elements that are copied."""
        self._budget -= n
        if self._budget < 0:
            raise FileFormatError(f"{what} would be copied often: more than the bytes of the file together")


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _set_state(target: Any, state: Any) -> None:
    """What pickle does for BUILD."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for key, value in (slots or {}).items():
        setattr(target, key, value)


_OF_ORDERED_DICT = frozenset(dir(OrderedDict))
_OF_TENSORS = frozenset(dir(Tensor))


def _attributes(state: Any, what: str, taken: frozenset[str]) -> dict[str, Any]:
    """Attributes that an object may get from a file: none that would hide what its class has."""
    if not _is_dict(state):
        raise FileFormatError(f"{what} has the state {short(state)}; expected attributes by names")
    for key in state:
        if type(key) is not str or not key.isidentifier() or key in taken or key.startswith("__"):
            raise FileFormatError(f"{what} has an attribute {short(key)}, which no file may set")
    return dict(state)


# ------------------------------------------------------------------------------------------- tensors


def _tensor(names: TorchNames, storage: Storage, dtype: Any, offset: Any, sizes: Any, strides: Any) -> Tensor:
    if not isinstance(sizes, tuple) or not isinstance(strides, tuple):
        raise FileFormatError(f"a tensor has sizes {short(sizes)} and strides {short(strides)}; expected tuples")
    flat = names.flat(storage, dtype)
    place = [offset, list(sizes), list(strides)]
    if fault := check_place({"at": place}, [flat.numel()], dtype.itemsize):
        raise FileFormatError(f"a tensor of {storage.what} has (offset, sizes, strides) {fault.removeprefix('at = ')}")
    return flat.as_strided(place[1], place[2], flat.storage_offset() + offset).detach()


def _with_grad(value: Tensor, wanted: bool) -> Tensor:
    if wanted and not (value.is_floating_point() or value.is_complex()):
        raise FileFormatError(f"a tensor of dtype {value.dtype} can not require grad")
    return value.requires_grad_(True) if wanted else value


def _check_hooks(hooks: Any) -> None:
    if hooks is not None and (not _is_dict(hooks) or hooks):
        raise FileFormatError(f"a tensor comes with backward hooks {short(hooks)}, which no file may set")


def _bits(names: TorchNames, value: Tensor, bits: Any) -> Tensor:
    """Conjugates and negatives that PyTorch has not computed."""
    if bits is None:
        return value
    if not _is_dict(bits) or not bits.keys() <= {"conj", "neg"} or not all(type(bit) is bool for bit in bits.values()):
        raise FileFormatError(f"a tensor comes with metadata {short(bits)}; expected conj or neg")
    if any(bits.values()):
        names.charge(value.numel() * value.element_size(), "a conjugate")
    if bits.get("conj"):
        if not value.is_complex():
            raise FileFormatError(f"a tensor of dtype {value.dtype} is said to be conjugated")
        value = value.conj()
    if bits.get("neg"):
        if value.dtype == _C.bool:
            raise FileFormatError("a tensor of dtype bool is said to be negated")
        value = -value
    return value


def _rebuild_tensor(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    _expect("_rebuild_tensor", args, Storage, int, object, object)
    return _tensor(names, args[0], _typed(args[0]), *args[1:])


def _typed(storage: Storage) -> Any:
    if storage.dtype is None:
        raise FileFormatError(f"{storage.what} is untyped, and the tensor does not name its element type")
    return storage.dtype


def _rebuild_tensor_v2(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    _expect("_rebuild_tensor_v2", args, Storage, int, object, object, bool, object, object, optional=1)
    _check_hooks(args[5])
    value = _tensor(names, args[0], _typed(args[0]), *args[1:4])
    return _with_grad(_bits(names, value, args[6] if len(args) > 6 else None), args[4])


def _rebuild_tensor_v3(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    _expect("_rebuild_tensor_v3", args, Storage, int, object, object, bool, object, _C.dtype, object, optional=1)
    _check_hooks(args[5])
    value = _tensor(names, args[0], args[6], *args[1:4])
    return _with_grad(_bits(names, value, args[7] if len(args) > 7 else None), args[4])


def _rebuild_meta(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    _expect("_rebuild_meta_tensor_no_storage", args, _C.dtype, tuple, tuple, bool)
    dtype, sizes, strides, grad = args
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, strides) if type(n) is type(s) is int)
    count = reach if all(type(n) is int and n for n in sizes) else 0
    if fault := check_place({"at": [0, list(sizes), list(strides)]}, [max(0, count)], dtype.itemsize):
        raise FileFormatError(f"a tensor on meta has (offset, sizes, strides) {fault.removeprefix('at = ')}")
    if count * dtype.itemsize >= 2**59:
        raise FileFormatError(f"a tensor on meta has sizes {short(sizes)} and strides {short(strides)}, which is too large")
    flat = _C.ops.empty(count, dtype=dtype, device="meta")
    return _with_grad(flat.as_strided(list(sizes), list(strides), 0), grad)


def _check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor) or not value.is_leaf or value.layout is not strided:
        raise FileFormatError(f"{name} is called with {short(value)}; expected a dense tensor")


def _rebuild_parameter(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    from flambeau.nn.parameter import Parameter

    _expect("_rebuild_parameter", args, object, bool, object)
    _check_tensor("_rebuild_parameter", args[0])
    _check_hooks(args[2])
    _with_grad(args[0].detach(), args[1])
    return Parameter(args[0], args[1])


def _rebuild_parameter_with_state(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    _expect("_rebuild_parameter_with_state", args, object, bool, object, object)
    value = _rebuild_parameter(names, args[:3])
    _set_attributes(value, args[3])
    return value


def _set_attributes(value: Tensor, state: Any) -> None:
    if isinstance(state, tuple) and len(state) == 2:  # attributes, and slots, of which a tensor has none
        if state[1]:
            raise FileFormatError(f"a tensor has slots {short(state[1])}; expected none")
        state = state[0] or {}
    plain((state,))
    value.__dict__.update(_attributes(state, "a tensor", _OF_TENSORS))


def _rebuild_from_type(names: TorchNames, args: tuple[Any, ...]) -> Tensor:
    """Tensors with attributes, and Buffers, which are tensors with two of them."""
    name = "_rebuild_from_type_v2"
    if len(args) != 4 or not isinstance(args[0], Global) or args[0].name not in _REBUILDS or not isinstance(args[2], tuple):
        raise FileFormatError(f"{name} is called with {short(args)}, which are not its arguments")
    kind = args[1].name if isinstance(args[1], Global) else ""
    if kind not in ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"):
        raise FileFormatError(f"a tensor of class {kind or short(args[1])} is wanted; expected Tensor, Parameter or Buffer")
    value: Tensor = _FUNCTIONS[args[0].name](names, args[2])
    state = args[3]
    if kind == "torch.nn.parameter.Parameter":
        value = _rebuild_parameter(names, (value, value.requires_grad, None))
    elif _is_dict(state) and state.get("_is_buffer") is True and type(state.get("persistent")) is bool:
        from flambeau.nn.parameter import Buffer

        _check_tensor(name, value)
        grad = value.requires_grad
        value = _with_grad(Buffer(value.detach(), persistent=state["persistent"]), grad)
        state = {key: entry for key, entry in state.items() if key not in ("_is_buffer", "persistent")}
    _set_attributes(value, state)
    return value


def _layout(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("_get_layout", args, str)
    layouts = {"torch.strided": strided, "torch.sparse_coo": sparse_coo, "torch.sparse_csr": sparse_csr}
    if args[0] not in layouts:
        raise FileFormatError(f"the layout {short(args[0])} has no counterpart here; expected one of {', '.join(layouts)}")
    return layouts[args[0]]


def _rebuild_sparse(names: TorchNames, args: tuple[Any, ...]) -> Any:
    from flambeau.sparse import _construct

    if len(args) != 2 or args[0] not in (sparse_coo, sparse_csr) or not isinstance(args[1], tuple):
        raise FileFormatError(f"_rebuild_sparse_tensor is called with {short(args)}, which are not its arguments")
    is_coo = args[0] is sparse_coo
    n, data = (2, args[1]) if is_coo else (3, args[1])
    fits = len(data) in ((3, 4) if is_coo else (4,)) and isinstance(data[n], tuple)
    if not fits or not all(type(k) is int and 0 <= k < 2**63 for k in data[n]):
        raise FileFormatError(f"a sparse tensor is made of {short(data)}; expected indices, values and a size")
    for part in data[:n]:
        _check_tensor("_rebuild_sparse_tensor", part)
        if part.is_meta:
            raise FileFormatError("a sparse tensor has a part on meta")
        names.charge(part.numel() * part.element_size(), "a sparse tensor's parts")
    try:
        if is_coo:
            made = _construct.sparse_coo_tensor(*data[:3])
            return made.coalesce() if data[3:] == (True,) else made  # in order, as the file says it is
        return _construct.sparse_csr_tensor(*data)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        raise FileFormatError(f"a sparse tensor does not fit together: {error}") from None


# ------------------------------------------------------------------------------------------- plain things


def _size(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("torch.Size", args, (tuple, list, _C.Size))
    names.charge(len(args[0]), "a Size")
    if not all(type(n) is int and 0 <= n < 2**63 for n in args[0]):
        raise FileFormatError(f"a Size of {short(args[0])}")
    return _C.Size(args[0])


def _device(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("torch.device", args, str, int, optional=1)
    if args[0] not in ("cpu", "meta") or (len(args) > 1 and args[1] != 0):
        raise FileFormatError(f"the device {short(args)} is not here; expected cpu or meta")
    return _C.device(args[0])


def _check_elements(names: TorchNames, items: Any) -> None:
    """Elements of a set, or keys, that a function is given in a list."""
    names.charge(len(items), "a container")
    plain(items)
    names.keys.check(list(items), lambda key: False)


def _ordered_dict(names: TorchNames, args: tuple[Any, ...]) -> Any:
    """Empty, or Python 2's list of pairs."""
    _expect("OrderedDict", args, list, optional=1)
    pairs = args[0] if args else []
    if not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs):
        raise FileFormatError("an OrderedDict is made of something that is no list of pairs")
    _check_elements(names, [pair[0] for pair in pairs])
    plain([pair[1] for pair in pairs])
    return OrderedDict(pairs)


def _counter(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("Counter", args, dict, optional=1)
    names.charge(len(args[0]) if args else 0, "a Counter")
    counter: Counter[Any] = Counter()
    dict.update(counter, args[0] if args else {})
    return counter


def _set_of(kind: type) -> Callable[[TorchNames, tuple[Any, ...]], Any]:
    def make(names: TorchNames, args: tuple[Any, ...]) -> Any:
        _expect(kind.__name__, args, list, optional=1)
        _check_elements(names, args[0] if args else [])
        return kind(*args)

    return make


def _complex(names: TorchNames, args: tuple[Any, ...]) -> complex:
    _expect("complex", args, float, float)
    return complex(*args)


def _bytearray(names: TorchNames, args: tuple[Any, ...]) -> bytearray:
    _expect("bytearray", args, bytes, optional=1)
    names.charge(len(args[0]) if args else 0, "a bytearray")
    return bytearray(*args)


def _empty_bytes(names: TorchNames, args: tuple[Any, ...]) -> bytes:
    """How protocols 0 to 2 write no bytes."""
    _expect("bytes", args)
    return b""


def _encode(names: TorchNames, args: tuple[Any, ...]) -> bytes:
    """How protocols 0 to 2 write bytes."""
    _expect("_codecs.encode", args, str, str, optional=1)
    names.charge(len(args[0]), "a text")
    if len(args) > 1 and args[1] not in ("latin1", "latin-1"):
        raise FileFormatError(f"_codecs.encode is called for {short(args[1])}; expected latin1")
    try:
        return bytes(args[0].encode("latin1"))
    except UnicodeEncodeError:
        raise FileFormatError("bytes are written as text with characters beyond latin1") from None


def _range(kind: Callable[..., Any]) -> Callable[[TorchNames, tuple[Any, ...]], Any]:
    def make(names: TorchNames, args: tuple[Any, ...]) -> Any:
        fits = 1 <= len(args) <= 3 and all(type(n) is int or (n is None and kind is slice) for n in args)
        if not fits or (kind is range and args[2:] == (0,)):
            raise FileFormatError(f"{kind} is called with {short(args)}, which are not its arguments")
        return kind(*args)

    return make


def _version(names: TorchNames, args: tuple[Any, ...]) -> str:
    _expect("TorchVersion", args, str)
    return str(args[0])


# ------------------------------------------------------------------------------------------- NumPy

_NUMPY_CODES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}


def _numpy_type(names: TorchNames, args: tuple[Any, ...]) -> _NumpyType:
    _expect("numpy.dtype", args, str, (bool, int), (bool, int), optional=2)
    if args[0] not in _NUMPY_CODES:
        raise FileFormatError(f"a NumPy dtype {short(args[0])}; expected one of {', '.join(sorted(_NUMPY_CODES))}")
    return _NumpyType(args[0])


def _build_dtype(target: _NumpyType, state: Any) -> None:
    fits = isinstance(state, tuple) and len(state) in (8, 9) and state[2:5] == (None, None, None)
    if not fits or type(state[1]) is not str or state[1] not in ("<", ">", "|", "="):
        raise FileFormatError(f"a NumPy dtype has the state {short(state)}; expected a byte order and nothing else")
    target.order = state[1]


def _numpy_scalar(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("numpy scalar", args, _NumpyType, (bytes, str))
    import numpy as np

    dtype, raw = args[0].dtype(), args[1].encode("latin1", "replace") if type(args[1]) is str else args[1]
    if len(raw) != dtype.itemsize:
        raise FileFormatError(f"a NumPy number of {dtype} has {len(raw)} bytes; expected {dtype.itemsize}")
    return np.frombuffer(raw, dtype)[0]


def _numpy_array(names: TorchNames, args: tuple[Any, ...]) -> Any:
    import numpy as np

    fits = len(args) == 3 and isinstance(args[0], Global) and args[0].name == "numpy.ndarray"
    if not fits or args[1] != (0,) or args[2] not in (b"b", "b"):
        raise FileFormatError(f"numpy's _reconstruct is called with {short(args)}, which are not its arguments")
    return np.zeros(0, np.int8)


def _build_array(names: TorchNames, target: Any, state: Any) -> None:
    fits = isinstance(state, tuple) and len(state) == 5 and isinstance(state[1], tuple) and isinstance(state[2], _NumpyType)
    if not fits or type(state[4]) not in (bytes, str):
        raise FileFormatError(f"a NumPy array has the state {short(state)}; expected shape, dtype, order and bytes")
    _, shape, kind, fortran, raw = state
    if type(fortran) is not bool or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise FileFormatError(f"a NumPy array has shape {short(shape)}")
    if type(raw) is str:  # Python 2's
        raw = raw.encode("latin1", "replace")
    dtype = kind.dtype()
    if math.prod(shape) * dtype.itemsize != len(raw) or math.prod(n for n in shape if n) * dtype.itemsize >= 2**59:
        raise FileFormatError(f"a NumPy array of {dtype} and shape {short(shape)} has {len(raw)} bytes")
    names.charge(len(raw), "an array")
    target.__setstate__((1, shape, dtype, fortran, raw))


# ------------------------------------------------------------------------------------------- TorchScript


def _script_object(name: str, args: tuple[Any, ...]) -> Script:
    _expect(name, args)
    return Script(name)


def _script_list(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("a TorchScript list", args, list)
    return args[0]


def _script_tagged(names: TorchNames, args: tuple[Any, ...]) -> Any:
    _expect("restore_type_tag", args, object, str)
    return args[0]


# ------------------------------------------------------------------------------------------- the table

Function = Callable[[TorchNames, tuple[Any, ...]], Any]

_REBUILDS: dict[str, Function] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
}
_FUNCTIONS: dict[str, Function] = {
    **_REBUILDS,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
    "torch.serialization._get_layout": _layout,
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "builtins.set": _set_of(set),
    "builtins.frozenset": _set_of(frozenset),
    "builtins.complex": _complex,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _empty_bytes,
    "builtins.slice": _range(slice),
    "builtins.range": _range(range),
    "_codecs.encode": _encode,
    "numpy.dtype": _numpy_type,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _numpy_array,
    "torch.jit._pickle.build_intlist": _script_list,
    "torch.jit._pickle.build_doublelist": _script_list,
    "torch.jit._pickle.build_boollist": _script_list,
    "torch.jit._pickle.build_tensorlist": _script_list,
    "torch.jit._pickle.restore_type_tag": _script_tagged,
}
# Classes of which NEWOBJ makes an instance, and those that are arguments of a function above.
_MADE: dict[str, Function] = {"torch.torch_version.TorchVersion": _version}
_CLASSES = {"torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "numpy.ndarray"}
