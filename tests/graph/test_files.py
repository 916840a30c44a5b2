"""Graphs in files: what is saved comes back, and what is no graph is refused with the place where it is wrong."""

import copy
import json
import os
import random
import struct

import pytest
import safetensors.numpy
from support.graphs import Maker, random_dag, random_program, run_plainly, same_bits
from support.nets import net

import flambeau as fl
from flambeau.graph import DType, Graph, GraphError, Ref, example
from flambeau.serialization import FileFormatError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.graph"


def again(graph, path, **how):
    graph.save(path)
    return Graph.load(path, **how)


def with_constants():
    m = Maker()
    values = [fl.rand(3, 2).t(), fl.arange(5), fl.rand(3).to(fl.bfloat16), fl.tensor([True, False]), fl.zeros(0), fl.rand(2).numpy()]
    constants = [m.constant(fl.as_tensor(value)) for value in values]
    x, out = m.buffer("argument", (4,), name='a "name"\n'), m.buffer("output", (4,))
    args = (1, -2.5, True, None, "text \u2713", DType("float16"), (1, (2, ())), float("inf"), -float("inf"), float("nan"), -0.0, 2**70)
    m.node("op_1", Ref(x), (Ref(constants[0]), Ref(constants[1])), *args, outs=[out], source="/a b/c.py:3")
    m.node("add_", Ref(x), 1, writes=[x])
    return m.graph([out, x, *constants]).validate()


# ------------------------------------------------------------------------------------- round trips


def test_everything_comes_back(path):
    graph = with_constants()
    loaded = again(graph, path)
    assert loaded == graph and str(loaded) == str(graph) and loaded.fingerprint() == graph.fingerprint()
    assert [(type(a), repr(a)) for a in loaded.nodes[0].args] == [(type(a), repr(a)) for a in graph.nodes[0].args]
    for index, constant in graph.constants.items():
        assert same_bits(loaded.constants[index].to(fl.float64), constant.contiguous().to(fl.float64))
        assert loaded.constants[index].dtype == constant.dtype


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_come_back_and_run_alike(seed, path):
    graph = random_program(seed)
    loaded = again(graph, path)
    inputs = [fl.randn(4, 4) for _ in graph.inputs]
    assert loaded == graph and all(map(same_bits, run_plainly(graph, inputs), run_plainly(loaded, inputs)))
    assert again(random_dag(seed), path) == random_dag(seed)


@pytest.mark.slow
def test_a_network(path):
    graph = net("ResNet-50")
    assert again(graph, path, trusted=True) == graph  # a training step


def test_other_readers_see_the_constants(path):
    graph = with_constants()
    graph = Graph(graph.buffers, graph.values, graph.nodes, graph.inputs, graph.outputs, graph.constants)
    m = Maker()
    c = m.constant(fl.rand(2, 3))
    m.graph([c]).save(path)
    assert safetensors.numpy.load_file(path)["constant.0"].tolist() == m.constants[0].tolist()


def test_a_graph_with_faults_is_not_saved(path):
    graph = example()
    with pytest.raises(GraphError, match="node 0"):
        Graph(graph.buffers, graph.values, graph.nodes[1:], graph.inputs, graph.outputs, {}).save(path)
    assert not os.listdir(path.parent)


def test_a_graph_is_not_its_file(path):
    """Who writes to the file, or cuts it short, changes no graph that was read from it."""
    m = Maker()
    c, out = m.constant(fl.arange(4096)), m.buffer("output", (4096,), "int64")
    m.node("abs", Ref(c), outs=[out])
    loaded = again(m.graph([out]).validate(), path)
    with open(path, "r+b") as file:
        file.seek(-4096 * 4, os.SEEK_END)
        file.write(bytes(4096 * 4))
        file.truncate(100)
    assert loaded.run()[0].equal(fl.arange(4096))


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    example().save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        with_constants().save(path)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


# ---------------------------------------------------------------------------------------- bad files


def write(path, structure, tensors=b"", header=None, metadata=None):
    text = structure if isinstance(structure, str) else json.dumps(structure)
    metadata = {"flambeau.graph": "1", "flambeau.structure": text} if metadata is None else metadata
    raw = json.dumps({"__metadata__": metadata, **(header or {})}).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + tensors)


def structure_of(graph, path):
    graph.save(path)
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    return json.loads(json.loads(raw[8 : 8 + n])["__metadata__"]["flambeau.structure"])


def refused(path, text):
    with pytest.raises(FileFormatError, match=text) as caught:
        Graph.load(path)
    assert str(caught.value).startswith(f"load: {path} ")


def test_parts_that_trust_their_callers_are_refused(tmp_path):
    """Their kernels would read beyond what a forged node gives them."""
    x = fl.rand(4)
    graph = fl.graph.record(lambda x: fl._C.ops.cumprod_gradient(x, x, 0), x)
    path = tmp_path / "graph"
    graph.save(path)
    refused(path, r"node 0 \(cumprod_gradient\) is a part of an op.*load\(..., trusted=True\)")
    (got,) = Graph.load(path, trusted=True).run(x)
    assert got.equal(fl._C.ops.cumprod_gradient(x, x, 0))


def test_parts_that_files_may_name_are_checked():
    ops, x = fl._C.ops, fl.rand(2, 4, 6)
    with pytest.raises(fl.ShapeError):
        ops.convolution(x, fl.rand(6, 3, 3), None, [1], [0], [1], 1)
    with pytest.raises(ValueError):
        ops.convolution(x, fl.rand(6, 4, 3), None, [1, 1], [0], [1], 1)
    with pytest.raises(fl.ShapeError):
        ops.convolution(fl.rand(2, 4), fl.rand(6, 4), None, [], [], [], 1)
    with pytest.raises(fl.ShapeError):
        ops.conv_transposed(x, fl.rand(3, 4, 3), None, [1], [0], [0], [1], 1)
    for shape in ([3], [1, 1, 1, 1], [2, 4, 5]):
        with pytest.raises(fl.ShapeError):
            ops.sum_to(x, shape)
    for dim in (-1, 3):
        with pytest.raises(IndexError):
            ops.reverse_cumsum(x, dim)
        with pytest.raises(IndexError):
            ops.cat_same([x, x], dim)
    with pytest.raises(ValueError):
        ops.cat_same([], 0)


# (what is replaced: a path into the structure, by what) -> the text
CHANGES = {
    "no_list": (("nodes",), {"a": 1}, "its nodes are {'a': 1}; expected a list"),
    "buffer_row": (("buffers", 3), 7, r"buffer 3 is 7; expected \[kind, bytes, device, name\]"),
    "buffer_short": (("buffers", 3), ["argument", 3], "buffer 3 is"),
    "buffer_kind": (("buffers", 3, 0), ["x"], r"buffer 3 has kind \['x'\]; expected one of"),
    "buffer_bytes": (("buffers", 3, 1), 512.0, "buffer 3 has 512.0 bytes; expected a number"),
    "buffer_huge": (("buffers", 3, 1), 2**64, "buffer 3 has 18446744073709551616 bytes"),
    "value_row": (("values", 2), [1, 2], r"value 2 is \[1, 2\]; expected \[buffer, dtype, sizes, strides, offset\]"),
    "value_sizes": (("values", 2, 2), "12", "value 2: sizes are '12'; expected a list of integers"),
    "value_float": (("values", 2, 2), [1.5], r"value 2: sizes are \[1.5\]; expected a list of integers"),
    "value_dims": (("values", 2, 2), [1] * 100, r"value %2: sizes \(1, 1, .*; expected tuples of at most 64 counts"),
    "value_beyond": (("values", 2, 2), [17], "value %2: reaches byte 68 of buffer 2, which has 64"),
    "value_product": (("values", 3, 3), [2**62, 2**62], "value %3: reaches byte"),
    "value_dtype": (("values", 2, 1), "object", "value %2: dtype 'object'"),
    "value_buffer": (("values", 2, 0), True, "value %2: buffer True does not exist"),
    "node_row": (("nodes", 1), ["add"], r"node 1 is \['add'\]; expected \[op, args, outs, writes, source\]"),
    "node_op": (("nodes", 1, 0), "__import__('os')", "node 1: op .*; expected the name of an op"),
    "node_op_type": (("nodes", 1, 0), None, "node 1: op None"),
    "node_args": (("nodes", 1, 1), "x", r"node 1 \(add\): args are 'x'; expected a list"),
    "node_arg": (("nodes", 1, 1, 0), {"v": 3, "w": 1}, r"node 1 \(add\): argument 0 is .*; expected {'v': value}"),
    "node_arg_value": (("nodes", 1, 1, 0), {"v": 99}, r"node 1 \(add\): argument 0: value %99 does not exist"),
    "node_arg_text": (("nodes", 1, 1, 0), {"v": "3"}, r"node 1 \(add\): argument 0 is {'v': '3'}"),
    "node_arg_float": (("nodes", 1, 1, 0), {"f": "1.0"}, r"node 1 \(add\): argument 0 is {'f': '1.0'}"),
    "node_arg_dtype": (("nodes", 1, 1, 0), {"D": "float"}, r"node 1 \(add\): argument 0: dtype 'float'"),
    "node_arg_deep": (("nodes", 1, 1, 0), [[[[[[[[[[1]]]]]]]]]], r"node 1 \(add\): argument 0: lists are nested more than 8 deep"),
    "node_outs": (("nodes", 1, 2), [True], r"node 1 \(add\): outs are \[True\]; expected a list of integers"),
    "node_writes": (("nodes", 1, 3), [8], r"node 1 \(add\): overwrites value %8, which is none of its arguments"),
    "node_source": (("nodes", 1, 4), 5, r"node 1 \(add\): source 5"),
    "inputs": (("inputs",), [0, "1"], "its inputs are .*; expected a list of integers"),
    "outputs": (("outputs",), [10**30], "output 0: value %1000.* does not exist"),
    "a_constant_without_bytes": (("buffers", 1, 0), "constant", "input 1: value %1 lies in a buffer of kind constant"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_structures_that_are_refused(name, path):
    where, by, text = CHANGES[name]
    structure = structure_of(example(), path)
    at = structure
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = by
    write(path, structure)
    refused(path, text)


TEXTS = {
    "no_json": ("{", "its structure is not valid JSON"),
    "no_object": ("[]", "its structure is a list; expected buffers, values"),
    "missing": ('{"buffers": []}', r"its structure is \['buffers'\]; expected buffers, values"),
    "twice": ('{"nodes": [], "nodes": []}', "the name 'nodes' appears twice"),
    "deep": ("[" * 100_000, "nested too deeply"),
    "nan": ('{"nodes": NaN}', "NaN, which is not JSON"),
    "digits": ('{"nodes": ' + "9" * 10_000 + "}", "its structure is not valid JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_are_refused(name, path):
    write(path, TEXTS[name][0])
    refused(path, TEXTS[name][1])


def test_a_number_beyond_64_bits(path):
    structure = structure_of(example(), path)
    text = json.dumps(structure).replace('"sum", [{"v": 7}, [0]]', '"sum", [{"v": 7}, 1e999]')
    write(path, text)
    refused(path, r"node 5 \(sum\): argument 1 is a number beyond those of 64 bits")


def test_files_that_hold_no_graph(path):
    fl.save({"x": fl.ones(2)}, path)
    refused(path, "has flambeau.graph = None; expected '1'")
    write(path, {}, metadata={"flambeau.graph": "2", "flambeau.structure": "{}"})
    refused(path, "has flambeau.graph = '2'; expected '1'")
    path.write_bytes(b"")
    refused(path, "has 0 bytes")
    with pytest.raises(FileNotFoundError):
        Graph.load(path.parent / "nothing")


@pytest.mark.parametrize("name, text", [
    ("weights", "tensor 'weights' belongs to no buffer; expected constant.0 to constant.8"),
    ("constant.9", "tensor 'constant.9' belongs to no buffer"),
    ("constant.01", "tensor 'constant.01' belongs to no buffer"),
    ("constant.3", "constants: buffer 3 is not of kind constant"),
    ("constant." + "9" * 5000, "belongs to no buffer"),
], ids=["name", "range", "zero", "kind", "digits"])  # fmt: skip
def test_tensors_that_belong_to_nothing(name, text, path):
    structure = structure_of(example(), path)
    write(path, structure, b"\0" * 4, {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
    refused(path, text)


def test_a_constant_of_another_size(path):
    m = Maker()
    c = m.constant(fl.ones(4))
    structure = structure_of(m.graph([c]), path)
    write(path, structure, b"\0" * 8, {"constant.0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    refused(path, "constants: buffer 0 has 16 bytes, but 8 are given")


# --------------------------------------------------------------------------------------------- fuzz


def mutated_bytes(rng, raw):
    raw = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at, what = rng.randrange(len(raw)), rng.random()
        if what < 0.4:
            raw[at] = rng.randrange(256)
        elif what < 0.6:
            raw[at] ^= 1 << rng.randrange(8)
        elif what < 0.7:
            del raw[at:]
        elif what < 0.85:
            del raw[at : at + rng.randint(1, 8)]
        else:
            raw[at:at] = bytes(rng.choice(b'0123456789-[]{}",:enul. ') for _ in range(rng.randint(1, 5)))
        if not raw:
            break
    return bytes(raw)


ODD = [None, True, -1, 0, 1, 7, 2**31, 2**63, 2**80, 0.5, "", "float64", "constant", [], [0], [[0]], {}, {"v": 0}, {"v": -1}, {"D": "int8"}, "9" * 50]


def mutated_structure(rng, structure):
    """Something anywhere in it replaced, left out or doubled."""
    structure = copy.deepcopy(structure)
    for _ in range(rng.randint(1, 3)):
        at = structure
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.85:
                at = at[key]
                continue
            what = rng.random()
            if what < 0.7:
                at[key] = copy.deepcopy(rng.choice(ODD))
            elif what < 0.85 or isinstance(at, dict):
                del at[key]
            else:
                at.insert(key, copy.deepcopy(rng.choice(at)))
            break
    return structure


def loads_or_refuses(path):
    """Whatever a file holds, it is a graph that holds what it promises, or it is refused."""
    try:
        graph = Graph.load(path)
    except FileFormatError as error:
        assert str(error).startswith("load: ") and len(str(error)) < 5000
        return False
    graph.validate()
    assert str(graph) and graph.memory("both").total >= 0
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutated_bytes(seed, path):
    rng = random.Random(seed)
    graphs = [with_constants(), example(), random_program(seed)]
    raws = []
    for graph in graphs:
        graph.save(path)
        raws.append(path.read_bytes())
    loaded = 0
    for _ in range(500):
        path.write_bytes(mutated_bytes(rng, rng.choice(raws)))
        loaded += loads_or_refuses(path)
    assert loaded < 400  # a name, a number or a constant's byte may change and leave a graph


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutated_structures(seed, path):
    rng = random.Random(seed)
    structures = [structure_of(graph, path) for graph in (example(), random_program(seed, 8), random_dag(seed))]
    loaded = 0
    for _ in range(500):
        write(path, mutated_structure(rng, rng.choice(structures)))
        loaded += loads_or_refuses(path)
    assert loaded < 250
