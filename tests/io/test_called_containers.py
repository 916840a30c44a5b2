"""Objects of classes derived from containers whose pickles call the class, and generators: they come back, and nothing is called."""

from __future__ import annotations

import collections
import io
import os
import pathlib

import pytest
from hostile import MARK
from makers import (
    NONE,
    archive,
    call,
    dictionary,
    name,
    number,
    numbers,
    pickle,
    put,
    tensor,
    text,
    tup,
)

import flambeau as fl
from flambeau.serialization import FileFormatError

FORMATS = pytest.mark.parametrize("format", [None, "pt"], ids=["safetensors", "pt"])


def touch(*args, **kwargs):
    pathlib.Path(MARK).touch()


class Harm:
    """What no file may have called."""

    def __init__(self, *args, **kwargs):
        touch()


class Names(set):
    add = update = __ior__ = __init__ = touch


class Fixed(frozenset):
    __init__ = touch


class Table(collections.OrderedDict):
    __init__ = update = touch


class Votes(collections.Counter):
    __init__ = update = subtract = touch


class Window(collections.deque):
    __init__ = append = extend = touch


class Groups(collections.defaultdict):
    __init__ = touch


class Closing(set):
    def __del__(self):
        touch()


class NewSet(set):
    def __new__(cls, *args):
        touch()
        return super().__new__(cls)


class Reducing(set):
    def __reduce__(self):
        return touch, ()


def made(kind, items=(), **attributes):
    """An instance, past what its class says of it."""
    root = kind.__mro__[1]
    value = root.__new__(kind, items) if root is frozenset else root.__new__(kind)
    if root is set:
        root.update(value, items)
    elif root is collections.Counter:
        dict.update(value, items)
    elif root in (collections.OrderedDict, collections.defaultdict):
        for key, entry in items:
            root.__setitem__(value, key, entry)
    elif root is collections.deque:
        root.__init__(value, *items)
    for key, entry in attributes.items():
        setattr(value, key, entry)
    return value


MADE = {
    "set": lambda: made(Names, [1, "a"], n=1),
    "frozenset": lambda: made(Fixed, [1, (2, "b")], n=[1]),
    "OrderedDict": lambda: made(Table, [("b", 1), ("a", 2)], n=1),
    "Counter": lambda: made(Votes, {"a": 3, "b": -1}),
    "deque": lambda: made(Window, ([1, 2],), n=1),
    "deque of at most": lambda: made(Window, ([1, 2], 2)),
    "empty": lambda: [made(kind) for kind in (Names, Fixed, Table, Votes, Window)],
}


def described(x):
    if isinstance(x, list):
        return [described(v) for v in x]
    items = sorted(map(repr, x)) if isinstance(x, (set, frozenset)) else list(x.items()) if isinstance(x, dict) else list(x)
    return type(x), items, getattr(x, "maxlen", None), getattr(x, "default_factory", None), getattr(x, "__dict__", {})


def here(kind):
    return name(__name__, kind.__qualname__)


def load(*parts, weights_only=False):
    return fl.load(io.BytesIO(archive(pickle(*parts))), weights_only=weights_only)


def again(obj, format, **how):
    file = io.BytesIO()
    fl.save(obj, file, format=format)
    return fl.load(io.BytesIO(file.getvalue()), **how)


@pytest.fixture(autouse=True)
def nothing_happened():
    yield
    assert not os.path.exists(MARK)


@FORMATS
@pytest.mark.parametrize("what", MADE)
def test_they_come_back(what, format):
    obj = MADE[what]()
    assert described(again(obj, format, weights_only=False)) == described(obj)
    with pytest.raises(FileFormatError, match="which is not among what a file may name"):
        again(obj, format)


def test_a_defaultdict_keeps_its_factory():
    obj = made(Groups, [("a", [1])])
    obj.default_factory = list
    got = again(obj, "pt", weights_only=False)
    assert described(got) == described(obj) and got["new"] == []


def test_an_object_is_one_object():
    obj = made(Names, [1])
    first, second = again([obj, obj], "pt", weights_only=False)
    assert first is second


def several(*items):
    return b"](" + b"".join(items) + b"e"


REFUSED = {
    "a set of a text": (call(here(Names), text("ab")), "a Names is made of .*; expected a list"),
    "a set of a set": (call(here(Names), call(name("__builtin__", "set"), several())), "a Names is made of .*; expected a list"),
    "a set of two": (call(here(Names), several(), several()), "a Names is made of .*; expected a list"),
    "a set without a call": (here(Names) + b")\x81", "a Names is wanted without items; expected a call|wanted without items"),
    "a set of lists": (call(here(Names), several(several())), "a key is a list"),
    "a set of what counts": (call(here(Names), several(*(number(k * (2**61 - 1)) for k in range(10_002)))), "more than 10000 keys are neither"),
    "a deep key": (call(here(Fixed), several(b")" + b"\x85" * 40)), "a key is nested deeper"),
    "an OrderedDict of pairs": (call(here(Table), several(tup(text("a"), number(1)))), "a Table is made of .*; expected nothing"),
    "a Counter of a list": (call(here(Votes), several()), "a Votes is made of .*; expected a dict"),
    "a Counter of two": (call(here(Votes), b"}", b"}"), "a Votes is made of .*; expected a dict"),
    "a deque of items": (call(here(Window), tup(number(1)), number(3)), "a Window is made of .*; expected nothing"),
    "a deque of at most -1": (call(here(Window), b")", number(-1)), "a Window is made of .*; expected nothing"),
    "a deque of at most 2**63": (call(here(Window), b")", number(2**63)), "a Window is made of .*; expected nothing"),
    "a factory of the program's": (call(here(Groups), here(Harm)), "a Groups is made of .*; expected None|Harm"),
    "a factory that is a function": (call(here(Groups), here(touch)), "a Groups is made of .*; expected None"),
    "items for a set": (call(here(Names)) + several(number(1))[1:], "items are added to a Names"),
    "entries for a deque": (call(here(Window)) + text("a") + number(1) + b"s", "items are added to a Window; expected a dict"),
    "a state that is none": (call(here(Names)) + number(3) + b"b", "a Names has the state 3|has the state 3"),
    "a class with __del__": (call(here(Closing)), "its __del__ would run"),
    "a class with a __new__": (call(here(NewSet)), "has a __new__ of its own"),
    "a class that says how it is made": (call(here(Reducing)), "by functions of its own"),
    "another ordinary class": (call(here(Harm)), "Harm is called; weights_only=False lets a file make instances, not call"),
    "large lists that are copied often": (
        several(*[number(k) for k in range(4000)]) + put(0) + b"0" + b"(" + (here(Names) + b"h\0" + b"\x85R") * 300 + b"l", "copied often",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    parts, says = REFUSED[what]
    with pytest.raises(FileFormatError, match=says):
        load(parts)


# ---------------------------------------------------------------- generators of random numbers


def generator(seed, draws=0):
    g = fl.Generator().manual_seed(seed)
    for _ in range(draws):
        fl.rand(1, generator=g)
    return g


@FORMATS
@pytest.mark.parametrize("weights_only", [True, False])
def test_generators_go_on(format, weights_only):
    g, other = generator(2**64 - 3, 3), generator(7)
    got = again({"g": g, "again": [g], "other": other}, format, weights_only=weights_only)
    assert got["again"][0] is got["g"] is not got["other"]
    assert got["g"].initial_seed() == g.initial_seed()
    assert fl.equal(fl.rand(5, generator=got["g"]), fl.rand(5, generator=g))
    assert fl.equal(fl.rand(5, generator=got["other"]), fl.rand(5, generator=other))


def test_the_default_generator_stays_where_it_is():
    fl.manual_seed(3)
    state = fl.get_rng_state()
    got = again(fl.default_generator, None)
    assert got is not fl.default_generator and fl.equal(fl.get_rng_state(), state)


def of_torch(*state):
    return call(name("torch._C", "Generator"), call(name("torch", "device"), text("cpu"))) + tup(*state) + b"b"


def test_pytorchs_generators_begin_anew():
    with pytest.warns(UserWarning, match="a generator of PyTorch's begins anew from its seed"):
        got = load(of_torch(number(11), NONE, tensor()), weights_only=True)
    assert fl.equal(fl.rand(3, generator=got), fl.rand(3, generator=generator(11)))


STATES = {
    "a number": number(3) + b"b",
    "a seed below 0": tup(number(-1), number(0), NONE) + b"b",
    "a seed of 65 bits": tup(number(2**64), number(0), NONE) + b"b",
    "draws that are a text": tup(number(1), text("x"), NONE) + b"b",
    "a bool": tup(b"\x88", number(0), NONE) + b"b",
    "nothing at all": tup(NONE, NONE, NONE) + b"b",
    "a dict": dictionary(seed=number(1)) + b"b",
    "two": tup(number(1), number(1)) + b"b",
}


@pytest.mark.parametrize("what", STATES)
def test_states_that_no_generator_has(what):
    with pytest.raises(FileFormatError, match="a generator has the state"):
        load(call(name("torch._C", "Generator")) + STATES[what])


@pytest.mark.parametrize("args", [(number(3),), (text("cpu"),), (numbers(1), numbers(1))], ids=["a number", "a text", "two"])
def test_generators_are_made_of_a_device(args):
    with pytest.raises(FileFormatError, match="torch.Generator is called with"):
        load(call(name("torch._C", "Generator"), *args))
