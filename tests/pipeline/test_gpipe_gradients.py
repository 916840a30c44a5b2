"""`GPipe` gives the gradients of its model: for any balance and checkpointing, in all modes, with skips and batch norms."""

from __future__ import annotations

import copy
import gc
import threading

import pytest
from support.pipelines import Call, Pop, Stash, assert_close, gradients, mlp, modes

import flambeau as fl
from flambeau import nn
from flambeau.pipeline._flags import is_checkpointing, is_recomputing
from flambeau.pipeline.batchnorm import DeferredBatchNorm
from flambeau.pipeline.gpipe import GPipe
from flambeau.pipeline.skip import Namespace, pop, skippable, stash

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
def test_backward_of_a_retained_graph_gives_the_same_again(mode):
    fl.manual_seed(3)
    layers = [nn.Linear(6, 8), nn.Dropout(0.3), Stash(), nn.Tanh(), Pop(), nn.Linear(8, 2)]
    pipe, x = GPipe(nn.Sequential(*layers), [2, 2, 2], chunks=3, checkpoint=mode), fl.randn(7, 6, requires_grad=True)
    y = pipe(x)
    wanted = [x, *pipe.parameters()]
    ones, other = fl.ones(7, 2), fl.randn(7, 2)
    first = fl.autograd.grad(y, wanted, ones, retain_graph=True)
    halves = fl.autograd.grad(y, wanted, other, retain_graph=True)
    again = fl.autograd.grad(y, wanted, ones, retain_graph=True)
    last = fl.autograd.grad(y, wanted, other)
    for a, b in [*zip(first, again), *zip(halves, last)]:
        assert fl.equal(a, b)
    assert not any(fl.equal(a, b) for a, b in zip(first, halves) if a.numel() > 2)
    with pytest.raises(RuntimeError, match="called before"):
        fl.autograd.grad(y, wanted, ones)


@modes
def test_backwards_of_a_retained_graph_from_several_threads(mode):
    pipe, x = GPipe(mlp(), [2, 2], chunks=3, checkpoint=mode), fl.randn(6, 6)
    y = pipe(x)
    wanted, ones = list(pipe.parameters()), fl.ones_like(y)
    expected = fl.autograd.grad(y, wanted, ones, retain_graph=True)
    found = []

    def work():
        found.append(fl.autograd.grad(y, wanted, ones, retain_graph=True))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6 and all(fl.equal(a, b) for grads in found for a, b in zip(grads, expected))


@modes
def test_a_retained_graph_that_is_gone_frees_its_memory(mode):
    pipe, x = GPipe(mlp(), [2, 2], chunks=2, checkpoint=mode), fl.randn(4, 6)
    pipe(x).sum().backward()
    gc.disable()
    try:
        before = fl.memory_stats()["allocated_bytes"]
        y = pipe(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        del y
        assert fl.memory_stats()["allocated_bytes"] == before
    finally:
        gc.enable()


@modes
def test_gradients_of_gradients_and_of_a_freed_graph_are_refused(mode):
    pipe, x = GPipe(mlp(), [2, 2], chunks=2, checkpoint=mode), fl.randn(4, 6)
    y = pipe(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="called before"):
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


@pytest.mark.parametrize("samples, recomputed", [(5, 2), (4, 3), (1, 0)])
def test_except_last_leaves_out_the_last_that_there_is(samples, recomputed):
    log = []
    model = nn.Sequential(Call(lambda x: log.append((is_checkpointing(), is_recomputing())) or x), nn.Linear(2, 2))
    GPipe(model, [1, 1], chunks=4)(fl.ones(samples, 2)).sum().backward()
    assert log.count((True, False)) == log.count((False, True)) == recomputed
    assert log.count((False, False)) == 1


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
    x = fl.randn(4, 2, requires_grad=wants) * 1
    with pytest.raises(RuntimeError, match="in-place"):
        GPipe(model, [1, 1], checkpoint="always")(x).sum().backward()


class Twice(nn.Module):
    """One memory under two names."""

    def __init__(self, second):
        super().__init__()
        self.inner, self.second = nn.Linear(4, 4), second

    def forward(self, x):
        y = self.inner(x)
        return y, self.second(y)


@skippable(stash=["k"])
class StashesItself(nn.Module):
    def forward(self, x):
        yield stash("k", x)
        return x


@skippable(pop=["k"])
class AddsSquare(nn.Module):
    def forward(self, x):
        k = yield pop("k")
        return x + k * k


def _doubles_first(pair):
    return pair[0].mul_(2) * pair[1]


def _doubles_popped():
    @skippable(pop=["k"])
    class Doubles(nn.Module):
        def forward(self, x):
            k = yield pop("k")
            return k.mul_(2) * x

    return Doubles()


_SHARING = {
    "two outputs": lambda: [Twice(lambda y: y), Call(_doubles_first)],
    "an output and a view": lambda: [Twice(lambda y: y[:, 1:]), Call(lambda pair: pair[0].mul_(2).sum(1, keepdim=True) * pair[1])],
    "handed on": lambda: [Twice(lambda y: y), nn.Identity(), Call(_doubles_first)],
    "a skip tensor": lambda: [nn.Linear(4, 4), StashesItself(), Call(lambda x: x.mul_(2)), AddsSquare()],
    "a skip tensor, by who pops it": lambda: [nn.Linear(4, 4), StashesItself(), _doubles_popped()],
    "a skip tensor, behind another stage": lambda: [nn.Linear(4, 4), StashesItself(), nn.Identity(), Call(lambda x: x.mul_(2)), AddsSquare()],
}


@modes
@pytest.mark.parametrize("layers", _SHARING.values(), ids=_SHARING)
def test_memory_that_two_values_share_is_not_written_to_in_another_stage(mode, layers):
    """Both would have the new values, and one of them the gradient."""
    model, x = nn.Sequential(*layers()), fl.randn(4, 4)
    expected = gradients(model, x)
    assert_close(gradients(GPipe(model, [len(model)], chunks=2, checkpoint=mode), x), expected)
    with pytest.raises(RuntimeError, match="stage .*, micro-batch 0: layer '.' works in-place on memory that another value has, too") as caught:
        GPipe(model, [1] * len(model), chunks=2, checkpoint=mode)(x)
    assert "clone()" in str(caught.value)


@modes
def test_values_of_all_kinds_may_go_together(mode):
    several = Call(lambda x: (x, x.detach().to_sparse(), x[:, :0], x.detach().to(fl.bfloat16), x.t().t()))
    model, x = nn.Sequential(nn.Linear(4, 4), several, Call(lambda all: all[0] * all[1].to_dense() + all[4])), fl.randn(4, 4)
    expected = gradients(model, x)
    assert_close(gradients(GPipe(model, [1, 1, 1], chunks=2, checkpoint=mode), x), expected)


@modes
def test_a_batch_with_a_history_is_not_written_to(mode):
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 2))
    for x in (fl.randn(4, 2, requires_grad=True), fl.randn(4, 2, requires_grad=True) * 1):
        with pytest.raises(RuntimeError, match="layer '0' works in-place on memory that another value has, too .the batch, which requires"):
            GPipe(model, [1, 1], checkpoint=mode)(x)


@modes
def test_what_a_stage_stashes_and_then_writes_to_arrives_as_written(mode):
    model, x = nn.Sequential(nn.Linear(4, 4), StashesItself(), Call(lambda x: x.mul_(2)), AddsSquare()), fl.randn(4, 4)
    expected = gradients(model, x)
    assert_close(gradients(GPipe(model, [3, 1], chunks=2, checkpoint=mode), x), expected)


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


@modes
def test_hooks_of_saved_tensors_hold_in_workers(mode):
    model, x = mlp(), fl.randn(4, 6)
    plain = gradients(GPipe(model, [2, 2], chunks=2, checkpoint=mode), x)
    packed = []

    def pack(t):
        packed.append(threading.get_ident())
        return t * 2

    with fl.autograd.graph.saved_tensors_hooks(pack, lambda t: t / 2):
        hooked = gradients(GPipe(model, [2, 2], chunks=2, checkpoint=mode), x)
    assert_close(hooked, plain, tol=0)
    assert len(set(packed)) >= 2, "layers save their tensors on the threads of the ranks"
    count = len(packed)
    gradients(GPipe(model, [2, 2], chunks=2, checkpoint=mode), x)
    assert len(packed) == count, "outside of the block nothing is packed"
