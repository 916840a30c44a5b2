import flambeau as fl

fl.ones(2).view("2", "1")  # error: No overload variant of "view"
fl.zeros(2.5)  # error: No overload variant of "zeros"
