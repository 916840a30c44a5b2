"""The planner: no plan lets two buffers that are in use share a byte, and what it promises of sizes and order holds."""

import random
from dataclasses import replace

import pytest
from support.graphs import Maker, chain, random_dag

from flambeau.graph import MODES, GraphError, Place, Ref, declared, elementwise, plan, refs_of

CHUNKS = 10  # of 1,000 random graphs each


def overlaps(graph, planned):
    """Runs a plan with bytes that know whose they are: the oracle. Nothing of the planner's own bookkeeping is used.

    A buffer's bytes become its own when a node first writes it, must be its own whenever a node reads or writes it, and must be
    its own at the end if it is an output. A node may write where its own operand lies if that was said.
    """
    memory = [[None] * block.nbytes for block in planned.blocks]
    written = set()

    def bytes_of(buffer):
        spot = planned.places[buffer]
        assert spot.nbytes == graph.buffers[buffer].nbytes and spot.offset + spot.nbytes <= planned.blocks[spot.block].nbytes
        assert planned.blocks[spot.block].device == graph.buffers[buffer].device
        return memory[spot.block], slice(spot.offset, spot.offset + spot.nbytes), spot.nbytes

    def holds(buffer):
        block, where, n = bytes_of(buffer)
        return block[where] == [buffer] * n

    for index, node in enumerate(graph.nodes):
        read = {graph.values[v].buffer for v in refs_of(node.args)} & set(planned.places)
        assert all(map(holds, read)), f"node {index} reads what was overwritten"
        fresh = [b for b in dict.fromkeys(graph.values[v].buffer for v in node.outs) if b in planned.places and b not in written]
        for buffer in fresh:
            block, where, n = bytes_of(buffer)
            block[where] = [buffer] * n
            written.add(buffer)
        assert all(map(holds, fresh)), f"outputs of node {index} overlap"
        taken = {planned.took[b] for b in fresh if b in planned.took}
        assert all(map(holds, read - taken)), f"node {index} writes over its operands"
    assert all(holds(v) for v in graph.outputs if v in planned.places), "an output was overwritten"


def check_all_modes(graph, rule):
    sizes = {}
    for mode in MODES:
        planned = plan(graph, mode, rule=rule, kinds=("intermediate", "output"), align=8)
        overlaps(graph, planned)
        sizes[mode] = planned
    none, inplace, coshare, both, arena = sizes.values()
    arena.check()
    assert inplace.total <= none.total and coshare.total <= none.total and both.total <= none.total
    assert both.lower_bound == arena.lower_bound <= both.total
    # Always, since the arena takes the blocks of "both" where nothing lower is found.
    assert arena.lower_bound <= arena.total <= sum(-(-block.nbytes // 8) * 8 for block in both.blocks)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_graphs(chunk):
    """10,000 of them, every mode."""
    rule = elementwise({"each"})
    for seed in range(1000 * chunk, 1000 * (chunk + 1)):
        check_all_modes(random_dag(seed), rule)


@pytest.mark.parametrize("seed", range(20))
def test_large_random_graphs(seed):
    check_all_modes(random_dag(seed, n_nodes=200), elementwise({"each"}))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"parallel": 3}, {"match_range": (1, 4)}, {"match_range": 0}, {"kinds": ("intermediate",)}], ids=str)
def test_options_on_random_graphs(options):
    for seed in range(200):
        graph = random_dag(seed)
        planned = plan(graph, "both", rule=elementwise({"each"}), **{"kinds": ("intermediate", "output"), **options})
        overlaps(graph, planned)


def test_the_oracle_finds_wrong_plans():
    graph = chain("exp", 10, 10, 10, 10, 10)
    planned = plan(graph, "arena")
    first, second, _ = sorted(planned.places)
    planned.places[second] = planned.places[first]
    with pytest.raises(AssertionError, match="writes over its operands"):
        overlaps(graph, planned)
    with pytest.raises(GraphError, match=f"buffers {first} and {second} overlap in block 0 at node 1"):
        planned.check()
    planned.places[second] = Place(0, 100, 40)
    with pytest.raises(GraphError, match="leaves block 0"):
        planned.check()


# ------------------------------------------------------------------------------------------ the pool


def in_blocks(graph, **options):
    planned = plan(graph, "coshare", **options)
    return [spot.block for _, spot in sorted(planned.places.items())], [block.nbytes // 4 for block in planned.blocks]


@pytest.mark.parametrize("sizes, blocks, of_blocks", [
    ((10, 10, 10), [0, 1, 0], [10, 10]),
    ((10, 100, 90), [0, 1, 0], [90, 100]),  # a small block grows
    ((100, 90, 10), [0, 1, 0], [100, 90]),
    ((160, 10, 10), [0, 1, 0], [160, 10]),  # 16 times as large as what is asked
    ((161, 10, 10), [0, 1, 2], [161, 10, 10]),
    ((10, 1, 160), [0, 1, 0], [160, 1]),
    ((10, 1, 161), [0, 1, 2], [10, 1, 161]),
], ids=str)  # fmt: skip
def test_blocks_of_a_chain(sizes, blocks, of_blocks):
    """The first result is free for the third; the second is being read."""
    assert in_blocks(chain("exp", 1, *sizes, 1)) == (blocks, of_blocks)


def freed(*sizes, then):
    """Buffers of `sizes` that die at one node each, in order, and then a request."""
    m = Maker()
    x = m.buffer("argument", (1,))
    made = [m.buffer("intermediate", (n,)) for n in sizes]
    m.node("make", Ref(x), outs=made)
    for value in made:
        m.node("use", Ref(value), outs=[m.buffer("output", (1,))])
    wanted = m.buffer("intermediate", (then,))
    m.node("make", Ref(x), outs=[wanted])
    out = m.buffer("output", (1,))
    m.node("use", Ref(wanted), outs=[out])
    return m.graph([out])


@pytest.mark.parametrize("sizes, then, block", [
    ((30, 20, 40), 20, 1),
    ((30, 20, 40), 25, 0),  # the smallest that is large enough
    ((30, 20, 40), 50, 2),  # else the largest
    ((30, 20, 30), 25, 0),  # of equal ones the first that was released
    ((30, 20, 30), 50, 0),
    ((400, 20), 21, 1),  # beyond the range, so the smaller one grows
], ids=str)  # fmt: skip
def test_which_block_is_taken(sizes, then, block):
    blocks, of_blocks = in_blocks(freed(*sizes, then=then))
    assert blocks[-1] == block and of_blocks[block] == max(sizes[block], then)


def test_a_result_that_nobody_reads_needs_a_block_for_its_node():
    m = Maker()
    x, unused, out = m.buffer("argument", (4,)), m.buffer("intermediate", (4,)), m.buffer("output", (4,))
    y = m.buffer("intermediate", (4,))
    m.node("both", Ref(x), outs=[unused, y])
    z = m.buffer("intermediate", (4,))
    m.node("exp", Ref(y), outs=[z])
    m.node("exp", Ref(z), outs=[out])
    assert in_blocks(m.graph([out])) == ([0, 1, 0], [4, 4])


def test_devices_share_nothing():
    m = Maker()
    at = m.buffer("argument", (4,))
    for device in ("cpu", "other", "cpu", "other"):
        following = m.buffer("intermediate", (4,), device=device)
        m.node("copy", Ref(at), outs=[following])
        at = following
    out = m.buffer("output", (4,))
    m.node("copy", Ref(at), outs=[out])
    graph = m.graph([out]).validate()
    for mode in ("coshare", "arena"):
        planned = plan(graph, mode)
        assert {block.device: block.nbytes for block in planned.blocks} == {"cpu": 16 if mode == "coshare" else 64, "other": 16 if mode == "coshare" else 64}


# ------------------------------------------------------------------------------------------ in place


def two_operands(first, second, out, sizes=(4, 4)):
    """add of two intermediate values with these (strides, offset)."""
    m = Maker()
    x = m.buffer("argument", sizes)
    a, b = m.buffer("intermediate", (4, 8)), m.buffer("intermediate", (4, 8))
    m.node("make", Ref(x), outs=[a])
    m.node("make", Ref(x), outs=[b])
    va, vb = (m.view(m.values[v].buffer, "float32", sizes, *geometry) for v, geometry in ((a, first), (b, second)))
    y = m.buffer("intermediate", (4, 8))
    vy = m.view(m.values[y].buffer, "float32", sizes, *out)
    m.node("add", Ref(va), Ref(vb), outs=[vy])
    last = m.buffer("output", sizes)
    m.node("exp", Ref(vy), outs=[last])
    return m.graph([last]).validate(), m.values[a].buffer, m.values[b].buffer, m.values[y].buffer


ROWS, COLUMNS, SHIFTED = ((8, 1), 0), ((1, 8), 0), ((8, 1), 4)


@pytest.mark.parametrize("first, second, taken", [
    (ROWS, ROWS, 0), (COLUMNS, ROWS, 1), (SHIFTED, ROWS, 1), (COLUMNS, COLUMNS, None), (SHIFTED, COLUMNS, None),
], ids=["both", "transposed", "shifted", "none", "neither"])  # fmt: skip
def test_elementwise_takes_an_operand_that_lies_alike(first, second, taken):
    graph, a, b, y = two_operands(first, second, ROWS)
    planned = plan(graph, "inplace", rule=elementwise({"add"}))
    assert planned.took == ({} if taken is None else {y: (a, b)[taken]})
    assert plan(graph, "inplace", rule=elementwise(lambda op: op == "mul")).took == {}
    assert plan(graph, "inplace").took == {}


def added_to(view, op="add"):
    """a + (a view of a)"""
    m = Maker()
    x, a, y, out = m.buffer("argument", (4, 4)), *(m.buffer("intermediate", (4, 4)) for _ in range(2)), m.buffer("output", (4, 4))
    m.node("exp", Ref(x), outs=[a])
    m.node(op, Ref(a), Ref(m.view(m.values[a].buffer, "float32", (4, 4), *view)), outs=[y])
    m.node("exp", Ref(y), outs=[out])
    return m.graph([out]).validate()


def test_an_operand_that_is_read_twice():
    """x + x may be written over x, x + x.T may not; a declared pair is used neither way."""
    assert plan(added_to(((4, 1), 0)), "inplace", rule=elementwise({"add"})).took == {2: 1}
    assert plan(added_to(((1, 4), 0)), "inplace", rule=elementwise({"add"})).took == {}
    assert plan(added_to(((4, 1), 0)), "inplace", rule=declared({"add": [(0, 0)]})).took == {}


def test_a_view_that_is_read_later_keeps_the_memory():
    m = Maker()
    x, a, y, out = m.buffer("argument", (4,)), m.buffer("intermediate", (4,)), m.buffer("intermediate", (4,)), m.buffer("output", (4,))
    m.node("exp", Ref(x), outs=[a])
    m.node("exp", Ref(a), outs=[y])
    m.node("add", Ref(y), Ref(m.view(1, "float32", (4,), (0,), 2)), outs=[out])
    graph = m.graph([out]).validate()
    assert plan(graph, "both", rule=elementwise({"exp"})).took == {}
    assert len(plan(graph, "both").blocks) == 2


def test_one_operand_serves_one_output():
    m = Maker()
    x, a, b, c = m.buffer("argument", (4,)), *(m.buffer("intermediate", (4,)) for _ in range(3))
    out = m.buffer("output", (4,))
    m.node("exp", Ref(x), outs=[a])
    m.node("sincos", Ref(a), outs=[b, c])
    m.node("add", Ref(b), Ref(c), outs=[out])
    assert plan(m.graph([out]), "inplace", rule=elementwise({"sincos"})).took == {2: 1}


def test_what_a_node_overwrites_gives_no_place():
    m = Maker()
    x, a, b, out = m.buffer("argument", (4,)), m.buffer("intermediate", (4,)), m.buffer("intermediate", (4,)), m.buffer("output", (4,))
    m.node("exp", Ref(x), outs=[a])
    m.node("old_and_new_", Ref(a), outs=[b], writes=[a])
    m.node("exp", Ref(b), outs=[out])
    assert plan(m.graph([out]), "inplace", rule={"old_and_new_": [(0, 0)]}).took == {}


# ------------------------------------------------------------------------------- order, colours, errors


def in_some_order(graph, edges, rng):
    """The nodes in an order that dependencies and edges allow."""
    before = [set(nodes) for nodes in graph.dependencies()]
    for earlier, later in edges:
        before[later].add(earlier)
    done, order = set(), []
    while len(order) < len(before):
        node = rng.choice([n for n in range(len(before)) if n not in done and before[n] <= done])
        done.add(node)
        order.append(node)
    return order


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_false_dependencies_are_enough(mode):
    """In any order that the graph's dependencies and the plan's edges allow, no node finds its operands overwritten."""
    rng = random.Random(1)
    for seed in range(300):
        graph = random_dag(seed, n_nodes=15)
        planned = plan(graph, mode, rule=elementwise({"each"}), kinds=("intermediate", "output"), align=8)
        order = in_some_order(graph, planned.edges, rng)
        overlaps(replace(graph, nodes=tuple(graph.nodes[n] for n in order)), planned)


@pytest.mark.slow
def test_false_dependencies_are_needed_and_not_implied():
    for seed in range(100):
        graph = random_dag(seed, n_nodes=15)
        planned = plan(graph, "arena", rule=elementwise({"each"}))
        implied = [set() for _ in graph.nodes]
        own = graph.dependencies()
        for node, before in enumerate(own):
            extra = [a for a, b in planned.edges if b == node]
            for earlier in sorted(extra, reverse=True):
                assert earlier < node and earlier not in implied[node] | set(before)
            for earlier in (*before, *extra):
                implied[node] |= implied[earlier] | {earlier}
    assert plan(random_dag(3), "none").edges == []


def test_colours_say_who_shares():
    graph = chain("exp", *[10] * 6)
    colours = plan(graph, "coshare").colours()
    assert [colours[buffer] for buffer in sorted(colours)] == [0, 1, 0, 1]
    assert len(set(plan(graph, "none").colours().values())) == 4


def test_arena_offsets_are_aligned():
    graph = chain("exp", 3, 5, 7, 9, 1)
    for align in (1, 64, 256):
        planned = plan(graph, "arena", align=align)
        assert all(spot.offset % align == 0 for spot in planned.places.values())
    assert plan(graph, "arena", align=1).total == plan(graph, "arena").lower_bound == 4 * (7 + 9)


def test_nothing_to_plan():
    m = Maker()
    x = m.buffer("argument", (4,))
    graph = m.graph([x]).validate()
    for mode in MODES:
        planned = plan(graph, mode)
        assert planned.total == planned.lower_bound == 0 and not planned.places and planned.edges == []


@pytest.mark.parametrize("options, text", [
    ({"mode": "best"}, "mode = 'best'; expected one of none, inplace, coshare, both, arena"),
    ({"match_range": -1}, "match_range = -1"),
    ({"match_range": ()}, "match_range = "),
    ({"align": 0}, "align = 0"),
    ({"parallel": 0}, "parallel = 0"),
    ({"match_range": "16"}, "match_range = '16'; expected one or several whole numbers >= 0"),
    ({"match_range": 1.5}, "match_range = 1.5"),
    ({"align": 2.5}, "align = 2.5, parallel = 1; expected whole numbers >= 1"),
    ({"parallel": 1.5}, "parallel = 1.5"),
    ({"kinds": "intermediate"}, "kinds = 'intermediate'; expected intermediate, output or both, in a list"),
    ({"rule": 3}, "rule = 3; expected elementwise"),
    ({"rule": {"exp": [(-1, 0)]}}, r"declared: 'exp' has \[\(-1, 0\)\]; expected pairs \(operand, output\) of numbers >= 0"),
    ({"rule": {"exp": [(0,)]}}, "declared: 'exp' has"),
    ({"rule": {"exp": 3}}, "declared: 'exp' has 3"),
    ({"kinds": ("argument",)}, "kinds = .*expected intermediate, output or both"),
], ids=str)  # fmt: skip
def test_errors(options, text):
    with pytest.raises(ValueError, match=text):
        plan(chain("exp", 1, 1), **options)
