"""Statements of many kinds that both libraries are asked one after the other: a table of text by area.

A statement's lines but the last are run, and the last one's value is compared (`programs.same`): types, shapes and values of tensors,
texts of others, classes of what is raised. `err(call, ...)` is the classes of what a call raises, PyTorch's among ours.
"""

from __future__ import annotations

import ast
import collections
import copy
import importlib
import pickle
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, data, filled, same  # noqa: E402

import flambeau as fl  # noqa: E402


def err(call, *args, **kwargs):
    try:
        return ("no error", call(*args, **kwargs))
    except Exception as error:
        return Refused(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins" and kind not in (object, BaseException))


MODULES = r"""
q = D(2, 5, 4, 8).transpose(1, 2); F.scaled_dot_product_attention(q, q, q).transpose(1, 2).view(2, -1, 32)

q = D(2, 5, 3, 4, 8)[:, :, 0].transpose(1, 2); F.scaled_dot_product_attention(q, q, q).stride()

q = D(2, 4, 8, 5).transpose(2, 3); [F.scaled_dot_product_attention(q, q, q).stride(), F.scaled_dot_product_attention(q[0], q[0], q[0]).stride()]

q = D(2, 5, 4, 8).transpose(1, 2); v = D(2, 5, 4, 6).transpose(1, 2); F.scaled_dot_product_attention(q, q, v).stride()

q = D(1, 4, 5, 8).expand(3, 4, 5, 8); F.scaled_dot_product_attention(q, q, q, is_causal=True).stride()

q = D(2, 5, 4, 8).transpose(1, 2).bfloat16(); F.scaled_dot_product_attention(q, q, q, torch.zeros(5, 5, dtype=q.dtype)).stride()

m = nn.Identity(); m.register_forward_pre_hook(lambda m, a, k: 5, with_kwargs=True); err(m, T([1.0]))

m = nn.Linear(2, 2); m.register_full_backward_hook(lambda *a: None); err(m.register_backward_hook, lambda *a: None)

m = nn.Linear(2, 2); m.register_backward_hook(lambda *a: None); err(m.register_full_backward_hook, lambda *a: None)

m = nn.Linear(2, 2); a = m._is_full_backward_hook; m.register_full_backward_hook(lambda *a: None); [a, m._is_full_backward_hook]

m = nn.Linear(2, 2); m.register_state_dict_post_hook(lambda m, d, prefix, meta: {}); err(m.state_dict)

m = nn.Linear(2, 2); m._register_state_dict_hook(lambda m, d, prefix, meta: {"x": 1}); m.state_dict()

m = nn.Linear(2, 2); f = lambda m, d, prefix, meta: None; m.register_state_dict_post_hook(f); err(m._register_state_dict_hook, f)

m = nn.Linear(1, 1); m.register_load_state_dict_post_hook(lambda m, keys: 5); err(m.load_state_dict, m.state_dict())

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
    def forward(self, x):
        return {"a": self.layer(x)}
m = M(); seen = []; m.register_full_backward_hook(lambda m, dx, dy: seen.append(dy)); x = D(1, 2, requires_grad=True)
[warned(lambda: m(x)["a"].sum().backward()), seen]

m = nn.Sequential(nn.Linear(1, 1)); [err(m.set_submodule, "0.weight", nn.ReLU()), err(m.set_submodule, "0", 5), m.set_submodule("0.a", nn.ReLU()), m]

m = nn.Linear(1, 1); [err(m.requires_grad_, "a"), m.requires_grad_(False) is m, m.weight.requires_grad]

s = nn.Sequential(nn.ReLU()); t = s; s *= 3; [s is t, len(s), list(s._modules), err(lambda: s * 0), err(lambda: s * 1.5), err(lambda: s * -1)]

d = nn.ParameterDict(); [err(d.popitem), err(lambda: d["a"]), err(d.__setitem__, "", ones(1)), err(d.__setitem__, 1, ones(1)), err(d.update, 5)]

class Number(nn.Module):
    def forward(self, x):
        return 5
m = nn.Linear(3, 2); [err(PZ.register_parametrization, m, "weight", Number()), list(m.state_dict())]

err(prune.BasePruningMethod)

err(U.skip_init, nn.ReLU)

[str(nn.Hardsigmoid(True)), str(nn.TripletMarginWithDistanceLoss()), err(nn.Hardtanh, 1, 0), err(nn.TransformerEncoderLayer, 4, 2, activation="zz")]

e = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2); [e.enable_nested_tensor, e.mask_check]

a = fill(nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])); r = a(D(5, 4), T([0, 3, 5, 9, 1])); [type(r).__name__, err(a, D(2, 4), T([0, 10]))]

[warned(lambda: U.clip_grad_norm_((p for p in []), 1.0)), warned(lambda: U.clip_grad_norm_([], 1.0))]

[err(rnn.pad_sequence, []), err(rnn.pad_sequence, [D(2, 3), D(4, 2)]), err(rnn.pad_sequence, [D(2)], padding_side="x")]

[err(F.interpolate, D(2, 2), scale_factor=2), err(F.interpolate, D(1, 2, 2), scale_factor=2, mode="bilinear"), err(nn.Upsample(mode="zz", size=2), D(1, 1, 2))]

F.dropout3d(D(2, 2, 2), 0.0), F.dropout3d(D(2, 2, 2), 0.5, False)

m = nn.LazyLinear(3).to("cpu"); [m.weight.device, m(ones(2, 4)).shape, m]

m = nn.LazyLinear(3); [m.double() is m, m.weight.dtype, m.to("cpu").weight.dtype, m(ones(2, 4).double()).dtype]

net = [nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)]
m = nn.Sequential(*net).to("cpu", torch.float64); [m(D(1, 2, 5, 5).double()).dtype, m, m[1].running_mean.dtype, m[1].num_batches_tracked.dtype]

p = nn.UninitializedParameter(); [p.dtype, p.device, err(lambda: p.shape), err(lambda: p + 1), err(p.view, 1), err(p.share_memory_), p.is_leaf]

m = nn.LazyLinear(3); c = pickle.loads(pickle.dumps(m)); [type(c).__name__, c(ones(1, 2)).shape]

m = nn.LazyLinear(3, device="meta"); [m.weight.device, m(ones(1, 2, device="meta")).shape]

m = nn.LazyLinear(3); o = optim.SGD(m.parameters(), lr=0.1); m(ones(1, 2)).sum().backward(); o.step(); [m.weight.grad, o.param_groups[0]["params"][0] is m.weight]

m = nn.Module(); m.a = nn.Linear(1, 1); m.b = m.a; [[n for n, _ in m.named_parameters(remove_duplicate=r)] for r in (True, False)] + [list(m.state_dict())]

m = nn.Linear(2, 2); w = m.weight; m.load_state_dict({k: v * 0 for k, v in m.state_dict().items()}, assign=True); [m.weight is w, type(m.weight).__name__, m.weight]

m = nn.Linear(2, 2); [err(m.load_state_dict, d) for d in ({}, {"weight": ones(3, 2), "bias": ones(2)}, {"weight": 5, "bias": ones(2)}, 5, [1])]
"""

SINGLE_SAMPLES = r"""
m = fill(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))); y = PS(m)(D(5, 4)); (y**2).sum().backward()
[y, [p.grad_sample for p in m.parameters()], [p.grad for p in m.parameters()], err(PS, m)]

m = fill(nn.Linear(4, 3)); PS(m, loss_reduction="mean")(D(5, 4)).mean().backward(); [m.weight.grad_sample, m.bias.grad_sample]

[err(PS, 5), err(PS, nn.ReLU(), loss_reduction="max"), err(PS, nn.ReLU(), batch_size=0), err(PS(nn.Bilinear(2, 2, 1)), D(3, 2), D(4, 2)), err(PS(nn.ReLU()), 5)]

m = fill(nn.Sequential(nn.Conv2d(2, 3, 2), nn.GroupNorm(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))); x = D(3, 2, 3, 3, requires_grad=True)
PS(m)(x).sum().backward(); [[p.grad_sample for p in m.parameters()], x.grad]

m = fill(nn.Embedding(5, 3)); PS(m)(T([[1, 2], [3, 3]])).sum().backward(); m.weight.grad_sample
"""

OPTIMIZERS = r"""
m = nn.Linear(2, 1); o = optim.SGD(m.named_parameters(), lr=0.1); [err(o.add_param_group, {"params": [nn.Parameter(ones(1))]}), o.param_groups[0]["param_names"]]

m = nn.Linear(2, 1); err(optim.SGD, [{"params": list(m.named_parameters())}, {"params": [nn.Parameter(ones(1))]}])

m = nn.Linear(2, 1); err(optim.SGD, [{"params": [nn.Parameter(ones(1))]}, {"params": list(m.named_parameters())}])

err(optim.Optimizer([ones(2)], {}).step)

p = ones(2, requires_grad=True); o = optim.SGD([p], lr=0.1); o.param_groups[0]["lr"] = 0.5; p.grad = ones(2); o.step(); o.param_groups[0]["maximize"] = True; o.step(); p

p = nn.Parameter(ones(2)); o = optim.SGD([p], lr=0.1); o.register_step_pre_hook(lambda o, a, k: 5); err(o.step)

o = optim.SGD([nn.Parameter(ones(1))], lr=T(0.5)); s = LS.CosineAnnealingLR(o, 3); t = o.param_groups[0]["lr"]; o.step(); s.step(); [t is o.param_groups[0]["lr"], t]
"""

LOADING = r"""
[err(ud.DataLoader, [], shuffle=True), len(ud.DataLoader([])), err(ud.RandomSampler, []), err(ud.RandomSampler, 5), err(ud.RandomSampler, [1], num_samples=0)]

[err(ud.WeightedRandomSampler, [0.1], 1, 5), err(ud.WeightedRandomSampler, [0.1], 0), err(ud.WeightedRandomSampler, [[0.1]], 1)]

class L(list):
    tag = 3
r = ud.default_collate([L([1, 2]), L([3, 4])]); [type(r).__name__, list(r), type(ud.default_convert(L([1]))).__name__]

q = collections.deque; r = ud.default_collate([q([1, 2]), q([3, 4])]); [type(r).__name__, list(r), list(ud.default_collate([range(2), range(2)]))]

N = collections.namedtuple("N", "a b"); r = ud.default_collate([N(1, 2), N(3, 4)]); [type(r).__name__, list(r), type(ud.default_collate([(1,), (2,)])).__name__]

import numpy as np
[err(ud.default_collate, [np.datetime64(1, "s")]), err(ud.default_collate, [np.array(["a"])]), err(ud.default_collate, [None])]

c = ud.ConcatDataset([[1, 2], [3]]); [c.cummulative_sizes, c[-1], err(lambda: c[-9])]

[list(ud.BatchSampler(range(5), 2, d)) for d in (True, False)] + [err(ud.BatchSampler, [1], True, False), [len(x) for x in ud.random_split(range(10), [0.35, 0.35, 0.3])]]
"""

AUTOGRAD = r"""
x = T([1.0, 2.0], requires_grad=True).sin(); [[n and n.name() for n, _ in y.grad_fn.next_functions] for y in (2 * x, 2 + x, x * 2, x + 2, numpy.float32(2) * x)]

class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 2
    @staticmethod
    def backward(ctx, dy):
        return dy * 2
err(lambda: Fn.apply(D(2, requires_grad=True) * 1))

x = D(2, requires_grad=True)
with torch.inference_mode(), torch.inference_mode(False):
    y = x * 2
[y.requires_grad, y.is_inference(), torch.is_grad_enabled()]

a = D(3, 2)
with torch.inference_mode():
    made = [nn.Parameter(D(2)), a.clone(), torch.from_numpy(numpy.ones(2)), T([1.0]), T(1.0), torch.as_tensor([1.0]), a + 1, torch.add(a, 1, out=torch.empty(0)), torch.eye(2), torch.arange(3), torch.zeros_like(a), a[[0]], a.to(torch.float64), copy.deepcopy(a), nn.Linear(2, 2).weight, nn.BatchNorm1d(2).running_mean, torch.frombuffer(bytearray(8), dtype=torch.float32), torch.cat([a, a])]
    same = [a.view(2, 3), a.detach(), a.T, a.data, a.contiguous(), a[0], a.unbind()[0], a.to(torch.float32), torch.add(a, 1, out=a)]
[[x.is_inference() for x in made], [x.is_inference() for x in same], [x.requires_grad for x in made], [x.detach().is_inference() for x in made], [x.clone().is_inference() for x in made]]

with torch.inference_mode():
    y, m = D(3, 1), nn.Linear(2, 2)
[err(lambda: y.t_()), err(lambda: y.squeeze_()), err(lambda: y.unsqueeze_(0)), err(lambda: y.transpose_(0, 1)), err(lambda: y.resize_(2)), err(lambda: y.set_(D(2))), err(lambda: y.add_(1)), err(lambda: y.zero_()), err(lambda: m(D(3, 2)).shape), err(lambda: y.requires_grad_())]

m = nn.Linear(2, 2)
with torch.inference_mode():
    m.double(); m.requires_grad_(False)
[m.weight.is_inference(), m.weight.requires_grad, err(m.requires_grad_, True)]

with torch.inference_mode():
    m = nn.Linear(2, 2)
n = copy.deepcopy(m); k = nn.Linear(2, 2); k.load_state_dict(m.state_dict())
[[p.is_inference() for p in x.parameters()] for x in (m, n, k)] + [torch.no_grad()(lambda: m(D(3, 2)).is_inference())(), k(D(3, 2)).requires_grad]

kept = torch.zeros(2, dtype=torch.float64)
[err(lambda: torch.func.grad(lambda x: (kept.add_(x.sum()).sum() + x.sum()))(D(2))), err(lambda: torch.func.vjp(lambda x: kept.copy_(x), D(2))), err(lambda: torch.func.jacrev(lambda x: kept.mul_(x))(D(2))), kept, kept.requires_grad]

x = D(2, requires_grad=True)
with torch.no_grad(), torch.inference_mode(False):
    y = x * 2
[y.requires_grad, torch.is_grad_enabled()]

n = [0]; x = D(2, requires_grad=True)
def f(a):
    n[0] += 1
    return a.sin().exp() if n[0] == 1 else (a.sin() * 2).sum()
y = ck.checkpoint(f, x, use_reentrant=False); err(lambda: y.sum().backward())

x = D(2, requires_grad=True); ck.checkpoint(torch.sin, x, use_reentrant=True).grad_fn.name()

x = D(2, requires_grad=True); seen = []; h = []; h.append(x.register_hook(lambda g: (h[0].remove(), seen.append(1))[1])); x.register_hook(lambda g: seen.append(2))
(x * 2).sum().backward(); (x * 2).sum().backward(); seen
"""

OVERRIDES = r"""
class S(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        seen.append(f.__name__)
        return super().__torch_function__(f, types, args, kwargs or {})
seen = []
x, m = ones(2).as_subclass(S), (ones(2) > 0).as_subclass(S); 2 * x; 2 + x; x * 2; x + 2; 2 - x; x - 2; x.__rmul__(2); True | m; False & m; True ^ m
seen

seen = []
class S(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not torch.Tensor.dim:
            seen.append((func.__name__.removeprefix("linalg_"), len(args), sorted(kwargs or {})))
        return super().__torch_function__(func, types, args, kwargs or {})
x = D(2, 3).as_subclass(S)
calls = [lambda: F.normalize(x), lambda: F.interpolate(x[None], scale_factor=2), lambda: F.pad(x, (1, 1)), lambda: F.cosine_similarity(x, x),
         lambda: F.cross_entropy(x, T([0, 1])), lambda: F.layer_norm(x, (3,)), lambda: F.dropout(x, 0.0), lambda: F.relu(input=x),
         lambda: F.conv1d(x[None], D(1, 2, 1), stride=1), lambda: torch.einsum("ij->i", x), lambda: torch.block_diag(x, x),
         lambda: torch.meshgrid(x[0], x[1], indexing="ij"), lambda: torch.atleast_2d(x), lambda: torch.tensordot(x, x, 2), lambda: torch.linalg.norm(x)]
made = [c() for c in calls]
[[type(y).__name__ for y in made], seen]

class S(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "mine" if func is F.normalize else super().__torch_function__(func, types, args, kwargs or {})
x = D(2, 3).as_subclass(S); [F.normalize(x), F.normalize(input=x, dim=0), type(F.softmax(x, 0)).__name__, torch.func.vmap(lambda a: F.normalize(a, dim=0))(D(2, 3))]

class S(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented
err(F.normalize, D(2, 2).as_subclass(S))

seen = []; x = D(2, 3); y = T([0, 1])
class Names(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return func(*args, **(kwargs or {}))
with Names():
    F.normalize(x); F.dropout(x); torch.einsum("ij->i", x); F.cross_entropy(x, y); F.pad(x, (1, 1))
seen

class S(torch.Tensor):
    pass
x = ones(2).as_subclass(S); [type(x.new_tensor([1.0])).__name__, type(x.new_zeros(2)).__name__, type(nn.Parameter(ones(1)).new_tensor([1.0])).__name__]
"""

AREAS = {"modules": MODULES, "samples": SINGLE_SAMPLES, "optimizers": OPTIMIZERS, "loading": LOADING, "autograd": AUTOGRAD, "overrides": OVERRIDES}
TABLE = [(f"{area} {i}", text) for area, texts in AREAS.items() for i, text in enumerate(texts.strip().split("\n\n"))]


def names_for(lib):
    def part(name):
        return importlib.import_module(f"{lib.__name__}.{name}")

    def warned(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        return [w.category.__name__ for w in caught]

    return {
        "torch": lib, "nn": lib.nn, "F": lib.nn.functional, "optim": lib.optim, "T": lib.tensor, "ones": lib.ones, "err": err, "warned": warned,
        "D": lambda *shape, **options: data(lib, *shape, **options), "fill": lambda module: filled(lib, module),
        "U": part("nn.utils"), "rnn": part("nn.utils.rnn"), "prune": part("nn.utils.prune"), "PZ": part("nn.utils.parametrize"),
        "PS": part("nn.utils._per_sample_grad").call_for_per_sample_grads, "ud": part("utils.data"), "ck": part("utils.checkpoint"), "LS": part("optim.lr_scheduler"),
        "collections": collections, "copy": copy, "pickle": pickle, "numpy": numpy,
    }  # fmt: skip


def value_of(statement, lib):
    tree = ast.parse(statement)
    names = names_for(lib)
    exec(compile(ast.Module(tree.body[:-1], []), "<statement>", "exec"), names)
    return eval(compile(ast.Expression(tree.body[-1].value), "<statement>", "eval"), names)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("statement", [text for _, text in TABLE], ids=[name for name, _ in TABLE])
def test_both_say_the_same(statement):
    same(value_of(statement, fl), value_of(statement, torch), statement.splitlines()[-1], strides=False)
