import flambeau as fl

fl.ones(2, 2).sum(dim="rows")  # error: incompatible type "str"
fl.cat([fl.ones(2)], dim="0")  # error: incompatible type "str"
