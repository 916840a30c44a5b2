from flambeau import nn

nn.Lineer(2, 2)  # error: has no attribute "Lineer"
