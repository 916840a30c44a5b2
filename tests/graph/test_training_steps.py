"""Whole training steps as compiled functions: gradients, optimizers, schedules and clipping come out as in eager mode, replayed or not."""

from __future__ import annotations

import copy

import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn

pytestmark = pytest.mark.filterwarnings("ignore:compile:UserWarning")
STEPS = 12  # past the 8th, which is recorded again

OPTIMIZERS = {
    "sgd": lambda p: fl.optim.SGD(p, 0.1),
    "momentum": lambda p: fl.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: fl.optim.Adam(p, 1e-2),
    "adamw": lambda p: fl.optim.AdamW(p, 1e-2, amsgrad=True),
    "rmsprop": lambda p: fl.optim.RMSprop(p, 1e-2, centered=True, momentum=0.5),
    "adagrad": lambda p: fl.optim.Adagrad(p, 1e-1, lr_decay=0.1),
    "two groups": lambda p: (lambda ps: fl.optim.Adam([{"params": ps[:2]}, {"params": ps[2:], "lr": 3e-3}], 1e-2))(list(p)),
    "an empty group": lambda p: fl.optim.Adam([{"params": list(p)}, {"params": [], "lr": 3e-3}], 1e-2),
    "written in Python": lambda p: fl.optim.NAdam(p, 1e-2),
}  # fmt: skip
REPLAYED = OPTIMIZERS.keys() - {"written in Python"}


def network():
    fl.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def batch(i):
    fl.manual_seed(100 + i)
    return fl.randn(5, 6), fl.randint(0, 3, (5,))


def plain(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def everything(net, optimizer):
    """All that a training step leaves behind, as bytes."""
    grads = [None if p.grad is None else p.grad.numpy().tobytes() for p in net.parameters()]
    state = [[v.numpy().tobytes() if isinstance(v, fl.Tensor) else v for v in entry.values()] for entry in optimizer.state_dict()["state"].values()]
    return [v.detach().numpy().tobytes() for v in net.state_dict().values()], grads, state, optimizer._fl_n_steps


def train(make, build, beside=lambda i, net, optimizer: None, mode=None, steps=STEPS):
    """The losses, what is left, and the step; `mode` False is eager."""
    net = network()
    optimizer = make(net.parameters())
    step = build(net, optimizer)
    if mode is not False:
        step = fl.compile(step, mode=mode)
    losses = []
    for i in range(steps):
        x, y = batch(i)
        loss = step(x, y)
        losses.append([loss.requires_grad, loss.is_leaf, loss.item()] if isinstance(loss, fl.Tensor) else loss)
        optimizer = beside(i, net, optimizer) or optimizer
    return (losses, everything(net, optimizer)), step


def same_everywhere(make, build, beside=lambda i, net, optimizer: None, replayed=True):
    expected, _ = train(make, build, beside, False)
    for mode in (None, "replay"):
        before = fl.compiler.stats()["replayed"]
        got, step = train(make, build, beside, mode)
        assert got == expected
        if mode == "replay":
            assert (fl.compiler.stats()["replayed"] > before) == replayed, fl.compiler.explain(step)
    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    same_everywhere(OPTIMIZERS[name], plain, replayed=name in REPLAYED)


def clipped(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        nn.utils.clip_grad_value_(net.parameters(), 0.05)
        optimizer.step()
        return loss.detach() + norm

    return step


def zeroed_in_place(net, optimizer):
    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def zeroed_at_the_end(net, optimizer):
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def accumulated(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        for part in range(2):
            (F.cross_entropy(net(x[part::2]), y[part::2]) / 2).backward()
        optimizer.step()
        return x[0, 0] * 1

    return step


def two_steps(net, optimizer):
    def step(x, y):
        for part in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y) * (part + 1)
            loss.backward()
            optimizer.step()
        return loss

    return step


def with_a_closure(net, optimizer):
    def step(x, y):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return step


def autocast(net, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        with fl.autocast("cpu", dtype=fl.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def frozen(net, optimizer):
    net[0].requires_grad_(False)
    return plain(net, optimizer)


def two_networks(net, optimizer):
    """Each step leaves gradients behind in the critic, which Module.zero_grad drops in the next."""
    critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    critic_optimizer = fl.optim.Adam(critic.parameters(), 1e-2)

    def step(x, y):
        critic.zero_grad()
        real = F.softplus(-critic(x[:, :3])).mean()
        real.backward()
        made = net(x)
        fake = F.softplus(critic(made.detach())).mean()
        fake.backward()
        critic_optimizer.step()
        net.zero_grad()
        loss = F.softplus(-critic(made)).mean()
        loss.backward()
        optimizer.step()
        return real.detach() + fake.detach() + loss.detach()

    return step


SHAPES = [two_networks, clipped, zeroed_in_place, zeroed_at_the_end, accumulated, two_steps, with_a_closure, autocast, frozen]


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("build", SHAPES, ids=lambda f: f.__name__)
def test_shapes_of_steps(build, optimizer):
    same_everywhere(OPTIMIZERS[optimizer], build)


def test_gradients_that_others_drop_keep_or_look_at():
    def build(net, optimizer):
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def beside(i, net, optimizer):
        if i not in (4, 5, 9):  # there they are added to
            optimizer.zero_grad()
        if i == 7:
            net[0].weight.grad = fl.ones(8, 6)

    same_everywhere(OPTIMIZERS["adam"], build, beside)


def scheduled(i, net, optimizer):
    optimizer.param_groups[0]["lr"] *= 0.9


def other_options(i, net, optimizer):
    if i == 5:
        optimizer.param_groups[0].update(betas=(0.5, 0.9), weight_decay=0.1)


def loaded(i, net, optimizer):
    if i == 5:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def other_count(i, net, optimizer):
    if i == 6:
        optimizer.state[net[0].weight]["step"] = 40


def other_state(i, net, optimizer):
    if i == 6:
        optimizer.state[net[0].weight]["exp_avg"] = fl.ones(8, 6)


def no_state(i, net, optimizer):
    if i == 6:
        optimizer.state.clear()


def hooked(i, net, optimizer):
    if i == 6:
        optimizer.register_step_post_hook(lambda o, args, kwargs: o.param_groups[0].update(lr=0.5))


def module_hooked(i, net, optimizer):
    if i == 6:
        net[0].register_forward_hook(lambda m, args, out: out * 0.5)


def halved(i, net, optimizer):
    if i == 6:
        net[0].register_full_backward_hook(lambda m, gin, gout: (None,))
        net[4].weight.register_hook(lambda g: g * 0.5)


def other_weights(i, net, optimizer):
    if i == 6:
        net[4].weight.data = fl.ones(3, 8) / 8


def written_weights(i, net, optimizer):
    if i == 6:
        with fl.no_grad():
            net[4].weight.copy_(fl.ones(3, 8) / 8)
            net[1].running_mean.fill_(0.5)


def other_parameter(i, net, optimizer):
    if i == 6:
        net[4].weight = nn.Parameter(fl.ones(3, 8) / 8)  # which the optimizer does not know


def other_layer(i, net, optimizer):
    if i == 6:
        net[2] = nn.Tanh()


def in_eval(i, net, optimizer):
    net.train(i not in (6, 9))


def frozen_later(i, net, optimizer):
    if i == 6:
        net[0].weight.requires_grad_(False)


def more_parameters(i, net, optimizer):
    if i == 6:
        optimizer.add_param_group({"params": [nn.Parameter(fl.ones(2))], "lr": 1.0})


def attribute(i, net, optimizer):
    if i == 6:
        net[3].p = 0.7


BESIDE = [scheduled, other_options, loaded, other_count, other_state, no_state, hooked, module_hooked, halved, other_weights, written_weights, other_parameter,
          other_layer, in_eval, frozen_later, more_parameters, attribute]  # fmt: skip


@pytest.mark.parametrize("beside", BESIDE, ids=lambda f: f.__name__)
def test_what_happens_between_steps_is_followed(beside):
    same_everywhere(OPTIMIZERS["adam"], plain, beside)


def test_a_schedule_inside_is_not_replayed():
    def build(net, optimizer):
        schedule = fl.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

        def step(x, y):
            loss = plain(net, optimizer)(x, y)
            schedule.step()
            return loss

        return step

    step = same_everywhere(OPTIMIZERS["sgd"], build, replayed=False)
    assert "options of an optimizer" in fl.compiler.explain(step)


def test_a_recorded_step_beside_does_not_disturb_replays():
    net = network()
    optimizer = fl.optim.Adam(net.parameters())
    beside = plain(net, optimizer)
    f = fl.compile(lambda x: x * 2 + 1, mode="replay")
    before = fl.compiler.stats()["replayed"]
    for i in range(STEPS):
        f(fl.ones(3))
        with fl.lazy():
            beside(*batch(i))
    assert fl.compiler.stats()["replayed"] - before >= STEPS - 6


def test_a_step_that_fails_counts_nothing():
    net, x = nn.Embedding(5, 3), fl.tensor([0, 1])
    optimizer = fl.optim.Adam(net.parameters())

    @fl.compile(mode="replay")
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(6):
        step(x)
    assert "replayed" in fl.compiler.explain(step)
    counts = [int(s["step"]) for s in optimizer.state.values()]
    weights = net.weight.detach().clone()
    with pytest.raises(IndexError, match="7"):
        step(fl.tensor([0, 7]))
    assert [s["step"] for s in optimizer.state.values()] == counts and fl.equal(net.weight, weights)
    step(x)
    assert [s["step"] for s in optimizer.state.values()] == [c + 1 for c in counts]


def test_a_returned_loss_has_been_gone_through():
    net = network()
    step = fl.compile(plain(net, fl.optim.SGD(net.parameters(), 0.1)), mode="replay")
    for i in range(7):
        loss = step(*batch(i))
        assert loss.grad_fn.name() == F.cross_entropy(net(fl.ones(2, 6)), fl.tensor([0, 1])).grad_fn.name()
        with pytest.raises(RuntimeError, match="through the graph a second time"):
            loss.backward()
    assert "replayed" in fl.compiler.explain(step)


def test_memory_of_gradients_goes_with_them():
    net = nn.Linear(200, 200)
    optimizer = fl.optim.SGD(net.parameters(), 0.1)

    @fl.compile(mode="replay")
    def step(x):
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step(fl.ones(2, 200))
    used = fl.memory_stats()["allocated_bytes"]
    kept = net.weight.grad
    step(fl.ones(2, 200) * 2)
    assert net.weight.grad is not kept and kept[0, 0].item() == 2 and net.weight.grad[0, 0].item() == 4
    assert fl.memory_stats()["allocated_bytes"] - used >= kept.nbytes
    del kept
    assert abs(fl.memory_stats()["allocated_bytes"] - used) < 2048


def test_a_gradient_that_is_dropped_goes_while_a_call_is_recorded():
    net = nn.Linear(300, 300)
    freed = []

    @fl.compile(mode="replay")
    def step(x):
        before = fl.memory_stats()["allocated_bytes"]
        net.zero_grad()
        freed.append(before - fl.memory_stats()["allocated_bytes"])
        net(x).sum().backward()

    for _ in range(3):
        step(fl.ones(2, 300))
    assert freed[0] == 0 and freed[1] >= 300 * 300 * 4, freed


@pytest.mark.slow
def test_a_network_of_images():
    x, y = fl.randn(4, 3, 16, 16), fl.tensor([0, 1, 2, 0])
    ends = []
    for mode in (False, None, "replay"):
        fl.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Conv2d(16, 32, 3, stride=2), nn.BatchNorm2d(32), nn.ReLU6(inplace=True),
                            nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, groups=32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 3))  # fmt: skip
        optimizer = fl.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        step = plain(net, optimizer)
        step = fl.compile(step, mode=mode) if mode is not False else step
        losses = [step(x * (1 + 0.1 * i), y).item() for i in range(STEPS)]
        ends.append((losses, everything(net, optimizer)))
        if mode == "replay":
            assert "replayed" in fl.compiler.explain(step)
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("name", sorted(REPLAYED - {"sgd"}))
def test_a_step_as_a_graph(name, tmp_path):
    """It has the step's numbers (rates, counts) as constants: running it does that step."""
    from flambeau.graph import Graph, record

    net = network().eval()
    optimizer = OPTIMIZERS[name](net.parameters())
    step = clipped(net, optimizer)
    for i in range(2):
        step(*batch(i))
    before = copy.deepcopy((net.state_dict(), optimizer.state_dict()))
    graph = record(step, *batch(2))
    assert [n.op for n in graph.nodes].count("optimizer_step") == 1 + (name == "two groups")
    graph.save(tmp_path / "step.safetensors")
    ends = []
    for run in (None, graph, Graph.load(tmp_path / "step.safetensors", trusted=True)):
        net.load_state_dict(before[0])
        for state, old in zip(optimizer.state.values(), before[1]["state"].values()):
            for key, value in old.items():
                if isinstance(value, fl.Tensor):
                    state[key].copy_(value)
                else:
                    state[key] = value
        if run is None:
            step(*batch(2))
        else:
            held = {v._storage_ptr(): v for v in (*net.parameters(), *net.buffers(), *(t for s in optimizer.state.values() for t in s.values() if isinstance(t, fl.Tensor)))}
            kept = graph._kept["parameters"]
            assert {k._storage_ptr() for k in kept} <= held.keys()
            run.run(*batch(2), *kept)
        ends.append([v.detach().numpy().tobytes() for v in net.state_dict().values()])
    assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("post", [False, True])
def test_hooks_of_parameters_are_noticed_at_once(post):
    """Put on and taken off between the calls of a step that is replayed."""
    w = nn.Parameter(fl.ones(3))
    optimizer = fl.optim.SGD([w], lr=0.0)

    @fl.compile(mode="replay")
    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()

    def double(parameter):
        with fl.no_grad():
            parameter.grad.mul_(2)

    before, replayed = fl.compiler.stats()["replayed"], []
    for i in range(STEPS):
        if i == 5:
            handle = w.register_post_accumulate_grad_hook(double) if post else w.register_hook(lambda g: g * 2)
        if i == 9:
            handle.remove()
        step(fl.ones(3))
        assert w.grad.tolist() == [2.0 if 5 <= i < 9 else 1.0] * 3, i
        replayed.append(fl.compiler.stats()["replayed"] - before)
    assert replayed[4] > 0  # before the hook came


def test_hooks_of_arguments_are_noticed():
    step = fl.compile(lambda x: (x * 2).sum().backward(), mode="replay")
    for i in range(STEPS):
        x = fl.ones(3, requires_grad=True)
        if i in (6, 7):
            x.register_hook(lambda g, i=i: g * i)
        step(x)
        assert x.grad.tolist() == [2.0 * (i if i in (6, 7) else 1)] * 3


WITH_TENSORS = {
    "sgd": lambda p, lr: fl.optim.SGD(p, lr, momentum=0.9, weight_decay=fl.tensor(0.01)),
    "adam": lambda p, lr: fl.optim.Adam(p, lr, betas=(fl.tensor(0.9), fl.tensor(0.99))),
    "adamw": lambda p, lr: fl.optim.AdamW(p, lr),
    "rmsprop": lambda p, lr: fl.optim.RMSprop(p, lr),
    "adagrad": lambda p, lr: fl.optim.Adagrad(p, lr),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_TENSORS)
@pytest.mark.parametrize("change", ["none", "written", "schedule", "replaced", "numpy"])
def test_options_that_are_tensors(name, change):
    """Each step looks at them again, and at those that NumPy writes, too."""

    def make(params):
        there = fl.tensor(0.1)
        if change == "numpy":
            there.numpy()
        return WITH_TENSORS[name](params, there)

    def between(i, net, optimizer):
        (group,) = optimizer.param_groups
        if change == "written":
            group["lr"].fill_(0.1 / (i + 1))
        elif change == "schedule":
            fl.optim.lr_scheduler.ExponentialLR(optimizer, 0.9).step()
        elif change == "replaced":
            group["lr"] = fl.tensor(0.1 / (i + 1)) if i % 3 else 0.02
        elif change == "numpy":
            group["lr"].numpy()[...] = 0.1 / (i + 1)

    same_everywhere(make, plain, between)


def test_a_learning_rate_that_the_step_writes():
    rates = []

    def make(params):
        rates[:] = [fl.tensor(0.1)]
        return fl.optim.SGD(params, rates[0])

    def before(net, optimizer):
        step = plain(net, optimizer)
        return lambda x, y: (rates[0].mul_(0.9), step(x, y))[1]

    def behind(net, optimizer):
        step = plain(net, optimizer)
        return lambda x, y: (step(x, y), rates[0].mul_(0.9))[0]

    assert "an option (a learning rate that is a tensor) that the call has written" in fl.compiler.explain(same_everywhere(make, before, replayed=False))
    same_everywhere(make, behind)


def test_an_optimizer_whose_state_is_loaded_goes_on():
    def loaded(i, net, optimizer):
        if i == 7:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    step = same_everywhere(OPTIMIZERS["adam"], plain, loaded)
    assert "because" not in fl.compiler.explain(step)


def _set_groups(optimizer, groups):
    optimizer.param_groups = groups


CHANGES = {
    "a group goes": lambda o: o.param_groups.pop(),
    "the first goes": lambda o: o.param_groups.pop(0),
    "all go": lambda o: o.param_groups.clear(),
    "other groups": lambda o: _set_groups(o, o.param_groups[1:]),
    "other order": lambda o: o.param_groups.reverse(),
    "a copy": lambda o: _set_groups(o, [dict(g) for g in o.param_groups]),
    "a parameter goes": lambda o: o.param_groups[0]["params"].pop(),
    "one comes": lambda o: o.add_param_group({"params": [nn.Parameter(fl.ones(2))]}),
    "momentum": lambda o: [g.update(momentum=0.9, dampening=0.5) for g in o.param_groups],
    "a step of its own": lambda o: setattr(o, "step", lambda: None),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_an_optimizer_between_steps(name):
    def make(params):
        params = list(params)
        return fl.optim.SGD([{"params": params[:2]}, {"params": params[2:], "lr": 0.03}], 0.1)

    def between(i, net, optimizer):
        if i == 8:  # two replays follow
            CHANGES[name](optimizer)

    step = same_everywhere(make, plain, between)
    assert "because" not in fl.compiler.explain(step)
