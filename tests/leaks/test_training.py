"""Optimizers, schedules, context managers, data loaders and files leave nothing behind, without the collector."""

from __future__ import annotations

import copy
import inspect
import io
import threading

import numpy as np
import pytest
from support.leaks import TIMES, assert_nothing_stays, left_behind

import flambeau as fl
from flambeau import nn, optim
from flambeau.optim import lr_scheduler
from flambeau.utils.checkpoint import checkpoint
from flambeau.utils.data import DataLoader, TensorDataset


def classes_of(module, base):
    return sorted(n for n, c in vars(module).items() if inspect.isclass(c) and issubclass(c, base) and c is not base and n[0] != "_")


def step(net, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = net(fl.ones(4, 3)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


# SparseAdam takes no gradients of dense layers: tests/sparse/test_gradients.py has it.
@pytest.mark.parametrize("name", [n for n in classes_of(optim, optim.Optimizer) if n != "SparseAdam"])
def test_optimizer(name):
    def action():
        net = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
        chosen = {"Muon": lambda net: [p for p in net.parameters() if p.ndim == 2]}.get(name, lambda net: net.parameters())
        optimizer = getattr(optim, name)(chosen(net), lr=0.1)
        step(net, optimizer)
        step(net, optimizer)
        twin = copy.deepcopy(net)
        other = getattr(optim, name)(chosen(twin), lr=0.1)
        other.load_state_dict(optimizer.state_dict())
        step(twin, other)
        other.step(lambda: twin(fl.ones(1, 3)).sum())

    assert_nothing_stays(action)


# What a schedule needs beside the optimizer; a new schedule that needs nothing has no entry.
ARGUMENTS = {
    "StepLR": lambda o: (2,), "MultiStepLR": lambda o: ([1, 3],), "ExponentialLR": lambda o: (0.5,), "LambdaLR": lambda o: (lambda t: 1 / (1 + t),),
    "MultiplicativeLR": lambda o: (lambda t: 0.5,), "CosineAnnealingLR": lambda o: (4,), "CosineAnnealingWarmRestarts": lambda o: (2,),
    "CyclicLR": lambda o: (0.1, 0.2), "OneCycleLR": lambda o: (0.1, 10),
    "SequentialLR": lambda o: ([lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.5)], [2]),
}  # fmt: skip


@pytest.mark.parametrize("name", [*classes_of(lr_scheduler, lr_scheduler.LRScheduler), "ReduceLROnPlateau"])
def test_schedule(name):
    def make(optimizer):
        kind = getattr(lr_scheduler, name)
        if name == "ChainedScheduler":
            return kind([lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.5)])
        return kind(optimizer, *ARGUMENTS.get(name, lambda o: ())(optimizer))

    def action():
        net = nn.Linear(3, 2)
        optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        schedule = make(optimizer)
        for _ in range(3):
            step(net, optimizer)
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
        make(optimizer).load_state_dict(schedule.state_dict())

    assert_nothing_stays(action)


def train(net=None):
    net = net or nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    step(net, optim.Adam(net.parameters()))
    return net


def in_modes():
    x = fl.ones(4, 3, requires_grad=True)
    for mode in (fl.no_grad, fl.enable_grad, fl.inference_mode):
        with mode():
            (x * 2).sum()
    with fl.set_grad_enabled(False):
        (x * 2).sum()


def in_autocast():
    with fl.autocast("cpu", dtype=fl.bfloat16):
        train()


def in_a_failing_autocast():
    net = nn.Linear(3, 2)
    with pytest.raises(fl.ShapeError), fl.autocast("cpu", dtype=fl.bfloat16):
        net(fl.ones(4, 3)) @ fl.ones(7, 7)


def in_a_profile():
    with fl.profiler.profile(record_shapes=True, profile_memory=True) as recorded:
        train()
    assert recorded.key_averages()


def checkpointed():
    first, x = nn.Linear(3, 3), fl.ones(4, 3, requires_grad=True)
    for reentrant in (False, True):
        checkpoint(first, x, use_reentrant=reentrant).sum().backward()


def a_failing_checkpoint():
    def refuse(x):
        raise KeyError("no")

    with pytest.raises(KeyError):
        checkpoint(refuse, fl.ones(3, requires_grad=True) * 2, use_reentrant=False)


def a_failing_backward():
    x = fl.ones(100, requires_grad=True)
    y = x * 2

    def refuse(g):
        raise KeyError("no")

    y.register_hook(refuse)
    with pytest.raises(KeyError):
        y.exp().sum().backward()


def module_hooks():
    net = nn.Linear(3, 2)
    handles = [
        net.register_forward_pre_hook(lambda m, a: None), net.register_forward_hook(lambda m, a, y: None),
        net.register_full_backward_hook(lambda m, a, g: None), net.weight.register_hook(lambda g: g * 2),
    ]  # fmt: skip
    train(net)
    for handle in handles:
        handle.remove()
    train(net)


def retained():
    y = fl.ones(3, requires_grad=True) * 2
    y.retain_grad()
    y.exp().sum().backward()


def files():
    net, file = train(), io.BytesIO()
    fl.save(net.state_dict(), file)
    file.seek(0)
    net.load_state_dict(fl.load(file))


def a_failing_file():
    file = io.BytesIO()
    fl.save({"x": fl.ones(100)}, file)
    with pytest.raises(Exception):  # noqa: B017
        fl.load(io.BytesIO(file.getvalue()[:-50]))


def arrays():
    x = fl.from_numpy(np.ones((4, 3), np.float32))
    fl.from_dlpack((x * 2).numpy()).tolist()
    memoryview(x).tolist()


def gradients_of_gradients():
    x = fl.ones(5, requires_grad=True)
    (g,) = fl.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    fl.autograd.gradcheck(lambda t: t.sin(), fl.ones(2, dtype=fl.float64, requires_grad=True))


def clipped_and_scaled():
    net = train()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    nn.utils.clip_grad_value_(net.parameters(), 1.0)
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(net.parameters()), net.parameters())


def normed():
    train(nn.utils.weight_norm(nn.Linear(3, 2)))
    train(nn.utils.spectral_norm(nn.Linear(3, 2)))


def averaged():
    net = train()
    mean = optim.swa_utils.AveragedModel(net)
    mean.update_parameters(net)
    mean(fl.ones(1, 3))


def scaled_losses():
    scaler, net = fl.amp.GradScaler("cpu"), nn.Linear(3, 2)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    first, (second,) = scaler.scale([net(fl.ones(1, 3)).sum(), [net(fl.ones(2, 3)).sum()]])
    (first + second).backward()
    scaler.step(optimizer)
    scaler.update()
    list(scaler.scale(iter([fl.ones(2)])))


def lazy_layers():
    copy.deepcopy(nn.LazyLinear(3))
    with pytest.raises(fl.ShapeError):
        nn.LazyConv2d(2, 3)(fl.ones(3, 3))


def loading_hooks():
    net = train()
    net.register_load_state_dict_pre_hook(lambda module, *rest: module.train())
    net[0].register_load_state_dict_post_hook(lambda module, keys: None)
    net.register_state_dict_pre_hook(lambda module, *rest: None)
    twin = copy.deepcopy(net)
    twin.load_state_dict(net.state_dict())


def futures():
    first, never = fl.futures.Future(), fl.futures.Future()
    doubled = first.then(lambda f: f.wait() * 2)
    together = fl.futures.collect_all([first, doubled])
    never.value_of = fl.ones(3)
    never.then(lambda f: f.wait())
    first.set_result(fl.ones(3))
    assert together.wait()[1].wait().sum() == 6


PROGRAMS = [
    train, in_modes, in_autocast, in_a_failing_autocast, in_a_profile, checkpointed, a_failing_checkpoint, a_failing_backward,
    module_hooks, retained, files, a_failing_file, arrays, gradients_of_gradients, clipped_and_scaled, normed, averaged,
    scaled_losses, lazy_layers, loading_hooks, futures,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program):
    assert_nothing_stays(program)


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader(workers):
    data = TensorDataset(fl.randn(12, 3), fl.arange(12))

    def action():
        loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
        assert sum(len(x) for x, _ in loader) == 12
        next(iter(loader))  # one that is left half-way

    assert_nothing_stays(action)


def test_what_a_worker_leaves_behind_is_found():
    """Objects that another thread took count, too."""
    kept = []

    def action():
        worker = threading.Thread(target=lambda: kept.append(fl.ones(3, requires_grad=True) * 2))
        worker.start()

    size, objects = left_behind(action)
    assert size > 0 and objects >= 3 * TIMES
