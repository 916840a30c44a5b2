"""save and load: round trips, the container, hostile files."""

import io
import json
import math
import os
import stat
import struct
from collections import OrderedDict

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


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt"])
def test_files_are_the_same_wherever_the_tensors_lie(name, tmp_path):
    pieces = fl.zeros(64).chunk(8)  # in one memory, so that their order there is known
    files = []
    for order in (pieces, pieces[::-1]):
        fl.save({str(i): value.clone() if i == 0 else value for i, value in enumerate(order)}, tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


def test_shared_tensors_are_shared_again(path):
    x = fl.zeros(3)
    got = again({"a": x, "b": x, "c": fl.zeros(3)}, path)
    got["a"].fill_(1.0)
    assert got["b"].tolist() == [1, 1, 1] and got["c"].tolist() == [0, 0, 0]


def test_loaded_tensors_can_be_written_without_changing_the_file(path):
    got = again({"x": fl.zeros(4)}, path)
    got["x"].add_(5)
    assert fl.load(path)["x"].tolist() == [0, 0, 0, 0]


def test_parameters_and_gradients_come_back(path):
    frozen = nn.Parameter(fl.ones(2), requires_grad=False)
    leaf = fl.ones(3, requires_grad=True)
    obj = {"w": nn.Parameter(fl.zeros(2)), "frozen": frozen, "leaf": leaf, "result": leaf * 2, "plain": fl.ones(1),
           "buffer": nn.Buffer(fl.ones(1)), "passing": nn.Buffer(fl.ones(1), persistent=False)}  # fmt: skip
    got = again(obj, path)
    assert {k: type(v) for k, v in got.items()} == {k: type(v) for k, v in obj.items()}
    assert {k: v.requires_grad for k, v in got.items()} == {k: v.requires_grad for k, v in obj.items()}
    assert all(v.is_leaf for v in got.values())
    assert {k for k, v in got.items() if isinstance(v, nn.Buffer)} == {"buffer", "passing"}
    assert got["buffer"].persistent and not got["passing"].persistent


def test_a_state_dict_comes_back_whole(path):
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    state = net.state_dict()
    got = again({"model": state, "epoch": 3}, path)["model"]
    assert type(got) is type(state) is OrderedDict and list(got) == list(state)
    assert got._metadata == state._metadata and type(got._metadata) is type(state._metadata)
    assert again(state, path)._metadata == state._metadata  # a dict of tensors
    net.load_state_dict(got)


def test_one_object_is_one_object_again(path):
    shared, a = nn.Parameter(fl.ones(2)), np.ones(3)
    got = again({"tied": [shared, {"again": shared}], "x": fl.ones(2), "arrays": (a, a)}, path)
    assert got["tied"][0] is got["tied"][1]["again"] and got["arrays"][0] is got["arrays"][1]
    plain = again({"a": shared, "b": shared}, path)
    assert plain["a"] is plain["b"]


def test_other_plain_values(path):
    obj = {"size": fl.ones(2, 3).shape, "dtype": fl.bfloat16, "device": fl.device("cpu"), "set": {3, 1, (2, "x")}, "empty": set()}
    got = again(obj, path)
    assert got == obj and type(got["size"]) is fl.Size and type(got["set"]) is set


STRIDED = {
    "transposed": lambda: fl.arange(6.0).reshape(2, 3).t(),
    "permuted": lambda: fl.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "expanded": lambda: fl.arange(3.0).reshape(3, 1).expand(3, 1000),
    "of one": lambda: fl.ones(1).expand(2, 2),
}


@pytest.mark.parametrize("keys", [("x",), ("x", 1)], ids=["dict of tensors", "other"])
@pytest.mark.parametrize("name", list(STRIDED))
def test_strides_of_dense_tensors_come_back(name, keys, path):
    x = STRIDED[name]()
    got = again(dict.fromkeys(keys, x), path)["x"]
    assert got.stride() == x.stride() and got.shape == x.shape and fl.equal(got, x)
    if len(keys) > 1:
        assert os.path.getsize(path) < 1000  # repetitions are not written


def test_gaps_are_not_written(path):
    x = fl.arange(10_000.0)[::1000]
    got = again([x], path)[0]
    assert fl.equal(got, x) and got.is_contiguous() and os.path.getsize(path) < 1000


def random_views(rng, base):
    """Views of one vector that may overlap: slices, steps, shapes, transposes, repetitions."""
    views = []
    for _ in range(rng.integers(1, 6)):
        n = int(rng.integers(0, 9))
        start, step = int(rng.integers(0, 100)), int(rng.integers(1, 4))
        view = base[start : start + n * step : step]
        shapes = [(n,), (1, n), (n, 1), *([(2, n // 2), (n // 2, 2)] if n % 2 == 0 and n else [])]
        view = view.reshape(shapes[rng.integers(len(shapes))]) if step == 1 else view
        if rng.random() < 0.3:
            view = view.t() if view.ndim == 2 else view.unsqueeze(0).expand(2, n)
        views.append(view)
    return views


@pytest.mark.parametrize("whole", [False, True], ids=["parts", "with the whole"])
@pytest.mark.parametrize("plain", [False, True], ids=["list", "dict of tensors"])
@pytest.mark.parametrize("seed", range(40))
def test_views_of_one_memory_share_it_again(seed, plain, whole, path):
    """Whatever is written through one loaded view shows in the others as it does in the views that were saved."""
    rng = np.random.default_rng(seed)
    base = fl.arange(130.0)
    views = random_views(rng, base) + ([base] if whole else [])
    got = again({f"v{i}": v for i, v in enumerate(views)} if plain else views, path)
    got = list(got.values()) if plain else got
    for k, view in enumerate(views):
        assert got[k].shape == view.shape and fl.equal(got[k], view)
        if view.numel() and 0 not in view.stride():
            first = (0,) * view.ndim
            view[first] = got[k][first] = -1.0 - k
            for mine, other in zip(views, got):
                assert fl.equal(mine, other)


def test_memory_under_two_types_is_not_shared_again(path):
    x = fl.ones(2)
    got = again([x, x.view(fl.int32)], path)
    got[0].zero_()
    assert got[1].tolist() == [0x3F800000] * 2


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
        ({"optimizer": {"foo": Thing()}}, "optimizer.foo is a .*Thing;"),
        ({"a": [1, {2: Thing()}]}, r"a\[1\].2 is a"),
        (Thing(), "the object is a"),
        ({"a": {Thing(): 1}}, "dict a has a key"),
        ({"f": print}, "f is a builtin"),
        ({"s": {Thing()}}, "the set s has an element"),
        ([nn.Linear(1, 1)], r"\[0\] is a .*state_dict"),
        ({"z": [memoryview(b"x")]}, r"z\[0\] is a memoryview;"),
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


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "real", tmp_path / "link"
    link.symlink_to(target)  # dangling at first
    for value in (1, 2):
        fl.save({"x": value}, link)
        assert link.is_symlink() and fl.load(target) == fl.load(link) == {"x": value}
    assert os.listdir(target.parent) == ["real"]


@pytest.mark.parametrize("name, error", [
    ("none/file", FileNotFoundError), (".", IsADirectoryError), ("file/below", NotADirectoryError), ("n" * 300, OSError),
])  # fmt: skip
def test_errors_name_the_path_that_was_given(name, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(error) as caught:
        fl.save({"x": 1}, name)
    assert caught.value.filename == name and ".tmp" not in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_names_as_long_as_the_file_system_takes(tmp_path):
    path = tmp_path / ("n" * 255)
    assert again({"x": 1}, path) == {"x": 1} and os.listdir(tmp_path) == [path.name]


def test_what_is_no_regular_file_is_written_to_and_stays(path):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fl.save({"x": 1}, path)
        assert stat.S_ISFIFO(os.stat(path).st_mode)
        assert fl.load(io.BytesIO(os.read(reader, 10000))) == {"x": 1}
    finally:
        os.close(reader)


@pytest.mark.parametrize("load", [fl.load, fl.graph.Graph.load, fl.serialization.safe_open], ids=["load", "Graph.load", "safe_open"])
def test_a_device_is_not_read_to_its_end(load):
    with pytest.raises(fl.serialization.FileFormatError, match="load: /dev/zero is a device, whose bytes may have no end"):
        load("/dev/zero")


@pytest.mark.parametrize("obj, place", [({"a": [fl.empty(2, device="meta")]}, r"a\[0\]"), (fl.empty(2, device="meta"), "the object")])
def test_meta_tensors_are_named_by_place(obj, place, path):
    with pytest.raises(RuntimeError, match=f"save: {place} is on the meta device"):
        fl.save(obj, path)


@pytest.mark.parametrize("f", [3.5, None, ["a"]], ids=str)
def test_what_is_no_file(f):
    for call in (lambda: fl.save({}, f), lambda: fl.load(f)):
        with pytest.raises(TypeError, match="expected 'f' to be string, path, or a file-like object"):
            call()


# ------------------------------------------------------------------------------------ file objects


def test_file_objects(path):
    obj = {"x": fl.arange(3), "n": [1, "text"]}
    buffer = io.BytesIO()
    fl.save(obj, buffer)
    buffer.seek(0)
    with open(path, "wb") as file:
        fl.save(obj, file)
    assert buffer.getvalue() == path.read_bytes()
    with open(path, "rb") as file:
        loaded = [fl.load(buffer), fl.load(file), fl.load(os.fsencode(path)), fl.load(path, mmap=False)]
    for got in loaded:
        assert got["x"].tolist() == [0, 1, 2] and got["n"] == obj["n"]
        got["x"].add_(1)
    assert fl.load(path)["x"].tolist() == [0, 1, 2]


def test_file_objects_that_stand_elsewhere():
    buffer = io.BytesIO(b"before")
    buffer.seek(6)
    fl.save({"x": fl.ones(2)}, buffer)
    buffer.seek(6)
    assert fl.load(buffer)["x"].tolist() == [1, 1] and buffer.getvalue().startswith(b"before")


def test_damaged_file_objects_and_text_files(path):
    with pytest.raises(ValueError, match="load: BytesIO has 3 bytes"):
        fl.load(io.BytesIO(b"abc"))
    path.write_bytes(b"")
    with open(path, "w") as file, pytest.raises(TypeError, match="open it with 'wb'"):
        fl.save({}, file)
    with open(path) as file, pytest.raises(TypeError, match="open it with 'rb'"):
        fl.load(file)
    with open(path, "rb") as file, pytest.raises(ValueError, match="mmap = True with a file object"):
        fl.load(file, mmap=True)


# ------------------------------------------------------------------------------------ map_location


@pytest.mark.parametrize("where, device", [
    (None, "cpu"), ("cpu", "cpu"), ("meta", "meta"), (fl.device("meta"), "meta"), ({"cpu": "meta"}, "meta"),
    ({"cuda:0": "cpu"}, "cpu"), (lambda x, location: x, "cpu"), (lambda x, location: None, "cpu"),
    (lambda x, location: x.to(device={"cpu": "meta"}[location]), "meta"),
], ids=lambda v: "function" if callable(v) else str(v))
def test_map_location(where, device, path):
    fl.save({"x": fl.ones(2)}, path)
    assert fl.load(path, where, weights_only=True)["x"].device.type == device
    assert fl.load(path, map_location=where, weights_only=False)["x"].device.type == device


def test_bad_map_locations(path):
    fl.save({"x": fl.ones(2)}, path)
    with pytest.raises(TypeError, match="map_location returned a int"):
        fl.load(path, lambda x, location: 3)
    with pytest.raises(RuntimeError, match="cuda"):
        fl.load(path, "cuda")


# ------------------------------------------------------------------------------------------ arrays


def test_arrays_come_back_as_tensors(path):
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = again({"a": a, "back": a[::-1], "big": a.astype(">f8"), "none": np.zeros((0, 2)), "twin": [a, a], "one": np.float64(2)}, path)
    assert isinstance(got["a"], fl.Tensor) and got["a"].dtype == fl.float32 and got["big"].dtype == fl.float64
    for name, want in (("a", a), ("back", a[::-1]), ("big", a), ("none", np.zeros((0, 2)))):
        np.testing.assert_array_equal(got[name].numpy(), want)
    got["twin"][0].fill_(7)
    assert got["twin"][1].tolist() == [[7, 7, 7], [7, 7, 7]] and got["one"] == 2.0


@pytest.mark.parametrize("a", [np.array(["a"]), np.array([object()]), np.ones(2, "M8[s]")], ids=lambda a: str(a.dtype))
def test_arrays_without_counterpart_are_named_by_place(a, path):
    with pytest.raises(TypeError, match=r"save: x\[1\] is an array of dtype"):
        fl.save({"x": [1, a]}, path)


@pytest.mark.parametrize("dtype", [fl.complex64, fl.complex128])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)], ids=str)
def test_complex_tensors_come_back(dtype, shape, path):
    x = fl.randn(shape, dtype=dtype)
    got = again({"x": x, "parts": x.real.clone(), "twin": x}, path)
    assert got["x"].dtype is dtype and got["x"].shape == x.shape and got["twin"].data_ptr() == got["x"].data_ptr()
    np.testing.assert_array_equal(got["x"].numpy(), x.numpy())


def test_another_reader_sees_complex128_as_pairs(path):
    x = fl.tensor([1 + 2j, 3 - 4j], dtype=fl.complex128)
    fl.save({"x": x, "y": x.to(fl.complex64)}, path)
    read = pytest.importorskip("safetensors.numpy").load(path.read_bytes())
    pairs = [v for v in read.values() if v.dtype == np.float64]
    assert len(pairs) == 1 and pairs[0].tolist() == [[1, 2], [3, -4]]


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
    "a page": (b"<html><body>404</body></html>", "begin with b'<html><b', as no file of tensors does: those of PyTorch, NumPy, safetensors and GGUF are read"),
    "huge header": (container(b"{}", length=2**60), "announces a header of 1152921504606846976"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}" * 3, "is refused at its first pickle"),
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
    "huge and empty": (container({"x": entry(shape=(2**62, 2**62, 0), offsets=(0, 0))}), "needs more"),
    "complex": (container({"x": entry("C128", (1,), (0, 16))}, 2 * EIGHT), "dtype 'C128'; expected one of F64"),
    "complex without pairs": (container({"x": entry(shape=(2,)), "__metadata__": {"flambeau.complex128": '["x"]'}}, EIGHT), "no F64 tensor"),
    "complex of nothing": (container({"x": entry(shape=(2,)), "__metadata__": {"flambeau.complex128": '["y"]'}}, EIGHT), "names 'y'"),
    "no bool": (container({"x": entry("BOOL", (8,))}, b"\0\1\2\0\0\0\0\0"), "BOOL holds a byte 2"),
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
    "structure: two kinds": (with_structure({"t": [], "d": []}), "unknown node"),
    "structure: class": (with_structure({"T": "x", "c": "os"}), "unknown node"),
    "structure: more": (with_structure({"T": "x", "exec": 1}), "unknown node"),
    "structure: grad": (with_structure({"T": "x", "g": 2}), "unknown node"),
    "structure: never met": (with_structure([{"=": 0}, {"T": "x", "i": 0}]), "unknown node"),
    "structure: met twice": (with_structure([{"T": "x", "i": 0}, {"T": "x", "i": 0}]), "unknown node"),
    "structure: dtype": (with_structure({"D": "ones"}), "unknown node"),
    "structure: dtype of a list": (with_structure({"D": ["x"]}), "unknown node"),
    "structure: huge repetition": (with_structure({"T": "x", "as": [[2**57], [0]]}), "too large"),
    "structure: device": (with_structure({"V": "exec"}), "unknown node"),
    "structure: size": (with_structure({"z": [-1]}), "a Size of"),
    "structure: set": (with_structure({"s": [[1]]}), "unknown dict key"),
    "structure: metadata": (with_structure({"o": [], "m": 3}), "metadata of a state dict"),
    "structure: view beyond": (with_structure({"T": "x", "at": [0, [2], [2**40]]}), "beyond the"),
    "structure: view before": (with_structure({"T": "x", "at": [-1, [1], [1]]}), "no sizes"),
    "structure: view of floats": (with_structure({"T": "x", "at": [0, [1.0], [1]]}), "no sizes"),
    "structure: view of another rank": (with_structure({"T": "x", "at": [0, [1], []]}), "a view of tensor"),
    "structure: huge view": (with_structure({"T": "x", "at": [0, [2**40, 2**40], [0, 0]]}), "too large"),
    "structure: strides": (with_structure({"T": "x", "as": [[1, 1], [7, 9]]}), "for an entry of shape"),
    "structure: strides that overlap": (with_structure({"T": "x", "as": [[2], [-1]]}), "no sizes"),
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


@pytest.mark.slow
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


def test_a_file_that_takes_little_at_a_time():
    class Raw(io.RawIOBase):
        def __init__(self):
            self.bytes = b""

        def writable(self):
            return True

        def write(self, data):
            self.bytes += bytes(data[:100])
            return min(100, len(data))

    raw, x = Raw(), fl.arange(500.0)
    fl.save({"x": x}, raw)
    assert fl.equal(fl.load(io.BytesIO(raw.bytes))["x"], x)


@pytest.mark.parametrize("format", [None, "pt"])
def test_an_open_file_has_all_of_it_at_once(tmp_path, format):
    with open(tmp_path / "x", "wb") as file:
        fl.save({"x": fl.arange(3)}, file, format=format)
        assert fl.load(tmp_path / "x")["x"].tolist() == [0, 1, 2]


def test_what_pickles_has_no_say():
    import pickle

    file = io.BytesIO()
    fl.save({"x": fl.arange(3)}, file, pickle, 4, True, False, format="pt")
    assert fl.load(io.BytesIO(file.getvalue()), None, pickle)["x"].tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="save: pickle_module = 'pt'; pass format= by its name"):
        fl.save({}, io.BytesIO(), "pt")
    with pytest.raises(TypeError, match="load: pickle_module = False; expected None or a module"):
        fl.load(file, "cpu", False)
    with pytest.raises(ValueError, match="_use_new_zipfile_serialization = False with format = None; expected True"):
        fl.save({}, io.BytesIO(), _use_new_zipfile_serialization=False)


NUMBERS = [np.float64(1.5), np.float32(-2.5), np.float16(0.5), np.int64(-3), np.int32(7), np.uint8(200), np.bool_(True), np.complex128(1 - 2j), np.complex64(2j)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: type(number).__name__)
@pytest.mark.parametrize("stream", [False, True])
def test_numbers_of_numpy_keep_their_type_in_pytorchs_format(number, stream):
    file = io.BytesIO()
    fl.save({"best": number, "all": [number, number]}, file, format="pt", _use_new_zipfile_serialization=not stream)
    for weights_only in (True, False):
        file.seek(0)
        found = fl.load(file, weights_only=weights_only)
        assert type(found["best"]) is type(number) and found["best"] == number and type(found["all"][1]) is type(number)


def test_a_text_of_numpy_is_a_text():
    file = io.BytesIO()
    fl.save(np.str_("name"), file, format="pt")
    file.seek(0)
    assert type(fl.load(file)) is str


@pytest.mark.parametrize("form", [None, "pt", "npz", "npy"], ids=str)
@pytest.mark.parametrize("how", [{}, {"mmap": False}, io.BytesIO], ids=["mapped", "read", "in memory"])
def test_a_region_on_meta_is_not_about_what_a_file_holds(form, how, path):
    """A model without bytes is made there, and its weights loaded."""
    x = fl.arange(3)
    if form in ("npz", "npy"):
        with open(path, "wb") as file:
            np.savez_compressed(file, x=x.numpy()) if form == "npz" else np.save(file, x.numpy())
    else:
        fl.save({"x": x, "none": fl.zeros(0)}, path, **({"format": form} if form else {}))
    with fl.device("meta"):
        loaded = fl.load(io.BytesIO(path.read_bytes())) if how is io.BytesIO else fl.load(path, **how)
    loaded = loaded if form == "npy" else loaded["x"]
    assert loaded.device.type == "cpu" and loaded.equal(x)
