"""Checkpointed parts in compiled functions: they are replayed, and their second runs draw what the first ones drew, other numbers in each call."""

from __future__ import annotations

import signal
import threading

import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import _redraw, nn
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential

pytestmark = pytest.mark.filterwarnings("error:compile:UserWarning")
STEPS = 20  # past the 8th and the 16th, which are recorded again


def parts(p):
    fl.manual_seed(0)
    return nn.ModuleList([nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, 6)) for _ in range(3)])


def train(forward, net, mode, steps=STEPS, before=lambda i: None, **options):
    """What steps leave behind, as bytes, where the generator stands at the end, and how many of them were replayed."""
    optimizer = fl.optim.Adam(net.parameters(), 1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(forward(net, x), y)
        loss.backward()
        optimizer.step()
        return loss

    call = fl.compile(step, mode=mode, **options) if mode != "eager" else step
    fl.manual_seed(5)
    losses, replayed = [], fl.compiler.stats()["replayed"]
    for i in range(steps):
        before(i)
        losses.append(call(fl.ones(4, 6) * (i + 1), fl.ones(4, 6)).item())
    left = [v.detach().numpy().tobytes() for v in net.state_dict().values()]
    return (losses, left, fl.get_rng_state().tolist()), fl.compiler.stats()["replayed"] - replayed


def in_order(reentrant, preserve=True):
    def forward(net, x):
        x = F.dropout(x, 0.1)  # draws before, between and behind
        for part in net:
            x = x + checkpoint(part, x, use_reentrant=reentrant, preserve_rng_state=preserve)
            x = x * F.dropout(fl.ones(4, 6), 0.1)
        return x

    return forward


def nested(reentrant):
    def forward(net, x):
        def inner(x):
            return F.dropout(checkpoint(net[0], F.dropout(x, 0.2), use_reentrant=False), 0.3)

        return net[1](checkpoint(inner, x, use_reentrant=reentrant))

    return forward


def attention(reentrant):
    def forward(net, x):
        def part(x):
            q = net[0](x).reshape(1, 1, 4, 6)
            return F.scaled_dot_product_attention(q, q, q, dropout_p=0.3).reshape(4, 6)

        return checkpoint(part, x, use_reentrant=reentrant)

    return forward


def draws_of_all_kinds(reentrant):
    own = fl.Generator().manual_seed(3)

    def forward(net, x):
        def part(x):
            y = net[0](x) + fl.rand(4, 6) + fl.randn_like(x) + fl.bernoulli(fl.full((4, 6), 0.5)) + fl.randint(0, 9, (4, 6))
            y = F.dropout(y.clone(), 0.5, inplace=True) * fl.poisson(fl.ones(4, 6))
            return y + fl.empty(4, 6).uniform_() + fl.nn.functional.alpha_dropout(y, 0.1, training=True)

        return checkpoint(part, x, use_reentrant=reentrant) + fl.rand(4, 6, generator=own)  # which no second run draws from

    return forward


def in_segments(reentrant):
    return lambda net, x: checkpoint_sequential(list(net), 2, x, use_reentrant=reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("make", [in_order, nested, attention, draws_of_all_kinds, in_segments])
def test_steps_are_replayed_with_the_same_bits(make, reentrant):
    expected, _ = train(make(reentrant), parts(0.5), "eager")
    found, replayed = train(make(reentrant), parts(0.5), "replay")
    assert found == expected
    assert replayed == STEPS - 8  # four of the two first kinds of argument, and those whose number is a power of two


@pytest.mark.parametrize("reentrant", [False, True])
def test_each_call_draws_new_numbers(reentrant):
    net = parts(0.5)
    weight = net[0][0].weight

    @fl.compile(mode="replay")
    def gradient(x):
        weight.grad = None
        checkpoint(net[0], x, use_reentrant=reentrant).sum().backward()
        return weight.grad.clone()

    fl.manual_seed(1)
    first = [gradient(fl.ones(4, 6)) for _ in range(8)]
    assert fl.compiler.stats()["replayed"]
    assert len({g.numpy().tobytes() for g in first}) > 4
    fl.manual_seed(1)  # between calls: the replays draw as the calls did
    assert all(fl.equal(gradient(fl.ones(4, 6)), g) for g in first)


@pytest.mark.slow
@pytest.mark.parametrize("reentrant", [False, True])
def test_parts_that_draw_nothing(reentrant):
    expected, _ = train(in_order(reentrant), parts(0.0).eval(), "eager")
    found, replayed = train(in_order(reentrant), parts(0.0).eval(), "replay")
    assert found == expected and replayed


@pytest.mark.parametrize("reentrant", [False, True])
def test_without_preserve_rng_state_the_second_run_draws_its_own(reentrant):
    expected, _ = train(in_order(reentrant, False), parts(0.5), "eager")
    found, replayed = train(in_order(reentrant, False), parts(0.5), "replay")
    assert found == expected and replayed


@pytest.mark.parametrize("mode", [None, "lazy", "replay"])
def test_whole_graphs_may_have_checkpoints(mode):
    expected, _ = train(in_order(False), parts(0.5), "eager", steps=4)
    assert train(in_order(False), parts(0.5), mode, steps=4, fullgraph=True)[0] == expected


def test_a_seed_inside_of_the_part_is_no_replay():
    def forward(net, x):
        def part(x):
            fl.manual_seed(3)
            return net[0](x)

        return checkpoint(part, x, use_reentrant=False)

    expected, _ = train(forward, parts(0.5), "eager")
    with pytest.warns(UserWarning, match="a generator was seeded"):
        found, replayed = train(forward, parts(0.5), "replay")
    assert found == expected and not replayed


@pytest.mark.slow
def test_threads_replay_at_the_same_time():
    def run(mode, seed):
        with fl._C.held(fl._C.set_thread_generator, fl.Generator().manual_seed(seed)):
            found.append((seed, mode, gradients(mode)))

    def gradients(mode):
        weight = fl.ones(6, 6, requires_grad=True)

        def step(x):
            weight.grad = None
            checkpoint(lambda x: F.dropout(x @ weight, 0.5), x, use_reentrant=False).sum().backward()
            return weight.grad.clone()

        call = fl.compile(step, mode=mode) if mode else step
        return [call(fl.ones(4, 6)).tolist() for _ in range(60)]

    found: list = []
    for seed in (1, 2, 3):
        run(None, seed)
    threads = [threading.Thread(target=run, args=("replay", seed)) for seed in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expected = {seed: gradients for seed, mode, gradients in found if mode is None}
    assert len(found) == 6 and all(gradients == expected[seed] for seed, _, gradients in found)


def test_no_memory_of_the_part_is_kept_after_its_backward():
    """Of a reentrant checkpoint, whose node lives as long as what it has made."""
    fl.manual_seed(0)
    x = fl.randn(64, 1024, requires_grad=True)
    y = checkpoint(lambda x: (x * 2).exp(), x * 1, use_reentrant=True).sum()
    before = fl._C.memory_stats()["allocated_bytes"]
    y.backward()
    assert fl._C.memory_stats()["allocated_bytes"] == before  # the gradient in the place of the part's input


def test_ctrl_c_while_a_replay_waits_for_another_thread():
    """The interrupt is what the program sees, and no lock is left held or given back by who does not have it."""

    def step(x):
        (dx,) = fl.autograd.grad(checkpoint(F.dropout, x, use_reentrant=False).sin().sum(), x)
        return dx

    call, x = fl.compile(step, mode="replay"), fl.ones(9, requires_grad=True)
    for _ in range(6):  # the next three are replayed
        call(x)
    held, over = threading.Event(), threading.Event()

    def other():
        with _redraw._one_at_a_time:
            held.set()
            over.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    held.wait(10)
    ctrl_c = threading.Timer(0.2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    ctrl_c.start()
    replayed = fl.compiler.stats()["replayed"]
    try:
        with pytest.raises(KeyboardInterrupt):
            call(x)
    finally:
        over.set()
        thread.join()
    call(x)
    assert fl.compiler.stats()["replayed"] == replayed + 1
    found = []
    thread = threading.Thread(target=lambda: found.append(call(x)), daemon=True)
    thread.start()
    thread.join(10)
    assert found
