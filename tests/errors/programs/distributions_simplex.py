"""Values that are no probabilities."""

import flambeau as fl
from flambeau.distributions import Dirichlet

Dirichlet(fl.ones(3)).log_prob(fl.tensor([0.5, 0.5, 0.5]))
