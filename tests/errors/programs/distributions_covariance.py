"""A covariance that is not positive definite."""

import flambeau as fl
from flambeau.distributions import MultivariateNormal

MultivariateNormal(fl.zeros(2), covariance_matrix=fl.tensor([[1.0, 2.0], [2.0, 1.0]]))
