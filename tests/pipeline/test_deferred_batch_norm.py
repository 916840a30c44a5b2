"""Batch norm over micro-batches: outputs as of each, running statistics as of all."""

import copy
import pickle

import numpy as np
import pytest
from support.compare import assert_near
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import nn
from flambeau.pipeline._flags import is_checkpointing, is_recomputing, use_flags
from flambeau.pipeline._microbatch import gather, scatter
from flambeau.pipeline.batchnorm import DeferredBatchNorm, _Moments, convert


def norms(module):
    return [m for m in module.modules() if isinstance(m, DeferredBatchNorm)]


def run(model, x, chunks, rule="even"):
    """A mini-batch as an executor runs it."""
    y = gather([model(piece) for piece in scatter(x, chunks, rule)])
    for norm in norms(model):
        norm.commit()
    return y


def assert_same_statistics(norm, plain):
    assert_near(norm.running_mean, plain.running_mean)
    assert_near(norm.running_var, plain.running_var)
    assert int(norm.num_batches_tracked) == int(plain.num_batches_tracked)


SHAPES = [(nn.BatchNorm1d, (12, 3)), (nn.BatchNorm1d, (8, 3, 5)), (nn.BatchNorm2d, (8, 3, 4, 2)), (nn.BatchNorm3d, (8, 3, 2, 2, 2))]


@pytest.mark.parametrize("requires_grad", [True, False])
def test_one_chunk_is_batch_norm(requires_grad):
    plain = nn.BatchNorm2d(3)
    norm = convert(copy.deepcopy(plain))
    x1 = fl.rand(16, 3, 8, 8).requires_grad_(requires_grad)
    x2 = x1.detach().clone().requires_grad_(requires_grad)
    y1, y2 = plain(x1), run(norm, x2, 1)
    assert_near(y2, y1)
    fl.manual_seed(7)
    dy = fl.rand(16, 3, 8, 8)
    y1.backward(dy)
    y2.backward(dy)
    assert_near(norm.weight.grad, plain.weight.grad, scale=10)
    if requires_grad:
        assert_near(x2.grad, x1.grad, scale=10)


@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0, None], ids=str)
@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("kind, shape", SHAPES, ids=str)
def test_statistics_are_those_of_the_batch(kind, shape, chunks, momentum):
    """The variance is unbiased, as batch norm's is."""
    plain = kind(3, momentum=momentum)
    norm = convert(copy.deepcopy(plain), chunks=None)
    for _ in range(3):
        x = fl.randn(*shape) * 3 + 1
        plain(x)
        run(norm, x, chunks)
        assert_same_statistics(norm, plain)


@pytest.mark.parametrize("rule", ["chunk", "even"])
@pytest.mark.parametrize("batch, chunks", [(7, 3), (10, 4), (5, 2), (6, 5)])
def test_uneven_micro_batches(batch, chunks, rule):
    """With "chunk" there are fewer pieces than asked for; statistics waited for one more and mixed two batches."""
    plain = nn.BatchNorm1d(2)
    norm = convert(copy.deepcopy(plain), chunks)
    for _ in range(2):
        x = fl.randn(batch, 2, 3)
        plain(x)
        run(norm, x, chunks, rule)
        assert_same_statistics(norm, plain)


def test_large_means_do_not_cancel():
    x = (fl.randn(16, 1, 4, dtype=fl.float64) + 1000.0).float()
    norm = DeferredBatchNorm(1, momentum=1.0)
    run(norm, x, 4)
    np.testing.assert_allclose(norm.running_var.numpy(), x.numpy().astype(np.float64).var(ddof=1), rtol=1e-3)


@pytest.mark.parametrize("sizes", [[4], [3, 5], [2, 2, 2, 9], [5, 0, 3], [0, 0]], ids=str)
def test_moments(sizes):
    values = np.random.default_rng(0).normal(5, 2, (sum(sizes), 2))
    moments, start = _Moments(), 0
    for size in sizes:
        part = values[start : start + size]
        start += size
        mean, var = (part.mean(0), part.var(0, ddof=1)) if size else (np.zeros(2), np.zeros(2))
        moments.add(size, fl.tensor(mean), fl.tensor(var))
    if not sum(sizes):
        assert moments.result() is None
        return
    mean, var = moments.result()
    np.testing.assert_allclose(mean.numpy(), values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(var.numpy(), values.var(0, ddof=1), rtol=1e-12)


def test_nothing_is_written_before_commit():
    norm = DeferredBatchNorm(2, momentum=0.5)
    for piece in fl.randn(8, 2).split(4):
        norm(piece)
    assert norm.running_mean.tolist() == [0, 0] and int(norm.num_batches_tracked) == 0
    norm.commit()
    assert int(norm.num_batches_tracked) == 1 and norm.running_mean.tolist() != [0, 0]
    before = norm.running_mean.tolist()
    norm.commit()  # nothing came since
    assert int(norm.num_batches_tracked) == 1 and norm.running_mean.tolist() == before


def test_with_chunks_it_commits_by_itself():
    plain = nn.BatchNorm1d(2)
    norm = convert(copy.deepcopy(plain), chunks=4)
    x = fl.randn(8, 2)
    plain(x)
    gather([norm(piece) for piece in x.chunk(4)])
    assert_same_statistics(norm, plain)
    norm.commit()
    assert_same_statistics(norm, plain)


def test_recomputing_does_not_count():
    plain, norm = nn.BatchNorm1d(2), DeferredBatchNorm(2)
    x = fl.randn(8, 2)
    plain(x)
    for piece in x.chunk(2):
        with use_flags(checkpointing=True), fl.no_grad():
            first = norm(piece)
        with use_flags(recomputing=True):
            again = norm(piece)
        assert again.tolist() == first.tolist()
    norm.commit()
    assert_same_statistics(norm, plain)


def test_a_failed_mini_batch_is_discarded():
    plain, norm = nn.BatchNorm1d(2), DeferredBatchNorm(2)
    norm(fl.randn(8, 2) * 100)
    norm.discard()
    x = fl.randn(8, 2)
    plain(x)
    run(norm, x, 2)
    assert_same_statistics(norm, plain)


def test_reset_forgets_what_is_pending():
    norm = DeferredBatchNorm(2)
    norm(fl.randn(8, 2))
    norm.reset_running_stats()
    norm.commit()
    assert norm.running_mean.tolist() == [0, 0] and int(norm.num_batches_tracked) == 0


def test_eval_uses_the_running_statistics():
    plain = nn.BatchNorm2d(3)
    norm = convert(copy.deepcopy(plain))
    x = fl.rand(8, 3, 4, 4)
    plain(x)
    run(norm, x, 4)
    plain.eval()
    norm.eval()
    assert_near(norm(x), plain(x))
    assert_near(norm(x[:1, :, :1, :1]), plain(x[:1, :, :1, :1]))  # one value per channel will do
    norm.commit()
    assert int(norm.num_batches_tracked) == 1


def test_outputs_are_those_of_each_micro_batch():
    plain, norm = nn.BatchNorm1d(2), DeferredBatchNorm(2)
    x = fl.randn(8, 2)
    y = run(norm, x, 2)
    assert_near(y, gather([plain(piece) for piece in x.chunk(2)]))
    assert not fl.allclose(y, plain(x))


def test_statistics_carry_no_gradient():
    norm = DeferredBatchNorm(3)
    x = fl.rand(8, 3).requires_grad_()
    y = run(norm, x, 2)
    assert not norm.running_mean.requires_grad and not norm.running_var.requires_grad
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.eager("live objects")
def test_nothing_stays():
    norm = DeferredBatchNorm(3)
    assert_nothing_stays(lambda: run(norm, fl.rand(8, 3), 2).sum().backward() or norm.zero_grad())


def test_it_optimises_as_batch_norm_does():
    plain = nn.BatchNorm2d(3)
    norm = convert(copy.deepcopy(plain))
    opts = [fl.optim.SGD(m.parameters(), lr=1.0) for m in (plain, norm)]
    for _ in range(5):
        x = fl.rand(16, 3, 8, 8)
        for model, opt in zip((plain, norm), opts):
            y = run(model, x, 1) if model is norm else model(x)
            opt.zero_grad()
            y.sum().backward()
            opt.step()
        assert_near(norm.weight, plain.weight, scale=100)
        assert_near(norm.bias, plain.bias, scale=100)
        assert_same_statistics(norm, plain)


def test_after_a_convolution():
    """The outputs differ from batch norm's, so from the second step on all does; the first mean is the same."""
    plain = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    model = convert(copy.deepcopy(plain))
    x = fl.rand(16, 3, 4, 4)
    y1, y2 = plain(x), run(model, x, 4)
    assert not fl.allclose(y1, y2)
    assert_same_statistics(model[1], plain[1])


# ---- conversion


def test_convert_shares_and_keeps():
    plain = nn.BatchNorm2d(3, eps=1e-3, momentum=None).eval()
    calls = []
    plain.register_forward_hook(lambda *_: calls.append(1))
    norm = convert(plain, 2)
    assert type(norm) is DeferredBatchNorm and norm.chunks == 2
    assert norm.weight is plain.weight and norm.bias is plain.bias
    assert norm.running_mean is plain.running_mean and norm.num_batches_tracked is plain.num_batches_tracked
    assert (norm.eps, norm.momentum, norm.training) == (1e-3, None, False)
    norm(fl.ones(1, 3, 2, 2))
    assert calls == [1]
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\): shape \[1, 3\]"):
        norm(fl.ones(1, 3))


def test_convert_recurses_in_place():
    shared = nn.BatchNorm1d(2)
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.ReLU()), shared, shared)
    names = list(model.state_dict())
    assert convert(model) is model
    assert [type(m) for m in (model[1][0], model[2])] == [DeferredBatchNorm] * 2
    assert model[2] is model[3]
    assert list(model.state_dict()) == names


def test_convert_leaves_alone():
    class Frozen(nn.BatchNorm1d):
        def forward(self, input):
            return input

    kept = [nn.BatchNorm1d(2, track_running_stats=False), nn.InstanceNorm1d(2), nn.LayerNorm(2), Frozen(2)]
    model = convert(nn.Sequential(*kept), 2)
    assert all(a is b for a, b in zip(model, kept))


def test_convert_again():
    norm = convert(nn.BatchNorm1d(2), 4)
    assert convert(norm, 4) is norm
    other = DeferredBatchNorm.convert_deferred_batch_norm(norm, 2)
    assert other is not norm and other.chunks == 2 and other.weight is norm.weight


def test_state_dict_is_batch_norms():
    plain, norm = nn.BatchNorm1d(2), DeferredBatchNorm(2)
    norm(fl.randn(4, 2))  # something is pending
    assert list(norm.state_dict()) == list(plain.state_dict())
    plain.load_state_dict(norm.state_dict())
    norm.load_state_dict(plain.state_dict())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies(copied):
    norm = DeferredBatchNorm(2, chunks=3)
    norm(fl.randn(4, 2))
    other = copied(norm)
    other.commit()
    norm.commit()
    assert other.chunks == 3 and other.running_mean.tolist() == norm.running_mean.tolist()


@pytest.mark.parametrize("chunks", [0, -1])
def test_chunks_must_be_positive(chunks):
    model = nn.Sequential(nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match=f"number of chunks must be positive integer, got {chunks}"):
        convert(model, chunks)
    assert type(model[0]) is nn.BatchNorm1d


def test_convert_wants_a_module():
    with pytest.raises(TypeError, match="module is a int; expected a Module"):
        convert(42)


# ---- edges


def test_one_value_per_channel():
    norm = DeferredBatchNorm(2)
    with pytest.raises(ValueError, match=r"the micro-batch has shape \[1, 2\] \(use fewer chunks"):
        norm(fl.ones(1, 2))
    norm.commit()
    assert int(norm.num_batches_tracked) == 0


@pytest.mark.parametrize("shape", [(), (2,), (4, 3)], ids=str)
def test_wrong_shapes(shape):
    with pytest.raises(ValueError, match=r"DeferredBatchNorm: input has shape .*; expected \[N, 2, ...\]"):
        DeferredBatchNorm(2)(fl.ones(shape))


def test_no_samples():
    norm = DeferredBatchNorm(2)
    assert norm(fl.ones(0, 2, 3)).shape == (0, 2, 3)
    norm.commit()
    assert norm.running_mean.tolist() == [0, 0] and norm.running_var.tolist() == [1, 1]


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [fl.float64, fl.float16, fl.bfloat16], ids=str)
def test_types(dtype, affine):
    x = fl.randn(16, 2, 5).to(dtype)
    plain = nn.BatchNorm1d(2, affine=affine, dtype=dtype)
    norm = convert(copy.deepcopy(plain))
    y = run(norm, x, 1)
    assert_near(y, plain(x))
    assert norm.running_mean.dtype is dtype and y.dtype is dtype
    assert_near(norm.running_mean, plain.running_mean)
    assert_near(norm.running_var, plain.running_var)


def test_one_dtype_for_statistics_of_half_inputs():
    norm = DeferredBatchNorm(2)
    norm(fl.randn(16, 2).half())
    norm.commit()
    assert norm.running_mean.dtype is fl.float32


def test_repr():
    assert repr(DeferredBatchNorm(4, chunks=2)).startswith("DeferredBatchNorm(4, eps=1e-05") and "chunks=2" in repr(
        DeferredBatchNorm(4, chunks=2)
    )


# ---- flags


def test_flags():
    assert (is_checkpointing(), is_recomputing()) == (False, False)
    with pytest.raises(ZeroDivisionError), use_flags(checkpointing=True):
        assert (is_checkpointing(), is_recomputing()) == (True, False)
        with use_flags(recomputing=True):
            assert (is_checkpointing(), is_recomputing()) == (False, True)
        assert (is_checkpointing(), is_recomputing()) == (True, False)
        1 / 0  # noqa: B018
    assert (is_checkpointing(), is_recomputing()) == (False, False)
