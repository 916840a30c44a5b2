import flambeau as fl

largest = fl.ones(2, 2).max(dim=1)
largest.argmax  # error: has no attribute "argmax"
largest.positions  # error: has no attribute "positions"
