"""Names that packages ask for and no sample of PyTorch's has: both libraries run the same function, and what it returns is compared."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402


def data(lib, *shape, seed=0):
    return lib.tensor(np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32))


def plain(value):
    if isinstance(value, (torch.Tensor, fl.Tensor)):
        return np.asarray(value.detach().tolist(), np.float64)
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def near(a, b):
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            near(x, y)
    elif isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    else:
        assert a == b


def hooks(lib, mode, way):
    x, y, z = (lib.ones(2, requires_grad=True) for _ in range(3))
    a = x * 2
    b, c, seen = a.exp() + y, a * 3, []
    keep = (lambda g: seen.append(g)) if mode == "any" else lambda gs: seen.append(list(gs))
    lib.autograd.graph.register_multi_grad_hook([a, b, c, *([] if way == "grad" else [z])], keep, mode=mode)
    if way == "backward":
        (b.sum() + c.sum()).backward(retain_graph=True)
        b.sum().backward()
    elif way == "inputs":
        (b.sum() + c.sum()).backward(inputs=[y])
    else:
        lib.autograd.grad(b.sum() + c.sum(), x)
    return seen


def recurrent(lib, name, kind, bidirectional, packed):
    layer = getattr(lib.nn, kind)(3, 4, 2, bidirectional=bidirectional)
    params = [data(lib, *p.shape, seed=i) * 0.3 for i, p in enumerate(layer.parameters())]
    states = [data(lib, 4 if bidirectional else 2, 2, 4, seed=s) for s in (1, 2)]
    x, hx = data(lib, 5, 2, 3).requires_grad_(), tuple(states) if kind == "LSTM" else states[0]
    if packed:
        together = lib.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
        found = getattr(lib, name)(together.data, together.batch_sizes, hx, params, True, 2, 0.0, False, bidirectional)
    else:
        found = getattr(lib, name)(x, hx, params, True, 2, 0.0, False, bidirectional, False)
    (found[0] * data(lib, *found[0].shape)).sum().backward()
    return [*found, x.grad]


def rounded(lib, channels):
    x = data(lib, 3, 4, 5).requires_grad_()
    if channels:
        y = lib.fake_quantize_per_channel_affine(x, lib.tensor([0.1, 0.2, 0.05, 0.3]), lib.tensor([0, 1, 2, -3], dtype=lib.int32), 1, -8, 10)
    else:
        y = lib.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 10)
    (y * y).sum().backward()
    return y, x.grad


CASES = {
    **{f"hooks {mode} {way}": lambda lib, m=mode, w=way: hooks(lib, m, w) for mode in ("all", "any") for way in ("backward", "inputs", "grad")},
    **{f"{name} {both} {packed}": lambda lib, a=(name, kind, both, packed): recurrent(lib, *a)
       for name, kind in (("lstm", "LSTM"), ("gru", "GRU"), ("rnn_tanh", "RNN")) for both in (False, True) for packed in (False, True)},
    "rounded": lambda lib: rounded(lib, False),
    "rounded channels": lambda lib: rounded(lib, True),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_both_say_the_same(case):
    near(plain(CASES[case](fl)), plain(CASES[case](torch)))
