"""What is recorded: ops, what they call, backward, optimizers, threads; and nothing without a profile."""

import ast
import gc
import os
import subprocess
import sys
import threading

import pytest

import flambeau as fl
from flambeau import nn
from flambeau._C import profiler as recorder
from flambeau.profiler import ProfilerActivity, profile, record_function


def names(prof, **wanted):
    return [e.name for e in prof.events() if all(getattr(e, k) == v for k, v in wanted.items())]


def one(prof, name):
    found = [e for e in prof.events() if e.name == name]
    assert len(found) == 1, (name, names(prof))
    return found[0]


def test_ops_in_order():
    a, b = fl.rand(3, 4), fl.rand(3, 4)
    with profile() as prof:
        c = a + b
        c.mul_(2)
        fl.exp(c)
    assert names(prof) == ["add", "mul_", "exp"]
    assert all(e.kind == "op" and e.depth == 0 and not e.is_backward and not e.failed for e in prof.events())


def test_nothing_without_a_profile():
    with profile():
        pass
    x = fl.rand(3, requires_grad=True)
    with record_function("nobody looks"):
        (x * 2).sum().backward()
    nn.Linear(2, 2)(fl.rand(1, 2))
    assert not recorder.recording()
    assert recorder.collect()[0] == []
    with profile() as prof:
        pass
    assert prof.events() == []
    assert "Self CPU time total: 0.000us" in prof.key_averages().table(limits=False)


def test_composites_nest():
    x, w = fl.rand(1, 2, 5, 5), fl.rand(3, 2, 3, 3)
    with profile() as prof:
        fl.conv2d(x, w)
    outer, inner = one(prof, "conv2d"), one(prof, "convolution")
    assert inner.cpu_parent is outer and outer.cpu_children == [inner]
    assert (outer.depth, inner.depth) == (0, 1)


def test_times_add_up():
    x = fl.rand(8, 3, 16, 16, requires_grad=True)
    conv = nn.Conv2d(3, 4, 3)
    with profile(with_modules=True) as prof, record_function("all"):
        conv(x).relu().sum().backward()
    events = prof.events()
    assert len(events) > 8
    for e in events:
        inside = sum(c.cpu_time_total for c in e.cpu_children)
        assert e.self_cpu_time_total == pytest.approx(max(e.cpu_time_total - inside, 0), abs=2e-3)
        assert e.time_range.start <= e.time_range.end
        for c in e.cpu_children:
            assert e.time_range.start <= c.time_range.start <= c.time_range.end <= e.time_range.end
            assert c.depth == e.depth + 1
    outermost = sum(e.cpu_time_total for e in events if e.cpu_parent is None)
    rows = prof.key_averages()
    assert sum(r.self_cpu_time_total for r in rows) == pytest.approx(outermost, rel=1e-6, abs=0.01)
    assert rows.self_cpu_time_total == pytest.approx(outermost)
    assert sum(r.count for r in rows) == len(events)


def test_backward_is_linked_to_forward():
    x = fl.rand(4, 5, requires_grad=True)
    w = fl.rand(5, 2, requires_grad=True)
    with profile() as prof:
        (x @ w).exp().sum().backward()
    for backward, forward in (("MatmulBackward0", "matmul"), ("ExpBackward0", "exp"), ("SumBackward0", "sum")):
        node = one(prof, backward)
        assert node.kind == "backward" and node.is_backward
        assert node.forward is not None and node.forward.name == forward and not node.forward.is_backward
        assert node.sequence_nr == node.forward.sequence_nr >= 0
        assert all(c.is_backward for c in node.cpu_children)
    sinks = [e for e in prof.events() if e.name == "AccumulateGrad"]
    assert len(sinks) == 2 and all(e.forward is None and e.sequence_nr == -1 for e in sinks)


def test_backward_of_a_forward_that_was_not_recorded():
    y = fl.rand(3, requires_grad=True).exp()
    with profile() as prof:
        y.backward(fl.ones(3))
    assert one(prof, "ExpBackward0").forward is None


def test_custom_functions_are_linked():
    class Double(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            return dy * 2

    with profile() as prof:
        Double.apply(fl.rand(3, requires_grad=True)).sum().backward()
    assert [c.name for c in one(prof, "Double").cpu_children] == ["mul"]
    assert one(prof, "DoubleBackward").forward is one(prof, "Double")


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad", "NAdam"])
def test_optimizer_steps(kind):
    w = fl.rand(3, requires_grad=True)
    w.grad = fl.ones(3)
    optimizer = getattr(fl.optim, kind)([w], lr=0.1)
    with profile() as prof:
        optimizer.step()
        optimizer.zero_grad()
    assert one(prof, f"Optimizer.zero_grad#{kind}.zero_grad").kind == "optimizer"
    step = one(prof, f"Optimizer.step#{kind}.step")
    assert step.kind == "optimizer" and step.cpu_children
    if kind != "NAdam":
        assert one(prof, f"{kind}.step").input_bytes >= 12


def test_threads_have_their_own_events():
    barrier = threading.Barrier(3)

    def work():
        barrier.wait()
        for _ in range(50):
            with record_function("round"):
                fl.empty(4, 4).exp()

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    by_thread = {}
    for e in prof.events():
        by_thread.setdefault(e.thread, []).append(e)
        assert e.cpu_parent is None or e.cpu_parent.thread == e.thread
    assert [len(v) for v in by_thread.values()] == [150] * 3
    assert prof.key_averages().total_average().count == 450


def test_a_thread_from_before_goes_on():
    go, done = threading.Event(), threading.Event()

    def work():
        fl.empty(2).exp()
        done.set()
        go.wait()
        fl.empty(2).log()

    with profile() as first:
        t = threading.Thread(target=work)
        t.start()
        done.wait()
    with profile() as second:
        go.set()
        t.join()
    assert names(first) == ["empty", "exp"] and names(second) == ["empty", "log"]


@pytest.mark.parametrize("limit", [1, 10, 20, 1000])
def test_bounds(limit):
    x = fl.rand(2)
    with profile(max_events=limit) as prof:
        for _ in range(20):
            x.exp()
    assert len(prof.events()) == min(limit, 20)
    assert prof.dropped_events == max(20 - limit, 0)
    said = f"{20 - limit} events were dropped" in prof.key_averages().table(limits=False)
    assert said == (limit < 20)


def test_children_of_dropped_events_hang_from_the_nearest_kept():
    x, w = fl.rand(1, 1, 4, 4), fl.rand(1, 1, 2, 2)
    with profile(max_events=1) as prof, record_function("kept"):
        fl.conv2d(x, w)
    assert names(prof) == ["kept"] and prof.dropped_events == 2


def test_exceptions_end_their_events():
    with pytest.raises(ZeroDivisionError), profile() as prof:
        with record_function("outer"):
            fl.empty(2).exp()
            raise ZeroDivisionError
    assert names(prof) == ["outer", "empty", "exp"]
    assert one(prof, "outer").failed and not one(prof, "exp").failed
    with profile() as again:  # nothing is left over
        fl.empty(2)
    assert names(again) == ["empty"] and again.events()[0].depth == 0


def test_an_op_that_refuses():
    with profile() as prof:
        with pytest.raises(fl.ShapeError):
            fl.mm(fl.rand(2, 3), fl.rand(2, 3))
        fl.mm(fl.rand(2, 3), fl.rand(3, 2))
    calls = [e for e in prof.events() if e.name == "mm"]
    assert [e.failed for e in calls] == [True, False]
    assert [e.flops for e in calls] == [0, 2 * 2 * 3 * 2]
    assert all(e.depth == 0 for e in calls)


def test_shapes():
    a, b = fl.rand(3, 4), fl.rand(4)
    with profile(record_shapes=True) as prof:
        a + b
        a + 1
        fl.cat([a, a])
    add, number, cat = (e for e in prof.events() if e.depth == 0)
    assert add.input_shapes == [[3, 4], [4]] and add.input_dtypes == ["float32", "float32"]
    assert number.input_shapes == [[3, 4], []] and number.input_dtypes == ["float32", "Scalar"]
    assert cat.input_shapes == [[3, 4], [3, 4]]
    assert {r.key for r in prof.key_averages()} >= {"add", "cat"}
    assert [r.input_shapes for r in prof.key_averages(group_by_input_shape=True) if r.key == "add"] == [[[3, 4], [4]], [[3, 4], []]]
    assert "[[3, 4], [4]]" in prof.key_averages(group_by_input_shape=True).table(limits=False)


def test_bytes():
    a, b = fl.rand(10, 10), fl.rand(10, 10)
    with profile() as prof:
        a + b
        a.t()
        b.expand(5, 10, 10).sum()
    add, transposed, expand, total = prof.events()
    assert (add.input_bytes, add.output_bytes) == (800, 400)
    assert (transposed.input_bytes, transposed.output_bytes) == (0, 0), "a view moves nothing"
    assert (expand.output_bytes, total.input_bytes) == (0, 400)


FLOPS = [
    (lambda: fl.mm(fl.rand(2, 3), fl.rand(3, 5)), 2 * 2 * 3 * 5),
    (lambda: fl.rand(7, 2, 3) @ fl.rand(3, 5), 7 * 2 * 2 * 3 * 5),
    (lambda: fl.dot(fl.rand(6), fl.rand(6)), 12),
    (lambda: nn.functional.linear(fl.rand(4, 6), fl.rand(5, 6), fl.rand(5)), 2 * 4 * 6 * 5),
    (lambda: fl.conv2d(fl.rand(2, 4, 6, 6), fl.rand(8, 2, 3, 3), groups=2), 2 * (2 * 8 * 4 * 4) * (2 * 3 * 3)),
    (lambda: fl.conv_transpose1d(fl.rand(1, 3, 5), fl.rand(3, 2, 4)), 2 * (3 * 5) * (2 * 4)),
    (lambda: fl.scaled_dot_product_attention(*(fl.rand(2, 3, 7, 4) for _ in range(3))), 2 * 2 * 3 * 2 * 7 * 7 * 4),
]


@pytest.mark.parametrize("call, expected", FLOPS)
def test_flops(call, expected):
    with profile() as prof:
        call()
    assert sum(r.self_flops for r in prof.key_averages()) == expected


def test_flops_of_backward():
    x, w = fl.rand(4, 6, requires_grad=True), fl.rand(5, 6, requires_grad=True)
    with profile() as prof:
        nn.functional.linear(x, w).sum().backward()
    assert prof.total_average().flops == 3 * 2 * 4 * 6 * 5


def test_lines():
    x = fl.rand(2, requires_grad=True)
    with profile(with_stack=True) as prof:
        y = x.exp()  # here
        y.sum().backward()
    assert "# here" in one(prof, "exp").stack[0] and "test_recording.py" in one(prof, "exp").stack[0]
    assert one(prof, "ExpBackward0").stack == one(prof, "exp").stack
    with profile() as prof:
        x.exp()
    assert one(prof, "exp").stack == []


def test_lines_are_the_users():
    layer, big = nn.Linear(3, 3), fl.rand(300, 300)
    with profile(with_stack=True) as prof:
        layer(fl.rand(1, 3))  # through a module
        big @ big  # without the GIL
    assert "# through a module" in one(prof, "linear").stack[0]
    assert "# without the GIL" in one(prof, "matmul").stack[0]


def inner_call(x):
    return x.exp()  # inner


def outer_call(x, big):
    y = inner_call(x)  # outer
    big @ big  # without the GIL, in outer
    return y


def test_stacks_are_calls_from_the_innermost_out():
    x, big = fl.rand(2, requires_grad=True), fl.rand(300, 300)
    with profile(with_stack=True) as prof, record_function("range"):  # range
        outer_call(x, big).sum().backward()  # the test
    exp, product = one(prof, "exp").stack, one(prof, "matmul").stack
    assert ["# inner" in exp[0], "# outer" in exp[1], "# the test" in exp[2]] == [True] * 3
    assert "in inner_call" in exp[0] and "in outer_call" in exp[1]
    assert "in outer" in product[0] and "# the test" in product[1] and product[2:] == exp[3:]
    assert "# range" in one(prof, "range").stack[0]
    for node in ("ExpBackward0", "SumBackward0"):
        forward = one(prof, node).forward
        assert one(prof, node).stack == forward.stack
        assert all(child.stack == forward.stack for child in one(prof, node).cpu_children)


def test_stacks_have_no_calls_of_the_library():
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3)))
    with profile(with_stack=True, with_modules=True) as prof:
        model(fl.rand(1, 3))  # called here
    inside = os.path.dirname(fl.__file__)
    for name in ("linear", "Sequential", "Sequential.0.0"):
        stack = one(prof, name).stack
        assert "# called here" in stack[0] and not any(line.startswith(inside) for line in stack)


def test_deep_stacks_are_cut():
    def down(n):
        return down(n - 1) if n else fl.empty(2).exp()  # the bottom

    with profile(with_stack=True) as prof:
        down(200)
    stack = one(prof, "exp").stack
    assert len(stack) == 64 and "# the bottom" in stack[0] and "in down" in stack[-1]


def test_grouped_by_stack():
    def at_one_place(x):
        return x.exp()  # one place

    x = fl.rand(2)
    with profile(with_stack=True) as prof:
        for _ in range(3):
            at_one_place(x)  # first caller
        at_one_place(x)  # second caller
        x.exp()  # another place
    assert [r.count for r in prof.key_averages()] == [5]
    by_place = prof.key_averages(group_by_stack_n=1)
    assert [(r.key, r.count) for r in by_place] == [("exp", 4), ("exp", 1)]
    assert ["# one place" in by_place[0].stack[0], len(by_place[0].stack)] == [True, 1]
    by_two = prof.key_averages(group_by_stack_n=2)
    assert [r.count for r in by_two] == [3, 1, 1]
    table = by_two.table(limits=False, max_src_column_width=None)
    lines = table.splitlines()
    at = next(i for i, line in enumerate(lines) if "# one place" in line)
    assert "Source location" in table and "# first caller" in lines[at + 1] and not lines[at + 1].startswith("exp")
    assert "# one place" not in by_two.table(limits=False, max_src_column_width=20)
    with profile() as plain:
        x.exp()
    with pytest.raises(ValueError, match="stacks were not recorded; pass with_stack=True"):
        plain.key_averages(group_by_stack_n=2)
    with pytest.raises(ValueError, match="group_by_stack_n = -1"):
        prof.key_averages(group_by_stack_n=-1)


def test_ranges_that_are_left_in_another_order():
    first, second = record_function("first"), record_function("second")
    with profile() as prof:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # takes the second along
        fl.empty(2)
        second.__exit__(None, None, None)
        fl.empty(3).exp()
    assert [(e.name, e.depth) for e in prof.events()] == [("first", 0), ("second", 1), ("empty", 0), ("empty", 0), ("exp", 0)]
    assert one(prof, "second").time_range.end == one(prof, "first").time_range.end
    assert [e.cpu_parent for e in prof.events()[2:]] == [None] * 3


DTYPES = [
    (lambda: fl.mm(fl.rand(4, 4), fl.rand(4, 4)), "mm", "float32"),
    (lambda: fl.mm(fl.rand(4, 4).bfloat16(), fl.rand(4, 4).bfloat16()), "mm", "bfloat16"),
    (lambda: fl.mm(fl.rand(4, 4).double(), fl.rand(4, 4).double()), "mm", "float64"),
    (lambda: fl.zeros(3).add_(1), "add_", "float32"),
]


@pytest.mark.parametrize("call, name, dtype", DTYPES, ids=[f"{n}-{d}" for _, n, d in DTYPES])
def test_element_type_that_was_computed_in(call, name, dtype):
    with profile() as prof:
        call()
    assert one(prof, name).dtype == dtype


def test_element_type_in_autocast():
    layer, x = nn.Linear(8, 8), fl.rand(4, 8)
    with profile() as prof, fl.autocast("cpu", dtype=fl.bfloat16):
        layer(x)
    assert one(prof, "linear").dtype == "bfloat16"


def test_record_function_decorates():
    @record_function("twice")
    def twice(x, depth=0):
        return twice(x, depth - 1) if depth else x * 2

    with profile() as prof:
        twice(fl.ones(2), depth=2)
    assert names(prof) == ["ones", "twice", "twice", "twice", "mul"]
    assert [e.depth for e in prof.events()] == [0, 0, 1, 2, 3]
    with pytest.raises(TypeError, match="record_function: name is a int"):
        record_function(3)


def test_a_range_that_is_left_after_the_profile():
    range_ = record_function("long")
    with profile() as prof:
        range_.__enter__()
        fl.empty(2)
    range_.__exit__(None, None, None)
    assert names(prof) == ["long", "empty"]
    assert one(prof, "long").cpu_time_total >= one(prof, "empty").cpu_time_total


def test_nested_profiles_are_refused():
    with profile() as outer:
        with pytest.raises(RuntimeError, match="another profile is running; profiles can not be nested"):
            profile().start()
        with pytest.raises(RuntimeError, match="this profile is running"):
            outer.start()
        fl.empty(2)
    assert names(outer) == ["empty"]
    with profile(activities=[ProfilerActivity.CPU]):
        pass


def test_a_profile_can_run_again():
    prof = profile()
    for _ in range(2):
        prof.start()
        fl.empty(2)
        prof.stop()
        prof.stop()  # the second time does nothing
        assert names(prof) == ["empty"]


def test_results_are_refused_while_there_are_none():
    prof = profile()
    with pytest.raises(RuntimeError, match="profile.events: the profile has not run"):
        prof.events()
    with prof:
        with pytest.raises(RuntimeError, match="the profile is still running"):
            prof.key_averages()
    with pytest.raises(RuntimeError, match="profile.step: the profile is not running"):
        prof.step()
    for wrong, text in (
        (lambda: prof.key_averages(group_by="colour"), "group_by = 'colour'"),
        (lambda: prof.key_averages(group_by="module"), "with_modules=True"),
        (lambda: prof.modules(), "with_modules=True"),
        (lambda: prof.key_averages(True), "record_shapes=True"),
        (lambda: prof.export_memory_timeline("x.json"), "profile_memory=True"),
        (lambda: prof.key_averages().table(sort_by="colour"), "sort_by = 'colour'"),
        (lambda: profile(max_events=0), "max_events = 0"),
    ):
        with pytest.raises(ValueError, match=text):
            wrong()
    with pytest.raises(TypeError, match="activities holds a str"):
        profile(activities=["cpu"])


def test_events_hold_no_tensors():
    gc.collect()
    before = fl.memory_stats()["allocated_bytes"]
    with profile(record_shapes=True) as prof:
        fl.empty(1000, 1000).exp()
    assert fl.memory_stats()["allocated_bytes"] == before
    assert len(prof.events()) == 2


def test_aliases():
    from flambeau.autograd import profiler

    assert issubclass(profiler.profile, profile) and profiler.record_function is record_function
    assert fl.autograd.profiler is profiler


def test_arguments_that_are_pytorchs():
    with pytest.warns(FutureWarning, match="use_cuda = True is deprecated"):
        profile(use_cuda=True)
    for options, text in (
        ({"execution_trace_observer": 3}, "execution_trace_observer = 3; expected None"),
        ({"custom_trace_id_callback": str}, "custom_trace_id_callback = .*; expected None"),
        ({"acc_events": True, "schedule": lambda step: None}, "acc_events = True with a schedule"),
    ):
        with pytest.raises(ValueError, match=text):
            profile(**options)
    with profile(acc_events=True, post_processing_timeout_s=1.0) as prof:
        fl.ones(2)
    assert [r.key for r in prof.key_averages(False, 0, True)] == ["ones"]
    with pytest.raises(TypeError, match="group_by_overload_name = 'module'; expected a bool"):
        prof.key_averages(False, 0, "module")


def test_the_older_profile(tmp_path):
    older = fl.autograd.profiler.profile
    with older(True, record_shapes=True, use_kineto=True) as prof:
        fl.ones(2) + 1
    assert [r.key for r in prof.key_averages(group_by_input_shape=True)] == ["ones", "add"] and isinstance(prof, profile)
    prof.export_chrome_trace(tmp_path / "trace.json", None, True)
    assert (tmp_path / "trace.json").exists()
    with older(False) as off:
        fl.ones(2)
    with pytest.raises(RuntimeError, match="has not run"):
        off.events()
    with pytest.warns(UserWarning, match="use_device = 'cuda' has no effect"):
        older(use_device="cuda")
    for make, kind, text in (
        (lambda: older([ProfilerActivity.CPU]), TypeError, "enabled = "),
        (lambda: older(use_cpu=False), ValueError, "use_cpu = False"),
        (lambda: older(activity_filters={}), ValueError, "activity_filters = {}"),
        (lambda: prof.export_chrome_trace(tmp_path / "trace.json", {"a": 1}), ValueError, "metadata = "),
    ):
        with pytest.raises(kind, match=text):
            make()


@pytest.mark.slow
def test_names_that_programs_of_pytorch_look_for():
    program = """
import flambeau.compat.torch, torch
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, dy):
        return dy * 2
x = torch.ones(2, requires_grad=True)
with torch.profiler.profile() as prof:
    with torch.profiler.record_function("mul", "arguments"):
        Twice.apply(x).double().sum().backward()
print(sorted({(e.key, e.kind) for e in prof.events() if not e.cpu_parent or e.cpu_parent.name != "SumBackward0"}))
print("aten::mul" in prof.key_averages().table(sort_by="self_cuda_time_total"), [r.count for r in prof.key_averages() if r.key == "mul"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, rest = done.stdout.splitlines()
    found = dict(ast.literal_eval(names))
    assert found.keys() >= {"mul", "Twice", "TwiceBackward", "aten::mul", "aten::_to_copy", "aten::sum", "torch::autograd::AccumulateGrad"}
    assert found["mul"] == "range" and found["aten::mul"] == "op" and rest == "True [1]"


def test_there_are_no_times_of_a_device():
    with profile() as prof:
        fl.ones(2)
    for row in (prof.key_averages()[0], prof.events()[0]):
        assert row.count == 1 and row.device_time_total == row.self_device_time_total == row.device_memory_usage == 0 and not row.is_async
    for key in ("cuda_time_total", "self_device_memory_usage"):
        assert "ones" in prof.key_averages().table(sort_by=key)
    with pytest.raises(ValueError, match="sort_by = 'cuda'; expected one of"):
        prof.key_averages().table(sort_by="cuda")
