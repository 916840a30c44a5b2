import flambeau as fl

fl.zeros(2, dtype="float32")  # error: No overload variant of "zeros"
