"""`GPipe`: a module like any other, but for its threads. Its construction, and what may go through it."""

from __future__ import annotations

import warnings
from collections import OrderedDict

import pytest
from support.pipelines import Call, assert_close, mlp, modes

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline
from flambeau.pipeline.gpipe import GPipe
from flambeau.pipeline.skip import skippable

# ---- construction, in the order of the checks


def test_options_are_coerced():
    class Always:
        def __str__(self):
            return "always"

    pipe = GPipe(mlp(), (n for n in (2, 2)), devices=["cpu", fl.device("cpu"), "cpu"], chunks=42.0, checkpoint=Always())
    assert (pipe.balance, pipe.chunks, pipe.checkpoint) == ([2, 2], 42, "always")
    assert pipe.devices == [fl.device("cpu")] * 2
    assert isinstance(pipe.chunks, int) and isinstance(pipe.checkpoint, str)


def repeated():
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, layer)


def shared():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    b.weight = a.weight
    return nn.Sequential(a, b)


@skippable(pop=["x"])
class Pops(nn.Module):
    pass


@pytest.mark.parametrize(
    "module, balance, options, error, text",
    [
        (mlp, None, {}, ValueError, "balance is required"),
        (mlp, None, {"chunks": 0}, ValueError, "balance is required"),
        (mlp, [4], {"chunks": 0}, ValueError, "number of chunks must be positive integer"),
        (mlp, [4], {"chunks": -1}, ValueError, "number of chunks must be positive integer"),
        (mlp, [4], {"checkpoint": "INVALID"}, ValueError, "checkpoint is not one of 'always', 'except_last', or 'never'"),
        (lambda: nn.ModuleList([nn.Linear(2, 2)]), [1], {}, TypeError, "module must be nn.Sequential to be partitioned"),
        (repeated, [1, 1], {}, ValueError, "module with duplicate children is not supported"),
        (shared, [1, 1], {}, ValueError, "module with duplicate parameters in distinct children is not supported"),
        (shared, [2], {}, ValueError, "module with duplicate parameters in distinct children is not supported"),
        (lambda: nn.Sequential(Pops()), [9], {}, TypeError, "one or more pairs of stash and pop do not match:"),
        (mlp, [2], {"devices": ["nowhere"]}, ValueError, "nowhere"),
        (mlp, [2], {}, ValueError, r"module and sum of balance have different length \(module: 4, sum of balance: 2\)"),
        (mlp, [5, -1], {}, ValueError, r"all balance numbers must be positive integer \(balance: \[5, -1\]\)"),
        (mlp, [4, 0], {}, ValueError, r"all balance numbers must be positive integer \(balance: \[4, 0\]\)"),
        (mlp, [2, 2], {"devices": ["cpu"]}, IndexError, r"too few devices to hold given partitions \(devices: 1, partitions: 2\)"),
    ],
)
def test_faults_of_construction(module, balance, options, error, text):
    with pytest.raises(error, match=text):
        GPipe(module(), balance, **options)


def test_a_device_that_is_not_there_changes_nothing():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with pytest.raises(RuntimeError, match="cuda"):
        GPipe(model, [1, 1], devices=["cpu", "cuda:0"], deferred_batch_norm=True)
    assert type(model[1]) is nn.BatchNorm1d


@pytest.mark.parametrize("balance", [None, [1], [4, 0]], ids=str)
def test_faults_of_the_balance_say_how_to_get_one(balance):
    with pytest.raises(ValueError, match=r"flambeau\.pipeline\.balance[\s\S]*balance_by_time"):
        GPipe(mlp(), balance)


def test_partitions_hold_the_users_layers_under_their_names():
    model = nn.Sequential(OrderedDict(a=nn.Linear(2, 2), b=nn.ReLU(), c=nn.Linear(2, 2)))
    pipe = GPipe(model, [1, 2])
    assert isinstance(pipe.partitions, nn.ModuleList) and all(type(p) is nn.Sequential for p in pipe.partitions)
    assert [list(p._modules) for p in pipe.partitions] == [["a"], ["b", "c"]]
    assert pipe[0] is model[0] and pipe[-1] is model[2] and len(pipe) == 3 and list(pipe) == list(model)
    assert list(pipe.parameters()) == list(model.parameters())
    with pytest.raises(AttributeError):
        _ = pipe.a
    for index in (3, -4):
        with pytest.raises(IndexError):
            _ = pipe[index]
    with pytest.raises(TypeError):
        _ = pipe[:2]


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.cuda(),
        lambda m: m.cpu(),
        lambda m: m.to(fl.device("cpu")),
        lambda m: m.to(0),
        lambda m: m.to("cpu"),
        lambda m: m.to(device="cpu"),
        lambda m: m.to(fl.rand(1)),
        lambda m: m.to(tensor=fl.rand(1)),
    ],
)
def test_moving_is_denied(move):
    with pytest.raises(TypeError, match="denied to move parameters and buffers, because GPipe should manage device placement"):
        move(GPipe(mlp(), [2, 2]))


@pytest.mark.parametrize("cast", [lambda m: m.half(), lambda m: m.to(fl.float16), lambda m: m.to(dtype=fl.float16)])
def test_casting_is_allowed(cast):
    model = mlp()
    assert isinstance(cast(GPipe(model, [2, 2])), GPipe)
    assert model[0].weight.dtype == fl.float16


# ---- only the layers are called, so what stands around them is refused


class AddsAtTheEnd(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + 100


def hooked():
    model = mlp()
    model.register_forward_hook(lambda module, inputs, output: output + 100)
    return model


def pipelines(module):
    return [lambda: GPipe(module, [2, 2]), lambda: Pipeline(module, 2, micro_batches=2)]


@pytest.mark.parametrize("which", [0, 1], ids=["GPipe", "Pipeline"])
def test_what_a_sequential_does_besides_calling_its_layers_is_refused(which):
    with pytest.raises(TypeError, match="module is a AddsAtTheEnd with a forward of its own.*Pipeline"):
        pipelines(AddsAtTheEnd(*mlp()))[which]()
    with pytest.raises(ValueError, match="module has hooks.*register them on its layers, or on the pipeline"):
        pipelines(hooked())[which]()


def test_what_a_sequential_begins_to_do_later_is_refused():
    pipe, x = GPipe(mlp(), [2, 2]), fl.ones(2, 6)
    handle = pipe.partitions[1].register_forward_hook(lambda module, inputs, output: output + 100)
    with pytest.raises(ValueError, match=r"partitions\[1\] has hooks"):
        pipe(x)
    handle.remove()
    assert pipe(x).shape == (2, 6)
    pipe.partitions[0] = AddsAtTheEnd(*pipe.partitions[0])
    with pytest.raises(TypeError, match=r"partitions\[0\] is a AddsAtTheEnd with a forward"):
        pipe(x)
    step = Pipeline(mlp(), 2, micro_batches=2)
    step.module.register_forward_pre_hook(lambda module, inputs: None)
    with pytest.raises(ValueError, match="Pipeline: module has hooks"):
        step(x)


# ---- micro-batches, values


@pytest.mark.parametrize("samples, sizes", [(7, [2, 2, 2, 1]), (5, [2, 2, 1]), (9, [3, 3, 3]), (2, [1, 1]), (4, [1, 1, 1, 1])])
def test_sizes_of_micro_batches(samples, sizes):
    seen = []
    model = nn.Sequential(Call(lambda x: seen.append(len(x)) or x), nn.Linear(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = GPipe(model, [1, 1], chunks=4)(fl.ones(samples, 2))
    assert seen == sizes and y.shape == (samples, 2)


@modes
def test_pairs_and_one_tuples(mode):
    model = nn.Sequential(Call(lambda ab: (ab[0] * 2, ab[1])), nn.Identity(), Call(lambda ab: (ab[1], ab[0])))
    a, b = fl.ones(4, 1, requires_grad=True), fl.full((4, 2), 3.0, requires_grad=True)
    y = GPipe(model, [1, 1, 1], chunks=2, checkpoint=mode)((a, b))
    assert isinstance(y, tuple) and [t.shape[1] for t in y] == [2, 1]
    (y[0].sum() + y[1].sum()).backward()
    assert bool((a.grad == 2).all()) and bool((b.grad == 1).all())
    (y,) = GPipe(nn.Sequential(nn.Identity()), [1], chunks=2)((a,))
    assert y.shape == (4, 1)


@modes
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first", "last"])
def test_integers_and_fixed_tensors_pass(mode, order):
    layer = nn.Linear(2, 2)
    mix = Call(lambda pair: (layer(pair[order.index(0)]), pair[order.index(1)] * 2))
    swap = Call(lambda pair: tuple(pair[k] for k in order))
    model = nn.Sequential(mix, swap, nn.Identity())
    model[0].layer = layer
    x, k = fl.ones(4, 2), fl.arange(4)
    y = GPipe(model, [2, 1], chunks=2, checkpoint=mode)(tuple((x, k)[j] for j in order))
    assert bool((y[order.index(1)] == k * 2).all()) and not y[order.index(1)].requires_grad
    y[order.index(0)].sum().backward()
    assert_close(layer.weight.grad, fl.full((2, 2), 4.0))


@modes
def test_an_output_without_use(mode):
    model = nn.Sequential(nn.Linear(2, 2), Call(lambda x: (x, x * 2)), Call(lambda xy: (xy[0], xy[1])))
    y, _ = GPipe(model, [1, 1, 1], chunks=2, checkpoint=mode)(fl.ones(4, 2))
    y.sum().backward()
    assert_close(model[0].weight.grad, fl.full((2, 2), 4.0))


def test_one_tensor_twice():
    model = nn.Sequential(nn.Linear(2, 2), Call(lambda x: (x, x)), Call(lambda xy: xy[0] + 2 * xy[1]))
    GPipe(model, [2, 1], chunks=2)(fl.ones(4, 2)).sum().backward()
    assert_close(model[0].weight.grad, fl.full((2, 2), 12.0))


@pytest.mark.parametrize("value", ["a", [fl.ones(2)], {"x": fl.ones(2)}, None, (), (fl.ones(2), "a")], ids=str)
def test_what_is_no_tensor_is_refused(value):
    with pytest.raises(TypeError, match="expected Tensor, but got"):
        GPipe(nn.Sequential(nn.Identity()), [1])(value)
    with pytest.raises(TypeError, match=r"expected Tensor, but got .*partition 0, layer '1'"):
        GPipe(nn.Sequential(nn.Identity(), Call(lambda x: value), nn.Identity()), [2, 1])(fl.ones(2))


def test_sizes_of_tuples_must_agree():
    pipe = GPipe(nn.Sequential(nn.Identity()), [1], chunks=4)
    with pytest.raises(ValueError, match="different sizes"):
        pipe((fl.ones(4, 1), fl.ones(3, 1)))
    with pytest.raises(TypeError):
        pipe(fl.ones(1), fl.ones(1))
    with pytest.raises((RuntimeError, ValueError), match="chunk expects at least a 1-dimensional tensor"):
        pipe(fl.tensor(1.0))


def test_an_empty_module_returns_its_input():
    pipe = GPipe(nn.Sequential(), [])
    for value in (fl.ones(2), fl.tensor(1.0), (fl.ones(1), fl.ones(2))):
        assert pipe(value) is value
    with pytest.raises(TypeError, match="expected Tensor, but got"):
        pipe("text")


def test_an_empty_batch():
    assert GPipe(mlp(), [2, 2], chunks=4)(fl.ones(0, 6)).shape == (0, 6)
