"""Files and tables: Chrome's trace, the memory timeline, modules, TensorBoard, and the summaries of memory."""

import gzip
import importlib.util
import json
import os
import threading

import pytest

import flambeau as fl
from flambeau import cli, nn
from flambeau.profiler import (
    machine_limits,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def train(steps=2, **options):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4)))
    optimizer = fl.optim.SGD(model.parameters(), lr=0.1)
    x, target = fl.rand(32, 8), fl.randint(0, 4, (32,))
    with profile(**options) as prof:
        for _ in range(steps):
            optimizer.zero_grad()
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
    return prof


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_chrome_trace(tmp_path, name):
    prof = train(record_shapes=True, profile_memory=True, with_modules=True, with_stack=True)
    prof.export_chrome_trace(tmp_path / name)
    read = gzip.open if name.endswith(".gz") else open
    with read(tmp_path / name, "rt") as file:
        trace = json.load(file)
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(prof.events())
    for shown, event in zip(complete, prof.events()):
        assert shown["name"] == event.name
        assert shown["pid"] == os.getpid() and shown["tid"] == threading.get_native_id()
        assert shown["ts"] >= 0 and shown["dur"] == pytest.approx(event.cpu_time_total, abs=1e-3)
        assert isinstance(shown["args"], dict)
    arrows = {k: [e["id"] for e in trace["traceEvents"] if e["ph"] == k] for k in "sf"}
    assert arrows["s"] == arrows["f"] and len(arrows["s"]) >= 6
    linear = next(e for e in complete if e["name"] == "linear")
    assert linear["args"]["module"] == "Sequential.0" and linear["args"]["input_shapes"][0] == [32, 8]
    assert linear["args"]["flops"] == 2 * 32 * 8 * 16 and linear["args"]["allocated_bytes"] > 0
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert [e["ts"] for e in counters] == sorted(e["ts"] for e in counters)


def test_an_empty_trace(tmp_path):
    with profile(profile_memory=True) as prof:
        pass
    prof.export_chrome_trace(tmp_path / "t.json")
    assert [e["ph"] for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]] == ["M"]
    prof.export_memory_timeline(tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text()) == {"times_us": [], "allocated_bytes": [], "peak": None}
    prof.export_memory_timeline(tmp_path / "m.html")


def test_modules():
    prof = train(steps=3, with_modules=True)
    rows = {r.key: r for r in prof.key_averages(group_by="module")}
    assert list(rows) == ["Sequential", "Sequential.0", "Sequential.1", "Sequential.2", "Sequential.2.0"]
    assert [r.type for r in rows.values()] == ["Sequential", "Linear", "ReLU", "Sequential", "Linear"]
    assert {r.count for r in rows.values()} == {3}
    assert rows["Sequential.0"].flops == 3 * 2 * 32 * 8 * 16 and rows["Sequential"].flops == 0
    assert rows["Sequential.0"].backward_time_total > 0 and rows["Sequential"].backward_time_total == 0
    inside = sum(r.cpu_time_total for k, r in rows.items() if k in ("Sequential.0", "Sequential.1", "Sequential.2"))
    assert rows["Sequential"].self_cpu_time_total == pytest.approx(rows["Sequential"].cpu_time_total - inside, abs=0.01)
    assert "Sequential.2.0" in prof.modules() and "Linear" in prof.modules()
    table = prof.key_averages(group_by="module").table(sort_by="cpu_time_total", limits=False)
    assert "Sequential.2.0" in table
    for event in prof.events():
        if event.name == "LinearBackward":
            assert event.module in ("Sequential.0", "Sequential.2.0")
        if event.name == "cross_entropy":
            assert event.module == ""


def test_modules_that_call_what_is_not_theirs():
    class Inner(nn.Module):
        def forward(self, x):
            return x.exp()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Inner(), Inner()])
            self.hidden = (Inner(),)  # no child

        def forward(self, x):
            for layer in (*self.layers, *self.hidden):
                x = layer(x)
            return x

    with profile(with_modules=True) as prof:
        Outer()(fl.rand(2))
    assert [e.module for e in prof.events() if e.name == "exp"] == ["Outer.layers.0", "Outer.layers.1", "Outer.<Inner>"]


def test_a_module_that_fails():
    plain = nn.Module.__call__
    with profile(with_modules=True) as prof:
        assert nn.Module.__call__ is not plain
        with pytest.raises(ValueError):
            nn.Sequential(nn.Linear(3, 4))(fl.rand(2, 5))
    assert nn.Module.__call__ is plain
    assert [e.name for e in prof.events() if e.kind == "module" and e.failed] == ["Sequential", "Sequential.0"]


def test_hooks_still_run():
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda module, args, result: seen.append(module))
    with profile(with_modules=True):
        layer(fl.rand(1, 2))
    assert seen == [layer]


def test_memory(tmp_path):
    x = fl.rand(1000)
    with profile(profile_memory=True) as prof:
        y = x.exp()
        z = x.t()
        big = fl.zeros(1 << 18)
        del big
        fl.ones(4)
    exp, view, zeros, ones = prof.events()
    assert (exp.cpu_memory_usage, view.cpu_memory_usage) == (4096, 0)
    assert zeros.cpu_memory_usage == 1 << 20 and ones.cpu_memory_usage == 512
    assert {r.key: r.cpu_memory_usage for r in prof.key_averages()}["zeros"] == 1 << 20
    assert "1.00 MiB" in prof.key_averages().table(limits=False)
    for name in ("m.json", "m.json.gz"):
        prof.export_memory_timeline(tmp_path / name)
    timeline = json.loads((tmp_path / "m.json").read_text())
    assert json.loads(gzip.decompress((tmp_path / "m.json.gz").read_bytes())) == timeline
    assert timeline["times_us"] == sorted(timeline["times_us"]) and len(timeline["allocated_bytes"]) == 8
    assert timeline["peak"]["op"] == "zeros"
    assert max(timeline["allocated_bytes"]) - min(timeline["allocated_bytes"]) >= (1 << 20) + 4096
    prof.export_memory_timeline(tmp_path / "m.html")
    assert "<svg" in (tmp_path / "m.html").read_text() and "zeros" in (tmp_path / "m.html").read_text()
    del y, z


def test_table():
    prof = train()
    rows = prof.key_averages()
    text = rows.table(sort_by="count", row_limit=2, header="Training")
    lines = text.splitlines()
    assert lines[0] == "Training" and "Of limit" in lines[2]
    assert sum(1 for r in rows if any(line.startswith(r.key + " ") for line in lines)) == 2
    assert "more rows" in text and "GFLOP/s" in text
    assert str(rows) == rows.table()
    for key in ("cpu_time_total", "flops", "bytes", "bytes_per_s", "key"):
        assert rows.table(sort_by=key, limits=False)
    linear = next(r for r in rows if r.key == "linear")
    assert linear.cpu_time == pytest.approx(linear.cpu_time_total / linear.count)
    assert linear.share(machine_limits()) > 0


def test_limits():
    limits = machine_limits()
    assert machine_limits() is limits
    assert limits.threads == fl.get_num_threads() and limits.matmul > 0 and limits.bandwidth > 0
    rates = [limits.bandwidth_at(n) for n in (0, 1 << 20, 1 << 30)]
    assert rates == sorted(rates, reverse=True), "less memory is not slower"
    with profile():
        with pytest.raises(RuntimeError, match="a profile is running"):
            machine_limits(refresh=True)


@pytest.mark.parametrize("gz", [False, True])
def test_trace_handler(tmp_path, gz):
    handler = tensorboard_trace_handler(str(tmp_path / "runs"), "worker", use_gzip=gz)
    with profile(schedule=schedule(wait=0, warmup=0, active=1, repeat=2), on_trace_ready=handler) as prof:
        for _ in range(4):
            fl.rand(3)
            prof.step()
    ending = ".pt.trace.json.gz" if gz else ".pt.trace.json"
    files = sorted((tmp_path / "runs").glob(f"worker.*{ending}"))
    assert len(files) == 2
    text = gzip.decompress(files[1].read_bytes()) if gz else files[1].read_bytes()
    assert {"rand", "ProfilerStep#1"} <= {e["name"] for e in json.loads(text)["traceEvents"]}


def test_tensorboard(tmp_path):
    from flambeau.profiler._tensorboard import write_tensorboard

    prof = train(profile_memory=True, with_modules=True)
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(ImportError, match=r"pip install 'flambeau\[tensorboard\]'"):
            write_tensorboard(prof, tmp_path)
    else:
        write_tensorboard(prof, tmp_path)
        assert list(tmp_path.glob("events.out.tfevents.*"))


def test_memory_summary():
    text = fl.memory_summary()
    assert "allocated" in text and "reserved" in text and "Peak" in text
    model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.BatchNorm1d(256))
    model[1].bias = model[1].weight  # shared: counts once
    model[0].weight.grad = fl.zeros(256, 256)
    text = fl.memory_summary(model)
    rows = [line.split() for line in text.splitlines() if line.startswith("Sequential.")]
    assert rows[0] == ["Sequential.0", "Linear", "256.00", "KiB", "256.00", "KiB", "--", "512.00", "KiB"]
    assert rows[1][:4] == ["Sequential.1", "BatchNorm1d", "1.00", "KiB"]
    assert len(fl.memory_summary(model, row_limit=1).splitlines()) == len(text.splitlines()) - 1
    with pytest.raises(TypeError, match="memory_summary: model is a int"):
        fl.memory_summary(3)


def test_bench(capsys):
    assert cli.main(["bench", "--seconds", "0.001"]) == 0
    out = capsys.readouterr().out
    for row in ("copy, 64 MiB", "matrix product 1024x1024x1024, float32", "a + b, 4x4", "exp(a)", "MLP", "LeNet"):
        assert row in out
    with pytest.raises(SystemExit):
        cli.main(["bench", "--seconds", "-1"])
    assert "expected a positive number" in capsys.readouterr().err
