import flambeau as fl

fl.rellu(fl.ones(2))  # error: has no attribute "rellu"
