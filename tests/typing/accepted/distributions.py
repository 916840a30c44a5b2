"""Sampling, log probabilities and divergences."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau.distributions import Categorical, MultivariateNormal, Normal, kl_divergence

q = Normal(fl.zeros(3), fl.ones(3))
assert_type(q.rsample(), fl.Tensor)
assert_type(q.log_prob(fl.ones(3)), fl.Tensor)
assert_type(kl_divergence(q, Normal(0.0, 1.0)), fl.Tensor)
assert_type(Categorical(logits=fl.randn(4)).sample((2,)), fl.Tensor)
print(q.entropy().sum(), MultivariateNormal(fl.zeros(2), fl.eye(2)).mean, q.event_shape)
