"""A function that looks at its values can not become one graph."""

import flambeau as fl


@fl.compile(fullgraph=True)
def step(x):
    if x.sum().item() > 0:
        return x * 2
    return x - 1


step(fl.ones(3))
