"""Utilities of gradients."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn

model = nn.Linear(3, 1)
model(fl.ones(2, 3)).sum().backward()
norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
assert_type(norm, fl.Tensor)
nn.utils.clip_grad_value_(model.parameters(), 0.5)
vector = nn.utils.parameters_to_vector(model.parameters())
nn.utils.vector_to_parameters(vector * 2, model.parameters())
print(float(norm), vector.shape)
