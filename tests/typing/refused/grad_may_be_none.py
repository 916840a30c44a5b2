import flambeau as fl

x = fl.ones(2, requires_grad=True)
x.grad.zero_()  # error: has no attribute "zero_"
