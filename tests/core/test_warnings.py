"""What PyTorch warns about, and programs' tests expect."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

x, picture, grid = fl.ones(3), fl.ones(1, 1, 4, 4), fl.ones(1, 2, 2, 2)
row, mask, padding = fl.ones(1, 3, 4), fl.zeros(3, 3), fl.zeros(1, 3, dtype=fl.bool)
attention, layer = nn.MultiheadAttention(4, 2, batch_first=True), nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)
sgd = fl.optim.SGD([nn.Parameter(x)], lr=0.1)
CASES = [
    (lambda: fl.meshgrid(x, x), UserWarning, "required to pass the indexing argument"),
    (lambda: fl.tensor(x), UserWarning, r"recommended to use sourceTensor.detach\(\).clone\(\).*rather than tensor"),
    (lambda: fl.tensor(nn.Parameter(x)), UserWarning, "To copy construct from a tensor"), (lambda: x.new_tensor(x), UserWarning, "To copy construct from a tensor"),
    (lambda: fl.cross(fl.ones(3, 4), fl.ones(3, 4)), UserWarning, "without specifying the dim arg is deprecated"),
    (lambda: nn.MSELoss(size_average=False), UserWarning, "please use reduction='sum' instead"), (lambda: nn.CrossEntropyLoss(reduce=False), UserWarning, "reduction='none'"),
    (lambda: F.mse_loss(x, x, size_average=True), UserWarning, "reduction='mean'"), (lambda: F.upsample(picture, 2), UserWarning, "Use `nn.functional.interpolate` instead"),
    (lambda: F.grid_sample(picture, grid), UserWarning, "specify align_corners=True"), (lambda: F.affine_grid(fl.ones(1, 2, 3), (1, 1, 2, 2)), UserWarning, "specify align_corners=True"),
    (lambda: fl.stft(fl.ones(8), 4, return_complex=True), UserWarning, "a window was not provided"),
    (lambda: fl.istft(fl.ones(3, 9, dtype=fl.complex64), 4), UserWarning, "istft: a window was not provided"),
    (lambda: fl.cov(fl.ones(2, 1)), UserWarning, "degrees of freedom is <= 0"), (lambda: fl.corrcoef(fl.ones(2, 1)), UserWarning, r"cov\(\): degrees of freedom"),
    (lambda: fl.optim.lr_scheduler.StepLR(sgd, 2).get_lr(), UserWarning, "please use `get_last_lr"), (lambda: fl.optim.swa_utils.SWALR(sgd, 0.1).get_lr(), UserWarning, "get_last_lr"),
    (lambda: fl.utils.data.DataLoader([1, 2], num_workers=10000), UserWarning, "will create 10000 workers in total"),
    (lambda: attention(row, row, row, padding, attn_mask=mask), UserWarning, "mismatched key_padding_mask and attn_mask"),
    (lambda: layer(row, mask, padding), UserWarning, "mismatched src_key_padding_mask and src_mask"),
    (lambda: nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)(row, mask, padding), UserWarning, "mismatched src_key_padding_mask and mask"),
    (lambda: nn.utils.weight_norm(nn.Linear(2, 2)), FutureWarning, "parametrizations.weight_norm"), (lambda: nn.Linear(0, 2), UserWarning, "zero-element tensors is a no-op"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "category", "text"), CASES, ids=[text for *_, text in CASES])
def test_what_is_warned_about(call, category, text):
    with pytest.warns(category, match=text) as found:
        call()
    assert len(found) == 1 and found[0].filename == __file__


readonly = np.ones(3)
readonly.flags.writeable = False
ONCE = [
    (lambda: fl.from_numpy(readonly), "NumPy array is not writable"), (lambda: fl.as_tensor(readonly, dtype=fl.float32), "NumPy array is not writable"),
    (lambda: fl.frombuffer(b"12", dtype=fl.uint8), "buffer is not writable"),
    (lambda: fl.ones(3).index_reduce_(0, fl.tensor([0]), fl.ones(1), "mean"), r"index_reduce\(\) is in beta"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), ONCE)
def test_what_is_warned_about_once(call, text, monkeypatch):
    monkeypatch.setattr("flambeau._warn._given", set())
    with pytest.warns(UserWarning, match=text) as found:
        call()
        call()
    assert len(found) == 1 and found[0].filename == __file__


SILENT = [
    lambda: fl.meshgrid(x, x, indexing="ij"), lambda: fl.cartesian_prod(x, x), lambda: fl.tensor([1.0]), lambda: fl.tensor([x[0], x[1]]), lambda: fl.as_tensor(x), lambda: fl.scalar_tensor(1.0),
    lambda: fl.cross(x, x, dim=0), lambda: fl.linalg.cross(x, x), lambda: nn.MSELoss(reduction="sum"), lambda: F.grid_sample(picture, grid, align_corners=False),
    lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), lambda: fl.utils.data.DataLoader([1, 2], num_workers=1), lambda: fl.cov(fl.ones(2, 2)),
    lambda: attention(row, row, row, padding, attn_mask=mask.bool()), lambda: layer(row, mask, padding.to(row.dtype)), lambda: fl.tensor(readonly), lambda: fl.from_numpy(readonly.copy()), lambda: pickle.loads(pickle.dumps(x)),
    lambda: [schedule := fl.optim.lr_scheduler.CyclicLR(sgd, 0.1, 0.2, cycle_momentum=False), sgd.step(), schedule.step()],
]  # fmt: skip


@pytest.mark.parametrize("call", SILENT)
def test_what_is_not(call, monkeypatch):
    monkeypatch.setattr("flambeau._warn._given", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


def test_cross_takes_the_first_axis_of_size_3():
    a, b = fl.randn(3, 3), fl.randn(3, 3)
    with pytest.warns(UserWarning, match="dim = 0"):
        assert fl.equal(fl.cross(a, b), fl.linalg.cross(a, b, dim=0))
    with pytest.warns(UserWarning):
        assert a[:, :1].expand(3, 4).cross(b[:, :1].expand(3, 4)).shape == (3, 4)
    for wrong in ((fl.ones(4), fl.ones(4)), (fl.ones(3, 3), fl.ones(3))):
        with pytest.raises(fl.ShapeError, match="expected an axis of size 3 in both"):
            fl.cross(*wrong)
