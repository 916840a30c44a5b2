"""Functions under older names, beside PyTorch's."""

import numpy as np
import pytest
from beside import assert_same, fl, randn, torch

CALLS = {
    "pdist": lambda lib, t: lib.pdist(t(randn(4, 3))),
    "bilinear": lambda lib, t: lib.bilinear(t(randn(2, 3)), t(randn(2, 4)), t(randn(5, 3, 4)), t(randn(5))),
    "channel_shuffle": lambda lib, t: lib.channel_shuffle(t(randn(1, 4, 2, 2)), 2),
    "max_pool3d": lambda lib, t: lib.max_pool3d(t(randn(1, 2, 4, 4, 4)), 2, 2, 1),
    "adaptive_max_pool1d": lambda lib, t: lib.adaptive_max_pool1d(t(randn(1, 2, 7)), 3),
    "rrelu": lambda lib, t: lib.rrelu(t(randn(4)), 0.1, 0.3, False),
    "celu_": lambda lib, t: lib.celu_(t(randn(4)), 0.7),
    "threshold_": lambda lib, t: lib.threshold_(t(randn(4)), 0.1, 5.0),
    "alpha_dropout": lambda lib, t: lib.alpha_dropout(t(randn(4)), 0.5, False),
    "nuclear_norm": lambda lib, t: [lib.nuclear_norm(t(randn(3, 4))), lib.nuclear_norm(t(randn(2, 3, 4)), (0, 2), True)],
    "frobenius_norm": lambda lib, t: [lib.frobenius_norm(t(randn(3, 4)), (0, 1)), lib.frobenius_norm(t(randn(2, 3, 4)), (1,), True)],
    "norm_except_dim": lambda lib, t: [lib.norm_except_dim(t(randn(3, 4, 2)), 2, d) for d in (-1, 0, 1)],
    "triplet": lambda lib, t: [lib.triplet_margin_loss(t(randn(4, 3)), t(randn(4, 3, seed=1)), t(randn(4, 3, seed=2)), 1.0, 2, 1e-6, False, r) for r in range(3)],
    "cosine": lambda lib, t: [lib.cosine_embedding_loss(t(randn(4, 3)), t(randn(4, 3, seed=1)), t(np.array([1.0, -1, 1, -1])), 0.1, r) for r in range(3)],
    "hinge": lambda lib, t: [lib.hinge_embedding_loss(t(randn(4)), t(np.array([1.0, -1, 1, -1])), 0.7, r) for r in range(3)],
    "ranking": lambda lib, t: [lib.margin_ranking_loss(t(randn(4)), t(randn(4, seed=1)), t(np.array([1.0, -1, 1, -1])), 0.7, r) for r in range(3)],
    "poisson": lambda lib, t: [lib.poisson_nll_loss(t(randn(4)), t(np.array([1.0, 2, 3, 0])), True, True, 1e-8, r) for r in range(3)],
    "ctc": lambda lib, t: [lib.ctc_loss(t(randn(6, 2, 4)).log_softmax(2), t(np.array([[1, 2], [3, 1]])), (6, 5), (2, 1), 0, r, False) for r in range(3)],
    "new": lambda lib, t: [t(randn(2)).new([1, 2]), lib.zeros(1).fill_(len(t(randn(2)).new(3, 2).shape))],
    "apply": lambda lib, t: [t(randn(2, 3)).apply_(lambda v: v * v), t(randn(2, 3)).map_(t(randn(2, 3, seed=1)), lambda a, b: a - b)],
    "order": lambda lib, t: lib.tensor(t(randn(2, 3, 4)).permute(1, 2, 0).dim_order()),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    def run(lib):
        np.random.seed(0)
        got = CALLS[name](lib, lambda a: lib.tensor(a))
        return got if isinstance(got, (list, tuple)) else [got]

    for ours, theirs in zip(run(fl), run(torch), strict=True):
        assert_same(ours, theirs)


def test_every_name_is_a_name_there():
    assert [name for name, module in fl._LAZY_NAMES.items() if module == "_older" and not hasattr(torch, name)] == []
