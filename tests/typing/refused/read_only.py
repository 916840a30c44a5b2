import flambeau as fl

x = fl.ones(2)
x.dtype = fl.float64  # error: read-only
x.shape = (2, 1)  # error: read-only
