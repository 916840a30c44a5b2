"""Six networks of MXNet's examples as graphs, forward and with gradients, for what is known of their memory.

Layers are those of the example symbols (image-classification, v0.7; ResNet-50 v1 as of 1.9.1); pooling rounds up ("full") but
in ResNet. An operator says what its backward reads and which pairs may be computed in place; there are two such profiles,
`native` and `cudnn`. The order is MXNet's: forward, the layers as a depth-first search from the loss meets them; then the gradient nodes,
depth-first from those whose result no other node wants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from flambeau.graph import Buffer, Graph, Node, Ref, Value

BATCH = 32


@dataclass(frozen=True)
class Op:
    """`reads` of the backward node: og, label, in (all inputs), data (the first), out (all outputs) or outN."""

    reads: tuple[str, ...]
    forward: tuple[tuple[int, int], ...] = ()  # in place: (operand, output)
    backward: tuple[tuple[str, int], ...] = ()  # (what is read, output)


NATIVE = {
    "convolution": Op(("og", "data", "weight")),
    "fully_connected": Op(("og", "data", "weight"), (), (("data", 0),)),
    "relu": Op(("og", "out0"), ((0, 0),), (("og", 0),)),
    "pooling": Op(("og", "data", "out0"), (), (("data", 0),)),
    "batch_norm": Op(("og", "out1", "out2", "data", "weight", "bias")),
    "lrn": Op(("og", "data", "out1"), (), (("og", 0),)),
    "dropout": Op(("og", "out1"), ((0, 0),), (("og", 0),)),
    "concat": Op(("og",)),
    "flatten": Op(("og",), ((0, 0),), (("og", 0),)),
    "identity": Op(("og",), ((0, 0),), (("og", 0),)),
    "add": Op(("og",), ((0, 0),), (("og", 0),)),
    "softmax": Op(("label", "out0"), ((0, 0),), (("out0", 0),)),
}
CUDNN = {
    **NATIVE,
    "relu": Op(("og", "out0", "data"), ((0, 0),), (("og", 0),)),
    "pooling": Op(("og", "data", "out0")),
    "lrn": Op(("og", "data", "out0")),
}
PROFILES = {"native": NATIVE, "cudnn": CUDNN}


def rule_of(profile):
    """The profile's pairs, as the planner takes them."""
    pairs = {"sum": [(0, 0)]}
    for name, op in PROFILES[profile].items():
        pairs[name] = list(op.forward)
        pairs[f"{name}_backward"] = [(op.reads.index(what), output) for what, output in op.backward]
    return pairs


@dataclass(eq=False)
class Layer:
    op: str
    inputs: list[Layer]
    shapes: list[tuple[int, ...]]
    parameters: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    @property
    def shape(self):
        return self.shapes[0]


class Net:
    """Layers of the examples; `profile` decides how many outputs LRN has."""

    def __init__(self, profile="native", batch=BATCH):
        self.profile, self.batch = profile, batch
        self.data = Layer("data", [], [(batch, 3, 224, 224)])

    def conv(self, x, channels, kernel, stride=1, pad=0):
        n, c, h, w = x.shape
        h, w = ((size + 2 * pad - kernel) // stride + 1 for size in (h, w))
        return Layer("convolution", [x], [(n, channels, h, w)], [("weight", (channels, c, kernel, kernel))])

    def pool(self, x, kernel, stride=1, pad=0, full=True):
        n, c, h, w = x.shape
        up = stride - 1 if full else 0
        h, w = (min(size + 2 * pad - kernel + up, size + 2 * pad - 1) // stride + 1 for size in (h, w))
        return Layer("pooling", [x], [(n, c, h, w)])

    def global_pool(self, x):
        return Layer("pooling", [x], [(*x.shape[:2], 1, 1)])

    def bn(self, x):
        c = (x.shape[1],)
        return Layer("batch_norm", [x], [x.shape, c, c], [("weight", c), ("bias", c)])

    def lrn(self, x):
        return Layer("lrn", [x], [x.shape] * (2 if self.profile == "native" else 1))

    def relu(self, x):
        return Layer("relu", [x], [x.shape])

    def dropout(self, x):
        return Layer("dropout", [x], [x.shape] * 2)

    def concat(self, *xs):
        n, _, h, w = xs[0].shape
        return Layer("concat", list(xs), [(n, sum(x.shape[1] for x in xs), h, w)])

    def flatten(self, x):
        return Layer("flatten", [x], [(x.shape[0], math.prod(x.shape[1:]))])

    def fc(self, x, hidden):
        return Layer("fully_connected", [x], [(x.shape[0], hidden)], [("weight", (hidden, x.shape[1]))])

    def add(self, a, b):
        return Layer("add", [a, b], [a.shape])

    def identity(self, x):
        return Layer("identity", [x], [x.shape])

    def softmax(self, x):
        return Layer("softmax", [x], [x.shape], [("label", (x.shape[0],))])

    def conv_relu(self, x, channels, kernel, stride=1, pad=0):
        return self.relu(self.conv(x, channels, kernel, stride, pad))

    def conv_bn(self, x, channels, kernel, stride=1, pad=0):
        return self.bn(self.conv(x, channels, kernel, stride, pad))

    def conv_bn_relu(self, x, channels, kernel, stride=1, pad=0):
        return self.relu(self.conv_bn(x, channels, kernel, stride, pad))

    def classifier(self, x):
        """Two hidden layers of 4096 with dropout."""
        x = self.flatten(x)
        for _ in range(2):
            x = self.dropout(self.relu(self.fc(x, 4096)))
        return self.softmax(self.fc(x, 1000))


def alexnet(net):
    x = net.lrn(net.pool(net.conv_relu(net.data, 96, 11, 4), 3, 2))
    x = net.lrn(net.pool(net.conv_relu(x, 256, 5, 1, 2), 3, 2))
    for channels in (384, 384, 256):
        x = net.conv_relu(x, channels, 3, 1, 1)
    return net.classifier(net.pool(x, 3, 2))


def googlenet(net):
    def inception(x, c1, c3r, c3, c5r, c5, projected):
        a = net.conv_relu(x, c1, 1)
        b = net.conv_relu(net.conv_relu(x, c3r, 1), c3, 3, 1, 1)
        c = net.conv_relu(net.conv_relu(x, c5r, 1), c5, 5, 1, 2)
        return net.concat(a, b, c, net.conv_relu(net.pool(x, 3, 1, 1), projected, 1))

    x = net.pool(net.conv_relu(net.data, 64, 7, 2, 3), 3, 2)
    x = net.pool(net.conv_relu(net.conv_relu(x, 64, 1), 192, 3, 1, 1), 3, 2)
    x = inception(x, 64, 96, 128, 16, 32, 32)
    x = net.pool(inception(x, 128, 128, 192, 32, 96, 64), 3, 2)
    x = inception(x, 192, 96, 208, 16, 48, 64)
    x = inception(x, 160, 112, 224, 24, 64, 64)
    x = inception(x, 128, 128, 256, 24, 64, 64)
    x = inception(x, 112, 144, 288, 32, 64, 64)
    x = net.pool(inception(x, 256, 160, 320, 32, 128, 128), 3, 2)
    x = inception(x, 256, 160, 320, 32, 128, 128)
    x = net.pool(inception(x, 384, 192, 384, 48, 128, 128), 7)
    return net.softmax(net.fc(net.flatten(x), 1000))


def vgg(*repeats):
    def build(net):
        x = net.data
        for repeat, channels in zip(repeats, (64, 128, 256, 512, 512)):
            for _ in range(repeat):
                x = net.conv_relu(x, channels, 3, 1, 1)
            x = net.pool(x, 2, 2)
        return net.classifier(x)

    return build


def inception_bn(net):
    unit = net.conv_bn_relu

    def a(x, c1, c3r, c3, d3r, d3, projected):
        double = unit(unit(unit(x, d3r, 1), d3, 3, 1, 1), d3, 3, 1, 1)
        return net.concat(unit(x, c1, 1), unit(unit(x, c3r, 1), c3, 3, 1, 1), double, unit(net.pool(x, 3, 1, 1), projected, 1))

    def b(x, c3r, c3, d3r, d3):
        double = unit(unit(unit(x, d3r, 1), d3, 3, 1, 1), d3, 3, 2, 1)
        return net.concat(unit(unit(x, c3r, 1), c3, 3, 2, 1), double, net.pool(x, 3, 2))

    x = net.pool(unit(net.data, 64, 7, 2, 3), 3, 2)
    x = net.pool(unit(unit(x, 64, 1), 192, 3, 1, 1), 3, 2)
    x = b(a(a(x, 64, 64, 64, 64, 96, 32), 64, 64, 96, 64, 96, 64), 128, 160, 64, 96)
    x = a(a(x, 224, 64, 96, 96, 128, 128), 192, 96, 128, 96, 128, 128)
    x = a(a(x, 160, 128, 160, 128, 160, 128), 96, 128, 192, 160, 192, 128)
    x = b(x, 128, 192, 192, 256)
    x = a(a(x, 352, 192, 320, 160, 224, 128), 352, 192, 320, 192, 224, 128)
    return net.softmax(net.fc(net.flatten(net.pool(x, 7)), 1000))


def resnet(*repeats):
    def unit(net, x, channels, stride, same):
        inner = channels // 4
        y = net.conv_bn_relu(net.conv_bn_relu(x, inner, 1, stride), inner, 3, 1, 1)
        y = net.conv_bn(y, channels, 1)
        return net.relu(net.add(y, x if same else net.conv_bn(x, channels, 1, stride)))

    def build(net):
        # The one that rounds down, as of 1.9.1.
        x = net.pool(net.conv_bn_relu(net.identity(net.data), 64, 7, 2, 3), 3, 2, 1, full=False)
        for stage, (repeat, channels) in enumerate(zip(repeats, (256, 512, 1024, 2048))):
            for index in range(repeat):
                x = unit(net, x, channels, 2 if stage and not index else 1, bool(index))
        return net.softmax(net.fc(net.flatten(net.global_pool(x)), 1000))

    return build


NETS = {
    "AlexNet": alexnet,
    "GoogLeNet": googlenet,
    "VGG-11": vgg(1, 1, 2, 2, 2),
    "VGG-16": vgg(2, 2, 3, 3, 3),
    "Inception-BN": inception_bn,
    "ResNet-50": resnet(3, 4, 6, 3),
}


def post_order(heads, parents):
    """Depth-first, each once, what is needed before what needs it."""
    order, seen = [], set()
    for head in heads:
        stack = [(head, iter(parents(head)))]
        if id(head) in seen:
            continue
        seen.add(id(head))
        while stack:
            node, rest = stack[-1]
            for parent in rest:
                if id(parent) not in seen:
                    seen.add(id(parent))
                    stack.append((parent, iter(parents(parent))))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


@dataclass(eq=False)
class Gradient:
    """A node of the backward half, before it has a place in the program."""

    op: str
    reads: list  # value indices, or (Gradient, output)
    shapes: list[tuple[int, ...]]
    outside: list[str | None]  # the name of an output that is the caller's


class Builder:
    def __init__(self):
        self.buffers, self.values, self.nodes, self.inputs = [], [], [], []

    def value(self, kind, shape, name):
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        self.buffers.append(Buffer(kind, 4 * math.prod(shape), "cpu", name))
        self.values.append(Value(len(self.buffers) - 1, "float32", tuple(shape), tuple(strides), 0))
        if kind in ("argument", "parameter"):
            self.inputs.append(len(self.values) - 1)
        return len(self.values) - 1


def build(head, profile="native", train=True):
    """The graph of a net. Gradients of arguments are the caller's, the head is an output."""
    ops, b = PROFILES[profile], Builder()
    outs, parameters = {}, {}
    layers = post_order([head], lambda layer: layer.inputs)
    names = {id(layer): f"{layer.op}{i}" for i, layer in enumerate(layers)}
    for layer in layers:
        name = names[id(layer)]
        if layer.op == "data":
            outs[id(layer)] = [b.value("argument", layer.shape, "data")]
            continue
        given = [b.value("argument" if what == "label" else "parameter", shape, f"{name}_{what}") for what, shape in layer.parameters]
        parameters[id(layer)] = dict(zip((what for what, _ in layer.parameters), given))
        made = [b.value("output" if layer is head else "intermediate", shape, name) for shape in layer.shapes]
        outs[id(layer)] = made
        args = tuple(Ref(outs[id(x)][0]) for x in layer.inputs) + tuple(map(Ref, given))
        b.nodes.append(Node(layer.op, args, tuple(made)))
    if train:
        _backward(b, layers, ops, names, outs, parameters)
    return Graph(b.buffers, b.values, b.nodes, b.inputs, [outs[id(head)][0]], {}).validate()


def _backward(b, layers, ops, names, outs, parameters):
    contributions: dict[int, list] = {id(layer): [] for layer in layers}
    created: list[Gradient] = []
    for layer in reversed(layers):
        if layer.op == "data":
            continue
        op, got = ops[layer.op], contributions[id(layer)]
        if len(got) > 1:
            total = Gradient("sum", list(got), [layer.shape], [None])
            created.append(total)
            got = [(total, 0)]
        reads = []
        for what in op.reads:
            if what == "og":
                reads.append(got[0])
            elif what == "data":
                reads.append(outs[id(layer.inputs[0])][0])
            elif what.startswith("out"):
                reads.append(outs[id(layer)][int(what[3:])])
            else:
                reads += [parameters[id(layer)][what]] if what in parameters[id(layer)] else []
        name = names[id(layer)]
        learned = [(what, shape) for what, shape in layer.parameters if what != "label"]
        node = Gradient(
            f"{layer.op}_backward",
            reads,
            [x.shape for x in layer.inputs] + [shape for _, shape in learned],
            ["data_grad" if x.op == "data" else None for x in layer.inputs] + [f"{name}_{what}_grad" for what, _ in learned],
        )
        created.append(node)
        for index, x in enumerate(layer.inputs):
            if x.op != "data":
                contributions[id(x)].append((node, index))

    wanted = {id(read[0]) for node in created for read in node.reads if isinstance(read, tuple)}
    last = [node for node in created if id(node) not in wanted]
    made: dict[int, list[int]] = {}
    for node in post_order(last, lambda node: [read[0] for read in node.reads if isinstance(read, tuple)]):
        args = tuple(Ref(made[id(read[0])][read[1]] if isinstance(read, tuple) else read) for read in node.reads)
        made[id(node)] = [
            b.value("argument" if outside else "intermediate", shape, outside or node.op) for shape, outside in zip(node.shapes, node.outside)
        ]
        b.nodes.append(Node(node.op, args, tuple(made[id(node)])))


def net(name, profile="native", train=True, batch=BATCH):
    return build(NETS[name](Net(profile, batch)), profile, train)
