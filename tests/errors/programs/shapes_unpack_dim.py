"""A dimension that is not there."""

import flambeau as fl

logits = fl.zeros(32, 10)
logits.softmax(dim=2)
