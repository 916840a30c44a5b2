"""A divergence that nobody has a formula for."""

import flambeau as fl
from flambeau.distributions import Cauchy, Gamma, kl_divergence

kl_divergence(Cauchy(0.0, 1.0), Gamma(1.0, 1.0))
