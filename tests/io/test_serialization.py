"""save and load: round trips, the container, hostile files."""

import json
import math
import os
import struct

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def again(obj, path):
    fl.save(obj, path)
    return fl.load(path)


# ------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)], ids=str)
def test_dtypes_and_shapes(dtype, shape, path):
    n = math.prod(shape)
    x = fl.arange(n).reshape(shape).to(getattr(fl, dtype))
    y = again({"x": x, "other": fl.ones(1, dtype=fl.uint8)}, path)["x"]
    assert y.dtype == x.dtype and y.shape == x.shape and bool((y == x).all())


def test_structures(path):
    obj = {
        "a": [1, 2.5, "text", None, True, (fl.ones(1), [])],
        3: {"x": {}, -1: "minus"},
        None: (),
        (1, "k"): 2,
        True: 1.5,
        2.5: [float("inf"), -math.inf],
    }
    got = again(obj, path)
    assert list(got) == list(obj) and [type(k) for k in got] == [type(k) for k in obj]
    assert got[3] == {"x": {}, -1: "minus"} and got[2.5] == [math.inf, -math.inf]
    assert got["a"][:5] == obj["a"][:5] and isinstance(got["a"][5], tuple)
    assert got["a"][5][0].tolist() == [1.0]
    assert math.isnan(again(float("nan"), path))


@pytest.mark.parametrize("obj", [None, 3, "x", [], {}, (), 2**100], ids=repr)
def test_without_tensors(obj, path):
    assert again(obj, path) == obj


def test_a_single_tensor(path):
    assert again(fl.arange(3), path).tolist() == [0, 1, 2]


def test_views_are_written_by_value(path):
    base = fl.arange(1000.0)
    view = base[:20].reshape(4, 5).t()
    got = again({"view": view}, path)["view"]
    assert (got == view).all() and got.shape == (5, 4)
    assert os.path.getsize(path) < 1000


def test_shared_tensors_are_shared_again(path):
    x = fl.zeros(3)
    got = again({"a": x, "b": x, "c": fl.zeros(3)}, path)
    got["a"].fill_(1.0)
    assert got["b"].tolist() == [1, 1, 1] and got["c"].tolist() == [0, 0, 0]


def test_loaded_tensors_can_be_written_without_changing_the_file(path):
    got = again({"x": fl.zeros(4)}, path)
    got["x"].add_(5)
    assert fl.load(path)["x"].tolist() == [0, 0, 0, 0]


def test_parameters_come_back_as_plain_tensors(path):
    got = again(nn.Linear(2, 2).state_dict(keep_vars=True), path)
    assert type(got["weight"]) is fl.Tensor and not got["weight"].requires_grad


def test_names_that_clash(path):
    obj = {"a": {"b": fl.zeros(1)}, "a.b": fl.ones(1), "__metadata__": fl.ones(2)}
    got = again(obj, path)
    assert got["a"]["b"].item() == 0 and got["a.b"].item() == 1
    assert got["__metadata__"].tolist() == [1, 1]


# ----------------------------------------------------------------------------- the safetensors side


def test_the_safetensors_package_reads_our_files(path):
    st = pytest.importorskip("safetensors.numpy")
    x = fl.arange(6.0).reshape(2, 3)
    fl.save({"x": x, "twin": x, "n": fl.tensor([1], dtype=fl.uint8)}, path)
    got = st.load_file(path)
    assert set(got) == {"x", "twin", "n"}
    np.testing.assert_array_equal(got["twin"], x.numpy())


def test_we_read_files_of_the_safetensors_package(path):
    st = pytest.importorskip("safetensors.numpy")
    st.save_file({"b": np.arange(3, dtype=np.int16), "a": np.ones((2, 2))}, path, {"who": "them"})
    got = fl.load(path)
    assert got["b"].tolist() == [0, 1, 2] and got["a"].dtype == fl.float64


# ------------------------------------------------------------------------------------------ saving


class Thing:
    pass


@pytest.mark.parametrize(
    "obj, place",
    [
        ({"optimizer": {"foo": Thing()}}, "optimizer.foo is a <class '.*Thing'>"),
        ({"a": [1, {2: Thing()}]}, r"a\[1\].2 is a"),
        (Thing(), "the object is a"),
        ({"a": {Thing(): 1}}, "dict a has a key"),
        ({"f": print}, "f is a <class 'builtin"),
        ({"s": {1, 2}}, "s is a <class 'set'>"),
        ([nn.Linear(1, 1)], r"\[0\] is a .*state_dict"),
    ],
)
def test_other_types_are_named_by_place(obj, place, path):
    with pytest.raises(TypeError, match=place):
        fl.save(obj, path)
    assert not path.exists()


def test_cycles_and_depth(path):
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        fl.save({"a": loop}, path)
    deep = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper"):
        fl.save(deep, path)


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    fl.save({"x": 1}, path)

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        fl.save({"x": 2}, path)
    monkeypatch.undo()
    assert fl.load(path) == {"x": 1}
    assert os.listdir(path.parent) == [path.name]


# ----------------------------------------------------------------------------------- hostile files


def container(header, data=b"", length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def with_structure(structure):
    text = structure if isinstance(structure, str) else json.dumps(structure)
    meta = {"flambeau.format": "1", "flambeau.structure": text}
    return container({"__metadata__": meta, "x": entry()}, bytes(8))


EIGHT = bytes(8)
BAD = {
    "empty": (b"", "has 0 bytes"),
    "short": (b"abc", "has 3 bytes"),
    "huge header": (container(b"{}", length=2**60), "announces a header of 1152921504606846976"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}" * 3, "announces a header"),
    "truncated header": (container({"x": entry()}, EIGHT)[:30], "announces a header"),
    "truncated data": (container({"x": entry()}, bytes(7)), "the file has 7 data bytes"),
    "extra data": (container({"x": entry()}, bytes(9)), "the tensors end at byte 8"),
    "no JSON": (container(b"{nope}"), "not valid JSON"),
    "no UTF-8": (container(b"\xff\xfe{}"), "not UTF-8"),
    "NaN": (container(b'{"x": NaN}'), "holds NaN"),
    "list": (container(b"[]"), "not a JSON object"),
    "deep header": (container(b"[" * 100000), "nested too deeply|not valid JSON"),
    "bad dtype": (container({"x": entry("F31")}, EIGHT), "dtype 'F31'"),
    "dtype no str": (container({"x": entry(["F32"])}, EIGHT), "dtype"),
    "negative size": (container({"x": entry(shape=(-2, -1))}, EIGHT), "expected sizes >= 0"),
    "bool size": (container({"x": entry(shape=(True, 2))}, EIGHT), "expected sizes >= 0"),
    "float size": (container({"x": entry(shape=(2.0,))}, EIGHT), "expected sizes >= 0"),
    "huge size": (container({"x": entry(shape=(2**62, 2**62))}, EIGHT), "needs"),
    "many dims": (container({"x": entry(shape=(1,) * 100)}, EIGHT), "has shape"),
    "size mismatch": (container({"x": entry(shape=(3,))}, EIGHT), "needs 12 bytes.*hold 8"),
    "reversed": (container({"x": entry(offsets=(8, 0))}, EIGHT), "data_offsets"),
    "negative": (container({"x": entry(offsets=(-8, 0))}, EIGHT), "data_offsets"),
    "beyond": (container({"x": entry(offsets=(8, 16))}, EIGHT), "the file has 8 data bytes"),
    "overlap": (
        container({"x": entry(), "y": entry(offsets=(4, 12))}, bytes(12)),
        "'y' at byte 4 overlaps 'x'",
    ),
    "same bytes": (container({"x": entry(), "y": entry()}, EIGHT), "overlaps"),
    "gap": (container({"x": entry(offsets=(4, 12))}, bytes(12)), "leaves a gap"),
    "duplicate": (
        container(b'{"x":%s,"x":%s}' % ((json.dumps(entry()).encode(),) * 2), EIGHT),
        "'x' appears twice",
    ),
    "missing field": (container({"x": {"dtype": "F32"}}), "not described"),
    "metadata": (container({"__metadata__": {"a": 1}}), "not an object of strings"),
    "structure: JSON": (with_structure("{"), "structure is not valid JSON"),
    "structure: name": (with_structure({"T": "y"}), "names a tensor 'y'"),
    "structure: node": (with_structure({"exec": "1"}), "unknown node"),
    "structure: pair": (with_structure({"d": [[1]]}), "no \\(key, value\\) pair"),
    "structure: key": (with_structure({"d": [[{"T": "x"}, 1]]}), "unknown dict key"),
    "structure: deep": (with_structure("[" * 5000 + "]" * 5000), "nested"),
    "structure: format": (
        container({"__metadata__": {"flambeau.structure": "1", "flambeau.format": "9"}}),
        "flambeau.format = '9'",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_files_are_refused(name, path):
    content, text = BAD[name]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=text) as error:
        fl.load(path)
    assert str(path) in str(error.value)


def test_every_truncation_is_refused(path):
    fl.save({"x": fl.arange(4), "y": [fl.ones(2), "text"]}, path)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        with pytest.raises(ValueError, match="load: "):
            fl.load(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        fl.load(tmp_path / "none")
