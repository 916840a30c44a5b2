"""Objects of ordinary classes: `load(weights_only=False)` makes them of their attributes, and nothing of harm."""

from __future__ import annotations

import asyncio
import code
import collections
import concurrent.futures
import contextlib
import ctypes
import functools
import importlib.machinery
import io
import logging
import multiprocessing.process
import os
import pathlib
import pickle as std_pickle
import random
import runpy
import socket
import subprocess
import tempfile
import threading
import types
import typing
import unittest.mock
import urllib.request
import uuid
import weakref
import zipfile

import numpy as np
import pytest
from hostile import MARK
from makers import NONE, archive, get, name, number, pickle, put, stream, tensor, text, tup

import flambeau as fl
from flambeau.serialization import FileFormatError

T = typing.TypeVar("T")


class Space(typing.Generic[T]):
    def __init__(self, n):
        raise AssertionError("__init__ was called")

    def __eq__(self, other):
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self):
        return hash(self.key)


class Slots:
    __slots__ = ("__dict__", "a", "b")

    @property
    def risky(self):
        return 0

    @risky.setter
    def risky(self, value):
        touch()


class Stateful(Space):
    def __setstate__(self, state):
        self.got = state


class Own:
    def __new__(cls, *args):
        made = super().__new__(cls)
        made.args = args
        return made

    def __getnewargs__(self):
        return self.args


class Outer:
    class Inner:
        pass

    Popen = subprocess.Popen
    path = os.path


class Settings(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "set"))


class Word(str):
    pass


class Big(bytes):
    pass


class Tagged(fl.Tensor):
    pass


def touch(*args):
    pathlib.Path(MARK).touch()


class Closing:
    def __del__(self):
        touch()


class Inheriting(Closing):
    pass


class Process(subprocess.Popen):
    def __init__(self):
        pass


class Worker(threading.Thread):
    pass


class Struct(ctypes.Structure):
    pass


class Reducing:
    def __reduce__(self):
        return touch, ()


class NewDict(dict):
    def __new__(cls, *args):
        touch()
        return super().__new__(cls)


class Answering:
    """Has whatever one asks for."""

    def __getattr__(self, name):
        touch()
        return touch


class Endless:
    def __hash__(self):
        return hash(self.again)


class Failing:
    def __setstate__(self, state):
        raise KeyError(state["missing"])


def here(what):
    return name(__name__, what.__qualname__)


def load(*parts, **how):
    return fl.load(io.BytesIO(archive(pickle(*parts))), weights_only=False, **how)


def made(what, state=b"}", *args):
    return what + tup(*args) + b"\x81" + state + b"b"


def pairs(**items):
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


@pytest.fixture(autouse=True)
def nothing_happened():
    yield
    assert not os.path.exists(MARK)


def test_objects_come_back():
    space = Space.__new__(Space)
    space.low, space.rng, space.key = np.arange(3.0, dtype=np.float32), np.random.default_rng(3), 1
    space.rng.random()
    slots = Slots()
    slots.a, slots.c = fl.ones(2), space
    stateful = Stateful.__new__(Stateful)
    stateful.key = (1, 2)
    file = io.BytesIO()
    saved = {"space": space, "again": space, "slots": slots, "of": {space: 3}, "own": Own(1, "x"), "stateful": stateful, "word": Word("w"), "id": uuid.UUID(int=5), "chain": collections.ChainMap({"x": 1})}
    fl.save(saved, file, format="pt")
    with pytest.raises(FileFormatError, match="names '.*Space', which is not among.*With weights_only=False the file is read"):
        fl.load(io.BytesIO(file.getvalue()))
    got = fl.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert got["space"] is got["again"] is got["slots"].c and got["of"][got["space"]] == 3 and type(got["space"]) is Space
    assert got["space"].low.tolist() == [0, 1, 2] and got["space"].low.dtype == np.float32 and got["space"].rng.random() == space.rng.random()
    assert got["slots"].a.tolist() == [1, 1] and not hasattr(got["slots"], "b")
    assert got["own"].args == (1, "x") and got["stateful"].got == {"key": (1, 2)} and type(got["word"]) is Word and got["word"] == "w"
    assert got["id"] == uuid.UUID(int=5) and got["chain"] == {"x": 1}


def test_streams_have_them_too():
    raw = stream(pickle(made(here(Space), pairs(n=number(3)))), {})
    assert fl.load(io.BytesIO(raw), weights_only=False).n == 3


def test_tensors_of_imported_classes():
    x = fl.ones(2).as_subclass(Tagged)
    x.tag = "t"
    file = io.BytesIO()
    fl.save([x], file, format="pt")
    (got,) = fl.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert type(got) is Tagged and got.tag == "t" and got.tolist() == [1, 1]
    with pytest.raises(FileFormatError, match="names '.*Tagged'"):
        fl.load(io.BytesIO(file.getvalue()))
    with pytest.raises(FileFormatError, match="an instance of Tagged is wanted without elements"):
        load(made(here(Tagged)))


def test_derived_containers_take_their_items():
    got = load(made(here(Settings), b"}" + text("x") + number(1) + b"s", number(7)) + text("k") + number(2) + b"s")
    assert type(got) is Settings and got == {"k": (2, "set")} and got.x == 1


@pytest.mark.parametrize("kind, data", [(collections.UserDict, {"x": 1}), (collections.UserList, [1, 2]), (collections.UserString, "text")])
@pytest.mark.parametrize("protocol", [2, 4])
def test_names_that_pickle_writes_for_python_2(kind, data, protocol):
    value = kind(data)
    got = fl.load(io.BytesIO(archive(std_pickle.dumps(value, protocol))), weights_only=False)
    assert type(got) is kind and got.data == data


@pytest.mark.parametrize("inner", [here(Outer.Inner), name("__builtin__", "getattr") + tup(here(Outer), text("Inner")) + b"R"], ids=["dots", "getattr"])
def test_classes_in_classes(inner):
    got = load(made(inner, pairs(n=number(3))))
    assert type(got) is Outer.Inner and got.n == 3


@pytest.mark.slow
def test_objects_may_contain_themselves():
    n = 2000
    got = load(here(Space), put(0), b")\x81", put(1), pairs(me=get(1), held=b"](" + get(1) + get(1) + b"e"), b"b")
    assert got.me is got and got.held == [got, got]
    got = load(here(Space), put(0), b")\x81", *[get(0) + b")\x81" for _ in range(n)], *[put(1) + b"0" + put(2) + pairs(inner=get(1)) + b"b" for _ in range(n)])
    for _ in range(n):
        got = got.inner


def test_setstate_is_looked_for_in_the_class():
    assert type(load(made(here(Answering)))) is Answering


def test_kept_pytorch_names():
    assert load(tensor()).shape == (2, 2)


HARM = {
    "subprocess": (subprocess.Popen, "which no file may use"),
    "os": (os._wrap_close, "which no file may use"),
    "shutil": ("shutil.Error", "which no file may use"),
    "ctypes": (ctypes.CDLL, "of ctypes, whose objects do more"),
    "ctypes's own": (ctypes.Structure, "of _ctypes, whose objects do more"),
    "importlib": (importlib.machinery.SourceFileLoader, "which is not among|of .*importlib"),
    "processes": (multiprocessing.process.BaseProcess, "of multiprocessing"),
    "pools": (concurrent.futures.ThreadPoolExecutor, "of concurrent"),
    "threads": (threading.Thread, "of threading"),
    "timers": (threading.Timer, "of threading"),
    "sockets": (socket.socket, "of socket"),
    "folders that remove themselves": (tempfile.TemporaryDirectory, "of tempfile"),
    "files that remove themselves": (tempfile._TemporaryFileCloser, "of tempfile"),
    "archives": (zipfile.ZipFile, "of zipfile"),
    "files": (io.FileIO, "of _io"),
    "openers that remove files": (urllib.request.URLopener, "of urllib"),
    "interpreters": (code.InteractiveInterpreter, "of code,"),
    "mocks": (unittest.mock.Mock, "of unittest"),
    "event loops": (asyncio.Future, "of _?asyncio|compiled code"),
    "loggers": (logging.FileHandler, "of Python's own logging"),
    "finalizers": (weakref.finalize, "of weakref"),
    "methods of Python's own": (functools.partialmethod, "of Python's own functools"),
    "numbers at random": (random.Random, "of Python's own random"),
    "classes made on the way": (types.DynamicClassAttribute, "of Python's own (types|enum)"),
    "forward references": (typing.ForwardRef, "of Python's own typing"),
    "paths": (pathlib._PosixFlavour if hasattr(pathlib, "_PosixFlavour") else typing.ForwardRef, "of Python's own"),
    "properties": (property, "made by compiled code"),
    "classes": (type, "made by compiled code|type is called with"),
    "errors": (ValueError, "made by compiled code"),
    "files' lines": (ctypes.Array, "of _ctypes"),
    "a class with __del__": (Closing, "its __del__ would run"),
    "a class that inherits __del__": (Inheriting, "its __del__ would run"),
    "a process of the program's": (Process, "its base Popen is of subprocess|its base .* is of"),
    "a thread of the program's": (Worker, "its base Thread is of threading"),
    "memory of the program's": (Struct, "of _ctypes"),
    "a reducer": (Reducing, "by functions of its own"),
    "a dict with its own __new__": (NewDict, "has a __new__ of its own"),
    "arrays": (np.ndarray, "can not be made|made by compiled code"),
    "NumPy's memory in files": (np.memmap, "compiled code|functions of its own"),
    "NumPy's archives": (np.lib.npyio.NpzFile, "its __del__ would run"),
    "names with dots": ("posixpath.os.system", "which is not among"),
    "another name of a class": (f"{__name__}.Outer.Popen", "which is not among|of subprocess"),
    "a module in a class": (f"{__name__}.Outer.path.os.system", "which is not among"),
    "a module of a module": (f"{__name__}.subprocess.Popen", "which is not among|of subprocess"),
    "what is not imported": ("no_such_module.Space", "which is not among"),
    "a method": (f"{__name__}.Space.__init__", "which is not among"),
}


@pytest.mark.parametrize("what", list(HARM))
@pytest.mark.parametrize("how", ["made", "with a state", "called", "nested"])
def test_what_is_not_made(what, how):
    kind, says = HARM[what]
    full = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    module, _, last = full.rpartition(".")
    parts = {
        "made": name(module, last) + b")\x81",
        "with a state": made(name(module, last), pairs(name=text(MARK), close=here(touch), delete=b"\x88", _child_created=b"\x88")),
        "called": name(module, last) + tup(here(touch)) + b"R",
        "nested": made(here(Space), pairs(held=b"](" + made(name(module, last), pairs(x=number(1))) + b"e")),
    }[how]
    with pytest.raises(FileFormatError, match=says if how != "called" else "names|called|calls|has a") as error:
        load(parts)
    assert len(str(error.value)) < 1500


@pytest.mark.parametrize("function", [runpy.run_path, importlib.import_module, tempfile.mkdtemp, subprocess.call, threading.setprofile, asyncio.run], ids=lambda f: f.__name__)
def test_no_object_gets_functions_of_harm(function):
    with pytest.raises(FileFormatError, match="names '"):
        load(made(here(Stateful), pairs(f=name(function.__module__, function.__qualname__))))


STATES = {
    "a number": (number(3), "has the state 3; expected attributes by names"),
    "a text": (text("ab"), "has the state 'ab'"),
    "pairs": (b"](" + tup(text("a"), number(1)) + b"e", "has the state a list"),
    "three parts": (tup(b"}", b"}", b"}"), "has the state a tuple"),
    "keys that are numbers": (b"}" + number(1) + number(2) + b"s", "has the state a dict"),
    "a slot that is none": (tup(NONE, pairs(c=number(1))), "the slot 'c' in the file; expected one of a, b|the slot 'c'.*none"),
    "a property for a slot": (tup(NONE, pairs(risky=number(1))), "the slot 'risky' in the file"),
    "a class for a slot": (tup(NONE, pairs(__class__=here(Stateful))), "the slot '__class__' in the file"),
    "a dict for a slot": (tup(NONE, pairs(__dict__=pairs(a=number(1)))), "the slot '__dict__' in the file"),
    "slots that are a list": (tup(b"}", b"]"), "has the state a tuple"),
}


@pytest.mark.parametrize("state", list(STATES))
@pytest.mark.parametrize("kind", [Space, Slots], ids=["dict", "slots"])
def test_states_of_the_wrong_kind(kind, state):
    raw, says = STATES[state]
    with pytest.raises(FileFormatError, match=says):
        load(made(here(kind), raw))


def test_a_class_stays_what_it_is():
    got = load(made(here(Space), pairs(__class__=here(Stateful), __setstate__=here(touch), __del__=here(touch), __hash__=here(touch))))
    assert type(got) is Space and type(got).__hash__ is Space.__hash__
    del got


def test_faults_of_the_programs_code_are_the_files():
    with pytest.raises(FileFormatError, match="Failing, which was allowed, raised KeyError: 'missing'"):
        load(made(here(Failing)))
    with pytest.raises(FileFormatError, match="a key is a Endless, whose hash raised RecursionError"):
        load(b"}" + here(Endless) + b")\x81" + put(0) + pairs(again=get(0)) + b"b" + number(1) + b"s")


@pytest.mark.parametrize("args", [(), (number(10**9),), (text("x"), text("y")), (b"](" + number(1) + b"e",)], ids=["none", "a number", "two", "a list"])
def test_values_are_made_of_their_like(args):
    with pytest.raises(FileFormatError, match="a Big is made of .*; expected bytes"):
        load(made(here(Big), NONE, *args))


def test_large_values_are_not_made_often():
    with pytest.raises(FileFormatError, match="would be copied often"):
        load(here(Word), put(0), text("x" * 10_000), put(1), b"(", *[get(0) + get(1) + b"\x85\x81" for _ in range(100)], b"l")


def test_a_with_block_is_not_left():
    got = load(made(name("contextlib", "ExitStack"), pairs(_exit_callbacks=b"](" + tup(b"\x88", here(touch)) + b"e")))
    assert type(got) is contextlib.ExitStack
