"""Passes: what they leave out, merge and rewrite; that nothing else changes, neither bits nor a second run."""

import pytest
from support.graphs import Maker, random_program, run_node, run_plainly, same_bits
from support.nets import net

import flambeau as fl
from flambeau.graph import DType, Graph, Ref, example, passes, plan

PASSES = {"prune": passes.prune, "cse": passes.cse, "inplace_sums": passes.inplace_sums, "all": passes.run}


def ops_of(graph):
    return [node.op for node in graph.nodes]


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_results_stay_and_a_second_run_changes_nothing(name):
    for seed in range(60):
        fl.manual_seed(seed)
        graph = random_program(seed, n_nodes=40)
        done = PASSES[name](graph).validate()
        inputs = [fl.randn(graph.values[value].sizes) for value in graph.inputs]
        assert all(map(same_bits, run_plainly(graph, inputs), run_plainly(done, inputs))), seed
        assert PASSES[name](done) == done
        assert PASSES[name](graph) == done


@pytest.mark.slow
def test_they_find_something():
    before, after = 0, dict.fromkeys(PASSES, 0)
    for seed in range(60):
        graph = random_program(seed, n_nodes=40)
        before += len(graph.buffers)
        for name, run in PASSES.items():
            after[name] += len(run(graph).buffers)
    assert all(after[name] < before for name in PASSES), (before, after)


@pytest.mark.parametrize("switch", ["prune", "cse", "inplace_sums"])
def test_switches(switch):
    others = {"prune": False, "cse": False, "inplace_sums": False}
    for seed in range(10):
        graph = random_program(seed)
        assert passes.run(graph, **others) is graph
        assert passes.run(graph, **{**others, switch: True}) == PASSES[switch](graph)


# --------------------------------------------------------------------------------------------- prune


def test_prune_keeps_writes_to_the_callers_memory():
    m = Maker()
    x, w = m.buffer("argument", (4,), name="x"), m.buffer("parameter", (4,), name="w")
    unused, unused2, step, out = (m.buffer(kind, (4,)) for kind in ("intermediate", "intermediate", "intermediate", "output"))
    m.node("exp", Ref(x), outs=[unused])
    m.node("exp", Ref(unused), outs=[unused2])
    m.node("mul", Ref(x), Ref(x), outs=[step])
    m.node("add_", Ref(w), Ref(step), writes=[w])
    m.node("exp", Ref(x), outs=[out])
    done = passes.prune(m.graph([out])).validate()
    assert ops_of(done) == ["mul", "add_", "exp"]
    assert len(done.buffers) == 4 and len(done.values) == 4 and [b.name for b in done.buffers][:2] == ["x", "w"]


def test_prune_knows_what_is_overwritten_as_a_whole():
    m = Maker()
    x, w = m.buffer("argument", (4,)), m.buffer("parameter", (4,))
    m.node("exp", Ref(x), outs=[m.view(1, "float32", (4,), (1,), 0)])
    m.node("neg", Ref(x), outs=[m.view(1, "float32", (2,), (1,), 0)])
    assert ops_of(passes.prune(m.graph([w]))) == ["exp", "neg"]
    m.node("sin", Ref(x), outs=[m.view(1, "float32", (2, 2), (2, 1), 0)])
    assert ops_of(passes.prune(m.graph([w]))) == ["sin"]


def test_memory_that_is_made_twice():
    """Two fresh values that lie alike stay two."""
    m = Maker()
    x, w, y, unused = m.buffer("argument", (4,)), m.buffer("parameter", (4,)), m.buffer("output", (4,)), m.buffer("intermediate", (4,))
    m.node("exp", Ref(x), outs=[unused])
    first, second = (m.view(1, "float32", (4,), (1,), 0) for _ in range(2))
    m.node("exp", Ref(x), outs=[first])
    m.node("neg", Ref(w), outs=[y])
    m.node("sin", Ref(x), outs=[second])
    done = passes.prune(m.graph([y])).validate()
    assert ops_of(done) == ["exp", "neg", "sin"] and passes.run(done) == done
    assert all(map(same_bits, run_plainly(done, [fl.ones(4), fl.ones(4)]), run_plainly(m.graph([y]), [fl.ones(4), fl.ones(4)])))


def test_prune_keeps_ops_with_effects():
    m = Maker()
    x, drawn, out = m.buffer("argument", (4,)), m.buffer("intermediate", (4,)), m.buffer("output", (4,))
    m.node("bernoulli", Ref(x), outs=[drawn])
    m.node("exp", Ref(x), outs=[out])
    graph = m.graph([out])
    assert ops_of(passes.prune(graph)) == ["exp"]
    for effects in ({"bernoulli"}, lambda op: op.startswith("bern")):
        assert ops_of(passes.run(graph, effects=effects)) == ["bernoulli", "exp"]


def test_prune_makes_prediction_of_training():
    """Without the gradients' buffers as inputs nothing of the backward half is needed."""
    train, predict = net("GoogLeNet"), net("GoogLeNet", train=False)
    kept = [v for v in train.inputs if not (train.buffers[train.values[v].buffer].name or "").endswith("_grad")]
    grads = {train.values[v].buffer for v in train.inputs if v not in kept}
    buffers = [b if i not in grads else type(b)("intermediate", b.nbytes, b.device, b.name) for i, b in enumerate(train.buffers)]
    pruned = passes.prune(Graph(buffers, train.values, train.nodes, kept, train.outputs, {}).validate())
    assert pruned.fingerprint() == predict.fingerprint()


# ----------------------------------------------------------------------------------------------- cse


def twice(*args, between=None, outs=("intermediate", "intermediate"), op="exp", others=None):
    m = Maker()
    x, w = m.buffer("argument", (4,)), m.buffer("argument", (4,))
    a, b, y = m.buffer(outs[0], (4,)), m.buffer(outs[1], (4,)), m.buffer("output", (4,))
    m.node(op, Ref(x), *args, outs=[a])
    if between:
        between(m, x, w, a)
    m.node(op, Ref(x), *(args if others is None else others), outs=[b])
    m.node("mul", Ref(a), Ref(b), outs=[y])
    return m.graph([y] + [v for v, kind in zip((a, b), outs) if kind == "output"]).validate()


def test_cse_shares_a_result():
    done = passes.cse(twice()).validate()
    assert ops_of(done) == ["exp", "mul"] and done.nodes[1].args == (Ref(2), Ref(2)) and len(done.buffers) == 4


@pytest.mark.parametrize("args, others", [
    ((1,), (1.0,)), ((1,), (True,)), ((0.0,), (-0.0,)), ((DType("float32"),), ("float32",)), (((1, 2),), ((1, 3),)), ((None,), ()),
], ids=str)  # fmt: skip
def test_cse_compares_arguments_with_their_types(args, others):
    assert ops_of(passes.cse(twice(*args, others=others))) == ["exp", "exp", "mul"]
    assert ops_of(passes.cse(twice(*args, float("nan")))) == ["exp", "mul"]


def overwrite(which):
    def between(m, x, w, a):
        target = {"x": x, "w": w, "a": a}[which]
        m.node("neg_", Ref(target), writes=[target])

    return between


@pytest.mark.parametrize("which, ops", [
    ("x", ["exp", "neg_", "exp", "mul"]), ("a", ["exp", "neg_", "exp", "mul"]), ("w", ["exp", "neg_", "mul"]),
])  # fmt: skip
def test_cse_sees_writes_in_between(which, ops):
    assert ops_of(passes.cse(twice(between=overwrite(which)))) == ops


@pytest.mark.parametrize("outs", [("output", "intermediate"), ("intermediate", "output")], ids=str)
def test_cse_with_an_output(outs):
    """Whichever of the two it is, one buffer remains, and it is the output."""
    done = passes.cse(twice(outs=outs)).validate()
    assert ops_of(done) == ["exp", "mul"] and [b.kind for b in done.buffers] == ["argument", "argument", "output", "output"]
    a, b = run_plainly(done, [fl.ones(4), fl.ones(4)], run_node)[:2]
    assert fl.equal(b, fl.ones(4).exp()) and fl.equal(a, b * b)


def test_two_outputs_do_not_share_memory():
    assert ops_of(passes.cse(twice(outs=("output", "output")))) == ["exp", "exp", "mul"]


def test_cse_leaves_random_ops_alone():
    assert ops_of(passes.cse(twice(op="bernoulli"), effects={"bernoulli"})) == ["bernoulli", "bernoulli", "mul"]


def test_cse_sees_through_views_and_results_of_results():
    m = Maker()
    x, out = m.buffer("argument", (4, 4)), m.buffer("output", (4, 4))
    ends = []
    for _ in range(2):
        a, b = m.buffer("intermediate", (4, 4)), m.buffer("intermediate", (4, 4))
        m.node("exp", Ref(m.view(0, "float32", (4, 4), (1, 4), 0)), outs=[a])
        m.node("matmul", Ref(a), Ref(m.view(m.values[a].buffer, "float32", (4, 4), (1, 4), 0)), outs=[b])
        ends.append(b)
    m.node("add", *map(Ref, ends), outs=[out])
    done = passes.cse(m.graph([out])).validate()
    assert ops_of(done) == ["exp", "matmul", "add"] and x == 0
    assert len(done.values) == 6  # x, its transposed view, exp's, that one's, matmul's, add's


# -------------------------------------------------------------------------------------- in-place sums


def sum_of(n, *, alpha=(), kind="output", read_again=(), op="add"):
    """((g0 + g1) + g2) + ... of n results; those in `read_again` are read once more at the end."""
    m = Maker()
    x = m.buffer("argument", (4,))
    terms = [m.buffer("intermediate", (4,)) for _ in range(n)]
    for value in terms:
        m.node("exp", Ref(x), outs=[value])
    total = terms[0]
    for index, value in enumerate(terms[1:], 1):
        made = m.buffer(kind if index == n - 1 else "intermediate", (4,))
        m.node(op, Ref(total), Ref(value), *alpha, outs=[made])
        total = made
    outputs = [total]
    for value in read_again:
        outputs.append(m.buffer("output", (4,)))
        m.node("neg", Ref(terms[value]), outs=[outputs[-1]])
    return m.graph(outputs).validate()


def test_a_chain_of_sums_accumulates_in_one_buffer():
    graph = sum_of(5)
    done = passes.inplace_sums(graph).validate()
    assert ops_of(done) == ["exp"] * 5 + ["add_"] * 4
    assert [node.writes for node in done.nodes[5:]] == [(1,)] * 4 and done.outputs == (1,)
    assert done.buffers[1].kind == "output"
    assert plan(done, "none").total == 4 * 16 < plan(graph, "none").total == 8 * 16


def test_the_operand_that_dies_is_taken():
    done = passes.inplace_sums(sum_of(2, read_again=[0])).validate()
    assert done.nodes[2].op == "add_" and done.nodes[2].args == (Ref(2), Ref(1)) and done.nodes[2].writes == (2,)
    assert ops_of(passes.inplace_sums(sum_of(2, read_again=[0, 1])))[2] == "add"


@pytest.mark.parametrize("alpha, ops", [((1,), "add_"), ((1.0,), "add_"), ((2,), "add"), ((True,), "add")], ids=str)
def test_a_factor_stays_with_the_second_operand(alpha, ops):
    assert ops_of(passes.inplace_sums(sum_of(2, alpha=alpha, read_again=[0])))[2] == ops
    assert ops_of(passes.inplace_sums(sum_of(2, alpha=alpha)))[2] == "add_"


def test_sums_are_those_that_are_named():
    assert ops_of(passes.inplace_sums(sum_of(2, op="logaddexp")))[2] == "logaddexp"
    assert ops_of(passes.inplace_sums(sum_of(2, op="logaddexp"), {"logaddexp": "logaddexp_"}))[2] == "logaddexp_"


@pytest.mark.parametrize("geometry", [((4, 4), (1, 4), 0), ((4, 4), (0, 1), 0)], ids=["transposed", "broadcast"])
def test_views_are_not_added_to(geometry):
    m = Maker()
    x, a, out = m.buffer("argument", (4, 4)), m.buffer("intermediate", (4, 4)), m.buffer("output", (4, 4))
    m.node("exp", Ref(x), outs=[a])
    m.node("add", Ref(m.view(1, "float32", *geometry)), Ref(x), outs=[out])
    assert ops_of(passes.inplace_sums(m.graph([out]).validate())) == ["exp", "add"]


def test_a_sum_with_itself_is_left_alone():
    m = Maker()
    x, a, out = m.buffer("argument", (4, 4)), m.buffer("intermediate", (4, 4)), m.buffer("output", (4, 4))
    m.node("exp", Ref(x), outs=[a])
    m.node("add", Ref(a), Ref(m.view(1, "float32", (4, 4), (1, 4), 0)), outs=[out])
    assert ops_of(passes.inplace_sums(m.graph([out]).validate())) == ["exp", "add"]


def test_sources_and_inputs_stay():
    done = passes.run(example())
    assert [node.source for node in done.nodes] == [node.source for node in example().nodes]
    assert [done.buffers[done.values[v].buffer].name for v in done.inputs] == ["x", "w", "b"]
