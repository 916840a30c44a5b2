"""`split`: segments of any module do what the module does, wherever it is cut."""

from __future__ import annotations

import copy
import cProfile
import gc
import itertools
import pickle
import random
import weakref

import pytest
from support.cuts import (
    GPT,
    MODELS,
    Call,
    ResNet,
    Tangle,
    UNet,
    assert_same,
    backward_of,
    loss_of,
    places,
    quick,
)
from support.pipelines import gradients

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline
from flambeau.pipeline._cut import split
from flambeau.pipeline._probe import Probe
from flambeau.pipeline._trace import CutError
from flambeau.pipeline.gpipe import GPipe

F = nn.functional


# ---- what segments do


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_any_cut_is_the_module_to_the_bit(name):
    make, inputs = MODELS[name]
    model, x = make(), inputs(4)
    state = copy.deepcopy(model.state_dict())
    expected = backward_of(model, model, x)
    program = places(model, x)
    allowed = [p for p in range(1, len(program.graph.nodes)) if program.allowed(p)]
    assert allowed
    for cuts in ([allowed[0]], [allowed[len(allowed) // 2]], [allowed[-1]], allowed):  # the last: a segment for each op
        model.load_state_dict(state)
        parts = quick(model, x, at=cuts)
        assert_same(backward_of(model, parts, x), expected)
        assert type(parts(x)) is type(model(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_pipeline_of_segments_sums_what_the_module_gives_for_the_micro_batches(name, stages):
    make, inputs = MODELS[name]
    model, x = make(), inputs(6)
    parts = quick(model, inputs(2), stages)
    state = copy.deepcopy(model.state_dict())
    pipe = Pipeline(parts, stages, schedule="1f1b", micro_batches=3)
    loss = pipe.step(x, fl.zeros(6), loss_of)
    found = [p.grad for p in pipe.parameters()]
    named = {id(p): g for p, g in zip(pipe.parameters(), found)}
    after = copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    model.zero_grad()
    sums, losses = {}, []
    for i in range(3):
        piece = micro(x, 2 * i, 2 * i + 2)
        value = loss_of(model(piece))
        losses.append(value.detach())
        trained = [p for p in model.parameters() if p.requires_grad]
        for p, g in zip(trained, fl.autograd.grad(value * (1 / 3), trained, allow_unused=True)):
            if g is not None:
                sums[id(p)] = sums[id(p)] + g if id(p) in sums else g
    assert float((loss - sum(losses) / 3).abs()) < 1e-6 * max(1.0, abs(float(loss)))
    assert set(named) == {id(p) for p in model.parameters()}
    for p in model.parameters():
        if id(p) in sums:
            assert fl.allclose(named[id(p)], sums[id(p)], rtol=1e-5, atol=1e-6)
    for key, value in model.state_dict().items():  # running statistics
        assert fl.allclose(after[key].double(), value.double(), rtol=1e-6), key


def micro(value, start, stop):
    if isinstance(value, fl.Tensor):
        return value[start:stop]
    if isinstance(value, dict):
        return {key: micro(entry, start, stop) for key, entry in value.items()}
    return tuple(micro(entry, start, stop) for entry in value)


@pytest.mark.slow
def test_gradients_in_a_pipeline_are_the_modules_to_the_bit():
    """1F1B adds them up in the order of the micro-batches."""
    model, x = GPT(), fl.randint(0, 11, (6, 6))
    pipe = Pipeline(quick(model, x[:2], at=["blocks.1", "blocks.2"]), 3, schedule="1f1b", micro_batches=3)
    pipe.step(x, fl.zeros(6), loss_of)
    found = [p.grad.clone() for p in model.parameters()]
    sums = None
    for i in range(3):
        grads = fl.autograd.grad(loss_of(model(x[2 * i : 2 * i + 2])) * (1 / 3), list(model.parameters()))
        sums = list(grads) if sums is None else [a + b for a, b in zip(sums, grads)]
    for (name, _), a, b in zip(model.named_parameters(), found, sums):
        if name == "token.weight":  # tied: stage 0 and stage 2 have a sum each
            assert fl.allclose(a, b, atol=1e-6)
        else:
            assert fl.equal(a, b), name


# ---- random numbers and state


@pytest.mark.slow
def test_dropout_has_the_same_bits_for_any_cut_and_recompute():
    model, x = GPT(p=0.3), fl.randint(0, 11, (5, 6))
    found = []
    for stages, checkpoint in itertools.product([1, 2, 3, 4], ["never", "except_last", "always"]):
        pipe = Pipeline(quick(model, x[:2], stages, by="size"), stages, micro_batches=3, checkpoint=checkpoint)
        fl.manual_seed(3)
        model.zero_grad()
        losses = [pipe.step(x, fl.zeros(5), loss_of) for _ in range(2)]
        grads = {name: p.grad.clone() for name, p in model.named_parameters()}
        assert not fl.equal(losses[0], losses[1])  # another draw
        assert float((grads["token.weight"]).abs().sum()) > 0
        found.append([*losses, *(g for name, g in grads.items() if name != "token.weight"), fl.rand(1)])
    for other in found[1:]:
        assert_same(other, found[0])


@pytest.mark.slow
def test_schedules_have_the_same_bits():
    """Of those that go backwards in one order."""
    model, x = GPT(p=0.2), fl.randint(0, 11, (8, 6))
    found = []
    for schedule, ranks, stages in [("1f1b", 3, 3), ("interleaved", 2, 4), ("zb-h1", 3, 3), ("zb-v", 2, 4), ("dualpipe-v", 2, 4)]:
        pipe = Pipeline(quick(model, x[:2], stages, by="size"), ranks, schedule=schedule, micro_batches=4)
        fl.manual_seed(3)
        model.zero_grad()
        loss = pipe.step(x, fl.zeros(8), loss_of)
        found.append([loss, *(p.grad.clone() for name, p in model.named_parameters() if name != "token.weight")])
    for other in found[1:]:
        assert_same(other, found[0])


def test_dropout_without_a_pipeline_moves_the_generator_once():
    model, x = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5), nn.Linear(4, 4)), fl.ones(8, 4)
    found = []
    for cuts in ([], [2], [1, 2, 3]):
        parts = quick(model, x, at=cuts)
        fl.manual_seed(1)
        found.append([parts(x), parts(x), fl.rand(1)])
        assert not fl.equal(*found[-1][:2])
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["never", "always"])
def test_running_statistics_are_those_of_the_micro_batches_once_each(checkpoint):
    model, x = ResNet(), fl.randn(6, 3, 6, 6)
    twin = copy.deepcopy(model)
    pipe = Pipeline(quick(model, x[:2], 3), 3, micro_batches=3, checkpoint=checkpoint)
    pipe.step(x, fl.zeros(6), loss_of)
    for i in range(3):
        twin(x[2 * i : 2 * i + 2])
    for (key, a), b in zip(model.state_dict().items(), twin.state_dict().values()):
        assert fl.equal(a, b), key
    assert int(model.blocks[0].bn1.num_batches_tracked) == 3


def test_splitting_leaves_the_module_and_the_generator_as_they_are():
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten()), fl.randn(2, 3, 5, 5)
    model[0].weight.requires_grad_(False)
    state, flags = copy.deepcopy(model.state_dict()), [p.requires_grad for p in model.parameters()]
    ids = [id(p) for p in model.parameters()]
    fl.manual_seed(5)
    split(model, x, 2, seconds=0.01)
    seen = fl.rand(3)
    fl.manual_seed(5)
    assert fl.equal(seen, fl.rand(3))
    assert_same(list(model.state_dict().values()), list(state.values()))
    assert flags == [p.requires_grad for p in model.parameters()]
    assert ids == [id(p) for p in model.parameters()]
    assert all(p.grad is None for p in model.parameters())
    assert not model._forward_hooks and not model[0]._forward_pre_hooks


@pytest.mark.slow
def test_frozen_parameters_get_no_gradient_until_they_are_trained():
    model, x = GPT(), fl.randint(0, 11, (4, 6))
    for p in model.blocks[0].parameters():
        p.requires_grad_(False)
    pipe = Pipeline(quick(model, x[:2], 2), 2, micro_batches=2)
    pipe.step(x, fl.zeros(4), loss_of)
    assert all(p.grad is None for p in model.blocks[0].parameters())
    assert all(p.grad is not None for p in model.blocks[1].parameters())
    for p in model.blocks[0].parameters():
        p.requires_grad_(True)
    expected = backward_of(model, model, x)
    assert_same(backward_of(model, pipe.module, x), expected)
    pipe.step(x, fl.zeros(4), loss_of)
    assert all(p.grad is not None for p in model.blocks[0].parameters())


@pytest.mark.slow
def test_a_tied_parameter_is_in_both_segments_and_once_among_all():
    model, x = GPT(), fl.randint(0, 11, (4, 6))
    parts = quick(model, x, at=["blocks.1"])
    assert any(p is model.token.weight for p in parts[0].parameters())
    assert any(p is model.token.weight for p in parts[1].parameters())
    assert sorted(map(id, parts.parameters())) == sorted(map(id, model.parameters()))


def test_parameters_that_the_forward_does_not_use_are_still_there():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model.spare = nn.Linear(2, 2)
    model.forward = lambda x: model[1](model[0](x))
    used = Call(lambda m, x: m.b(m.a(x)))
    parts = quick(used, fl.ones(2, 3), 2)
    assert sorted(map(id, parts.parameters())) == sorted(map(id, used.parameters()))


# ---- sizes and modes


@pytest.mark.slow
@pytest.mark.parametrize("samples", [7, 5, 3, 1])
def test_uneven_micro_batches_are_recorded_each_once(samples):
    model, x = ResNet().eval(), fl.randn(samples, 3, 6, 6)
    pipe = Pipeline(quick(model, fl.randn(2, 3, 6, 6), 2), 2, micro_batches=3)
    assert fl.allclose(pipe(x), model(x), atol=1e-6)
    pipe(x)
    sizes = {len(range(i, samples, 3)) for i in range(min(samples, 3))}
    assert len(pipe.module[0].recordings.programs) == len(sizes | {2})
    loss = pipe.step(x, fl.zeros(samples), lambda y, t: (y * y).mean())
    assert fl.allclose(loss, (model(x) ** 2).mean(), atol=1e-6)


@pytest.mark.slow
def test_copies_of_segments_are_prepared_for_other_sizes():
    model, x = ResNet().eval(), fl.randn(3, 3, 6, 6)
    parts = quick(model, x[:2], 2)
    first, second = pickle.loads(pickle.dumps(parts)), pickle.loads(pickle.dumps(parts))
    expected = model(x)
    passed = first[0](x)
    with pytest.raises(CutError, match=r"segment 1 has no recording 1 that segment 0 has; expected prepare\(sample\)"):
        second[1](passed)
    second.prepare(x)
    assert fl.equal(second[1](passed), expected)


@pytest.mark.slow
def test_train_and_eval_are_recorded_each_with_the_cuts_at_the_same_places():
    model, x = GPT(p=0.4), fl.randint(0, 11, (4, 6))
    parts = quick(model, x[:2], at=["blocks.1", "blocks.2.mlp"])
    pipe = Pipeline(parts, 3, micro_batches=2)
    pipe.eval()
    assert not model.training and not model.blocks[0].training
    assert fl.allclose(pipe(x), model(x), atol=1e-6)
    pipe.train()
    assert model.training
    assert not fl.allclose(pipe(x), model.eval()(x), atol=1e-6)
    recordings = parts[0].recordings
    assert len(recordings.programs) == 2
    starts = [[str(p.found.places[c]) for c in cuts[1:-1]] for p, cuts in zip(recordings.programs, recordings.cuts)]
    assert starts[0] == starts[1]


def test_a_number_of_the_module_that_changes_is_recorded_again():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.scale = nn.Linear(3, 3), 1.0

        def forward(self, x):
            return self.linear(x) * self.scale

    model, x = Scaled(), fl.randn(2, 3)
    parts = quick(model, x, 2)
    before = parts(x)
    model.scale = 2.0
    assert fl.equal(parts(x), before * 2)


def test_other_ops_for_another_size_are_an_error_that_names_the_line():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.Linear(3, 3)

        def forward(self, x):
            h = x[:, 0]
            for t in range(1, x.shape[1]):
                h = self.cell(h).tanh() + x[:, t]
            return h

    model = Loop()
    pipe = Pipeline(quick(model, fl.randn(2, 4, 3), 2), 2, micro_batches=2)
    pipe(fl.randn(4, 4, 3))
    with pytest.raises(CutError, match=r"does something else than for the one that was cut: op 9 \(linear, cell, test_cut.py:\d+\) where there"):
        pipe(fl.randn(4, 6, 3))
    assert pipe(fl.randn(4, 4, 3)).shape == (4, 3)


# ---- placement, state


@pytest.mark.slow
def test_the_state_dict_does_not_depend_on_the_cut():
    model, x = ResNet(), fl.randn(2, 3, 6, 6)
    keys = list(model.state_dict())
    for stages in (1, 3):
        parts = quick(model, x, stages)
        pipe = Pipeline(parts, stages, micro_batches=1)
        assert list(parts.state_dict()) == list(pipe.state_dict()) == keys
    other = ResNet()
    assert not fl.equal(other.stem.weight, model.stem.weight)
    pipe = Pipeline(quick(other, x, 2), 2, micro_batches=1)
    pipe.load_state_dict(parts.state_dict())
    assert_same(list(other.state_dict().values()), list(model.state_dict().values()))
    assert fl.equal(pipe.eval()(x), model.eval()(x))


@pytest.mark.slow
def test_loading_by_assignment_takes_the_new_parameters():
    model, x = ResNet(), fl.randn(2, 3, 6, 6)
    parts = quick(model, x, 2)
    state = copy.deepcopy(ResNet().state_dict())
    parts.load_state_dict(state, assign=True)
    assert sorted(map(id, parts.parameters())) == sorted(map(id, model.parameters()))
    assert_same(backward_of(model, parts, x)[:1], [model(x)])
    assert all(p.grad is not None for p in parts.parameters())
    assert fl.equal(parts.eval()(x), model(x))


def test_a_program_that_is_profiled():
    """The profiler sees the main thread, where the module is cut, and not those of the ranks, which record a smaller batch."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x).relu()) + x

    net, x = Net(), fl.randn(7, 4)
    want = nn.functional.mse_loss(net(x), x)
    with cProfile.Profile():
        pipe = Pipeline(net, 2, sample=x[:2], micro_batches=4)
        got = pipe.step(x, x, nn.functional.mse_loss)
    assert fl.allclose(got, want)


@pytest.mark.slow
def test_a_split_inside_of_a_larger_model_loads_under_its_names():
    model = nn.Sequential(quick(ResNet(), fl.randn(2, 3, 6, 6), 2), nn.Linear(5, 2))
    plain = nn.Sequential(ResNet(), nn.Linear(5, 2))
    assert list(model.state_dict()) == list(plain.state_dict())
    model.load_state_dict(plain.state_dict())
    x = fl.randn(2, 3, 6, 6)
    assert fl.equal(model.eval()(x), plain.eval()(x))
    state = plain.state_dict()
    del state["0.stem.bias"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\).*"0.stem.bias"'):
        model.load_state_dict(state)


def test_casting_casts_the_module():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), fl.randn(4, 3)
    parts = quick(model, x, at=[1])
    parts.double()
    assert model[0].weight.dtype == model[1].running_mean.dtype == fl.float64
    assert sorted(map(id, parts.parameters())) == sorted(map(id, model.parameters()))
    assert parts(x.double()).dtype == fl.float64


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["never", "except_last", "always"])
def test_gpipe_takes_segments(checkpoint):
    model, x = UNet(), fl.randn(4, 3, 8, 8)
    pipe = GPipe(quick(model, x[:2], 3), [1, 1, 1], chunks=2, checkpoint=checkpoint)
    expected = backward_of(model, model, x)
    found = backward_of(model, pipe, x)
    for a, b in zip(found, expected):
        assert fl.allclose(a, b, atol=1e-5)
    pipe.eval()
    assert not model.training and fl.allclose(pipe(x), model(x), atol=1e-6)


def test_another_call_takes_several_arguments():
    model = nn.Bilinear(3, 4, 5)
    x = (fl.randn(2, 3), fl.randn(2, 4))
    parts = quick(model, x, 1, call=lambda m, pair: m(*pair))
    assert fl.equal(parts(x), model(*x))


@pytest.mark.slow
def test_autocast_is_recorded():
    model, x = GPT(), fl.randint(0, 11, (4, 6))
    parts = quick(model, x, 2)
    plain = parts(x)
    with fl.autocast("cpu", dtype=fl.bfloat16):
        expected, found = model(x), parts(x)
    assert found.dtype == expected.dtype and fl.equal(found, expected)
    assert fl.equal(parts(x), plain)


@pytest.mark.slow
def test_a_copy_of_segments_has_parameters_of_its_own():
    model, x = ResNet().eval(), fl.randn(2, 3, 6, 6)
    parts = quick(model, x, 2)
    other = copy.deepcopy(parts)
    before = model(x)
    with fl.no_grad():
        for p in other.parameters():
            p.zero_()
    assert fl.equal(parts(x), before) and not fl.equal(other(x), before)
    assert all(p is not q for p, q in zip(other.parameters(), parts.parameters()))


@pytest.mark.eager("it looks at living objects")
def test_the_recorded_copy_is_let_go():
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen.append(weakref.ref(self))
            return super().forward(x)

    parts = quick(nn.Sequential(Watched(3, 3), Watched(3, 3)), fl.ones(2, 3), 2)
    parts(fl.ones(5, 3))
    gc.collect()
    assert seen and all(ref() is None for ref in seen)


# ---- segments in several processes


class Kept(nn.Module):
    """Constants, buffers and a weight that two segments use; one buffer is used in eval mode alone."""

    def __init__(self):
        super().__init__()
        self.ends, self.middle = nn.Linear(4, 4), nn.Linear(4, 4)
        for name in ("first", "last", "spare", "sometimes"):
            self.register_buffer(name, fl.rand(4))
        self.row = fl.rand(4)

    def forward(self, x):
        x = self.ends(x) * self.first + fl.tensor([1.0, 2.0, 3.0, 4.0])
        x = self.middle(x).tanh()
        if not self.training:
            x = x + self.sometimes
        x = (x + self.row) * fl.tensor([4.0, 3.0, 2.0, 1.0]) + self.last
        return F.linear(x, self.ends.weight)


def kept(segment, modes=True):
    model, x = Kept(), fl.rand(3, 4)
    parts = quick(model, x, at=["middle"])
    if modes:
        parts.prepare_modes(x)
    parts.keep([segment])
    return model, parts


@pytest.mark.parametrize("segment, modes, expected", [
    (0, True, {"ends.weight", "ends.bias", "first", "spare"}),
    (1, True, {"ends.weight", "middle.weight", "middle.bias", "last", "sometimes"}),
    (0, False, {"ends.weight", "ends.bias", "first", "spare", "sometimes"}),
])  # fmt: skip
def test_a_process_keeps_what_its_segments_use(segment, modes, expected):
    model, parts = kept(segment, modes)
    assert {key for key, x in model.state_dict().items() if not x.is_meta} == expected
    for program, cuts in zip(parts.recordings.programs, parts.recordings.cuts):
        used = program.buffers(*cuts[segment : segment + 2])
        assert 0 < len(program.graph.constants) and set(program.graph.constants) <= used
        for buffer, x in program.found.held.items():
            assert x.is_meta or buffer in used
    assert len(parts.recordings.programs) == 1 + modes


@pytest.mark.slow
@pytest.mark.parametrize("samples", [3, 5, 1])
@pytest.mark.parametrize("training", [True, False])
def test_processes_with_segments_do_what_the_module_does(samples, training):
    """Of sizes, too, that are met when the bytes are gone."""
    fl.manual_seed(0)
    expected = Kept()
    found = []
    for segment in (0, 1):
        fl.manual_seed(0)
        found.append(kept(segment)[1].train(training))
        found[-1].prepare(fl.rand(samples, 4))
    x = fl.rand(samples, 4)
    expected.train(training)
    assert fl.equal(found[1][1](found[0][0](x)), expected(x))


@pytest.mark.slow
def test_recordings_of_other_sizes_perform_no_op_of_what_is_elsewhere(monkeypatch):
    _, parts = kept(1)

    def performed(*args):
        raise AssertionError

    monkeypatch.setattr(Probe, "derivatives", performed)
    for mode in (True, False):
        parts.train(mode).prepare(fl.rand(5, 4))
    assert len(parts.recordings.programs) == 4
    monkeypatch.undo()
    parts.original.added = 1  # another mode
    parts.prepare(fl.rand(5, 4))
    assert len(parts.recordings.programs) == 5


@pytest.mark.slow
def test_what_no_process_has_kept_is_an_error_that_says_who_has_it():
    model, parts = kept(1, modes=False)
    parts.eval()
    with pytest.raises(CutError, match="in this mode segment 1 uses 'sometimes', which is in the process of segment 0; make the pipeline"):
        parts.prepare(fl.rand(3, 4))
    parts.train()
    parts.prepare(fl.rand(5, 4))
    assert len(parts.recordings.programs) == 2


@pytest.mark.slow
def test_modes_are_as_they_were_after_both_are_recorded():
    model = ResNet()
    model.blocks[1].bn1.eval()
    before = [part.training for part in model.modules()]
    parts = quick(model, fl.randn(2, 3, 6, 6), 2)
    parts.prepare_modes(fl.randn(2, 3, 6, 6))
    assert [part.training for part in model.modules()] == before
    assert len(parts.recordings.programs) == 3  # with the mixed one


def test_a_mode_in_which_the_forward_fails_is_not_recorded():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval(), fl.rand(1, 3)
    parts = quick(model, x, 2)
    parts.prepare_modes(x)
    assert len(parts.recordings.programs) == 1 and not model[1].training
    with pytest.raises(fl.ShapeError, match="Expected more than 1 value per channel when training"):
        parts.train()(x)


# ---- at random


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_modules_with_random_cuts(seed):
    rng = random.Random(seed)
    model, x = Tangle(seed), fl.randn(7, 4)
    trained = [p for p in model.parameters() if rng.random() < 0.8]
    for p in model.parameters():
        p.requires_grad_(any(p is q for q in trained))
    program = places(model, fl.randn(2, 4))
    allowed = [p for p in range(1, len(program.graph.nodes)) if program.allowed(p)]
    found = []
    for _ in range(3):
        cuts = sorted(rng.sample(allowed, min(len(allowed), rng.randint(0, 3))))
        stages, state = len(cuts) + 1, copy.deepcopy(model.state_dict())
        parts = quick(model, fl.randn(2, 4), at=cuts)
        pipe = Pipeline(parts, stages, micro_batches=3, checkpoint=rng.choice(["never", "always"]))
        fl.manual_seed(seed)
        leaf = x.clone().requires_grad_()
        model.zero_grad()
        loss = pipe.step(leaf, fl.zeros(7), loss_of)
        found.append([loss, leaf.grad, *(p.grad for p in model.parameters())])
        model.load_state_dict(state)
    for other in found[1:]:
        for a, b in zip(other, found[0]):
            assert (a is None) == (b is None)
            assert a is None or fl.allclose(a, b, rtol=1e-4, atol=1e-5)
    model.eval()
    parts.eval()
    for a, b in zip(parts(x), model(x)):
        assert fl.allclose(a, b, atol=1e-6)


class Routed(nn.Module):
    """Indices that its own ops compute."""

    def __init__(self):
        super().__init__()
        self.gate, self.table, self.out = nn.Linear(6, 4), nn.Embedding(4, 6), nn.Linear(6, 3)
        self.experts = nn.Parameter(fl.randn(4, 6))

    def forward(self, x):
        scores = self.gate(x)
        best = scores.argmax(1)
        x = x * self.experts[best] * scores.gather(1, best[:, None]) + self.table(best + 0)
        return self.out(x.tanh())


@pytest.mark.slow
def test_indices_that_are_computed():
    fl.manual_seed(5)
    model, x = Routed(), fl.randn(7, 6)
    y, dx, _ = gradients(model, x)
    expected = [y, dx, *(p.grad.clone() for p in model.parameters())]
    parts = split(model, x, 3, seconds=0.0)
    y, dx, _ = gradients(parts, x)
    for found, wanted in zip([y, dx, *(p.grad for p in model.parameters())], expected):
        assert fl.equal(found, wanted)
    assert fl.allclose(Pipeline(model, 2, sample=x[:2], micro_batches=3)(x), expected[0], 1e-5, 1e-6)


class Placed(nn.Module):
    """Positions, and chances, that are buffers."""

    def __init__(self):
        super().__init__()
        self.table, self.first, self.last = nn.Embedding(12, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.register_buffer("positions", fl.arange(12))
        self.register_buffer("chances", fl.full((6,), 0.5))

    def forward(self, x):
        x = self.first(x + self.table(self.positions[: x.shape[1]])) * self.chances.bernoulli()
        return self.last(x.relu())


def test_sizes_are_recorded_where_buffers_are_elsewhere():
    parts = split(Placed(), fl.randn(2, 4, 6), 2, seconds=0.0)
    parts.keep([1])
    junk = [fl.full((n,), 10**12) for n in (6, 12) for _ in range(50)]
    del junk  # what memory holds that is not written
    parts.prepare(fl.randn(2, 5, 6))
    with pytest.raises(CutError, match=r"segments \[0\] are to be kept in a process that has kept \[1\]"):
        parts.keep([0])
