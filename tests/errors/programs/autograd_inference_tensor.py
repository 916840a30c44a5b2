"""A tensor from inference mode is used in training."""

import flambeau as fl

with fl.inference_mode():
    features = fl.ones(3) * 2
weight = fl.ones(3, requires_grad=True)
(features * weight).sum().backward()
