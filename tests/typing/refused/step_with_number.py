import flambeau as fl

fl.optim.SGD([fl.ones(1, requires_grad=True)], lr=0.1).step(3)  # error: No overload variant of "step"
