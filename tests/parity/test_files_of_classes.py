"""Tensors of classes of the user's in PyTorch's files, and files without their bytes: both libraries read what the other writes."""

from __future__ import annotations

import io

import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def classes(lib):
    """Classes that pickles find under the same names, whichever library made the file."""

    class Plain(lib.Tensor):
        pass

    class Own(lib.Tensor):
        def __getstate__(self):
            return {"scale": self.scale * 2}

        def __setstate__(self, state):
            self.scale = state["scale"] + 1

    class Named(lib.nn.Parameter):
        pass

    for kind in (Plain, Own, Named):
        kind.__module__, kind.__qualname__ = __name__, kind.__name__
        globals()[kind.__name__] = kind
    return Plain, Own, Named


def written(lib, value, **options):
    file = io.BytesIO()
    lib.save(value, file, **options, **({} if lib is torch else {"format": "pt"}))
    return file.getvalue()


def tensors_of(lib, plain, own, named):
    x = lib.arange(4.0).as_subclass(own)[1:]
    x.scale = 3
    y, z = lib.ones(2).as_subclass(plain).requires_grad_(), lib.arange(6).as_subclass(plain).view(2, 3).t()
    y.tag = {"k": [1, lib.zeros(1)]}
    return {"x": x, "again": x, "y": y, "z": z, "p": named(lib.ones(1))}


@pytest.mark.parametrize("stream", [False, True], ids=["archive", "stream"])
@pytest.mark.parametrize("writer", [torch, fl], ids=["theirs", "ours"])
def test_tensors_come_back_as_their_class(writer, stream):
    options = {"_use_new_zipfile_serialization": False} if stream else {}
    raw = written(writer, tensors_of(writer, *classes(writer)), **options)

    def read(lib):
        plain, own, _ = classes(lib)
        wrong = refusal(lambda: lib.load(io.BytesIO(raw), weights_only=True))
        with lib.serialization.safe_globals([plain, own]):
            got = lib.load(io.BytesIO(raw), weights_only=True)
        held = [got[k] for k in ("x", "y", "z", "p")]
        return [[type(v).__name__ for v in held], [v.as_subclass(lib.Tensor) for v in held], got["x"].__dict__, got["y"].__dict__, got["y"].requires_grad, got["again"] is got["x"],
                [] if stream else sorted(lib.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(raw))), Refused(wrong & {"RuntimeError", "ValueError"}) if lib is fl else Refused()]  # fmt: skip

    ours, theirs = read(fl), read(torch)
    assert ours.pop()
    same(ours, theirs[:-1], "read")


def test_a_class_that_can_not_be_found_is_refused():
    class Local(fl.Tensor):
        pass

    with pytest.raises(TypeError, match="x is a tensor of .*Local, a class that can not be found by its name"):
        written(fl, {"x": fl.ones(2).as_subclass(Local)})
    assert refusal(lambda: fl.save({"x": fl.ones(2).as_subclass(Local)}, io.BytesIO())) == set()  # safetensors has tensors alone


def test_a_class_of_another_kind_is_no_tensors():
    plain, own, named = classes(fl)
    raw = written(fl, tensors_of(fl, plain, own, named))
    with fl.serialization.safe_globals([(dict, f"{__name__}.Plain"), own]), pytest.raises(fl.serialization.FileFormatError, match="expected Tensor, Parameter or Buffer"):
        fl.load(io.BytesIO(raw))


def test_an_own_setstate_that_fails_says_so():
    plain, own, named = classes(fl)
    raw = written(fl, tensors_of(fl, plain, own, named))
    own.__setstate__ = lambda self, state: 1 / 0
    with fl.serialization.safe_globals([plain, own]), pytest.raises(fl.serialization.FileFormatError, match="Own, which was allowed, raised ZeroDivisionError"):
        fl.load(io.BytesIO(raw))


@pytest.mark.parametrize("writer", [torch, fl], ids=["theirs", "ours"])
@pytest.mark.parametrize("mmap", [False, True])
def test_bytes_that_are_left_out(writer, mmap, tmp_path):
    made = {"x": writer.ones(3), "y": writer.arange(2), "e": writer.zeros(0)}
    with writer.serialization.skip_data():
        raw = written(writer, made)
        refused = refusal(lambda: written(writer, made, _use_new_zipfile_serialization=False))
    assert "RuntimeError" in refused
    path = tmp_path / "file.pt"
    path.write_bytes(raw)
    for lib in (fl, torch):
        got = lib.load(path, mmap=mmap)
        assert [got[k].tolist() for k in "xye"] == [[0, 0, 0], [0, 0], []]
    full = written(writer, made)
    with fl.serialization.skip_data():
        got = fl.load(io.BytesIO(full))
    assert got["x"].shape == (3,) and got["y"].dtype == fl.int64 and fl.load(io.BytesIO(full))["x"].tolist() == [1, 1, 1]


def test_bytes_may_be_written_later():
    with fl.serialization.skip_data():
        raw = bytearray(written(fl, fl.tensor([1.5, 2.5])))
    entry = raw.index(b"archive/data/0") + len(b"archive/data/0")
    begin = next(i for i in range(entry, len(raw)) if i % 64 == 0 and raw[i : i + 8] == bytes(8))
    raw[begin : begin + 8] = fl.tensor([1.5, 2.5]).numpy().tobytes()
    assert fl.load(io.BytesIO(bytes(raw)), mmap=False).tolist() == [1.5, 2.5]


def test_only_archives_are_skipped():
    with fl.serialization.skip_data(), pytest.raises(fl.serialization.FileFormatError, match='format="pt"'):
        fl.save({"x": fl.ones(1)}, io.BytesIO())
