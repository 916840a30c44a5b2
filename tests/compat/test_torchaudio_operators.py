"""The operators of torchaudio's extension: against sums over all paths, and loops."""

import itertools

import numpy as np
import pytest

import flambeau as fl
from flambeau.compat._torch.extensions import provide

assert provide("/somewhere/torchaudio/lib/_torchaudio.abi3.so") and provide("/somewhere/torchaudio/lib/libtorchaudio.abi3.so")
ops = fl.ops.torchaudio


def test_it_says_what_it_has():
    assert fl.ops._torchaudio.cuda_version() is None and fl.ops._torchaudio.is_align_available() is True


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_lfilter(dtype):
    x, a = fl.randn(2, 3, 20, dtype=dtype), fl.tensor([[1.0, -0.5, 0.25]]).to(dtype).expand(3, 3).contiguous()
    y = fl.zeros(2, 3, 22, dtype=dtype)
    ops._lfilter_core_loop(x, a.flip(1), y)
    want = np.zeros((2, 3, 22))
    for t in range(20):
        want[:, :, t + 2] = x[:, :, t].numpy() + 0.5 * want[:, :, t + 1] - 0.25 * want[:, :, t]
    np.testing.assert_allclose(y.numpy(), want, atol=1e-5)


def test_overdrive():
    x, temp = fl.randn(2, 9), fl.randn(2, 9)
    y = fl.zeros(2, 9)
    ops._overdrive_core_loop(x, temp, fl.zeros(2), fl.zeros(2), y)
    before, out = np.zeros(2), np.zeros(2)
    for t in range(9):
        out, before = temp[:, t].numpy() - before + 0.995 * out, temp[:, t].numpy()
        np.testing.assert_allclose(y[:, t].numpy(), x[:, t].numpy() * 0.5 + out * 0.75, atol=1e-5)


def said_by(path):
    return [label for label, _ in itertools.groupby(path) if label != 0]


@pytest.mark.parametrize("labels", [[1], [1, 2], [2, 2], [1, 2, 1]])
def test_forced_align_finds_the_best_path(labels):
    scores = fl.randn(1, 5, 3, dtype=fl.float64).log_softmax(-1)
    table = scores[0].numpy()
    best = max((p for p in itertools.product(range(3), repeat=5) if said_by(p) == labels), key=lambda p: sum(table[t, s] for t, s in enumerate(p)))
    paths, given = ops.forced_align(scores, fl.tensor([labels], dtype=fl.int32), fl.tensor([5]), fl.tensor([len(labels)]), 0)
    assert paths[0].tolist() == list(best) and paths.dtype is fl.int32 and fl.equal(given, scores)


def test_forced_align_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="too long for CTC.*length: 2.*repeats: 1"):
        ops.forced_align(fl.zeros(1, 2, 3), fl.tensor([[1, 1]]), fl.tensor([2]), fl.tensor([2]), 0)


def loss_of_paths(log_p, labels, blank):
    """Minus the logarithm of the sum over all paths, each an order of its steps to the next time and its labels."""
    steps, total = log_p.shape[0], []
    for order in itertools.permutations("t" * (steps - 1) + "u" * len(labels)):
        t, u, value = 0, 0, fl.zeros((), dtype=log_p.dtype)
        for step in order:
            value = value + log_p[t, u, blank if step == "t" else labels[u]]
            t, u = t + (step == "t"), u + (step == "u")
        total.append((order, value + log_p[t, u, blank]))
    return -fl.stack(list(dict(total).values())).logsumexp(0)


@pytest.mark.parametrize("fused", [True, False])
def test_rnnt_loss_is_that_of_all_paths(fused):
    logits = fl.randn(2, 3, 3, 4, dtype=fl.float64, requires_grad=True)
    targets, lengths, counts = fl.tensor([[1, 2], [3, 0]], dtype=fl.int32), fl.tensor([3, 2], dtype=fl.int32), fl.tensor([2, 1], dtype=fl.int32)
    costs, gradient = ops.rnnt_loss_forward(logits, targets, lengths, counts, 0, -1.0, fused)
    log_p = logits.log_softmax(-1) if fused else logits
    want = fl.stack([loss_of_paths(log_p[0], [1, 2], 0), loss_of_paths(log_p[1, :2], [3], 0)])
    (by_paths,) = fl.autograd.grad(want.sum(), logits)
    assert fl.allclose(costs, want) and fl.allclose(gradient, by_paths)
    clamped = ops.rnnt_loss_forward(logits, targets, lengths, counts, -4, 0.01, fused)[1]
    assert fl.allclose(clamped, by_paths.clamp(-0.01, 0.01))
