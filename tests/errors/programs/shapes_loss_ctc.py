"""A target that is longer than the list of lengths says."""

import flambeau as fl
from flambeau.nn import functional as F

log_probs = fl.zeros(50, 4, 20).log_softmax(2)
targets = fl.ones(4, 10, dtype=fl.int64)
F.ctc_loss(log_probs, targets, input_lengths=(50, 50, 50), target_lengths=(10, 10, 10, 10))
