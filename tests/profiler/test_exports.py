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
    FunctionEventAvg,
    MachineLimits,
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
@pytest.mark.eager("memory")
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


NUMBER = (int, float)


def check_format(trace):
    """The rules of the trace-event format that viewers rely on."""
    assert isinstance(trace["traceEvents"], list) and trace["displayTimeUnit"] in ("ms", "ns")
    slices, flows = {}, {"s": {}, "f": {}}
    named = {}
    for e in trace["traceEvents"]:
        assert e["ph"] in "MXCsf" and isinstance(e["name"], str) and e["name"]
        assert type(e["pid"]) is int and type(e["tid"]) is int
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str)
            if e["name"] == "thread_name":
                assert (e["pid"], e["tid"]) not in named, "one name per thread"
                named[e["pid"], e["tid"]] = e["args"]["name"]
            continue
        assert isinstance(e["ts"], NUMBER) and not isinstance(e["ts"], bool) and e["ts"] >= 0
        if e["ph"] == "X":
            assert isinstance(e["dur"], NUMBER) and e["dur"] >= 0 and isinstance(e["cat"], str)
            slices.setdefault((e["pid"], e["tid"]), []).append((round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3)))
        elif e["ph"] == "C":
            assert e["args"] and all(isinstance(v, NUMBER) for v in e["args"].values())
        else:
            assert e["id"] not in flows[e["ph"]], "an arrow has one start and one end"
            flows[e["ph"]][e["id"]] = e
    assert set(slices) <= set(named), "every thread with events has a name"
    for spans in slices.values():
        open_ends = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], "events of a thread lie inside of each other, or apart"
            open_ends.append(end)
    assert set(flows["s"]) == set(flows["f"])
    for ends in flows.values():
        for e in ends.values():
            at = round(e["ts"] * 1e3)
            assert any(start <= at <= end for start, end in slices[e["pid"], e["tid"]]), "an arrow begins and ends at an event"
    assert all(flows["s"][i]["ts"] <= flows["f"][i]["ts"] for i in flows["s"])
    return slices


def written_trace(prof, tmp_path):
    prof.export_chrome_trace(tmp_path / "t.json")
    return json.loads((tmp_path / "t.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_format_of_a_trace(tmp_path):
    prof = train(record_shapes=True, profile_memory=True, with_modules=True, with_stack=True)
    trace = written_trace(prof, tmp_path)
    assert len(check_format(trace)) == 1
    stacks = [e["args"]["stack"] for e in trace["traceEvents"] if e["name"] == "linear"]
    assert stacks and all("in train" in stack[0] for stack in stacks)


@pytest.mark.slow
def test_format_of_a_trace_with_steps_and_threads(tmp_path):
    layer = nn.Linear(4, 4)
    odd = [record_function("entered first"), record_function("entered second")]

    def work():
        for _ in range(5):
            layer(fl.rand(2, 4)).sum().backward()

    with profile(schedule=schedule(wait=0, warmup=1, active=3), profile_memory=True) as prof:
        for _ in range(4):
            threads = [threading.Thread(target=work) for _ in range(2)]
            for t in threads:
                t.start()
            for range_ in odd:
                range_.__enter__()
            work()
            for range_ in odd:  # left in the order in which they were entered
                range_.__exit__(None, None, None)
            fl.rand(3)
            for t in threads:
                t.join()
            prof.step()
    trace = written_trace(prof, tmp_path)
    slices = check_format(trace)
    assert len(slices[os.getpid(), 0]) == 3, "the steps, in a row of their own"
    assert len(slices) >= 3


def test_stacks_for_flame_graphs(tmp_path):
    prof = train(with_stack=True)
    prof.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert lines and any("in_train" in line for line in lines)
    for line in lines:
        calls, number = line.rsplit(" ", 1)
        assert int(number) >= 0 and " " not in calls
    assert any(";" in line for line in lines)
    with pytest.raises(ValueError, match="metric = 'cpu_time_total'"):
        prof.export_stacks(tmp_path / "stacks.txt", "cpu_time_total")
    with pytest.raises(ValueError, match="with_stack=True"):
        train().export_stacks(tmp_path / "stacks.txt")


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
        if event.name == "LinearBackward0":
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


@pytest.mark.eager("memory")
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


@pytest.mark.slow
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


def test_a_table_of_single_events():
    with fl.autograd.profiler.profile(record_shapes=True) as prof:
        fl.ones(2, 3) * 2
        with fl.profiler.record_function("outer"):
            fl.ones(4).sum()
    assert [e.name for e in prof.function_events] == ["ones", "mul", "outer", "ones", "sum"]
    lines = prof.table(header="all").splitlines()
    assert lines[0] == "all" and [line.split()[0] for line in lines[4:9]] == ["ones", "mul", "outer", "ones", "sum"] and "[[2, 3]" in lines[5]
    top = prof.table(top_level_events_only=True).splitlines()
    assert [line.split()[0] for line in top[3:6]] == ["ones", "mul", "outer"] and "Self CPU time total" in str(prof)
    assert prof.table(sort_by="count", row_limit=1).splitlines()[3].split()[0] == "ones" and prof.self_cpu_time_total > 0
    assert "more rows" in prof.table(row_limit=2)


def test_limits():
    limits = machine_limits()
    assert machine_limits() is limits
    assert limits.threads == fl.get_num_threads() and limits.bandwidth > 0
    assert set(limits.matmuls) == {"float32", "float64", "bfloat16", "float16"} and limits.matmul == limits.matmuls["float32"]
    assert all(rate > 0 for rate in limits.matmuls.values())
    rates = [limits.bandwidth_at(n) for n in (0, 1 << 20, 1 << 30)]
    assert rates == sorted(rates, reverse=True), "less memory is not slower"
    with profile():
        with pytest.raises(RuntimeError, match="a profile is running"):
            machine_limits(refresh=True)


def test_share_of_the_limit_of_the_element_type():
    limits = MachineLimits(1, {1 << 20: 1e9}, {"float32": 1e9, "bfloat16": 4e9})
    row = FunctionEventAvg("mm", "op", count=2, cpu_time_total=2e6, flops=2e9, flops_of={"float32": 1e9, "bfloat16": 1e9})
    assert row.share(limits) == pytest.approx((1 + 0.25) / 2)
    row = FunctionEventAvg("mm", "op", count=1, cpu_time_total=1e6, flops=1e9, flops_of={"int32": 1e9}, input_bytes=10**8)
    assert row.share(limits) == pytest.approx(0.1), "by its bytes, where no rate was measured"
    a, b = fl.rand(8, 8), fl.rand(8, 8)
    with profile() as prof:
        fl.mm(a, b)
        fl.mm(a.bfloat16(), b.bfloat16())
    (row,) = (r for r in prof.key_averages() if r.key == "mm")
    assert row.flops_of == {"float32": 1024.0, "bfloat16": 1024.0} and row.flops == 2048


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


@pytest.mark.slow
def test_bench(capsys):
    assert cli.main(["bench", "--seconds", "0.001"]) == 0
    out = capsys.readouterr().out
    for row in ("copy, 64 MiB", "matrix product 1024x1024x1024, float32", "a + b, 4x4", "exp(a)", "MLP", "LeNet"):
        assert row in out
    with pytest.raises(SystemExit):
        cli.main(["bench", "--seconds", "-1"])
    assert "expected a positive number" in capsys.readouterr().err


def test_how_a_trace_is_written_has_no_say(tmp_path):
    with profile() as prof:
        fl.ones(2)
    prof.export_chrome_trace(tmp_path / "trace.json", True)
    tensorboard_trace_handler(tmp_path / "handler", "worker", True, True)(prof)
    (name,) = (n for n in os.listdir(tmp_path / "handler") if n.startswith("worker"))
    with gzip.open(tmp_path / "handler" / name) as file:
        there = json.load(file)
    assert "ones" in {e["name"] for e in there["traceEvents"]}


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "stacks.txt", "memory.html"])
def test_a_file_that_could_not_be_written_is_as_it_was(tmp_path, monkeypatch, name):
    prof = train(with_stack=True, profile_memory=True)
    write = {"trace": prof.export_chrome_trace, "stacks": prof.export_stacks, "memory": prof.export_memory_timeline}[name.partition(".")[0]]
    path = tmp_path / name
    path.write_text("earlier")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path)
    assert [p.name for p in tmp_path.iterdir()] == [name] and path.read_text() == "earlier"


@pytest.mark.eager("looks at what was recorded")
def test_metadata_lies_beside_the_events(tmp_path):
    prof = train(1)
    prof.add_metadata("run", "third")
    prof.add_metadata_json("sizes", "[8, 16]")
    prof.preset_metadata_json("seed", "1")
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert (trace["run"], trace["sizes"], trace["seed"]) == ("third", [8, 16], 1) and trace["traceEvents"]
    with pytest.raises(ValueError, match="key = 'traceEvents'; expected one beside"):
        prof.add_metadata("traceEvents", "x")
    with pytest.raises(ValueError):
        prof.add_metadata_json("sizes", "[8, ")


@pytest.mark.eager("looks at what was recorded")
def test_times_have_texts():
    prof = train(1)
    row, event = prof.key_averages()[0], prof.events()[0]
    for what, of in ((row, row.cpu_time), (event, event.cpu_time)):
        assert what.cpu_time_str.rstrip("mus") and what.self_cpu_time_total_str and what.cpu_time_total_str.endswith("s")
        unit = {"u": 1, "m": 1e3}.get(what.cpu_time_str[-2], 1e6)
        assert abs(float(what.cpu_time_str.rstrip("mus")) * unit - of) <= 1e-3 * unit


@pytest.mark.eager("looks at what was recorded")
def test_ipython_shows_the_table_where_it_shows_no_html():
    class Printer:
        def text(self, text):
            self.shown = text

    printer = Printer()
    averages = train(1).key_averages()
    averages._repr_pretty_(printer, False)
    assert printer.shown == averages.table(row_limit=30) and "Name" in printer.shown


@pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
def test_marks_of_other_tools_are_refused_unless_they_are_switched_off(name):
    marks = getattr(fl.autograd.profiler, name)
    with marks(enabled=False) as given:
        assert given is None
    with pytest.raises(RuntimeError, match=f"{name}: this build of flambeau has no"):
        marks()


def test_the_cpu_is_what_a_profile_can_record():
    assert fl.profiler.supported_activities() == {fl.profiler.ProfilerActivity.CPU}


@pytest.mark.eager("which ops ran when")
def test_a_list_of_events_answers_as_its_profile(tmp_path):
    prof = train(record_shapes=True)
    events = prof.events()
    assert [e.name for e in events] == [e.name for e in prof.events()[:]] and len(events) > 10
    by_shape = events.key_averages(group_by_input_shapes=True)
    assert [(r.key, r.count) for r in by_shape] == [(r.key, r.count) for r in prof.key_averages(group_by_input_shape=True)]
    assert events.total_average().count == len(events) and events.self_cpu_time_total == prof.key_averages().self_cpu_time_total
    assert str(events).count("forward") == 2 and "forward" in events.table(sort_by="count", row_limit=1000, header="All")
    events.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(ValueError, match="with_stack=True"):
        events.export_stacks(str(tmp_path / "stacks.txt"))
