"""`Pipeline`: a step by any schedule leaves what a backward of the whole batch leaves."""

from __future__ import annotations

import copy
import gc
import threading

import pytest
from support import pipelines
from support.pipelines import Call, Pop, Stash, assert_close

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Schedule
from flambeau.pipeline._pipeline import Pipeline
from flambeau.pipeline._rules import NAMES
from flambeau.pipeline.gpipe import GPipe

SCHEDULES = list(NAMES)
MODES = ["never", "except_last", "always"]
mse = nn.functional.mse_loss


def mlp(layers=8):
    return pipelines.mlp(layers, width=5)


def enough(schedule, ranks, micro_batches):
    """As many, or as many as a schedule needs."""
    return max(micro_batches, 2 * ranks) if schedule == "dualpipe-v" else micro_batches


def plain(model, x, target, loss_fn=mse):
    """Loss, gradient of x, gradients of the parameters."""
    return results(model, x, lambda x: backward(loss_fn(model(x), target)))


def backward(loss):
    loss.backward()
    return loss.detach()


def results(model, x, step):
    model.zero_grad()
    x = x.clone().requires_grad_()
    loss = step(x)
    return [loss, x.grad, *(None if p.grad is None else p.grad.clone() for p in model.parameters())]


# ---- what a step leaves


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("ranks, micro_batches, samples", [(1, 3, 6), (2, 1, 3), (2, 4, 7), (4, 2, 5), (4, 8, 9), (3, 5, 4)])
def test_a_step_is_a_backward_of_the_batch(schedule, mode, ranks, micro_batches, samples):
    model, x, target = mlp(), fl.randn(samples, 5), fl.randn(samples, 5)
    pipe = Pipeline(model, ranks, schedule=schedule, micro_batches=enough(schedule, ranks, micro_batches), checkpoint=mode)
    expected = plain(model, x, target)
    found = results(model, x, lambda x: pipe.step(x, target, mse))
    assert_close(found, expected)
    assert not found[0].requires_grad
    assert_close([pipe(x)], [model(x)])


@pytest.mark.slow
def test_bits_are_the_same_for_any_cut_schedule_and_recompute():
    """Of schedules that go backwards in one order."""
    model = nn.Sequential(*mlp(6), nn.Dropout(0.3), nn.Linear(5, 5))
    x, target = fl.randn(7, 5), fl.randn(7, 5)
    reverse = ["gpipe", "looped-bfs"]
    for names in ([name for name in SCHEDULES if name not in ("dualpipe-v", *reverse)], reverse):
        found = []
        for name in names:
            for ranks in (1, 2, 4):
                for mode in MODES:
                    pipe = Pipeline(model, ranks, schedule=name, micro_batches=4, checkpoint=mode)
                    fl.manual_seed(4)
                    found.append(results(model, x, lambda x: pipe.step(x, target, mse)))
        for other in found[1:]:
            assert_close(other, found[0], tol=0)


def test_one_micro_batch_gives_the_bits_of_the_model():
    model, x, target = mlp(), fl.randn(7, 5), fl.randn(7, 5)
    pipe = Pipeline(model, 4, micro_batches=1)
    assert_close(results(model, x, lambda x: pipe.step(x, target, mse)), plain(model, x, target), tol=0)


def test_gpipe_and_the_gpipe_schedule_draw_the_same():
    model, x = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5), nn.Linear(5, 5)), fl.randn(8, 5)
    fl.manual_seed(2)
    y = GPipe(model, [1, 2], chunks=4)(x)
    fl.manual_seed(2)
    assert_close([Pipeline(model, 3, micro_batches=4)(x)], [y], tol=0)


def test_a_custom_schedule_with_fewer_pieces_than_it_has():
    text = "rank 0: 0F0 0F1 0F2 2F0 2F1 2F2 2B1 2R0 2B0 2B2 0B1 0B0 0B2\nrank 1: 1F0 1F1 1F2 1B1 1B0 1B2"
    schedule = Schedule.parse(text)
    model = mlp()
    pipe = Pipeline(model, 2, schedule=schedule, micro_batches=3, balance=[3, 3, 2])
    for samples in (1, 2, 3, 8):
        x, target = fl.randn(samples, 5), fl.randn(samples, 5)
        assert_close(results(model, x, lambda x: pipe.step(x, target, mse)), plain(model, x, target))


def test_gradients_accumulate_and_hooks_run_once():
    model, x, target = mlp(), fl.randn(6, 5), fl.randn(6, 5)
    pipe, seen = Pipeline(model, 2, micro_batches=3), []
    once = results(model, x, lambda x: pipe.step(x, target, mse))[2:]
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    pipe.step(x, target, mse)
    assert_close([p.grad for p in model.parameters()], [g * 2 for g in once])
    assert len(seen) == len(once)


def test_gradient_flows_on_into_what_x_came_from():
    model, w, x, target = mlp(), fl.ones(5, requires_grad=True), fl.randn(6, 5), fl.randn(6, 5)
    mse(model(x * w), target).backward()
    expected, w.grad = w.grad, None
    Pipeline(model, 2, micro_batches=3).step(x * w, target, mse)
    assert_close([w.grad], [expected])


@pytest.mark.slow
def test_training_goes_down():
    model, x = mlp(4), fl.randn(16, 5)
    pipe = Pipeline(model, 2, micro_batches=4)
    optimizer = fl.optim.SGD(pipe.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        losses.append(float(pipe.step(x, x * 0.1, mse)))
        optimizer.step()
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("mode", MODES)
def test_nests_integers_and_what_is_no_tensor(mode):
    first, last = nn.Linear(5, 5), nn.Linear(5, 5)
    head = Call(lambda d: {"h": first(d["x"]), "k": d["k"], "n": d["n"], "list": [d["x"].argmax(1), None]})
    tail = Call(lambda d: last(d["h"]) * d["n"] + d["k"].unsqueeze(1) + d["list"][0].unsqueeze(1))
    head.first, tail.last = first, last
    model = nn.Sequential(head, nn.Identity(), tail)
    pipe = Pipeline(model, 3, micro_batches=3, checkpoint=mode)
    x, k, target = fl.randn(5, 5), fl.arange(5), (fl.randn(5, 5), 2.0)

    def batch(x):
        return {"x": x, "k": k, "n": 3.0}

    def loss_fn(y, target):
        return mse(y, target[0]) * target[1]

    expected = results(model, x, lambda x: backward(loss_fn(model(batch(x)), target)))
    assert_close(results(model, x, lambda x: pipe.step(batch(x), target, loss_fn)), expected)


def test_a_loss_with_parameters_is_trained_too():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(fl.ones(()))

        def forward(self, y, target):
            return mse(y * self.scale, target)

    model, loss_fn, x, target = mlp(4), Loss(), fl.randn(6, 5), fl.randn(6, 5)
    plain(model, x, target, loss_fn)
    expected, loss_fn.scale.grad = loss_fn.scale.grad, None
    Pipeline(model, 2, micro_batches=3).step(x, target, loss_fn)
    assert_close([loss_fn.scale.grad], [expected])


@pytest.mark.parametrize("mode", MODES)
def test_frozen_stages(mode):
    model, x, target = mlp(), fl.randn(6, 5), fl.randn(6, 5)
    for part in ([0], [2, 4], [6]):
        model.requires_grad_(True)
        for k in part:
            model[k].requires_grad_(False)
        pipe = Pipeline(model, 4, micro_batches=3, checkpoint=mode)
        assert_close(results(model, x, lambda x: pipe.step(x, target, mse)), plain(model, x, target))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("ranks", [2, 4])
def test_parameters_may_be_shared(ranks, schedule):
    """Within a stage and between them."""
    model = mlp()
    model[2].weight = model[6].weight = model[0].weight
    x, target = fl.randn(6, 5), fl.randn(6, 5)
    pipe = Pipeline(model, ranks, schedule=schedule, micro_batches=enough(schedule, ranks, 6))
    for _ in range(5):
        assert_close(results(model, x, lambda x: pipe.step(x, target, mse)), plain(model, x, target))


def test_autocast_holds_in_stages_and_loss():
    model, x, target = mlp(4), fl.randn(6, 5), fl.randn(6, 5)
    pipe = Pipeline(model, 2, micro_batches=2, checkpoint="always")
    with fl.autocast("cpu"):
        expected = plain(model, x, target)
        found = results(model, x, lambda x: pipe.step(x, target, mse))
    assert found[2].dtype == fl.float32
    assert_close(found, expected, tol=0.02)


# ---- the model


def test_the_state_is_the_models():
    model = mlp()
    pipe = Pipeline(model, 2, micro_batches=2)
    assert list(pipe.state_dict()) == list(model.state_dict())
    other = mlp()
    pipe.load_state_dict(other.state_dict())
    assert bool((model[0].weight == other[0].weight).all())
    nn.Sequential(nn.Identity(), pipe).load_state_dict({f"1.{key}": value * 2 for key, value in other.state_dict().items()})
    assert bool((model[0].weight == other[0].weight * 2).all())
    assert list(pipe.parameters()) == list(model.parameters())
    assert not pipe.eval().module[0].training
    clone = copy.deepcopy(pipe)
    assert_close([clone(fl.ones(2, 5))], [pipe(fl.ones(2, 5))], tol=0)


def test_forward_has_no_history():
    x = fl.randn(5, 5, requires_grad=True)
    assert not Pipeline(mlp(), 2, micro_batches=2)(x).requires_grad


@pytest.mark.parametrize("ranks, schedule, balance", [(2, "1f1b", [4, 4]), (3, "gpipe", [2, 3, 3]), (2, "interleaved", [2, 2, 2, 2])])
def test_layers_are_dealt_evenly(ranks, schedule, balance):
    assert Pipeline(mlp(), ranks, schedule=schedule, micro_batches=2).balance == balance


def test_balance_says_how_many_stages_a_rank_has():
    pipe = Pipeline(mlp(), 2, schedule="looped-bfs", micro_batches=2, balance=[2, 2, 1, 1, 1, 1])
    assert pipe._schedule_of(2).stages == 6


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"module": nn.Linear(2, 2)}, TypeError, r"module is a flambeau\S*Linear; expected an nn.Sequential"),
        ({"ranks": 0}, ValueError, "ranks = 0; expected an integer >= 1"),
        ({"micro_batches": 2.0}, ValueError, "micro_batches = 2.0; expected an integer >= 1"),
        ({"checkpoint": "some"}, ValueError, "checkpoint = 'some'; expected 'always', 'except_last' or 'never'"),
        ({"schedule": "1f2b"}, ValueError, "there is no schedule '1f2b'; did you mean '1f1b'"),
        ({"schedule": Schedule.make("gpipe", 2, 4).with_communication()}, ValueError, "REDUCE, SEND.*expected computations alone"),
        ({"schedule": "dualpipe-v", "micro_batches": 3}, ValueError, "micro_batches = 3 with 2 ranks; expected at least 4"),
        ({"schedule": "zb-v", "ranks": 5}, ValueError, "8 layers for 10 stages"),
        ({"schedule": Schedule.make("1f1b", 2, 3)}, ValueError, "2 ranks and 3 micro-batches, but ranks = 2 and micro_batches = 4"),
        ({"schedule": Schedule.parse("rank 0: 0F0 0F1 0F2 0F3\nrank 1: 1F0 1F1 1F2 1F3")}, ValueError, "has no backwards"),
        ({"ranks": 9}, ValueError, "8 layers for 9 stages"),
        ({"balance": [4, 3]}, ValueError, r"balance = \[4, 3\] \(sum 7\) for 2 stages and 8 layers"),
        ({"balance": [8, 0]}, ValueError, r"balance = \[8, 0\]"),
        ({"balance": [2, 2, 4]}, ValueError, "for 2 stages"),
        ({"balance": [2, 2, 4], "schedule": "interleaved"}, ValueError, "expected a multiple of 2"),
        ({"devices": ["cpu"]}, ValueError, "1 devices for 2 ranks"),
    ],
)
def test_faults_of_construction(options, error, text):
    arguments = {"module": mlp(), "ranks": 2, "micro_batches": 4, **options}
    with pytest.raises(error, match=text):
        Pipeline(arguments.pop("module"), arguments.pop("ranks"), **arguments)


def test_faults_of_a_step():
    pipe, x = Pipeline(mlp(), 2, micro_batches=2), fl.ones(4, 5)
    with pytest.raises(RuntimeError, match="no_grad"), fl.no_grad():
        pipe.step(x, x, mse)
    with pytest.raises(ValueError, match="different sizes"):
        pipe.step(x, fl.ones(3, 5), mse)
    with pytest.raises(ValueError, match="target requires grad"):
        pipe.step(x, fl.ones(4, 5, requires_grad=True), mse)
    with pytest.raises(ValueError, match=r"loss_fn returned flambeau.float32 \[2, 5\]"):
        pipe.step(x, x, lambda y, t: y - t)
    with pytest.raises(TypeError, match="loss_fn returned float"):
        pipe.step(x, x, lambda y, t: 1.0)
    with pytest.raises(RuntimeError, match="does not depend on anything"):
        pipe.step(x, x, lambda y, t: y.detach().sum())
    assert all(p.grad is None for p in pipe.parameters())
    pipe.requires_grad_(False)
    with pytest.raises(RuntimeError, match="nothing to train"):
        pipe.step(x, x, mse)


# ---- failures


class Boom(Exception):
    pass


@pytest.mark.parametrize("error", [Boom, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_a_failing_loss_raises_its_error_and_the_next_step_works(schedule, error):
    calls = []

    def loss_fn(y, target):
        calls.append(1)
        if len(calls) == 2:
            raise error("loss")
        return mse(y, target)

    model, x, target = mlp(), fl.randn(8, 5), fl.randn(8, 5)
    pipe = Pipeline(model, 2, schedule=schedule, micro_batches=4)
    before = threading.active_count()
    with pytest.raises(error, match="loss") as caught:
        pipe.step(x, target, loss_fn)
    assert threading.active_count() == before
    notes = "\n".join(caught.value.__notes__)
    assert "in the loss" in notes and "micro-batch 1, forward" in notes and "rank 1" in notes
    assert all(p.grad is None for p in model.parameters())
    assert_close(results(model, x, lambda x: pipe.step(x, target, loss_fn)), plain(model, x, target))


def test_a_failing_backward_raises_its_error():
    class Fails(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            raise Boom("backward")

    pipe = Pipeline(nn.Sequential(nn.Linear(5, 5), Call(Fails.apply), nn.Linear(5, 5)), 3, micro_batches=4)
    with pytest.raises(Boom, match="backward") as caught:
        pipe.step(fl.randn(8, 5), fl.randn(8, 5), mse)
    assert "in rank 1, stage 1, micro-batch 0, backward (1B0)" in "\n".join(caught.value.__notes__)


@pytest.mark.eager("how much memory there is")
@pytest.mark.parametrize("step", ["1f1b", "zb-h1", "gpipe"])
def test_steps_leave_no_memory_behind(step):
    model, x = nn.Sequential(Stash(lambda x: x.sin()), nn.Linear(5, 5), Pop()), fl.randn(8, 5)
    pipe = Pipeline(model, 3, schedule=step, micro_batches=4, checkpoint="always")
    gpipe = GPipe(model, [1, 1, 1], chunks=4)

    def once():
        if step != "gpipe":
            pipe.step(x, x, mse)
        else:
            mse(gpipe(x), x).backward()
        model.zero_grad()
        return fl.memory_stats()["allocated_bytes"]

    gc.disable()
    try:
        once()
        assert len({once() for _ in range(5)}) == 1
    finally:
        gc.enable()


# ---- what happened


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_timeline_of_a_step_is_that_of_its_schedule(schedule):
    model, x = mlp(), fl.randn(8, 5)
    pipe = Pipeline(model, 2, schedule=schedule, micro_batches=4, checkpoint="except_last")
    assert pipe.timeline is None
    pipe.step(x, x, mse)
    made = pipe._schedule_of(4)
    assert [list(actions) for actions in pipe.timeline.schedule.ranks] == [list(actions) for actions in made.ranks]
    ready = {}
    for actions, begins, ends in zip(made.ranks, pipe.timeline.begin, pipe.timeline.end):
        assert all(b <= e for b, e in zip(begins, ends)) and all(e <= b for e, b in zip(ends, begins[1:]))
        ready |= {(a.op, a.stage, a.micro): (b, e) for a, b, e in zip(actions, begins, ends)}
    for (op, stage, micro), (begin, _) in ready.items():
        if op == "F" and stage > 0:
            assert begin >= ready["F", stage - 1, micro][0]
    assert 0 <= pipe.timeline.bubble < 1 and pipe.timeline.peak == made.simulate().peak
    assert pipe.timeline.grid().count("\n") == 1


@pytest.mark.slow
def test_gradients_of_parameters_are_made_where_the_schedule_says():
    """The second half of a backward is work, and the first does not do it."""
    fl.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
    x = fl.randn(1024, 256, requires_grad=True)
    pipe = Pipeline(model, 2, schedule="zb-h1", micro_batches=2)
    with fl.profiler.profile() as seen:
        pipe.step(x, x.detach(), mse)
    counts = {e.key: e.count for e in seen.key_averages()}
    assert counts["matmul_grad_b"] == 8 and counts["LinearBackward0"] == 16


def test_a_failure_in_the_second_half_says_where():
    class Written(nn.Module):
        """Writes into what its product saved, once the first half is done."""

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(5, 5)

        def forward(self, x):
            h = x * 1
            y = self.linear(h)
            seen.append(h)
            return y

    seen = []
    model = nn.Sequential(nn.Linear(5, 5), Written())
    pipe = Pipeline(model, 1, schedule=Schedule.parse("rank 0: 0F0 0I0 0W0"), micro_batches=1)

    def spoil(grad):
        with fl.no_grad():
            seen[0].add_(1)

    model[0].register_full_backward_pre_hook(lambda module, grad: spoil(grad))
    with pytest.raises(RuntimeError, match="saved for backward at .*, and add_") as caught:
        pipe.step(fl.randn(2, 5, requires_grad=True), fl.randn(2, 5), mse)
    assert "in rank 0, stage 0, micro-batch 0, backward of the parameters (0W0)" in caught.value.__notes__
    assert all(p.grad is None for p in model.parameters())


# ---- modules of any kind


class Residual(nn.Module):
    """No Sequential, with a way around."""

    def __init__(self, width=5):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        h = self.a(x).tanh()
        return self.c(self.b(h).tanh() + h) + x


@pytest.mark.parametrize("schedule", ["1f1b", "zb-v"])
def test_a_module_of_any_kind_is_split(schedule):
    model, x, target = Residual(), fl.randn(8, 5), fl.randn(8, 5)
    pipe = Pipeline(model, 2, schedule=schedule, micro_batches=4, sample=fl.randn(2, 5))
    assert_close(results(model, x, lambda x: pipe.step(x, target, mse)), plain(model, x, target))
    assert_close([pipe(x)], [model(x)])
    assert list(pipe.state_dict()) == list(model.state_dict())
    with pytest.raises(ValueError, match="both sample and balance"):
        Pipeline(model, 2, micro_batches=4, sample=fl.randn(2, 5), balance=[1, 1])
    with pytest.raises(TypeError, match="is a .*Residual; expected an nn.Sequential, .*or sample="):
        Pipeline(model, 2, micro_batches=4)
