import flambeau as fl

fl.ones(2).max().values  # error: has no attribute "values"
