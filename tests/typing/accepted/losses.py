"""Losses as modules."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn

x, y = fl.randn(3, 4), fl.randn(3, 4)
assert_type(nn.MSELoss()(x, y), fl.Tensor)
assert_type(nn.SmoothL1Loss(beta=0.5)(x, y), fl.Tensor)
assert_type(nn.BCEWithLogitsLoss(reduction="sum")(x, y.sigmoid()), fl.Tensor)
assert_type(nn.CrossEntropyLoss(label_smoothing=0.1)(x, fl.tensor([0, 1, 2])), fl.Tensor)
assert_type(nn.CosineSimilarity(dim=-1)(x, y), fl.Tensor)
print(nn.KLDivLoss(reduction="batchmean")(x.log_softmax(-1), y.softmax(-1)))
