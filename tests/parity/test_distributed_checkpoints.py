"""Checkpoints in folders, read by the other library: both ways, with the same entries, paths and places of pieces."""

from __future__ import annotations

import dataclasses
import warnings

import pytest

import flambeau as fl
from flambeau.distributed import checkpoint as ours
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.distributed.checkpoint")
pytest.importorskip("torch.distributed.checkpoint.state_dict")

LIBRARIES = {"ours": (fl, ours), "theirs": (torch, theirs)}
WAYS = [("ours", "theirs"), ("theirs", "ours")]


@pytest.fixture(autouse=True)
def quiet():
    """PyTorch warns that it takes the program for one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(lib, seed):
    model = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2))
    with lib.no_grad():
        for number, param in enumerate(model.parameters()):
            param.copy_(lib.arange(param.numel()).reshape(param.shape) / 8 + seed + number)
    optimizer = lib.optim.Adam([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[1].parameters()}], lr=0.25)
    model(lib.ones(4, 3) * lib.arange(4).reshape(4, 1)).square().sum().backward()
    optimizer.step()
    rest = {"n": seed, "t": (1, "a"), "l": [lib.ones(2) * seed, {"q": 2.5}], "h": (lib.ones(2, 3) * seed).to(lib.bfloat16).t()}
    return {"model": model, "optimizer": optimizer, "rest": rest}


def plain(value):
    if hasattr(value, "tolist"):
        return (str(value.dtype).split(".")[-1], value.tolist())
    if hasattr(value, "state_dict"):
        return plain(dict(value.state_dict()))
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("writer, reader", WAYS)
@pytest.mark.parametrize("how", [{}, {"single_file_per_rank": False}, {"thread_count": 2}], ids=str)
def test_there_and_back(tmp_path, writer, reader, how):
    lib, dcp = LIBRARIES[writer]
    written = made(lib, 3)
    dcp.save(written, storage_writer=dcp.FileSystemWriter(tmp_path, **how))
    lib, dcp = LIBRARIES[reader]
    state = made(lib, 1)
    dcp.load(state, checkpoint_id=tmp_path)
    assert plain(state) == plain(written)


def said(value):
    """Metadata of either library as plain values."""
    if dataclasses.is_dataclass(value):
        return {field.name: said(getattr(value, field.name)) for field in dataclasses.fields(value) if field.name not in ("length", "save_id")}
    if isinstance(value, dict):
        return [(said(key), said(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return list(map(said, value))
    return value if isinstance(value, (int, str, type(None))) else str(value).replace("flambeau.", "torch.")


def test_what_is_said_is_the_same(tmp_path):
    """Of all but the lengths of pieces, since archives of the two are not the same bytes."""
    found = []
    for lib, dcp in LIBRARIES.values():
        metadata = dcp.save(made(lib, 3), checkpoint_id=tmp_path)
        text = said(metadata)
        for _, info in text["storage_data"]:
            info["offset"] = None
        found.append(text)
    assert found[0] == found[1]


@pytest.mark.parametrize("reader", LIBRARIES)
def test_metadata_of_the_other(tmp_path, reader):
    """What one has written, and the other reads, is what was said when it was written."""
    writer = "theirs" if reader == "ours" else "ours"
    lib, dcp = LIBRARIES[writer]
    written = dcp.save(made(lib, 3), checkpoint_id=tmp_path)
    read = LIBRARIES[reader][1].FileSystemReader(tmp_path).read_metadata()
    read.storage_meta.load_id = None
    assert said(read) == said(written)


def test_all_of_theirs_without_a_state(tmp_path):
    theirs.save({"a": {"b": torch.ones(2), "c": [1, 2]}, "d": torch.zeros(0, 2, dtype=torch.int16)}, checkpoint_id=tmp_path)
    assert plain(_load_state_dict_from_keys(checkpoint_id=tmp_path)) == {
        "a": {"b": ("float32", [1.0, 1.0]), "c": [1, 2]}, "d": ("int16", []),
    }  # fmt: skip


def test_states_by_names(tmp_path):
    """`get_state_dict` and `set_state_dict` around it."""
    found = []
    for (lib, dcp), other in zip(LIBRARIES.values(), list(LIBRARIES.values())[::-1]):
        held = made(lib, 2)
        model, optimizer = dcp.state_dict.get_state_dict(held["model"], held["optimizer"])
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path)
        lib, dcp = other
        new = made(lib, 1)
        model, optimizer = dcp.state_dict.get_state_dict(new["model"], new["optimizer"])
        state = {"model": model, "optimizer": optimizer}
        dcp.load(state, checkpoint_id=tmp_path)
        dcp.state_dict.set_state_dict(
            new["model"], new["optimizer"], model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        assert plain(new["model"]) == plain(held["model"]) and plain(new["optimizer"]) == plain(held["optimizer"])
        found.append([list(state["optimizer"]["state"]), [group["params"] for group in state["optimizer"]["param_groups"]]])
    assert found[0] == found[1]
