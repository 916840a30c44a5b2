"""A machine for pickles that runs none of their code.

A pickle is a program for a machine with a stack: opcodes push values, collect them into containers, name functions and classes
("GLOBAL") and call them ("REDUCE", "NEWOBJ", "BUILD"). This machine knows the opcodes of protocols 0 to 5 that make data. A name is
looked up in the
table of who runs the machine, never imported, and what stands for it in that table is all that can be called. Opcodes that only make
sense with code
(INST, OBJ, EXT1, ...) or with things outside of the file (PERSID, NEXT_BUFFER) are refused.

    bytes --argument--> opcode --> stack, marks, memo          names --> Names.find    Global.call, Names.make, Names.build
                                        |                      persistent ids --> Names.persistent
                                        +--> the value at STOP

Time and memory are bounded by the number of bytes: nothing is made of a number that a pickle only mentions; what is hashed is small
(`Keys`); and no function here calls itself. Values may contain themselves, and may be nested as deeply as the file says.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Protocol

from flambeau import _C
from flambeau.serialization._errors import FileFormatError, RefusedName, short
from flambeau.serialization._keys import MAX_KEY_DEPTH, Keys

MAX_LINE = 1000  # bytes of a name, or of a number in text
MAX_LONG = 1000  # bytes of an integer


class _Special:
    """What is no value, and what a function of the table may take. Some have one that stands for them in containers and results."""

    what = "something"

    def value(self) -> Any:
        raise FileFormatError(f"{self.what} stands where a value is expected")


class Global(_Special):
    """A name of a pickle that may be called. `kind` gives the class that it has as a value, or None."""

    def __init__(self, name: str, call: Callable[..., Any] | None = None, new: bool = False, kind: Callable[[], Any] | None = None) -> None:
        self.name, self.call, self.new, self.kind = name, call, new, kind
        self.what = name

    def value(self) -> Any:
        return self.kind() if self.kind is not None else super().value()


class Inner(_Special):
    """What a persistent id stands for: something that functions take."""


class _Arguments(tuple[Any, ...]):
    """A tuple with a Global or an Inner somewhere in it: arguments of a function, and a value only if all of these have one."""

    as_value: tuple[Any, ...] | None = None  # made once, however often the tuple is named


def plain(items: Iterable[Any], depth: int = 0) -> list[Any]:
    """The items as values, which alone go into containers and results."""
    found = list(items)
    for i, item in enumerate(found):
        if isinstance(item, _Special):
            found[i] = item.value()
        elif isinstance(item, _Arguments):
            if depth == MAX_KEY_DEPTH:
                raise FileFormatError("tuples with a storage or a function are nested deeply where a value is expected")
            if item.as_value is None:
                item.as_value = tuple(plain(item, depth + 1))
            found[i] = item.as_value
    return found


class Names(Protocol):
    """What a pickle may name. Faults are raised as FileFormatError, whose text continues "PATH is refused at ENTRY, byte N (OPCODE): "."""

    def find(self, name: str) -> Any:
        """A Global, or a value."""

    def is_allowed(self, cls: Any) -> bool:
        """Whether it is a class of the user's, whose instances may be made."""

    def persistent(self, pid: Any) -> Any: ...

    def old_text(self, raw: bytes) -> Any:
        """What a text of Python 2 is read as."""

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """REDUCE of something that is no Global."""

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """NEWOBJ of something that is no Global."""

    def build(self, target: Any, state: Any) -> None: ...

    def fill(self, target: Any, items: list[Any], pairs: bool) -> None:
        """Adds items to something that is no plain container."""


# Python 2's names, and those that modules had once.
_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg", "numpy.core.multiarray": "numpy._core.multiarray"}
_RENAMED_NAMES = {
    "builtins.xrange": "builtins.range", "builtins.unicode": "builtins.str", "builtins.long": "builtins.int",
    "UserDict.IterableUserDict": "collections.UserDict", "UserList.UserList": "collections.UserList",
    "UserString.UserString": "collections.UserString",
}  # fmt: skip


def full_name(module: str, name: str) -> str:
    joined = f"{_RENAMED.get(module, module)}.{name}"
    return _RENAMED_NAMES.get(joined, joined)


class Machine:
    """Runs one pickle.

    >>> class Nothing:
    ...     pass
    >>> Machine(b"\\x80\\x02]q\\x00(K\\x01K\\x02e.", 0, "x", Nothing()).run()
    [1, 2]
    """

    def __init__(self, data: bytes, at: int, where: str, names: Any) -> None:
        self.data, self.at, self.where = data, at, where
        self._names: Names = names
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._keys = Keys()

    def run(self) -> Any:
        """The value that the pickle makes; `at` is behind it then."""
        data, at, ops = self.data, self.at, _OPS
        begin, op = at, None
        try:
            while True:
                begin = at
                op = ops.get(data[at])
                if op is None:
                    raise FileFormatError(f"the opcode {data[at]:#04x} is {_REFUSED.get(data[at], 'none that is known')}")
                at += 1
                size = op[1]
                if size.__class__ is int:
                    arg: Any = data[at : at + size] if size else None
                    if size and len(arg) != size:
                        raise FileFormatError("it ends there (truncated?)")
                    at += size
                else:
                    arg, at = size(data, at)  # type: ignore[operator]
                if op[2] is None:
                    break
                op[2](self, arg)
            value = self._pop()
            if self._stack or self._marks:
                raise FileFormatError("it stops with more than one value")
            (value,) = plain((value,))
            self.at = at
            return value
        except RefusedName as error:
            raise RefusedName(self._said(str(error), begin, op), error.name) from None
        except FileFormatError as error:
            self._fail(str(error), begin, op)
        except IndexError:
            text = "it ends there (truncated?)" if begin >= len(data) else "there are too few values on the stack"
            self._fail(text, begin, op)

    def _said(self, text: str, at: int, op: Any) -> str:
        name = f" ({op[0]})" if op is not None and at < len(self.data) else ""
        return f"is refused at {self.where}, byte {at}{name}: {text}"

    def _fail(self, text: str, at: int, op: Any) -> NoReturn:
        raise FileFormatError(self._said(text, at, op)) from None

    # ---- the stack

    def _pop(self) -> Any:
        if not self._stack:
            raise FileFormatError("there are too few values on the stack")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise FileFormatError("there are too few values on the stack")
        return self._stack[-1]

    def _to_mark(self) -> list[Any]:
        if not self._marks:
            raise FileFormatError("there is no mark on the stack")
        items, self._stack = self._stack, self._marks.pop()
        return items

    def _tuple(self, items: list[Any]) -> None:
        for item in items:
            if isinstance(item, (_Special, _Arguments)):
                self._stack.append(_Arguments(items))
                return
        self._stack.append(tuple(items))

    def _hashable(self, keys: list[Any]) -> None:
        self._keys.check(keys, lambda key: self._names.is_allowed(type(key)) and type(key).__hash__ is not None)

    # ---- opcodes: values

    def _mark(self, arg: Any) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _take(self, arg: Any) -> None:
        """POP: a value, or a mark."""
        if self._stack:
            self._stack.pop()
        else:
            self._to_mark()

    def _take_to_mark(self, arg: Any) -> None:
        self._to_mark()

    def _dup(self, arg: Any) -> None:
        self._stack.append(self._top())

    def _proto(self, arg: bytes) -> None:
        if arg[0] > 5:
            raise FileFormatError(f"protocol {arg[0]}; expected at most 5")

    def _frame(self, arg: bytes) -> None:
        pass  # a hint to who reads in pieces

    def _text_int(self, arg: bytes) -> None:
        if arg in (b"00", b"01"):  # how protocol 0 writes booleans
            self._stack.append(arg == b"01")
            return
        self._stack.append(_number(arg.rstrip(b"L"), int))

    def _text_float(self, arg: bytes) -> None:
        self._stack.append(_number(arg, float))

    def _text(self, arg: bytes) -> None:
        try:
            self._stack.append(arg.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise FileFormatError(f"a text is not UTF-8: {short(arg)}") from None

    def _escaped(self, arg: bytes) -> None:
        try:
            self._stack.append(arg.decode("raw-unicode-escape"))
        except UnicodeDecodeError:
            raise FileFormatError(f"a text can not be decoded: {short(arg)}") from None

    def _old_text(self, arg: bytes) -> None:
        """Python 2's str."""
        self._stack.append(self._names.old_text(arg))

    # ---- containers

    def _append(self, arg: Any) -> None:
        item = self._pop()
        self._extend(self._top(), [item])

    def _appends(self, arg: Any) -> None:
        items = self._to_mark()
        self._extend(self._top(), items)

    def _extend(self, target: Any, items: list[Any]) -> None:
        items = plain(items)
        if type(target) in (list, deque):
            target += items
        else:
            self._names.fill(target, items, False)

    def _setitem(self, arg: Any) -> None:
        value, key = self._pop(), self._pop()
        self._update(self._top(), [key, value])

    def _setitems(self, arg: Any) -> None:
        items = self._to_mark()
        self._update(self._top(), items)

    def _update(self, target: Any, items: list[Any]) -> None:
        if len(items) % 2:
            raise FileFormatError("a key has no value")
        items = plain(items)
        self._hashable(items[::2])
        if type(target) is OrderedDict:
            target.update(zip(items[::2], items[1::2]))
        elif type(target) in (dict, Counter, defaultdict):
            dict.update(target, zip(items[::2], items[1::2]))  # a Counter's own would count
        else:
            self._names.fill(target, items, True)

    def _list(self, arg: Any) -> None:
        items = plain(self._to_mark())
        self._stack.append(items)

    def _dict(self, arg: Any) -> None:
        items = self._to_mark()
        self._stack.append({})
        self._update(self._stack[-1], items)

    def _tuple_to_mark(self, arg: Any) -> None:
        items = self._to_mark()
        self._tuple(items)

    def _tuple_of(self, n: int) -> None:
        self._tuple([self._pop() for _ in range(n)][::-1])

    def _additems(self, arg: Any) -> None:
        items = plain(self._to_mark())
        self._hashable(items)
        if type(self._top()) is not set:
            raise FileFormatError(f"elements are added to a {type(self._top()).__name__}; expected a set")
        self._top().update(items)

    def _frozenset(self, arg: Any) -> None:
        items = plain(self._to_mark())
        self._hashable(items)
        self._stack.append(frozenset(items))

    # ---- memo

    def _put(self, number: int) -> None:
        self._memo[number] = self._top()

    def _memoize(self, arg: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def _get(self, number: int) -> None:
        if number not in self._memo:
            raise FileFormatError(f"the memo has no number {short(number)}")
        self._stack.append(self._memo[number])

    def _put_text(self, arg: bytes) -> None:
        self._put(_number(arg, int))

    def _get_text(self, arg: bytes) -> None:
        self._get(_number(arg, int))

    # ---- names and calls

    def _global(self, arg: tuple[bytes, bytes]) -> None:
        try:
            module, name = arg[0].decode("utf-8"), arg[1].decode("utf-8")
        except UnicodeDecodeError:
            raise FileFormatError(f"a name is not UTF-8: {short(arg[0] + b'.' + arg[1])}") from None
        self._stack.append(self._names.find(full_name(module, name)))

    def _stack_global(self, arg: Any) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise FileFormatError(f"a name is {short(module)}.{short(name)}; expected text")
        self._stack.append(self._names.find(full_name(module, name)))

    def _persistent(self, arg: Any) -> None:
        self._stack.append(self._names.persistent(self._pop()))

    def _arguments(self) -> tuple[Any, ...]:
        args = self._pop()
        if not isinstance(args, tuple) or type(args) is _C.Size:
            raise FileFormatError(f"the arguments of a call are {short(args)}; expected a tuple")
        return args

    def _reduce(self, arg: Any) -> None:
        args = self._arguments()
        function = self._pop()
        if isinstance(function, Global):
            if function.call is None or function.new:
                raise FileFormatError(f"{function.name} can not be called")
            self._stack.append(function.call(args))
        else:
            self._stack.append(self._names.call(function, tuple(plain(args))))

    def _newobj(self, arg: Any) -> None:
        args = self._arguments()
        self._new(self._pop(), args, {})

    def _newobj_ex(self, arg: Any) -> None:
        kwargs = self._pop()
        args = self._arguments()
        if type(kwargs) is not dict or not all(type(key) is str for key in kwargs):
            raise FileFormatError(f"the named arguments of a call are {short(kwargs)}; expected a dict by names")
        self._new(self._pop(), args, kwargs)

    def _new(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if isinstance(cls, Global):
            if cls.call is None or kwargs:
                raise FileFormatError(f"{cls.name} can not be made")
            self._stack.append(cls.call(args))
        else:
            self._stack.append(self._names.make(cls, tuple(plain(args)), kwargs))

    def _build(self, arg: Any) -> None:
        state = self._pop()
        self._names.build(self._top(), state)


def _number(text: bytes, kind: Callable[[bytes], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise FileFormatError(f"{short(text)} is no number") from None


# ------------------------------------------------------------------------------------------- arguments


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.find(b"\n", at, at + MAX_LINE + 1)
    if end < 0:
        raise FileFormatError(f"a line does not end within {MAX_LINE} bytes")
    return data[at:end], end + 1


def _quoted(data: bytes, at: int) -> tuple[bytes, int]:
    """Python 2's repr of a str, without escapes."""
    line, at = _line(data, at)
    if len(line) < 2 or line[:1] not in (b"'", b'"') or line[-1:] != line[:1] or b"\\" in line:
        raise FileFormatError(f"{short(line)} is no quoted text without escapes")
    return line[1:-1], at


def _two_lines(data: bytes, at: int) -> tuple[tuple[bytes, bytes], int]:
    module, at = _line(data, at)
    name, at = _line(data, at)
    return (module, name), at


def _counted(size: int, limit: int | None = None) -> Callable[[bytes, int], tuple[bytes, int]]:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        n = int.from_bytes(data[at : at + size], "little")
        begin = at + size
        if begin + n > len(data):
            raise FileFormatError(f"it announces {n} bytes, of which {max(0, len(data) - begin)} are there (truncated?)")
        if limit is not None and n > limit:
            raise FileFormatError(f"it announces {n} bytes; expected at most {limit}")
        return data[begin : begin + n], begin + n

    return read


# ------------------------------------------------------------------------------------------- opcodes

_float = struct.Struct(">d").unpack
Read = Callable[[bytes, int], tuple[Any, int]]


def _value(make: Callable[[], Any]) -> Callable[[Machine, Any], None]:
    return lambda m, arg: m._stack.append(make())


def _constant(value: Any) -> Callable[[Machine, Any], None]:
    return lambda m, arg: m._stack.append(value)


def _integer(signed: bool) -> Callable[[Machine, bytes], None]:
    return lambda m, arg: m._stack.append(int.from_bytes(arg, "little", signed=signed))


def _memo(do: Callable[[Machine, int], None]) -> Callable[[Machine, bytes], None]:
    return lambda m, arg: do(m, int.from_bytes(arg, "little"))


def _bytes(make: Callable[[bytes], Any]) -> Callable[[Machine, bytes], None]:
    return lambda m, arg: m._stack.append(make(arg))


def _n_tuple(n: int) -> Callable[[Machine, Any], None]:
    return lambda m, arg: m._tuple_of(n)


# opcode -> (name, bytes of its argument or what reads it, what it does; None: the end)
_OPS: dict[int, tuple[str, int | Read, Callable[[Machine, Any], None] | None]] = {
    ord("("): ("MARK", 0, Machine._mark),
    ord("."): ("STOP", 0, None),
    ord("0"): ("POP", 0, Machine._take),
    ord("1"): ("POP_MARK", 0, Machine._take_to_mark),
    ord("2"): ("DUP", 0, Machine._dup),
    0x80: ("PROTO", 1, Machine._proto),
    0x95: ("FRAME", 8, Machine._frame),
    ord("N"): ("NONE", 0, _constant(None)),
    0x88: ("NEWTRUE", 0, _constant(True)),
    0x89: ("NEWFALSE", 0, _constant(False)),
    ord("I"): ("INT", _line, Machine._text_int),
    ord("L"): ("LONG", _line, Machine._text_int),
    ord("F"): ("FLOAT", _line, Machine._text_float),
    ord("J"): ("BININT", 4, _integer(True)),
    ord("K"): ("BININT1", 1, _integer(False)),
    ord("M"): ("BININT2", 2, _integer(False)),
    0x8A: ("LONG1", _counted(1), _integer(True)),
    0x8B: ("LONG4", _counted(4, MAX_LONG), _integer(True)),
    ord("G"): ("BINFLOAT", 8, lambda m, arg: m._stack.append(_float(arg)[0])),
    ord("V"): ("UNICODE", _line, Machine._escaped),
    ord("X"): ("BINUNICODE", _counted(4), Machine._text),
    0x8C: ("SHORT_BINUNICODE", _counted(1), Machine._text),
    0x8D: ("BINUNICODE8", _counted(8), Machine._text),
    ord("S"): ("STRING", _quoted, Machine._old_text),
    ord("T"): ("BINSTRING", _counted(4), Machine._old_text),
    ord("U"): ("SHORT_BINSTRING", _counted(1), Machine._old_text),
    ord("B"): ("BINBYTES", _counted(4), _bytes(bytes)),
    ord("C"): ("SHORT_BINBYTES", _counted(1), _bytes(bytes)),
    0x8E: ("BINBYTES8", _counted(8), _bytes(bytes)),
    0x96: ("BYTEARRAY8", _counted(8), _bytes(bytearray)),
    ord("]"): ("EMPTY_LIST", 0, _value(list)),
    ord("}"): ("EMPTY_DICT", 0, _value(dict)),
    ord(")"): ("EMPTY_TUPLE", 0, _constant(())),
    0x8F: ("EMPTY_SET", 0, _value(set)),
    ord("l"): ("LIST", 0, Machine._list),
    ord("d"): ("DICT", 0, Machine._dict),
    ord("t"): ("TUPLE", 0, Machine._tuple_to_mark),
    0x85: ("TUPLE1", 0, _n_tuple(1)),
    0x86: ("TUPLE2", 0, _n_tuple(2)),
    0x87: ("TUPLE3", 0, _n_tuple(3)),
    ord("a"): ("APPEND", 0, Machine._append),
    ord("e"): ("APPENDS", 0, Machine._appends),
    ord("s"): ("SETITEM", 0, Machine._setitem),
    ord("u"): ("SETITEMS", 0, Machine._setitems),
    0x90: ("ADDITEMS", 0, Machine._additems),
    0x91: ("FROZENSET", 0, Machine._frozenset),
    ord("p"): ("PUT", _line, Machine._put_text),
    ord("q"): ("BINPUT", 1, _memo(Machine._put)),
    ord("r"): ("LONG_BINPUT", 4, _memo(Machine._put)),
    0x94: ("MEMOIZE", 0, Machine._memoize),
    ord("g"): ("GET", _line, Machine._get_text),
    ord("h"): ("BINGET", 1, _memo(Machine._get)),
    ord("j"): ("LONG_BINGET", 4, _memo(Machine._get)),
    ord("c"): ("GLOBAL", _two_lines, Machine._global),
    0x93: ("STACK_GLOBAL", 0, Machine._stack_global),
    ord("Q"): ("BINPERSID", 0, Machine._persistent),
    ord("R"): ("REDUCE", 0, Machine._reduce),
    0x81: ("NEWOBJ", 0, Machine._newobj),
    0x92: ("NEWOBJ_EX", 0, Machine._newobj_ex),
    ord("b"): ("BUILD", 0, Machine._build),
}
_REFUSED = {
    ord("i"): "INST, which makes an instance of a class by its name; it is refused (save the file again with protocol 2)",
    ord("o"): "OBJ, which makes an instance of a class of old style; it is refused (save the file again with protocol 2)",
    ord("P"): "PERSID, a persistent id as text; expected BINPERSID, as PyTorch writes it",
    **dict.fromkeys((0x82, 0x83, 0x84), "an extension's code, which only the program knows that wrote it"),
    **dict.fromkeys((0x97, 0x98), "a buffer outside of the file"),
}


def names_in(data: bytes, at: int, where: str) -> tuple[list[str], int]:
    """(the names that a pickle mentions, where it ends), without running it."""
    found: dict[str, None] = {}
    texts: list[str] = []  # the last two, which STACK_GLOBAL names
    memo: dict[int, str] = {}
    count, before = 0, ""  # of what is in the memo; the last opcode
    while True:
        if at >= len(data) or data[at] not in _OPS:
            raise FileFormatError(f"is refused at {where}, byte {at}: no opcode that is known")
        name, size, _ = _OPS[data[at]]
        at += 1
        if isinstance(size, int):
            arg: Any = data[at : at + size]
            at += size
        else:
            arg, at = size(data, at)
        if name == "STOP":
            return list(found), at
        if name == "GLOBAL":
            found[full_name(*(part.decode("utf-8", "replace") for part in arg))] = None
        elif name == "STACK_GLOBAL" and len(texts) == 2:
            found[full_name(*texts)] = None
        elif "UNICODE" in name:
            texts = [*texts[-1:], arg.decode("utf-8", "replace")]
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            if "UNICODE" in before:
                memo[count if arg is None else int.from_bytes(arg, "little")] = texts[-1]
            count += 1
        elif name in ("BINGET", "LONG_BINGET") and (number := int.from_bytes(arg, "little")) in memo:
            texts = [*texts[-1:], memo[number]]
        before = name
