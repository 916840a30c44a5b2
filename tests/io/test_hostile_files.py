"""Hostile files of every format are refused, each with the reason, before anything of theirs has happened."""

import os
import tracemalloc

import pytest
from hostile import GOOD_STREAM, GOOD_ZIP, HOSTILE, MARK
from makers import archive, name, number, pickle, put, stream, tensor, text, tup

import flambeau as fl
import flambeau.nn  # whose import takes memory
import flambeau.return_types
import flambeau.sparse  # and these modules'
from flambeau.serialization import FileFormatError


def test_there_are_many():
    assert len(HOSTILE) >= 60


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
@pytest.mark.parametrize("what", list(HOSTILE))
def test_hostile_files_are_refused(what, mmap, tmp_path):
    content, says = HOSTILE[what]
    content = content() if callable(content) else content
    path = tmp_path / ("x.index.json" if what.startswith("index") else "x.pt")
    path.write_bytes(content)
    fl.reset_peak_memory_stats()
    before = fl.memory_stats()["allocated_bytes"]
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=says) as error:
            fl.load(path, mmap=mmap)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(error.value).startswith(f"load: {path} ")
    assert len(str(error.value)) < 1000
    assert not os.path.exists(MARK)
    bound = (1 << 20) + 400 * len(content)
    assert peak < bound and fl.memory_stats()["peak_allocated_bytes"] - before < bound


@pytest.mark.slow
@pytest.mark.parametrize("good", [GOOD_ZIP, GOOD_STREAM], ids=["archive", "stream"])
def test_every_truncation_is_refused(good, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(good)
    fl.load(path)
    for n in range(len(good)):
        path.write_bytes(good[:n])
        with pytest.raises(FileFormatError, match="load: "):
            fl.load(path, mmap=n % 2 == 0)


def test_values_may_contain_themselves(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(archive(pickle(b"]" + put(0) + b"(h\0h\0e")))
    got = fl.load(path)
    assert got[0] is got and got[1] is got and len(got) == 2


@pytest.mark.slow
def test_values_may_be_deep(tmp_path):
    path = tmp_path / "x.pt"
    n = 50_000
    path.write_bytes(archive(pickle(b"]" * n + b"a" * (n - 1))))
    got, depth = fl.load(path), 1
    while got:
        (got,) = got
        depth += 1
    assert depth == n


def test_an_error_has_the_place(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(archive(pickle(b"]" + name("evil", "thing"))))
    with pytest.raises(FileFormatError, match=r"x.pt is refused at archive/data.pkl, byte 3 \(GLOBAL\): it names 'evil.thing'.*add_safe_globals"):
        fl.load(path)


class Point:
    def __init__(self, x=0):
        self.x = x


class Slots:
    __slots__ = ("a",)


class Stateful:
    def __setstate__(self, state):
        self.got = state


def make(*args):
    return Point(sum(args))


def fail(*args):
    raise KeyError("no")


def in_file(what):
    return name("lib", what)


def test_classes_and_functions_that_are_allowed(tmp_path):
    path = tmp_path / "x.pt"
    state = b"}(" + text("x") + number(7) + b"u"
    path.write_bytes(archive(pickle(b"](",
        in_file("Point") + b")\x81" + state + b"b",
        in_file("make") + tup(number(1), number(2)) + b"R",
        in_file("Stateful") + b")\x81" + tensor() + b"b",
        in_file("Slots") + b")\x81" + tup(b"N", b"}" + text("a") + number(3) + b"s") + b"b",
        in_file("L") + b")\x81(" + number(1) + number(2) + b"e",
        in_file("D") + b")\x81" + text("k") + number(2) + b"s",
        in_file("Point"), b"e")))  # fmt: skip

    class L(list):
        pass

    class D(dict):
        pass

    allowed = [(what, f"lib.{what.__name__}") for what in (Point, make, Stateful, Slots, L, D)]
    with pytest.raises(FileFormatError, match="names 'lib.Point'"):
        fl.load(path)
    assert fl.serialization.get_unsafe_globals_in_checkpoint(path) == [f"lib.{k}" for k in ("Point", "make", "Stateful", "Slots", "L", "D")]
    with fl.serialization.safe_globals(allowed):
        point, made, stateful, slots, some, pairs, cls = fl.load(path, weights_only=False)
        assert fl.serialization.get_unsafe_globals_in_checkpoint(path) == []
    assert point.x == 7 and made.x == 3 and stateful.got.shape == (2, 2) and slots.a == 3
    assert type(some) is L and some == [1, 2] and type(pairs) is D and pairs == {"k": 2} and cls is Point
    assert fl.serialization.get_safe_globals() == []


def test_errors_of_what_is_allowed(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(archive(pickle(in_file("fail") + b")R")))
    with fl.serialization.safe_globals([(fail, "lib.fail")]), pytest.raises(FileFormatError, match="lib.fail, which was allowed, raised KeyError: 'no'"):
        fl.load(path)


def test_what_can_not_be_allowed():
    with pytest.raises(ValueError, match="of module posix, which no file may use"):
        fl.serialization.add_safe_globals([os.system])
    with pytest.raises(ValueError, match="which no file may use"):
        fl.serialization.add_safe_globals([(print, "os.system")])
    for wrong in (3, (Point,), (Point, 3), ("x", "y")):
        with pytest.raises(TypeError, match="expected a class or function"):
            fl.serialization.add_safe_globals([wrong])
    assert fl.serialization.get_safe_globals() == []


@pytest.mark.parametrize("content", [archive(pickle(number(1))), stream(pickle(number(1)), {})], ids=["archive", "stream"])
def test_weights_only_false(content, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    assert fl.load(path) == fl.load(path, weights_only=False) == 1
