"""Graphs themselves: what they refuse, how they are read, and what is asked of them."""

import re
import subprocess
import sys
import xml.etree.ElementTree
from dataclasses import replace

import numpy as np
import pytest
from support.graphs import Maker, chain, random_dag, random_program
from support.nets import net, rule_of

import flambeau as fl
from flambeau.graph import (
    Buffer,
    DType,
    Graph,
    GraphError,
    Node,
    Ref,
    Value,
    elementwise,
    example,
    plan,
)


@pytest.mark.slow
def test_it_is_loaded_when_it_is_used():
    code = "import sys, flambeau; print([m for m in sys.modules if m.startswith('flambeau.graph')]); print(flambeau.graph.__name__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split("\n")[:2] == ["[]", "flambeau.graph"]


# ------------------------------------------------------------------------------------------ validate

G = example()


def with_node(index, **changes):
    nodes = list(G.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(G, nodes=tuple(nodes))


def with_value(index, **changes):
    values = list(G.values)
    values[index] = replace(values[index], **changes)
    return replace(G, values=tuple(values))


def with_buffer(index, **changes):
    buffers = list(G.buffers)
    buffers[index] = replace(buffers[index], **changes)
    return replace(G, buffers=tuple(buffers))


def nested(depth):
    arg = (1,)
    for _ in range(depth):
        arg = (arg,)
    return arg


FAULTS = {
    "kind": (with_buffer(3, kind="temporary"), "buffer 3 has kind 'temporary'; expected one of argument, parameter"),
    "bytes": (with_buffer(3, nbytes=-1), "buffer 3 has -1 bytes; expected a number from 0"),
    "bytes_bool": (with_buffer(3, nbytes=True), "buffer 3 has True bytes"),
    "bytes_huge": (with_buffer(3, nbytes=2**63), "buffer 3 has 9223372036854775808 bytes"),
    "bytes_digits": (with_buffer(3, nbytes=10**5000), "buffer 3 has a int that is too long bytes"),
    "device": (with_buffer(3, device=""), "buffer 3 has device ''; expected a name"),
    "name": (with_buffer(3, name=7), "buffer 3 has name 7; expected a str or None"),
    "value_buffer": (with_value(4, buffer=9), "value %4: buffer 9 does not exist; there are 9"),
    "value_dtype": (with_value(4, dtype="float8"), "value %4: dtype 'float8'; expected one of"),
    "value_sizes": (with_value(4, sizes=(8, -16)), r"value %4: sizes \(8, -16\), strides \(16, 1\); expected tuples"),
    "value_list": (with_value(4, sizes=[8, 16]), r"value %4: sizes \[8, 16\]"),
    "value_ranks": (with_value(4, strides=(1,)), "value %4: 2 sizes, but 1 strides"),
    "value_offset": (with_value(4, offset=-1), "value %4: offset -1; expected a number >= 0"),
    "value_end": (with_value(4, offset=1), "value %4: reaches byte 516 of buffer 4, which has 512"),
    "value_end_stride": (with_value(4, strides=(2**40, 1)), "value %4: reaches byte .* of buffer 4, which has 512"),
    "op": (with_node(1, op="a b"), "node 1: op 'a b'; expected the name of an op"),
    "source": (with_node(1, source=3), r"node 1 \(add\): source 3; expected 'file:line' or None"),
    "args": (with_node(1, args=[Ref(1)]), r"node 1 \(add\): args are a list; expected a tuple"),
    "arg_value": (with_node(1, args=(Ref(3), Ref(99))), r"node 1 \(add\): argument 1: value %99 does not exist; there are 9"),
    "arg_negative": (with_node(1, args=(Ref(-1),)), r"node 1 \(add\): argument 0: value %-1 does not exist"),
    "arg_list": (with_node(1, args=(Ref(3), (Ref(1), Ref(99)))), r"node 1 \(add\): argument 1: value %99 does not exist"),
    "arg_type": (with_node(1, args=(Ref(3), 1j)), r"node 1 \(add\): argument 1: 1j of type complex; expected a Ref"),
    "arg_dtype": (with_node(1, args=(Ref(3), DType("f32"))), r"node 1 \(add\): argument 1: dtype 'f32'"),
    "arg_depth": (with_node(1, args=(nested(9),)), r"node 1 \(add\): argument 0: tuples are nested more than 8 deep"),
    "outs": (with_node(1, outs=[4]), r"node 1 \(add\): outs are \[4\]; expected a tuple of value indices"),
    "outs_range": (with_node(1, outs=(44,)), r"node 1 \(add\): outs: value %44 does not exist"),
    "outs_twice": (with_node(1, outs=(4, 4)), r"node 1 \(add\): value %4 is already an output of the same node"),
    "outs_of_two": (with_node(2, outs=(4,), args=(Ref(3),)), r"node 2 \(relu\): value %4 is already an output of node 1 \(add\)"),
    "outs_argument": (with_node(1, outs=(3,)), r"node 1 \(add\): value %3 is an argument and a fresh output"),
    "writes": (with_node(1, writes=(5,)), r"node 1 \(add\): overwrites value %5, which is none of its arguments"),
    "writes_twice": (with_node(1, writes=(3, 3)), r"node 1 \(add\): writes \(3, 3\) name a value twice"),
    "writes_shared": (replace(with_node(1, writes=(3,)), values=with_value(3, strides=(0, 1)).values),
                      r"node 0 \(matmul\): writes value %3, whose elements share memory"),
    "input": (replace(G, inputs=(0, 1, 2, 77)), "input 3: value %77 does not exist"),
    "input_kind": (replace(G, inputs=(0, 1, 2, 3)), "input 3: value %3 lies in a buffer of kind intermediate; expected argument or parameter"),
    "input_twice": (replace(G, inputs=(0, 1, 2, 0)), r"inputs \(0, 1, 2, 0\) name a value twice"),
    "input_missing": (replace(G, inputs=(0, 2)), r"node 0 \(matmul\): reads value %1 of buffer 1, which is no input"),
    "output": (replace(G, outputs=(8, -8)), "output 1: value %-8 does not exist"),
    "output_kind": (replace(G, outputs=(3,)), "output 0: value %3 lies in a buffer of kind intermediate; expected output"),
    "output_unwritten": (replace(G, nodes=G.nodes[:-1]), "output 0: value %8 of buffer 8, which nobody has written before"),
    "order": (replace(G, nodes=(G.nodes[1], G.nodes[0], *G.nodes[2:])), r"node 0 \(add\): reads value %3 of buffer 3, which nobody has written"),
    "constant_missing": (with_buffer(1, kind="constant"), "buffer 1 is a constant, but its bytes are not given"),
    "constant_kind": (replace(G, constants={3: np.zeros(4)}), "constants: buffer 3 is not of kind constant"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name):
    graph, text = FAULTS[name]
    if name == "constant_missing":
        graph = replace(graph, inputs=(0, 2))
    with pytest.raises(GraphError, match=text):
        graph.validate()


def test_a_constant_is_not_written_and_has_its_bytes():
    m = Maker()
    c, out = m.constant(fl.ones(4)), m.buffer("output", (4,))
    m.node("clone", Ref(c), outs=[out])
    good = m.graph([out]).validate()
    with pytest.raises(GraphError, match="constants: buffer 0 has 16 bytes, but 20 are given"):
        replace(good, constants={0: fl.ones(5)}).validate()
    m.node("neg_", Ref(c), writes=[c])
    with pytest.raises(GraphError, match=r"node 1 \(neg_\): writes value %0 of buffer 0, which is a constant"):
        m.graph([out]).validate()


def test_memory_that_nobody_gave_is_not_written():
    m = Maker()
    x, w = m.buffer("argument", (4,)), m.buffer("parameter", (4,))
    m.node("exp", Ref(x), outs=[w])
    m.inputs.remove(w)
    with pytest.raises(GraphError, match=r"node 0 \(exp\): writes to buffer 1, which is no input"):
        m.graph([]).validate()


def test_several_faults_are_told_at_once():
    graph = replace(with_value(4, dtype="x"), values=tuple(replace(v, offset=-1) for v in with_value(4, dtype="x").values))
    with pytest.raises(GraphError, match=r"the graph has faults:\n  - value %0: offset -1.*\n  - value %1.*(\n.*)*  - value %4: dtype 'x'"):
        graph.validate()


@pytest.mark.parametrize("seed", range(30))
def test_good_ones_are_good(seed):
    assert random_program(seed).validate() and random_dag(seed).validate()


# -------------------------------------------------------------------------------------- what is asked


def test_lives_uses_and_dependencies():
    lives = G.lives()
    assert [(life.start, life.end) for life in lives] == [(-1, 6), (-1, 6), (-1, 6), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert lives[1].touches == (0, 3) and G.uses(0) == [0, 4] and G.reads(G.nodes[4]) == [0, 6]
    assert G.dependencies() == [[], [0], [1], [2], [3], [4]]


def test_dependencies_of_writes():
    """Reads between two writes of one buffer wait for the first, and the second for them."""
    m = Maker()
    x, a, outs = m.buffer("argument", (4,)), m.buffer("intermediate", (4,)), [m.buffer("output", (4,)) for _ in range(3)]
    m.node("exp", Ref(x), outs=[a])
    m.node("exp", Ref(a), outs=[outs[0]])
    m.node("exp", Ref(m.view(1, "float32", (4,), (0,), 1)), outs=[outs[1]])
    m.node("neg_", Ref(a), writes=[a])
    m.node("exp", Ref(a), outs=[outs[2]])
    assert m.graph(outs).validate().dependencies() == [[], [0], [0], [1, 2], [3]]


def test_equality_and_fingerprints():
    other = replace(G, nodes=tuple(replace(node, source=None) for node in G.nodes))
    assert G == example() and hash(G) == hash(example()) and G.fingerprint() == example().fingerprint()
    assert other != G and other.fingerprint() == G.fingerprint()
    seen = {G.fingerprint()}
    for changed in (with_node(2, op="gelu"), with_node(5, args=(Ref(7), (False,))), with_node(5, args=(Ref(7), (0.0,))), with_buffer(3, nbytes=600),
                    replace(G, outputs=()), with_value(3, dtype="int32"), with_node(2, args=(Ref(4), float("nan")))):  # fmt: skip
        assert changed != G and changed.fingerprint() not in seen
        seen.add(changed.fingerprint())


def test_constants_count_for_equality():
    def graph(values):
        m = Maker()
        c = m.constant(values)
        return m.graph([c]).validate()

    assert graph(fl.ones(3)) == graph(fl.ones(3)) != graph(fl.zeros(3))
    assert graph(fl.ones(3)).fingerprint() != graph(fl.zeros(3)).fingerprint()


# ---------------------------------------------------------------------------------------------- text


def test_text(capsys):
    m = Maker()
    x, w, c = m.buffer("argument", (8, 3), name="x"), m.buffer("parameter", (2,), "bfloat16"), m.constant(fl.arange(3))
    a, b, out = m.buffer("intermediate", (8, 3)), m.buffer("intermediate", (), "int64"), m.buffer("output", (3,), name="y")
    row = m.view(3, "float32", (3,), (1,), 6)
    m.node("max_1", Ref(x), 1, True, outs=[a, b], source="train.py:12")
    m.node("cat", (Ref(a), Ref(x)), None, DType("float16"), (1,), "sum", outs=[out])
    m.node("add_", Ref(row), Ref(w), 0.5, writes=[row])
    m.graph([out, row]).print()
    assert capsys.readouterr().out == """\
graph(%0: f32[8, 3] x, %1: bf16[2]):
  %2: i64[3] = constant
  %3: f32[8, 3] b3, %4: i64[] = max_1(%0: f32[8, 3], 1, True)  # train.py:12
  %5: f32[3] = cat((%3: f32[8, 3] b3, %0: f32[8, 3]), None, float16, (1,), 'sum')
  add_(%6!: f32[3] b3+6, %1: bf16[2], 0.5)
  return %5, %6
"""
    assert c == 2


def test_one_line_a_node():
    graph = net("ResNet-50")
    assert len(str(graph).splitlines()) == len(graph.nodes) + 2
    assert repr(graph) == f"Graph({len(graph.nodes)} nodes, {len(graph.buffers)} buffers)" and len(graph.nodes) == 370


# -------------------------------------------------------------------------------------------- memory


def test_memory_before_running():
    graph = net("AlexNet", batch=1)
    memory = graph.memory("both", rule=rule_of("native"), biggest=2)
    by_kind = {kind: sum(b.nbytes for b in graph.buffers if b.kind == kind) for kind in memory.kinds}
    assert memory.kinds == by_kind and memory.planned == plan(graph, "both", rule=rule_of("native")).total
    assert memory.lower_bound < memory.planned < memory.kinds["intermediate"] == graph.memory("none").planned
    assert memory.total == sum(by_kind.values()) - by_kind["intermediate"] + memory.planned
    assert [name for name, _, _ in memory.biggest] == ["fully_connected17_weight", "fully_connected17_weight_grad"]
    assert re.search(r"planned \(both\) +5\.\d MiB\n", str(memory)) and "fully_connected17_weight (parameter)" in str(memory)


def test_memory_of_planned_outputs_is_counted_once():
    graph = chain("exp", 100, 100, 100, 100)
    whole = graph.plan("coshare", kinds=("intermediate", "output"))
    assert graph.memory("coshare").total == 400 + 400 + 800
    assert whole.total == 800 == graph.memory(whole).planned and graph.memory(whole).total == 400 + 800


# ------------------------------------------------------------------------------------------ pictures

SVG = "{http://www.w3.org/2000/svg}"


def picture(graph, path, *args, **options):
    graph.draw(path / "x.svg", *args, **options)
    return xml.etree.ElementTree.parse(path / "x.svg").getroot()


def boxes_of(root):
    """Title -> (x, y, width, height, fill)"""
    found = {}
    for group in root.iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is not None:
            found[title.text.split(":")[0]] = (*(float(rect.get(k)) for k in ("x", "y", "width", "height")), rect.get("fill"))
    return found


@pytest.mark.parametrize("mode", ["none", "coshare"])
def test_colours_are_the_plans(mode, tmp_path):
    graph = chain("exp", *[100] * 6)
    boxes, planned = boxes_of(picture(graph, tmp_path, mode)), plan(graph, mode)
    colours = [boxes[f"node {index}"][4] for index in range(4)]
    numbers = [planned.colours()[graph.values[node.outs[0]].buffer] for node in graph.nodes[:4]]
    assert [colours.index(c) for c in colours] == [numbers.index(n) for n in numbers]
    assert len(set(colours)) == (4 if mode == "none" else 2) and boxes["node 4"][4] == "#ffffff"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GoogLeNet", "ResNet-50"])
@pytest.mark.parametrize("train", [True, False])
def test_boxes_do_not_overlap_and_lie_in_the_picture(name, train, tmp_path):
    graph = net(name, train=train)
    root = picture(graph, tmp_path, "arena", rule=rule_of("native"))
    boxes = sorted((y, x, w, h) for x, y, w, h, _ in boxes_of(root).values())
    assert len(boxes) >= len(graph.nodes)
    wide, high = float(root.get("width")), float(root.get("height"))
    for index, (y, x, w, h) in enumerate(boxes):
        assert 0 <= x and x + w <= wide and 0 <= y and y + h <= high
        for other_y, other_x, other_w, _ in boxes[index + 1 :]:
            if other_y >= y + h:
                break
            assert other_x >= x + w or x >= other_x + other_w


@pytest.mark.slow
def test_the_same_picture_every_time(tmp_path):
    texts = set()
    for _ in range(2):
        net("GoogLeNet", train=False).draw(tmp_path / "x.svg", "both", rule=rule_of("native"))
        texts.add((tmp_path / "x.svg").read_text())
    assert len(texts) == 1


def test_text_in_pictures_is_escaped(tmp_path):
    graph = replace(with_buffer(0, name='<a & "b">'), nodes=(replace(G.nodes[0], source="</svg>"), *G.nodes[1:]))
    assert any(text.text == '<a & "b">' for text in picture(graph, tmp_path).iter(f"{SVG}text"))
    assert '\\"b\\"' in graph.dot()


def test_characters_that_pictures_do_not_take(tmp_path):
    graph = with_buffer(0, name="a\0b\x1b\ud800c")
    assert any(text.text == "a\ufffdb\ufffd\ufffdc" for text in picture(graph, tmp_path).iter(f"{SVG}text"))
    assert "a\ufffdb" in graph.dot() and "\0" not in graph.dot()


@pytest.mark.slow
def test_pictures_of_odd_graphs(tmp_path):
    empty = Graph((), (), (), (), (), {})
    assert picture(empty, tmp_path) is not None and empty.dot() == 'digraph {\n  node [fontname="monospace", fontsize=10, style=filled];\n}\n'
    for seed in range(30):
        assert picture(random_dag(seed, 30), tmp_path, "both") is not None
        assert picture(random_program(seed), tmp_path) is not None


def test_dot():
    lines = example().dot("both", rule=elementwise({"relu"})).splitlines()
    assert len([line for line in lines if " -> " in line]) == 8
    colours = re.findall(r'shape=box, fillcolor=("[^"]+")', "\n".join(lines))
    assert len(colours) == 6 and colours[0] != colours[1] == colours[2] != colours[3]  # relu in place of add
    assert all(re.fullmatch(r'"(#[0-9a-f]{6}|[0-9.]+ [0-9.]+ [0-9.]+)"', colour) for colour in colours)


def test_shape_of_the_parts():
    """What the recorder fills."""
    buffer, value, node = Buffer("output", 4), Value(0, "float32", (), (), 0), Node("full", (1.0,), (0,))
    assert (buffer.device, buffer.name, node.writes, node.source) == ("cpu", None, (), None)
    assert not hasattr(buffer, "__dict__") and not hasattr(value, "__dict__") and not hasattr(node, "__dict__")
    assert Graph([buffer], [value], [node], [], [0], {}).validate().outputs == (0,)
