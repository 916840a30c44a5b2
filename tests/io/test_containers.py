"""Containers and plain values come back with their types, in both formats; objects of classes where these are allowed."""

import argparse
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import json
import pathlib
import pickle
import struct
import types
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

import flambeau as fl
from flambeau.serialization import FileFormatError

FORMATS = pytest.mark.parametrize("format", [None, "pt"], ids=["safetensors", "pt"])


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Flags(enum.Flag):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Config:
    a: int = 1
    b: object = None

    def __post_init__(self):
        if self.a == 13:
            raise AssertionError("__init__ is not called")


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    a: int = 1
    b: int = 2


class Point(collections.namedtuple("Point", "x y")):
    pass


class Dict(dict):
    pass


class List(list):
    pass


class Set(set):
    pass


class Text(str):
    pass


class Odd:
    """Its reduce names a function."""


class OddDict(dict):
    def __reduce__(self):
        return (print, ("code",))


def written(obj, format):
    file = io.BytesIO()
    fl.save(obj, file, format=format)
    return file.getvalue()


def again(obj, format, **how):
    return fl.load(io.BytesIO(written(obj, format)), **how)


def described(x):
    """Something that compares equal for objects of the same types and values."""
    if isinstance(x, fl.Tensor):
        return type(x), x.dtype, x.tolist()
    if isinstance(x, dict):
        return type(x), getattr(x, "default_factory", 0), [(described(k), described(v)) for k, v in x.items()]
    if isinstance(x, (set, frozenset)):
        return type(x), sorted(map(repr, x))
    if isinstance(x, (list, tuple, deque)):
        return type(x), getattr(x, "maxlen", 0), [described(v) for v in x]
    if dataclasses.is_dataclass(x):
        return type(x), [described(getattr(x, f.name)) for f in dataclasses.fields(x)]
    if isinstance(x, (argparse.Namespace, types.SimpleNamespace)):
        return type(x), described(vars(x))
    return type(x), repr(x)


PLAIN = {
    "Counter": lambda: Counter("abca"),
    "Counter of odd values": lambda: Counter({1: -5, "x": 0}),
    "defaultdict": lambda: defaultdict(list, {"a": [fl.ones(2)], 3: []}),
    "defaultdict of nothing": lambda: defaultdict(None, {1: 2}),
    "defaultdict of Counters": lambda: defaultdict(Counter, {"q": Counter("aa")}),
    "deque": lambda: deque([1, fl.arange(3), deque([], 0)]),
    "deque with maxlen": lambda: deque([1, 2], 3),
    "frozenset": lambda: frozenset([1, b"x", 2j, (1, frozenset([2]))]),
    "set": lambda: {1j, fl.float32, None, b""},
    "slices": lambda: [slice(3), slice(1, None, -2), slice("a", 2.5)],
    "ranges": lambda: [range(3), range(10, 0, -2), range(2**70, 2**71)],
    "complex": lambda: [1 - 2j, complex(float("nan"), -0.0), complex(float("-inf"), 1)],
    "bytes": lambda: [b"\0\xff", b"", bytearray(b"xy"), bytearray()],
    "of the library": lambda: [fl.Size([1, 2]), fl.float16, fl.device("cpu"), fl.Size([])],
    "keys": lambda: {b"k": 1, 1j: 2, fl.int8: 3, frozenset([1]): 4, fl.Size([1]): 5, (): 6, fl.device("cpu"): 7, (b"x", (1j,)): 8, 2.5: 9, None: 10},
    "nested": lambda: OrderedDict(z=1, a=defaultdict(dict, x=[Counter({(1, 2): 3}), deque([frozenset()], 1)])),
}  # fmt: skip


@FORMATS
@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside"])
def test_types_come_back(name, inside, format):
    obj = PLAIN[name]()
    obj = {"a": (1, [obj])} if inside else obj
    assert described(again(obj, format)) == described(obj)


@pytest.mark.parametrize("factory", [None, list, dict, int, float, set, str, tuple, bool, Counter, deque, OrderedDict], ids=str)
@FORMATS
def test_factories_work_after_loading(factory, format):
    got = again(defaultdict(factory, {"x": 1}), format)
    assert got.default_factory is factory
    if factory is not None:
        assert got["new"] == factory() and type(got["new"]) is factory


@pytest.mark.parametrize("obj, place", [
    (defaultdict(lambda: 0), "save: the object is a defaultdict whose default_factory is <function"),
    ({"a": [{"b": defaultdict(fl.ones)}]}, r"save: a\[0\].b is a defaultdict.*expected None or one of list, dict.*save dict"),
    ({"s": slice(fl.ones(1))}, "save: s is a slice with tensor"),
    ({"s": {object()}}, "the set s has an element|save: an element of s is a object"),
    ({"m": types.MappingProxyType({})}, "save: m is a mappingproxy"),
    ({"o": [object()]}, r"save: o\[0\] is a object; expected tensors"),
    ({"o": [OddDict()]}, r"save: o\[0\] is a .*OddDict, which is made by a function of its own"),
    ({"o": type("Local", (dict,), {})()}, "save: o is a .*Local, of a class that can not be found by its name"),
    ({"o": Config(1, print)}, "save: o.b is a builtin"),
])  # fmt: skip
@FORMATS
def test_what_is_refused_when_it_is_saved(obj, place, format):
    with pytest.raises(TypeError, match=place):
        written(obj, format)


@pytest.mark.parametrize("obj", [collections.ChainMap(), {"o": Odd()}], ids=["ChainMap", "Odd"])
def test_objects_of_ordinary_classes_are_of_pytorchs_files_alone(obj):
    """The trainer of transformers saves such an object among its arguments. Loading wants the class allowed, or weights_only=False."""
    with pytest.raises(TypeError, match=r"save: .* is a .*(ChainMap|Odd); expected tensors"):
        written(obj, None)
    file = written({"x": obj}, "pt")
    with pytest.raises(ValueError, match="is not among what a file may name"):
        fl.load(io.BytesIO(file))
    kind = type(obj.get("o", obj))
    with fl.serialization.safe_globals([kind]):
        allowed = fl.load(io.BytesIO(file))["x"]
    for got in (allowed, fl.load(io.BytesIO(file), weights_only=False)["x"]):
        assert type(got) is type(obj) and type(got.get("o")) is type(obj.get("o"))


NAMED = {
    "enums": (lambda: [Color.RED, Color.BLUE, Flags.A | Flags.B, Level.LOW], [Color, Flags, Level]),
    "enums as keys": (lambda: {Color.RED: 1, (Level.LOW, 2): Color.BLUE}, [Color, Level]),
    "paths": (lambda: {pathlib.PurePosixPath("a/b"): pathlib.Path("/tmp/x")}, [pathlib.PurePosixPath, pathlib.PosixPath]),
    "namespaces": (lambda: [argparse.Namespace(lr=fl.ones(1), n=[1]), types.SimpleNamespace(x=Counter("a"))], [argparse.Namespace, types.SimpleNamespace]),
    "dataclasses": (lambda: [Config(13 + 1, Counter("a")), Frozen(5), Slotted(3, 4)], [Config, Frozen, Slotted]),
    "named tuples": (lambda: {"p": Point(fl.ones(1), 2), Point(1, 2): 3}, [Point]),
}  # fmt: skip
CONTAINERS = {
    "subclasses": (lambda: [Dict(a=fl.ones(1)), List([1, 2]), Set([1]), Text("x")], [Dict, List, Set, Text]),
}


@FORMATS
@pytest.mark.parametrize("name", [*NAMED, *CONTAINERS])
def test_objects_of_classes_that_are_allowed(name, format):
    make, classes = (NAMED | CONTAINERS)[name]
    raw, obj = written(make(), format), make()
    with pytest.raises(FileFormatError, match="is refused.*it names '.*add_safe_globals.*weights_only=False"):
        fl.load(io.BytesIO(raw))
    with fl.serialization.safe_globals(classes):
        assert described(fl.load(io.BytesIO(raw))) == described(obj)


@FORMATS
@pytest.mark.parametrize("name", list(NAMED))
def test_objects_of_data_by_weights_only_false(name, format):
    make, _ = NAMED[name]
    assert described(again(make(), format, weights_only=False)) == described(make())


@FORMATS
def test_derived_containers_by_weights_only_false(format):
    obj = [Dict(a=fl.ones(1)), List([1, 2]), Text("x"), Set([1])]
    assert described(again(obj, format, weights_only=False)) == described(obj)


@FORMATS
def test_instances_are_made_without_their_init(format):
    config = Config(1)
    config.a = 13
    assert again(config, format, weights_only=False).a == 13


def test_files_without_new_containers_are_what_they_were():
    assert b'"flambeau.format":"2"' in written({"a": [1, {2}, fl.Size([1])], "b": fl.ones(1)}, None)
    assert b'"flambeau.format":"3"' in written({"a": [Counter()], "b": fl.ones(1)}, None)


@FORMATS
@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_copies_and_pickles(make, format):
    obj = again(make(), format)
    assert described(copy.deepcopy(obj)) == described(pickle.loads(pickle.dumps(obj))) == described(copy.copy(obj)) == described(obj)


# ------------------------------------------------------------------------------------------- hostile files


def file_of(structure):
    header = json.dumps({"__metadata__": {"flambeau.format": "3", "flambeau.structure": json.dumps(structure)}}).encode()
    return struct.pack("<Q", len(header)) + header


BAD = {
    "a Counter of no pairs": ({"n": [[1]]}, "no .key, value. pair"),
    "a Counter that is none": ({"n": 3}, "unknown node"),
    "a key of a Counter": ({"n": [[[1], 1]]}, "unknown dict key"),
    "a factory": ({"y": ["eval", []]}, "a defaultdict of 'eval'; expected list"),
    "a factory with dots": ({"y": ["os.system", []]}, "a defaultdict of 'os.system'"),
    "a factory that is no text": ({"y": [["list"], []]}, "a defaultdict of"),
    "a defaultdict of too much": ({"y": ["list", [], 1]}, "unknown node"),
    "a short deque": ({"q": [[1, 2], 1]}, "a deque of 2 items and at most 1"),
    "a deque of -1": ({"q": [[], -1]}, "a deque of 0 items and at most -1"),
    "a deque of True": ({"q": [[1], True]}, "at most True"),
    "a deque of 2**64": ({"q": [[], 2**64]}, "at most 18446744073709551616"),
    "a frozenset of lists": ({"F": [[1]]}, "unknown dict key"),
    "a frozenset of tensors": ({"F": [{"T": "x"}]}, "names a tensor 'x'"),
    "complex numbers of text": ({"C": ["1", 2.0]}, "unknown node"),
    "complex numbers of integers": ({"C": [1, 2.0]}, "unknown node"),
    "complex numbers of three": ({"C": [1.0, 2.0, 3.0]}, "unknown node"),
    "bytes that are no base64": ({"B": "a?"}, "unknown node"),
    "bytes with spaces": ({"B": "YQ==\n"}, "unknown node"),
    "bytes with odd bits": ({"B": "YR=="}, "unknown node"),
    "bytes beyond ASCII": ({"A": "\u00e9"}, "unknown node"),
    "a range of step 0": ({"r": [1, 2, 0]}, "unknown node"),
    "a range of floats": ({"r": [1.0, 2, 1]}, "unknown node"),
    "a slice of lists": ({"l": [[], None, None]}, "unknown node"),
    "a slice of two": ({"l": [1, 2]}, "unknown node"),
    "a key of a slice": ({"d": [[{"l": [1, 2, 3]}, 0]]}, "unknown dict key"),
    "a key of a bytearray": ({"d": [[{"A": ""}, 0]]}, "unknown dict key"),
    "a deep key": ({"d": [[json.loads('{"t": [' * 30 + "]}" * 30), 0]]}, "unknown dict key"),
    "a class": ({"R": "os.system", "a": ["true"]}, "names 'os.system', which no file may use"),
    "a class of builtins": ({"R": "builtins.eval", "a": ["1"]}, "names 'builtins.eval'"),
    "a class by a number": ({"R": 3, "a": []}, "names a class 3"),
    "a class with more": ({"R": "x.Y", "a": [], "z": 1}, "unknown node"),
    "a class as a key": ({"d": [[{"R": "x.Y", "a": []}, 0]]}, "names 'x.Y'"),
    "a class with a state as a key": ({"d": [[{"R": "x.Y", "a": [], "b": 1}, 0]]}, "unknown dict key"),
    "a generator of a number": ({"Y": 3}, "unknown node"),
    "a generator of one number": ({"Y": [3]}, "unknown node"),
    "a generator of floats": ({"Y": [3.0, 0]}, "unknown node"),
    "a generator of a bool": ({"Y": [3, True]}, "unknown node"),
    "a generator of a seed below 0": ({"Y": [-1, 0]}, "unknown node"),
    "a generator of 2**64 draws": ({"Y": [0, 2**64]}, "unknown node"),
    "a generator with more": ({"Y": [0, 0], "z": 1}, "unknown node"),
    "a generator met twice as one": ([{"Y": [0, 0], "i": 0}, {"Y": [0, 0], "i": 0}], "unknown node"),
    "a generator as a key": ({"d": [[{"Y": [0, 0]}, 0]]}, "unknown dict key"),
    "metadata of a Counter": ({"n": [], "m": {"d": []}}, "unknown node"),
}  # fmt: skip


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", list(BAD))
def test_bad_structures_are_refused(name, weights_only):
    structure, text = BAD[name]
    with pytest.raises(FileFormatError, match=text):
        fl.load(io.BytesIO(file_of(structure)), weights_only=weights_only)


class Unhashable:
    def __hash__(self):
        raise KeyError("no")


def test_errors_of_classes_that_are_allowed():
    with fl.serialization.safe_globals([Unhashable, Config]):
        with pytest.raises(FileFormatError, match="a key is a Unhashable, whose hash raised KeyError"):
            fl.load(io.BytesIO(file_of({"d": [[{"R": f"{__name__}.Unhashable", "a": []}, 0]]})))
        with pytest.raises(FileFormatError, match="Unhashable, which was allowed, raised TypeError"):
            fl.load(io.BytesIO(file_of({"R": f"{__name__}.Unhashable", "a": [1]})))
        with pytest.raises(FileFormatError, match="an unknown dict key"):
            fl.load(io.BytesIO(file_of({"d": [[{"R": f"{__name__}.Config", "a": [], "w": 1}, 0]]})))


@pytest.mark.parametrize("name", ["test_containers.Odd", "collections.OrderedDict", "flambeau.nn.Linear", "no_such_module.Net", "os.PathLike", "pathlib", ""])
def test_weights_only_false_finds_data_alone(name):
    with pytest.raises(FileFormatError, match="it names"):
        fl.load(io.BytesIO(file_of({"R": name, "a": []})), weights_only=False)


def test_weights_only_false_calls_no_dataclass():
    with pytest.raises(FileFormatError, match="Config is called; weights_only=False lets a file make instances"):
        fl.load(io.BytesIO(file_of({"R": f"{__name__}.Config", "a": [13]})), weights_only=False)


def scaled(x, factor=2):
    return x * factor


CET = datetime.timezone(datetime.timedelta(hours=1), "CET")
VALUES = {
    "moments": lambda: [datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.datetime(2020, 1, 2, tzinfo=CET), datetime.date(1, 1, 1), datetime.time(23, 59, 59, 999999)],
    "spans": lambda: [datetime.timedelta(-1, 2, 3), datetime.timezone.utc, CET],
    "exact numbers": lambda: [fractions.Fraction(-1, 3), fractions.Fraction(2**70), decimal.Decimal("1.50"), decimal.Decimal("-Infinity")],
    "classes": lambda: [int, dict, object, collections.Counter, datetime.date, fl.Tensor, fl.nn.Parameter, fl.Size, np.ndarray, {"in": (str, [float])}],
    "dtypes of NumPy's": lambda: [np.dtype("float32"), np.dtype(">i2"), np.dtype("U5"), np.dtype("S3"), np.dtype(bool)],
    "arrays": lambda: [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(2, dtype="f4")), np.array(["a", "bcd"]), np.array([b"a", b"bc"]), np.zeros((0, 2))],
    "arrays of objects": lambda: [np.array([["a", None, 3], [2.5, (1, "b"), b"c"]], dtype=object), np.asfortranarray(np.array([[1, "x"], [None, True]], dtype=object)), np.zeros((0, 2), object), np.dtype(object)],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_of_pythons_and_numpys_in_pytorchs_files(name):
    """As they were, also where nothing is allowed; PyTorch writes and reads the same."""
    made = VALUES[name]()
    got = fl.load(io.BytesIO(written(made, "pt")), weights_only=True)
    assert repr(got) == repr(made) and list(map(type, got)) == list(map(type, made))


def test_arrays_of_objects_hold_what_files_hold_and_not_themselves():
    made = np.empty(2, object)
    made[0], made[1] = fl.arange(3.0), np.array(["x", {"y": 1}], dtype=object)
    got = fl.load(io.BytesIO(written({"a": made}, "pt")))["a"]
    assert got.dtype == object and got[0].tolist() == [0.0, 1.0, 2.0] and got[1].tolist() == ["x", {"y": 1}]
    with pytest.raises(TypeError, match="a is an array of dtype object, which has no tensor counterpart"):
        written({"a": made}, "safetensors")
    made[0] = made
    with pytest.raises(ValueError, match="contains itself"):
        written({"a": made}, "pt")


def test_functions_with_arguments_in_pytorchs_files():
    made = {
        "own": functools.partial(scaled, factor=3), "layer": functools.partial(fl.nn.functional.gelu, approximate="tanh"),
        "class": functools.partial(fl.optim.SGD, lr=0.5), "op": fl.tanh, "python's": functools.partial(int, base=2),
    }  # fmt: skip
    raw = written(made, "pt")
    got = fl.load(io.BytesIO(raw), weights_only=False)
    assert got["own"](2) == 6 and got["python's"]("101") == 5 and got["op"] is fl.tanh
    assert all((got[k].func, got[k].args, got[k].keywords) == (v.func, v.args, v.keywords) for k, v in made.items() if k != "op")
    with pytest.raises(FileFormatError, match="it names '.*scaled'"):
        fl.load(io.BytesIO(raw))


def test_a_state_of_numpys_generator_comes_back_as_it_was():
    random = np.random.RandomState(3)
    state = fl.load(io.BytesIO(written({"rng": random.get_state()}, "pt")))["rng"]
    wanted = random.rand(4).tolist()
    random.set_state(state)
    assert random.rand(4).tolist() == wanted


GENERATORS = {
    **{kind: lambda kind=kind: np.random.Generator(getattr(np.random, kind)(7)) for kind in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")},
    "RandomState": lambda: np.random.RandomState(3),
    "RandomState of another stream": lambda: np.random.RandomState(np.random.SFC64(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", GENERATORS)
def test_numpys_generators_in_pytorchs_files(name):
    """They go on, also where nothing is allowed; PyTorch's files have them so."""
    made = GENERATORS[name]()
    made.standard_normal()  # a RandomState keeps the second of two
    got = fl.load(io.BytesIO(written([made], "pt")))[0]
    assert type(got) is type(made)
    assert [x.tolist() for x in (got.standard_normal(3), got.bytes(3), got.random(2)) if hasattr(x, "tolist")] == [
        x.tolist() for x in (made.standard_normal(3), made.bytes(3), made.random(2)) if hasattr(x, "tolist")
    ]
    if name != "RandomState":  # whose stream knows of no seeds
        got, made = (x._bit_generator.seed_seq.spawn(1)[0].generate_state(3) for x in (got, made))
        assert got.tolist() == made.tolist()


def test_numpys_seeds_in_pytorchs_files():
    made = np.random.SeedSequence([5, 2**90], spawn_key=(3,), n_children_spawned=2)
    got = fl.load(io.BytesIO(written({"seeds": made, "again": [made]}, "pt")))["seeds"]
    assert got.state == made.state and got.generate_state(5).tolist() == made.generate_state(5).tolist()


def as_older_numpy_had_it(made):
    """A generator by the name of its stream, and its state."""
    kind = "generator" if isinstance(made, np.random.Generator) else "randomstate"
    state = made.bit_generator.state if kind == "generator" else made.get_state(legacy=False)

    class Older:
        def __reduce__(self):
            return getattr(np.random._pickle, f"__{kind}_ctor"), (state["bit_generator"],), state

    return pickle.dumps(Older(), 2)


@pytest.mark.parametrize("name", ["PCG64", "Philox", "RandomState"])
def test_numpys_generators_in_older_files(name):
    made = GENERATORS[name]()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", as_older_numpy_had_it(made))
        archive.writestr("archive/version", "3\n")
    file.seek(0)
    assert fl.load(file).standard_normal(4).tolist() == made.standard_normal(4).tolist()
