"""What runs in planned memory gives what it gives without a plan, also where memory that is not in use holds NaN."""

import gc
from dataclasses import replace

import pytest
from support.graphs import EACH, Maker, chain, random_program, run_node, run_plainly, same_bits

import flambeau as fl
from flambeau.graph import MODES, GraphError, Ref, elementwise, example, execute, plan

SEEDS = range(40)


def made_inputs(graph):
    fl.manual_seed(1)
    return [fl.randn(graph.values[value].sizes) for value in graph.inputs]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [None, *MODES])
def test_poisoned_is_plain(mode):
    for seed in SEEDS:
        fl.manual_seed(seed)
        graph = random_program(seed)
        inputs = made_inputs(graph)
        expected = run_plainly(graph, inputs)
        assert all(bool(fl.isfinite(tensor).all()) for tensor in expected)
        for kinds in (("intermediate",), ("intermediate", "output")):
            planned = mode and plan(graph, mode, rule=elementwise(EACH), kinds=kinds)
            given = [tensor.clone() for tensor in inputs]
            found = [*execute(graph, given, run_node, planned, poison=True), *given]
            assert all(map(same_bits, found, expected)), seed


@pytest.mark.slow
def test_the_random_programs_share_memory():
    """The test above would see nothing if plans were trivial."""
    took = shared = 0
    for seed in SEEDS:
        planned = plan(random_program(seed), "both", rule=elementwise(EACH))
        took += len(planned.took)
        shared += len(planned.places) - len(planned.blocks)
    assert took > len(SEEDS) and shared > 5 * len(SEEDS)


@pytest.mark.slow
def test_poison_finds_wrong_plans():
    """Two buffers at one place: seen only because something is written where something else is needed."""
    wrong = 0
    for seed in SEEDS:
        graph = random_program(seed)
        inputs = made_inputs(graph)
        expected = run_plainly(graph, inputs)
        planned = plan(graph, "none")
        lives = graph.lives()
        a, b = next((a, b) for a in planned.places for b in planned.places
                    if lives[a].start < lives[b].start < lives[a].end and planned.places[a].nbytes == planned.places[b].nbytes)  # fmt: skip
        planned.places[b] = planned.places[a]
        given = [tensor.clone() for tensor in inputs]
        wrong += not all(map(same_bits, [*execute(graph, given, run_node, planned, poison=True), *given], expected))
    assert wrong > len(SEEDS) / 2  # not every buffer matters for an output


def test_poison_finds_what_is_read_unwritten():
    m = Maker()
    x, a, out = m.buffer("argument", (4,)), m.buffer("intermediate", (8,)), m.buffer("output", (8,))
    m.node("exp", Ref(x), outs=[m.view(1, "float32", (4,), (1,), 0)])
    m.node("exp", Ref(a), outs=[out])  # half of it was never written
    (found,) = execute(m.graph([out]).validate(), [fl.ones(4)], run_node, poison=True)
    assert fl.isnan(found).tolist() == [False] * 4 + [True] * 4


@pytest.mark.parametrize("mode", MODES)
def test_empty_buffers(mode):
    m = Maker()
    x, a, b, out = m.buffer("argument", (0, 3)), m.buffer("intermediate", (0, 3)), m.buffer("intermediate", (3,)), m.buffer("output", (3,))
    m.node("exp", Ref(x), outs=[a])
    m.node("sum", Ref(a), (0,), outs=[b])
    m.node("exp", Ref(b), outs=[out])
    graph = m.graph([out]).validate()
    (found,) = execute(graph, [fl.ones(0, 3)], run_node, plan(graph, mode, rule=elementwise({"exp"})), poison=True)
    assert found.tolist() == [1, 1, 1]


def test_outputs_of_two_runs_are_two():
    graph = chain("exp", 3, 3, 3)
    planned = plan(graph)
    (first,) = execute(graph, [fl.zeros(3)], run_node, planned)
    (second,) = execute(graph, [fl.ones(3)], run_node, planned)
    assert fl.equal(first, fl.zeros(3).exp().exp()) and not fl.equal(first, second)


def test_intermediates_lie_where_the_plan_says():
    seen = []

    def look(op, args, outs):
        seen.append(outs[0].data_ptr())
        run_node(op, args, outs)

    graph = chain("exp", 100, 100, 100, 100, 100)
    planned = plan(graph, "arena")
    execute(graph, [fl.zeros(100)], look, planned)
    offsets = [planned.places[graph.values[node.outs[0]].buffer].offset for node in graph.nodes[:-1]]
    assert [address - seen[0] for address in seen[:-1]] == [offset - offsets[0] for offset in offsets]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.eager("memory")
def test_planned_bytes_are_allocated_bytes(mode):
    """As the allocator counts them, in pieces of 512 bytes; outputs come on top."""
    graph = random_program(3, n_nodes=60)
    planned = plan(graph, mode, rule=elementwise(EACH))
    inputs, allocated = made_inputs(graph), []
    gc.collect()
    before = fl.memory_stats()["allocated_bytes"]
    execute(graph, inputs, lambda op, args, outs: allocated.append(fl.memory_stats()["allocated_bytes"] - before), planned)
    pieces = [block.nbytes for block in planned.blocks] + [buffer.nbytes for buffer in graph.buffers if buffer.kind == "output"]
    assert set(allocated) == {sum(-(-nbytes // 512) * 512 for nbytes in pieces)}


def test_inputs_and_parameters_are_written_where_they_lie():
    m = Maker()
    w, g = m.buffer("parameter", (2, 3)), m.buffer("argument", (2, 3))
    row = m.view(0, "float32", (3,), (1,), 3)
    m.node("mul_", Ref(row), 2.0, writes=[row])
    m.node("sub_", Ref(w), Ref(g), writes=[w])
    weights = fl.ones(4, 3)[1:3]
    (out,) = execute(m.graph([w]).validate(), [weights, fl.ones(2, 3)], run_node)
    assert weights.tolist() == out.tolist() == [[0, 0, 0], [1, 1, 1]] and out.data_ptr() == weights.data_ptr()


def test_constants_of_every_layout_and_type():
    for constant in (fl.rand(3, 2).t(), fl.arange(4), fl.rand(3).to(fl.bfloat16), fl.tensor([True, False]), fl.zeros(0)):
        m = Maker()
        dtype = constant.dtype.name
        c, out = m.constant(constant), m.buffer("output", tuple(constant.shape), dtype)
        m.node("clone", Ref(c), outs=[out])
        (found,) = execute(m.graph([out]).validate(), [], run_node, poison=True)
        assert same_bits(found.to(fl.float32), constant.contiguous().to(fl.float32)) and found.dtype == constant.dtype


@pytest.mark.parametrize("given, text", [
    (lambda x, w, b: [x, w], "2 inputs; the graph has 1 arguments and 2 parameters"),
    (lambda x, w, b: [x.double(), w, b], r"input 0 is float64 of shape \[8, 16\].*expected float32"),
    (lambda x, w, b: [x[:4], w, b], r"input 0 is .* shape \[4, 16\].*expected float32 of shape \[8, 16\]"),
    (lambda x, w, b: [x, w.t(), b], r"input 1 .*strides \[1, 16\], on cpu; expected float32 of shape \[16, 16\], strides \[16, 1\]"),
], ids=["number", "dtype", "shape", "strides"])  # fmt: skip
def test_inputs_are_checked(given, text):
    with pytest.raises(GraphError, match=text):
        execute(example(), given(fl.ones(8, 16), fl.eye(16), fl.zeros(16)), run_node)


def test_inputs_in_one_buffer_lie_together():
    """Of two views of one memory the second one is not passed over."""
    m = Maker()
    x, out = m.buffer("argument", (6,)), m.buffer("output", (5,))
    tail = m.view(0, "float32", (5,), (1,), 1)
    m.node("relu", Ref(tail), outs=[out])
    graph = replace(m.graph([out]), inputs=(x, tail)).validate()
    memory = fl.arange(6.0)
    assert execute(graph, [memory, memory[1:]], run_node)[0].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(GraphError, match="execute: input 1 lies apart from another input; the graph has both in buffer 0"):
        execute(graph, [memory, fl.ones(5)], run_node)


def test_parts_of_a_complex_input():
    m = Maker()
    m.buffer("argument", (3,), "complex64")
    real, out = m.view(0, "float32", (3,), (2,), 0), m.buffer("output", (3,))
    m.node("relu", Ref(real), outs=[out])
    assert execute(m.graph([out]).validate(), [fl.tensor([1 + 2j, -3 + 4j, 5 + 6j])], run_node)[0].tolist() == [1, 0, 5]


def test_a_constant_that_is_returned_is_a_copy():
    m = Maker()
    c = m.constant(fl.ones(3))
    graph = m.graph([c]).validate()
    execute(graph, [], run_node)[0].zero_()
    assert execute(graph, [], run_node)[0].tolist() == [1, 1, 1]


def test_a_plan_of_another_graph():
    with pytest.raises(GraphError, match="the plan is of another graph"):
        execute(example(), [], run_node, plan(replace(example())))
