"""Plain values of PyTorch's pickles, NumPy's arrays, and objects of TorchScript: what stands for the functions that make them."""

from __future__ import annotations

import datetime
import functools
import math
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from flambeau import _C
from flambeau.serialization._errors import FileFormatError, short
from flambeau.serialization._ordinary import FACTORIES
from flambeau.serialization._pickle import Global, Inner, plain
from flambeau.serialization._results import made_result, result_type
from flambeau.serialization._torch_context import Context, Function, attributes, expect, is_dict


def _size(names: Context, args: tuple[Any, ...]) -> Any:
    expect("torch.Size", args, (tuple, list, _C.Size))
    names.charge(len(args[0]), "a Size")
    if not all(type(n) is int and 0 <= n < 2**63 for n in args[0]):
        raise FileFormatError(f"a Size of {short(args[0])}")
    return _C.Size(args[0])


def _device(names: Context, args: tuple[Any, ...]) -> Any:
    """A name: options that a checkpoint keeps say where it was trained. Tensors go where `map_location` says."""
    expect("torch.device", args, str, int, optional=1)
    try:
        return _C.device(*args)
    except ValueError as error:
        raise FileFormatError(f"{short(args)} is no device: {short(str(error))}") from error


def named_result(name: str) -> Function | None:
    """What makes a result with named parts; None for another name."""
    kind = result_type(name)

    def make(names: Context, args: tuple[Any, ...]) -> Any:
        if not hasattr(kind, "_make"):
            expect(name, args, tuple, dict, optional=1)
        return made_result(kind, tuple(plain(args)))

    return make if kind is not None else None


def _check_elements(names: Context, items: Any) -> None:
    """Elements of a set, or keys, that a function is given in a list."""
    names.charge(len(items), "a container")
    names.keys.check(list(items), lambda key: names.is_allowed(type(key)) and type(key).__hash__ is not None)


def _ordered_dict(names: Context, args: tuple[Any, ...]) -> Any:
    """Empty, or Python 2's list of pairs."""
    expect("OrderedDict", args, list, optional=1)
    pairs = args[0] if args else []
    if not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs):
        raise FileFormatError("an OrderedDict is made of something that is no list of pairs")
    _check_elements(names, [pair[0] for pair in pairs])
    return OrderedDict(pairs)


def _counter(names: Context, args: tuple[Any, ...]) -> Any:
    expect("Counter", args, dict, optional=1)
    names.charge(len(args[0]) if args else 0, "a Counter")
    counter: Counter[Any] = Counter()
    dict.update(counter, args[0] if args else {})
    return counter


# What a defaultdict may make, by the names that pickles have.
_FACTORIES = {f"{kind.__module__}.{name}": kind for name, kind in FACTORIES.items()}


def _defaultdict(names: Context, args: tuple[Any, ...]) -> Any:
    """Python writes the entries behind it."""
    expect("defaultdict", args, object, dict, optional=2)
    names.charge(len(args[1]) if len(args) > 1 else 0, "a defaultdict")
    factory = args[0] if args else None
    if isinstance(factory, Global) and factory.name in _FACTORIES:
        factory = _FACTORIES[factory.name]
    elif factory is not None and not names.may_call(factory):
        what = factory.name if isinstance(factory, Global) else short(factory)
        raise FileFormatError(f"a defaultdict of {what}; expected None or one of {', '.join(FACTORIES)}")
    return defaultdict(factory, *args[1:])


def _deque(names: Context, args: tuple[Any, ...]) -> Any:
    """Python writes the items behind it."""
    expect("deque", args, (tuple, list), (int, type(None)), optional=2)
    items, most = args[0] if args else (), args[1] if len(args) > 1 else None
    if most is not None and not 0 <= most < 2**63:
        raise FileFormatError(f"a deque of at most {short(most)} items")
    names.charge(len(items), "a deque")
    return deque(plain(items), most)


def _set_of(kind: type) -> Callable[[Context, tuple[Any, ...]], Any]:
    def make(names: Context, args: tuple[Any, ...]) -> Any:
        expect(kind.__name__, args, list, optional=1)
        _check_elements(names, args[0] if args else [])
        return kind(*args)

    return make


def _complex(names: Context, args: tuple[Any, ...]) -> complex:
    expect("complex", args, float, float)
    return complex(*args)


def _bytearray(names: Context, args: tuple[Any, ...]) -> bytearray:
    expect("bytearray", args, bytes, optional=1)
    names.charge(len(args[0]) if args else 0, "a bytearray")
    return bytearray(*args)


def _empty_bytes(names: Context, args: tuple[Any, ...]) -> bytes:
    """How protocols 0 to 2 write no bytes."""
    expect("bytes", args)
    return b""


def _encode(names: Context, args: tuple[Any, ...]) -> bytes:
    """How protocols 0 to 2 write bytes."""
    expect("_codecs.encode", args, str, str, optional=1)
    names.charge(len(args[0]), "a text")
    if len(args) > 1 and args[1] not in ("latin1", "latin-1"):
        raise FileFormatError(f"_codecs.encode is called for {short(args[1])}; expected latin1")
    try:
        return bytes(args[0].encode("latin1"))
    except UnicodeEncodeError:
        raise FileFormatError("bytes are written as text with characters beyond latin1") from None


def _range(kind: Callable[..., Any]) -> Callable[[Context, tuple[Any, ...]], Any]:
    kinds = (int, bool, float, str, type(None)) if kind is slice else (int,)

    def make(names: Context, args: tuple[Any, ...]) -> Any:
        fits = 1 <= len(args) <= 3 and all(type(n) in kinds for n in args)
        if not fits or (kind is range and args[2:] == (0,)):
            raise FileFormatError(f"{kind} is called with {short(args)}, which are not its arguments")
        return kind(*args)

    return make


def _version(names: Context, args: tuple[Any, ...]) -> str:
    expect("TorchVersion", args, str)
    return str(args[0])


def _moment(kind: Any, *sizes: int) -> Function:
    """Classes of `datetime`, which check their bytes, and a time zone of `datetime`'s own behind these."""

    def make(names: Context, args: tuple[Any, ...]) -> Any:
        expect(f"datetime.{kind.__name__}", args, (bytes, str), datetime.timezone, optional=1)
        raw = names.old_text.bytes_of(args[0])  # a text is Python 2's
        if len(raw) not in sizes or (kind is datetime.date and len(args) > 1):
            raise FileFormatError(f"datetime.{kind.__name__} is made of {short(args)}; expected {sizes[0]} bytes")
        return kind(raw, *args[1:])

    return _checked(make)


def _checked(make: Function) -> Function:
    """What refuses arguments of the right types by ValueError and its kin."""

    def checked(names: Context, args: tuple[Any, ...]) -> Any:
        try:
            return make(names, args)
        except FileFormatError:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise FileFormatError(f"a value can not be made of {short(args)}: {error}") from None

    return checked


@_checked
def _timedelta(names: Context, args: tuple[Any, ...]) -> Any:
    expect("datetime.timedelta", args, int, int, int, optional=3)
    return datetime.timedelta(*args)


@_checked
def _timezone(names: Context, args: tuple[Any, ...]) -> Any:
    expect("datetime.timezone", args, datetime.timedelta, str, optional=1)
    return datetime.timezone(*args)


@_checked
def _fraction(names: Context, args: tuple[Any, ...]) -> Any:
    """Of two numbers, or their text: an exponent would make much of little."""
    if len(args) == 1 and type(args[0]) is str and re.fullmatch(r"-?[0-9]{1,1000}(/[0-9]{1,1000})?", args[0]):
        return Fraction(args[0])
    expect("fractions.Fraction", args, int, int)
    return Fraction(*args)


@_checked
def _decimal(names: Context, args: tuple[Any, ...]) -> Any:
    expect("decimal.Decimal", args, str)
    names.charge(len(args[0]), "a Decimal")
    return Decimal(args[0])


def _kind_of_constant(names: Context, args: tuple[Any, ...]) -> Any:
    """How Python writes the classes of None, ... and NotImplemented."""
    if len(args) != 1 or not any(args[0] is constant for constant in (None, ..., NotImplemented)):
        raise FileFormatError(f"type is called with {short(args)}; expected None, ... or NotImplemented")
    return type(args[0])


def _partial(names: Context, args: tuple[Any, ...]) -> Any:
    """A function or class that the file names, which is not called for it; its arguments follow."""
    if len(args) != 1:
        raise FileFormatError(f"functools.partial is called with {short(args)}; expected a function")
    (what,) = plain(args)
    if not names.may_hold(what):
        raise FileFormatError(f"functools.partial of {short(what)}; expected a function or class that the file may name")
    return functools.partial(what)


def build_partial(names: Context, target: functools.partial[Any], state: Any) -> None:
    fits = isinstance(state, tuple) and len(state) == 4 and type(state[1]) is tuple and is_dict(state[2]) and state[0] is target.func
    if not fits or not all(type(key) is str for key in state[2]) or not (state[3] is None or is_dict(state[3])):
        raise FileFormatError(f"a functools.partial has the state {short(state)}; expected its function, arguments and attributes")
    if state[3]:
        attributes(state[3], "a functools.partial", _OF_PARTIAL)
    target.__setstate__((state[0], state[1], dict(state[2]), dict(state[3] or {})))  # type: ignore[attr-defined]


_OF_PARTIAL = frozenset(dir(functools.partial))

# ------------------------------------------------------------------------------------------- NumPy


class NumpyType(Inner):
    """numpy.dtype, which BUILD completes."""

    what = "a NumPy dtype"

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "="

    def dtype(self) -> Any:
        import numpy as np

        return np.dtype(self.code).newbyteorder(self.order if self.order != "|" else "=")  # type: ignore[arg-type]

    def value(self) -> Any:
        found = self.dtype()
        return type(found)() if found.isnative and found.kind not in "US" else found  # which prints as it did


NUMPY_TEXT = re.compile("[US](0|[1-9][0-9]{0,8})")
NUMPY_CODES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}
NUMPY_OBJECTS = {"O", "O8"}


def _numpy_type(names: Context, args: tuple[Any, ...]) -> NumpyType:
    args = tuple(part.decode("ascii") if type(part) is bytes and part.isascii() else part for part in args)
    expect("numpy.dtype", args, str, (bool, int), (bool, int), optional=2)
    if args[0] not in NUMPY_CODES | NUMPY_OBJECTS and not NUMPY_TEXT.fullmatch(args[0]):
        codes = ", ".join(sorted(NUMPY_CODES))
        raise FileFormatError(f"a NumPy dtype {short(args[0])}; expected text (U7, S7), objects (O8) or one of {codes}")
    return NumpyType(args[0])


def build_dtype(target: NumpyType, state: Any) -> None:
    fits = isinstance(state, tuple) and len(state) in (8, 9) and state[2:5] == (None, None, None)
    order = state[1].decode("latin1") if fits and type(state[1]) is bytes else state[1] if fits else None
    if type(order) is not str or order not in ("<", ">", "|", "=") or state[5] not in (-1, target.dtype().itemsize):
        raise FileFormatError(f"a NumPy dtype has the state {short(state)}; expected a byte order and nothing else")
    target.order = order


def _numpy_scalar(names: Context, args: tuple[Any, ...]) -> Any:
    expect("numpy scalar", args, NumpyType, (bytes, str))
    import numpy as np

    dtype, raw = args[0].dtype(), names.old_text.bytes_of(args[1])
    if dtype.hasobject or not dtype.itemsize:
        raise FileFormatError(f"a NumPy number has the dtype {dtype}; expected one of numbers or text")
    if len(raw) != dtype.itemsize:
        raise FileFormatError(f"a NumPy number of {dtype} has {len(raw)} bytes; expected {dtype.itemsize}")
    return np.frombuffer(raw, dtype)[0]


def _numpy_array(names: Context, args: tuple[Any, ...]) -> Any:
    import numpy as np

    fits = len(args) == 3 and isinstance(args[0], Global) and args[0].name == "numpy.ndarray"
    if not fits or args[1] != (0,) or args[2] not in (b"b", "b"):
        raise FileFormatError(f"numpy's _reconstruct is called with {short(args)}, which are not its arguments")
    return np.zeros(0, np.int8)


def build_array(names: Context, target: Any, state: Any) -> None:
    fits = isinstance(state, tuple) and len(state) == 5 and isinstance(state[1], tuple) and isinstance(state[2], NumpyType)
    of_objects = fits and state[2].code in NUMPY_OBJECTS
    if not fits or type(state[4]) not in ((list,) if of_objects else (bytes, str)):
        raise FileFormatError(
            f"a NumPy array has the state {short(state)}; expected shape, dtype, order and {'a list' if of_objects else 'bytes'}"
        )
    _, shape, kind, fortran, raw = state
    if type(fortran) is not bool or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise FileFormatError(f"a NumPy array has shape {short(shape)}")
    dtype = kind.dtype()
    if not dtype.itemsize:  # of which any number would have no bytes
        raise FileFormatError(f"a NumPy array has the dtype {dtype}, whose text has no length")
    if of_objects:  # the list's entries were read as others are
        if math.prod(shape) != len(raw) or math.prod(n for n in shape if n) * dtype.itemsize >= 2**59:
            raise FileFormatError(f"a NumPy array of {dtype} and shape {short(shape)} has {len(raw)} entries")
        names.charge(len(raw) * dtype.itemsize, "an array")
        target.__setstate__((1, shape, dtype, fortran, list(raw)))
        return
    raw = names.old_text.bytes_of(raw)  # a text is Python 2's
    if math.prod(shape) * dtype.itemsize != len(raw) or math.prod(n for n in shape if n) * dtype.itemsize >= 2**59:
        raise FileFormatError(f"a NumPy array of {dtype} and shape {short(shape)} has {len(raw)} bytes")
    names.charge(len(raw), "an array")
    target.__setstate__((1, shape, dtype, fortran, raw))


# ------------------------------------------------------------------------------------------- TorchScript


class Script:
    """An object of a TorchScript archive: its attributes, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}


def script_object(name: str, args: tuple[Any, ...]) -> Script:
    expect(name, args)
    return Script(name)


def _script_list(names: Context, args: tuple[Any, ...]) -> Any:
    expect("a TorchScript list", args, list)
    return args[0]


def _script_tagged(names: Context, args: tuple[Any, ...]) -> Any:
    expect("restore_type_tag", args, object, str)
    return args[0]


# ------------------------------------------------------------------------------------------- the table

VALUES: dict[str, Function] = {
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "collections.defaultdict": _defaultdict,
    "collections.deque": _deque,
    "builtins.set": _set_of(set),
    "builtins.frozenset": _set_of(frozenset),
    "builtins.complex": _complex,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _empty_bytes,
    "builtins.slice": _range(slice),
    "builtins.range": _range(range),
    "builtins.type": _kind_of_constant,
    "datetime.date": _moment(datetime.date, 4),
    "datetime.time": _moment(datetime.time, 6),
    "datetime.datetime": _moment(datetime.datetime, 10),
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    "decimal.Decimal": _decimal,
    "fractions.Fraction": _fraction,
    "functools.partial": _partial,
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
# Classes whose objects are written by what Python's own pickles say of them.
REDUCED = (
    datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone, Decimal, Fraction, functools.partial,
)  # fmt: skip
CONSTANTS: dict[str, Any] = {"builtins.Ellipsis": ..., "builtins.NotImplemented": NotImplemented}
# Classes of Python's that are values, too.
KINDS: dict[str, type] = {
    **_FACTORIES,
    **{f"{kind.__module__}.{kind.__name__}": kind for kind in (
        object, slice, range, datetime.date, datetime.time, datetime.datetime, datetime.timedelta, Decimal, Fraction,
    )},
}  # fmt: skip
# Classes of which NEWOBJ makes an instance.
MADE: dict[str, Function] = {"torch.torch_version.TorchVersion": _version}
