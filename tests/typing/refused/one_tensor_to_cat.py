import flambeau as fl

fl.cat(fl.ones(2))  # error: incompatible type "Tensor"; expected "Sequence[Tensor]"
