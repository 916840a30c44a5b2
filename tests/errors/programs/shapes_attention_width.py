"""Queries of another width than the layer was made for."""

import flambeau as fl
from flambeau import nn

layer = nn.TransformerEncoderLayer(d_model=64, nhead=4, batch_first=True)
model = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
model(fl.zeros(2, 10, 32))
