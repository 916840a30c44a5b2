"""Files that want what no file may have, by name: (bytes, or what makes them, and what the error says).

`MARK` stands for a path that none of them may make.
"""

from __future__ import annotations

import functools
import io
import struct
import zipfile
import zlib

import numpy as np
from makers import (
    F32,
    FALSE,
    FOUR,
    HOOKS,
    MAGIC,
    NONE,
    Q4_0,
    TRUE,
    archive,
    call,
    container,
    dictionary,
    get,
    gguf,
    index,
    name,
    npy,
    npz,
    number,
    numbers,
    pickle,
    put,
    state_of_a_net,
    storage,
    stream,
    stream_storage,
    tensor,
    text,
    tup,
    zip_of,
)

MARK = "/tmp/flambeau-test-was-here"
TOUCH = f"touch {MARK}"
REBUILD = name("torch._utils", "_rebuild_tensor_v2")
NUMPY_TYPE = call(name("numpy", "dtype"), text("f8"), FALSE, TRUE) + tup(number(3), text("<"), NONE, NONE, NONE, number(-1), number(-1), number(0)) + b"b"
NUMPY_OBJECTS = call(name("numpy", "dtype"), text("O8"), FALSE, TRUE) + tup(number(3), text("|"), NONE, NONE, NONE, number(-1), number(-1), number(63)) + b"b"
ARRAY = call(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), numbers(0), call(name("_codecs", "encode"), text("b"), text("latin1")))
SEEDS = call(name("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"), name("numpy.random.bit_generator", "SeedSequence"), number(1), NONE)


def stream_at(pos):
    """A Mersenne Twister, complete but for the place where it is."""
    words = ARRAY + tup(number(1), numbers(624), call(name("numpy", "dtype"), text("u4"), FALSE, TRUE), FALSE, text("x" * 2496)) + b"b"
    inner = b"}(" + text("key") + words + text("pos") + number(pos) + b"u"
    state = b"}(" + text("bit_generator") + text("MT19937") + text("state") + inner + b"u"
    return call(name("numpy.random._pickle", "__bit_generator_ctor"), text("MT19937")) + state + b"b"


def patched(raw: bytes, find: bytes, put: bytes, nth: int = 0) -> bytes:
    """With the bytes at the n-th place of `find` written over."""
    at = -1
    for _ in range(nth + 1):
        at = raw.index(find, at + 1)
    return raw[:at] + put + raw[at + len(put) :]


def directory_field(raw: bytes, entry: int, offset: int, value: bytes) -> bytes:
    """A field of an entry of a zip archive's directory written over."""
    at = -1
    for _ in range(entry + 1):
        at = raw.index(b"PK\1\2", at + 1)
    return raw[: at + offset] + value + raw[at + offset + len(value) :]


def raw_zip(*entries: tuple[bytes, bytes, bytes], comment: bytes = b"", count: int | None = None, start: int | None = None) -> bytes:
    """A zip archive of (name in its header, name in the directory, content), all else right."""
    out, directory = b"", b""
    for local, central, content in entries:
        numbers_ = struct.pack("<HHHHHIII", 20, 0x800, 0, 0, 0x21, zlib.crc32(content), len(content), len(content))
        directory += b"PK\1\2" + b"\x14\0" + numbers_ + struct.pack("<HHHHHII", len(central), 0, 0, 0, 0, 0, len(out)) + central
        out += b"PK\3\4" + numbers_ + struct.pack("<HH", len(local), 0) + local + content
    n = len(entries) if count is None else count
    return out + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, n, n, len(directory), len(out) if start is None else start, len(comment)) + comment


def one(pickled: bytes, **more: bytes) -> bytes:
    return archive(pickle(pickled), **more)


@functools.cache
def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", pickle(tensor(storage(count=100 << 20), sizes=numbers(100 << 20), strides=numbers(1))))
        with z.open("archive/data/0", "w", force_zip64=True) as entry:
            for _ in range(400):
                entry.write(bytes(1 << 20))
    return out.getvalue()


def colliding() -> bytes:
    """Integers whose hashes are all 1."""
    return b"}(" + b"".join(number(1 + k * ((1 << 61) - 1)) + NONE for k in range(1, 10_100)) + b"u"


def nested_key() -> bytes:
    """A tuple of two that holds the same one twice, and so on: 2**40 parts to hash."""
    return b"})" + put(0) + b"0" + b"".join(get(k) * 2 + b"\x86" + put(k + 1) + b"0" for k in range(40)) + get(40) + NONE + b"s"


def deep_key() -> bytes:
    return b"})" + b"\x85" * 200_000 + NONE + b"s"


def repeated(what: bytes, function: bytes, times: int = 20_000) -> bytes:
    """A function of the same large argument many times."""
    return what + put(0) + b"0](" + (function + get(0) + b"\x85R") * times + b"e"


def sparse(indices: bytes, values: bytes, size: bytes) -> bytes:
    layout = call(name("torch.serialization", "_get_layout"), text("torch.sparse_coo"))
    return call(name("torch._utils", "_rebuild_sparse_tensor"), layout, tup(indices, values, size, FALSE))


LONGS = struct.pack("<2q", 0, 1 << 40)
WRONG_ARGUMENTS = "which are not its arguments"
GOOD_ZIP = archive(state_of_a_net(), {"0": FOUR, "1": b"\0\1"})
GOOD_STREAM = stream(pickle(tensor(stream_storage())))

HOSTILE: dict[str, tuple[bytes, str]] = {
    # ---- names
    "os.system": (one(call(name("os", "system"), text(TOUCH))), "names 'os.system', which no file may use"),
    "posix.system": (one(call(name("posix", "system"), text(TOUCH))), "names 'posix.system', which no file may use"),
    "eval": (one(call(name("__builtin__", "eval"), text(f"open('{MARK}', 'w')"))), "names 'builtins.eval'"),
    "exec": (one(call(name("builtins", "exec"), text(f"open('{MARK}', 'w')"))), "names 'builtins.exec'"),
    "getattr": (one(call(name("builtins", "getattr"), name("torch", "Size"), text("__class__"))), "names 'builtins.getattr'"),
    "import": (one(call(name("builtins", "__import__"), text("os"))), "names 'builtins.__import__'"),
    "open": (one(call(name("io", "open"), text(MARK), text("w"))), "names 'io.open'"),
    "subprocess": (one(call(name("subprocess", "Popen"), text(TOUCH))), "names 'subprocess.Popen', which no file may use"),
    "a name of a million letters": (one(text("torch") + text("uint" + "x" * 10**6) + b"\x93"), "which is too long"),
    "a nested name": (one(call(name("collections", "OrderedDict.__init__.__globals__"))), "names 'collections.OrderedDict.__init__"),
    "a name with dots": (one(call(name("torch", "serialization.os.system"), text(TOUCH))), "names 'torch.serialization.os.system'"),
    "our own functions": (one(call(name("flambeau", "load"), text("x"))), "names 'flambeau.load'"),
    "a name by the stack": (one(text("os") + text("system") + b"\x93" + tup(text(TOUCH)) + b"R"), "names 'os.system'"),
    "a name that is no text": (one(number(1) + text("system") + b"\x93"), "a name is 1.'system'; expected text"),
    "a name that is not UTF-8": (one(b"c\xff\xfe\nx\n"), "a name is not UTF-8"),
    "a name without end": (one(b"c" + b"a" * 5000), "a line does not end within 1000 bytes"),
    "pickles in pickles": (one(call(name("torch.storage", "_load_from_bytes"), text("x"))), "have no counterpart here"),
    "functools.partial of code": (one(call(name("functools", "partial"), name("os", "system"))), "names 'os.system', which no file may use"),
    "functools.partial of eval": (one(call(name("functools", "partial"), name("builtins", "eval"))), "names 'builtins.eval'"),
    "functools.partial of a function": (one(call(name("functools", "partial"), REBUILD)), "stands where a value is expected"),
    "functools.partial of text": (one(call(name("functools", "partial"), text("x"))), "functools.partial of 'x'; expected a function or class"),
    "functools.partial of another": (
        one(call(name("functools", "partial"), name("builtins", "int")) + tup(name("builtins", "list"), tup(), dictionary(), NONE) + b"b"),
        "a functools.partial has the state",
    ),
    "functools.partial with its call": (
        one(call(name("functools", "partial"), name("builtins", "int")) + tup(name("builtins", "int"), tup(), dictionary(), dictionary(func=NONE)) + b"b"),
        "an attribute 'func', which no file may set",
    ),
    "a Fraction of an exponent": (one(call(name("fractions", "Fraction"), text("1e999999999"))), WRONG_ARGUMENTS),
    "a Fraction over 0": (one(call(name("fractions", "Fraction"), text("1/0"))), "a value can not be made of"),
    "a Decimal of text": (one(call(name("decimal", "Decimal"), text("x"))), "a value can not be made of"),
    "a datetime of few bytes": (one(call(name("datetime", "datetime"), text("x"))), "datetime.datetime is made of .*; expected 10 bytes"),
    "a datetime of 10 other bytes": (one(call(name("datetime", "datetime"), text("x" * 10))), "a value can not be made of"),
    "a timedelta of much": (one(call(name("datetime", "timedelta"), number(2**31 - 1))), "a value can not be made of"),
    "a class of something": (one(call(name("builtins", "type"), number(1))), "type is called with"),
    "tuples of classes, nested": (one(b"]" + name("builtins", "int") + b"\x85" * 200 + b"a"), "are nested deeply where a value is expected"),
    "a module that is none": (one(tup(text("module"), REBUILD, NONE, NONE) + b"Q"), "stands where a value is expected"),
    "torch.load": (one(call(name("torch", "load"), text("x"))), "names 'torch.load'"),
    "an extension": (one(b"\x82\x01"), "an extension's code"),
    "INST": (one(b"(" + text(TOUCH) + b"ios\nsystem\n"), "INST, which makes an instance"),
    "OBJ": (one(b"(" + name("os", "system")[:0] + b"o"), "OBJ, which makes an instance"),
    "an unknown opcode": (one(b"\xff"), "the opcode 0xff is none that is known"),
    "a buffer outside": (one(b"\x97"), "a buffer outside of the file"),
    "protocol 6": (archive(b"\x80\x06N."), "protocol 6; expected at most 5"),
    # ---- calls
    "REDUCE of a text": (one(text("print") + tup(text("x")) + b"R"), "'print' is called, which is no function"),
    "REDUCE of a number": (one(number(3) + b")R"), "3 is called, which is no function"),
    "REDUCE of a tensor": (one(tensor() + b")R"), "a Tensor is called, which is no function"),
    "REDUCE without a tuple": (one(name("torch", "Size") + b"]R"), "the arguments of a call are .*expected a tuple"),
    "REDUCE of a dtype": (one(name("torch", "float32") + b")R"), "is called, which is no function"),
    "REDUCE of a class of a table": (one(name("torch", "Tensor") + b")R"), "torch.Tensor can not be called"),
    "NEWOBJ of a text": (one(text("x") + b")\x81"), "an instance of 'x' is wanted, which is no class"),
    "NEWOBJ of a class": (one(name("torch", "Tensor") + b")\x81"), "torch.Tensor can not be made"),
    "NEWOBJ with names": (one(name("collections", "OrderedDict") + b")" + dictionary(a=NONE) + b"\x92"), "OrderedDict can not be made"),
    "a function as a value": (one(REBUILD), "torch._utils._rebuild_tensor_v2 stands where a value is expected"),
    "a function in a list": (one(b"]" + REBUILD + b"a"), "stands where a value is expected"),
    "a storage in a dict that is too long": (one(dictionary(a=storage(count=5))), "has 5 elements of torch.FloatStorage, but its entry has 16 bytes"),
    "a function as a key": (one(b"}" + REBUILD + NONE + b"s"), "stands where a value is expected"),
    "a defaultdict of code": (one(call(name("collections", "defaultdict"), name("os", "system"))), "names 'os.system', which no file may use"),
    "a defaultdict of eval": (one(call(name("collections", "defaultdict"), name("builtins", "eval"))), "names 'builtins.eval'"),
    "a defaultdict of a function": (one(call(name("collections", "defaultdict"), REBUILD)), "a defaultdict of torch._utils._rebuild_tensor_v2; expected None"),
    "a defaultdict of text": (one(call(name("collections", "defaultdict"), text("list"))), "a defaultdict of 'list'; expected None or one of list"),
    "a defaultdict of pairs": (one(call(name("collections", "defaultdict"), NONE, b"]")), WRONG_ARGUMENTS),
    "a factory that is called": (one(call(name("builtins", "list"), b"]")), "builtins.list can not be called"),
    "a deque of -1": (one(call(name("collections", "deque"), tup(), number(-1))), "a deque of at most -1 items"),
    "a deque of True": (one(call(name("collections", "deque"), tup(), TRUE)), WRONG_ARGUMENTS),
    "a deque of a function": (one(call(name("collections", "deque"), b"]" + REBUILD + b"a")), "stands where a value is expected"),
    "a deque of a storage": (one(call(name("collections", "deque"), tup(storage()))), "stands where a value is expected|which are not its arguments"),
    "deques of much": (one(repeated(b"](" + number(1) * 2000 + b"e", name("collections", "deque"))), "would be copied often"),
    "a range of text": (one(call(name("builtins", "range"), text("x"))), WRONG_ARGUMENTS),
    # ---- BUILD
    "BUILD of a tensor": (one(tensor() + dictionary(grad=NONE) + b"b"), "a state is given to a Tensor, which takes none"),
    "BUILD of a list": (one(b"]" + dictionary(a=NONE) + b"b"), "a state is given to a list"),
    "BUILD of a function": (one(REBUILD + dictionary(__code__=NONE) + b"b"), "a state is given to a Global"),
    "a method of a dict": (one(HOOKS + dictionary(items=NONE) + b"b"), "an OrderedDict has an attribute 'items', which no file may set"),
    "a class of a dict": (one(HOOKS + dictionary(__class__=NONE) + b"b"), "an attribute '__class__', which no file may set"),
    "metadata that is no dict": (one(HOOKS + dictionary(_metadata=number(3)) + b"b"), "has the metadata 3; expected a dict"),
    "a state that is no dict": (one(HOOKS + number(1) + b"b"), "an OrderedDict has the state 1"),
    "an attribute of a tensor": (
        one(call(name("torch._utils", "_rebuild_parameter_with_state"), tensor(), TRUE, HOOKS, dictionary(backward=NONE))),
        "a tensor has an attribute 'backward', which no file may set",
    ),
    "hooks": (one(tensor(hooks=dictionary(a=NONE))), "backward hooks a dict, which no file may set"),
    "a class of a tensor": (
        one(call(name("torch._tensor", "_rebuild_from_type_v2"), REBUILD, name("torch", "Size"), numbers(), dictionary())),
        "expected Tensor, Parameter or Buffer",
    ),
    "a rebuild that is none": (
        one(call(name("torch._tensor", "_rebuild_from_type_v2"), name("_codecs", "encode"), name("torch", "Tensor"), tup(text("x")), dictionary())),
        WRONG_ARGUMENTS,
    ),
    # ---- storages
    "a storage of another kind": (one(tensor(tup(text("module"), NONE, NONE, NONE, NONE) + b"Q")), "a persistent id is"),
    "a persistent id of text": (one(tensor(text("0") + b"Q")), "a persistent id is '0'"),
    "a persistent id as text": (one(b"P0\n"), "PERSID, a persistent id as text"),
    "a persistent id of a list": (one(b"]Q"), "a persistent id is"),
    "a persistent id that is short": (one(tup(text("storage")) + b"Q"), "a persistent id is"),
    "a persistent id without a type": (one(tup(text("storage"), text("x"), text("0"), text("cpu"), number(4)) + b"Q"), "a persistent id is"),
    "a storage that is not there": (one(tensor(storage("1"))), "no entry 'archive/data/1'"),
    "a storage by a path": (one(tensor(storage("../data.pkl"))), "no entry 'archive/data/../data.pkl'"),
    "a storage with a number as key": (
        one(tensor(tup(text("storage"), name("torch", "FloatStorage"), number(0), text("cpu"), number(4)) + b"Q")),
        "a storage has key 0",
    ),
    "a storage that is too long": (one(tensor(storage(count=5))), "has 5 elements of torch.FloatStorage, but its entry has 16 bytes"),
    "a storage of 2**62 elements": (one(tensor(storage(count=2**62))), "but its entry has 16 bytes"),
    "a storage of -1 elements": (one(tensor(storage(count=-1))), "count -1; expected text, text, a number >= 0"),
    "a storage of a bool of elements": (
        one(tensor(tup(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), TRUE) + b"Q")),
        "count True",
    ),
    "a storage of an unknown type": (one(tensor(storage(kind="EvilStorage"))), "torch.EvilStorage holds elements of a type"),
    "an untyped storage": (one(tensor(storage(kind="UntypedStorage", module="torch.storage", count=16))), "does not name its element type"),
    "a bool that is none": (
        archive(pickle(tensor(storage(kind="BoolStorage", count=4), sizes=numbers(4), strides=numbers(1))), {"0": b"\0\1\2\3"}),
        "BOOL holds a byte 3",
    ),
    # ---- tensors
    "sizes beyond": (one(tensor(sizes=numbers(3, 2))), "beyond the 4 elements"),
    "strides beyond": (one(tensor(strides=numbers(2**40, 1))), "beyond the 4 elements"),
    "an offset beyond": (one(tensor(offset=number(1))), "beyond the 4 elements"),
    "a negative offset": (one(tensor(offset=number(-1))), "numbers that are no sizes"),
    "a negative size": (one(tensor(sizes=numbers(-2, -2))), "numbers that are no sizes"),
    "a negative stride": (one(tensor(strides=numbers(-2, 1))), "numbers that are no sizes"),
    "a stride that wraps": (one(tensor(strides=numbers(2**63 - 1, 1))), "beyond the 4 elements"),
    "a size of 65 bits": (one(tensor(sizes=numbers(2**64, 1), strides=numbers(0, 0))), "numbers that are no sizes"),
    "a size that is a bool": (one(tensor(sizes=tup(TRUE, TRUE))), "numbers that are no sizes"),
    "a size that is a float": (one(tensor(sizes=tup(b"G" + bytes(8), number(1)))), "numbers that are no sizes"),
    "more strides than sizes": (one(tensor(strides=numbers(1, 1, 1))), r"has \(offset, sizes, strides\)"),
    "100 axes": (one(tensor(sizes=numbers(*[1] * 100), strides=numbers(*[1] * 100))), r"has \(offset, sizes, strides\)"),
    "more elements than memory has": (one(tensor(sizes=numbers(2**40, 2**40), strides=numbers(0, 0))), "too large"),
    "sizes that are a list": (one(tensor(sizes=b"](K\1e")), "expected tuples"),
    "a tensor of no storage": (one(tensor(NONE)), WRONG_ARGUMENTS),
    "too few arguments": (one(call(REBUILD, storage())), WRONG_ARGUMENTS),
    "too many arguments": (one(call(REBUILD, *[NONE] * 20)), WRONG_ARGUMENTS),
    "integers that require grad": (
        archive(pickle(tensor(storage(kind="IntStorage"), grad=TRUE))), "dtype flambeau.int32 can not require grad",
    ),
    "a parameter of integers": (
        one(call(name("torch._utils", "_rebuild_parameter"), tensor(storage(kind="IntStorage")), TRUE, HOOKS)), "can not require grad",
    ),
    "a parameter of text": (one(call(name("torch._utils", "_rebuild_parameter"), text("x"), TRUE, HOOKS)), "expected a dense tensor"),
    "a conjugate of floats": (
        one(call(REBUILD, storage(), number(0), numbers(4), numbers(1), FALSE, HOOKS, dictionary(conj=TRUE))), "is said to be conjugated",
    ),
    "a negative of much": (
        one(call(REBUILD, storage(), number(0), numbers(2**40), numbers(0), FALSE, HOOKS, dictionary(neg=TRUE))), "would be copied often",
    ),
    "metadata": (one(call(REBUILD, storage(), number(0), numbers(4), numbers(1), FALSE, HOOKS, dictionary(exec=TRUE))), "expected conj or neg"),
    "a meta tensor of much": (
        one(call(name("torch._utils", "_rebuild_meta_tensor_no_storage"), name("torch", "float32"), numbers(2**50, 2**50), numbers(2**50, 1), FALSE)),
        "too large",
    ),
    "sparse indices beyond": (
        archive(pickle(sparse(
            tensor(storage("0", 2, "LongStorage"), sizes=numbers(1, 2), strides=numbers(2, 1)),
            tensor(storage("1", 2), sizes=numbers(2), strides=numbers(1)), call(name("torch", "Size"), numbers(2)),
        )), {"0": LONGS, "1": FOUR[:8]}), "does not fit together",
    ),
    "sparse parts of much": (
        one(sparse(tensor(sizes=numbers(2, 2**40), strides=numbers(0, 0)), tensor(), call(name("torch", "Size"), numbers(2)))), "would be copied often",
    ),
    "a layout that is not known": (one(call(name("torch.serialization", "_get_layout"), text("torch.jagged"))), "the layout 'torch.jagged'"),
    "a device that is none": (one(call(name("torch", "device"), text("toaster"))), "toaster.* is no device"),
    "a device of an index that is none": (one(call(name("torch", "device"), text("cuda"), number(2**40))), "cuda.* is no device"),
    "a named result of one part": (one(call(name("torch.return_types", "max"), tup(number(1)))), "max is made of .*not its parts"),
    "a named result of no tuple": (one(call(name("torch.return_types", "max"), number(1))), WRONG_ARGUMENTS),
    "a named result that is none": (one(call(name("torch.return_types", "toast"), tup(number(1)))), "torch.return_types.toast.*not among"),
    "a Size of text": (one(call(name("torch", "Size"), tup(text("x")))), "a Size of"),
    # ---- plain values
    "a bytearray of 2**40": (one(call(name("builtins", "bytearray"), number(2**40))), WRONG_ARGUMENTS),
    "a set of a text": (one(call(name("builtins", "set"), text("abc"))), WRONG_ARGUMENTS),
    "a complex of text": (one(call(name("builtins", "complex"), text("1"), text("2"))), WRONG_ARGUMENTS),
    "another codec": (one(call(name("_codecs", "encode"), text("x"), text("zlib"))), "expected latin1"),
    "a range of nothing": (one(call(name("builtins", "range"), number(0), number(1), number(0))), WRONG_ARGUMENTS),
    "a list as a key": (one(b"}]" + NONE + b"s"), "a key is a list; expected text, numbers"),
    "a dict in a set": (one(b"\x8f(}\x90"), "a key is a dict"),
    "keys with one hash": (one(colliding()), "more than 10000 keys"),
    "equal keys that are deep": (one(b"}" + (b")" + b"\x85" * 900 + NONE + b"s") * 2), "a key is nested deeper than 20 levels"),
    "a frozenset of frozensets": (one(b"}(" + b"(" * 50 + b"\x91" * 50 + NONE + b"u"), "a key is nested deeper than 20 levels"),
    "a frozenset that is wide": (one(b"}(" + b"".join(number(k) for k in range(2000)) + b"\x91" + NONE + b"s"), "a key has more than 1000 parts"),
    "a key of 2**40 parts": (one(nested_key()), "a key is nested deeper than 20 levels"),
    "a key that is wide": (one(b"}" + tup(*[NONE] * 2000) + NONE + b"s"), "a key has more than 1000 parts"),
    "a key that is deep": (one(deep_key()), "a key is nested deeper than 20 levels"),
    "items of a tuple": (one(b")" + NONE + b"a"), "items are added to"),
    "items of a dict as of a list": (one(b"}" + NONE + b"a"), "items are added to a dict; expected a list"),
    "pairs of a list": (one(b"]" + NONE + NONE + b"s"), "items are added to a list; expected a dict"),
    "elements of a list": (one(b"](K\1\x90"), "elements are added to a list; expected a set"),
    "a key without a value": (one(b"}(K\1u"), "a key has no value"),
    "sets of one list": (one(repeated(b"](" + b"K\1" * 200 + b"e", name("builtins", "set"), 2000)), "would be copied often"),
    "bytes of one text": (one(repeated(text("x" * 500), name("_codecs", "encode"), 2000)), "would be copied often"),
    "a number in letters": (one(b"Iabc\n"), "is no number"),
    "a number of a million digits": (one(b"L" + b"9" * 10**6 + b"L\n"), "a line does not end within 1000 bytes"),
    "a number of a million bytes": (one(b"\x8b" + struct.pack("<I", 10**6) + bytes(10**6)), "expected at most 1000"),
    "a text that is not UTF-8": (one(b"X\2\0\0\0\xff\xfe"), "a text is not UTF-8"),
    "states of one dict": (
        one(b"}(" + b"".join(text(f"_{k}") + NONE for k in range(500)) + b"u" + put(0) + b"0" + HOOKS + (get(0) + b"b") * 1000), "would be copied often",
    ),
    # ---- the machine
    "no value": (archive(b"\x80\x02."), "too few values on the stack"),
    "two values": (one(NONE + NONE), "stops with more than one value"),
    "a mark that is left": (one(b"(" + NONE), "stops with more than one value"),
    "no mark": (one(b"t"), "there is no mark"),
    "POP of nothing": (one(b"00"), "there is no mark|too few values"),
    "TUPLE3 of two": (one(NONE + NONE + b"\x87"), "too few values"),
    "DUP of nothing": (one(b"2"), "too few values"),
    "SETITEM of nothing": (one(NONE + b"s"), "too few values"),
    "a memo of nothing": (one(get(5)), "the memo has no number 5"),
    "a memo far away": (one(b"j\xff\xff\xff\xff"), "the memo has no number 4294967295"),
    "a memo of text": (one(b"gx\n"), "is no number"),
    "PUT of nothing": (one(put(0)), "too few values"),
    "a text beyond the end": (one(b"X\xff\xff\xff\xff"), "announces 4294967295 bytes"),
    "bytes beyond the end": (one(b"\x8e" + b"\xff" * 8), "announces 18446744073709551615 bytes"),
    "a bytearray beyond the end": (one(b"\x96" + b"\xff" * 7 + b"\x7f"), "announces 9223372036854775807 bytes"),
    "a frame that lies": (archive(b"\x80\x04\x95" + b"\xff" * 8), "it ends there"),
    "no STOP": (archive(b"\x80\x02N"), "it ends there"),
    "nothing": (archive(b""), "it ends there"),
    "more behind STOP": (archive(pickle(NONE) + b"N."), "2 bytes follow the end of the pickle"),
    # ---- NumPy in pickles
    "an array of objects with bytes": (one(ARRAY + tup(number(1), numbers(1), NUMPY_OBJECTS, FALSE, text("x" * 8)) + b"b"), "has the state .* expected shape, dtype, order and a list"),
    "an array of objects with fewer of them": (one(ARRAY + tup(number(1), numbers(3), NUMPY_OBJECTS, FALSE, b"](NNe") + b"b"), "has 2 entries"),
    "an array of 2**62 objects": (one(ARRAY + tup(number(1), numbers(2**62, 0), NUMPY_OBJECTS, FALSE, b"]") + b"b"), "has 0 entries"),
    "an array of numbers with a list": (one(ARRAY + tup(number(1), numbers(2), NUMPY_TYPE, FALSE, b"](NNe") + b"b"), "has the state .* expected shape, dtype, order and bytes"),
    "an array of objects that may not be": (
        one(ARRAY + tup(number(1), numbers(1), NUMPY_OBJECTS, FALSE, b"](" + call(name("os", "system"), text("true")) + b"e") + b"b"), "os.system",
    ),
    "a number of objects": (one(call(name("numpy.core.multiarray", "scalar"), NUMPY_OBJECTS, text("x" * 8))), "has the dtype object"),
    "an array of fields": (one(call(name("numpy", "dtype"), text("V8"), FALSE, TRUE)), "a NumPy dtype 'V8'"),
    "a dtype with a state of objects": (
        one(call(name("numpy", "dtype"), text("f8")) + tup(number(3), text("|"), NONE, tup(text("a")), NONE, number(-1), number(-1), number(63)) + b"b"),
        "a NumPy dtype has the state",
    ),
    "an array of 2**40": (one(ARRAY + tup(number(1), numbers(2**40), NUMPY_TYPE, FALSE, text("x")) + b"b"), "has 1 bytes"),
    "an array of -1": (one(ARRAY + tup(number(1), numbers(-1), NUMPY_TYPE, FALSE, text("x")) + b"b"), "has shape"),
    "an array of a list": (one(ARRAY + tup(number(1), numbers(1), NUMPY_TYPE, FALSE, b"]") + b"b"), "a NumPy array has the state"),
    "a dtype of text of another size": (
        one(call(name("numpy", "dtype"), text("U3")) + tup(number(3), text("<"), NONE, NONE, NONE, number(8), number(4), number(8)) + b"b"),
        "a NumPy dtype has the state",
    ),
    "a dtype of text without an end": (one(call(name("numpy", "dtype"), text("U01"))), "a NumPy dtype 'U01'; expected text"),
    "a number of text of no length": (one(call(name("numpy.core.multiarray", "scalar"), call(name("numpy", "dtype"), text("U0")), text(""))), "has the dtype <U0"),
    "an array of text of no length": (
        one(ARRAY + tup(number(1), numbers(2**60), call(name("numpy", "dtype"), text("S0")), FALSE, text("")) + b"b"),
        "whose text has no length|has shape",
    ),
    "a number of three bytes": (one(call(name("numpy.core.multiarray", "scalar"), NUMPY_TYPE, text("abc"))), "has 3 bytes; expected 8"),
    "another class than ndarray": (
        one(call(name("numpy.core.multiarray", "_reconstruct"), name("torch", "Tensor"), numbers(0), text("b"))), WRONG_ARGUMENTS,
    ),
    # ---- NumPy's generators in pickles
    "a stream of another class": (one(call(name("numpy.random._pickle", "__bit_generator_ctor"), text("BitGenerator"))), "a NumPy stream of bits is made of"),
    "a stream without a class": (one(call(name("numpy.random._pickle", "__bit_generator_ctor"))), "a NumPy stream of bits is made of"),
    "a generator of a number": (one(call(name("numpy.random._pickle", "__generator_ctor"), number(1))), "is made of"),
    "a stream that reads beyond its words": (one(stream_at(625)), "NumPy's MT19937 has the state"),
    "a stream that reads before its words": (one(stream_at(-1)), "NumPy's MT19937 has the state"),
    "a stream with the state of another": (one(call(name("numpy.random._pickle", "__bit_generator_ctor"), text("SFC64")) + b"}b"), "NumPy's SFC64 has the state"),
    "a stream of seeds that are none": (one(call(name("numpy.random._pickle", "__bit_generator_ctor"), text("SFC64")) + tup(b"}", number(1)) + b"b"), "is started from 1"),
    "seeds without a state": (one(SEEDS), "a NumPy SeedSequence without its state"),
    "seeds of a large pool": (one(SEEDS + tup(number(1), number(0), NONE, number(2**30), numbers()) + b"b"), "a NumPy SeedSequence has the state"),
    "seeds of a text": (one(SEEDS + tup(text("a"), number(0), NONE, number(4), numbers()) + b"b"), "a NumPy SeedSequence has the state"),
    "seeds of another class": (
        one(call(name("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"), name("numpy.random._pcg64", "PCG64"), number(1), NONE)), "a SeedSequence is made of",
    ),
    # ---- archives
    "a bomb": (bomb, "its compressed entries announce"),
    "an entry twice": (raw_zip((b"a/data.pkl", b"a/data.pkl", pickle(NONE)), (b"a/data.pkl", b"a/data.pkl", pickle(TRUE))), "two entries named 'a/data.pkl'"),
    "two archives": (zip_of(**{"a/data.pkl": pickle(NONE), "b/data.pkl": pickle(NONE)}), "holds 2 archives of tensors"),
    "other entries": (zip_of(**{"readme.txt": b"x"}), "neither PyTorch's"),
    "an empty archive": (zip_of(), "neither PyTorch's"),
    "a name out of the folder": (raw_zip((b"../data.pkl", b"../data.pkl", pickle(NONE))), "named '../data.pkl', which is no plain name"),
    "an absolute name": (raw_zip((b"/a/data.pkl", b"/a/data.pkl", pickle(NONE))), "which is no plain name"),
    "a name with backslashes": (raw_zip((b"a\\data.pkl", b"a\\data.pkl", pickle(NONE))), "which is no plain name"),
    "a name of another drive": (raw_zip((b"C:/data.pkl", b"C:/data.pkl", pickle(NONE))), "which is no plain name"),
    "a name with a zero": (raw_zip((b"a\0/data.pkl", b"a\0/data.pkl", pickle(NONE))), "which is no plain name"),
    "a long name": (raw_zip((b"a" * 2000 + b"/data.pkl", b"a" * 2000 + b"/data.pkl", pickle(NONE))), "which is no plain name"),
    "a name of bytes": (raw_zip((b"\xff/data.pkl", b"\xff/data.pkl", pickle(NONE))), "not UTF-8"),
    "two names": (raw_zip((b"b/data.pkl", b"a/data.pkl", pickle(NONE))), "another name, method or flags"),
    "entries that overlap": (directory_field(GOOD_ZIP, 1, 42, struct.pack("<I", 4)), "overlaps|is no entry"),
    "one entry's bytes under two names": (directory_field(directory_field(GOOD_ZIP, 2, 42, bytes(4)), 2, 20, bytes(4)), "overlaps|stored entry"),
    "an entry behind the end": (directory_field(GOOD_ZIP, 0, 42, b"\xff\xff\xff\x7f"), "lies behind the entries"),
    "an entry that is long": (directory_field(directory_field(GOOD_ZIP, 2, 20, b"\xff\xff\0\0"), 2, 24, b"\xff\xff\0\0"), "is no entry of"),
    "a stored entry of two sizes": (directory_field(GOOD_ZIP, 2, 24, b"\xff\0\0\0"), "that announces 255"),
    "an encrypted entry": (directory_field(GOOD_ZIP, 0, 8, b"\1"), "encrypted"),
    "an entry packed by another method": (directory_field(GOOD_ZIP, 0, 10, b"\x0e"), "packed by method 14"),
    "a wrong checksum": (patched(archive(pickle(dictionary(a=number(5)))), b"K\5", b"K\6"), "has the checksum"),
    "a directory elsewhere": (raw_zip((b"a/data.pkl", b"a/data.pkl", pickle(NONE)), start=3), "a directory of"),
    "a million entries": (raw_zip((b"a/data.pkl", b"a/data.pkl", pickle(NONE)), count=60_000), "a directory of 60000 entries"),
    "no end": (GOOD_ZIP[:-22], "without an end"),
    "an inflated entry that lies": (directory_field(archive(pickle(text("x" * 500)), compress=True), 0, 24, b"\x10\0\0\0"), "other sizes|inflates to more"),
    "a byte order": (one(NONE, byteorder=b"middle"), "byte order is 'middle'"),
    # ---- streams
    "a pickle": (pickle(call(name("os", "system"), text(TOUCH))), "names 'os.system'"),
    "a pickle of text": (pickle(text("hello")), "is a pickle, but not one of PyTorch's"),
    "a stream of another protocol": (stream(pickle(NONE), {}, protocol=1), "has the protocol 1; expected 1001"),
    "a stream without byte order": (stream(pickle(NONE), {}, info=dictionary(a=NONE)), "does not say its byte order"),
    "a stream that runs code": (stream(pickle(call(name("os", "system"), text(TOUCH))), {}), "names 'os.system'"),
    "a stream of 2**50 elements": (stream(pickle(tensor(stream_storage(count=2**50))), {"7": (2**50, FOUR)}), "more than the file has bytes"),
    "a stream with two sizes": (stream(pickle(tensor(stream_storage())), {"7": (3, FOUR)}), "announces 3 elements"),
    "a stream without its storage": (stream(pickle(tensor(stream_storage())), {}), "as its storages, but its objects name|more than the file has"),
    "a stream with a storage too many": (stream(pickle(NONE)), "as its storages, but its objects name"),
    "a stream with a part beyond": (stream(pickle(tensor(stream_storage(view=tup(text("v"), number(2), number(3)))))), "has a part"),
    "a stream with a part before": (stream(pickle(tensor(stream_storage(view=tup(text("v"), number(-1), number(3)))))), "has a part"),
    "a stream of two types": (
        stream(pickle(tup(tensor(stream_storage()), tensor(stream_storage(kind="IntStorage"))))), "named with two types",
    ),
    "a stream with more behind": (GOOD_STREAM + b"x", "its storages end at"),
    "a stream cut short": (GOOD_STREAM[:-1], "more than the file has bytes|its storages end at"),
    "a stream of untyped bytes": (stream(pickle(tensor(stream_storage(kind="UntypedStorage")))), "which streams have not"),
    "a tar archive": (bytes(257) + b"ustar" + bytes(300), "is a tar archive"),
    "a stream that ends": (MAGIC, "it ends there"),
    # ---- NumPy's files
    "npy: objects": (npy(np.zeros(1), "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "pickles, which are never loaded"),
    "npy: objects of NumPy": (npy(np.array([1])) .replace(b"'<i8'", b"'|O' "), "elements of type '.O'"),
    "npy: fields": (npy(np.zeros(1), "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"), "with several fields"),
    "npy: code": (npy(np.zeros(1), f"{{'descr': __import__('os').system('{TOUCH}'), 'fortran_order': False, 'shape': (1,)}}"), "with the header"),
    "npy: spaces": (npy(np.zeros(1), "{'descr': '<f8'" + " " * 3000 + "'fortran_order': False" + " " * 3000 + "'shape': (1,)" + " " * 3000 + "x"), "with the header"),
    "npy: a size of 5000 digits": (npy(np.zeros(1), "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}"), "of shape '.999"),
    "npy: two numbers": (npy(np.zeros(1), "{'descr': '<f8', 'fortran_order': False, 'shape': (3 4,)}"), "of shape '.3 4"),
    "npy: a size of 19 digits": (npy(np.zeros(1), "{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999999,)}"), "too large"),
    "npy: a key twice": (npy(np.zeros(1), "{'descr': '<f8', 'descr': '<f8', 'shape': (1,)}"), "with the header"),
    "npy: more keys": (npy(np.zeros(1), "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 'y'}"), "with the header"),
    "npy: huge": (npy(np.zeros(1), "{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }"), "too large|needs"),
    "npy: huge and empty": (npy(np.zeros(0), "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1152921504606846976,), }"), "too large"),
    "npy: short": (npy(np.zeros(3))[:-1], "truncated"),
    "npy: long": (npy(np.zeros(3)) + b"x", "where 25 are"),
    "npy: a long header": (b"\x93NUMPY\2\0\xff\xff\xff\x7f", "with a header of"),
    "npy: version 9": (b"\x93NUMPY\x09\0" + bytes(20), "version 1 to 3"),
    "npy: complex256": (npy(np.zeros(2), "{'descr': '<c32', 'fortran_order': False, 'shape': (1,), }"), "elements of type '<c32'"),
    "npz: an array of objects": (npz(a=np.ones(2)).replace(b"'<f8'", b"'|O' "), "has the checksum|pickles"),
    "npz: a number that is none": (zip_of(**{"a.npy": b"hello world!"}), "does not begin as .npy"),
    # ---- GGUF
    "gguf: version 9": (gguf({}, version=9), "version 9; expected 2 or 3"),
    "gguf: big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "gguf: 2**60 tensors": (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "do not fit"),
    "gguf: 2**60 words": (gguf({}, a_b=(9, struct.pack("<IQ", 8, 2**60))), "do not fit"),
    "gguf: 2**60 numbers": (gguf({}, a_b=(9, struct.pack("<IQ", 4, 2**60))), "do not fit"),
    "gguf: arrays in arrays": (gguf({}, a_b=(9, struct.pack("<IQ", 9, 1) * 20 + bytes(400))), "arrays deep"),
    "gguf: a long word": (gguf({}, a_b=(8, struct.pack("<Q", 2**62))), "truncated"),
    "gguf: a type of values": (gguf({}, a_b=(77, b"")), "a value of type 77"),
    "gguf: a bool of 2": (gguf({}, a_b=(7, b"\2")), "a bool 2"),
    "gguf: names twice": (gguf({"a": ((1,), F32, FOUR[:4])}).replace(struct.pack("<IQQ", 3, 1, 0), struct.pack("<IQQ", 3, 2, 0)), "truncated|do not fit"),
    "gguf: a tensor beyond": (gguf({"a": ((9,), F32, FOUR)}), "truncated"),
    "gguf: huge sizes": (gguf({"a": ((2**40, 2**40), F32, FOUR)}), "too large"),
    "gguf: half a block": (gguf({"a": ((16,), Q4_0, bytes(18))}), "whole blocks of 32"),
    "gguf: an unknown type": (gguf({"a": ((32,), 12, bytes(64))}), "of type q4_K; expected"),
    "gguf: 100 axes": (gguf({"a": ((1,) * 100, F32, FOUR[:4])}), "100 axes"),
    "gguf: an alignment of 0": (gguf({}, general_alignment=0), "general.alignment = 0"),
    "gguf: short": (b"GGUF\3", "truncated"),
    # ---- an index
    "index: out of the folder": (index(x="../secret.safetensors"), "names the file '../secret.safetensors'; expected a name in its own folder"),
    "index: absolute": (index(x="/etc/passwd"), "names the file '/etc/passwd'"),
    "index: backslashes": (index(x="..\\x"), "expected a name in its own folder"),
    "index: the folder": (index(x=".."), "expected a name in its own folder"),
    "index: nothing": (index(x=""), "expected a name in its own folder"),
    "index: a zero": (index(x="a\0b"), "expected a name in its own folder"),
    "index: a long name": (index(x="a" * 256), "expected a name in its own folder"),
    "index: half a character": (index(x="\ud800"), "expected a name in its own folder"),
    "index: numbers": (b'{"weight_map": {"x": 3}}', 'has no "weight_map"'),
    "index: a list": (b'{"weight_map": []}', 'has no "weight_map"'),
    "index: twice": (b'{"weight_map": {"x": "a", "x": "b"}}', "appears twice"),
    "index: deep": (b'{"a": ' + b"[" * 100_000, "nested too deeply|not valid JSON"),
    # ---- safetensors, whose own tests have more
    "safetensors: a name of a million letters": (container({"x" * 10**6: {"dtype": "F31", "shape": [], "data_offsets": [0, 0]}}), "has dtype 'F31'"),
    "safetensors: keys with one hash": (
        container({"__metadata__": {"flambeau.format": "2", "flambeau.structure": '{"d": [' + ",".join(f"[{1 + k * ((1 << 61) - 1)}, 0]" for k in range(1, 10_100)) + "]}"}}),
        "more than 10000 keys",
    ),
}  # fmt: skip
