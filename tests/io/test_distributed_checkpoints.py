"""Checkpoints in folders by `distributed.checkpoint`, in one process: what is kept, what is refused, and what is left of a failure."""

import dataclasses
import io
import os
import pathlib
import pickle

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.distributed import checkpoint as dcp
from flambeau.distributed.checkpoint import metadata as md
from flambeau.distributed.checkpoint._metadata_file import (
    _StorageInfo,
    metadata_bytes,
    read_metadata,
)
from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from flambeau.distributed.checkpoint.planner import TensorWriteData, WriteItemType
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from flambeau.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from flambeau.serialization import FileFormatError


def failing(kind, match):
    """What a step raises, inside of CheckpointException."""

    class Caught:
        def __enter__(self):
            self.raised = pytest.raises(dcp.CheckpointException)
            self.info = self.raised.__enter__()

        def __exit__(self, *exception):
            held = self.raised.__exit__(*exception)
            error, _ = self.info.value.failures[0]
            assert isinstance(error, kind) and match in str(error) and match in str(self.info.value), error
            return held

    return Caught()


def trained(seed=0):
    fl.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = fl.optim.Adam(model.parameters(), lr=0.1 + seed)
    model(fl.randn(4, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def same(a, b):
    if isinstance(a, fl.Tensor):
        return a.dtype == b.dtype and fl.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


# ------------------------------------------------------------------------------------------- there and back


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"thread_count": 3}, {"single_file_per_rank": False}, {"sync_files": False}], ids=str)
def test_what_has_a_state_is_filled(tmp_path, how):
    model, optimizer = trained()
    written = dcp.save({"model": model, "optimizer": optimizer, "step": 7}, storage_writer=dcp.FileSystemWriter(tmp_path / "c", **how))
    other, its = trained(seed=1)
    state = {"model": other, "optimizer": its, "step": 0}
    weight = other[0].weight
    assert dcp.load(state, checkpoint_id=tmp_path / "c") is None
    assert state["step"] == 7 and state["model"] is other and other[0].weight is weight
    assert same(model.state_dict(), other.state_dict()) and same(optimizer.state_dict(), its.state_dict())
    read = dcp.FileSystemReader(tmp_path / "c").read_metadata()
    read.storage_meta.load_id = None
    assert read == written and read.version == "1.0.0"
    assert not [name for name in os.listdir(tmp_path / "c") if name.endswith(".tmp")]


VALUES = {
    "numbers": {"a": 1, "b": 2.5, "c": None, "d": [1, 2], "e": (1, fl.ones(2))},
    "dtypes": {name: fl.arange(4).to(getattr(fl, name)) for name in "bool uint8 int64 float16 bfloat16 float64 complex64 uint16".split()},
    "shapes": {"none": fl.tensor(3.0), "empty": fl.ones(0, 2), "turned": fl.arange(6).reshape(2, 3).t(), "part": fl.arange(9)[2:8:2]},
    "lists": [fl.ones(2), {"x": [fl.zeros(1), 5]}],
    "parameter": nn.Parameter(fl.ones(2)),
}


@pytest.mark.parametrize("name", VALUES)
def test_all_of_a_checkpoint_without_a_state(tmp_path, name):
    dcp.save({"it": VALUES[name], "other": 1}, checkpoint_id=str(tmp_path))
    assert same(_load_state_dict_from_keys("it", checkpoint_id=tmp_path), {"it": VALUES[name]})
    assert set(_load_state_dict_from_keys(checkpoint_id=tmp_path)) == {"it", "other"}


def test_views_that_share_memory_are_filled_where_they_lie(tmp_path):
    dcp.save({"x": fl.arange(4.0).reshape(2, 2)}, checkpoint_id=tmp_path)
    base = fl.zeros(2, 4)
    dcp.load({"x": base[:, ::2]}, checkpoint_id=tmp_path)
    assert base.tolist() == [[0, 0, 1, 0], [2, 0, 3, 0]]


def test_tensors_without_data_get_some(tmp_path):
    model, _ = trained()
    dcp.save({"model": model.state_dict()}, checkpoint_id=tmp_path)
    with fl.device("meta"):
        state = {"model": nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).state_dict()}
    dcp.load(state, checkpoint_id=tmp_path)
    assert same(dict(model.state_dict()), dict(state["model"]))


def test_one_file_and_back(tmp_path):
    dcp.save({"a": {"b": fl.ones(2)}, "n": 3}, checkpoint_id=tmp_path / "c")
    dcp_to_torch_save(tmp_path / "c", tmp_path / "one.pt")
    assert same(fl.load(tmp_path / "one.pt"), {"a": {"b": fl.ones(2)}, "n": 3})
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "d")
    assert same(_load_state_dict_from_keys(checkpoint_id=tmp_path / "d"), {"a": {"b": fl.ones(2)}, "n": 3})


class Halves(dcp.DefaultSavePlanner):
    """Writes a matrix in two pieces, as two processes would."""

    def create_local_plan(self):
        plan = super().create_local_plan()
        (item,) = plan.items
        pieces = []
        for offsets, sizes in (((0, 0), (2, 3)), ((2, 0), (1, 3))):
            chunk = md.ChunkStorageMetadata(fl.Size(offsets), fl.Size(sizes))
            data = TensorWriteData(chunk, item.tensor_data.properties, item.tensor_data.size)
            pieces.append(dcp.WriteItem(md.MetadataIndex("x", offsets), WriteItemType.SHARD, tensor_data=data))
        return dataclasses.replace(plan, items=pieces)

    def lookup_object(self, index):
        return self.state_dict["x"][index.offset[0] :][:2]


def test_pieces_of_several_processes_are_put_together(tmp_path):
    x = fl.arange(9.0).reshape(3, 3)
    dcp.save({"x": x}, checkpoint_id=tmp_path, planner=Halves())
    state = {"x": fl.zeros(3, 3)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert fl.equal(state["x"], x)


def test_planners_of_the_program(tmp_path):
    class Renaming(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            super().set_up_planner({f"foo_{key}": value for key, value in state_dict.items()}, storage_meta, is_coordinator)

    class Doubling(dcp.DefaultLoadPlanner):
        def commit_tensor(self, read_item, tensor):
            tensor.mul_(2)

    dcp.save({"x": fl.ones(2)}, checkpoint_id=tmp_path, planner=Renaming())
    state = {"foo_x": fl.zeros(2), "new": fl.zeros(1)}
    dcp.load(state, checkpoint_id=tmp_path, planner=Doubling(allow_partial_load=True))
    assert state["foo_x"].tolist() == [2.0, 2.0] and state["new"].tolist() == [0.0]
    with failing(RuntimeError, "Missing key in checkpoint state_dict: new."):
        dcp.load(state, checkpoint_id=tmp_path)


def test_file_systems_of_fsspec():
    pytest.importorskip("fsspec")
    for _ in range(2):
        dcp.save({"x": fl.ones(2)}, checkpoint_id="memory://flambeau/c")
    state = {"x": fl.zeros(2)}
    dcp.load(state, checkpoint_id="memory://flambeau/c")
    assert state["x"].tolist() == [1.0, 1.0]


def test_dicts_that_older_versions_left_whole(tmp_path):
    """Before 2.4 a dict without tensors was one entry."""
    dcp.save({"a": {"n": (1, 2)}}, checkpoint_id=tmp_path, planner=dcp.DefaultSavePlanner(flatten_state_dict=False))
    state = {"a": {"n": (0, 0)}}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state == {"a": {"n": (1, 2)}}


# ------------------------------------------------------------------------------------------- in the background


@pytest.mark.parametrize("cached", [False, True])
def test_saving_goes_on_while_the_state_changes(tmp_path, cached):
    writer = dcp.FileSystemWriter(tmp_path, cache_staged_state_dict=cached)
    x = fl.ones(3)
    writing = dcp.async_save({"x": x, "l": [x, 1]}, storage_writer=writer)
    x.zero_()
    assert isinstance(writing.result(), dcp.Metadata)
    assert same(_load_state_dict_from_keys(checkpoint_id=tmp_path), {"x": fl.ones(3), "l": [fl.ones(3), 1]})
    if cached:
        held = writer.state_dict_cache["x"].data_ptr()
        with pytest.warns(UserWarning, match="Detected an existing checkpoint"):
            dcp.async_save({"x": x, "l": [x, 1]}, storage_writer=writer).result()
        assert writer.state_dict_cache["x"].data_ptr() == held
        assert _load_state_dict_from_keys("x", checkpoint_id=tmp_path)["x"].tolist() == [0.0, 0.0, 0.0]


def test_a_stager_in_the_background(tmp_path):
    stager = dcp.staging.DefaultStager()
    response = dcp.async_save({"x": fl.ones(3)}, checkpoint_id=tmp_path, async_stager=stager)
    assert response.staging_completion.result() is None and response.upload_completion.result().version == "1.0.0"
    stager.close()


def test_failures_in_the_background_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    with failing(OSError, "file"):
        dcp.async_save({"x": 1}, checkpoint_id=tmp_path / "file").result()


# ------------------------------------------------------------------------------------------- what is left


class Unwritable:
    def __reduce__(self):
        raise TypeError("not me")


def test_a_failure_leaves_the_checkpoint_that_was_there(tmp_path):
    dcp.save({"x": fl.ones(2), "n": 1}, checkpoint_id=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.warns(UserWarning, match="Detected an existing checkpoint"), failing(TypeError, "Unwritable"):
        dcp.save({"x": fl.zeros(2), "n": Unwritable()}, checkpoint_id=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with failing(RuntimeError, "already exists"):
        dcp.save({"x": fl.zeros(2)}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))


def test_metadata_is_there_last(tmp_path, monkeypatch):
    """Who looks at the folder before the end sees no checkpoint, and not the new files under the old one's name."""
    writer = dcp.FileSystemWriter(tmp_path)
    seen = []

    class Watched(type(writer.fs)):
        def rename(self, path, new_path):
            super().rename(path, new_path)
            seen.append((pathlib.Path(new_path).name, (tmp_path / ".metadata").exists()))

    writer.fs = Watched()
    for _ in range(2):
        with pytest.warns(UserWarning) if seen else pytest.MonkeyPatch.context():
            dcp.save({"x": fl.ones(2)}, storage_writer=writer)
    assert seen == [("__0_0.distcp", False), (".metadata", True)] * 2


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "call, kind, match",
    [
        (lambda: dcp.save({"a": 1}), RuntimeError, "`checkpoint_id` must be specified if storage_writer is None"),
        (lambda: dcp.load({"a": 1}), RuntimeError, "`checkpoint_id` must be specified if storage_reader is None"),
        (lambda: dcp.save({"a": 1}, checkpoint_id="nowhere://bucket/c"), RuntimeError, "is no path of a folder"),
        (lambda: dcp.save({"a": 1}, checkpoint_id="/tmp/x", process_group=object()), ValueError, "no groups of processes"),
        (lambda: dcp.FileSystemWriter("x", _extensions=[object()]), ValueError, "_extensions"),
        (lambda: dcp.FileSystemWriter("x", thread_count=0), ValueError, "thread_count = 0"),
        (
            lambda: dcp.async_save({}, checkpoint_id="/tmp/x", async_checkpointer_type=AsyncCheckpointerType.PROCESS),
            ValueError,
            "expected THREAD",
        ),
    ],
)
def test_wrong_calls(call, kind, match):
    with pytest.raises(kind, match=match):
        call()


@pytest.mark.parametrize(
    "state, kind, match",
    [
        ({"nope": fl.ones(1)}, RuntimeError, "Missing key in checkpoint state_dict: nope."),
        ({"x": fl.ones(2)}, ValueError, "Size mismatch between saved [3] and current: [2] for x"),
        ({"x": 5}, ValueError, "the checkpoint has a tensor, the state none (int)"),
    ],
)
def test_states_that_do_not_fit(tmp_path, state, kind, match):
    dcp.save({"x": fl.ones(3)}, checkpoint_id=tmp_path)
    with failing(kind, match):
        dcp.load(state, checkpoint_id=tmp_path)


def test_names_that_are_one(tmp_path):
    with failing(ValueError, "duplicated flatten key a.b"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
    assert not os.listdir(tmp_path)


def test_sparse_tensors(tmp_path):
    with failing(TypeError, "expected a dense tensor"):
        dcp.save({"x": fl.eye(3).to_sparse()}, checkpoint_id=tmp_path)
    assert not os.listdir(tmp_path)


def test_what_is_no_checkpoint(tmp_path):
    with failing(FileNotFoundError, "does not exist: there is no .metadata in it"):
        dcp.load({"x": 1}, checkpoint_id=tmp_path / "none")
    with failing(FileNotFoundError, "is no checkpoint, or one whose saving did not end"):
        dcp.load({"x": 1}, checkpoint_id=tmp_path)


# ------------------------------------------------------------------------------------------- hostile files


@pytest.fixture
def written(tmp_path):
    dcp.save({"x": fl.arange(6.0).reshape(2, 3), "n": [1, 2]}, checkpoint_id=tmp_path)
    return tmp_path


def state():
    return {"x": fl.zeros(2, 3), "n": 0}


@pytest.mark.slow
def test_truncated_files(written):
    raw, data = (written / ".metadata").read_bytes(), (written / "__0_0.distcp").read_bytes()
    for cut in range(len(raw)):
        with pytest.raises(FileFormatError):
            read_metadata(raw[:cut], "it")
    for cut in (0, 10, len(data) // 2, len(data) - 1):
        (written / "__0_0.distcp").write_bytes(data[:cut])
        with failing(FileFormatError, "(truncated?)"):
            dcp.load(state(), checkpoint_id=written)
    (written / "__0_0.distcp").unlink()
    with failing(FileNotFoundError, "is not there, which holds"):
        dcp.load(state(), checkpoint_id=written)


@pytest.mark.slow
def test_changed_bytes(written):
    """Whatever a byte becomes: it is read as something, or refused."""
    raw = (written / ".metadata").read_bytes()
    for at in range(len(raw)):
        for value in (raw[at] ^ 1, raw[at] ^ 0x80, 0xFF):
            try:
                found = read_metadata(raw[:at] + bytes([value]) + raw[at + 1 :], "it")
            except FileFormatError:
                continue
            assert isinstance(found, dcp.Metadata)


class Evil:
    def __reduce__(self):
        return os.system, ("echo never",)


@pytest.mark.parametrize("obj, match", [(Evil(), "system"), ([1, 2], "where a Metadata is expected"), (io.BytesIO(b"x"), "BytesIO")])
def test_other_pickles(written, obj, match):
    (written / ".metadata").write_bytes(pickle.dumps(obj))
    with failing(FileFormatError, match):
        dcp.load(state(), checkpoint_id=written)


def test_entries_that_name_functions(written):
    """A pickle in the place of an entry that is no tensor."""
    info = dcp.FileSystemReader(written).read_metadata().storage_data[md.MetadataIndex("n")]
    held = pickle.dumps(Evil()).ljust(info.length, b"\0")
    data = (written / "__0_0.distcp").read_bytes()
    (written / "__0_0.distcp").write_bytes(data[: info.offset] + held + data[info.offset + info.length :])
    with failing(FileFormatError, "system', which no file may use"):
        dcp.load(state(), checkpoint_id=written)


@dataclasses.dataclass
class Settings:
    rate: float


def test_objects_of_the_program_are_allowed_by_name(tmp_path):
    dcp.save({"n": Settings(0.5)}, checkpoint_id=tmp_path)
    with failing(FileFormatError, "Settings, which nothing allows"):
        dcp.load({"n": None}, checkpoint_id=tmp_path)
    state = {"n": None}
    with fl.serialization.safe_globals([Settings]):
        dcp.load(state, checkpoint_id=tmp_path)
    assert state["n"] == Settings(0.5)


def with_info(**changes):
    def change(metadata):
        for info in metadata.storage_data.values():
            vars(info).update(changes)

    return change


def with_chunk(**changes):
    def change(metadata):
        vars(metadata.state_dict_metadata["x"].chunks[0]).update(changes)

    return change


def anothers_bytes(metadata):
    metadata.storage_data[md.MetadataIndex("x", (0, 0))] = metadata.storage_data[md.MetadataIndex("n")]


def of_metadata(**changes):
    return lambda metadata: vars(metadata).update(changes)


HOSTILE = {
    "a file elsewhere": (with_info(relative_path="../other/__0_0.distcp"), "which is not in its folder"),
    "a file of the machine": (with_info(relative_path="/etc/passwd"), "which is not in its folder"),
    "no file": (with_info(relative_path=""), "which is not in its folder"),
    "a negative place": (with_info(offset=-1), "expected numbers"),
    "a place beyond the end": (with_info(offset=10**6), "(truncated?)"),
    "no bytes": (with_info(length=0), "has 0 bytes for 'x', whose elements have 24"),
    "another's bytes": (anothers_bytes, "holds a list for 'x'; its metadata wants one of at least [2, 3]"),
    "transformed": (with_info(transform_descriptors=["zstd"]), "was transformed by zstd"),
    "a piece beyond the tensor": (with_chunk(offsets=fl.Size([1, 0])), "beyond its size [2, 3]"),
    "a piece of other dimensions": (with_chunk(sizes=fl.Size([2])), "expected 2 numbers"),
    "too few pieces": (with_chunk(sizes=fl.Size([1, 3])), "of 6 elements in pieces of 3"),
    "no place": (of_metadata(storage_data={}), "does not say where 'x' at [0, 0] lies"),
    "no places": (of_metadata(storage_data=None), "expected a dict"),
    "no entries": (of_metadata(state_dict_metadata=5), "has the entries 5; expected a dict by names"),
    "an entry of another kind": (of_metadata(state_dict_metadata={"x": 5}), "where a TensorStorageMetadata is expected"),
    "a list without end": (of_metadata(planner_data={"x": ("x", 10**9)}), "more items than there are entries"),
    "a place of nothing": (of_metadata(storage_data={5: _StorageInfo("a", 0, 1)}), "where a MetadataIndex is expected"),
    "a version": (of_metadata(version=5), "has the version 5"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_metadata_that_is_not_true(written, name):
    change, match = HOSTILE[name]
    metadata = read_metadata((written / ".metadata").read_bytes(), "it")
    change(metadata)
    (written / ".metadata").write_bytes(metadata_bytes(metadata))
    with failing(FileFormatError, match):
        dcp.load(state(), checkpoint_id=written)


def test_a_checkpoint_of_one_process_of_several(written):
    """Saved without agreement of all processes: the metadata has the number of the process."""
    dcp.save({"x": fl.ones(2)}, checkpoint_id=written / "own", use_collectives=False)
    assert sorted(os.listdir(written / "own")) == ["__0.metadata", "__0_0.distcp"]
    found = {"x": fl.zeros(2)}
    dcp.load(found, checkpoint_id=written / "own")
    assert found["x"].tolist() == [1.0, 1.0]
