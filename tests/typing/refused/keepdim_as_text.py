import flambeau as fl

fl.ones(2).mean(0, keepdim="yes")  # error: incompatible type "str"; expected "bool"
