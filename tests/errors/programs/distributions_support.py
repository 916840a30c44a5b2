"""The probability of a value that can not be."""

import flambeau as fl
from flambeau.distributions import Bernoulli

Bernoulli(fl.tensor(0.3)).log_prob(fl.tensor([0.0, 1.0, 2.0]))
