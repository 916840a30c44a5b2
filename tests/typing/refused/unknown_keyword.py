import flambeau as fl

fl.softmax(fl.ones(2), axis=0, diim=1)  # error: diim
fl.ones(2).sum(dims=0)  # error: Unexpected keyword argument "dims"
