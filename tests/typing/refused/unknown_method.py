import flambeau as fl

fl.ones(2).unsqueze(0)  # error: has no attribute "unsqueze"
