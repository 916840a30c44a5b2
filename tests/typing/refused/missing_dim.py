import flambeau as fl

fl.softmax(fl.ones(2))  # error: Missing positional argument "dim"
