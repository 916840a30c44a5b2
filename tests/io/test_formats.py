"""NumPy's files, GGUF, indices of several files, and `safe_open`."""

import io
import json
import os

import makers as m
import numpy as np
import pytest

import flambeau as fl
from flambeau.serialization import FileFormatError, safe_open

# ------------------------------------------------------------------------------------------- NumPy


DTYPES = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<f2", "<f4", "<f8", "<c8", "<c16", ">i4", ">f8", ">c8"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("order", "CF")
def test_npy(order, shape, dtype, tmp_path):
    x = np.asarray(np.arange(int(np.prod(shape))).reshape(shape) % 2, dtype=dtype, order=order)
    path = tmp_path / "x.npy"
    np.save(path, x)
    for got in (fl.load(path), fl.load(path, mmap=False), fl.load(io.BytesIO(path.read_bytes()))):
        assert got.shape == shape and got.numpy().dtype == x.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got.numpy(), x)


@pytest.mark.parametrize("header", ["{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", "{'shape': (2,), 'fortran_order': False, 'descr': '<f8'}  \n", "{'descr': '<f8', 'fortran_order': False, 'shape': (2L,), }"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_npy_headers(version, header):
    assert fl.load(io.BytesIO(m.npy(np.array([1.0, 2.0]), header, version))).tolist() == [1, 2]


@pytest.mark.parametrize("compress", [False, True], ids=["stored", "deflated"])
@pytest.mark.parametrize("how", [{"mmap": True}, {"mmap": False}, None], ids=["mapped", "read", "object"])
def test_npz(how, compress, tmp_path):
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.array([True, False]), "c": np.zeros((0, 2)), "d/e": np.arange(500)}
    path = tmp_path / "x.npz"
    (np.savez_compressed if compress else np.savez)(path, **arrays)
    got = fl.load(path, **how) if how else fl.load(io.BytesIO(path.read_bytes()))
    assert list(got) == list(arrays)
    for name, want in arrays.items():
        np.testing.assert_array_equal(got[name].numpy(), want)
        got[name].zero_()
    np.testing.assert_array_equal(np.load(path)["d/e"], arrays["d/e"])


def test_arrays_of_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}, []], object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="pickles, which are never loaded"):
        fl.load(path)
    np.savez(tmp_path / "x.npz", a=np.array(["text"]))
    with pytest.raises(FileFormatError, match="'a.npy' with elements of type '<U4', which have no counterpart here"):
        fl.load(tmp_path / "x.npz")


# ------------------------------------------------------------------------------------------- GGUF


def a_gguf(**how):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 64)).astype(np.float32)
    tensors = {
        "f32": ((3, 64), m.F32, x.tobytes()), "f16": ((64,), m.F16, x[0].astype(np.float16).tobytes()), "bf16": ((2, 1), m.BF16, struct_bf16([1.5, -2.0])),
        "q8": ((3, 64), m.Q8_0, m.q8_0(x)), "q4": ((3, 64), m.Q4_0, m.q4_0(x)), "i8": ((3,), 24, bytes([1, 2, 255])), "f64": ((1,), 28, np.ones(1).tobytes()),
    }  # fmt: skip
    return x, m.gguf(tensors, **how)


def struct_bf16(values):
    return (np.array(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()


META = {"general_architecture": "llama", "a_count": 3, "a_rate": 0.5, "a_flag": True, "a_words": ["x", "yz"], "a_numbers": [1, -2], "a_small": (0, b"\xff"), "a_f32": (6, b"\0\0\0\x3f")}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("how", [{"mmap": True}, {"mmap": False}, None], ids=["mapped", "read", "object"])
def test_gguf(how, version, tmp_path):
    path = tmp_path / "x.gguf"
    x, content = a_gguf(version=version, **META)
    path.write_bytes(content)
    got = fl.load(path, **how) if how else fl.load(io.BytesIO(content))
    assert {k: (v.dtype.name, tuple(v.shape)) for k, v in got.items()} == {
        "f32": ("float32", (3, 64)), "f16": ("float16", (64,)), "bf16": ("bfloat16", (2, 1)), "q8": ("float32", (3, 64)), "q4": ("float32", (3, 64)),
        "i8": ("int8", (3,)), "f64": ("float64", (1,)),
    }  # fmt: skip
    np.testing.assert_array_equal(got["f32"].numpy(), x)
    np.testing.assert_array_equal(got["f16"].numpy(), x[0].astype(np.float16))
    assert got["bf16"].to(fl.float32).tolist() == [[1.5], [-2.0]] and got["i8"].tolist() == [1, 2, -1]
    largest = np.abs(x.reshape(-1, 32)).max(1, keepdims=True)
    for name, steps in (("q8", 127), ("q4", 8)):  # half a step; that of 4 bits is one where the sign is not the largest's
        off = np.abs(got[name].numpy() - x).reshape(-1, 32)
        assert (off <= largest / steps * (1.01 if steps == 8 else 0.51)).all()


def test_blocks_of_gguf_one_by_one(tmp_path):
    """The formulas of the specification, an element at a time."""
    rng = np.random.default_rng(1)
    q8, q4 = rng.integers(0, 256, (2, 34), np.uint8), rng.integers(0, 256, (2, 18), np.uint8)
    q8[:, 1] = q4[:, 1] = 0x38  # scales between 0.5 and 1
    path = tmp_path / "x.gguf"
    path.write_bytes(m.gguf({"q8": ((64,), m.Q8_0, q8.tobytes()), "q4": ((2, 32), m.Q4_0, q4.tobytes())}))
    got = fl.load(path)
    want8, want4 = [], []
    for block in q8:
        d = float(block[:2].view(np.float16)[0])
        want8 += [d * (int(b) - 256 * (b > 127)) for b in block[2:]]
    for block in q4:
        d = float(block[:2].view(np.float16)[0])
        want4.append([d * ((b & 15) - 8) for b in block[2:].tolist()] + [d * ((b >> 4) - 8) for b in block[2:].tolist()])
    assert got["q8"].tolist() == want8 and got["q4"].tolist() == want4


def test_metadata_of_gguf_and_single_tensors(tmp_path):
    path = tmp_path / "x.gguf"
    x, _ = a_gguf()
    path.write_bytes(m.gguf({"a": ((3, 64), m.F32, x.tobytes()), "odd": ((256,), 12, bytes(144))}, **META))
    with pytest.raises(FileFormatError, match="'odd' of type q4_K; expected .*safe_open"):
        fl.load(path)
    with safe_open(path) as f:
        assert f.keys() == ["a", "odd"]
        np.testing.assert_array_equal(f.get_tensor("a").numpy(), x)
        assert f.metadata() == {"general.architecture": "llama", "a.count": 3, "a.rate": 0.5, "a.flag": True, "a.words": ["x", "yz"],
                                "a.numbers": [1, -2], "a.small": 255, "a.f32": 0.5}  # fmt: skip
        with pytest.raises(FileFormatError, match="q4_K"):
            f.get_tensor("odd")


# ------------------------------------------------------------------------------------------- several files


@pytest.fixture
def model(tmp_path):
    """A model in two files with an index; the third is named by it and is not there."""
    fl.save({"a": fl.arange(6.0).reshape(2, 3), "b": fl.ones(2)}, tmp_path / "model-1.safetensors")
    fl.save({"c": fl.zeros(1), "more": fl.zeros(1)}, tmp_path / "model-2.safetensors")
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(m.index(a="model-1.safetensors", c="model-2.safetensors", b="model-1.safetensors"))
    return path


@pytest.mark.parametrize("mmap", [True, False])
def test_an_index_is_loaded_as_one_dict(mmap, model):
    got = fl.load(model, mmap=mmap)
    assert list(got) == ["a", "c", "b"] and got["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and got["c"].tolist() == [0]
    assert all(x.is_meta for x in fl.load(model, "meta").values())


def test_an_index_of_pytorch_files(tmp_path):
    fl.save({"a": fl.ones(2)}, tmp_path / "pytorch_model-1.bin", format="pt")
    path = tmp_path / "pytorch_model.bin.index.json"
    path.write_bytes(m.index(a="pytorch_model-1.bin"))
    assert fl.load(path)["a"].tolist() == [1, 1]
    with safe_open(path) as f, pytest.raises(FileFormatError, match="is a zip file; expected safetensors"):
        f.get_tensor("a")


def test_shards_are_opened_when_they_are_wanted(model):
    os.unlink(model.parent / "model-2.safetensors")
    with safe_open(model, framework="pt", device="cpu") as f:
        assert f.keys() == ["a", "c", "b"] and f.metadata() == {"total_size": 16}
        assert f.get_tensor("a").shape == (2, 3) and f.get_slice("a")[1:, 0].tolist() == [3]
        with pytest.raises(FileNotFoundError, match="model-2.safetensors"):
            f.get_tensor("c")
        with pytest.raises(KeyError, match="has no tensor 'more'"):
            f.get_tensor("more")
    with pytest.raises(ValueError, match="is closed"):
        f.get_tensor("a")
    with pytest.raises(FileNotFoundError, match="model-2.safetensors"):
        fl.load(model)


def test_an_index_that_does_not_fit(model):
    model.write_bytes(m.index(x="model-1.safetensors"))
    with pytest.raises(FileFormatError, match="names a tensor 'x' in 'model-1.safetensors', which has none"):
        fl.load(model)
    with safe_open(model) as f, pytest.raises(FileFormatError, match="model-1.safetensors has no tensor 'x', which the index .* says it has"):
        f.get_tensor("x")
    (model.parent / "model-1.safetensors").write_bytes(b"short")
    with pytest.raises(FileFormatError, match="model-1.safetensors has 5 bytes"):
        fl.load(model)
    model.write_bytes(m.index(x=model.name))
    with pytest.raises(FileFormatError, match="which is no file of tensors"):
        fl.load(model)


def test_a_shard_that_is_a_pipe_does_not_block(model):
    os.unlink(model.parent / "model-2.safetensors")
    os.mkfifo(model.parent / "model-2.safetensors")
    with pytest.raises(FileFormatError, match="no regular file"):
        fl.load(model)
    with safe_open(model) as f, pytest.raises(FileFormatError, match="no regular file"):
        f.get_tensor("c")


def test_safe_open_beside_the_package(tmp_path):
    theirs = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    fl.save({"a": fl.arange(6.0).reshape(2, 3), "b": fl.ones(2)}, path)
    with theirs.safe_open(path, "np") as t, safe_open(path, "pt") as f:
        assert sorted(f.keys()) == sorted(t.keys()) and f.metadata() == t.metadata()
        for name in t.keys():
            np.testing.assert_array_equal(f.get_tensor(name).numpy(), t.get_tensor(name))
        np.testing.assert_array_equal(f.get_slice("a")[:, 1:].numpy(), t.get_slice("a")[:, 1:])


def test_errors_of_safe_open(tmp_path):
    with pytest.raises(ValueError, match="framework = 'tf'"):
        safe_open(tmp_path / "x", "tf")
    with pytest.raises(FileNotFoundError):
        safe_open(tmp_path / "x")
    np.save(tmp_path / "x.npy", np.ones(2))
    with pytest.raises(FileFormatError, match="x.npy is a npy file, whose tensors are not opened one by one"):
        safe_open(tmp_path / "x.npy")


def test_an_index_is_known_by_its_name(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"weight_map": {}}))
    assert fl.load(path) == {}
    other = tmp_path / "model"
    other.write_text(json.dumps({"weight_map": {}}))
    with pytest.raises(FileFormatError, match="as no file of tensors does"):
        fl.load(other)
