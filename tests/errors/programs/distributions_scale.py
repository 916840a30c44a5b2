"""A scale that is not positive, among many."""

import flambeau as fl
from flambeau.distributions import Normal

Normal(fl.zeros(4), fl.tensor([1.0, 0.5, -0.1, 2.0]))
