"""Optimizers and schedules by random programs beside PyTorch: rates, momenta and parameters after every step."""

from __future__ import annotations

import pytest
from cases import Deliberate, check

DELIBERATE = [
    Deliberate("there: .*lr as a Tensor is not supported for capturable=False and foreach=True", "there is one way to step"),
    Deliberate("there: .*all optimizer param groups should be with/without names", "names are optional"),
]

# Option and its values; the first is drawn as often as all the others together.
OPTIMIZERS = {
    "SGD": {"momentum": [0, 0.9, 0.5], "weight_decay": [0, 0.1], "nesterov": [False, True], "dampening": [0, 0.3], "maximize": [False, True]},
    "Adam": {"betas": [(0.9, 0.999), (0.5, 0.9)], "weight_decay": [0, 0.1], "amsgrad": [False, True], "maximize": [False, True], "eps": [1e-8, 1e-3], "decoupled_weight_decay": [False, True]},
    "AdamW": {"betas": [(0.9, 0.999), (0.5, 0.9)], "weight_decay": [0.01, 0.2], "amsgrad": [False, True], "maximize": [False, True]},
    "NAdam": {"betas": [(0.9, 0.999), (0.5, 0.9)], "weight_decay": [0, 0.1], "momentum_decay": [0.004, 0.1], "decoupled_weight_decay": [False, True]},
    "RAdam": {"betas": [(0.9, 0.999), (0.5, 0.9)], "weight_decay": [0, 0.1], "decoupled_weight_decay": [False, True]},
    "Adamax": {"betas": [(0.9, 0.999), (0.5, 0.9)], "weight_decay": [0, 0.1], "maximize": [False, True]},
    "Adagrad": {"lr_decay": [0, 0.1], "weight_decay": [0, 0.1], "initial_accumulator_value": [0, 0.5], "maximize": [False, True]},
    "Adadelta": {"rho": [0.9, 0.5], "weight_decay": [0, 0.1], "maximize": [False, True]},
    "Rprop": {"etas": [(0.5, 1.2), (0.3, 2.0)], "step_sizes": [(1e-6, 50), (0.01, 0.1)], "maximize": [False, True]},
    "Adafactor": {"beta2_decay": [-0.8, -0.5], "eps": [(None, 1e-3), (1e-3, 0.1)], "d": [1.0, 3.0], "weight_decay": [0, 0.1], "maximize": [False, True]},
    "RMSprop": {"alpha": [0.99, 0.5], "weight_decay": [0, 0.1], "momentum": [0, 0.9], "centered": [False, True], "maximize": [False, True]},
}
SCHEDULES = [
    "StepLR({o}, {n})", "StepLR({o}, {n}, 0.5)", "MultiStepLR({o}, [1, {n}, {n}, 5])", "ConstantLR({o}, 0.5, {n})", "LinearLR({o}, 0.25, 1.0, {n})", "LinearLR({o}, total_iters={n})",
    "ExponentialLR({o}, 0.9)", "PolynomialLR({o}, {n}, 2.0)", "CosineAnnealingLR({o}, {n})", "CosineAnnealingLR({o}, {n}, 0.001)", "CosineAnnealingWarmRestarts({o}, {n})",
    "CosineAnnealingWarmRestarts({o}, {n}, 2, 0.001)", "LambdaLR({o}, lambda e: 1 / (e + 1))", "MultiplicativeLR({o}, lambda e: 0.8)", "OneCycleLR({o}, 0.5, total_steps=20, cycle_momentum={m})",
    "OneCycleLR({o}, 0.5, epochs=4, steps_per_epoch=5, three_phase=True, anneal_strategy='linear', cycle_momentum={m})", "OneCycleLR({o}, 0.3, 6, cycle_momentum={m}, pct_start=0.5, div_factor=10)",
    "CyclicLR({o}, 0.01, 0.2, {n}, cycle_momentum={m})", "CyclicLR({o}, 0.01, 0.2, {n}, 2, mode='triangular2', cycle_momentum={m})", "CyclicLR({o}, 0.01, 0.2, {n}, mode='exp_range', gamma=0.9, cycle_momentum={m})",
]  # fmt: skip


def lr(rng):
    return rng.choice(["0.1", "0.1", "0.02", "1", "L.tensor(0.1, dtype=L.float64)"])


def constructor(rng):
    name = rng.choice(list(OPTIMIZERS))
    options = {k: v for k, v in ((k, rng.choice([v[0]] * (len(v) - 1) + v[1:])) for k, v in OPTIMIZERS[name].items()) if rng.random() < 0.7}
    if rng.random() < 0.85:
        options["lr"] = lr(rng)
    if rng.random() < 0.1:
        options["foreach"] = rng.choice(["True", "False"])
    group = rng.choice(["[p, q]", "[{'params': [p]}, {'params': [q], 'lr': 0.5}]", "[{'params': [p], 'weight_decay': 0.3}, {'params': q}]", "[{'params': [p, q]}]", "iter([p, q])", "[('p', p), ('q', q)]"])
    return f"L.optim.{name}({group}, {', '.join(f'{k}={v}' for k, v in options.items())})"


SHOW = "show = lambda o: [(float(g['lr']), isinstance(g['lr'], L.Tensor), g.get('momentum'), g.get('betas'), len(g['params'])) for g in o.param_groups]"


def start(rng):
    dtype = rng.choice(["float64", "float64", "float32"])
    return [
        SHOW,
        f"p = L.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=L.{dtype}, requires_grad=True)",
        f"q = L.tensor([0.25, -1.5, 0.0], dtype=L.{dtype}, requires_grad=True)",
        f"r = L.tensor([2.0], dtype=L.{dtype}, requires_grad=True)",
    ]


def a_step(rng, k):
    loss = rng.choice(["p.square().sum() + q.square().sum()", "(p * 3).sum() + (q * q * q).sum()", "p.sin().sum()", "(p[0] * q[:2]).sum()"])
    return [rng.choice(["o.zero_grad()", "o.zero_grad(set_to_none=False)", "o.zero_grad()", "pass"]), f"({loss} + r.square().sum()).backward()", "o.step()", "out.append([p.detach().clone(), q.detach().clone(), r.detach().clone()])"]


def optimizers(rng):
    build = constructor(rng)
    lines = [*start(rng), f"o = {build}"]
    for k in range(rng.randint(2, 5)):
        lines += a_step(rng, k)
        kind = rng.random()
        if kind < 0.1:
            lines += [f"d = {rng.choice(['o.state_dict()', 'copy.deepcopy(o.state_dict())'])}", f"o = {build}", "o.load_state_dict(d)", "out.append(show(o))"]
        elif kind < 0.17 and "('p', p)" not in build:
            lines.append(rng.choice(["o.add_param_group({'params': r})", "o.add_param_group({'params': [r], 'lr': 0.3})"]))
        elif kind < 0.22:
            lines.append("out.append(sorted(o.state_dict()['state'])); out.append([sorted(k for k in s) for s in o.state_dict()['state'].values()])")
        elif kind < 0.27:
            lines.append("o.param_groups[0]['lr'] = 0.01")
        elif kind < 0.3:
            lines.append("p.grad = None")
        elif kind < 0.33:
            lines.append("out.append(sorted(set(o.state_dict()['param_groups'][0]) - {'capturable', 'differentiable', 'foreach', 'fused'})); out.append(o.state_dict()['param_groups'][0]['params'])")
    lines.append("out.append(show(o))")
    return "\n".join(lines)


def schedule(rng, o, momentum):
    return "L.optim.lr_scheduler." + rng.choice(SCHEDULES).format(o=o, n=rng.randint(1, 6), m=momentum)


def combined(rng, o, momentum):
    kind = rng.random()
    if kind < 0.6:
        return schedule(rng, o, momentum)
    parts = [schedule(rng, o, momentum) for _ in range(rng.randint(1, 3))]
    if kind < 0.8:
        return f"L.optim.lr_scheduler.SequentialLR({o}, [{', '.join(parts)}], milestones={sorted(rng.sample(range(1, 8), len(parts) - 1))})"
    return f"L.optim.lr_scheduler.ChainedScheduler([{', '.join(parts)}]{rng.choice(['', ', ' + o])})"


def schedules(rng):
    momentum = rng.random() < 0.4
    optimizer = rng.choice([f"SGD({{g}}, lr={lr(rng)}, momentum=0.9)", f"Adam({{g}}, lr={lr(rng)})", f"AdamW({{g}}, lr={lr(rng)})"] if momentum else [f"SGD({{g}}, lr={lr(rng)})", f"Adam({{g}}, lr={lr(rng)})", f"RMSprop({{g}}, lr={lr(rng)})"])
    build = "o = L.optim." + optimizer.replace("{g}", rng.choice(["[p, q]", "[{'params': [p]}, {'params': [q], 'lr': 0.5}]", "[{'params': [p], 'lr': L.tensor(0.2, dtype=L.float64)}, {'params': [q], 'lr': 0.5}]"]))
    s = f"s = {combined(rng, 'o', momentum)}"
    lines = [*start(rng), build, s, "out.append(show(o))"]
    for k in range(rng.randint(2, 10)):
        lines += ["p.grad = p.detach() * 0.5", "o.step()", f"s.step({rng.choice([''] * 30 + [str(rng.randint(0, 9))]) if 'Sequential' not in s and 'Chained' not in s else ''})", "out.append(show(o)); out.append([float(v) for v in s.get_last_lr()])"]
        kind = rng.random()
        if kind < 0.06:
            lines += ["d, e = copy.deepcopy(o.state_dict()), copy.deepcopy(s.state_dict())", build, s, "o.load_state_dict(d); s.load_state_dict(e)", "out.append(show(o))"]
        elif kind < 0.1 and "tensor" not in build:
            lines.append("o.param_groups[0]['lr'] = 0.01")
        elif kind < 0.14:
            lines.append("out.append([float(v) for v in s.state_dict()['_last_lr']])")
        elif kind < 0.17:
            lines.append("out.append((s.last_epoch, [float(v) for v in s.base_lrs]) if hasattr(s, 'base_lrs') else None)")
    lines.append("out.append([p.detach().clone(), q.detach().clone()])")
    return "\n".join(lines)


def plateau(rng):
    options = {"mode": ["'min'", "'max'"], "factor": [0.1, 0.5], "patience": [0, 1, 2], "threshold": [1e-4, 0.1], "threshold_mode": ["'rel'", "'abs'"], "cooldown": [0, 1, 2], "min_lr": [0, 0.01, "[0.01, 0.02]"], "eps": [1e-8, 0.01]}
    chosen = ", ".join(f"{k}={rng.choice(v)}" for k, v in options.items() if rng.random() < 0.7)
    lines = [*start(rng), f"o = L.optim.SGD([{{'params': [p]}}, {{'params': [q], 'lr': 0.5}}], lr={lr(rng)})", f"s = L.optim.lr_scheduler.ReduceLROnPlateau(o, {chosen})"]
    for _ in range(rng.randint(3, 12)):
        metric = rng.choice(["1.0", "0.9", "0.5", "2", "nan", "inf", "0", "-1.0", "L.tensor(0.7)", "0.99999"])
        lines += [f"s.step({metric})", "out.append((show(o), s.get_last_lr(), s.num_bad_epochs, s.cooldown_counter, s.best, s.last_epoch))".replace("s.get_last_lr()", "[float(v) for v in s.get_last_lr()]")]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [optimizers, schedules, plateau], ids=lambda f: f.__name__)
def test_schedules(make, seed):
    check(make, seed, 400, DELIBERATE, scale=200)
