"""Tensors of classes of the user's in PyTorch's files, and files without their bytes: both libraries read what the other writes."""

from __future__ import annotations

import dataclasses
import enum
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
class Net(torch.nn.Module):
    """PyTorch writes it under this name, and here a class of the same name and attributes reads it."""

    def __init__(self):
        super().__init__()
        self.layer, self.act, self.last = torch.nn.Linear(3, 3), torch.relu, torch.nn.functional.gelu


class OurNet(fl.nn.Module):
    def forward(self, x):
        return self.last(self.act(self.layer(x)))


LAYERS = {
    "sequential": (lambda: torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten()), (2, 1, 4, 4)),
    "lstm": (lambda: torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2), (5, 2, 3)),
    "gru": (lambda: torch.nn.GRU(3, 4, batch_first=True), (5, 2, 3)),
    "rnn": (lambda: torch.nn.RNN(3, 4, nonlinearity="relu"), (5, 3)),
    "rnn cell": (lambda: torch.nn.RNNCell(3, 4, nonlinearity="relu"), (2, 3)),
    "lstm cell": (lambda: torch.nn.LSTMCell(3, 4), (2, 3)),
    "encoder": (lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8, activation=torch.nn.functional.gelu, batch_first=True), 2), (2, 3, 4)),
    "decoder": (lambda: torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(4, 2, 8), 1), (3, 2, 4)),
    "embedding": (lambda: torch.nn.Sequential(torch.nn.Hardtanh(), torch.nn.LayerNorm(3), torch.nn.PReLU(), torch.nn.Softmax(-1)), (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["archive", "stream"])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore")
def test_whole_modules_of_theirs_compute_here_what_they_did(name, stream):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(shape)
    raw = written(torch, module, **({"_use_new_zipfile_serialization": False} if stream else {}))
    ours = fl.load(io.BytesIO(raw), weights_only=False)
    assert type(ours).__module__.startswith("flambeau.nn") and list(ours.state_dict()) == list(module.state_dict())
    args = [x, x] if name == "decoder" else [x]
    with fl.no_grad(), torch.no_grad():
        got, wanted = ours(*(fl.tensor(a.numpy()) for a in args)), module(*args)
    same(got, wanted, name, rtol=1e-4, atol=1e-5)
    repr(ours), ours.train().eval()
    back = torch.load(io.BytesIO(written(fl, ours)), weights_only=False)  # and there what they did here
    assert type(back) is type(module) and list(back.state_dict()) == list(module.state_dict())
    with torch.no_grad():
        same(fl.load(io.BytesIO(written(torch, back(*args)))), wanted, name, rtol=1e-4, atol=1e-5, strides=False)


def test_a_whole_module_of_a_class_of_the_programs(monkeypatch):
    torch.manual_seed(0)
    net, x = Net(), torch.randn(2, 3)
    raw = written(torch, net)
    OurNet.__qualname__ = "Net"
    monkeypatch.setitem(globals(), "Net", OurNet)
    ours = fl.load(io.BytesIO(raw), weights_only=False)
    assert type(ours) is OurNet
    same(ours(fl.tensor(x.numpy())), torch.nn.functional.gelu(torch.relu(net.layer(x))), "Net", rtol=1e-4, atol=1e-5)


OBJECTS = {
    "an optimizer": lambda lib: lib.optim.Adam([lib.nn.Parameter(lib.ones(2))], lr=0.5),
    "a schedule": lambda lib: lib.optim.lr_scheduler.StepLR(lib.optim.SGD([lib.nn.Parameter(lib.ones(2))], lr=0.5), 3),
    "a dataset": lambda lib: lib.utils.data.Subset(lib.utils.data.TensorDataset(lib.arange(4.0)), [2, 0]),
    "a distribution": lambda lib: lib.distributions.Normal(lib.zeros(2), lib.ones(2)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_the_librarys_other_classes_come_back(name):
    theirs, wanted = OBJECTS[name](torch), OBJECTS[name](fl)
    got = fl.load(io.BytesIO(written(torch, theirs)), weights_only=False)
    assert type(got) is type(wanted)
    for path in ("defaults.lr", "optimizer.defaults.lr", "step_size", "last_epoch", "dataset.tensors", "indices", "mean", "stddev"):
        ours, beside = got, theirs
        for part in path.split("."):
            ours, beside = ((v[part] if isinstance(v, dict) else getattr(v, part, None)) for v in (ours, beside))
        if beside is not None:
            same(ours, beside, path)


def test_the_refusal_names_all_classes_and_the_line_to_add():
    raw = written(torch, {"a": Plainest(), "m": [torch.nn.Linear(1, 1), Other()], "again": Plainest()})
    with pytest.raises(ValueError) as error:
        fl.load(io.BytesIO(raw), weights_only=False)
    line = f"add_safe_globals([{__name__}.Plainest, {__name__}.Other])"
    assert line in str(error.value) and f"import {__name__}\n" in str(error.value) and "Linear" not in str(error.value).partition("allowed, if")[2]
    with pytest.raises(ValueError, match="for weights_only=False:"):
        fl.load(io.BytesIO(raw))
    with fl.serialization.safe_globals([Plainest, Other]):
        assert type(fl.load(io.BytesIO(raw), weights_only=False)["m"][1]) is Other
    with pytest.raises(ValueError, match="With weights_only=False the file is read"):
        fl.load(io.BytesIO(written(torch, torch.nn.Linear(1, 1))))


class Plainest:
    """Of no kind that a file may hold by itself."""

    def __del__(self):
        pass


class Other(Plainest):
    """Another such class."""


class Space:
    """An ordinary class: both libraries make it of its attributes."""

    def __init__(self, low):
        self.low, self.me = low, self

    class Inner:
        pass

    class Mode(enum.Enum):
        FAST = 1

    @dataclasses.dataclass
    class Part:
        x: int = 1


class Labelled(Space, dict):
    pass


@pytest.mark.parametrize("reader", [fl, torch], ids=["ours", "theirs"])
@pytest.mark.parametrize("writer", [fl, torch], ids=["by us", "by them"])
def test_objects_of_ordinary_classes_come_back(writer, reader):
    space, labelled = Space(writer.ones(2)), Labelled(3)
    labelled["n"] = labelled.inner = space
    raw = written(writer, {"space": space, "of": {space: 1}, "labelled": labelled})
    got = reader.load(io.BytesIO(raw), weights_only=False)
    assert got["space"].me is got["space"] and got["of"] == {got["space"]: 1} and got["space"].low.tolist() == [1, 1]
    assert type(got["labelled"]) is Labelled and got["labelled"]["n"] is got["labelled"].inner is got["space"]


@pytest.mark.parametrize("reader", [fl, torch], ids=["ours", "theirs"])
@pytest.mark.parametrize("writer", [fl, torch], ids=["by us", "by them"])
def test_classes_in_classes_come_back(writer, reader):
    inner = Space.Inner()
    inner.n = 3
    saved = {"a": inner, "kind": Space.Inner, "mode": Space.Mode.FAST, "p": [Space.Part(2), Space.Part(3)], "kinds": {Space.Mode: 1}}
    got = reader.load(io.BytesIO(written(writer, saved)), weights_only=False)
    assert type(got["a"]) is Space.Inner is got["kind"] and got["a"].n == 3
    assert got["mode"] is Space.Mode.FAST and got["p"] == [Space.Part(2), Space.Part(3)] and got["kinds"] == {Space.Mode: 1}
