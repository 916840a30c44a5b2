import flambeau as fl

fl.ones(2) + "1"  # error: Unsupported operand types
