"""vmap by one call for all samples, where the table's samples do not lead: one sample's values against a loop, in every nesting."""

from __future__ import annotations

import warnings

import pytest
from support.compare import assert_near

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import func
from flambeau.func import _batched, grad, jvp, vmap

BATCH = 3


@pytest.fixture(autouse=True)
def no_loops(monkeypatch):
    """A call per sample is an error."""
    monkeypatch.setattr(_batched, "_warned", set())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="vmap: there is no batching rule")
        yield


def numbers(*shape, seed=0):
    return fl.randn(*shape, dtype=fl.float64, generator=fl.Generator().manual_seed(seed + 7 * len(shape)))


def places(high, *shape, seed=0):
    return fl.randint(0, high, shape, generator=fl.Generator().manual_seed(seed))


def written(x, i, y):
    x = x.clone()
    x[i] = y
    x[..., i[0]] += 1.0
    x[x > 1] = 0.5
    x[[0, 1], i] *= 2
    return x


def statistics(x, mean, var, weight):
    mean, var = mean.detach().clone(), var.detach().clone()
    return F.batch_norm(x, mean, var, weight, None, True), mean, var


B = BATCH
# name: (function of a sample, arguments of all samples)
CASES = {
    "index: behind a slice": (lambda x, i: x[:, i], (numbers(B, 3, 4), places(4, B, 2))),
    "index: apart": (lambda x, i: x[i, :, None, [0, 1]], (numbers(B, 3, 2, 4), places(3, B, 2))),
    "index: beside an int": (lambda x, i: x[0, i] + x[i, ..., 0], (numbers(B, 4, 4), places(4, B, 2))),
    "index: broadcast": (lambda x, i, j: x[i[:, None], j], (numbers(B, 4, 4), places(4, B, 2), places(4, B, 3, seed=1))),
    "index: op": (lambda x, i: fl._C.ops.index(x, [None, i]), (numbers(B, 3, 4), places(4, B, 2))),
    "index: 0-d": (lambda x, i: x.index_select(0, i), (numbers(B, 3, 4), places(3, B))),
    "written through indices": (written, (numbers(B, 4, 4), places(4, B, 2), numbers(B, 2, 4, seed=1))),
    "index_put": (lambda x, i, v: x.index_put((i,), v), (numbers(B, 4, 2), fl.stack([fl.randperm(4)[:2]] * B), numbers(B, 2, 2))),
    "index_put: accumulated": (lambda x, i, v: x.index_put((i, i), v, accumulate=True), (numbers(B, 4, 4), places(4, B, 5), numbers(B, 5))),
    "index_put_": (lambda x, i, v: x.clone().index_put_((i,), v, True), (numbers(B, 4), places(4, B, 5), numbers(B, 5))),
    "index_add": (lambda x, i, y: x.index_add(1, i, y, alpha=2), (numbers(B, 3, 4), places(4, B, 5), numbers(B, 3, 5))),
    "index_add_": (lambda x, i, y: x.clone().index_add_(-1, i, y), (numbers(B, 3, 4), places(4, B, 5), numbers(B, 3, 5))),
    "index_fill by a tensor": (lambda x, i, v: x.index_fill(0, i, v), (numbers(B, 3, 4), places(3, B, 2), numbers(B))),
    "put": (lambda x, i, y: x.put(i - 4, y, True), (numbers(B, 2, 2), places(4, B, 3), numbers(B, 3))),
    "masked_scatter": (lambda x, m, y: x.masked_scatter(m > 0, y), (numbers(B, 3, 4), numbers(B, 4, seed=1), numbers(B, 12))),
    "take_along_dim of all": (lambda x, i: fl.take_along_dim(x, i), (numbers(B, 3, 4), places(12, B, 5))),
    "searchsorted": (lambda s, v: fl.searchsorted(s.sort().values, v).double() + v, (numbers(B, 5), numbers(B, 2, 3))),
    "bucketize": (lambda v, s: fl.bucketize(v, s.sort().values, right=True) + v, (numbers(B, 2, 3), numbers(B, 5))),
    "0-d samples": (lambda x: x.cumsum(0) + x.softmax(-1) + x.max(0).values + x.logsumexp(0, True) + x.topk(1).values + x.prod(0), (numbers(B),)),
    "0-d scatter": (lambda x, y: x.scatter_add(0, fl.tensor(0), y) + x.index_add(0, fl.tensor([0]), y), (numbers(B), numbers(B, seed=1))),
    "0-d places": (lambda x: x.argmax(0, keepdim=True) + x.median(0).values + x.kthvalue(1)[0] + x.mode()[0] + x, (numbers(B),)),
    "in place": (lambda x: x.clone().cumsum_(0).clamp_(max=2).cumprod_(1).tril_(), (numbers(B, 3, 3),)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=2.0) * F.pad(x, (1, 2, 0, 1)), (numbers(B, 2, 3, 4),)),
    "pad: reflect": (lambda x: F.pad(x, (1, 2), "reflect"), (numbers(B, 2, 4),)),
    "pad: replicate": (lambda x: F.pad(x, (1, 2, 1, 1), "replicate"), (numbers(B, 2, 3, 4, 4),)),
    "pad: circular": (lambda x: F.pad(x, (1, 2, 1, 0, 1, 1), "circular"), (numbers(B, 2, 3, 3, 4),)),
    "pixels": (lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2) * 2, 2), (numbers(B, 1, 4, 2, 3),)),
    "diff until nothing is left": (lambda x: fl.diff(x, 2**40), (numbers(B, 3, 2),)),
    "diff": (lambda x, y: fl.diff(x, 2, 0, prepend=y), (numbers(B, 3, 2), numbers(B, 1, 2))),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, -1) + x.repeat_interleave(fl.tensor([1, 3]), 1), (numbers(B, 3, 2),)),
    "narrow": (lambda x, i: x.narrow(0, i, 2)[:, 1:] * x.narrow(1, fl.tensor(1), 2).narrow(0, 1, 2), (numbers(B, 3, 4)[..., :3], places(2, B))),
    "flips": (lambda x: x.fliplr() + x.flipud() + x.flip([]), (numbers(B, 3, 2),)),
    "linspace": (lambda a, b: fl.linspace(a, b, 5, dtype=fl.float64) + fl.logspace(a, 2, 5, dtype=fl.float64), (numbers(B), numbers(B, seed=1))),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 2)) * 2, (numbers(B, 6),)),
    "fill_diagonal_": (lambda x: x.clone()[1:].fill_diagonal_(2) + x[1:].clone().fill_diagonal_(1, wrap=True), (numbers(B, 6, 2),)),
    "nextafter": (lambda x, y: fl.nextafter(x.detach(), y.detach()) + x * y, (numbers(B, 3), numbers(B, 2, 3))),
    "squeeze": (lambda x: x.squeeze(()) + x.squeeze((0, 1)), (numbers(B, 1, 2, 3),)),
    "cat with nothing": (lambda x: fl.cat([fl.zeros(0, dtype=fl.float64), x]), (numbers(B, 2, 3),)),
    "solve_triangular": (
        lambda a, b: fl.linalg.solve_triangular(a.tril() + 3 * fl.eye(3, dtype=a.dtype), b, upper=False), (numbers(B, 3, 3), numbers(B, 2, 3, 2))
    ),
    "fft": (lambda x: fl.fft.fft(x, 7, 0).real + fl.fft.irfft(fl.fft.rfft(x, 13, 0), 7, 0) + fl.fft.ifft2(x, (7, 2)).imag, (numbers(B, 5, 2),)),
    "lstsq": (lambda a, b: fl.linalg.lstsq(a, b, driver="gelsd").solution, (numbers(B, 4, 2), numbers(B, 4, 3))),
    "conv_transpose": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, groups=2), (numbers(B, 2, 4, 3, 3), numbers(B, 4, 1, 3, 2), numbers(B, 2))
    ),
    "conv_transpose of one": (lambda x, w: F.conv_transpose1d(x, w), (numbers(B, 2, 5), numbers(B, 2, 3, 2))),
    "grid_sample": (lambda x, g: F.grid_sample(x, g * 0.4, align_corners=False), (numbers(B, 2, 3, 4, 4), numbers(B, 2, 3, 3, 2))),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=1), (numbers(B, 4, 2), places(4, B, 5))),
    "cross_entropy": (
        lambda x, t, w: F.cross_entropy(x, t, w.exp().detach(), label_smoothing=0.2, ignore_index=1), (numbers(B, 4, 3), places(3, B, 4), numbers(B, 3))
    ),
    "nll_loss": (lambda x, t, w: F.nll_loss(x, t, w.exp().detach(), reduction="sum"), (numbers(B, 4, 3, 2), places(3, B, 4, 2), numbers(B, 3))),
    "binary_cross_entropy": (
        lambda x, t, w: F.binary_cross_entropy(x.sigmoid(), t.sigmoid(), w.exp().detach()), (numbers(B, 4, 3), numbers(B, 4, 3, seed=1), numbers(B, 3))
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, t, w: F.binary_cross_entropy_with_logits(x, t.sigmoid(), w.exp().detach(), pos_weight=w.exp().detach()),
        (numbers(B, 4, 3), numbers(B, 4, 3, seed=1), numbers(B, 3)),
    ),
    "multi_margin_loss": (lambda x, t, w: F.multi_margin_loss(x, t, 2, 0.5, w.exp()), (numbers(B, 4, 3), places(3, B, 4), numbers(B, 3))),
    "multilabel_margin_loss": (lambda x, t: F.multilabel_margin_loss(x, t - 1), (numbers(B, 4, 3), places(3, B, 4, 3))),
    "ctc_loss": (
        lambda x, t: F.ctc_loss(x.log_softmax(-1), t + 1, fl.tensor([6, 5]), fl.tensor([2, 3])), (numbers(B, 6, 2, 5), places(4, B, 2, 3))
    ),
    "gaussian_nll_loss": (lambda x, y, v: F.gaussian_nll_loss(x, y, v.exp()), (numbers(B, 4), numbers(B, 4, seed=1), numbers(B, 4, seed=2))),
    "quantile": (lambda x, q: fl.quantile(x, q.sigmoid(), 0), (numbers(B, 5, 2), numbers(B, 3))),
    "max_unpool": (lambda x, i: F.max_unpool1d(x, i + fl.tensor([0, 2, 4]), 2), (numbers(B, 2, 3), places(2, B, 2, 3))),
    "prelu": (F.prelu, (numbers(B), numbers(B, 1))),
    "batch_norm": (statistics, (numbers(B, 4, 2, 3), numbers(B, 2), numbers(B, 2).exp(), numbers(B, 2, seed=1))),
    "diagonals": (lambda x: fl.diag(x) + fl.diag_embed(x) + fl.diagflat(x), (numbers(B, 3),)),
    "block_diag": (lambda x, y: fl.block_diag(x, fl.ones(1, 2), y), (numbers(B, 3), numbers(B, 2, 2))),
    "select_scatter": (lambda x: fl.select_scatter(fl.ones(2, 3, dtype=x.dtype), x, 0, 1), (numbers(B, 3),)),
    "slice_scatter": (lambda x, y: fl.slice_scatter(x, y, 1, 0, 3, 2), (numbers(B, 2, 3), numbers(B, 2, 2))),
    "diagonal_scatter": (lambda x: fl.diagonal_scatter(fl.ones(3, 3, dtype=x.dtype), x), (numbers(B, 3),)),
    "type of another": (lambda x, y: x.float().to(y) * y, (numbers(B, 3), numbers(B, 3, seed=1))),
}  # fmt: skip
ONE_EACH = ("batch_norm", "index_put_", "index_add_", "written through indices", "type of another")  # what they write to is a batch
NO_SECOND = ("ctc_loss",)  # whose backward has no derivative


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def loop(f, args, dims):
    rows = [outputs(f(*(a if d is None else a.select(d, i) for a, d in zip(args, dims)))) for i in range(BATCH)]
    return [fl.stack(list(column)) for column in zip(*rows)]


def loss(f, args):
    """A number, as a function of the arguments that have derivatives."""
    at = [i for i, a in enumerate(args) if a.is_floating_point()]

    def total(*some):
        given = list(args)
        for i, x in zip(at, some):
            given[i] = x
        return sum((y.double().sin()).sum() for y in outputs(f(*given)))

    return total, [args[i] for i in at]


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    f, args = CASES[name]
    everything = (0,) * len(args)
    choices = [everything, *(tuple(0 if i == k else None for i in range(len(args))) for k in range(len(args)))]
    for dims in choices[: None if len(args) > 1 else 1]:
        given = [a if d == 0 else a[1] for a, d in zip(args, dims)]
        if name in ONE_EACH and dims != everything:
            continue
        for found, expected in zip(outputs(vmap(f, in_dims=dims)(*given)), loop(f, given, dims), strict=True):
            assert found.dtype is expected.dtype
            assert_near(found, expected, what=f"{name} {dims}")


@pytest.mark.parametrize("name", CASES)
def test_other_axes_and_batches_of_batches(name):
    f, args = CASES[name]
    plain = [a.clone() for a in outputs(vmap(f)(*args))]
    last = [a.movedim(0, -1) for a in args]
    for found, expected in zip(outputs(vmap(f, in_dims=-1, out_dims=-1)(*last)), plain, strict=True):
        assert_near(found, expected.movedim(0, -1))
    twice = [fl.stack([a, a.flip(0)], 1) for a in args]
    for found, expected in zip(outputs(vmap(vmap(f))(*twice)), plain, strict=True):
        assert_near(found, fl.stack([expected, expected.flip(0)], 1))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    f, args = CASES[name]
    _, given = loss(f, args)
    at = [i for i, a in enumerate(args) if a.is_floating_point()]

    def gradients(*row):
        total, some = loss(f, row)
        return grad(total, argnums=tuple(range(len(at))))(*some)

    expected = loop(gradients, args, (0,) * len(args))
    inside = vmap(gradients)(*args)
    outside = grad(loss(vmap(f), args)[0], argnums=tuple(range(len(at))))(*given)
    for found, other, wanted in zip(inside, outside, expected, strict=True):
        assert_near(found, wanted, scale=100)
        assert_near(other, wanted, scale=100)


@pytest.mark.parametrize("name", [n for n in CASES if n not in NO_SECOND])
def test_directions(name):
    f, args = CASES[name]

    def along(*row):
        total, some = loss(f, row)
        return jvp(total, tuple(some), tuple(x.cos() for x in some))[1]

    (expected,) = loop(along, args, (0,) * len(args))
    assert_near(vmap(along)(*args), expected, scale=100)


# ------------------------------------------------------------------------------------- what is refused


def test_no_sample_reads_or_writes_another_ones_elements():
    far, x = fl.tensor([[0], [4]]), fl.zeros(2, 4)
    refused = [
        lambda i, a: a.index_add(0, i, fl.ones(1)), lambda i, a: a.put(i, fl.ones(1)), lambda i, a: a.index_fill(0, i, 1.0),
        lambda i, a: F.embedding(i, a.unsqueeze(1)), lambda i, a: a[i], lambda i, a: a.index_put((i,), fl.ones(1)),
    ]  # fmt: skip
    for f in refused:
        with pytest.raises(IndexError):
            vmap(f)(far, x)
    with pytest.raises(RuntimeError, match="beyond the memory of a sample"):
        vmap(lambda a: a.as_strided((5,), (1,)))(x)


def test_memory_of_a_sample_begins_where_it_says():
    x = fl.arange(15)[3:].reshape(2, 6)
    for begin in (0, 2):
        found = vmap(lambda a: a[begin:].as_strided((2, 2), (2, 1), a[begin:].storage_offset()))(x)  # noqa: B023
        assert found.tolist() == [[[a, a + 1], [a + 2, a + 3]] for a in (3 + begin, 9 + begin)]


def test_statistics_that_samples_share_are_not_written_for_each():
    x, mean, var, weight = numbers(4, 2, 3), numbers(2), numbers(2).exp(), numbers(BATCH, 2)
    expected = statistics(x, mean, var, weight[1])
    found = vmap(lambda w: F.batch_norm(x, mean, var, w, None, True))(weight)  # of one input: written once
    assert_near(found[1], expected[0])
    assert_near(mean, expected[1])
    with pytest.raises(RuntimeError, match="which all samples share"):
        vmap(lambda a: F.batch_norm(a, mean, var, None, None, True))(fl.stack([x, x]))


def second(f, x):
    """jacfwd of the gradient, inside of which what is differentiated is a batch of copies."""
    return func.jacfwd(func.grad(f))(x)


@pytest.mark.parametrize("by", [lambda f, x: func.hessian(f)(x), second], ids=["hessian", "jacfwd of grad"])
def test_statistics_that_are_the_same_for_all_samples_are_written_once(by):
    x, weight = numbers(4, 2), numbers(2)
    mean, var = numbers(2), numbers(2).exp()
    _, once_mean, once_var = statistics(x * x, mean, var, weight)
    expected = by(lambda x: (F.batch_norm(x * x, None, None, weight, None, True) ** 3).sum(), x)
    mean, var = numbers(2), numbers(2).exp()
    found = by(lambda x: (F.batch_norm(x * x, mean, var, weight, None, True) ** 3).sum(), x)
    assert_near(found, expected)
    assert_near(mean, once_mean)
    assert_near(var, once_var)


def test_what_is_the_same_for_all_samples_is_written_once_to_what_they_share():
    norm = fl.nn.InstanceNorm1d(2, track_running_stats=True).double()
    other = fl.nn.InstanceNorm1d(2).double()
    x = numbers(3, 2, 2)
    assert_near(func.hessian(lambda x: (norm(x) ** 3).sum())(x), func.hessian(lambda x: (other(x) ** 3).sum())(x))
    once = fl.nn.InstanceNorm1d(2, track_running_stats=True).double()
    once(x)
    assert_near(norm.running_mean, once.running_mean)
    assert_near(norm.running_var, once.running_var)
    kept = fl.zeros(3, 2, 2, dtype=fl.float64)

    def noted(x):
        kept[0] = x.detach()[0] * 2
        return x.square().sum()

    func.hessian(noted)(x)
    assert_near(kept[0], x[0] * 2)
    with pytest.raises(RuntimeError, match="all 2 samples share"):
        vmap(lambda a: kept.add_(a))(fl.ones(2, 3, 2, 2))


@pytest.mark.parametrize("change", ["written", "written through a view", "drawn"])
def test_statistics_of_copies_that_were_changed_are_not_written(change):
    mean, var = fl.zeros(2), fl.ones(2)

    def inner(x, d):
        y = x * 1
        if change == "drawn":
            y = F.dropout(y)
        else:
            (y if change == "written" else y[:1]).copy_(d * y[:1])
        return F.batch_norm(y, mean, var, None, None, True).sum()

    with pytest.raises(RuntimeError, match="which all samples share"):
        vmap(lambda d: func.grad(inner)(fl.randn(3, 2), d), randomness="different")(fl.ones(2))


def test_checks_read_the_values_of_all_samples():
    with pytest.raises(ValueError, match=r"q must be in the range \[0"):
        vmap(lambda q: fl.quantile(fl.ones(3), q))(fl.tensor([0.5, 2.0]))
    with pytest.raises(IndexError, match="Found an invalid max index"):
        vmap(lambda i: F.max_unpool1d(fl.ones(1, 1), i, 2))(fl.tensor([[[0]], [[9]]]))


def test_gradients_of_layers_without_inputs():
    w, x = numbers(2, 0), numbers(BATCH, 5, 0)
    assert vmap(grad(lambda w, a: F.linear(a, w).sum()), in_dims=(None, 0))(w, x).shape == (BATCH, 2, 0)


def test_types_of_samples_are_those_of_their_elements():
    wide = fl.ones(2, 3).double()
    moved = fl.func.vmap(lambda o: fl.ones(3).to(o))(wide)
    assert moved.dtype is fl.float64 and fl.equal(moved, wide)
    assert fl.equal(fl.func.vmap(fl.nn.functional.mse_loss)(fl.ones(2, 3), 3 * wide), fl.tensor([4.0, 4.0], dtype=fl.float64))
    y, tangent = fl.func.jvp(lambda o: fl.ones(3).to(o) * o, (wide[0],), (wide[1],))
    assert y.dtype is fl.float64 and fl.equal(tangent, wide[1])


ONE = fl.tensor(1)
WITH_WHOLE_NUMBERS = {  # integers take their axes away before tensors are placed
    "before": lambda x: x[0, :, [0, 2, 1]],
    "before, with a new axis": lambda x: x[0, None, :, [0, 1]],
    "behind": lambda x: x[[0, 1], :, 0],
    "in a tensor": lambda x: x[ONE, :, fl.tensor([0, 1])],
    "between": lambda x: x[:, [0, 1], 0, fl.tensor([2, 1])],
    "beside tensors that are apart": lambda x: x[fl.tensor([0, 1]), 0, :, [1, 0]],
    "tensors of each sample": lambda x: x[1, :, x[0, 0, :2, 0].long() % 3],
    "a mask": lambda x: x[0, :, fl.tensor([True, False, True])],
}


@pytest.mark.parametrize("name", WITH_WHOLE_NUMBERS)
def test_whole_numbers_beside_tensors_in_an_index(name):
    f, x = WITH_WHOLE_NUMBERS[name], 3 * numbers(BATCH, 2, 4, 3, 5)

    def written(a):
        y = a * 2
        y[1, :, fl.tensor([0, 2]) if name != "in a tensor" else ONE] = a[0, :, :1, 0].unsqueeze(1) if name != "in a tensor" else 0.0
        return y

    assert fl.equal(vmap(f)(x), fl.stack([f(a) for a in x]))
    assert fl.equal(vmap(grad(lambda a: f(a).square().sum()))(x), fl.stack([grad(lambda a: f(a).square().sum())(a) for a in x]))
    assert fl.equal(vmap(written)(x), fl.stack([written(a) for a in x]))


MIXED = {  # weights may be wider than what they scale
    "layer_norm": lambda x, w: F.layer_norm(x.transpose(-1, -2), (4,), w, w),
    "rms_norm": lambda x, w: F.rms_norm(x.transpose(-1, -2), (4,), w),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "instance_norm": lambda x, w: F.instance_norm(x, weight=w, bias=w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, True),
    "batch_norm of weights": lambda x, w: F.batch_norm(x, fl.zeros(4), fl.ones(4), w, w),
    "batch_norm of numbers": lambda x, w: F.batch_norm(x, fl.zeros(4), fl.ones(4)) * w.bfloat16()[:, None],
    "prelu": F.prelu,
    "cross_entropy": lambda x, w: F.cross_entropy(x, fl.tensor([[0, 1, 3], [2, 2, 0]]), w),
    "nll_loss": lambda x, w: F.nll_loss(x, fl.tensor([[0, 1, 3], [2, 2, 0]]), w),
}


@pytest.mark.parametrize("name", MIXED)
def test_results_have_the_type_of_what_is_scaled(name):
    f, x, w = MIXED[name], numbers(2, 4, 3).bfloat16(), numbers(4).exp().float()
    expected = f(x, w)
    assert expected.dtype is fl.bfloat16
    for dims in ((0, 0), (0, None), (None, 0)):
        found = vmap(f, dims)(*(t if d is None else fl.stack([t, t]) for t, d in zip((x, w), dims)))
        assert found.dtype is fl.bfloat16
        assert_near(found[1].float(), expected.float(), scale=1e5)
    for y in (*jvp(lambda x: f(x, w), (x,), (x,)), *jvp(lambda w: f(x, w), (w,), (w,))):
        assert y.dtype is fl.bfloat16


def test_lines_that_are_named_twice_are_filled_once():
    x, values, c = numbers(BATCH, 3, 2), numbers(BATCH), numbers(3, 2)
    for index in (fl.tensor([2, 0, 2]), fl.tensor([-1, 2])):

        def f(a, v, index=index):
            return fl.index_fill(a, 0, index, v)

        assert fl.equal(vmap(f)(x, values), fl.stack([f(a, v) for a, v in zip(x, values)]))
        slope = grad(lambda a, v, f=f: (f(a, v) * c).sum(), (0, 1))
        for found, expected in zip(vmap(slope)(x, values), zip(*(slope(a, v) for a, v in zip(x, values)))):
            assert_near(found, fl.stack(expected))
