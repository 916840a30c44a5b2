"""PyTorch's files without PyTorch: bytes as it writes them. tests/parity/test_files.py asks PyTorch itself."""

import collections
import io
import os
import pickle
import struct
import sys
import threading
import zipfile

import makers as m
import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.serialization import FileFormatError, _zip
from flambeau.serialization._options import (
    LoadEndianness,
    get_default_load_endianness,
    set_default_load_endianness,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.pt"


def loaded(content, *args, **how):
    return fl.load(io.BytesIO(content), *args, **how)


def again(obj, path=None, **how):
    out = path or io.BytesIO()
    fl.save(obj, out, format="pt")
    return fl.load(path or io.BytesIO(out.getvalue()), **how)


# ------------------------------------------------------------------------------------------- reading


def check_the_net(got):
    net = got["net"]
    assert type(net) is collections.OrderedDict and net._metadata == {"version": 1}
    assert net["w"].tolist() == [[0, 1], [2, 3]] and net["view"].tolist() == [1, 2, 3] and net["tied"] is net["w"]
    assert type(net["p"]) is nn.Parameter and net["p"].requires_grad and not net["w"].requires_grad
    net["w"][0, 1] = 9
    assert net["view"].tolist() == [9, 2, 3] and net["p"].detach().tolist() == [[0, 9], [2, 3]]
    assert got["lr"] == 0.1 and got["b"].tolist() == [False, True]
    assert got["plain"] == [-5, 2**70, None, True, "x", {1, 2}, 0j, b"ab", fl.float32, fl.Size([2, 3]), fl.device("cpu")]


@pytest.mark.parametrize("compress", [False, True], ids=["stored", "deflated"])
@pytest.mark.parametrize("how", ["mapped", "read", "object"])
def test_a_checkpoint(how, compress, path):
    content = m.archive(m.state_of_a_net(), {"0": m.FOUR, "1": b"\0\1"}, compress)
    path.write_bytes(content)
    check_the_net(loaded(content) if how == "object" else fl.load(path, mmap=how == "mapped"))
    assert path.read_bytes() == content


def test_a_view_of_something_empty_may_begin_anywhere():
    got = loaded(m.archive(m.pickle(m.tensor(m.storage(count=0), offset=m.number(3), sizes=m.numbers(1, 0), strides=m.numbers(3, 1))), {"0": b""}))
    assert got.shape == (1, 0) and got.dtype is fl.float32


def test_big_endian_archives():
    storages = {"0": np.arange(4, dtype=">f4").tobytes(), "1": b"\0\1"}
    check_the_net(loaded(m.archive(m.state_of_a_net(), storages, byteorder=b"big")))


@pytest.mark.parametrize("kind, dtype, raw", [
    ("ComplexFloatStorage", "complex64", np.array([1 + 2j, 3 - 4j], ">c8")), ("HalfStorage", "float16", np.array([1, 2], ">f2")),
    ("ComplexDoubleStorage", "complex128", np.array([1 + 2j, 3 - 4j], ">c16")), ("ByteStorage", "uint8", np.array([1, 2], "u1")),
    ("LongStorage", "int64", np.array([1, -(2**40)], ">i8")),
])  # fmt: skip
def test_big_endian_types(kind, dtype, raw):
    pickled = m.pickle(m.tensor(m.storage("0", 2, kind), sizes=m.numbers(2), strides=m.numbers(1)))
    got = loaded(m.archive(pickled, {"0": raw.tobytes()}, byteorder=b"big"))
    assert got.dtype is getattr(fl, dtype) and got.tolist() == raw.tolist()
    stream = m.stream(m.pickle(m.tensor(m.stream_storage(count=2, kind=kind), sizes=m.numbers(2), strides=m.numbers(1))), {"7": (2, raw.tobytes())}, order=">")
    assert loaded(stream).tolist() == raw.tolist()


def test_a_big_endian_storage_under_two_types():
    two = m.tup(m.tensor(), m.tensor(m.storage(kind="IntStorage")))
    with pytest.raises(FileFormatError, match="is big-endian and shown as flambeau.float32 and flambeau.int32"):
        loaded(m.archive(m.pickle(two), byteorder=b"big"))


def test_a_storage_under_two_types_is_one_memory():
    a, b = loaded(m.archive(m.pickle(m.tup(m.tensor(), m.tensor(m.storage(kind="IntStorage"))))))
    assert b.dtype is fl.int32 and b[0, 1].item() == 0x3F800000
    b.zero_()
    assert a.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("how", ["mapped", "read"])
def test_streams_with_parts(how, path):
    part = m.tensor(m.stream_storage(view=m.tup(m.text("v"), m.number(1), m.number(2))), sizes=m.numbers(2), strides=m.numbers(1))
    path.write_bytes(m.stream(m.pickle(m.tup(m.tensor(m.stream_storage()), part))))
    whole, part = fl.load(path, mmap=how == "mapped")
    assert part.tolist() == [1, 2]
    part.zero_()
    assert whole.tolist() == [[0, 0], [0, 3]]


def test_functions_of_the_user_run_once_in_streams():
    calls = []

    def note(*args):
        calls.append(args[0].tolist())
        return len(calls)

    content = m.stream(m.pickle(m.call(m.name("lib", "note"), m.tensor(m.stream_storage()))))
    with fl.serialization.safe_globals([(note, "lib.note")]):
        assert loaded(content) == 1
    assert calls == [[[0, 1], [2, 3]]]


def test_old_dicts_and_texts():
    pairs = b"](" + b"](" + m.text("a") + b"K\1e" + b"](" + m.text("b") + b"K\2ee"
    assert loaded(m.archive(m.pickle(m.call(m.name("collections", "OrderedDict"), pairs)))) == collections.OrderedDict(a=1, b=2)
    assert loaded(m.archive(b"(S'old'\nI01\nI00\nI7\nL8L\nF2.5\nVtext\nl.")) == ["old", True, False, 7, 8, 2.5, "text"]
    assert loaded(m.archive(m.pickle(b"U\3abcU\2\xff\xfe\x86"))) == ("abc", b"\xff\xfe")
    assert loaded(m.archive(m.pickle(m.call(m.name("collections", "Counter"), m.dictionary(a=m.number(3)))))) == collections.Counter(a=3)


def test_torchscript():
    module = m.name("__torch__", "Net") + b")\x81" + b"}(" + m.text("weight") + m.tensor(grad=m.TRUE) + m.text("inner") + m.name("__torch__.sub", "Inner") + b")\x81"
    module += m.dictionary(bias=m.tensor(sizes=m.numbers(2), strides=m.numbers(1)), training=m.TRUE) + b"b" + m.text("training") + m.TRUE + b"ub"
    got = loaded(m.archive(m.pickle(module), **{"constants.pkl": m.pickle(b")"), "code/__torch__.py": b"import os\n"}))
    assert list(got) == ["weight", "inner.bias"] and got["inner.bias"].tolist() == [0, 1] and not got["weight"].requires_grad
    with pytest.raises(FileFormatError, match="names '__torch__.Net'"):
        loaded(m.archive(m.pickle(module)))  # no archive of TorchScript


# ------------------------------------------------------------------------------------------- places

CUDA = m.archive(m.pickle(m.tup(m.tensor(m.storage(location="cuda:1")), m.tensor(m.storage("1", 4)))), {"0": m.FOUR, "1": m.FOUR})


def test_what_lay_on_a_device_wants_a_place():
    with pytest.raises(fl._C.DeviceError, match="saved on 'cuda:1', which is not here; pass map_location='cpu'"):
        loaded(CUDA)
    for where in ("cpu", fl.device("cpu"), {"cuda:1": "cpu"}, lambda storage, location: storage):
        assert [x.tolist() for x in loaded(CUDA, where)] == [[[0, 1], [2, 3]]] * 2
    assert [x.device.type for x in loaded(CUDA, {"cuda:1": "meta"})] == ["meta", "cpu"]
    assert all(x.is_meta and x.shape == (2, 2) for x in loaded(CUDA, "meta"))


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "cpu", "meta"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_device_is_a_value_wherever_it_is(device, weights_only, tmp_path):
    """Options of whoever trained it lie in a checkpoint, and name the GPU that it was trained on."""
    fl.save({"device": fl.device(device)}, tmp_path / "x.pt", format="pt")
    assert fl.load(tmp_path / "x.pt", weights_only=weights_only) == {"device": fl.device(device)}
    kind, *index = device.split(":")
    (value,) = loaded(m.archive(m.pickle(m.tup(m.call(m.name("torch", "device"), m.text(kind), *(m.number(int(i)) for i in index))))))
    assert value == fl.device(device)


@pytest.mark.parametrize("make", [
    lambda x: x.max(0), lambda x: x.topk(1), lambda x: x.sort(), fl.linalg.svd, fl.linalg.slogdet, fl.linalg.qr,
], ids=["max", "topk", "sort", "svd", "slogdet", "qr"])  # fmt: skip
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("file", ["x.pt", "x.safetensors"])
def test_results_with_named_parts_come_back(make, weights_only, file, tmp_path):
    result = make(fl.tensor([[1.0, 2.0], [3.0, 5.0]]))
    fl.save({"result": result}, tmp_path / file)
    found = fl.load(tmp_path / file, weights_only=weights_only)["result"]
    assert type(found) is type(result) and all(map(fl.equal, found, result))


def test_results_with_named_parts_have_pytorch_s_names_in_its_files(tmp_path):
    fl.save(fl.ones(2, 2).max(0), tmp_path / "x.pt", format="pt")
    content = (tmp_path / "x.pt").read_bytes()
    assert b"ctorch.return_types\nmax\n" in content and b"flambeau" not in content


def test_a_function_gets_storages_and_places():
    seen = []

    def place(storage, location):
        seen.append((type(storage), storage.nbytes(), location))
        twice = fl.empty(0).set_(storage) * 2
        return twice.untyped_storage()

    a, b = loaded(CUDA, place)
    assert seen == [(fl.UntypedStorage, 16, "cuda:1"), (fl.UntypedStorage, 16, "cpu")] and a.tolist() == [[0, 2], [4, 6]]
    assert loaded(CUDA, lambda storage, location: storage.cpu())[0].tolist() == [[0, 1], [2, 3]]
    assert loaded(CUDA, lambda storage, location: fl.ones(4))[0].tolist() == [[1, 1], [1, 1]]
    with pytest.raises(TypeError, match="expected another place for the same elements"):
        loaded(CUDA, lambda storage, location: fl.ones(2))
    with pytest.raises(TypeError, match="returned 8 bytes for 16; expected another place"):
        loaded(CUDA, lambda storage, location: fl.ones(2).untyped_storage())
    with pytest.raises(TypeError, match="returned a int"):
        loaded(CUDA, lambda storage, location: 3)


def test_tensors_without_data_come_back(path):
    shape = fl.empty(2, 3, device="meta").t()
    fl.save({"x": shape, "again": shape, "p": fl.nn.Parameter(fl.empty(4, device="meta"))}, path, format="pt")
    found = fl.load(path)
    assert found["x"].is_meta and found["x"].shape == (3, 2) and found["x"].stride() == (1, 3) and found["again"] is found["x"]
    assert type(found["p"]) is fl.nn.Parameter and found["p"].is_meta and found["p"].requires_grad
    layer = fl.nn.LazyLinear(2)
    fl.save(layer.state_dict(), path, format="pt")
    state = fl.load(path)
    assert isinstance(state["weight"], fl.nn.UninitializedParameter) and list(state) == ["weight", "bias"]
    with pytest.raises(TypeError, match="a LazyLinear that was not called yet"):
        fl.save(layer, path, format="pt")
    with pytest.raises(TypeError, match="has no shape yet and is flambeau.float64"):
        fl.save(fl.nn.UninitializedParameter(dtype=fl.float64), path, format="pt")


def test_storages_and_layouts_come_back(path):
    x = fl.arange(4.0)
    layouts = [fl.strided, fl.sparse_csr]
    fl.save({"bytes": x.clone().untyped_storage(), "numbers": x.storage(), "x": x[1:], "l": layouts}, path, format="pt")
    found = fl.load(path)
    assert found["numbers"].tolist() == [0, 1, 2, 3] and found["numbers"].dtype is fl.float32
    assert bytes(found["bytes"].tolist()) == x.numpy().tobytes()
    found["numbers"][1] = 7
    assert found["x"].tolist() == [7, 2, 3]
    assert all(a is b for a, b in zip(found["l"], layouts, strict=True))
    with pytest.raises(RuntimeError, match="s is a storage on the meta device"):
        fl.save({"s": fl.ones(2, device="meta").untyped_storage()}, path, format="pt")


def test_mapped_bytes_are_read_when_they_are_used(path):
    fl.save({"x": fl.zeros(1 << 20)}, path, format="pt")
    before = fl.memory_stats()["allocated_bytes"]
    got = fl.load(path)
    assert fl.memory_stats()["allocated_bytes"] == before
    got["x"][0] = 1  # this page alone
    assert fl.load(path)["x"][0].item() == 0 and fl.load(path, mmap=False)["x"].sum().item() == 0


def test_checksums_are_compared_where_bytes_are_read(path):
    fl.save({"x": fl.full((5000,), 0.5)}, path, format="pt")
    raw = bytearray(path.read_bytes())
    raw[raw.index(struct.pack("<f", 0.5)) + 400] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FileFormatError, match="'archive/data/0' has the checksum"):
        fl.load(path, mmap=False)
    with pytest.raises(FileFormatError, match="has the checksum"):
        fl.load(io.BytesIO(raw))
    fl.load(path)


@pytest.mark.parametrize("place", [None, 0, 1 << 20, (5 << 19) + 7, (3 << 20) + 11])
def test_checksums_of_large_entries(place, path):
    """They are computed in pieces, by another thread, which ends with loading."""
    n = (3 << 20) + 12
    fl.save({"x": fl.full((n,), 7, dtype=fl.uint8)}, path, format="pt")
    if place is None:
        assert fl.load(path, mmap=False)["x"].to(fl.int64).sum().item() == 7 * n
    else:
        raw = bytearray(path.read_bytes())
        raw[raw.index(b"\7" * 64) + place] ^= 1
        path.write_bytes(raw)
        with pytest.raises(FileFormatError, match="'archive/data/0' has the checksum"):
            fl.load(path, mmap=False)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checksums")]


@pytest.mark.parametrize("order", [None, *LoadEndianness])
def test_the_order_of_bytes_where_an_archive_does_not_say_it(order):
    file, said = io.BytesIO(), io.BytesIO()
    fl.save({"x": fl.tensor([1, 256])}, file, _disable_byteorder_record=True, format="pt")
    fl.save({"x": fl.tensor([1, 256])}, said, format="pt")
    set_default_load_endianness(order)
    try:
        assert get_default_load_endianness() is order
        swapped = (sys.byteorder if order is LoadEndianness.NATIVE else "big" if order is LoadEndianness.BIG else "little") != "little"
        assert fl.load(io.BytesIO(file.getvalue()))["x"].tolist() == ([1 << 56, 1 << 48] if swapped else [1, 256])
        assert fl.load(io.BytesIO(said.getvalue()))["x"].tolist() == [1, 256]
    finally:
        set_default_load_endianness(None)
    with pytest.raises(TypeError, match="got 'big'; expected a LoadEndianness or None"):
        set_default_load_endianness("big")


# ------------------------------------------------------------------------------------------- texts of Python 2


def old(raw):
    """A str of Python 2's in a pickle."""
    return b"U" + bytes([len(raw)]) + raw


OLD = m.archive(m.pickle(b"}(", old(b"name"), old("h\u00e9".encode()), m.text("new"), m.text("h\u00e9"), b"u"))


@pytest.mark.parametrize("how, want", [
    ({}, {"name": "h\u00e9", "new": "h\u00e9"}),
    ({"encoding": "utf-8"}, {"name": "h\u00e9", "new": "h\u00e9"}),
    ({"encoding": "latin1"}, {"name": "h\u00c3\u00a9", "new": "h\u00e9"}),
    ({"encoding": "bytes"}, {b"name": "h\u00e9".encode(), "new": "h\u00e9"}),
    ({"encoding": "ascii", "errors": "ignore"}, {"name": "h", "new": "h\u00e9"}),
    ({"encoding": "utf-8", "fix_imports": True, "buffers": None}, {"name": "h\u00e9", "new": "h\u00e9"}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("raw", [OLD, m.stream(OLD[OLD.index(b"\x80\x02}") : OLD.index(b"u.") + 2], {})], ids=["archive", "stream"])
def test_texts_of_python_2(raw, how, want):
    assert fl.load(io.BytesIO(raw), **how) == want


def test_what_is_no_utf_8_stays_bytes():
    raw = m.archive(m.pickle(b"}(", old(b"name"), old(b"\xff\xfe"), b"u"))
    assert fl.load(io.BytesIO(raw)) == {"name": b"\xff\xfe"}


def test_what_is_no_text_of_that_encoding():
    with pytest.raises(FileFormatError, match="a text of Python 2 is no ascii.*load it with encoding='latin1'"):
        fl.load(io.BytesIO(OLD), encoding="ascii")


@pytest.mark.parametrize("how, error, text", [
    ({"encoding": "klingon"}, LookupError, "unknown encoding: klingon"),
    ({"encoding": 3}, TypeError, "load: encoding = 3; expected the name of an encoding"),
    ({"errors": "never"}, LookupError, "unknown error handler"),
    ({"fix_imports": False}, ValueError, "fix_imports = False; expected True"),
    ({"buffers": [b"x"]}, ValueError, "buffers are given; expected None"),
    ({"enc": "utf-8"}, TypeError, "unexpected argument enc = 'utf-8'"),
], ids=str)  # fmt: skip
def test_arguments_of_what_unpickles(how, error, text):
    with pytest.raises(error, match=text):
        fl.load(io.BytesIO(OLD), **how)


@pytest.mark.parametrize("encoding", [None, "latin1", "utf-8", "bytes"])
def test_names_of_storages_and_bytes_of_arrays_are_no_texts(encoding):
    """Streams of Python 2: all its names are such texts, and so are arrays, whatever their bytes."""
    how = {} if encoding is None else {"encoding": encoding}
    storage = m.tup(old(b"storage"), m.name("torch", "FloatStorage"), old(b"7"), old(b"cpu"), m.number(4), m.tup(old(b"v"), m.number(1), m.number(2))) + b"Q"
    raw = m.stream(m.pickle(m.tensor(storage, sizes=m.numbers(2), strides=m.numbers(1))))
    assert fl.load(io.BytesIO(raw), **how).tolist() == fl.load(io.BytesIO(m.stream(m.pickle(m.tensor(m.stream_storage()))))).reshape(-1)[1:3].tolist()
    dtype = m.call(m.name("numpy", "dtype"), old(b"f4"), m.FALSE, m.TRUE) + m.tup(m.number(3), old(b"<"), m.NONE, m.NONE, m.NONE, m.number(-1), m.number(-1), m.number(0)) + b"b"
    array = m.call(m.name("numpy.core.multiarray", "_reconstruct"), m.name("numpy", "ndarray"), m.numbers(0), old(b"b"))
    values = np.array([1.5, 2.5, 3.25], np.float32)
    data = values.tobytes() if encoding != "utf-8" else bytes(12)
    raw = m.archive(m.pickle(array + m.tup(m.number(1), m.numbers(3), dtype, m.FALSE, old(data)) + b"b"))
    np.testing.assert_array_equal(fl.load(io.BytesIO(raw), **how), np.frombuffer(data, np.float32))


# ------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("module", [False, True])
def test_streams_are_written(module):
    obj = {"x": fl.arange(6.0).reshape(2, 3), "raw": b"x", "b": fl.tensor([True]), "empty": fl.zeros(0)}
    obj["t"] = obj["x"].t()
    file = io.BytesIO()
    fl.save(obj if not module else [fl.nn.Linear(2, 2), obj], file, _use_new_zipfile_serialization=False, format="pt")
    assert file.getvalue()[:2] == b"\x80\x02"
    got = fl.load(io.BytesIO(file.getvalue()), weights_only=not module)
    got = got[1] if module else got
    assert fl.equal(got["x"], obj["x"]) and got["raw"] == b"x" and got["b"].tolist() == [True] and got["empty"].shape == (0,)
    got["x"].fill_(7)
    assert got["t"][2].tolist() == [7, 7]
    with pytest.raises(ValueError, match="_use_new_zipfile_serialization = False for a tensor of flambeau.uint16"):
        fl.save([fl.ones(1, dtype=fl.uint16)], io.BytesIO(), _use_new_zipfile_serialization=False, format="pt")


def test_without_a_record_of_the_byte_order(path):
    fl.save(fl.ones(2), path, _disable_byteorder_record=True, format="pt")
    with zipfile.ZipFile(path) as z:
        assert "archive/byteorder" not in z.namelist()
    assert fl.load(path).tolist() == [1, 1]


def test_what_is_written_comes_back():
    x, p = fl.arange(6.0).reshape(2, 3), nn.Parameter(fl.ones(2))
    obj = {"x": x, "t": x.t(), "row": x[1], "p": p, "tied": [p], "half": fl.ones(2).to(fl.bfloat16), "empty": fl.zeros(0, 3), "number": fl.tensor(3), "z": 1 - 2j,
           "raw": b"\0\xff", "buffer": nn.Buffer(fl.ones(1), persistent=False), "dtype": fl.int8, "set": {1}, "gaps": fl.arange(1000.0)[::100]}  # fmt: skip
    got = again(obj)
    assert list(got) == list(obj) and got["p"] is got["tied"][0] and type(got["p"]) is nn.Parameter
    for key in ("x", "t", "row", "half", "empty", "number", "gaps"):
        assert fl.equal(got[key], obj[key]) and got[key].dtype == obj[key].dtype
    assert got["t"].stride() == (1, 3) and isinstance(got["buffer"], nn.Buffer) and not got["buffer"].persistent
    assert (got["z"], got["raw"], got["dtype"], got["set"]) == (1 - 2j, b"\0\xff", fl.int8, {1})
    got["x"].fill_(7)
    assert got["row"].tolist() == [7, 7, 7] and got["t"][0].tolist() == [7, 7]


def test_entries_are_stored_and_aligned(path):
    fl.save([fl.ones(3), fl.ones(5, dtype=fl.int8)], path, format="pt")
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None and z.namelist() == [f"archive/{name}" for name in ("data.pkl", "byteorder", "data/0", "data/1", "version")]
    raw = path.read_bytes()
    assert raw.index(struct.pack("<3f", 1, 1, 1)) % 64 == 0 and raw.index(b"\1" * 5) % 64 == 0


def test_views_cost_their_own_size(path):
    fl.save(fl.arange(100_000.0)[:3], path, format="pt")
    assert os.path.getsize(path) < 2000


def test_the_ending_does_not_choose_the_format(path):
    fl.save({"x": fl.ones(1)}, path)
    assert path.read_bytes()[8:9] == b"{" and fl.load(path)["x"].tolist() == [1]


def test_errors_of_saving(path):
    with pytest.raises(ValueError, match="format = 'onnx'; expected None, 'safetensors' or 'pt'"):
        fl.save({}, path, format="onnx")
    with pytest.raises(TypeError, match=r"save: a\[0\] is a object; expected tensors"):
        fl.save({"a": [object()]}, path, format="pt")
    with pytest.raises(RuntimeError, match="a is .*on the meta device"):
        fl.save({"a": fl.nn.Buffer(fl.empty(1, device="meta"))}, path, format="pt")
    with pytest.raises(ValueError, match="an integer of 8001 bits"):
        fl.save({"a": 1 << 8000}, path, format="pt")
    assert not path.exists()


@pytest.mark.parametrize("make", [
    lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(), lambda x: x.to_sparse_csc(), lambda x: x.to_sparse_bsr((1, 3)),
    lambda x: x.to_sparse_bsc((2, 1)),
], ids=["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors(make):
    x = fl.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    got = again({"x": make(x)})["x"]
    assert got.layout is make(x).layout and fl.equal(got.to_dense(), x)


def test_numbers_of_eight_bytes(path, monkeypatch):
    """Archives beyond 4 GiB, with 100 bytes in place of 4 GiB."""
    monkeypatch.setattr(_zip, "_FULL", 100)
    x = fl.arange(1000.0)
    fl.save({"x": x, "y": x[3:7].clone()}, path, format="pt")
    assert b"PK\6\6" in path.read_bytes()
    got = fl.load(path)
    assert fl.equal(got["x"], x) and got["y"].tolist() == [3, 4, 5, 6]


# ---- whole modules


class Whole(fl.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = fl.nn.Linear(3, 4)
        self.body = fl.nn.Sequential(fl.nn.BatchNorm1d(4), fl.nn.ReLU(), fl.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True))
        self.again, self.act, self.options = self.one, fl.nn.functional.gelu, {"x": (1, 2.5, None), "names": {"b", "a"}}
        self.register_buffer("count", fl.arange(3), persistent=False)

    def forward(self, x):
        return self.act(self.body(self.one(x))).sum(1)


def whole(module):
    file = io.BytesIO()
    fl.save({"module": module, "epoch": 3}, file, format="pt")
    return file.getvalue()


@pytest.mark.slow
def test_a_module_comes_back_whole():
    module = Whole()
    module(fl.randn(5, 3))
    module.eval()
    module.body[0].weight.requires_grad_(False)
    raw = whole(module)
    found = fl.load(io.BytesIO(raw), weights_only=False)["module"]
    x = fl.randn(5, 3)
    assert fl.equal(found(x), module(x)) and not found.training and found.again is found.one and found.act is fl.nn.functional.gelu
    assert found.options == module.options and found.count.tolist() == [0, 1, 2] and "count" not in found.state_dict()
    assert [(n, p.requires_grad) for n, p in found.named_parameters()] == [(n, p.requires_grad) for n, p in module.named_parameters()]
    assert whole(found) == whole(module)
    seen = []
    found.register_forward_hook(lambda m, args, out: seen.append(1))
    found._forward_pre_hooks[0] = lambda m, args: seen.append(0)  # tables are live
    found(x)
    assert seen == [0, 1]
    with pytest.raises(FileFormatError, match=r"names '.*Whole', which is not among.*weights_only=False"):
        fl.load(io.BytesIO(raw))


def test_what_of_modules_is_refused():
    class Local(fl.nn.Module):
        pass

    with pytest.raises(TypeError, match="Local, a class that can not be found by its name"):
        whole(Local())
    with pytest.raises(RuntimeError, match="ParametrizedLinear.*state_dict"):
        whole(fl.nn.utils.parametrizations.weight_norm(fl.nn.Linear(1, 1)))
    module = fl.nn.Linear(1, 1)
    module.hook = lambda: 0
    with pytest.raises(TypeError, match=r"save: module\.hook is the function .*<lambda>, which can not be found by its name"):
        whole(module)
    with pytest.raises(TypeError, match="for a module save its state_dict"):
        fl.save(fl.nn.Linear(1, 1), io.BytesIO())


class Fused(fl.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = fl.nn.Linear(2, 2)
        self.forward, self.ways = self.twice, {"class": Fused.made, "static": Fused.same, "plain": Fused.twice, "top": whole}

    def twice(self, x):
        return self.inner(x) * 2

    @property
    def never(self):
        raise AssertionError("a file had it called")

    @classmethod
    def made(cls):
        return cls()

    @staticmethod
    def same(x):
        return x


def test_functions_and_methods_come_back_by_their_names():
    module = Fused()
    found, x = fl.load(io.BytesIO(whole(module)), weights_only=False)["module"], fl.ones(1, 2)
    assert fl.equal(found(x), module(x)) and found.forward.__self__ is found
    assert found.ways == module.ways and found.ways["top"] is whole
    with pytest.raises(FileFormatError, match="not among what a file may name"):
        fl.load(io.BytesIO(whole(module)))


@pytest.mark.parametrize("name", ["never", "__init__", "training", "register_buffer.__globals__", "no_such_method"])
def test_files_name_nothing_but_methods(name):
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole(Fused()))) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as new:
        for entry in old.namelist():
            text = b"\x05\x00\x00\x00twice" if entry.endswith("data.pkl") else b"\0\0no such bytes"
            new.writestr(entry, old.read(entry).replace(text, struct.pack("<I", len(name)) + name.encode()))
    file.seek(0)
    with pytest.raises(FileFormatError, match=f"getattr is called for '{name}' of .*; expected a method of an object of the file"):
        fl.load(file, weights_only=False)


class Made:
    """No module, and no data alone."""


class Closed:
    def __del__(self):
        raise AssertionError("it was made")


NOT_MADE = ["builtins eval", "pathlib Path", "collections deque", "flambeau.nn.modules.linear _linear", "no_such_module Net", f"{__name__} Closed"]


@pytest.mark.parametrize("name", NOT_MADE)
def test_files_name_no_other_classes(name):
    from flambeau.serialization import _torch_write

    class Names(_torch_write._Encoder):
        def _module(self, value, path, depth):
            return super()._module(value, path, depth) | {"N": name}

    before, _torch_write._Encoder = _torch_write._Encoder, Names
    try:
        raw = whole(fl.nn.Linear(1, 1))
    finally:
        _torch_write._Encoder = before
    with pytest.raises(FileFormatError, match="which"):
        fl.load(io.BytesIO(raw), weights_only=False)
    assert name.split()[0] != "no_such_module" or name.split()[0] not in sys.modules


def test_classes_are_values():
    """Data sets of packages keep the class of their items beside the tensors."""
    file = io.BytesIO()
    fl.save({"kind": Made, "items": [fl.ones(2), Whole]}, file, format="pt")
    found = fl.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert found["kind"] is Made and found["items"][1] is Whole and found["items"][0].tolist() == [1, 1]
    with fl.serialization.safe_globals([Made, Whole]):
        assert fl.load(io.BytesIO(file.getvalue()))["kind"] is Made
    with pytest.raises(FileFormatError, match=r"names '.*Made', which is not among.*weights_only=False"):
        fl.load(io.BytesIO(file.getvalue()))
    with pytest.raises(TypeError, match="save: kind is a type; expected tensors"):
        fl.save({"kind": Made}, io.BytesIO())  # in a file of our own
    for kind in (type("Local", (), {}), type(None)):
        with pytest.raises(TypeError, match=r"save: kind is a"):
            fl.save({"kind": kind}, io.BytesIO(), format="pt")


def test_what_is_wrong_with_a_file_is_caught_as_for_pytorch(tmp_path):
    path = tmp_path / "file.pt"
    path.write_bytes(b"junk")
    for kind in (RuntimeError, ValueError, pickle.UnpicklingError):
        with pytest.raises(kind):
            fl.load(path)


def test_tensors_are_keys():
    """By what they are, as the states of an optimizer have them."""
    p, x = nn.Parameter(fl.ones(2)), fl.zeros(1)
    (key, value), = again({p: [p, x]}).items()
    assert type(key) is nn.Parameter and value[0] is key and value[1].tolist() == [0.0]
    found = again({(1, x), p})
    assert sorted(type(entry) for entry in found if isinstance(entry, tuple)) == [tuple] and len(found) == 2
    optimizer = fl.optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = fl.ones(2)
    optimizer.step()
    copy = again(optimizer, weights_only=False)
    (key, state), = copy.state.items()
    assert key is copy.param_groups[0]["params"][0] and state["momentum_buffer"].tolist() == [1.0, 1.0]


class Key:
    """Known by its name, or by itself."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Key) and self.name == other.name


class Place:
    pass


@pytest.mark.parametrize("how", [{}, {"_use_new_zipfile_serialization": False}], ids=["archive", "stream"])
def test_objects_are_keys(how):
    """By their hash, or by their identity: an object that is met again is the same one."""
    place = Place()
    place.own, place.rooms = place, {Key("a"): 1}
    file = io.BytesIO()
    kept = {place: 2, "place": place, Key("k"): fl.ones(2), (Key("t"), 1): 3, "set": {Key("x")}, "twice": [place, place]}
    fl.save(kept, file, format="pt", **how)
    with fl.serialization.safe_globals([Key, Place]):
        found = fl.load(io.BytesIO(file.getvalue()))
        assert found[found["place"]] == 2 and found["place"].own is found["place"] and found["place"].rooms == {Key("a"): 1}
        assert found[Key("k")].tolist() == [1.0, 1.0] and found[Key("t"), 1] == 3 and found["set"] == {Key("x")}
        assert found["twice"][0] is found["twice"][1] is found["place"]
    with pytest.raises(FileFormatError, match=f"it names '{__name__}.Place'"):
        fl.load(io.BytesIO(file.getvalue()))


def test_classes_functions_and_ranges_are_keys():
    kept = {int: 1, nn.Linear: 2, fl.relu: 3, range(3): 4, nn.functional.relu: 5, frozenset([range(2)]): 6}
    assert again(kept, weights_only=False) == kept


def test_a_hash_that_raises_is_the_files_fault(monkeypatch):
    files = [io.BytesIO(), io.BytesIO()]
    fl.save({Key("a"): 1}, files[0], format="pt")
    fl.save({Key("a")}, files[1], format="pt")
    monkeypatch.setattr(Key, "__hash__", lambda self: 1 // 0)
    for file in files:
        with fl.serialization.safe_globals([Key]), pytest.raises(FileFormatError, match="a key is a Key, whose hash raised Zero"):
            fl.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: m.dictionary(a=s)], ids=["alone", "in a dict"])
@pytest.mark.parametrize("kind", ["archive", "stream"])
def test_storages_are_values(kind, wrap):
    if kind == "archive":
        content = m.archive(m.pickle(wrap(m.storage())), {"0": m.FOUR})
    else:
        content = m.stream(m.pickle(wrap(m.stream_storage())))
    got = loaded(content)
    storage = got["a"] if isinstance(got, dict) else got
    assert type(storage) is fl.TypedStorage and storage.dtype is fl.float32
    assert storage.tolist() == np.frombuffer(m.FOUR, np.float32).tolist()


def test_a_file_without_bytes_is_at_its_end(path):
    path.touch()
    for file in (path, io.BytesIO()):
        with pytest.raises(EOFError, match="has 0 bytes"):
            fl.load(file)


def test_no_file_is_left_behind_however_early_it_is_interrupted(path, monkeypatch):
    def interrupted(*args, **how):
        open(*args, **how).close()
        raise KeyboardInterrupt

    monkeypatch.setattr("flambeau.serialization._files.open", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        fl.save({"x": fl.ones(1)}, path)
    assert os.listdir(path.parent) == []


def test_what_stands_in_one_file_behind_each_other_is_read_in_turn():
    file = io.BytesIO(b"head")
    file.seek(4)
    for i in range(3):
        fl.save({"x": fl.arange(i + 1), "y": fl.ones(2) * i}, file, format="pt", _use_new_zipfile_serialization=False)
    file.write(b"tail")
    file.seek(4)
    for i in range(3):
        found = fl.load(file)
        assert found["x"].tolist() == list(range(i + 1)) and found["y"].tolist() == [i, i]
    assert file.read() == b"tail"
    data = file.getvalue()[4:-4]
    for n in (len(data) - 1, len(data) - 12, 300):
        with pytest.raises((ValueError, EOFError)):
            cut = io.BytesIO(data[:n])
            for _ in range(3):
                fl.load(cut)


def _tripled(scale):
    return Reducing(scale * 3)


class Reducing(fl.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def __reduce__(self):
        return _tripled, (self.scale,)


class ReducingByName(Reducing):
    def __reduce__(self):
        return "ReducingByName"


def test_modules_that_say_how_they_are_made_are_written_so():
    file, one = io.BytesIO(), Reducing(2)
    fl.save([one, one, fl.nn.Sequential(one)], file, format="pt")
    with pytest.raises(FileFormatError, match="_tripled"):
        fl.load(io.BytesIO(file.getvalue()), weights_only=False)
    with fl.serialization.safe_globals([_tripled]):
        first, second, holder = fl.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert first.scale == 6 and first is second and first is holder[0]
    with pytest.raises(TypeError, match="the object is a ReducingByName, which can not be written whole; save its state_dict"):
        fl.save(ReducingByName(1), io.BytesIO(), format="pt")


def test_graph_modules_are_written_as_pytorch_writes_them():
    from flambeau.fx.graph_module import reduce_graph_module

    file, traced = io.BytesIO(), fl.fx.symbolic_trace(fl.nn.Sequential(fl.nn.Linear(2, 3), fl.nn.ReLU()))
    fl.save(traced, file, format="pt")
    names = {reduce_graph_module: "torch.fx.graph_module.reduce_graph_module", fl.fx.Tracer: "torch.fx.Tracer"}
    with fl.serialization.safe_globals(list(names.items())):
        back = fl.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert type(back).__name__ == "Sequential" and back.code == traced.code
    assert fl.equal(back(fl.ones(1, 2)), traced(fl.ones(1, 2)))
    function, args = traced.__reduce__()
    assert function is reduce_graph_module and args[0]["_graphmodule_cls_name"] == "Sequential" and args[0]["_tracer_extras"] == {}
