"""What `GPipe` leaves behind: after failures, in its state and its copies, and in memory."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections import OrderedDict

import pytest
from support.pipelines import Call, assert_close, gradients, mlp, modes

import flambeau as fl
from flambeau import nn
from flambeau.pipeline._flags import is_checkpointing, is_recomputing
from flambeau.pipeline.gpipe import GPipe

# ---- failures


class Boom(Exception):
    pass


class Fragile(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        raise Boom("in backward")


@pytest.mark.parametrize("error", [Boom, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_failing_forward_raises_its_error_and_the_next_call_works(error, where):
    active = [True]

    def fail(x):
        if active[0] and is_checkpointing() is False:
            raise error("boom")
        return x

    layers = [nn.Linear(2, 2) for _ in range(3)]
    layers.insert(where, Call(fail))
    pipe = GPipe(nn.Sequential(*layers), [1, 1, 2], chunks=3, checkpoint="never")
    before = threading.active_count()
    with pytest.raises(error, match="boom") as caught:
        pipe(fl.ones(6, 2))
    assert threading.active_count() == before
    notes = "\n".join(caught.value.__notes__)
    stage = min(where, 2)
    assert f"layer '{where}'" in notes and f"in rank {stage}, stage {stage}, micro-batch 0, forward ({stage}F0)" in notes
    assert any(entry.name == "fail" for entry in caught.traceback)
    active[0] = False
    pipe(fl.ones(6, 2)).sum().backward()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_backward_comes_through(error, monkeypatch):
    def leave(ctx, dy):
        raise error("leave")

    monkeypatch.setattr(Fragile, "backward", staticmethod(leave))
    y = GPipe(nn.Sequential(nn.Linear(2, 2), Call(Fragile.apply), nn.Linear(2, 2)), [1, 1, 1], chunks=3)(fl.ones(6, 2))
    with pytest.raises(error, match="leave"):
        y.sum().backward()


@modes
def test_a_failing_backward_raises_its_error(mode):
    layer = Call(Fragile.apply)
    pipe = GPipe(nn.Sequential(nn.Linear(2, 2), layer, nn.Linear(2, 2)), [1, 1, 1], chunks=3, checkpoint=mode)
    y = pipe(fl.ones(6, 2))
    with pytest.raises(Boom, match="in backward") as caught:
        y.sum().backward()
    assert "stage 1, micro-batch 2, backward" in "\n".join(caught.value.__notes__)
    assert pipe[0].weight.grad is None
    layer.function = lambda x: x
    pipe(fl.ones(6, 2)).sum().backward()


def test_a_failing_recompute_raises_its_error():
    def fail(x):
        if is_recomputing():
            raise Boom("again")
        return x

    y = GPipe(nn.Sequential(nn.Linear(2, 2), Call(fail)), [1, 1], chunks=3)(fl.ones(6, 2))
    with pytest.raises(Boom, match="again") as caught:
        y.sum().backward()
    assert "stage 1, micro-batch 1, recompute (1R1)" in "\n".join(caught.value.__notes__)


def test_a_failure_ends_the_ranks_before_it():
    runs = []
    first = Call(lambda x: runs.append(0) or x)
    pipe = GPipe(nn.Sequential(first, Call(lambda x: 1 / 0)), [1, 1], chunks=50)
    with pytest.raises(ZeroDivisionError):
        pipe(fl.ones(50, 2))
    assert len(runs) <= 50


class Saved(fl.autograd.Function):
    """Identity whose node keeps a tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.kept = Saved.last = x.clone()
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy


@modes
@pytest.mark.parametrize("backward", [True, False])
def test_activations_go_with_the_backward_or_the_output(mode, backward):
    alive = []

    def keep(x):
        y = Saved.apply(x)
        alive.append(weakref.ref(Saved.last))
        Saved.last = None
        return y

    gc.disable()
    y = GPipe(nn.Sequential(nn.Linear(2, 2), Call(keep)), [1, 1], chunks=2, checkpoint=mode)(fl.randn(4, 2))
    recorded = {"always": 0, "except_last": 1, "never": 2}[mode]
    assert sum(ref() is not None for ref in alive) == recorded
    if backward:
        y.sum().backward()
    else:
        del y
    gc.enable()
    assert not any(ref() is not None for ref in alive)


# ---- state


def test_keys_of_the_state_are_the_models():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    pipe = GPipe(model, [1, 2], deferred_batch_norm=True)
    keys = list(model.state_dict())
    assert list(pipe.state_dict()) == keys
    assert pipe.state_dict()._metadata["1"] == {"version": nn.BatchNorm1d._version}
    around = nn.Sequential(pipe)
    assert list(around.state_dict()) == [f"0.{key}" for key in keys]
    assert list(pipe.state_dict(prefix="p.")) == [f"p.{key}" for key in keys]


def state_of(form):
    fl.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    pipe = GPipe(model, [2, 1])
    if form == "model":
        return model.state_dict()
    if form == "pipe":
        return pipe.state_dict()
    cuts = {"0": 0, "1": 0, "2": 1} if form == "partitions 2+1" else {"0": 0, "1": 1, "2": 1}
    return OrderedDict((f"partitions.{cuts[key[0]]}.{key}", value) for key, value in model.state_dict().items())


@pytest.mark.parametrize("form", ["model", "pipe", "partitions 2+1", "partitions 1+2"])
@pytest.mark.parametrize("nested", [False, True])
def test_states_of_any_form_load(form, nested):
    state = state_of(form)
    pipe = GPipe(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)), [1, 1, 1])
    if nested:
        nn.Sequential(pipe).load_state_dict({f"0.{key}": value for key, value in state.items()})
    else:
        pipe.load_state_dict(state)
    for value, expected in zip(pipe.state_dict().values(), state.values()):
        assert bool((value == expected).all())


def test_states_with_other_keys_do_not_load():
    pipe = GPipe(mlp(), [2, 2])
    state = pipe.state_dict()
    state["9.weight"] = fl.ones(1)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "9.weight"'):
        pipe.load_state_dict(state)
    del state["9.weight"], state["2.weight"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "2.weight"'):
        pipe.load_state_dict(state)
    assert pipe.load_state_dict(state, strict=False).missing_keys == ["2.weight"]
    state["2.weight"] = fl.ones(3)
    with pytest.raises(RuntimeError, match="size mismatch for 2.weight"):
        pipe.load_state_dict(state)


def test_a_pipeline_state_loads_into_the_model():
    model = mlp()
    state = copy.deepcopy(GPipe(mlp(), [1, 3]).state_dict())
    model.load_state_dict(state)
    assert bool((model[0].weight == state["0.weight"]).all())


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_work(clone):
    pipe, x = GPipe(mlp(), [2, 2], chunks=2), fl.randn(4, 6)
    pipe(x).sum().backward()
    other = clone(pipe)
    assert_close(gradients(other, x), gradients(pipe, x), tol=0)
    assert next(other.parameters()) is not next(pipe.parameters())
