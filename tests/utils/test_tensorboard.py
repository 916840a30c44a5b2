"""utils.tensorboard: what is written is read again from the files."""

import builtins
import struct

import numpy as np
import pytest

import flambeau as fl
from flambeau.utils.tensorboard import SummaryWriter


def events(folder):
    from tensorboardX.proto.event_pb2 import Event

    out = []
    for path in sorted(folder.rglob("events*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (n,) = struct.unpack_from("<Q", data, at)
            event = Event()
            event.ParseFromString(data[at + 12 : at + 12 + n])
            out.append(event)
            at += 16 + n
    return [(e.step, v) for e in out for v in e.summary.value]


def test_numbers_and_histograms(tmp_path):
    with SummaryWriter(tmp_path, flush_secs=1) as writer:
        writer.add_scalar("loss", fl.tensor(0.5, requires_grad=True), 3)
        writer.add_scalar("rate", 0.1)
        writer.add_scalars("both", {"a": fl.tensor(1), "b": 2.0}, 4)
        writer.add_histogram("weights", fl.arange(10.0, dtype=fl.bfloat16), 5)
        assert writer.get_logdir() == str(tmp_path)
    found = {v.tag: (step, v) for step, v in events(tmp_path)}
    assert found["loss"][0] == 3 and found["loss"][1].simple_value == 0.5
    assert abs(found["rate"][1].simple_value - 0.1) < 1e-7
    assert found["weights"][1].histo.num == 10 and found["weights"][1].histo.max == 9 and found["weights"][1].histo.sum == 45
    assert {"both/a", "both/b"} <= found.keys() or {"both"} <= found.keys()


@pytest.mark.slow
def test_pictures_texts_and_tables(tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with SummaryWriter(tmp_path) as writer:
        writer.add_image("picture", fl.rand(3, 4, 5), 1)
        writer.add_images("pictures", fl.randint(0, 255, (2, 1, 4, 5)).to(fl.uint8), 1)
        writer.add_image_with_boxes("boxes", fl.rand(3, 8, 8), fl.tensor([[1, 1, 5, 5]]), labels=["cat"])
        figure = plt.figure(figsize=(1, 1))
        writer.add_figure("figure", figure)
        writer.add_text("text", "**bold**")
        writer.add_pr_curve("curve", fl.tensor([0, 1, 1]), fl.tensor([0.1, 0.9, 0.4]))
        writer.add_embedding(fl.randn(4, 3), metadata=["a", "b", "c", "d"])
        writer.add_mesh("mesh", fl.rand(1, 4, 3))
        writer.add_hparams({"lr": fl.tensor(0.1), "name": "x"}, {"accuracy": fl.tensor(0.9)}, run_name="run")
        writer.add_custom_scalars({"group": {"chart": ["Multiline", ["loss"]]}})
    found = {v.tag: v for _, v in events(tmp_path)}
    assert (found["picture"].image.height, found["picture"].image.width) == (4, 5)
    assert found["pictures"].image.width == 10 and found["boxes"].image.height == 8 and found["figure"].image.width == 100
    assert b"bold" in found["text/text_summary"].tensor.string_val[0] and "curve" in found and "accuracy" in found


@pytest.mark.slow
def test_events_that_loggers_make_themselves(tmp_path):
    """As Lightning's logger writes what a run was made with."""
    from flambeau.utils import _summaries

    with SummaryWriter(tmp_path) as writer:
        for event in _summaries.hparams({"lr": fl.tensor(0.1), "name": "x", "deep": True, "none": None}, {"loss": fl.tensor(2.0)}):
            writer._get_file_writer().add_summary(event, 7)
        writer._get_file_writer().add_summary(_summaries.scalar("loss", fl.tensor(2.0)), 7)
        writer._get_file_writer().add_summary(_summaries.histogram("weights", fl.arange(4.0), "auto"), 7)
        writer._get_file_writer().add_summary(_summaries.image("picture", fl.rand(3, 4, 5), dataformats="CHW"), 7)
        writer._get_file_writer().add_summary(_summaries.text("text", "a"), 7)
    found = {v.tag: (step, v) for step, v in events(tmp_path)}
    assert {f"_hparams_/{part}" for part in ("experiment", "session_start_info", "session_end_info")} <= found.keys()
    content = found["_hparams_/session_start_info"][1].metadata.plugin_data.content
    assert b"lr" in content and b"deep" in content and b"none" not in content
    assert found["loss"][0] == 7 and found["loss"][1].simple_value == 2 and found["weights"][1].histo.num == 4
    assert found["picture"][1].image.width == 5 and "text/text_summary" in found
    with pytest.raises(TypeError, match="hparams: metric_dict is a float; expected a dict"):
        _summaries.hparams({}, 1.0)


def test_without_the_package_the_way_out_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "tensorboardX":
            raise ImportError("No module named 'tensorboardX'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'flambeau\[tensorboard\]'"):
        SummaryWriter(tmp_path)


def test_refusals(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(NotImplementedError, match="add_graph"):
            writer.add_graph(fl.nn.Linear(1, 1))
        with pytest.raises((RuntimeError, ValueError), match="one element|2 elements"):
            writer.add_scalar("loss", fl.ones(2))
        writer.add_scalar("loss", np.float64(1.0))
