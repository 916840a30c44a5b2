"""Probabilities and logits at once."""

import flambeau as fl
from flambeau.distributions import Categorical

Categorical(probs=fl.ones(3) / 3, logits=fl.zeros(3))
