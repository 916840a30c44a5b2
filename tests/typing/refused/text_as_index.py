import flambeau as fl

fl.ones(2)["first"]  # error: expected type "SupportsIndex
