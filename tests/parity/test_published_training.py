"""How published programs train: averages of weights, other optimizers, schedules, and what they save. Both libraries run each."""

from __future__ import annotations

import collections
import copy
import io
import math
from collections import OrderedDict

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, data, filled, mlp, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def averages_of_weights(lib):
    class EMA:
        def __init__(self, model, decay):
            self.decay, self.shadow, self.backup = decay, {}, {}
            for name, param in model.named_parameters():
                if param.requires_grad:
                    self.shadow[name] = param.data.clone()

        def update(self, model):
            for name, param in model.named_parameters():
                if param.requires_grad:
                    self.shadow[name] = (1.0 - self.decay) * param.data + self.decay * self.shadow[name]

        def apply(self, model):
            for name, param in model.named_parameters():
                self.backup[name] = param.data
                param.data = self.shadow[name]

        def restore(self, model):
            for name, param in model.named_parameters():
                param.data = self.backup[name]

    model = mlp(lib, 4, 8, 2)
    model[0].bias.requires_grad_(False)
    ema = EMA(model, 0.9)
    optimizer = lib.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9, nesterov=True)
    x, y = data(lib, 6, 4), data(lib, 6, 2)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = lib.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        ema.update(model)
        losses.append(loss.item())
    averaged = copy.deepcopy(ema.shadow)
    before = model(x)
    for name, p in model.named_parameters():
        if name in averaged:
            p.data.lerp_(averaged[name], 0.5)
    target = copy.deepcopy(model)
    for t, s in zip(target.parameters(), model.parameters()):
        t.data.mul_(0.995).add_(s.data * 0.005)
    return [losses, averaged, before, model(x), target(x), [p.requires_grad for p in target.parameters()]]


def gradient_penalty(lib):
    D, G = mlp(lib, 2, 8, 1, seed=3), mlp(lib, 3, 8, 2, seed=4)
    opt_d = lib.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.9))
    opt_g = lib.optim.RMSprop(G.parameters(), lr=1e-3)
    real, found = data(lib, 6, 2), []
    for step in range(3):
        fake = G(data(lib, 6, 3, seed=step)).detach()
        alpha = lib.tensor(np.linspace(0, 1, 6, dtype=np.float32)).view(-1, 1).expand_as(real)
        between = lib.autograd.Variable(alpha * real + (1 - alpha) * fake, requires_grad=True)
        score = D(between)
        gradients = lib.autograd.grad(outputs=score, inputs=between, grad_outputs=lib.ones(score.size()), create_graph=True, retain_graph=True, only_inputs=True)[0]
        penalty = ((gradients.view(gradients.size(0), -1).norm(2, dim=1) - 1) ** 2).mean() * 10
        loss = D(fake).mean() - D(real).mean() + penalty
        D.zero_grad()
        loss.backward()
        opt_d.step()
        for p in D.parameters():
            p.data.clamp_(-0.5, 0.5)
        G.zero_grad()
        lib.mean(D(G(data(lib, 6, 3, seed=step)))).backward(lib.tensor(-1.0))
        opt_g.step()
        found += [penalty, loss, gradients]
    return [*found, *D.parameters(), *G.parameters()]


def learning_to_learn(lib):
    func = part(lib, "func")
    model = lib.nn.Sequential(OrderedDict(first=lib.nn.Linear(1, 8), act=lib.nn.Tanh(), second=lib.nn.Linear(8, 1)))
    filled(lib, model, 5)
    meta = lib.optim.Adam(model.parameters(), 1e-2)
    found = []
    for step in range(3):
        params = dict(model.named_parameters())
        losses = []
        for task in range(2):
            x = data(lib, 5, 1, seed=task)
            y = (x * (task + 1)).sin()
            fast = params
            for _ in range(2):
                inner = ((func.functional_call(model, fast, (x,)) - y) ** 2).mean()
                grads = lib.autograd.grad(inner, tuple(fast.values()), create_graph=step < 2)
                fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
            losses.append(((func.functional_call(model, fast, x) - y) ** 2).mean())
        meta.zero_grad()
        lib.stack(losses).mean().backward()
        meta.step()
        found += losses + [p.grad for p in model.parameters()]
    return found


def sharpness_aware(lib):
    class SAM(lib.optim.Optimizer):
        def __init__(self, params, base_optimizer, rho=0.05, adaptive=False, **kwargs):
            super().__init__(params, dict(rho=rho, adaptive=adaptive, **kwargs))
            self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
            self.param_groups = self.base_optimizer.param_groups
            self.defaults.update(self.base_optimizer.defaults)

        @lib.no_grad()
        def first_step(self, zero_grad=False):
            grad_norm = self._grad_norm()
            for group in self.param_groups:
                scale = group["rho"] / (grad_norm + 1e-12)
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    self.state[p]["old_p"] = p.data.clone()
                    p.add_((lib.pow(p, 2) if group["adaptive"] else 1.0) * p.grad * scale.to(p))
            if zero_grad:
                self.zero_grad()

        @lib.no_grad()
        def second_step(self, zero_grad=False):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.data = self.state[p]["old_p"]
            self.base_optimizer.step()
            if zero_grad:
                self.zero_grad()

        @lib.no_grad()
        def step(self, closure=None):
            closure = lib.enable_grad()(closure)
            self.first_step(zero_grad=True)
            closure()
            self.second_step()

        def _grad_norm(self):
            return lib.norm(lib.stack([p.grad.norm(p=2) for group in self.param_groups for p in group["params"] if p.grad is not None]), p=2)

        def load_state_dict(self, state_dict):
            super().load_state_dict(state_dict)
            self.base_optimizer.param_groups = self.param_groups

    model = mlp(lib, 3, 6, 2, seed=6)
    optimizer = SAM([{"params": model[0].parameters()}, {"params": model[2].parameters(), "adaptive": True, "lr": 0.05}], lib.optim.SGD, lr=0.1, momentum=0.9)
    x, y, found = data(lib, 5, 3), lib.tensor([0, 1, 0, 1, 1]), []

    def closure():
        loss = lib.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        found.append(closure())
        optimizer.step(closure)
        optimizer.zero_grad()
    text = repr(optimizer)
    return [*found, *model.parameters(), text, sorted(optimizer.state_dict()["param_groups"][1])]


def groups_and_chained_schedules(lib):
    rates = lib.optim.lr_scheduler
    model = lib.nn.ModuleDict({"body": mlp(lib, 3, 4, 4), "head": lib.nn.Linear(4, 2)})
    filled(lib, model)
    decay = [p for n, p in model.named_parameters() if "bias" not in n]
    rest = [p for n, p in model.named_parameters() if n.endswith("bias")]
    optimizer = lib.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0, "lr": 3e-3}], lr=1e-2)
    warm = rates.LambdaLR(optimizer, lr_lambda=[lambda e: min(1.0, (e + 1) / 3), lambda e: 0.95**e])
    plateau = rates.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=1, threshold=1e-3, cooldown=1, min_lr=[1e-4, 1e-5])
    found = []
    for epoch, score in enumerate((0.1, 0.2, 0.2, 0.2, 0.2, 0.1, 0.0)):
        optimizer.zero_grad()
        model["head"](model["body"](data(lib, 4, 3, seed=epoch))).square().mean().backward()
        optimizer.step()
        warm.step()
        plateau.step(score)
        found.append([g["lr"] for g in optimizer.param_groups] + [plateau.num_bad_epochs, warm.last_epoch])
    optimizer.add_param_group({"params": [lib.nn.Parameter(lib.ones(2))], "lr": 0.5})
    chained = rates.ChainedScheduler([rates.ConstantLR(optimizer, factor=0.1, total_iters=2), rates.ExponentialLR(optimizer, gamma=0.9)])
    for _ in range(4):
        optimizer.step()
        chained.step()
        found.append(chained.get_last_lr())
    for make in (lambda o: rates.OneCycleLR(o, max_lr=[0.1, 0.2], total_steps=8, anneal_strategy="linear", div_factor=10), lambda o: rates.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=3, mode="triangular2", cycle_momentum=False),
                 lambda o: rates.PolynomialLR(o, total_iters=5, power=2.0), lambda o: rates.MultiStepLR(o, [2, 4], gamma=0.1), lambda o: rates.MultiplicativeLR(o, lambda e: 0.9),
                 lambda o: rates.CosineAnnealingLR(o, T_max=5, eta_min=1e-3)):  # fmt: skip
        o = lib.optim.SGD([{"params": decay}, {"params": rest, "lr": 0.2}], lr=0.1, momentum=0.9)
        s = make(o)
        for _ in range(6):
            o.step()
            s.step()
            found.append([*s.get_last_lr(), *[g["momentum"] for g in o.param_groups]])
        found.append(sorted(k for k in s.state_dict() if not k.startswith("_")))
    return [found, *model.parameters()]


def lbfgs_closures(lib):
    x = lib.tensor([-1.2, 1.0], dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.LBFGS([x], lr=1, max_iter=20, history_size=10, line_search_fn="strong_wolfe", tolerance_grad=1e-9)
    found = []

    def closure():
        optimizer.zero_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    for _ in range(3):
        found.append(optimizer.step(closure).detach().clone())
    content, style = data(lib, 3, 5), data(lib, 3, 5, seed=9)
    picture = content.clone().requires_grad_(True)
    second, run = lib.optim.LBFGS([picture]), [0]

    def gram(a):
        return lib.mm(a, a.t()).div(a.numel())

    while run[0] <= 40:

        def style_closure():
            with lib.no_grad():
                picture.clamp_(-2, 2)
            second.zero_grad()
            score = lib.nn.functional.mse_loss(gram(picture), gram(style)) * 1e2 + lib.nn.functional.mse_loss(picture, content)
            score.backward()
            run[0] += 1
            return score

        last = second.step(style_closure)
    return [found[0], x, last, run[0], picture]


def averaged_models(lib):
    swa = part(lib, "optim.swa_utils")
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.ReLU(), lib.nn.Linear(4, 1))
    filled(lib, model)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    averaged, ema = swa.AveragedModel(model), swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9), use_buffers=True)
    schedule, swa_lr = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3), swa.SWALR(optimizer, anneal_strategy="linear", anneal_epochs=2, swa_lr=0.05)
    loader = [(data(lib, 6, 3, seed=i), data(lib, 6, 1, seed=i)) for i in range(3)]
    rates = []
    for epoch in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            lib.nn.functional.smooth_l1_loss(model(x), y).backward()
            optimizer.step()
        ema.update_parameters(model)
        if epoch > 2:
            averaged.update_parameters(model)
            swa_lr.step()
        else:
            schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    swa.update_bn(loader, averaged)
    return [rates, averaged.state_dict(), ema(loader[0][0]), averaged(loader[0][0]), averaged.n_averaged, list(ema.module.state_dict())]


def surgery_on_state_dicts(lib):
    nn = lib.nn
    old = filled(lib, nn.Sequential(OrderedDict(features=nn.Conv2d(1, 2, 3), bn=nn.BatchNorm2d(2), fc=nn.Linear(2, 10))))
    state = old.state_dict()
    state = OrderedDict(("module." + k, v) for k, v in state.items())
    for key in list(state.keys()):
        state[key.replace("module.", "", 1)] = state.pop(key)
    new = nn.Sequential(OrderedDict(features=nn.Conv2d(1, 2, 3), bn=nn.BatchNorm2d(2), fc=nn.Linear(2, 4), extra=nn.Linear(4, 1)))
    wrong = refusal(lambda: new.load_state_dict(state))
    kept = {k: v for k, v in state.items() if k in new.state_dict() and v.size() == new.state_dict()[k].size()}
    result = new.load_state_dict(kept, strict=False)
    merged = {**new.state_dict(), **kept}
    full = new.load_state_dict(merged)
    taken = [lib.equal(a, b) for a, b in zip(old.features.parameters(), new.features.parameters())]
    messages = []
    for bad in ({"weight": lib.ones(3)}, {"wieght": lib.ones(2, 2), "bias": lib.ones(2)}, {"weight": [1.0]}):
        try:
            nn.Linear(2, 2).load_state_dict(bad)
        except Exception as error:
            messages.append(type(error).__name__)
    prefixes = []

    class Renamed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(lib.zeros(2))
            self.register_buffer("steps", lib.tensor(0))
            self.register_buffer("cache", lib.zeros(3), persistent=False)
            self._register_load_state_dict_pre_hook(self._rename)
            self._register_state_dict_hook(lambda module, state, prefix, meta: prefixes.append((prefix, sorted(state))))

        def _rename(self, state, prefix, meta, strict, missing, unexpected, errors):
            if prefix + "gamma" in state:
                state[prefix + "weight"] = state.pop(prefix + "gamma")
            state.setdefault(prefix + "steps", lib.tensor(7))

    renamed = nn.Sequential(Renamed())
    loaded = renamed.load_state_dict({"0.gamma": lib.ones(2)})
    file = io.BytesIO()
    lib.save({"epoch": 3, "model": renamed.state_dict(), "args": {"lr": 0.1}}, file)
    file.seek(0)
    again = lib.load(file, map_location=lib.device("cpu"), weights_only=True)
    return [Refused(wrong), sorted(result.missing_keys), result.unexpected_keys, full, taken, messages, loaded, renamed.state_dict(), prefixes, again, sorted(dict(renamed.named_buffers())), list(again["model"]._metadata.items()) if hasattr(again["model"], "_metadata") else []]


def autocast_loops(lib):
    amp = part(lib, "amp")
    net = filled(lib, lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.LayerNorm(8), lib.nn.GELU(), lib.nn.Linear(8, 3)), scale=0.5)
    optimizer = lib.optim.SGD(net.parameters(), lr=0.05)
    scaler = amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
    x, y, found = data(lib, 6, 4), lib.tensor([0, 1, 2, 0, 1, 2]), []
    for step in range(5):
        optimizer.zero_grad()
        with lib.autocast(device_type="cpu", dtype=lib.bfloat16):
            out = net(x)
            loss = lib.nn.functional.cross_entropy(out, y)
            inside = [out.dtype, loss.dtype, lib.is_autocast_enabled("cpu"), (out @ out.t()).dtype, out.softmax(-1).dtype, (out.float() @ out.float().t()).dtype, lib.get_autocast_dtype("cpu")]
            with lib.autocast("cpu", enabled=False):
                inside += [net[0](x).dtype, lib.is_autocast_enabled("cpu")]
        if step == 3:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = lib.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.5)
        scaler.step(optimizer)
        scaler.update()
        found.append([inside, scaler.get_scale(), scaler._get_growth_tracker(), math.isfinite(norm)])
    twice = Refused(refusal(lambda: (scaler.scale(net(x).sum()).backward(), scaler.unscale_(optimizer), scaler.unscale_(optimizer))))
    return [found, scaler.state_dict(), twice, [round(v, 2) for v in net[3].bias.tolist()]]


def accumulated_gradients(lib):
    model, whole = mlp(lib, 3, 5, 2), mlp(lib, 3, 5, 2)
    x, y = data(lib, 8, 3), lib.tensor([0, 1] * 4)
    criterion = lib.nn.CrossEntropyLoss(weight=lib.tensor([1.0, 2.0]), reduction="none")
    for part_x, part_y in zip(x.chunk(4), y.split(2)):
        (criterion(model(part_x), part_y).sum() / 8).backward()
    criterion(whole(x), y).mean().backward()
    flat = part(lib, "nn.utils").parameters_to_vector([p.grad for p in model.parameters()])
    lib.nn.utils.clip_grad_value_(whole.parameters(), 0.02)
    norms = lib.nn.utils.get_total_norm([p.grad for p in model.parameters()], norm_type=float("inf"))
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad_(n.startswith("2")).requires_grad]
    lib.nn.utils.vector_to_parameters(flat, model.parameters())
    return [flat, norms, *[p.grad for p in whole.parameters()], frozen, *model.parameters()]


def hand_written_optimizers(lib):
    class Lion(lib.optim.Optimizer):
        def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
            if not 0.0 <= lr:
                raise ValueError(f"Invalid learning rate: {lr}")
            super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("maximize", False)

        @lib.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with lib.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = lib.zeros_like(p, memory_format=lib.preserve_format)
                    m, (b1, b2) = state["exp_avg"], group["betas"]
                    p.add_((m * b1 + p.grad * (1 - b1)).sign_(), alpha=-group["lr"])
                    m.mul_(b2).add_(p.grad, alpha=1 - b2)
            return loss

    class Lookahead:
        def __init__(self, inner, k=2, alpha=0.5):
            self.inner, self.k, self.alpha, self.count = inner, k, alpha, 0
            self.param_groups, self.zero_grad, self.state_dict = inner.param_groups, inner.zero_grad, inner.state_dict
            self.slow = [[p.clone().detach() for p in g["params"]] for g in self.param_groups]

        def step(self, closure=None):
            loss = self.inner.step(closure)
            self.count += 1
            if self.count % self.k == 0:
                for group, slow in zip(self.param_groups, self.slow):
                    for p, q in zip(group["params"], slow):
                        q.add_(p.data - q, alpha=self.alpha)
                        p.data.copy_(q)
            return loss

    model = mlp(lib, 3, 4, 1)
    optimizer = Lookahead(Lion(model.parameters(), lr=1e-2, weight_decay=0.1))
    x, found = data(lib, 6, 3), []

    def closure():
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(4):
        found.append(optimizer.step(closure))
    state = optimizer.state_dict()
    fresh = Lion(model.parameters(), lr=1.0)
    fresh.load_state_dict(copy.deepcopy(state))
    first = fresh.state[model[0].weight]["exp_avg"]
    wrong = [refusal(lambda: Lion([], 0.1)), refusal(lambda: Lion(model.parameters(), -1.0)), refusal(lambda: Lion([model[0].weight * 2], 0.1)), refusal(lambda: Lion(lib.ones(1), 0.1)),
             refusal(lambda: fresh.add_param_group({"params": model[0].weight}))]  # fmt: skip
    return [found, *model.parameters(), sorted(state["state"][0]), state["param_groups"], first, fresh.param_groups[0]["lr"], fresh.param_groups[0]["maximize"], *map(Refused, wrong)]


def tied_weights_and_language_models(lib):
    nn = lib.nn

    class LM(nn.Module):
        def __init__(self, vocab=11, dim=6):
            super().__init__()
            self.encoder, self.rnn, self.decoder = nn.Embedding(vocab, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, vocab, bias=False)
            self.decoder.weight = self.encoder.weight
            self.apply(self._init)

        def _init(self, m):
            if isinstance(m, nn.Embedding):
                nn.init.constant_(m.weight, 0.1)

        def forward(self, ids, hidden=None):
            out, hidden = self.rnn(self.encoder(ids), hidden)
            return self.decoder(out), hidden

    model = filled(lib, LM())
    ids = lib.arange(12).view(2, 6) % 11
    optimizer = lib.optim.SGD(model.parameters(), lr=0.5)
    hidden, found = None, []
    for t in range(0, 4, 2):
        hidden = hidden.detach() if hidden is not None else None
        logits, hidden = model(ids[:, t : t + 2], hidden)
        loss = nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, t + 1 : t + 3].reshape(-1), ignore_index=10)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        found += [loss, loss.exp(), hidden]
    twin = copy.deepcopy(model)
    tied = [twin.decoder.weight is twin.encoder.weight, len(list(model.parameters())), len(model.state_dict()), len(list(model.named_parameters(remove_duplicate=False)))]
    return [found, tied, model.encoder.weight, sum(p.numel() for p in model.parameters() if p.requires_grad)]


def lottery_tickets(lib):
    """Pruning by size, rewinding, global pruning, masks of one's own, and what stays of it."""
    prune = part(lib, "nn.utils.prune")
    model = lib.nn.Sequential(OrderedDict(fc1=lib.nn.Linear(4, 6), act=lib.nn.ReLU(), fc2=lib.nn.Linear(6, 2)))
    filled(lib, model)
    start = copy.deepcopy(model.state_dict())

    class Checkers(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    def checkers(module, name):
        Checkers.apply(module, name)
        return module

    prune.l1_unstructured(model.fc1, name="weight", amount=0.3)
    prune.ln_structured(model.fc2, "weight", amount=1, n=2, dim=1)
    names = sorted(model.state_dict())
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    x = data(lib, 5, 4)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    with lib.no_grad():
        model.fc1.weight_orig.copy_(start["fc1.weight"])
    checkers(model.fc1, "bias")
    prune.l1_unstructured(model.fc1, "weight", amount=5)
    sparsity = [float((m.weight == 0).sum()) / m.weight.nelement() for m in (model.fc1, model.fc2)]
    history = [type(h).__name__ for h in model.fc1._forward_pre_hooks.values()]
    out = model(x)
    prune.global_unstructured(((model.fc1, "weight"), (model.fc2, "weight")), pruning_method=prune.L1Unstructured, amount=0.5)
    masks = [b.clone() for n, b in model.named_buffers() if n.endswith("mask")]
    for module in (model.fc1, model.fc2):
        prune.remove(module, "weight")
    custom = prune.custom_from_mask(lib.nn.Linear(2, 2), "bias", lib.tensor([1, 0]))
    return [names, sparsity, history, out, masks, sorted(model.state_dict()), model.fc1.weight, prune.is_pruned(model), prune.is_pruned(custom), sorted(dict(custom.named_buffers())), model.fc1.weight.is_leaf]


def gradients_that_argue(lib):
    """Several tasks: projected gradients, weights by uncertainty, norms that are balanced, and Adam by hand."""
    model = mlp(lib, 3, 6, 4)
    heads = [filled(lib, lib.nn.Linear(4, 1), seed=i) for i in range(3)]
    sigmas = lib.nn.ParameterList([lib.nn.Parameter(lib.zeros(())) for _ in heads])
    x, ys = data(lib, 6, 3), [data(lib, 6, 1, seed=i) for i in range(3)]
    shared = list(model.parameters())
    h = model(x)
    losses = [lib.nn.functional.mse_loss(head(h), y) for head, y in zip(heads, ys)]
    rows = lib.stack([lib.cat([g.flatten() for g in lib.autograd.grad(loss, shared, retain_graph=True)]) for loss in losses])
    projected = rows.clone()
    for i in range(3):
        for j in range(3):
            dot = lib.dot(projected[i], rows[j])
            if i != j and dot < 0:
                projected[i] -= dot / rows[j].norm().pow(2) * rows[j]
    agree = lib.where(rows.sign().sum(0).abs() / 3 >= 0.8, rows.mean(0), lib.zeros(()))
    weighted = sum(loss * lib.exp(-s) + s for loss, s in zip(losses, sigmas))
    weighted.backward()
    norms = lib.stack([r.norm() for r in rows])
    target = (norms.mean() * lib.stack(losses).detach() ** 0.5).detach()
    balance = (norms - target).abs().sum()
    flat, m, v = lib.nn.utils.parameters_to_vector(shared).detach(), 0, 0
    for t, g in enumerate(projected, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        flat = flat - 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    lib.nn.utils.vector_to_parameters(flat, shared)
    scales = lib.nn.utils.parameters_to_vector(p.grad for p in sigmas)
    total = lib.nn.utils.clip_grad_norm_([*shared, *sigmas], 0.1, norm_type=1, error_if_nonfinite=True, foreach=False)
    return [rows, projected, agree, weighted, scales, balance, *shared, total, [p.grad for p in shared], len(sigmas), repr(sigmas), [n for n, _ in sigmas.named_parameters()]]


def sequences_to_sequences(lib):
    """An encoder and a decoder with attention, teachers that are followed half the time, Noam's rates and a mask of what comes later."""
    nn, F = lib.nn, lib.nn.functional

    class Encoder(nn.Module):
        def __init__(self, v, d):
            super().__init__()
            self.embedding, self.rnn, self.fc = nn.Embedding(v, d, padding_idx=0), nn.GRU(d, d, bidirectional=True), nn.Linear(2 * d, d)

        def forward(self, src):
            outputs, hidden = self.rnn(self.embedding(src))
            return outputs, lib.tanh(self.fc(lib.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))

    class Decoder(nn.Module):
        def __init__(self, v, d):
            super().__init__()
            self.embedding, self.attn, self.v = nn.Embedding(v, d), nn.Linear(3 * d, d), nn.Linear(d, 1, bias=False)
            self.rnn, self.out = nn.GRU(3 * d, d), nn.Linear(4 * d, v)

        def forward(self, token, hidden, outputs, mask):
            embedded = self.embedding(token.unsqueeze(0))
            repeated = hidden.unsqueeze(1).repeat(1, outputs.shape[0], 1)
            states = outputs.permute(1, 0, 2)
            energy = lib.tanh(self.attn(lib.cat((repeated, states), dim=2)))
            a = F.softmax(self.v(energy).squeeze(2).masked_fill(mask == 0, -1e10), dim=1).unsqueeze(1)
            context = lib.bmm(a, states).permute(1, 0, 2)
            output, hidden = self.rnn(lib.cat((embedded, context), dim=2), hidden.unsqueeze(0))
            assert (output == hidden).all()
            return self.out(lib.cat((output, context, embedded), dim=2).squeeze(0)), hidden.squeeze(0), a.squeeze(1)

    class Noam:
        def __init__(self, size, factor, warmup, optimizer):
            self.optimizer, self._step, self.warmup, self.factor, self.size = optimizer, 0, warmup, factor, size

        def step(self):
            self._step += 1
            rate = self.factor * (self.size ** (-0.5) * min(self._step ** (-0.5), self._step * self.warmup ** (-1.5)))
            for p in self.optimizer.param_groups:
                p["lr"] = rate
            self.optimizer.step()
            return rate

    encoder, decoder = filled(lib, Encoder(9, 4)), filled(lib, Decoder(9, 4), seed=20)
    src, trg = lib.tensor([[1, 1], [4, 5], [6, 2], [2, 0]]), lib.tensor([[1, 1], [3, 7], [8, 2], [2, 0]])
    optimizer = Noam(4, 1, 3, lib.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0, betas=(0.9, 0.98), eps=1e-3))
    found = []
    for step in range(3):
        outputs = lib.zeros(4, 2, 9)
        states, hidden = encoder(src)
        mask, token = (src != 0).permute(1, 0), trg[0, :]
        for t in range(1, 4):
            outputs[t], hidden, attention = decoder(token, hidden, states, mask)
            top = outputs[t].argmax(1)
            token = trg[t] if (t + step) % 2 else top
        loss = F.cross_entropy(outputs[1:].view(-1, 9), trg[1:].view(-1), ignore_index=0)
        optimizer.optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(encoder.parameters(), 1)
        found += [loss, attention, optimizer.step(), top]
    bleu = collections.Counter(zip(trg[:, 0].tolist(), trg[1:, 0].tolist())) & collections.Counter(zip(top.tolist(), top.tolist()))
    later = 1 - lib.triu(lib.ones((1, 4, 4)), diagonal=1).type(lib.uint8)
    both = (trg.t() != 0).unsqueeze(-2) & later.type_as((trg.t() != 0).data)
    pe = lib.zeros(6, 4)
    position = lib.arange(0, 6).unsqueeze(1)
    div = lib.exp(lib.arange(0, 4, 2) * -(math.log(10000.0) / 4))
    pe[:, 0::2], pe[:, 1::2] = lib.sin(position * div), lib.cos(position * div)
    return [found, encoder.embedding.weight, decoder.attn.weight, dict(bleu), later, both, pe.unsqueeze(0)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_train_the_same(program):
    same(program(fl), program(torch), program.__name__, rtol=2e-4, atol=2e-5)
