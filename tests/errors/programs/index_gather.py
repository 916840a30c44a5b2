"""gather() with an index that is too large."""

import flambeau as fl

q_values = fl.zeros(3, 4)
actions = fl.tensor([[0], [4], [2]])
q_values.gather(1, actions)
