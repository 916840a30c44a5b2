"""An array from a tensor that has a history."""

import flambeau as fl

prediction = fl.ones(3, requires_grad=True) * 2
prediction.numpy()
