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
    "conv_tbc": lambda lib, t: [lib.conv_tbc(t(randn(5, 2, 3)), t(randn(2, 3, 4)), t(randn(4)), *pad) for pad in ((), (1,))],
    "grid_sampler": lambda lib, t: [lib.grid_sampler(t(randn(1, 2, 4, 3)), t(randn(1, 3, 3, 2)), i, j, c) for i in range(3) for j in range(3) for c in (True, False)],
    "grid_sampler_3d": lambda lib, t: lib.grid_sampler_3d(t(randn(1, 2, 4, 3, 3)), t(randn(1, 3, 3, 2, 3)), 0, 1, True),
    "affine_grid_generator": lambda lib, t: [lib.affine_grid_generator(t(randn(1, 2, 3)), (1, 1, 2, 3), True), lib.affine_grid_generator(t(randn(1, 3, 4)), (1, 1, 2, 3, 2), False)],
    "native_dropout": lambda lib, t: [*lib.native_dropout(t(randn(3)), 0.5, False), *lib.native_dropout(t(randn(3)), 1.0, None), *lib.native_dropout(t(randn(3)), 0.0, True)],
    "dropouts_in_place": lambda lib, t: [getattr(lib, f"{n}_")(t(randn(2, 3, 2)), p, p > 0.5) for n in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout") for p in (0.3, 1.0)],
    "embedding_renorm_": lambda lib, t: [lib.embedding_renorm_(t(randn(4, 3)), lib.tensor([[0, 2], [2, 3]]), 0.5, p) for p in (1.0, 2.0)],
    "copies": lambda lib, t: [lib.select_copy(t(randn(3, 4)), 1, 2), *lib.split_copy(t(randn(3, 4)), 3, 1), *lib.unsafe_split_with_sizes(t(randn(3, 4)), [1, 3], -1),
                              lib.view_as_real_copy(lib.view_as_complex_copy(t(randn(3, 2)))), lib.detach_copy(t(randn(3)))],
    "slices": lambda lib, t: [lib.slice_copy(t(randn(5, 4)), *a) for a in ((), (1,), (0, 1), (-1, -3, 100, 2), (0, None, -1))],
    "compressed_copies": lambda lib, t: [f(lib.eye(3).to_sparse_csr()) for f in (lib.crow_indices_copy, lib.col_indices_copy)]
                                        + [f(lib.eye(3).to_sparse_csc()) for f in (lib.ccol_indices_copy, lib.row_indices_copy)],
    "cond": lambda lib, t: [lib.cond(p, lambda x, y: x * y, lambda x, y: x - y, (t(randn(3)), t(randn(3)))) for p in (True, lib.tensor([False]))],
    "while_loop": lambda lib, t: lib.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (lib.tensor(0), t(randn(3)))),
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


WRONG = {
    "conv_tbc_axes": lambda lib: lib.conv_tbc(lib.ones(4, 3), lib.ones(2, 3, 5), lib.zeros(5)),
    "conv_tbc_channels": lambda lib: lib.conv_tbc(lib.ones(4, 2, 3), lib.ones(2, 4, 5), lib.zeros(5)),
    "native_dropout": lambda lib: lib.native_dropout(lib.ones(2), 2.0, True),
    "embedding_renorm_": lambda lib: lib.embedding_renorm_(lib.ones(3, 4, requires_grad=True), lib.tensor([0]), 1.0, 2.0),
    "slice_step": lambda lib: lib.slice_copy(lib.ones(3), 0, 0, 3, 0),
    "slice_axis": lambda lib: lib.slice_copy(lib.ones(3), 2),
    "cond_shape": lambda lib: lib.cond(lib.tensor([True, False]), lambda x: x, lambda x: -x, (lib.ones(1),)),
    "cond_type": lambda lib: lib.cond("yes", lambda x: x, lambda x: -x, (lib.ones(1),)),
    "while_loop": lambda lib: lib.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (lib.tensor(0), lib.ones(1))),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    for lib in (torch, fl):
        with pytest.raises((RuntimeError, IndexError)):
            WRONG[name](lib)


def test_gradients_go_through_copies_and_branches():
    def run(lib):
        x = lib.tensor(randn(3, 4), requires_grad=True)
        parts = [lib.slice_copy(x, 1, 0, 4, 3), lib.select_copy(x, 0, 1), *lib.split_copy(x, 3, 1)]
        parts.append(lib.cond(x.sum() > 100, lambda x: x * 3, lambda x: x * x, (x,)))
        sum((p * p).sum() for p in parts).backward()
        return x.grad

    assert_same(run(fl), run(torch))


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_what_is_dropped_as_a_whole_keeps_its_type(dtype, name, inplace):
    ours, theirs = (getattr(lib.nn.functional, name)(lib.ones(2, 3, dtype=getattr(lib, dtype)), 1.0, True, inplace) for lib in (fl, torch))
    assert_same(ours, theirs)
    assert str(ours.dtype).endswith(dtype) and str(theirs.dtype).endswith(dtype)
