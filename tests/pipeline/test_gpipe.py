"""`GPipe`: a module like any other, but for its threads."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
import weakref
from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.pipeline._flags import is_checkpointing, is_recomputing
from flambeau.pipeline.batchnorm import DeferredBatchNorm
from flambeau.pipeline.gpipe import GPipe
from flambeau.pipeline.skip import Namespace, pop, skippable, stash

MODES = ("always", "except_last", "never")
modes = pytest.mark.parametrize("mode", MODES)


def mlp(layers=4, width=6):
    return nn.Sequential(*(layer for _ in range(layers // 2) for layer in (nn.Linear(width, width), nn.Tanh())))


def gradients(model, x, loss=lambda y: y.square().sum()):
    """Output, gradient of the input, gradients of the parameters."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = model(x)
    loss(y).backward()
    return y.detach(), x.grad, [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def assert_close(a, b, tol=1e-6):
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_close(x, y, tol)
    elif a is None or b is None:
        assert a is b
    else:
        assert a.shape == b.shape
        assert a.numel() == 0 or float((a - b).abs().max()) <= tol * max(1.0, float(b.abs().max()))


class Call(nn.Module):
    """A layer that is a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


# ---- transparency


@modes
@pytest.mark.parametrize("balance", [[4], [2, 2], [1, 3], [1, 1, 1, 1]], ids=str)
@pytest.mark.parametrize("chunks", [1, 2, 4, 5])
def test_gradients_are_those_of_the_model(balance, chunks, mode):
    model = mlp()
    x = fl.randn(5, 6)
    expected = gradients(model, x)
    found = gradients(GPipe(model, balance, chunks=chunks, checkpoint=mode), x)
    assert_close(found, expected)


@modes
def test_gradients_are_the_same_bits_for_any_balance(mode):
    model, x = mlp(), fl.randn(7, 6)
    first = gradients(GPipe(model, [4], chunks=4, checkpoint="never"), x)
    for balance in ([2, 2], [1, 2, 1], [1, 1, 1, 1]):
        again = gradients(GPipe(model, balance, chunks=4, checkpoint=mode), x)
        assert_close(again, first, tol=0)


def test_one_micro_batch_gives_the_bits_of_the_model():
    model, x = mlp(), fl.randn(7, 6)
    assert_close(gradients(GPipe(model, [1, 3]), x), gradients(model, x), tol=0)


@modes
def test_gradients_accumulate(mode):
    model, x = mlp(), fl.randn(4, 6)
    pipe = GPipe(model, [2, 2], chunks=2, checkpoint=mode)
    once = gradients(pipe, x)[2]
    pipe(x).square().sum().backward()
    assert_close([p.grad for p in model.parameters()], [g * 2 for g in once])


@modes
def test_autograd_grad_gives_all_and_leaves_grad_alone(mode):
    model, x = mlp(), fl.randn(6, 6)
    _, dx, expected = gradients(model, x)
    model.zero_grad()
    pipe = GPipe(model, [3, 1], chunks=3, checkpoint=mode)
    x.requires_grad_()
    found = fl.autograd.grad(pipe(x).square().sum(), [x, *pipe.parameters()])
    assert_close(list(found), [dx, *expected])
    assert all(p.grad is None for p in model.parameters())


@modes
def test_gradient_flows_on_into_what_the_input_came_from(mode):
    model, w = mlp(), fl.ones(6, requires_grad=True)
    GPipe(model, [2, 2], chunks=2, checkpoint=mode)(fl.ones(4, 6) * w).sum().backward()
    found, w.grad = w.grad, None
    model(fl.ones(4, 6) * w).sum().backward()
    assert_close(found, w.grad)


def test_post_accumulate_hooks_run_once():
    model, seen = mlp(), []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: seen.append(p))
    GPipe(model, [2, 2], chunks=4)(fl.randn(8, 6)).sum().backward()
    assert len(seen) == len(list(model.parameters()))


def test_gradient_hooks_run_once():
    model, seen = mlp(), []
    model[0].weight.register_hook(lambda g: seen.append(g) or g * 2)
    x = fl.randn(8, 6)
    expected = gradients(model, x)
    assert len(seen) == 1
    assert_close(gradients(GPipe(model, [2, 2], chunks=4), x), expected)
    assert len(seen) == 2


@modes
@pytest.mark.parametrize("chunks, samples", [(2, 8), (4, 8), (4, 7), (8, 8)])
def test_dropout_is_the_same_for_any_balance(mode, chunks, samples):
    layers = [nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 6), nn.Dropout(0.5), nn.Dropout(0.1)]
    model, x = nn.Sequential(*layers), fl.randn(samples, 6)
    results = []
    for balance in ([5], [1, 4], [2, 2, 1], [1, 1, 1, 1, 1]):
        fl.manual_seed(5)
        results.append(gradients(GPipe(model, balance, chunks=chunks, checkpoint=mode), x))
    fl.manual_seed(5)
    results.append(gradients(GPipe(model, [2, 3], chunks=chunks, checkpoint="never"), x))
    for result in results[1:]:
        assert_close(result, results[0], tol=0)
    fl.manual_seed(6)
    assert not bool((GPipe(model, [5], chunks=chunks)(x) == results[0][0]).all())


@modes
def test_dropped_elements_are_those_without_gradient(mode):
    model = nn.Sequential(*(nn.Dropout(0.1) for _ in range(20)))
    x = fl.rand(20, 10, requires_grad=True)
    y = GPipe(model, [10, 10], chunks=10, checkpoint=mode)(x)
    y.sum().backward()
    assert bool(((y == 0) == (x.grad == 0)).all()) and bool((y == 0).any())


def test_the_callers_generator_makes_one_draw():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    fl.manual_seed(3)
    fl.randint(0, 2**62, ())
    expected = fl.rand(3)
    for balance, chunks in (([2], 1), ([1, 1], 4)):
        fl.manual_seed(3)
        GPipe(model, balance, chunks=chunks, checkpoint="always")(fl.ones(4, 2, requires_grad=True)).sum().backward()
        assert bool((fl.rand(3) == expected).all())


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
    with pytest.raises(RuntimeError, match=r'unexpected key\(s\) in state_dict: "9.weight"'):
        pipe.load_state_dict(state)
    del state["9.weight"], state["2.weight"]
    with pytest.raises(RuntimeError, match=r'missing key\(s\) in state_dict: "2.weight"'):
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


# ---- micro-batches, values


@pytest.mark.parametrize("samples, sizes", [(7, [2, 2, 2, 1]), (5, [2, 2, 1]), (9, [3, 3, 3]), (2, [1, 1]), (4, [1, 1, 1, 1])])
def test_sizes_of_micro_batches(samples, sizes):
    seen = []
    model = nn.Sequential(Call(lambda x: seen.append(len(x)) or x), nn.Linear(2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = GPipe(model, [1, 1], chunks=4)(fl.ones(samples, 2))
    assert seen == sizes and y.shape == (samples, 2)


@pytest.mark.parametrize("samples, recomputed", [(5, 2), (4, 3), (1, 0)])
def test_except_last_leaves_out_the_last_that_there_is(samples, recomputed):
    log = []
    model = nn.Sequential(Call(lambda x: log.append((is_checkpointing(), is_recomputing())) or x), nn.Linear(2, 2))
    GPipe(model, [1, 1], chunks=4)(fl.ones(samples, 2)).sum().backward()
    assert log.count((True, False)) == log.count((False, True)) == recomputed
    assert log.count((False, False)) == 1


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


# ---- modes


def test_eval_does_not_checkpoint_and_no_grad_records_nothing():
    log = []
    pipe = GPipe(nn.Sequential(Call(lambda x: log.append(is_checkpointing()) or x), nn.Linear(2, 2)), [1, 1], chunks=2, checkpoint="always")
    y = pipe.eval()(fl.ones(4, 2))
    assert y.requires_grad and log == [False, False]
    y.sum().backward()
    with fl.no_grad():
        y = pipe.train()(fl.ones(4, 2))
    assert not y.requires_grad and log == [False, False, True, True]
    with fl.inference_mode():
        assert pipe(fl.ones(4, 2)).is_inference()


@modes
def test_frozen_parameters(mode):
    model = mlp()
    pipe = GPipe(model, [2, 2], chunks=2, checkpoint=mode)
    model[0].requires_grad_(False)
    _, _, found = gradients(pipe, fl.ones(4, 6))
    assert [g is None for g in found] == [True, True, False, False]
    model.requires_grad_(False)
    assert not pipe(fl.ones(4, 6)).requires_grad
    x = fl.ones(4, 6, requires_grad=True)
    pipe(x).sum().backward()
    assert x.grad is not None


@modes
def test_a_layer_that_is_not_used(mode):
    model = nn.Sequential(nn.Linear(2, 2), Call(lambda x: x.detach()), nn.Linear(2, 2))
    GPipe(model, [1, 1, 1], chunks=2, checkpoint=mode)(fl.ones(4, 2)).sum().backward()
    assert model[0].weight.grad is None and model[2].weight.grad is not None


def test_chunks_and_checkpoint_may_be_changed():
    pipe, x = GPipe(mlp(), [2, 2]), fl.randn(8, 6)
    expected = gradients(pipe, x)
    pipe.chunks, pipe.checkpoint = 8, "always"
    assert_close(gradients(pipe, x), expected)
    pipe.checkpoint = "sometimes"
    with pytest.raises(ValueError, match="checkpoint is not one of"):
        pipe(x)


@modes
def test_a_second_backward_and_gradients_of_gradients_are_refused(mode):
    pipe, x = GPipe(mlp(), [2, 2], chunks=2, checkpoint=mode), fl.randn(4, 6)
    y = pipe(x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="call forward again"):
        y.backward()
    y = pipe(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="already used"):
        y.backward()
    with pytest.raises(NotImplementedError, match="create_graph=True"):
        fl.autograd.grad(pipe(x).sum(), list(pipe.parameters()), create_graph=True)


@modes
def test_autocast_holds_in_workers_and_recomputes(mode):
    seen = []
    model = nn.Sequential(nn.Linear(6, 6), Call(lambda x: seen.append(x.dtype) or x), nn.Linear(6, 6))
    with fl.autocast("cpu", dtype=fl.bfloat16):
        y = GPipe(model, [1, 2], chunks=3, checkpoint=mode)(fl.randn(6, 6))
    y.float().sum().backward()
    assert set(seen) == {fl.bfloat16} and y.dtype == fl.bfloat16
    assert model[0].weight.grad.dtype == fl.float32


# ---- in-place


def test_in_place_without_checkpointing_is_as_without_a_pipeline():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.ReLU(inplace=True))
    x = fl.randn(4, 6)
    expected = gradients(model, x)
    assert_close(gradients(GPipe(model, [1, 1, 1, 1], chunks=2, checkpoint="never"), x), expected)
    assert_close(gradients(GPipe(model, [2, 2], chunks=2, checkpoint="always"), x), expected)


@pytest.mark.parametrize("wants", [True, False])
def test_in_place_on_what_is_needed_again_is_an_error(wants):
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 2))
    y = GPipe(model, [1, 1], checkpoint="always")(fl.randn(4, 2, requires_grad=wants) * 1)
    with pytest.raises(RuntimeError, match="in-place"):
        y.sum().backward()


# ---- functions, skips, batch norm


@modes
def test_a_function_that_returns_its_input(mode):
    class Same(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, dy):
            return dy

    model = nn.Sequential(Call(Same.apply), Call(Same.apply))
    x = fl.rand(4, requires_grad=True)
    GPipe(model, [1, 1], checkpoint=mode)(x).sum().backward()
    assert bool((x.grad == 1).all())


@skippable(stash=["skip"])
class Stash(nn.Module):
    def __init__(self, what=lambda x: x * 3):
        super().__init__()
        self.what = what

    def forward(self, x):
        yield stash("skip", self.what(x))
        return x * 2


@skippable(pop=["skip"])
class Pop(nn.Module):
    def __init__(self, use=lambda x, skip: x + skip):
        super().__init__()
        self.use = use

    def forward(self, x):
        skip = yield pop("skip")
        return self.use(x, skip)


CUTS = [[5], [3, 2], [1, 1, 1, 1, 1], [1, 3, 1], [2, 3]]


@modes
@pytest.mark.parametrize("balance", CUTS, ids=str)
@pytest.mark.parametrize(
    "what, use",
    [
        (lambda x: x * 3, lambda x, skip: x + skip * skip),
        (lambda x: None, lambda x, skip: x if skip is None else x * 0),
        (lambda x: x.detach(), lambda x, skip: x + skip),
        (lambda x: x.argmax(1), lambda x, skip: x + skip.unsqueeze(1)),
        (lambda x: x * 3, lambda x, skip: x),
        (lambda x: x, lambda x, skip: x * skip),
    ],
    ids=["tensor", "none", "detached", "integer", "unused", "input"],
)
def test_skips(balance, mode, what, use):
    model = nn.Sequential(nn.Linear(6, 6), Stash(what), nn.Linear(6, 6), nn.Tanh(), Pop(use))
    x = fl.randn(5, 6)
    assert_close(gradients(GPipe(model, balance, chunks=3, checkpoint=mode), x), gradients(model, x))


@modes
def test_skips_that_cross(mode):
    def parts():
        spaces = [Namespace() for _ in range(3)]
        return [Stash().isolate(ns) for ns in spaces] + [Pop().isolate(ns) for ns in (spaces[1], spaces[0], spaces[2])]

    model, x = nn.Sequential(*parts()), fl.randn(5, 6)
    expected = gradients(model, x)
    for balance in ([6], [2, 2, 2], [1] * 6):
        assert_close(gradients(GPipe(model, balance, chunks=3, checkpoint=mode), x), expected)


def norms(**options):
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, **options), nn.Linear(4, 4))


@modes
@pytest.mark.parametrize("chunks", [1, 4, 5])
def test_deferred_batch_norm_has_the_batchs_statistics(mode, chunks):
    model, x = norms(), fl.randn(12, 4)
    other = copy.deepcopy(model)
    pipe = GPipe(other, [1, 1, 1], chunks=chunks, checkpoint=mode, deferred_batch_norm=True)
    for _ in range(3):
        model(x)
        pipe(x).sum().backward()
    assert isinstance(pipe[1], DeferredBatchNorm)
    assert_close([b.float() for b in pipe.buffers()], [b.float() for b in model.buffers()])
    assert int(pipe[1].num_batches_tracked) == 3


def test_a_batch_that_failed_is_not_counted():
    fails = [True]
    boom = Call(lambda x: 1 / 0 if fails[0] else x)
    pipe = GPipe(nn.Sequential(*norms(), boom), [3, 1], chunks=2, deferred_batch_norm=True)
    with pytest.raises(ZeroDivisionError):
        pipe(fl.randn(4, 4))
    fails[0], x = False, fl.randn(4, 4)
    pipe(x)
    assert_close(pipe[1].running_mean, pipe[0](x).mean(0) * 0.1)


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
