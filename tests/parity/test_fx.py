"""The same programs traced by PyTorch's `torch.fx` and by ours: code, nodes and results are the same, but for the library's name."""

from __future__ import annotations

import copy
import math
import operator
import re

import numpy as np
import pytest
import torch

import flambeau


def same_text(text):
    """Text of ours or PyTorch's, with one name for the library and for functions that PyTorch keeps in `torch._C._nn`."""
    text = text.replace("flambeau.", "torch.").replace("torch._C._nn.log_sigmoid", "torch._C._nn.logsigmoid").replace("torch._C._nn.", "torch.nn.functional.")
    for space in ("fft", "linalg", "special"):
        text = re.sub(rf"torch\._C\._{space}\.{space}_", f"torch.{space}.", text)
    return text.replace("torch.functional.", "torch.").replace("flambeau_", "torch_")


def described(lib, graph_module):
    nodes = [(n.op, n.name, same_text(n._pretty_print_target(n.target)), same_text(f"{n.args} {n.kwargs}")) for n in graph_module.graph.nodes]
    return same_text(graph_module.code), nodes, same_text(str(graph_module.graph))


def numbers(value):
    if isinstance(value, (tuple, list)):
        return [numbers(v) for v in value]
    if isinstance(value, dict):
        return {key: numbers(v) for key, v in value.items()}
    return value.detach().numpy().tolist() if hasattr(value, "detach") else value


def near(ours, theirs):
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(near(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(near(a, b) for a, b in zip(ours, theirs))
    return math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=1e-5) if isinstance(theirs, float) else ours == theirs


def wave(lib, *shape, k=0.7):
    return lib.sin(lib.arange(math.prod(shape)).float() * k).reshape(shape)


def filled(lib, module):
    with lib.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(wave(lib, *p.shape, k=0.7 + i))
    return module.eval()


# ---------------------------------------------------------------------- programs: lib -> (what is traced, arguments)


def arithmetic(lib):
    def f(x, y):
        z = -x + y * 2 - 3 / (y + 4)
        z = z @ x.t() if x.ndim is None else z
        z = (z**2 // 2) % 3
        return abs(z) + (x > y) * 1 + ~(x == y) * 2, 2**x, x & 1 if False else x[1:, None, ..., ::2]

    return f, (wave(lib, 3, 4), wave(lib, 3, 4, k=0.3))


def names(lib):
    def f(input, len, *args, lam=3, **kwargs):
        print_ = input + len
        a, b = print_.max(1)
        add = lib.add(a, lam)
        add_1 = add + add
        return {"a": add_1, "b": (b, [a, None]), "c": slice(1, 2), "d": float("inf"), "e": lib.float32}

    return f, None


def functions(lib):
    F = lib.nn.functional

    def f(x, w):
        y = F.linear(x, w)
        y = F.relu(F.dropout(y, 0.5, False))
        y = lib.cat([y, lib.tanh(x)], dim=1)
        y = F.layer_norm(y, (7,)) + F.gelu(y)
        y = F.softmax(y, -1) + F.log_softmax(y, dim=1)
        y = y + lib.einsum("ij,ij->ij", y, y)
        y = lib.where(y > 0, y, lib.zeros_like(y))
        return F.mse_loss(y, y * 2), F.cross_entropy(y, y.argmax(1)), lib.linalg.norm(y), lib.stack((y, y)), lib.special.expm1(y)

    return f, (wave(lib, 2, 4), wave(lib, 3, 4, k=0.2))


def pictures(lib):
    F = lib.nn.functional

    def f(x, w, b):
        y = F.conv2d(x, w, b, padding=1)
        y = F.max_pool2d(y, 2)
        y = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        y = F.pad(F.avg_pool2d(y, 2), (1, 1))
        y = F.adaptive_avg_pool2d(F.leaky_relu(y, 0.2), 1)
        return lib.flatten(y, 1), F.group_norm(x, 1), F.silu(x), F.normalize(x), F.unfold(x, 2)

    return f, (wave(lib, 1, 2, 8, 8), wave(lib, 3, 2, 3, 3), wave(lib, 3))


def constants(lib):
    w = wave(lib, 4)

    def f(x):
        return lib.cat([x, w]) + 0, x + w, w + x, w.add(x), w[x.long()]

    return f, (lib.tensor([0.0, 1.0, 2.0, 3.0]) if False else lib.arange(4).float(),)


def attributes(lib):
    def f(x):
        n, m = x.shape
        y = x.view(n, m).permute(1, 0).contiguous().to(lib.float64)
        y += 1
        return y.T.sum(dim=0, keepdim=True), x.size(0), x.numel()

    return f, (wave(lib, 2, 3),)


def nested(lib):
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.act = lib.nn.functional.relu

        def forward(self, x, scale=2):
            return self.act(self.fc(x)) * scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.seq = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            self.named = nn.ModuleDict({"a-b": nn.ReLU(), "k": nn.Linear(4, 4)})
            self.p = nn.Parameter(lib.ones(4))
            self.register_buffer("buf", lib.ones(4))
            self.t = lib.ones(4)

        def forward(self, x, flag: bool = True, *, mask=None):
            for block in self.blocks:
                x = block(x, scale=3) + x
            x = self.named["k"](self.named["a-b"](self.seq(x)))
            x = x + self.p + self.buf + self.t + self.blocks[0].fc.bias
            return x

    return filled(lib, Net()), (wave(lib, 2, 4),)


def leaves(lib):
    nn = lib.nn
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net(x)

    return filled(lib, Root()), (wave(lib, 1, 1, 8, 8),)


def typed(lib):
    def f(x: lib.Tensor, n: int = 2, s: str = "a", d: lib.dtype = lib.float32, items: list[int] = (1, 2)) -> tuple[lib.Tensor, int]:
        return x * n, n

    return f, (wave(lib, 2),)


PROGRAMS = [arithmetic, names, functions, pictures, constants, attributes, nested, leaves, typed]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_code_nodes_and_results(program):
    said = []
    for lib in (flambeau, torch):
        root, args = program(lib)
        traced = lib.fx.symbolic_trace(root)
        traced.graph.lint()
        results = None if args is None else numbers(traced(*args))
        assert args is None or near(numbers(lib.fx.Interpreter(traced).run(*args)), results)
        said.append((*described(lib, traced), results))
    (code, nodes, text, ours), (code_, nodes_, text_, theirs) = said
    assert code == code_
    assert nodes == nodes_
    assert text == text_
    assert near(ours, theirs)


@pytest.mark.parametrize("name", [pytest.param(n, id=n) for n in (
    "elu hardtanh hardsigmoid hardswish mish celu selu relu6 rrelu silu softmin logsigmoid alpha_dropout dropout2d feature_alpha_dropout "
    "instance_norm normalize softplus softshrink hardshrink one_hot pdist relu_ selu_").split()])  # fmt: skip
def test_functions_of_one_argument_are_recorded_alike(name):
    said = []
    for lib in (flambeau, torch):
        graph = lib.fx.Graph()
        x = lib.fx.Proxy(graph.placeholder("x"))
        graph.output(getattr(lib.nn.functional, name)(x).node)
        said.append(same_text(str(graph)).replace("torch.nn.functional.one_hot", "one_hot").replace("logsigmoid", "log_sigmoid"))
    assert said[0].replace("torch.nn.functional.", "torch.") == said[1].replace("torch.nn.functional.", "torch.")


@pytest.mark.parametrize("name", [pytest.param(n, id=n) for n in (
    "mse_loss smooth_l1_loss huber_loss kl_div nll_loss cross_entropy binary_cross_entropy binary_cross_entropy_with_logits "
    "poisson_nll_loss soft_margin_loss multilabel_margin_loss multi_margin_loss hinge_embedding_loss multilabel_soft_margin_loss "
    "cosine_similarity pairwise_distance embedding embedding_bag group_norm layer_norm rms_norm max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d "
    "adaptive_max_pool2d adaptive_avg_pool1d adaptive_avg_pool2d pad pixel_shuffle channel_shuffle grid_sample affine_grid unfold conv1d conv2d "
    "conv_transpose2d local_response_norm").split()])  # fmt: skip
def test_functions_of_two_arguments_are_recorded_alike(name):
    said = []
    for lib in (flambeau, torch):
        graph = lib.fx.Graph()
        tracer = lib.fx.proxy.GraphAppendingTracer(graph)
        x, y = (lib.fx.Proxy(graph.placeholder(n), tracer) for n in "xy")
        graph.output(getattr(lib.nn.functional, name)(x, y).node)
        said.append(same_text(str(graph)))
    assert said[0].replace("torch.nn.functional.", "torch.") == said[1].replace("torch.nn.functional.", "torch.")


NAMES = ("foo foo foo_1 foo_3 foo foo_01 1a a.b lambda self inf print torch device _x x_ % Tensor forward CamelCase a__b foo_1_2 foo_1_2 int "
         "math forward nan add long_name_10 long_name_10 HTTPServer getAttr a1B A_B").split()  # fmt: skip


def test_names_of_nodes():
    def given(lib):
        graph = lib.fx.Graph()
        x = graph.placeholder("x")
        return [graph.create_node("call_function", operator.neg, (x,), name=name).name for name in NAMES]

    assert given(flambeau) == given(torch)


def by_hand(lib):
    graph = lib.fx.Graph()
    a = graph.placeholder("a", lib.Tensor)
    b = graph.call_function(operator.iadd, (a, 1))
    graph.call_function(operator.getitem, (a, slice(None)))
    graph.call_function(getattr, (a, "x-y"))
    graph.call_function(getattr, (a, "x", None))
    graph.call_function(operator.setitem, (a, 0, b))
    graph.call_function(operator.not_, (a,))
    graph.call_function(math.sqrt, (4,))
    graph.call_function(len, (a,))
    graph.call_function(lib.Tensor.relu, (a,))
    graph.call_method("add_", (a, 1.5), {"alpha": 2})
    graph.output([a, b], type_expr=tuple)
    return graph


def test_code_of_a_graph_that_was_written_by_hand():
    ours, theirs = (same_text(by_hand(lib).python_code("self").src) for lib in (flambeau, torch))
    assert ours == theirs


def test_edits():
    def said(lib):
        graph = by_hand(lib)
        a, b, *_ = graph.nodes
        with graph.inserting_after(b):
            c = graph.call_function(operator.mul, (b, 2))
        b.replace_all_uses_with(c, lambda user: user is not c)
        c.append(graph.find_nodes(op="call_function", target=math.sqrt)[0])
        with graph.inserting_before(c):
            graph.call_method("first", (a,))
        c.update_arg(1, 3)
        c.insert_arg(0, a)
        c.update_kwarg("k", (a, [b]))
        lists = [str(list(graph.nodes)), str(list(reversed(graph.nodes))), str(len(graph.nodes)), str(sorted(map(str, a.users))), str(c.all_input_nodes)]
        new = lib.fx.Graph()
        result = new.graph_copy(graph, {})
        new.output(result)
        return lists, same_text(str(graph)), same_text(str(new)), same_text(str(copy.deepcopy(graph)))

    assert said(flambeau) == said(torch)


def test_dead_code():
    def f(lib):
        def program(x):
            x.add_(1)
            lib.rand_like(x)
            lib.add(x, 1)
            lib.nn.functional.dropout(x)
            lib._assert(x, "m")
            return x + 1

        return program

    said = []
    for lib in (flambeau, torch):
        traced = lib.fx.symbolic_trace(f(lib))
        said.append((traced.graph.eliminate_dead_code(), same_text(str(traced.graph))))
    assert said[0] == said[1]


def test_concrete_args():
    def f(x, b=1, flag=True, none=None):
        return x + b if flag and none is None else x

    said = []
    for lib in (flambeau, torch):
        traced = lib.fx.symbolic_trace(f, concrete_args={"b": 1, "flag": True, "none": None})
        with pytest.raises(AssertionError) as error:
            traced(lib.ones(1), 2)
        said.append((*described(lib, traced), str(error.value).splitlines()[0], traced(lib.ones(1)).tolist()))
    assert said[0] == said[1]


def test_replaced_patterns():
    said = []
    for lib in (flambeau, torch):
        traced = lib.fx.symbolic_trace(lambda a, b: lib.relu(a + b) + lib.relu(lib.relu(a + b) + b))
        matches = lib.fx.replace_pattern(traced, lambda x, y: lib.relu(x + y), lambda x, y: lib.sigmoid(x - y))
        traced.graph.lint()
        found = [(m.anchor.name, sorted((k.name, v.name) for k, v in m.nodes_map.items() if k.op != "placeholder")) for m in matches]
        said.append((found, traced(wave(lib, 3), wave(lib, 3, k=0.2)).tolist(), sorted(n.target.__name__ for n in traced.graph.nodes if callable(n.target))))
    assert said[0][0] == said[1][0] and said[0][2] == said[1][2]
    assert np.allclose(said[0][1], said[1][1], atol=1e-6)


def test_shapes_and_parts():
    said = []
    for lib in (flambeau, torch):
        net = filled(lib, nested(lib)[0])
        traced = lib.fx.symbolic_trace(net)
        x = wave(lib, 2, 4)
        if lib is torch:
            from torch.fx.passes.shape_prop import ShapeProp
            from torch.fx.passes.split_module import split_module
        else:
            from flambeau.fx.passes.shape_prop import ShapeProp
            from flambeau.fx.passes.split_module import split_module
        ShapeProp(traced).propagate(x)
        metas = [same_text(str(n.meta.get("tensor_meta"))) for n in traced.graph.nodes]
        parts = split_module(traced, net, lambda node: list(traced.graph.nodes).index(node) // 6)
        assert np.allclose(parts(x).detach().numpy(), net(x).detach().numpy(), atol=1e-6)
        said.append((metas, same_text(parts.code), [(name, same_text(child.code)) for name, child in parts.named_children() if hasattr(child, "code")]))
    assert said[0] == said[1]


@pytest.mark.parametrize("program", [lambda x: x if x.sum() > 0 else -x, lambda x: [y for y in x], lambda x: x in [1, 2], lambda x: 1 in x],
                         ids=["if", "for", "in", "contains"])  # fmt: skip
def test_decisions_are_refused_alike(program):
    for lib in (flambeau, torch):
        from flambeau.fx.proxy import TraceError

        with pytest.raises(TraceError if lib is flambeau else torch.fx.proxy.TraceError):
            lib.fx.symbolic_trace(program)
