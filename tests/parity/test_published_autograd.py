"""What published programs do with autograd: products with Hessians, functions with backwards of their own, hooks, transformations, implicit layers."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, data, filled, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def products_with_hessians(lib):
    model = filled(lib, lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Softplus(), lib.nn.Linear(4, 2)))
    x, y = data(lib, 5, 3), lib.tensor([0, 1, 1, 0, 1])
    loss = lib.nn.functional.cross_entropy(model(x), y)
    params = list(model.parameters())
    grads = lib.autograd.grad(loss, params, create_graph=True)
    flat = lib.cat([g.contiguous().view(-1) for g in grads])

    def hvp(v):
        return lib.cat([g.reshape(-1) for g in lib.autograd.grad(flat @ v, params, retain_graph=True)])

    v = lib.ones(flat.numel()) / math.sqrt(flat.numel())
    for _ in range(5):  # the largest eigenvalue by power iteration
        hv = hvp(v)
        value = lib.dot(v, hv)
        v = hv / (hv.norm() + 1e-12)
    b, xk = -flat.detach(), lib.zeros_like(flat)
    r = b.clone()
    p, rs = r.clone(), lib.dot(r, r)
    for _ in range(4):  # conjugate gradients on the damped Hessian
        hp = hvp(p) + 0.5 * p
        a = rs / lib.dot(p, hp)
        xk.add_(p, alpha=a.item())
        r -= a * hp
        rs, old = lib.dot(r, r), rs
        p = r + rs / old * p
    trace = sum(lib.dot(z, hvp(z)) for z in (lib.sign(data(lib, flat.numel(), seed=s)) for s in range(3))) / 3
    whole = lib.autograd.functional.hessian(lambda w: (w.sin() * w.sum()).sum(), data(lib, 3))
    rows = lib.stack([lib.autograd.grad(g, params[0], retain_graph=True, allow_unused=True)[0].flatten() for g in grads[3]])
    vhp = lib.autograd.functional.vhp(lambda w: (w**3).sum(), data(lib, 3), lib.ones(3))
    return [flat, value, v.abs(), xk, trace, whole, rows, vhp, lib.autograd.functional.jacobian(lambda a, b: (a * b).cumsum(0), (data(lib, 3), data(lib, 3)), create_graph=True)]


def straight_through_and_reversal(lib):
    Function = lib.autograd.Function

    class Round(Function):
        @staticmethod
        def forward(ctx, x, levels=4):
            ctx.save_for_backward(x)
            ctx.levels = levels
            return lib.round(x * levels) / levels

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            grad = grad_output.clone()
            grad[x.abs() > 1] = 0
            return grad, None

    class Reverse(Function):
        @staticmethod
        def forward(ctx, x, alpha):
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g.neg() * ctx.alpha, None

    class Split(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            big = x > y
            ctx.mark_non_differentiable(big)
            out = lib.where(big, x, y)
            ctx.save_for_backward(big, out)
            ctx.shape = x.size()
            return out, big, x - y

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g_out, g_big, g_difference):
            big, out = ctx.saved_tensors
            gx = gy = None
            assert g_big is None
            if ctx.needs_input_grad[0]:
                gx = lib.zeros(ctx.shape) if g_out is None else g_out * big
                if g_difference is not None:
                    gx = gx + g_difference
            if ctx.needs_input_grad[1]:
                gy = g_out * ~big if g_out is not None else lib.zeros(ctx.shape)
            return gx, gy

    class Scale_(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = data(lib, 4, requires_grad=True)
    y = data(lib, 4, seed=2, requires_grad=True)
    (Round.apply(x) * lib.arange(4.0)).sum().backward()
    found = [x.grad.clone()]
    x.grad.zero_()
    (Reverse.apply(x, 0.5) ** 2).sum().backward()
    found.append(x.grad)
    out, big, difference = Split.apply(x, y.detach())
    found += [out, big, difference, out.requires_grad, big.requires_grad, lib.autograd.grad(out.sum(), x, retain_graph=True)[0], lib.autograd.grad(difference.sum(), x)[0]]
    z = x * 1
    Scale_.apply(z)
    found += [z, type(z.grad_fn).__name__, lib.autograd.grad(z.sum(), x)[0]]
    first = lib.autograd.grad(Split.apply(x, y)[0].sum(), x, create_graph=True)[0]
    cubic = lib.autograd.grad((Round.apply(x) ** 3).sum(), x, create_graph=True)[0]
    found += [Refused(refusal(lambda: lib.autograd.grad(first.sum() + (first * x).sum() * 0 + first.pow(2).sum(), y))), lib.autograd.grad(cubic.sum(), x)[0]]
    return found


def functions_with_rules(lib):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx, inputs, outputs):
            ctx.save_for_backward(inputs[0], outputs[1])
            ctx.save_for_forward(inputs[0], outputs[1])

        @staticmethod
        def backward(ctx, grad_output, grad_dx):
            x, dx = ctx.saved_tensors
            return grad_output * dx + grad_dx * 6 * x

        @staticmethod
        def vmap(info, in_dims, x):
            (dim,) = in_dims
            return Cube.apply(x), (dim, dim)

        @staticmethod
        def jvp(ctx, x_t):
            x, dx = ctx.saved_tensors
            return x_t * dx, 6 * x * x_t

    class Sine(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            (ctx.x,) = inputs

        @staticmethod
        def backward(ctx, g):
            return g * ctx.x.cos()

    def cube(x):
        return Cube.apply(x)[0]

    func, x = part(lib, "func"), data(lib, 3, 2)
    cls = lib.autograd.Function
    return [func.vmap(cube)(x), func.vmap(cube, in_dims=1, out_dims=1)(x), func.grad(lambda v: cube(v).sum())(x), func.jvp(cube, (x,), (lib.ones(3, 2),)),
            func.vmap(func.grad(Sine.apply))(x[:, 0]), func.grad(lambda v: Sine.apply(v).sum())(x), cls.generate_vmap_rule, callable(cls.vmap),
            Refused(refusal(lambda: cls.vmap(None, (0,), x))), lib.autograd.gradcheck(cube, (x.double().requires_grad_(),)), lib.autograd.gradgradcheck(cube, (x.double().requires_grad_(),))]  # fmt: skip


def extraction_by_hooks(lib):
    nn = lib.nn
    net = filled(lib, nn.Sequential(OrderedDict(conv1=nn.Conv2d(1, 2, 3, padding=1), relu=nn.ReLU(), pool=nn.MaxPool2d(2), flat=nn.Flatten(), fc=nn.Linear(8, 3))))
    activations, gradients, order = {}, {}, []

    def keep(name):
        def hook(model, input, output):
            activations[name] = output.detach()
            order.append((name, type(input).__name__, len(input)))

        return hook

    handles = [layer.register_forward_hook(keep(name)) for name, layer in net.named_children()]
    net.conv1.register_full_backward_hook(lambda m, gin, gout: gradients.update(conv1=(gin, gout)))
    net.relu.register_full_backward_pre_hook(lambda m, gout: (gout[0] * 2,))
    net.fc.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    x = data(lib, 1, 1, 4, 4)
    out = net(x)
    out[0, out.argmax()].backward()
    for handle in handles:
        handle.remove()
    grads = gradients["conv1"][1][0]
    weights = lib.mean(grads, dim=(2, 3), keepdim=True)
    cam = nn.functional.relu((weights * activations["conv1"]).sum(1, keepdim=True))
    cam = nn.functional.interpolate(cam, size=(8, 8), mode="bilinear", align_corners=False)
    cam = (cam - cam.min()) / (cam.max() - cam.min() + 1e-8)
    count = len(order)
    net(x)

    class Keywords(nn.Module):
        def forward(self, x, *, scale=1.0, mask=None):
            return {"out": x * scale, "mask": mask}

    seen, module = [], Keywords()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "scale": 3.0}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: seen.append(sorted(kwargs)) or {**out, "extra": 1}, with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    module.register_forward_hook(lambda m, args, out: seen.append("always"), always_call=True)
    result = module(lib.ones(2), mask=lib.zeros(1))
    wrong = Refused(refusal(lambda: module(3, nothing=1)))
    tensor = x.clone().requires_grad_()
    inner = tensor * 2
    inner.retain_grad()
    inner.register_hook(lambda g: g * 10)
    handle = tensor.register_hook(lambda g: seen.append(float(g.sum())))
    tensor.register_post_accumulate_grad_hook(lambda p: seen.append("grad" if p.grad is not None else "none"))
    (inner**2).sum().backward()
    handle.remove()
    return [activations, len(order) - count, grads, gradients["conv1"][0][0] is None, cam, net.fc.weight.grad, result, seen, wrong, tensor.grad, inner.grad]


def ensembles(lib):
    func = part(lib, "func")

    class Net(lib.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.fc1, self.bn, self.fc2 = lib.nn.Linear(3, n), lib.nn.BatchNorm1d(n), lib.nn.Linear(n, 2)

        def forward(self, x):
            return self.fc2(self.bn(self.fc1(x)).tanh())

    models = [filled(lib, Net(4), seed=i).eval() for i in range(3)]
    params, buffers = func.stack_module_state(models)
    base = Net(4).to("meta").eval()

    def fmodel(p, b, x):
        return func.functional_call(base, (p, b), (x,))

    x, many = data(lib, 5, 3), data(lib, 3, 5, 3)
    together = lib.vmap(fmodel, in_dims=(0, 0, None))(params, buffers, x)
    each = lib.vmap(fmodel)(params, buffers, many)
    single = {k: v[0] for k, v in params.items()}
    first = {k: v[0] for k, v in buffers.items()}

    def loss(p, sample, target):
        out = func.functional_call(base, (p, first), (sample.unsqueeze(0),))
        return lib.nn.functional.cross_entropy(out, target.unsqueeze(0))

    per_sample = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(single, x, lib.tensor([0, 1, 0, 1, 1]))
    norms = sum(g.flatten(1).norm(dim=1) ** 2 for g in per_sample.values()).sqrt()
    by_name = lib.vmap(lambda d, w: d["x"] * w + d["y"], in_dims=({"x": 0, "y": None}, 0))({"x": lib.arange(3.0), "y": lib.tensor(2.0)}, lib.ones(3))
    chunked = lib.vmap(lambda a: {"s": a.sum(), "t": (a, a * 2)}, chunk_size=2)(x)
    with_aux = func.grad_and_value(lambda w: ((w**2).sum(), {"w": w * 3}), has_aux=True)(x[0])
    update = {k: p - 0.1 * g.mean(0) for (k, p), g in zip(single.items(), per_sample.values())}
    return [together, each, lib.stack([m(x) for m in models]) - together, per_sample, norms, by_name, chunked, with_aux, update, sorted(buffers), params["fc1.weight"].requires_grad]


def tangents(lib):
    func, fwAD = part(lib, "func"), part(lib, "autograd.forward_ad")
    model = filled(lib, lib.nn.Sequential(lib.nn.Linear(2, 4), lib.nn.Tanh(), lib.nn.Linear(4, 1)))
    x, y, found = data(lib, 6, 2), data(lib, 6, 1), []
    for step in range(3):  # forward gradients: training without backward
        params = dict(model.named_parameters())
        direction = {k: data(lib, *p.shape, seed=step) for k, p in params.items()}

        def f(p):
            return lib.nn.functional.mse_loss(func.functional_call(model, p, (x,)), y)

        loss, slope = func.jvp(f, ({k: v.detach() for k, v in params.items()},), (direction,))
        with lib.no_grad():
            for k, p in params.items():
                p.sub_(0.05 * slope * direction[k])
        found += [loss, slope]
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, lib.ones_like(x))
        out = fwAD.unpack_dual(model(dual))
        found += [out.primal, out.tangent, fwAD.unpack_dual(x).tangent is None]
    hessian = func.hessian(lambda v: model(v).sum())(x[0])
    jac = func.jacfwd(model)(x[0]), func.jacrev(model)(x[0]), func.vmap(func.jacrev(model))(x)
    value, pull = func.vjp(lambda v: (v.sin(), v.cos()), x[0])
    lap = func.vmap(lambda v: lib.trace(func.jacfwd(func.jacrev(lambda u: model(u)[0]))(v)))(x)
    linear, push = func.linearize(lambda v: v**2, x[0])
    return [found, hessian, jac, value, pull((lib.ones(2), lib.zeros(2))), lap, linear, push(lib.ones(2)), lib.func.jvp(lambda v: func.grad(lambda u: (u**3).sum())(v), (x[0],), (lib.ones(2),))]


def equilibria(lib):
    """A fixed point whose backward solves a linear equation, by a hook."""

    def anderson(f, x0, m=3, lam=1e-4, max_iter=20, tol=1e-5, beta=1.0):
        bsz, d = x0.shape
        X, F = lib.zeros(bsz, m, d, dtype=x0.dtype), lib.zeros(bsz, m, d, dtype=x0.dtype)
        X[:, 0], F[:, 0] = x0.view(bsz, -1), f(x0).view(bsz, -1)
        X[:, 1], F[:, 1] = F[:, 0], f(F[:, 0].view_as(x0)).view(bsz, -1)
        H = lib.zeros(bsz, m + 1, m + 1, dtype=x0.dtype)
        H[:, 0, 1:] = H[:, 1:, 0] = 1
        y = lib.zeros(bsz, m + 1, 1, dtype=x0.dtype)
        y[:, 0] = 1
        res = []
        for k in range(2, max_iter):
            n = min(k, m)
            G = F[:, :n] - X[:, :n]
            H[:, 1 : n + 1, 1 : n + 1] = lib.bmm(G, G.transpose(1, 2)) + lam * lib.eye(n, dtype=x0.dtype)[None]
            alpha = lib.linalg.solve(H[:, : n + 1, : n + 1], y[:, : n + 1])[:, 1 : n + 1, 0]
            X[:, k % m] = beta * (alpha[:, None] @ F[:, :n])[:, 0] + (1 - beta) * (alpha[:, None] @ X[:, :n])[:, 0]
            F[:, k % m] = f(X[:, k % m].view_as(x0)).view(bsz, -1)
            res.append((F[:, k % m] - X[:, k % m]).norm().item() / (1e-5 + F[:, k % m].norm().item()))
            if res[-1] < tol:
                break
        return X[:, k % m].view_as(x0)

    class DEQ(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.u = lib.nn.Linear(4, 4, dtype=lib.float64), lib.nn.Linear(3, 4, dtype=lib.float64)

        def cell(self, z, x):
            return lib.tanh(self.w(z) + self.u(x))

        def forward(self, x):
            with lib.no_grad():
                z = anderson(lambda z: self.cell(z, x), lib.zeros(x.shape[0], 4, dtype=x.dtype))
            z = self.cell(z, x)
            z0 = z.clone().detach().requires_grad_()
            f0 = self.cell(z0, x)

            def backward_hook(grad):
                return anderson(lambda y: lib.autograd.grad(f0, z0, y, retain_graph=True)[0] + grad, grad)

            if z.requires_grad:
                z.register_hook(backward_hook)
            return z

    model = filled(lib, DEQ(), scale=0.2)
    x = data(lib, 5, 3).double()
    z = model(x)
    z.sum().backward()
    return [z.round(decimals=4), *[p.grad.round(decimals=3) for p in model.parameters()]]


def adjoint_of_an_ode(lib):
    class Adjoint(lib.autograd.Function):
        @staticmethod
        def forward(ctx, func, y0, t, *params):
            with lib.no_grad():
                y, ys = y0, [y0]
                for a, b in zip(t[:-1], t[1:]):
                    y = rk4(func, y, a, b - a)
                    ys.append(y)
            ctx.func = func
            ctx.save_for_backward(lib.stack(ys), t, *params)
            return lib.stack(ys)

        @staticmethod
        def backward(ctx, grad):
            ys, t, *params = ctx.saved_tensors
            func = ctx.func
            adj, grads = grad[-1], [lib.zeros_like(p) for p in params]
            with lib.no_grad():
                for i in range(len(t) - 1, 0, -1):

                    def augmented(s, state):
                        y, a = state[0], state[1]
                        with lib.enable_grad():
                            y = y.detach().requires_grad_(True)
                            out = func(s, y)
                            vjp = lib.autograd.grad(out, (y, *params), -a, allow_unused=True, retain_graph=True)
                        return [out.detach(), vjp[0], *[g if g is not None else lib.zeros_like(p) for g, p in zip(vjp[1:], params)]]

                    h = t[i - 1] - t[i]
                    state = [ys[i], adj, *grads]
                    k1 = augmented(t[i], state)
                    k2 = augmented(t[i] + h / 2, [s + h / 2 * k for s, k in zip(state, k1)])
                    state = [s + h * k for s, k in zip(state, k2)]
                    adj, grads = state[1] + grad[i - 1], state[2:]
            return (None, adj, None, *grads)

    def rk4(func, y, t, h):
        k1 = func(t, y)
        k2 = func(t + h / 2, y + h * k1 / 2)
        k3 = func(t + h / 2, y + h * k2 / 2)
        k4 = func(t + h, y + h * k3)
        return y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6

    net = filled(lib, lib.nn.Sequential(lib.nn.Linear(2, 8), lib.nn.Tanh(), lib.nn.Linear(8, 2)))

    class ODE(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y**3) * (1 + t)

    func, t = ODE(), lib.linspace(0.0, 1.0, 6)
    y0 = data(lib, 3, 2, requires_grad=True)
    ys = Adjoint.apply(func, y0, t, *func.parameters())
    (ys[-1] ** 2).mean().backward()
    return [ys, y0.grad, *[p.grad for p in func.parameters()]]


def checkpoints_with_draws(lib):
    checkpointing = part(lib, "utils.checkpoint")
    drop = lib.nn.Sequential(lib.nn.Linear(6, 6), lib.nn.Dropout(0.5), lib.nn.ReLU())
    filled(lib, drop)
    calls = []

    class Block(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = drop

        def forward(self, x, scale, *, flag=True):
            calls.append(flag)
            return self.body(x) * scale, {"flag": flag}

    block, equal = Block(), []
    for options in ({"use_reentrant": False}, {"use_reentrant": False, "preserve_rng_state": True, "determinism_check": "none"}, {"use_reentrant": True}):
        results = []
        for plain in (True, False):
            lib.manual_seed(3)
            x = data(lib, 4, 6, requires_grad=True)
            block.zero_grad()
            if plain:
                y = block(x, 2.0)[0]
            elif options["use_reentrant"]:
                y = checkpointing.checkpoint(lambda x: block(x, 2.0)[0], x, **options)
            else:
                y, _ = checkpointing.checkpoint(block, x, 2.0, flag=False, **options)
            y.sum().backward()
            results.append((y, x.grad, drop[0].weight.grad.clone()))
        equal += [lib.equal(a, b) for a, b in zip(*results)]
    layers = [lib.nn.Sequential(lib.nn.Linear(6, 6), lib.nn.Tanh()) for _ in range(4)]
    stack = filled(lib, lib.nn.Sequential(*layers))
    x = data(lib, 2, 6, requires_grad=True)
    y = checkpointing.checkpoint_sequential(stack, 2, x, use_reentrant=False)
    y.sum().backward()
    saved = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: saved.append(tuple(t.shape)) or t, lambda t: t):
        z = checkpointing.checkpoint(stack, x, use_reentrant=False)
    with lib.autograd.graph.save_on_cpu():
        (w,) = lib.autograd.grad((x.sin() * x.exp()).sum(), x)
    return [equal, calls, y, x.grad, *[p.grad for p in stack.parameters()], z, w]


def parametrized_weights(lib):
    P, nn = part(lib, "nn.utils.parametrize"), lib.nn

    class LoRA(nn.Module):
        def __init__(self, out, into, rank=2, alpha=4.0):
            super().__init__()
            self.a, self.b, self.scale, self.enabled = nn.Parameter(lib.zeros(rank, into)), nn.Parameter(lib.zeros(out, rank)), alpha / rank, True
            nn.init.constant_(self.a, 0.1)

        def forward(self, w):
            return w + lib.matmul(self.b, self.a).view(w.shape) * self.scale if self.enabled else w

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a):
            return a.triu()

    class Exponential(nn.Module):
        def forward(self, x):
            return lib.matrix_exp(x - x.T)

    net = filled(lib, nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
    for layer in (net[0], net[2]):
        P.register_parametrization(layer, "weight", LoRA(*layer.weight.shape))
    for name, p in net.named_parameters():
        p.requires_grad = "0.a" in name or "0.b" in name
    optimizer = lib.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.1)
    x = data(lib, 5, 3)
    for _ in range(3):
        optimizer.zero_grad()
        net(x).pow(2).sum().backward()
        optimizer.step()
    trained = net(x)
    names = sorted(net.state_dict())
    net[0].parametrizations.weight[0].enabled = False
    without = net(x)
    net[0].parametrizations["weight"][0].enabled = True
    with P.cached():
        same_object = net[0].weight is net[0].weight
    P.remove_parametrizations(net[0], "weight", leave_parametrized=True)
    merged = net(x)
    square = nn.Linear(3, 3)
    with lib.no_grad():
        square.weight.copy_(data(lib, 3, 3))
    P.register_parametrization(square, "weight", Symmetric())
    square.weight = lib.eye(3) * 2
    shown = repr(square)
    P.register_parametrization(square, "weight", Exponential())
    orthogonal = square.weight @ square.weight.T
    spectral = part(lib, "nn.utils.parametrizations").spectral_norm(filled(lib, nn.Linear(3, 4)), n_power_iterations=30)
    for _ in range(3):
        spectral(x)
    sigma = lib.linalg.matrix_norm(spectral.weight, 2)
    normed = part(lib, "nn.utils.parametrizations").weight_norm(filled(lib, nn.Conv1d(2, 3, 2)), dim=0)
    weights = normed.weight, normed.parametrizations.weight.original0
    wrong = Refused(refusal(lambda: P.register_parametrization(nn.Linear(2, 2), "weight", nn.Linear(2, 3))))
    return [trained, names, without, same_object, merged, P.is_parametrized(net), P.is_parametrized(net[0]), type(net[0]).__name__, shown, square.parametrizations.weight.original, orthogonal,
            sigma, weights, sorted(dict(normed.named_parameters())), wrong, P.type_before_parametrizations(net[2]) is nn.Linear]  # fmt: skip


def adversaries(lib):
    """A GAN with spectral norms, attacks by signs of gradients, and virtual adversarial training."""
    nn, F = lib.nn, lib.nn.functional
    model = filled(lib, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    x, y = data(lib, 6, 4), lib.tensor([0, 1, 2, 0, 1, 2])

    def pgd(eps=0.3, alpha=0.1, steps=4):
        delta = lib.zeros_like(x, requires_grad=True)
        for _ in range(steps):
            F.cross_entropy(model(x + delta), y).backward()
            delta.data = (delta + alpha * delta.grad.detach().sign()).clamp(-eps, eps)
            delta.grad.zero_()
        return delta.detach()

    adv = x.clone().detach().requires_grad_(True)
    model.zero_grad()
    cost = F.nll_loss(F.log_softmax(model(adv), dim=1), y)
    cost.backward()
    fgsm = lib.clamp(adv + 0.03 * adv.grad.data.sign(), min=-2, max=2)
    with lib.no_grad():
        pred = F.softmax(model(x), dim=1)
    d = F.normalize(data(lib, 6, 4, seed=3).view(6, -1)).view_as(x)
    for _ in range(2):
        d.requires_grad_()
        kl = F.kl_div(F.log_softmax(model(x + 1e-1 * d), dim=1), pred, reduction="batchmean")
        kl.backward()
        d = F.normalize(d.grad.flatten(1), dim=1)
        model.zero_grad()
    lds = F.kl_div(F.log_softmax(model(x + 2.5 * d), dim=1), pred, reduction="batchmean")
    bce = nn.BCEWithLogitsLoss(pos_weight=lib.tensor([2.0]))
    hinge = F.relu(1.0 - model(x)[:, :1]).mean() + F.relu(1.0 + model(adv.detach())[:, :1]).mean()
    mixed = 0.3 * x + 0.7 * x[lib.tensor([5, 4, 3, 2, 1, 0])]
    relativistic = bce(model(x)[:, 0] - model(mixed)[:, 0].mean(), lib.ones(6))
    saliency, _ = lib.max(adv.grad.data.abs(), dim=1)
    steps = lib.linspace(0, 1, 5).view(-1, 1, 1)
    path = (steps * x.unsqueeze(0)).requires_grad_()
    (g,) = lib.autograd.grad(model(path).gather(2, y.expand(5, -1).unsqueeze(-1)).sum(), path)
    integrated = x * lib.trapezoid(g, dx=0.25, dim=0)
    return [pgd(), fgsm, lds, hinge, relativistic, saliency, integrated]


def anomalies_and_modes(lib):
    x = lib.tensor([1.0, 0.0, 4.0], requires_grad=True)
    with lib.autograd.detect_anomaly(check_nan=True):
        wrong = refusal(lambda: (lib.sqrt(x * 0) * 0).sum().backward())
    clean = lib.autograd.grad(lib.where(x > 0, x, lib.ones(())).log().sum(), x)[0]
    modes = []
    with lib.set_grad_enabled(False):
        modes.append((x * 2).requires_grad)

    @lib.no_grad()
    def evaluate(v):
        return v * 2

    @lib.inference_mode()
    def infer(v):
        return v * 2

    def gen():
        for i in range(2):
            yield lib.is_grad_enabled()

    modes += [evaluate(x).requires_grad, infer(x).is_inference(), list(lib.no_grad()(gen)()), lib.is_grad_enabled(), evaluate.__name__]
    y = infer(x)
    refused = [refusal(lambda: (y * x).sum().backward()), refusal(lambda: x.add_(1)), refusal(lambda: lib.ones(2).backward()), refusal(lambda: (x * 2).backward()),
               refusal(lambda: x.detach().requires_grad_().long().requires_grad_())]  # fmt: skip
    z = x * 2
    z.detach_()
    a = x.clone()
    b = a[1:]
    b.mul_(3)
    (a**2).sum().backward()
    loss = (x**2).sum()
    loss.backward(retain_graph=True)
    loss.backward(inputs=[x])
    twice = refusal(loss.backward)
    shared = lib.ones(3, requires_grad=True)
    out = shared.expand(2, 3)
    out.sum().backward(gradient=None)
    return [Refused(wrong), clean, modes, *map(Refused, refused), z.is_leaf, x.grad, Refused(twice), shared.grad, shared.grad.is_contiguous(), a._version, lib.autograd.graph.get_gradient_edge(x).output_nr]


def influence_and_fisher(lib):
    """Elastic weight consolidation and influence functions, by gradients per sample."""
    F = lib.nn.functional
    model = filled(lib, lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ELU(), lib.nn.Linear(4, 2)))
    x, y = data(lib, 6, 3), lib.tensor([0, 1, 1, 0, 0, 1])
    fisher = {n: lib.zeros_like(p) for n, p in model.named_parameters()}
    for i in range(len(x)):
        model.zero_grad()
        F.nll_loss(F.log_softmax(model(x[i : i + 1]), 1), y[i, None]).backward()
        for n, p in model.named_parameters():
            fisher[n] += p.grad.data.pow(2) / len(x)
    means = {n: p.clone().detach() for n, p in model.named_parameters()}
    with lib.no_grad():
        for p in model.parameters():
            p += 0.01
    ewc = sum((fisher[n] * (p - means[n]).pow(2)).sum() for n, p in model.named_parameters())
    ewc.backward()
    ft = partial(part(lib, "func").functional_call, model)
    params = {k: v.detach() for k, v in model.named_parameters()}
    jac = lib.func.vmap(lib.func.jacrev(lambda p, v: ft(p, v)), (None, 0))(params, x)
    jac = [j.flatten(2) for j in jac.values()]
    ntk = lib.stack([lib.einsum("Naf,Mbf->NMab", j, j) for j in jac]).sum(0)
    flat = lib.cat([j.flatten(2) for j in jac], -1).sum(1)
    solved = lib.linalg.solve(flat @ flat.mT + 0.1 * lib.eye(6), x)
    diag = lib.einsum("nnaa->na", ntk)
    return [fisher, ewc, *[p.grad for p in model.parameters()], ntk, solved, diag, lib.linalg.eigvalsh(ntk.sum((2, 3)) / 4)[-2:]]


# Second derivatives are stacked in another order here, and solutions of equations are rows.
ANY_STRIDES = (tangents, influence_and_fisher)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_differentiate_the_same(program):
    same(program(fl), program(torch), program.__name__, rtol=2e-4, atol=2e-5, strides=program not in ANY_STRIDES)


