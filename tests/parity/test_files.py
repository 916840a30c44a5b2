"""Files of both libraries, read by the other: what comes back has the same values, types, strides, sharing and classes."""

from __future__ import annotations

import collections
import dataclasses
import io
import math

import numpy as np
import pytest

import flambeau as fl

torch = pytest.importorskip("torch")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3)]


def theirs_to_ours(obj, path=None, **how):
    buffer = io.BytesIO()
    torch.save(obj, path or buffer, **how)
    return fl.load(path or io.BytesIO(buffer.getvalue()))


def ours_to_theirs(obj):
    buffer = io.BytesIO()
    fl.save(obj, buffer, format="pt")
    return torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)


def there_and_back(obj):
    """Ours, read and written again by PyTorch, with both kinds of its files."""
    return [theirs_to_ours(ours_to_theirs(obj), _use_new_zipfile_serialization=new) for new in (True, False)]


def numbers(x):
    """Values that compare exactly, of a tensor of either library."""
    x = x.detach()
    wide = x.to((torch if isinstance(x, torch.Tensor) else fl).float32) if "bfloat16" in str(x.dtype) else x
    return wide.resolve_conj().resolve_neg().numpy() if isinstance(x, torch.Tensor) else wide.numpy()


def same(ours, theirs):
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
    assert ours.requires_grad == theirs.requires_grad
    np.testing.assert_array_equal(numbers(ours), numbers(theirs))


def made(lib, dtype, shape):
    x = lib.arange(math.prod(shape)).reshape(shape)
    if "complex" in dtype:
        return (x.to(lib.float64) * (1 + 2j)).to(getattr(lib, dtype))
    return (x % 2).to(getattr(lib, dtype)) if dtype == "bool" else x.to(getattr(lib, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("new", [True, False], ids=["archive", "stream"])
def test_their_tensors(new, shape, dtype):
    x = made(torch, dtype, shape)
    same(theirs_to_ours([1, x], _use_new_zipfile_serialization=new)[1], x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_our_tensors(shape, dtype):
    x = made(fl, dtype, shape)
    same(x, ours_to_theirs({"x": x})["x"])
    for again in there_and_back(x):
        assert again.dtype == x.dtype and fl.equal(again, x)


def views(lib):
    x = lib.arange(24.0).reshape(4, 6)
    return [x, x[1:], x.t(), x[:, ::2], x[2, 3], x.reshape(-1), x[0:0], lib.arange(6.0).reshape(2, 3).t(), lib.ones(3, 1).expand(3, 4), x]


@pytest.mark.parametrize("new", [True, False], ids=["archive", "stream"])
def test_their_views_share_memory(new):
    x = views(torch)
    got = theirs_to_ours(x, _use_new_zipfile_serialization=new)
    for ours, theirs in zip(got, x):
        same(ours, theirs)
    assert got[0] is got[-1]
    got[0][1, 0] = x[0][1, 0] = -1
    for ours, theirs in zip(got, x):
        same(ours, theirs)


def test_our_views_share_memory():
    x = views(fl)
    got = ours_to_theirs(x)
    assert got[0] is got[-1]
    got[0][1, 0] = x[0][1, 0] = -1
    for ours, theirs in zip(x, got):
        np.testing.assert_array_equal(numbers(ours), numbers(theirs))
        if ours.numel():
            assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("mmap", [True, False, None])
def test_paths_and_mappings(mmap, tmp_path):
    path = tmp_path / "net.pt"
    torch.save({"x": torch.arange(5), "b": torch.tensor([True])}, path)
    for _ in range(2):
        got = fl.load(path, mmap=mmap)
        assert got["x"].tolist() == [0, 1, 2, 3, 4] and got["b"].tolist() == [True]
        got["x"].zero_()  # not in the file


PLAIN = {
    "a": [1, -5, 2**40, -(2**70), 2.5, math.inf, "text \u2713", "", None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    3: {"x": {}, -1: "minus"}, (1, "k"): 2, 2.5: [], "set": {1, "x"}, "c": 1 - 2j, "bytes": b"\x00\xffab",
    "ordered": collections.OrderedDict([("z", 1), ("a", [2])]),
}  # fmt: skip


def test_plain_values_both_ways():
    for got in (theirs_to_ours(PLAIN), theirs_to_ours(PLAIN, _use_new_zipfile_serialization=False), ours_to_theirs(PLAIN), *there_and_back(PLAIN)):
        assert repr(got) == repr(PLAIN) or {**got, "set": None} == {**PLAIN, "set": None} and got["set"] == PLAIN["set"]
        assert [type(v) for v in got["a"]] == [type(v) for v in PLAIN["a"]] and type(got["ordered"]) is collections.OrderedDict


CONTAINERS = {
    "Counter": lambda lib: collections.Counter({1: lib.ones(1), "b": 2}),
    "OrderedDict": lambda lib: collections.OrderedDict(z=1, a=collections.Counter("x")),
    "set": lambda lib: {1, b"x", 2j},
    "bytes": lambda lib: [b"\x00\xff", b"", bytearray(b"xy"), bytearray()],
    "keys": lambda lib: {b"k": 1, 1j: 2, lib.int8: 3, lib.Size([1]): 5},
}  # fmt: skip
TOLD = {
    "defaultdict": lambda lib: collections.defaultdict(list, {"a": [lib.ones(2)]}),
    "defaultdict of nothing": lambda lib: collections.defaultdict(None, {1: 2}),
    "defaultdict of Counters": lambda lib: collections.defaultdict(collections.Counter),
    "deque": lambda lib: collections.deque([1, lib.ones(1)], 3),
    "frozenset": lambda lib: frozenset([1, (2, frozenset([b"x"]))]),
    "slice": lambda lib: slice(1, None, 2),
    "range": lambda lib: range(1, 9, 2),
}  # fmt: skip


def shown(x):
    text = sorted(map(repr, x)) if isinstance(x, (set, frozenset)) else x  # a set of texts has another order in each process, and when it is made again
    return f"{type(x)} {getattr(x, 'default_factory', None)} {text}".replace("flambeau.", "torch.")


@pytest.mark.parametrize("name", [*CONTAINERS, *TOLD])
def test_containers_both_ways(name):
    """What PyTorch wants to be told of it reads when it is told, and without being told it refuses its own files of it as well."""
    make = (CONTAINERS | TOLD)[name]
    want = shown(make(torch))
    for protocol in (2, 4):
        for new in (True, False):
            assert shown(theirs_to_ours(make(torch), pickle_protocol=protocol, _use_new_zipfile_serialization=new)) == want
    if name in TOLD:
        with pytest.raises(Exception, match="Weights only load failed"):
            ours_to_theirs(make(fl))
    with torch.serialization.safe_globals([collections.defaultdict, collections.deque, list, dict, frozenset, slice, range] if name in TOLD else []):
        assert shown(ours_to_theirs(make(fl))) == want


@pytest.mark.parametrize("encoding", ["utf-8", "latin1", "bytes", None])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.filterwarnings("ignore:pickle_load_args")
def test_texts_of_python_2(weights_only, encoding, tmp_path):
    import zipfile

    how = {} if encoding is None else {"encoding": encoding}
    raw = "h\u00e9".encode() if encoding else b"he"
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02}U\x01kU" + bytes([len(raw)]) + raw + b"s.")
        z.writestr("archive/version", "3\n")
    want = torch.load(tmp_path / "x.pt", weights_only=weights_only, **how)
    assert fl.load(tmp_path / "x.pt", weights_only=weights_only, **how) == want


@pytest.mark.parametrize("name", list(CONTAINERS))
def test_our_streams(name):
    buffer = io.BytesIO()
    fl.save([CONTAINERS[name](fl), *views(fl)], buffer, _use_new_zipfile_serialization=False, format="pt")
    got = torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
    assert shown(got[0]) == shown(CONTAINERS[name](torch))
    got[1][1, 0] = -1
    assert got[2][0, 0] == -1 and [numbers(x).tolist() for x in got[2:]] != [numbers(x).tolist() for x in views(fl)[1:]]


def test_types_of_both():
    got = theirs_to_ours([torch.float32, torch.bfloat16, torch.Size([2, 3]), torch.device("cpu"), torch.strided])
    assert got == [fl.float32, fl.bfloat16, fl.Size([2, 3]), fl.device("cpu"), fl.strided] and type(got[2]) is fl.Size
    back = ours_to_theirs([fl.float32, fl.complex64, fl.Size([2, 3]), fl.device("cpu")])
    assert back == [torch.float32, torch.complex64, torch.Size([2, 3]), torch.device("cpu")] and type(back[2]) is torch.Size


@pytest.mark.parametrize("new", [True, False], ids=["archive", "stream"])
def test_parameters_and_buffers(new):
    p, frozen, leaf = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False), torch.ones(3, requires_grad=True)
    p.note = "kept"
    got = theirs_to_ours([p, frozen, leaf, torch.nn.Buffer(torch.ones(1)), torch.nn.Buffer(torch.ones(1), persistent=False), p], _use_new_zipfile_serialization=new)
    assert [type(x) for x in got] == [fl.nn.Parameter, fl.nn.Parameter, fl.Tensor, fl.Tensor, fl.Tensor, fl.nn.Parameter]
    assert [isinstance(x, fl.nn.Buffer) for x in got] == [False, False, False, True, True, False]
    assert [x.requires_grad for x in got] == [True, False, True, False, False, True]
    assert got[0].note == "kept" and got[0] is got[5] and got[3].persistent and not got[4].persistent
    back = ours_to_theirs([fl.nn.Parameter(fl.ones(2)), fl.nn.Parameter(fl.ones(2), requires_grad=False), fl.ones(1, requires_grad=True), fl.nn.Buffer(fl.ones(1))])
    assert [type(x) for x in back[:3]] == [torch.nn.Parameter, torch.nn.Parameter, torch.Tensor] and isinstance(back[3], torch.nn.Buffer)
    assert [x.requires_grad for x in back] == [True, False, True, False]


def nets(lib):
    return lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.Flatten(), lib.nn.Linear(16, 2), lib.nn.LSTM(2, 3))


@pytest.mark.parametrize("new", [True, False], ids=["archive", "stream"])
def test_state_dicts_of_networks(new):
    theirs, ours = nets(torch), nets(fl)
    got = theirs_to_ours(theirs.state_dict(), _use_new_zipfile_serialization=new)
    assert type(got) is collections.OrderedDict and got._metadata == theirs.state_dict()._metadata
    ours.load_state_dict(got)
    for name, value in ours.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), theirs.state_dict()[name].numpy())
    again = nets(torch)
    state = ours_to_theirs(ours.state_dict())
    assert type(state) is collections.OrderedDict and state._metadata == ours.state_dict()._metadata
    again.load_state_dict(state)
    for name, value in again.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), theirs.state_dict()[name].numpy())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_checkpoints_of_training(name):
    def step(lib):
        lib.manual_seed(0)
        net = lib.nn.Linear(2, 2)
        optimizer = getattr(lib.optim, name)(net.parameters(), lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))
        net(lib.ones(1, 2)).sum().backward()
        optimizer.step()
        return net, optimizer

    (net, optimizer), (mine, own) = step(torch), step(fl)
    got = theirs_to_ours({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3})
    mine.load_state_dict(got["net"])
    own.load_state_dict(got["optimizer"])
    for lib, m, o in ((torch, net, optimizer), (fl, mine, own)):
        o.zero_grad()
        m(lib.ones(1, 2)).sum().backward()
        o.step()
    np.testing.assert_allclose(mine.weight.detach().numpy(), net.weight.detach().numpy(), rtol=1e-6)
    back = ours_to_theirs({"optimizer": own.state_dict()})["optimizer"]
    step(torch)[1].load_state_dict(back)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors(layout):
    x = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    theirs = getattr(x, f"to_sparse_{layout}")(*[(1, 3)] * layout.startswith("b"))
    got = theirs_to_ours({"x": theirs})["x"]
    np.testing.assert_array_equal(got.to_dense().numpy(), x.numpy())
    assert got.layout is getattr(fl, f"sparse_{layout}") and got.is_coalesced()
    back = ours_to_theirs({"x": got})["x"]
    assert back.layout == theirs.layout and torch.equal(back.to_dense(), x)


def test_bits_that_are_computed_later():
    x = torch.tensor([1 + 2j, 3 - 1j])
    assert theirs_to_ours(x.conj()).tolist() == [1 - 2j, 3 + 1j]
    assert theirs_to_ours(torch._neg_view(x.real)).tolist() == [-1.0, -3.0]
    assert theirs_to_ours(x.conj().imag).tolist() == [-2.0, 1.0]


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "complex32"])
def test_types_without_a_class_of_storages(name):
    values = [1, 2, 3, 4, 5, 6]
    theirs = torch.tensor(values).to(getattr(torch, name)).reshape(2, 3)
    ours = fl.tensor(values).to(getattr(fl, name)).reshape(2, 3)
    got = theirs_to_ours({"x": theirs, "column": theirs[:, 1]})
    assert got["x"].dtype == getattr(fl, name) and got["x"].tolist() == theirs.tolist()
    assert got["column"].stride() == (3,) and got["column"].data_ptr() == got["x"][:, 1].data_ptr()
    back = ours_to_theirs({"x": ours, "column": ours[:, 1]})
    assert back["x"].dtype == getattr(torch, name) and back["x"].tolist() == ours.tolist()
    assert back["column"].untyped_storage().data_ptr() == back["x"].untyped_storage().data_ptr()


def test_meta_tensors():
    got = theirs_to_ours(torch.empty(2, 3, device="meta").t())
    assert got.is_meta and got.shape == (3, 2) and got.stride() == (1, 3)


@pytest.mark.filterwarnings("ignore")
def test_storages_and_what_is_by_tensors():
    x = torch.arange(3.0)
    got = theirs_to_ours({"bytes": torch.ones(3).untyped_storage(), "typed": x.storage(), "x": x[1:], "by": {torch.nn.Parameter(x): 1}})
    assert got["typed"].tolist() == [0.0, 1.0, 2.0] and got["typed"].dtype is fl.float32 and len(got["bytes"]) == 12
    (key,) = got["by"]
    assert type(key) is fl.nn.Parameter and key.tolist() == [0.0, 1.0, 2.0]
    got["typed"][1] = 5.0
    assert got["x"].tolist() == [5.0, 2.0]
    y = fl.nn.Parameter(fl.ones(2))
    ((theirs, value),) = ours_to_theirs({y: [y]}).items()
    assert type(theirs) is torch.nn.Parameter and value[0] is theirs


def test_without_checksums(tmp_path):
    path = tmp_path / "x.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"x": torch.arange(4)}, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert fl.load(path, mmap=False)["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("what, text", [
    (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantised tensors|no counterpart"),
    (lambda: torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear.*add_safe_globals"),
    (lambda: io.BytesIO, "_io.BytesIO"),
], ids=["quantised", "module", "class"])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_what_is_refused_by_name(what, text):
    with pytest.raises(fl.serialization.FileFormatError, match=text):
        theirs_to_ours({"a": [what()]})


def test_numpy_inside_of_their_files():
    a = np.arange(6, dtype=">f4").reshape(2, 3)
    got = theirs_to_ours({"a": a, "s": np.float64(2.5), "f": np.asfortranarray(a), "i": np.int16(-3), "e": np.zeros((0, 2))})
    np.testing.assert_array_equal(got["a"], a)
    np.testing.assert_array_equal(got["f"], a)
    assert got["s"] == 2.5 and type(got["s"]) is np.float64 and got["i"] == -3 and got["e"].shape == (0, 2)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        self.register_buffer("scale", torch.tensor([2.0]))
        self.head = torch.nn.Linear(3, 1, bias=False)

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


@pytest.mark.filterwarnings("ignore")
def test_torchscript_archives(tmp_path):
    net = Net().eval()
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.trace(net, torch.ones(1, 2)), path)
    got = fl.load(path)
    want = net.state_dict()
    assert {name for name in got} >= {name for name in want}
    for name, value in want.items():
        np.testing.assert_array_equal(got[name].numpy(), value.numpy())


@dataclasses.dataclass
class Step:
    at: int

    def further(self, n):
        return self.at + n

    @classmethod
    def first(cls):
        return cls(0)


@pytest.mark.parametrize("reader", [torch, fl], ids=["theirs", "ours"])
@pytest.mark.parametrize("writer", [torch, fl], ids=["theirs", "ours"])
def test_functions_and_methods_by_their_names(writer, reader):
    step, file = Step(3), io.BytesIO()
    value = {"step": step, "method": step.further, "plain": Step.further, "class": Step.first, "function": numbers, "tensor": writer.ones(2)}
    writer.save(value, file, **({} if writer is torch else {"format": "pt"}))
    file.seek(0)
    found = reader.load(file, weights_only=False)
    assert found["method"](4) == 7 and found["method"].__self__ == found["step"]
    assert (found["plain"], found["class"], found["function"]) == (Step.further, Step.first, numbers)


class Held:
    def __init__(self):
        self.x = torch.ones(2)


class Mine:
    pass


class Image(torch.Tensor):
    pass


class Picture(fl.Tensor):
    pass


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_class_of_tensors_that_the_user_allows(weights_only):
    image = torch.ones(2, requires_grad=True).detach().as_subclass(Image).requires_grad_()
    image.size_of = (3, 4)
    file = io.BytesIO()
    torch.save({"image": image}, file)
    file.seek(0)
    with fl.serialization.safe_globals([(Picture, f"{Image.__module__}.Image")]):
        found = fl.load(file, weights_only=weights_only)["image"]
    assert type(found) is Picture and found.size_of == (3, 4) and found.requires_grad and found.is_leaf and found.tolist() == [1, 1]
    file.seek(0)
    with pytest.raises(fl.serialization.FileFormatError, match="Image', which is not among what a file may name"):
        fl.load(file, weights_only=weights_only)



def test_a_class_that_the_user_allows():
    buffer = io.BytesIO()
    torch.save({"h": Held()}, buffer)
    name = f"{Held.__module__}.Held"
    with pytest.raises(fl.serialization.FileFormatError, match=f"names '{name}'"):
        fl.load(io.BytesIO(buffer.getvalue()))
    assert fl.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(buffer.getvalue())) == [name]
    with fl.serialization.safe_globals([(Mine, name)]):
        got = fl.load(io.BytesIO(buffer.getvalue()), weights_only=False)["h"]
    assert type(got) is Mine and got.x.tolist() == [1, 1]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("new", [True, False], ids=["archive", "stream"])
def test_protocols(new, protocol):
    obj = {"x": torch.arange(3), "y": [1, b"ab", {1, 2}, 1j, frozenset([3]), bytearray(b"x"), "t" * 300]}
    got = theirs_to_ours(obj, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
    assert got["y"] == obj["y"] and got["x"].tolist() == [0, 1, 2]


def test_locations():
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer, _use_new_zipfile_serialization=False)
    raw = buffer.getvalue().replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    with pytest.raises(RuntimeError, match="saved on 'cuda:0', which is not here; pass map_location='cpu'"):
        fl.load(io.BytesIO(raw))
    for where in ("cpu", {"cuda:0": "cpu"}, lambda storage, location: storage, lambda storage, location: None if location == "cpu" else storage.clone()):
        assert fl.load(io.BytesIO(raw), where).tolist() == [1, 1]
    assert fl.load(io.BytesIO(raw), "meta").is_meta


# ------------------------------------------------------------------------------------------- random structures


def random_structure(lib, rng):
    """The same objects of either library, for the same draws: tensors alone and over one memory, Parameters, containers, repetitions."""
    tensors = []

    def tensor():
        if tensors and rng.random() < 0.5:
            x = tensors[rng.integers(len(tensors))]
            view = rng.integers(6)
            if view == 0 or x.ndim == 0:
                return x
            x = x.detach()
            made = [None, lambda: x[..., :1], lambda: x.transpose(0, -1), lambda: x.unsqueeze(0), lambda: x[1:], lambda: x.reshape(-1) if x.is_contiguous() else x]
            tensors.append(made[view]())
        else:
            shape = tuple(int(n) for n in rng.integers(0, 5, rng.integers(0, 4)))
            x = made_of(lib, DTYPES[rng.integers(len(DTYPES))], shape)
            if x.is_floating_point() and rng.random() < 0.3:
                x = lib.nn.Parameter(x, bool(rng.random() < 0.5))
            tensors.append(x)
        return tensors[-1]

    def value(depth):
        kind = rng.integers(9 if depth < 4 else 4)
        if kind < 3:
            return tensor()
        if kind == 3:
            return [1, -(2**40), 2.5, "text", None, True, (), 1j, b"raw", lib.float16, lib.Size([2])][rng.integers(11)]
        items = [value(depth + 1) for _ in range(rng.integers(0, 4))]
        keys = ["a", 3, (1, "b"), "", 2.5][: len(items)]
        return [items, tuple(items), dict(zip(keys, items)), collections.OrderedDict(zip(keys, items)), items][kind - 4]

    return [value(0) for _ in range(rng.integers(1, 4))]


def made_of(lib, dtype, shape):
    return made(lib, dtype, shape) if math.prod(shape) else lib.zeros(shape, dtype=getattr(lib, dtype))


def described(lib, x, tensors):
    if isinstance(x, lib.Tensor):
        tensors.append(x)
        strides = [s for s, n in zip(x.stride(), x.shape) if n > 1] if x.numel() else []
        return (type(x).__name__, str(x.dtype).split(".")[-1], tuple(x.shape), strides, x.requires_grad, numbers(x).tolist())
    if isinstance(x, dict):
        return (type(x).__name__, [(k, described(lib, v, tensors)) for k, v in x.items()])
    if isinstance(x, lib.Size):
        return ("Size", tuple(x))
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, [described(lib, v, tensors) for v in x])
    return (type(x).__name__, str(x).split(".")[-1] if isinstance(x, lib.dtype) else x)


def touched(lib, x):
    """What shows in all tensors when each was written to, and which are one object."""
    tensors = []
    described(lib, x, tensors)
    one = [[a is b for b in tensors] for a in tensors]
    for k, t in enumerate(tensors):
        if t.numel():
            t.detach()[(0,) * t.ndim] = k % 2
    return one, [numbers(t).tolist() for t in tensors]


@pytest.mark.parametrize("seed", range(60))
def test_random_structures(seed):
    """Saved by one library and loaded by the other they are as they were, and share memory as they did."""
    for format in (True, False):
        theirs, ours = (random_structure(lib, np.random.default_rng(seed)) for lib in (torch, fl))
        got = theirs_to_ours(theirs, _use_new_zipfile_serialization=format)
        assert described(fl, got, []) == described(fl, ours, []) == described(torch, theirs, [])
        back = ours_to_theirs(ours)
        mine, other = described(fl, ours, []), described(torch, back, [])
        assert repr(mine) == repr(other) or without_gaps(mine) == without_gaps(other)
        assert touched(fl, got) == touched(torch, theirs) == touched(fl, ours) == touched(torch, back)


def without_gaps(x):
    """Tensors that skip elements, and overlap with no other, are written without these: their strides differ."""
    if isinstance(x, tuple) and len(x) == 6:
        return (*x[:3], *x[4:])
    return type(x)(map(without_gaps, x)) if isinstance(x, (list, tuple)) else x
