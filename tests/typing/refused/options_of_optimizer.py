import flambeau as fl

fl.optim.Adam([fl.ones(1)], learning_rate=0.1)  # error: Unexpected keyword argument "learning_rate"
fl.optim.SGD([fl.ones(1)], lr="0.1")  # error: incompatible type "str"
