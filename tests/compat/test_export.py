"""Programs of modules: `torch.export.export`."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.export import export, Dim, ExportedProgram
def ops(graph):
    return " ".join(str(n.target).removeprefix("aten.") for n in graph.nodes if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload))
def same(a, b):
    a, b = (torch.utils._pytree.tree_leaves(x) for x in (a, b))
    return len(a) == len(b) and all(torch.allclose(x, y, 1e-5, 1e-6) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b))
def says_error(call, *kinds):
    try:
        print(call())
    except kinds or Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
torch.manual_seed(0)
x = torch.rand(3, 4)
"""


def run(code):
    return says(HEAD + "\n".join(line.removeprefix("        ") for line in code.splitlines()))


def test_a_program_and_its_module():
    lines = run("""
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2)).eval()
        state = torch.get_rng_state()
        ep = export(net, (x,))
        print(isinstance(ep, ExportedProgram), torch.equal(state, torch.get_rng_state()), ops(ep.graph))
        sig = ep.graph_signature
        print(sig.parameters, sig.buffers, sig.user_inputs, sig.user_outputs, sig.inputs_to_parameters["p_3_bias"], [n.name for n in ep.graph.nodes][:5])
        print([name for name, _ in ep.named_parameters()], next(ep.parameters()) is net[0].weight, list(ep.state_dict), ep.example_inputs[0][0] is x)
        m = ep.module()
        print(same(m(x + 1), net(x + 1)), [name for name, _ in m.named_parameters()], next(m.parameters()) is net[0].weight, list(m.state_dict()))
        before = net[0].weight.detach().clone()
        optimizer = torch.optim.SGD(m.parameters(), 0.1)
        m(x).sum().backward()
        optimizer.step()
        print(torch.equal(before, net[0].weight), same(m(x), net(x)))
        for call in (lambda: m(torch.rand(5, 4)), lambda: m(torch.rand(12)), lambda: m(3), lambda: m.eval(), lambda: m.train(), lambda: ep(x)):
            says_error(call)
        print(m.code.strip())
        import copy
        print(same(copy.deepcopy(m)(x), m(x)), ep.module(check_guards=False)(torch.rand(5, 4)).shape)
    """)
    assert lines == [
        "True True t.default addmm.default relu.default t.default addmm.default",
        "('0.weight', '0.bias', '3.weight', '3.bias') () ('input',) ('addmm_1',) 3.bias ['p_0_weight', 'p_0_bias', 'p_3_weight', 'p_3_bias', 'input']",
        "['0.weight', '0.bias', '3.weight', '3.bias'] True ['0.weight', '0.bias', '3.weight', '3.bias'] True",
        "True ['0.weight', '0.bias', '3.weight', '3.bias'] True ['0.weight', '0.bias', '3.weight', '3.bias']",
        "False True",
        "AssertionError Guard failed: input.size()[0] == 3 (got 5; name the axis in dynamic_shapes where it may vary)",
        "AssertionError Guard failed: input.dim() == 2 (got 1; the program was exported so)",
        "AttributeError input is a int, which has no attribute 'size'; expected a tensor",
        "NotImplementedError Calling eval() is not supported: the graph is that of the mode the module was exported in; export it again",
        "NotImplementedError Calling train() is not supported: the graph is that of the mode the module was exported in; export it again",
        "RuntimeError ExportedProgram: it can not be called, since its graph gets parameters as arguments; call exported_program.module()",
        "def forward(self, input):", "    input, = fx_pytree.tree_flatten_spec(([input], {}), self._in_spec)", '    _0_weight = getattr(self, "0").weight',
        '    _0_bias = getattr(self, "0").bias', '    _3_weight = getattr(self, "3").weight', '    _3_bias = getattr(self, "3").bias', "    input_1 = input",
        "    _guards_fn = self._guards_fn(input_1);  _guards_fn = None", "    t = torch.ops.aten.t.default(_0_weight);  _0_weight = None",
        "    addmm = torch.ops.aten.addmm.default(_0_bias, input_1, t);  _0_bias = input_1 = t = None", "    relu = torch.ops.aten.relu.default(addmm);  addmm = None",
        "    t_1 = torch.ops.aten.t.default(_3_weight);  _3_weight = None",
        "    addmm_1 = torch.ops.aten.addmm.default(_3_bias, relu, t_1);  _3_bias = relu = t_1 = None",
        "    return pytree.tree_unflatten((addmm_1,), self._out_spec)", "True torch.Size([5, 2])",
    ]  # fmt: skip


def test_batch_norm_writes_to_its_buffers():
    lines = run("""
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        im = torch.rand(2, 3, 5, 5)
        ep = export(net, (im,))
        print(int(net[1].num_batches_tracked), net[1].running_mean.tolist(), ep.graph_signature.buffers, ep.graph_signature.buffers_to_mutate)
        m = ep.module()
        m(im)
        print(int(net[1].num_batches_tracked), int(m.state_dict()["1.num_batches_tracked"]), ep.state_dict["1.running_mean"] is net[1].running_mean)
        import copy
        other = copy.deepcopy(net)
        functional = ep.run_decompositions()
        print(functional.graph_signature.buffers_to_mutate, functional.graph_signature.user_outputs, len(functional.graph.output_node().args[0]))
        f = functional.module()
        print(same(f(im * 2), other(im * 2)), all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values())))
        given = [p for p in ep.parameters()] + [b for b in functional.buffers()] + [im]
        news = functional.graph_module(*given)
        print(len(news), int(news[2]), int(net[1].num_batches_tracked))
        net.eval()
        ep = export(net, (im,))
        print(ops(ep.graph), ep.run_decompositions().graph_signature.buffers_to_mutate)
    """)
    assert lines == [
        "0 [0.0, 0.0, 0.0, 0.0] ('1.running_mean', '1.running_var', '1.num_batches_tracked') {}",
        "1 1 True",
        "{'clone': '1.running_mean', 'clone_1': '1.running_var', 'clone_2': '1.num_batches_tracked'} ('getitem',) 4",
        "True True",
        "4 3 2",
        "convolution.default native_batch_norm.default {}",
    ]


def test_buffers_constants_and_arguments_in_containers():
    lines = run("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(2))
                self.register_buffer("scale", torch.ones(2), persistent=False)
                self.table = torch.tensor([1.0, 2.0])
            def forward(self, d, l, *, k=2):
                self.count = self.count + 1
                own = torch.tensor([1.0, 1.0])
                own.mul_(2)
                return {"s": d["a"] * self.scale + self.table + own + torch.tensor([3.0, 4.0]), "t": [l[0] * l[1], k, None, self.count]}
        net = Net()
        args, kwargs = ({"a": torch.ones(2)}, (torch.ones(2), 2.5)), {"k": 2}
        ep = export(net, args, kwargs)
        print(str(ep.graph_signature).strip())
        print(net.count.tolist(), sorted(ep.constants), list(ep.state_dict))
        m = ep.module()
        print(m(*args, **kwargs), net.count.tolist(), list(m.state_dict()))
        print(same(m(*args, **kwargs), {"s": torch.tensor([7.0, 9.0]), "t": [torch.ones(2) * 2.5, 2, None, torch.tensor([2.0, 2.0])]}))
        f = ep.run_decompositions().module()
        print(f(*args, **kwargs)["t"][3].tolist(), net.count.tolist())
        says_error(lambda: m({"a": torch.ones(2)}, (torch.ones(2), 3.5), k=2))
        says_error(lambda: m({"b": torch.ones(2)}, (torch.ones(2), 2.5), k=2))
        class Writes(nn.Module):
            def forward(self, x):
                return x.add_(1) * 2
        y = torch.ones(2)
        ep = export(Writes(), (y,))
        print(y.tolist(), ep.run_decompositions().graph_signature.user_inputs_to_mutate, ep.run_decompositions().module()(y).tolist(), y.tolist())
    """)
    assert lines == [
        "# inputs", "b_count: BUFFER target='count' persistent=True", "b_scale: BUFFER target='scale' persistent=False",
        "c_lifted_tensor_0: CONSTANT_TENSOR target='lifted_tensor_0'", "c_table: CONSTANT_TENSOR target='table'",
        "c_lifted_tensor_1: CONSTANT_TENSOR target='lifted_tensor_1'", "d_a: USER_INPUT", "l_0: USER_INPUT", "l_1: USER_INPUT", "k: USER_INPUT", "",
        "# outputs", "add_3: USER_OUTPUT", "mul_1: USER_OUTPUT", ": USER_OUTPUT", ": USER_OUTPUT", "add: USER_OUTPUT",
        "[0.0, 0.0] ['lifted_tensor_0', 'lifted_tensor_1', 'scale', 'table'] ['count']",
        "{'s': tensor([7., 9.]), 't': [tensor([2.5000, 2.5000]), 2, None, tensor([1., 1.])]} [1.0, 1.0] ['count']", "True", "[3.0, 3.0] [3.0, 3.0]",
        "AssertionError Guard failed: l[1] == 2.5 (got 3.5; numbers are in the graph)", "ValueError tree_flatten_spec: the arguments are built as",
        "[1.0, 1.0] {'clone': 'x'} [4.0, 4.0] [2.0, 2.0]",
    ]  # fmt: skip


def test_sizes_that_vary():
    lines = run("""
        B, T = Dim("B", min=2, max=64), Dim("T", max=99)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)).eval()
        ep = export(net, (torch.rand(2, 3, 8, 8),), dynamic_shapes=({0: B},))
        im = torch.rand(5, 3, 8, 8)
        print(same(ep.module()(im), net(im)), ep.range_constraints, [n.args for n in ep.graph.nodes if n.name == "view"])
        says_error(lambda: ep.module()(torch.rand(65, 3, 8, 8)))
        says_error(lambda: ep.module()(torch.rand(2, 3, 9, 8)))
        block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        ep = export(block, (torch.rand(2, 5, 8),), dynamic_shapes={"src": {0: B, 1: T}})
        print([same(ep.module()(y), block(y)) for y in (torch.rand(3, 7, 8), torch.rand(2, 5, 8), torch.rand(4, 1, 8))], "mul" in ep.graph_module.code)
        print(same(ep.run_decompositions().module()(torch.ones(3, 7, 8)), block(torch.ones(3, 7, 8))))
        class Two(nn.Module):
            def forward(self, x, y):
                return torch.arange(x.shape[0] * 2 + 1).sum() + (x + y).view(-1).sum()
        ep = export(Two(), (x, x), dynamic_shapes=[(B, None), {0: B}])
        print(same(ep.module()(torch.ones(7, 4), torch.ones(7, 4)), Two()(torch.ones(7, 4), torch.ones(7, 4))))
        says_error(lambda: ep.module()(torch.ones(7, 4), torch.ones(1, 4)))
    """)
    assert lines == [
        "True {'B': VR[2, 64]} [(getitem_3, [sym_size_int, 36])]",
        "AssertionError Guard failed: input.size()[0] <= 64 (got 65; B was exported so)",
        "AssertionError Guard failed: input.size()[2] == 8 (got 9; name the axis in dynamic_shapes where it may vary)",
        "[True, True, True] True",
        "True",
        "True",
        "AssertionError Guard failed: y.size()[0] == x.size()[0] (got 1 and 7; both are B)",
    ]


def test_what_does_not_follow_from_sizes_is_refused():
    lines = run("""
        B = Dim("B")
        class Mean(nn.Module):
            def forward(self, x):
                return x * (1.0 / x.shape[0])
        class Loop(nn.Module):
            def forward(self, x):
                for _ in range(x.shape[0]):
                    x = x + 1
                return x
        for net in (Mean(), Loop()):
            says_error(lambda: export(net, (x,), dynamic_shapes=({0: B},)))
            print(export(net, (x,), dynamic_shapes=({0: Dim.AUTO},)).range_constraints)
        print(export(nn.Linear(4, 2), (x,), dynamic_shapes={"input": {0: Dim.DYNAMIC, 1: Dim.STATIC}}).range_constraints)
        for shapes in ({"other": {0: B}}, ({2: B},), ({0: "batch"},), ({0: 7},), ({0: Dim("C", max=2)},), ()):
            says_error(lambda: export(nn.Linear(4, 2), (x,), dynamic_shapes=shapes), ValueError)
        says_error(lambda: Dim("a b"))
        says_error(lambda: Dim("a", min=3, max=3))
        print(B, torch.export.dims("a", "b", min=1), Dim.AUTO)
    """)
    assert lines[0].startswith("ValueError export: aten.mul.Tensor gets 0.333") and "leave them out of dynamic_shapes" in lines[0]
    assert lines[1:5] == ["{}", "ValueError export: the program does otherwise for other sizes of B; leave them out of dynamic_shapes", "{}", "{'s0': VR[2, int_oo]}"]
    assert [line.partition(": ")[0] for line in lines[5:11]] == ["ValueError export"] * 6
    assert lines[11:] == [
        "ValueError Dim: name = 'a b'; expected an identifier", "ValueError Dim: min = 3, max = 3; expected min < max",
        "Dim('B', min=0) (Dim('a', min=1), Dim('b', min=1)) DimHint(AUTO)",
    ]  # fmt: skip


def test_wrong_calls_leave_the_module_as_it_was():
    lines = run("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(()))
            def forward(self, x):
                self.count.add_(1)
                return x if x.sum() > 0 else -x
        net = Net()
        says_error(lambda: export(net, (x,)), RuntimeError)
        print(net.count.item(), torch.utils._python_dispatch._get_current_dispatch_mode())
        says_error(lambda: export(lambda x: x, (x,)))
        says_error(lambda: export(net, x))
        says_error(lambda: export(net, (x,), preserve_module_call_signature=("a",)), NotImplementedError)
        says_error(lambda: torch.export.save(None, "p.pt2"), NotImplementedError)
        says_error(lambda: torch.export.load("p.pt2"), NotImplementedError)
    """)
    assert lines[0].startswith("RuntimeError aten._local_scalar_dense.default: the value of a tensor is asked for")
    assert lines[1] == "0.0 None"
    assert lines[2].startswith("ValueError export: mod is a function") and lines[3].startswith("TypeError export: args is a Tensor")
    assert [line.split(":")[0] for line in lines[4:]] == ["NotImplementedError export", "NotImplementedError export.save", "NotImplementedError export.load"]


def test_programs_are_printed_and_take_other_operators():
    lines = run("""
        net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
        ep = export(net, (x,))
        print(ep)
        aten = torch.ops.aten
        other = ep.run_decompositions({aten.relu.default: lambda x: x.clamp(min=0)})
        print(ops(other.graph), same(other.module()(x), net(x)))
    """)
    assert lines == [
        "ExportedProgram:", "    class GraphModule(torch.nn.Module):",
        '        def forward(self, p_0_weight: "f32[2, 4]", p_0_bias: "f32[2]", input: "f32[3, 4]"):', "            input_1 = input",
        '            t: "f32[4, 2]" = torch.ops.aten.t.default(p_0_weight);  p_0_weight = None',
        '            addmm: "f32[3, 2]" = torch.ops.aten.addmm.default(p_0_bias, input_1, t);  p_0_bias = input_1 = t = None',
        '            relu: "f32[3, 2]" = torch.ops.aten.relu.default(addmm);  addmm = None', "            return (relu,)", "    ", "Graph signature: ",
        "    # inputs", "    p_0_weight: PARAMETER target='0.weight'", "    p_0_bias: PARAMETER target='0.bias'", "    input: USER_INPUT", "    ",
        "    # outputs", "    relu: USER_OUTPUT", "    ", "Range constraints: {}", "", "t.default addmm.default clamp_min.default True",
    ]  # fmt: skip


def test_arguments_that_have_to_be_named():
    assert run("""
        class Net(nn.Module):
            def forward(self, x, *, scale, shift=None):
                return x["a"] * scale
        ep = export(Net(), ({"a": torch.ones(2)},), {"scale": torch.full((2,), 3.0)})
        print(ep.graph_signature.user_inputs, ep.module()({"a": torch.ones(2)}, scale=torch.full((2,), 2.0)).tolist())
        says_error(lambda: export(Net(), ({"a": torch.ones(2)},)), TypeError)
    """) == ["('x_a', 'scale') [2.0, 2.0]", "TypeError Net.forward() missing 1 required keyword-only argument: 'scale'"]
