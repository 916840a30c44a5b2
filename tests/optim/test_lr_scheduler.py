"""Schedules: their values, chaining, resuming, errors."""

import math
import warnings

import pytest

import flambeau as fl
from flambeau import nn, optim
from flambeau.optim import lr_scheduler as lrs


def make(lr=1.0, **options):
    return optim.SGD([nn.Parameter(fl.zeros(1))], lr=lr, **options)


def run(opt, schedule, n):
    rates = []
    for _ in range(n):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return rates


cos = [(1 + math.cos(math.pi * t / 4)) / 2 for t in range(9)]
VALUES = {
    "StepLR": (lambda o: lrs.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
    "MultiStepLR": (lambda o: lrs.MultiStepLR(o, [1, 3, 3], 0.1), [1, 0.1, 0.1, 0.001, 0.001]),
    "ExponentialLR": (lambda o: lrs.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125]),
    "LambdaLR": (lambda o: lrs.LambdaLR(o, lambda t: 1 / (1 + t)), [1, 1 / 2, 1 / 3, 1 / 4]),
    "MultiplicativeLR": (lambda o: lrs.MultiplicativeLR(o, lambda t: 0.5), [1, 0.5, 0.25]),
    "ConstantLR": (lambda o: lrs.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
    "LinearLR": (lambda o: lrs.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1]),
    "PolynomialLR": (lambda o: lrs.PolynomialLR(o, 4, 2.0), [1, 0.5625, 0.25, 0.0625, 0, 0]),
    "CosineAnnealingLR": (lambda o: lrs.CosineAnnealingLR(o, 4), cos),
    "WarmRestarts": (
        lambda o: lrs.CosineAnnealingWarmRestarts(o, 2, 2),
        [1, 0.5, 1, cos[1], cos[2], cos[3], 1],
    ),
    "SequentialLR": (
        lambda o: lrs.SequentialLR(
            o, [lrs.ConstantLR(o, 0.1, 100), lrs.ExponentialLR(o, 0.5)], [2]
        ),
        [0.1, 0.1, 1, 0.5, 0.25],
    ),
}


@pytest.mark.parametrize("name", list(VALUES))
def test_values(name):
    build, want = VALUES[name]
    opt = make()
    assert run(opt, build(opt), len(want)) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("name", [n for n in VALUES if n != "SequentialLR"])
def test_resuming(name):
    build, want = VALUES[name]
    opt = make()
    schedule = build(opt)
    run(opt, schedule, 2)
    opt2 = make()
    again = build(opt2)
    again.load_state_dict(schedule.state_dict())
    opt2.load_state_dict(opt.state_dict())
    assert run(opt2, again, len(want) - 2) == pytest.approx(want[2:], abs=1e-12)


# What PyTorch 2.13 gives: the groups have the rate already, and the schedule is one epoch further.
RESUMED = {
    "ExponentialLR": (lambda o, **k: lrs.ExponentialLR(o, 0.9, **k), [0.0729, 0.06561, 0.059049]),
    "CosineAnnealingLR": (lambda o, **k: lrs.CosineAnnealingLR(o, 5, 1e-3, **k), [0.035203660, 0.001, 0.010454]),
    "LinearLR": (lambda o, **k: lrs.LinearLR(o, 0.1, 1.0, 4, **k), [0.0775, 0.0775, 0.0775]),
    "PolynomialLR": (lambda o, **k: lrs.PolynomialLR(o, 6, 2.0, **k), [0.025, 0.00625, 0.0]),
    "StepLR": (lambda o, **k: lrs.StepLR(o, 3, 0.5, **k), [0.05, 0.05, 0.025]),
}


@pytest.mark.parametrize("name", RESUMED)
def test_resuming_by_the_epoch_leaves_the_rate(name):
    build, want = RESUMED[name]
    opt = make(lr=0.1)
    schedule = build(opt)
    for _ in range(3):
        opt.step(), schedule.step()
    again = build(opt, last_epoch=schedule.last_epoch)
    assert again.last_epoch == 4
    found = again.get_last_lr()
    for _ in range(2):
        opt.step(), again.step()
        found = found + again.get_last_lr()
    assert found == pytest.approx(want, abs=1e-6)


def test_chained():
    opt = make()
    schedule = lrs.ChainedScheduler([lrs.ConstantLR(opt, 0.1, 2), lrs.ExponentialLR(opt, 0.5)])
    assert run(opt, schedule, 4) == pytest.approx([0.1, 0.05, 0.25, 0.125])
    assert schedule.get_last_lr() == pytest.approx([0.0625])


def test_one_cycle():
    opt = make(momentum=0.9)
    schedule = lrs.OneCycleLR(opt, max_lr=1.0, total_steps=10, pct_start=0.3)
    momenta, rates = [], []
    for _ in range(10):
        momenta.append(opt.param_groups[0]["momentum"])
        rates += schedule.get_last_lr()
        opt.step()
        if len(rates) < 10:
            schedule.step()
    assert rates[0] == pytest.approx(1 / 25) and max(rates) == rates[2] == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(1 / 25 / 1e4)
    assert momenta[0] == 0.95 and momenta[2] == 0.85 and momenta[-1] == 0.95
    schedule.step()
    with pytest.raises(ValueError, match=r"Tried to step 11 times\. The specified number of total steps is 10"):
        schedule.step()


def test_one_cycle_with_adam_turns_beta1():
    opt = optim.Adam([nn.Parameter(fl.zeros(1))])
    lrs.OneCycleLR(opt, 1.0, epochs=2, steps_per_epoch=5, anneal_strategy="linear")
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)


def test_plateau():
    opt = make()
    schedule = lrs.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    rates = []
    for metric in [1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, fl.tensor(0.1)]:
        schedule.step(metric)
        rates += schedule.get_last_lr()
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    again = lrs.ReduceLROnPlateau(make(), factor=0.5)
    again.load_state_dict(schedule.state_dict())
    assert again.best == pytest.approx(0.1)


def test_stepping_the_schedule_first_warns():
    opt = make()
    schedule = lrs.StepLR(opt, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    opt = make()
    schedule = lrs.StepLR(opt, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.step()
        schedule.step()
        schedule.step()


@pytest.mark.parametrize(
    "build, error, text",
    [
        (lambda: lrs.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda: lrs.StepLR(make(), 1, last_epoch=3), KeyError, "initial_lr"),
        (lambda: lrs.LambdaLR(make(), [abs, abs]), ValueError, "Expected 1 lr_lambdas"),
        (lambda: lrs.OneCycleLR(make(), 1.0), ValueError, "total_steps"),
        (lambda: lrs.OneCycleLR(optim.Adagrad([nn.Parameter(fl.zeros(1))]), 1.0, 5), ValueError,
         "no momentum"),
        (lambda: lrs.ReduceLROnPlateau(make(), mode="low"), ValueError, "'min' or 'max'"),
        (lambda: lrs.ConstantLR(make(), 2.0), ValueError, "Constant multiplicative factor expected to be between 0 and 1"),
    ],
)  # fmt: skip
def test_errors(build, error, text):
    with pytest.raises(error, match=text):
        build()


def test_chained_scheduler_is_a_scheduler():
    opt = make()
    chained = lrs.ChainedScheduler([lrs.ConstantLR(opt, 0.5, 2), lrs.ExponentialLR(opt, 0.5)])
    assert isinstance(chained, lrs.LRScheduler) and chained.optimizer is opt
    run(opt, chained, 2)
    state = chained.state_dict()
    assert state["_last_lr"] == chained.get_last_lr() and len(state["_schedulers"]) == 2
    other = make()
    again = lrs.ChainedScheduler([lrs.ConstantLR(other, 0.5, 2), lrs.ExponentialLR(other, 0.5)])
    again.load_state_dict(state)
    assert again.get_last_lr() == chained.get_last_lr() and again._schedulers[0].last_epoch == 2


@pytest.mark.parametrize("combine", [
    lambda o, s: lrs.SequentialLR(o, s, [2]), lambda o, s: lrs.ChainedScheduler(s, o),
], ids=["SequentialLR", "ChainedScheduler"])  # fmt: skip
def test_schedulers_that_can_not_be_combined(combine):
    opt = make()
    with pytest.raises(ValueError, match=r"does not support `ReduceLROnPlateau` scheduler, whose step\(\) wants a metric: scheduler 1; step it by itself"):
        combine(opt, [lrs.ExponentialLR(opt, 0.5), lrs.ReduceLROnPlateau(opt)])
    with pytest.raises(ValueError, match="expects all schedulers to belong to the same optimizer, but scheduler 1 has another"):
        combine(opt, [lrs.ExponentialLR(opt, 0.5), lrs.ExponentialLR(make(), 0.5)])


def test_the_older_name_of_the_base_class():
    assert issubclass(lrs._LRScheduler, lrs.LRScheduler) and not issubclass(lrs.StepLR, lrs._LRScheduler)


def test_a_constant_factor_of_zero():
    opt = make()
    assert run(opt, lrs.ConstantLR(opt, 0.0, 2), 4) == [0, 0, 1, 1]


CYCLES = {
    "triangular": ({}, [0.1, 0.3, 0.5, 0.3, 0.1, 0.3, 0.5]),
    "triangular2": ({"mode": "triangular2"}, [0.1, 0.3, 0.5, 0.3, 0.1, 0.2, 0.3]),
    "exp_range": ({"mode": "exp_range", "gamma": 0.5}, [0.1, 0.2, 0.2, 0.125, 0.1]),
    "uneven": ({"step_size_down": 1}, [0.1, 0.3, 0.5, 0.1, 0.3]),
    "own": ({"scale_fn": lambda n: 1 / n}, [0.1, 0.3, 0.5, 0.3, 0.1, 0.2, 0.3]),
}


@pytest.mark.parametrize("name", list(CYCLES))
def test_cyclic(name):
    options, want = CYCLES[name]
    opt = make()
    schedule = lrs.CyclicLR(opt, 0.1, 0.5, 2, cycle_momentum=False, **options)
    assert run(opt, schedule, len(want)) == pytest.approx(want)


def test_cyclic_momentum_goes_the_other_way_and_resumes():
    opt = make(momentum=0.9)
    schedule = lrs.CyclicLR(opt, 0.1, 0.5, 2)
    seen = []
    for _ in range(4):
        seen.append(opt.param_groups[0]["momentum"])
        opt.step()
        schedule.step()
    assert seen == pytest.approx([0.9, 0.85, 0.8, 0.85])
    again = lrs.CyclicLR(make(momentum=0.9), 0.1, 0.5, 2)
    again.load_state_dict(schedule.state_dict())
    assert again.last_epoch == 4 and again.get_lr() == schedule.get_lr()


def test_cyclic_errors():
    with pytest.raises(ValueError, match="mode = 'square'; expected one of triangular"):
        lrs.CyclicLR(make(), 0.1, 0.5, mode="square")
    with pytest.raises(ValueError, match="CyclicLR: Adagrad has no momentum"):
        lrs.CyclicLR(optim.Adagrad([nn.Parameter(fl.zeros(1))]), 0.1, 0.5)


@pytest.mark.parametrize(
    "make_schedule",
    [
        lambda o: lrs.StepLR(o, 1, 0.5),
        lambda o: lrs.CyclicLR(o, 0.1, 0.5, 2, cycle_momentum=False),
        lambda o: lrs.OneCycleLR(o, 0.5, 10, cycle_momentum=False),
        lambda o: lrs.ReduceLROnPlateau(o, patience=0),
        lambda o: lrs.SequentialLR(o, [lrs.StepLR(o, 1, 0.5), lrs.StepLR(o, 1, 0.5)], [3]),
    ],
    ids=["StepLR", "CyclicLR", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR"],
)
def test_a_rate_that_is_a_tensor_is_written_into(make_schedule):
    """Whoever holds the tensor sees the schedule; values are those of the same schedule on a number."""
    rate = fl.tensor(1.0, dtype=fl.float64)
    held, plain = make(rate), make(1.0)
    schedules = [make_schedule(held), make_schedule(plain)]
    for _ in range(4):
        for opt, schedule in zip((held, plain), schedules):
            opt.step()
            schedule.step(*([1.0] if isinstance(schedule, lrs.ReduceLROnPlateau) else []))
        assert held.param_groups[0]["lr"] is rate
        assert rate.item() == pytest.approx(plain.param_groups[0]["lr"])


def test_a_multiplicative_schedule_that_takes_over_multiplies_at_once():
    opt = fl.optim.SGD([fl.nn.Parameter(fl.zeros(1))], lr=1.0)
    parts = [fl.optim.lr_scheduler.ConstantLR(opt, 1.0, 1), fl.optim.lr_scheduler.MultiplicativeLR(opt, lambda epoch: 0.5)]
    schedule = fl.optim.lr_scheduler.SequentialLR(opt, parts, milestones=[2])
    rates = []
    for _ in range(4):
        opt.step()
        schedule.step()
        rates.append(opt.param_groups[0]["lr"])
    assert rates == [1.0, 0.5, 0.25, 0.125]


def test_a_schedule_begins_with_what_a_plateau_has_left():
    optimizer = fl.optim.SGD([fl.ones(1, requires_grad=True)], lr=0.1)
    plateau = fl.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    plateau.step(1.0)
    plateau.step(1.0)
    assert "initial_lr" not in optimizer.param_groups[0]
    assert fl.optim.lr_scheduler.ConstantLR(optimizer, 1.0).base_lrs == [pytest.approx(0.01)]


def test_a_schedule_of_a_program_knows_who_calls_it():
    seen = []

    class Mine(lrs.LRScheduler):
        def get_lr(self):
            seen.append((self._get_lr_called_within_step, self._is_initial))
            return self.base_lrs

    schedule = Mine(make())
    schedule.step()
    schedule.get_lr()
    assert seen == [(True, True), (True, False), (False, False)]
    assert {"_is_initial", "_get_lr_called_within_step"} <= schedule.state_dict().keys()


@pytest.mark.parametrize(
    "of",
    [
        lambda o: lrs.LambdaLR(o, lambda epoch: 0.5),
        lambda o: lrs.MultiplicativeLR(o, lambda epoch: 0.5),
        lambda o: lrs.CyclicLR(o, 0.1, 0.2),
        lambda o: lrs.CosineAnnealingWarmRestarts(o, 2),
    ],
)
def test_a_group_that_a_schedule_has_no_rate_for_is_refused(of):
    opt = make()
    schedule = of(opt)
    opt.add_param_group({"params": [nn.Parameter(fl.ones(1))]})
    with pytest.raises(ValueError, match=r"\d rates for \d parameter groups; a group that was added after the schedule was made has none"):
        schedule.step()


def test_a_plateau_reduces_the_rate_of_a_group_that_was_added_later():
    opt = make()
    schedule = lrs.ReduceLROnPlateau(opt, factor=0.5, patience=0, min_lr=0.01, cooldown=1)
    opt.add_param_group({"params": [nn.Parameter(fl.ones(1))], "lr": 0.4})
    before = [group["lr"] for group in opt.param_groups]
    assert not schedule.in_cooldown and schedule.mode_worse == math.inf
    schedule.step(1.0)
    schedule.step(1.0)
    assert schedule.in_cooldown
    assert [group["lr"] for group in opt.param_groups] == [max(lr * 0.5, 0.01) for lr in before]


def test_a_plateau_with_a_bound_per_group_refuses_a_group_that_was_added_later():
    opt = make()
    schedule = lrs.ReduceLROnPlateau(opt, patience=0, min_lr=[0.0] * len(opt.param_groups))
    opt.add_param_group({"params": [nn.Parameter(fl.ones(1))]})
    schedule.step(1.0)
    with pytest.raises(RuntimeError, match=r"\d min_lr for \d parameter groups, some of which were added later"):
        schedule.step(1.0)


def test_what_a_plateau_does_can_be_replaced():
    class Mine(lrs.ReduceLROnPlateau):
        def _reduce_lr(self, epoch):
            reduced.append(epoch)

    reduced = []
    schedule = Mine(make(), patience=0, mode="max")
    for metric in (1.0, 2.0, 2.0, 1.0):
        schedule.step(metric)
    assert reduced == [3, 4] and schedule._is_better(3.0, 2.0) and not schedule._is_better(2.0, 2.0)
    schedule._reset()
    assert schedule.best == -math.inf


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda o: lrs.LambdaLR(3, len), TypeError, "int is not an Optimizer"),
        (lambda o: lrs.LambdaLR(o, 3), TypeError, "LambdaLR: lr_lambda is a int; expected a function of the epoch"),
        (lambda o: lrs.MultiplicativeLR(o, [3]), TypeError, "MultiplicativeLR: lr_lambda is a int"),
        (lambda o: lrs.MultiStepLR(o, 3), TypeError, "MultiStepLR: milestones is a int; expected a list of epochs"),
        (lambda o: lrs.CosineAnnealingWarmRestarts(o, "3"), TypeError, "CosineAnnealingWarmRestarts: T_0 = '3' is a str; expected an int"),
        (lambda o: lrs.CosineAnnealingWarmRestarts(o, 1, 1.5), ValueError, "Expected integer T_mult >= 1"),
        (lambda o: lrs.OneCycleLR(o, 1.0, total_steps="3"), TypeError, "OneCycleLR: total_steps = '3' is a str"),
        (lambda o: lrs.SequentialLR(o, 3, []), TypeError, "SequentialLR: schedulers is a int; expected a list"),
        (lambda o: lrs.ChainedScheduler(3), TypeError, "ChainedScheduler: schedulers is a int; expected a list"),
        (lambda o: lrs.StepLR(o, 1).load_state_dict(3), TypeError, "StepLR.load_state_dict: state_dict is a int; expected a dict"),
    ],
)
def test_arguments_of_other_types_are_named(make, error, text):
    with pytest.raises(error, match=text):
        make(fl.optim.SGD([fl.ones(1, requires_grad=True)], lr=1.0))


@pytest.mark.parametrize("before", [False, True])
def test_a_step_that_was_replaced_after_the_schedule_was_made_is_said(before):
    p = fl.nn.Parameter(fl.ones(1))
    optimizer = fl.optim.SGD([p], lr=0.1)
    step = optimizer.step

    def replace():
        optimizer.step = lambda: step()

    if before:
        replace()
    schedule = fl.optim.lr_scheduler.StepLR(optimizer, 1)
    if not before:
        replace()
    optimizer.step()
    with warnings.catch_warnings() if before else pytest.warns(UserWarning, match="overridden after StepLR was made"):
        warnings.simplefilter("error" if before else "always")
        schedule.step()
    assert "_fl_step_before" not in schedule.state_dict()
