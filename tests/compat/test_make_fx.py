"""Graphs of ATen's operators: `torch.fx.experimental.proxy_tensor.make_fx`."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx
aten = torch.ops.aten
def ops(g):
    return " ".join(str(n.target).removeprefix("aten.") for n in g.graph.nodes if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload))
def same(a, b):
    a, b = (torch.utils._pytree.tree_leaves(x) for x in (a, b))
    return len(a) == len(b) and all(torch.allclose(x, y, 1e-5, 1e-6) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b))
def agree(f, *args, other=None):
    g = make_fx(f)(*args)
    other = other or args
    torch.manual_seed(0)
    want = f(*other)
    torch.manual_seed(0)
    return g, same(g(*other), want)
x = torch.tensor([[-0.3, 1.5, 0.7, -2.0], [0.4, -0.6, 0.9, 1.1], [2.5, 0.2, -1.2, 0.8]])
torch.manual_seed(0)
"""


def run(code):
    return says(HEAD + "\n".join(line.removeprefix("        ") for line in code.splitlines()))


def test_the_graph_of_a_network_is_pytorch_s():
    """As PyTorch 2.13 has it, but for the `detach` that its autograd leaves."""
    lines = run("""
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        g, ok = agree(net, x, other=(x + 1,))
        print(ok, [name for name, _ in g.named_parameters()], g._param_constant0 is net[0].weight)
        for n in g.graph.nodes:
            print(n.op, n.name, n.target, n.args, n.kwargs)
        print(g.code.strip().splitlines()[2].strip())
        n = list(g.graph.nodes)[4]
        print(n.meta["val"].shape, n.meta["val"].device, n.meta["tensor_meta"].dtype)
        import copy
        print(same(copy.deepcopy(g)(x), g(x)))
        import pickle
        print(ops(pickle.loads(pickle.dumps(g))), ops(torch.fx.symbolic_trace(lambda x: aten.cat.default([x, x], 1))))
        g(x).sum().backward()
        print(net[0].weight.grad.shape)
    """)
    assert lines == [
        "True ['_param_constant0', '_param_constant1', '_param_constant2', '_param_constant3'] True",
        "placeholder arg0_1 arg0_1 () {}", "get_attr _param_constant0 _param_constant0 () {}", "call_function t aten.t.default (_param_constant0,) {}",
        "get_attr _param_constant1 _param_constant1 () {}", "call_function addmm aten.addmm.default (_param_constant1, arg0_1, t) {}",
        "call_function relu aten.relu.default (addmm,) {}", "get_attr _param_constant2 _param_constant2 () {}",
        "call_function t_1 aten.t.default (_param_constant2,) {}", "get_attr _param_constant3 _param_constant3 () {}",
        "call_function addmm_1 aten.addmm.default (_param_constant3, relu, t_1) {}", "output output output (addmm_1,) {}",
        "t = torch.ops.aten.t.default(_param_constant0);  _param_constant0 = None", "torch.Size([3, 8]) meta torch.float32", "True",
        "t.default addmm.default relu.default t.default addmm.default cat.default", "torch.Size([8, 4])",
    ]  # fmt: skip


def test_operators_of_networks():
    lines = run("""
        im = torch.rand(2, 3, 8, 8)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))
        before = net[1].running_mean.clone()
        g = make_fx(net)(im)
        print(ops(g), int(net[1].num_batches_tracked))
        g(im)
        print(int(net[1].num_batches_tracked), torch.equal(before, net[1].running_mean))
        net.eval()
        g, ok = agree(net, im, other=(im * 2,))
        print(ok, ops(g))
        block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        g, ok = agree(block, torch.rand(2, 5, 8), other=(torch.rand(2, 5, 8),))
        print(ok, ops(g).count("addmm.default"), [n.name for n in g.graph.nodes if n.name.startswith(("_scaled", "native"))])
    """)
    assert lines == [
        "convolution.default add_.Tensor native_batch_norm.default relu.default max_pool2d_with_indices.default view.default t.default addmm.default 1",
        "2 False",
        "True convolution.default native_batch_norm.default relu.default max_pool2d_with_indices.default view.default t.default addmm.default",
        "True 4 ['_scaled_dot_product_flash_attention_for_cpu', 'native_layer_norm', 'native_layer_norm_1']",
    ]


def test_writing_views_and_draws():
    lines = run("""
        def inplace(x):
            y = x * 2
            y.add_(1).relu_()
            y[0] = 3.0
            z = torch.zeros(4)
            z += 1
            return y + z
        def views(x):
            a = x.view(2, 6).t()[1:, None].expand(5, 3, 2)
            b, c = x.chunk(2, -1)
            return a.reshape(-1), b.permute(1, 0) + c.t(), x.flatten(), x[..., 1:3], x.transpose(0, 1).contiguous()
        def draws(x):
            return x + torch.randn(3, 4) + torch.rand_like(x) + F.dropout(x) + torch.randint(0, 5, (4,)) + torch.bernoulli(x.sigmoid())
        for f in (inplace, views, draws):
            g, ok = agree(f, x, other=(x + 1,))
            print(ok, ops(g))
        print(agree(lambda x: (torch.randn(4), F.dropout(x), x + torch.rand(4))[2], x)[1])
        print(list(make_fx(lambda x: x[None].squeeze(0))(x).graph.nodes)[-1].args)
        def empty(x):
            return x.sum(0), torch.cat([x, x]) * 2
        print(agree(empty, torch.zeros(0, 3))[1])
    """)
    assert lines[0] == (
        "True mul.Tensor add_.Tensor relu_.default select.int fill_.Scalar zeros.default add_.Tensor add.Tensor"
    )
    assert lines[1] == (
        "True view.default t.default slice.Tensor unsqueeze.default expand.default split.Tensor clone.default view.default permute.default t.default add.Tensor "
        "view.default slice.Tensor transpose.int clone.default"
    )
    assert lines[2].startswith("True randn.default add.Tensor rand_like.default add.Tensor")
    assert lines[3:] == ["True", "(x_1,)", "True"]


def test_arguments_and_results_in_containers():
    lines = run("""
        def f(d, l):
            return {"s": d["a"] + d["b"][0], "t": (l[0] * l[1], [d["a"].sum()])}
        args = {"a": x, "b": (x + 1,)}, [x * 2, 3.0]
        g = make_fx(f)(*args)
        print(same(g(*args), f(*args)), g(*args).keys())
        print(g.code.strip())
        import copy
        print(same(copy.deepcopy(g)(*args), f(*args)), same(torch.fx.Interpreter(g).run(*args), f(*args)))
        try:
            g({"a": x}, [x, 3.0])
        except ValueError as error:
            print(str(error).splitlines()[0])
        print(make_fx(lambda x: (x + 1, x))(x).code.strip().splitlines()[-1].strip())
    """)
    assert lines == [
        "True dict_keys(['s', 't'])", "def forward(self, d, l):", "    d_1, d_2, l_1, l_2, = fx_pytree.tree_flatten_spec([d, l], self._in_spec)",
        "    add = torch.ops.aten.add.Tensor(d_1, d_2);  d_2 = None", "    mul = torch.ops.aten.mul.Tensor(l_1, 3.0);  l_1 = None",
        "    sum_1 = torch.ops.aten.sum.default(d_1);  d_1 = None", "    return pytree.tree_unflatten([add, mul, sum_1], self._out_spec)", "True True",
        "tree_flatten_spec: the arguments are built as", "return (add, x_1)",
    ]  # fmt: skip


def test_gradients_inside():
    lines = run("""
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        def by_input(x):
            y = x.detach().requires_grad_()
            return torch.autograd.grad((net(y) ** 2).sum(), y)[0]
        def step(x, t):
            return torch.autograd.grad(F.cross_entropy(net(x), t), list(net.parameters()))
        g, ok = agree(by_input, x, other=(x + 1,))
        print(ok, ops(g))
        print(agree(step, x, torch.tensor([0, 1, 1]), other=(x * 2, torch.tensor([1, 1, 0])))[1])
        print(agree(torch.func.grad(lambda x: (x.sin() * x).sum()), x, other=(x + 1,))[1], agree(torch.func.vmap(lambda r: r.sum() * r), x)[1])
        conv = nn.Sequential(nn.Conv1d(3, 2, 2), nn.GroupNorm(1, 2), nn.GELU(), nn.GELU("tanh"), nn.Softmax(-1))
        print(agree(lambda x: torch.autograd.grad(conv(x[None]).pow(2).sum(), list(conv.parameters()), allow_unused=True), x, other=(x + 1,))[1])
    """)
    assert lines == [
        "True t.default addmm.default relu.default t.default addmm.default pow.Tensor_Scalar sum.default ones_like.default expand.default mul.Tensor mul.Tensor "
        "mm.default threshold_backward.default mm.default",
        "True", "True True", "True",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        "F.cross_entropy(x, torch.tensor([1, 0, 3]))", "F.rms_norm(x, (4,), x[0])", "F.group_norm(x, 2)", "x.softmax(1) + x.log_softmax(0)", "F.pixel_shuffle(x.view(1, 4, 3, 1), 2)",
        "F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)", "F.grid_sample(x[None, None], x[None, :2, None, :2].tanh(), align_corners=False)",
        "nn.LSTM(4, 3, batch_first=True)(x[None])[0] * 0 + x[0, 0]", "F.affine_grid(x[None, :2, :3], (1, 1, 2, 2), align_corners=False)", "2 - x", "F.bilinear(x, x, x[None].new_ones(2, 4, 4))",
        "torch.tensor([1.0, 2.0, 3.0, 4.0]).mul_(2) * x", "x.topk(2)[1]", "x[x > 0]", "F.gumbel_softmax(x)", "F.gelu(x, approximate='tanh')",
    ],
)  # fmt: skip
def test_graphs_compute_what_functions_do(expression):
    assert run(f"print(agree(lambda x: {expression}, x, other=(x + 0.5,))[1])") == ["True"]


def test_tensors_from_outside_and_a_function_s_own():
    lines = run("""
        count = torch.zeros(())
        def f(x):
            count.add_(1)
            own = torch.tensor([1.0, 2.0])
            own.mul_(3)
            return x * count + own
        g = make_fx(f)(torch.ones(2))
        print(count.item(), ops(g))
        print(g(torch.ones(2)).tolist(), g(torch.ones(2)).tolist(), count.item(), f(torch.ones(2)).tolist())
        y = torch.zeros(2)
        make_fx(lambda y: y.add_(1))(y)
        print(y.tolist())
    """)
    assert lines == [
        "1.0 add_.Tensor lift_fresh_copy.default mul_.Tensor mul.Tensor add.Tensor", "[5.0, 8.0] [6.0, 9.0] 3.0 [7.0, 10.0]", "[1.0, 1.0]"
    ]


def test_custom_ops_are_one_node():
    lines = run("""
        @torch.library.custom_op("my::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.detach().numpy() * 2)
        twice.register_autograd(lambda ctx, grad: grad * 2)
        @torch.library.custom_op("my::grow", mutates_args={"x"})
        def grow(x: torch.Tensor) -> None:
            x.add_(1)
        def f(x):
            y = x * 1
            grow(y)
            return twice(y) + 1
        g, ok = agree(f, x, other=(x * 3,))
        print(ok, g.code.strip().splitlines()[2].strip(), g.code.strip().splitlines()[3].strip())
        print(agree(torch.func.grad(lambda x: twice(x).pow(2).sum()), x, other=(x + 1,))[1])
    """)
    assert lines == [
        "True grow = torch.ops.my.grow(mul);  grow = None twice = torch.ops.my.twice(mul);  mul = None", "True",
    ]  # fmt: skip


def test_other_operators_in_the_place_of_some():
    lines = run("""
        table = {aten.relu.default: lambda x: torch.clamp(x, min=0), aten.addmm.default: lambda b, x, w: x @ w + b, aten.exp.default: lambda x: NotImplemented}
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        g = make_fx(net, decomposition_table=table)(x)
        print(ops(g), same(g(x + 1), net(x + 1)))
        print(ops(make_fx(lambda x: x.exp(), table)(x)))
        print(ops(make_fx(lambda x: x.neg().relu_(), {aten.neg.default: lambda x: x})(x)), x.min().item() < 0)
    """)
    assert lines == ["t.default mm.default add.Tensor clamp_min.default True", "exp.default", "clone.default relu_.default True"]


def test_values_are_refused_and_nothing_stays():
    text = run("""
        for f in (lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: x.tolist(), lambda x: x.numpy(), lambda x: torch.equal(x, x),
                  lambda x: x.unique()):
            try:
                make_fx(f)(x)
            except (RuntimeError, NotImplementedError) as error:
                print(type(error).__name__, str(error).split(":")[0])
        for how in (dict(tracing_mode="symbolic"), dict(tracing_mode="other"), dict(pre_dispatch=True)):
            try:
                make_fx(lambda x: x, **how)
            except (ValueError, NotImplementedError) as error:
                print(type(error).__name__, str(error).split(",")[0])
        from torch.fx.experimental.proxy_tensor import get_proxy_mode
        seen = []
        make_fx(lambda x: seen.append(get_proxy_mode() is not None) or torch.tensor(3.0).item() * x)(x)
        print(seen, get_proxy_mode(), x.sum().item() > 0)
    """)
    assert text == [
        "RuntimeError aten._local_scalar_dense.default", "RuntimeError aten._local_scalar_dense.default", "RuntimeError Tensor.tolist", "RuntimeError Tensor.numpy",
        "RuntimeError aten._local_scalar_dense.default", "NotImplementedError torch.unique", "NotImplementedError make_fx: tracing_mode = 'symbolic'", "ValueError make_fx: tracing_mode = 'other'; expected 'real' or 'fake'",
        "NotImplementedError make_fx: pre_dispatch = True", "[True] None True",
    ]  # fmt: skip


def test_overloads_tell_numbers_from_tensors():
    assert run("""
        i, j, y = torch.tensor([0]), torch.tensor([[0]]), x.abs() + 1
        for f in (lambda x: x % 2, lambda x: x % x, lambda x: 5 % x, lambda x: x // 2, lambda x: torch.fmod(x, 2), lambda x: x.long() & 1, lambda x: x.long() << 1,
                  lambda x: torch.lerp(x, 2 * x, 0.5), lambda x: torch.lerp(x, 2 * x, x), lambda x: x.index_fill(0, i, 2.0), lambda x: x.scatter(1, j, 1.0),
                  lambda x: x.scatter(1, j, x), lambda x: torch.linalg.vector_norm(x, 1, dim=1)):
            g, ok = agree(f, y, other=(y + 1,))
            print(ok, ops(g))
    """) == [
        "True remainder.Scalar", "True remainder.Tensor", "True remainder.Scalar_Tensor", "True floor_divide.default", "True fmod.Scalar",
        "True _to_copy.default bitwise_and.Scalar", "True _to_copy.default bitwise_left_shift.Tensor_Scalar", "True mul.Tensor lerp.Scalar",
        "True mul.Tensor lerp.Tensor", "True index_fill.int_Scalar", "True scatter.value", "True scatter.src", "True linalg_vector_norm.default",
    ]  # fmt: skip
