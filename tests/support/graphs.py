"""Random graphs: abstract ones for planners, and ones that can be run, with views and writes in place."""

from __future__ import annotations

import math
import random

import flambeau as fl
from flambeau.graph import Buffer, DType, Graph, Node, Ref, Value


def strides_of(sizes):
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


class Maker:
    """Collects buffers, values and nodes."""

    def __init__(self):
        self.buffers, self.values, self.nodes, self.inputs, self.constants = [], [], [], [], {}

    def buffer(self, kind, sizes, dtype="float32", name=None, device="cpu"):
        """A buffer and the value of all of it."""
        nbytes = math.prod(sizes) * getattr(fl, dtype).itemsize
        self.buffers.append(Buffer(kind, nbytes, device, name))
        value = self.view(len(self.buffers) - 1, dtype, sizes, strides_of(sizes), 0)
        if kind in ("argument", "parameter"):
            self.inputs.append(value)
        return value

    def view(self, buffer, dtype, sizes, strides, offset):
        self.values.append(Value(buffer, dtype, tuple(sizes), tuple(strides), offset))
        return len(self.values) - 1

    def constant(self, array):
        value = self.buffer("constant", array.shape, array.dtype.name)
        self.constants[self.values[value].buffer] = array
        return value

    def node(self, op, *args, outs=(), writes=(), source=None):
        self.nodes.append(Node(op, args, tuple(outs), tuple(writes), source))

    def graph(self, outputs):
        return Graph(self.buffers, self.values, self.nodes, self.inputs, outputs, self.constants)


def chain(op, *sizes, kind="intermediate"):
    """x -> op -> op ... of these sizes; the last one is the output."""
    m = Maker()
    at = m.buffer("argument", sizes[:1], name="x")
    for size in sizes[1:-1]:
        out = m.buffer(kind, (size,))
        m.node(op, Ref(at), outs=[out])
        at = out
    out = m.buffer("output", sizes[-1:])
    m.node(op, Ref(at), outs=[out])
    return m.graph([out]).validate()


def random_dag(seed, n_nodes=9):
    """A graph for planners: nodes of up to three operands and two outputs, sizes from a few bytes on, some writes in place."""
    rng = random.Random(seed)
    m = Maker()
    sizes = [rng.randrange(1, 40) for _ in range(rng.randint(1, 4))]
    devices = ["cpu"] if rng.random() < 0.8 else ["cpu", "other"]
    live = [m.buffer("argument", (rng.choice(sizes),), "uint8")]
    own = []
    for index in range(rng.randint(1, n_nodes)):
        args = [rng.choice(live[-6:]) for _ in range(rng.randint(1, 3))]
        if own and rng.random() < 0.15:
            target = rng.choice(own)
            m.node("write_", Ref(target), *map(Ref, args), writes=[target])
            continue
        kind = "output" if rng.random() < 0.1 else "intermediate"
        outs = [m.buffer(kind, (rng.choice(sizes) * (0 if rng.random() < 0.03 else 1),), "uint8", device=rng.choice(devices))]
        if rng.random() < 0.15:
            outs.append(m.buffer("intermediate", (rng.choice(sizes),), "uint8"))
        m.node(rng.choice(["each", "other"]), *map(Ref, args), outs=outs)
        live += outs
        own += outs
    outputs = [i for i, v in enumerate(m.values) if m.buffers[v.buffer].kind == "output"]
    return m.graph(outputs)


# ------------------------------------------------------------------------------------ that can be run

UNARY = ("exp", "neg", "sin", "abs")
BINARY = ("add", "mul", "sub", "maximum")
EACH = {*UNARY, *BINARY}


def run_node(op, args, outs):
    """An op by flambeau's own functions."""
    if op.endswith("_"):
        getattr(args[0], op)(*args[1:])
    elif op == "halves":  # two outputs
        for out, part in zip(outs, fl.chunk(args[0], 2, 0)):
            out.copy_(part)
    elif op == "to":
        outs[0].copy_(args[0].to(args[1]))
    elif op == "cat":
        outs[0].copy_(fl.cat(args[0], args[1]))
    elif op == "sum":
        outs[0].copy_(fl.sum(args[0], args[1]))
    else:
        outs[0].copy_(getattr(fl, op)(*args))


def random_program(seed, n_nodes=25):
    """A graph that `run_node` runs, over 4 x 4 matrices and what is made of them; values stay small."""
    rng = random.Random(seed)
    m = Maker()
    shape = (4, 4)
    inputs = [m.buffer("argument", shape, name="x"), m.buffer("parameter", shape, name="w")]
    pool = [*inputs, m.constant(fl.rand(4, 4))]
    own = []

    def out(sizes, dtype="float32"):
        own.append(m.buffer("intermediate", sizes, dtype))
        return own[-1]

    def pick():
        """A value, or a view of one."""
        value = rng.choice(pool[-8:] if rng.random() < 0.8 else pool)
        buffer = m.values[value].buffer
        return m.view(buffer, "float32", shape, (1, 4), 0) if rng.random() < 0.2 else value

    while len(m.nodes) < n_nodes:
        what = rng.random()
        if what < 0.2:
            source = Ref(pick())
            pool.append(out(shape))
            m.node("tanh", source, outs=[pool[-1]])
            if rng.random() < 0.4:  # once more
                pool.append(out(shape))
                m.node("tanh", source, outs=[pool[-1]])
        elif what < 0.35:
            source = Ref(pick())
            pool.append(out(shape))
            m.node(rng.choice(UNARY), source, outs=[pool[-1]])
            m.node("tanh_", Ref(pool[-1]), writes=[pool[-1]])
        elif what < 0.6:
            args = [Ref(pick()), Ref(pick())]
            pool.append(out(shape))
            m.node(rng.choice(BINARY), *args, outs=[pool[-1]])
            m.node("tanh_", Ref(pool[-1]), writes=[pool[-1]])
        elif what < 0.68:
            args = [Ref(pick()), Ref(pick())]
            pool.append(out(shape))
            m.node("matmul", *args, outs=[pool[-1]])
            m.node("tanh_", Ref(pool[-1]), writes=[pool[-1]])
        elif what < 0.76 and own:
            target = rng.choice([v for v in pool if m.buffers[m.values[v].buffer].kind != "constant"])
            row = m.view(m.values[target].buffer, "float32", (4,), (1,), 4 * rng.randrange(4))
            m.node("mul_", Ref(row), 0.5, writes=[row])
        elif what < 0.84:
            source = Ref(pick())
            halves = [out((2, 4)), out((2, 4))]
            m.node("halves", source, outs=halves)
            pool.append(out(shape))
            m.node("cat", tuple(map(Ref, reversed(halves))), 0, outs=[pool[-1]])
        elif what < 0.92:
            source = Ref(pick())
            wide = out(shape, "float64")
            m.node("to", source, DType("float64"), outs=[wide])
            pool.append(out(shape))
            m.node("to", Ref(wide), DType("float32"), outs=[pool[-1]])
        else:
            source, row = Ref(pick()), out((4,))
            m.node("sum", source, (0,), outs=[row])
            m.node("tanh_", Ref(row), writes=[row])
            spread = m.view(m.values[row].buffer, "float32", shape, (0, 1), 0)
            other = Ref(pick())
            pool.append(out(shape))
            m.node("add", Ref(spread), other, outs=[pool[-1]])
            m.node("tanh_", Ref(pool[-1]), writes=[pool[-1]])
    outputs = rng.sample(own, min(2, len(own)))
    for value in outputs:
        buffer = m.values[value].buffer
        old = m.buffers[buffer]
        m.buffers[buffer] = Buffer("output", old.nbytes, old.device, old.name)
    return m.graph(outputs).validate()


def run_plainly(graph, inputs, nodes=run_node):
    """The outputs, and the inputs as they are afterwards."""
    from flambeau.graph import execute

    inputs = [tensor.clone() for tensor in inputs]
    return [*execute(graph, inputs, nodes), *inputs]


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
