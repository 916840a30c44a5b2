"""flambeau.func beside torch.func: the same programs, the same numbers, structures and kinds of errors."""

from __future__ import annotations

import numpy as np
import pytest
from beside import assert_same, randn, torch

import flambeau as fl

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def both(program, *arrays, scale=1.0):
    """program(library, *tensors) of both, whose trees of results are compared."""
    results = []
    for lib in (fl, torch):
        out = program(lib, *(lib.tensor(a) for a in arrays))
        results.append(_leaves(out))
    ours, theirs = results
    assert [path for path, _ in ours] == [path for path, _ in theirs]
    for (path, a), (_, b) in zip(ours, theirs):
        assert_same(a, b, scale=scale, what=path)


def _leaves(tree, path=""):
    if isinstance(tree, dict):
        return [leaf for k, v in tree.items() for leaf in _leaves(v, f"{path}.{k}")]
    if isinstance(tree, (tuple, list)):
        return [leaf for i, v in enumerate(tree) for leaf in _leaves(v, f"{path}.{i}")]
    return [(path, tree)]


def smooth(lib, x):
    return (lib.tanh(x @ x.t()).cumsum(0) * x.sum()).logsumexp(0).sum() + x.prod()


def many(lib, x):
    return {"a": (x.sin().sum(0), x.exp()), "b": x.flatten()[:2].prod()}


PROGRAMS = {
    "grad": lambda lib, x: lib.func.grad(lambda a: smooth(lib, a))(x),
    "grad_and_value": lambda lib, x: lib.func.grad_and_value(lambda a: smooth(lib, a))(x),
    "aux": lambda lib, x: lib.func.grad_and_value(lambda a: (smooth(lib, a), {"aux": a * 2}), has_aux=True)(x),
    "argnums": lambda lib, x: lib.func.grad(lambda a, b: (a * b.exp()).sum(), argnums=(0, 1))(x, x * 2),
    "structures": lambda lib, x: lib.func.grad(lambda p, a: (p["w"] * a + p["b"][0]).square().sum())({"w": x, "b": [x[0]]}, x),
    "vjp": lambda lib, x: lib.func.vjp(lambda a: a.sin() @ a, x)[1](x),
    "vjp of several": lambda lib, x: lib.func.vjp(lambda a, b: (a @ b, a), x, x * 2)[1]((x, x + 1)),
    "jvp": lambda lib, x: lib.func.jvp(lambda a: many(lib, a), (x,), (x + 1,)),
    "jvp aux": lambda lib, x: lib.func.jvp(lambda a: (a.exp(), a * 3), (x,), (x + 1,), has_aux=True),
    "linearize": lambda lib, x: lib.func.linearize(lambda a: a.sin() @ a, x)[1](x + 1),
    "jacrev": lambda lib, x: lib.func.jacrev(lambda a: many(lib, a))(x),
    "jacfwd": lambda lib, x: lib.func.jacfwd(lambda a: many(lib, a))(x),
    "jacrev argnums": lambda lib, x: lib.func.jacrev(lambda a, b: a @ b, argnums=(0, 1))(x, x),
    "jacfwd argnums": lambda lib, x: lib.func.jacfwd(lambda a, b: a @ b, argnums=(1,))(x, x),
    "jacrev aux": lambda lib, x: lib.func.jacrev(lambda a: (a.sin(), a), has_aux=True)(x),
    "jacfwd aux": lambda lib, x: lib.func.jacfwd(lambda a: (a.sin(), a), has_aux=True)(x),
    "hessian": lambda lib, x: lib.func.hessian(lambda a: smooth(lib, a))(x),
    "hessian argnums": lambda lib, x: lib.func.hessian(lambda a, b: (a * b.sin()).sum(0), argnums=(0, 1))(x[0], x),
    "hessian of structures": lambda lib, x: lib.func.hessian(lambda p: {"y": (p["a"] * p["b"]).exp()})({"a": x[0], "b": x[1]}),
    "jacfwd jacrev": lambda lib, x: lib.func.jacfwd(lib.func.jacrev(lambda a: smooth(lib, a)))(x),
    "jacrev jacfwd": lambda lib, x: lib.func.jacrev(lib.func.jacfwd(lambda a: smooth(lib, a)))(x),
    "vmap": lambda lib, x: lib.vmap(lambda a: a.softmax(0) * a.sum())(x),
    "vmap in_dims": lambda lib, x: lib.vmap(lambda a, b: a * b, in_dims=(1, None), out_dims=1)(x, x[0, 0]),
    "vmap structures": lambda lib, x: lib.vmap(lambda p, y: {"s": p["a"] + p["b"][0], "t": (y,)}, in_dims=({"a": 0, "b": (None,)}, 1))({"a": x, "b": (x[0],)}, x),
    "vmap out_dims": lambda lib, x: lib.vmap(lambda a: (a, a * 2), out_dims=(1, 0))(x),
    "vmap kwargs": lambda lib, x: lib.vmap(lambda a, b: a @ b)(x, b=x),
    "vmap chunks": lambda lib, x: lib.vmap(lambda a: a.sin(), chunk_size=2)(x),
    "vmap vmap": lambda lib, x: lib.vmap(lib.vmap(lambda a, b: a + b, in_dims=(0, None)), in_dims=(None, 0))(x, x),
    "vmap grad": lambda lib, x: lib.vmap(lib.func.grad(lambda a: (a.exp() * a.norm()).sum()))(x),
    "grad vmap": lambda lib, x: lib.func.grad(lambda a: lib.vmap(lambda b: (b * b.sum()).sin())(a).sum())(x),
    "vmap vjp": lambda lib, x: lib.vmap(lib.func.vjp(lambda a: a.sin() @ a, x)[1])(lib.stack([x, x * 2])),
    "vmap jvp": lambda lib, x: lib.vmap(lambda a: lib.func.jvp(lambda b: b.cumprod(0), (a,), (a + 1,)))(x),
    "vmap hessian": lambda lib, x: lib.vmap(lib.func.hessian(lambda a: (a**3).sum() * a.prod()))(x),
    "vmap types": lambda lib, x: lib.vmap(lambda a, b: (a + b, a * 2, a > 0, a.sum() + 1))(x.float(), x[:, 0]),
    "index": lambda lib, x: lib.vmap(lambda a, i: (a[i], a[[0, 1]], a[..., :1], a[None]))(x, lib.tensor([0, 1, 2])),
    "in place": lambda lib, x: lib.vmap(lambda a: a.clone().add_(1).mul_(a))(x),
    "in place jvp": lambda lib, x: lib.func.jvp(lambda a: a.clone().mul_(a).add_(1), (x,), (x,)),
    "unused": lambda lib, x: lib.func.grad(lambda a, b: a.sum(), argnums=(0, 1))(x, x),
    "constant": lambda lib, x: lib.func.jvp(lambda a: lib.ones(2), (x,), (x,)),
    "cross entropy": lambda lib, x: lib.vmap(lib.func.grad(lambda a, c: lib.nn.functional.cross_entropy(a, c)))(x, lib.tensor([0, 1, 2])),
    "convolution": lambda lib, x: lib.vmap(lib.func.grad(lambda w, a: lib.nn.functional.conv1d(a[None, None], w).sin().sum()), in_dims=(None, 0))(x[:1, :2].reshape(1, 1, 2), x),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_numbers(name):
    both(PROGRAMS[name], randn(3, 3))


@pytest.mark.parametrize("name", ["conv", "norm", "attention"])
def test_gradients_per_sample_of_layers(name):
    def program(lib, x, *weights):
        nn = lib.nn
        F = nn.functional
        if name == "conv":
            def f(p, a):
                y = F.max_pool2d(F.relu(F.conv2d(a.unsqueeze(0), p[0], p[1], stride=2, padding=1)), 2)
                return F.linear(y.flatten(1), p[2]).square().sum()
        elif name == "norm":
            def f(p, a):
                y = F.group_norm(F.conv2d(a.unsqueeze(0), p[0], p[1]), 2)
                return F.layer_norm(y.mean((2, 3)), (4,)).exp().sum()
        else:
            def f(p, a):
                q = a[0] @ p[0][:, 0].reshape(-1, 8)[:8]
                return F.scaled_dot_product_attention(q, q.sin(), q * 2).square().sum()
        return lib.vmap(lib.func.grad(f), in_dims=(None, 0))(list(weights), x)

    weights = [randn(4, 2, 3, 3), randn(4, seed=1), randn(5, 16, seed=2)]
    if name == "attention":
        weights[0] = randn(8, 2, 8, seed=3)
    both(program, randn(3, 2, 8, 8), *weights, scale=10)


def test_modules_as_functions():
    def program(lib, x):
        nets = [lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 1)).double() for _ in range(2)]
        for i, net in enumerate(nets):
            for j, p in enumerate(net.parameters()):
                p.data.copy_(lib.tensor(randn(*p.shape, seed=i + 7 * j)))
        parameters, buffers = lib.func.stack_module_state(nets)
        ensemble = lib.vmap(lambda p, b, a: lib.func.functional_call(nets[0], (p, b), (a,)), in_dims=(0, 0, None))(parameters, buffers, x)
        return {"y": ensemble, "shapes": [tuple(v.shape) for v in parameters.values()]}

    both(program, randn(5, 3))


ERRORS = {
    "not a number": lambda lib, x: lib.func.grad(lambda a: a)(x),
    "integers": lambda lib, x: lib.func.grad(lambda a: a.sum())(x.long()),
    "sizes": lambda lib, x: lib.vmap(lambda a, b: a)(x, x[:2]),
    "flow": lambda lib, x: lib.vmap(lambda a: a if a.sum() > 0 else -a)(x),
    "item": lambda lib, x: lib.vmap(lambda a: a * a.sum().item())(x),
    "draw": lambda lib, x: lib.vmap(lambda a: lib.rand(3))(x),
    "shared": lambda lib, x: lib.vmap(lambda a: lib.zeros(3, dtype=lib.float64).add_(a))(x),
    "no tensors": lambda lib, x: lib.vmap(lambda a: 1)(x),
    "in_dims": lambda lib, x: lib.vmap(lambda a: a, in_dims=5)(x),
    "tangent": lambda lib, x: lib.func.jvp(lambda a: a, (x,), (x[0],)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_refused(name):
    for lib in (fl, torch):
        with pytest.raises((ValueError, RuntimeError, TypeError)):
            ERRORS[name](lib, lib.tensor(randn(3, 3)))


def test_dual_tensors():
    def program(lib, x):
        fwd = lib.autograd.forward_ad
        with fwd.dual_level():
            dual = fwd.make_dual(x, x * 2)
            y = fwd.unpack_dual((dual @ dual.t()).sin()[0])
            z = fwd.unpack_dual(x)
        return {"p": y.primal, "t": y.tangent, "none": np.array(z.tangent is None).item()}

    both(program, randn(3, 3))


def test_functional_call_with_names_that_the_module_does_not_have():
    def run(lib):
        net, w = lib.nn.Sequential(lib.nn.Linear(2, 2)), lib.ones(2, 2)
        given = {"0.weight": w, "0.bias": lib.zeros(2), "weight": w, "0.more": w}
        y = lib.func.functional_call(net, given, (lib.ones(2),))
        return y.tolist(), [name for module in (net, net[0]) for name in ("weight", "more") if hasattr(module, name)]

    assert run(fl) == run(torch)
