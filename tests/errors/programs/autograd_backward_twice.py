"""backward() is called for two losses that share a part of the graph."""

import flambeau as fl

x = fl.ones(3, requires_grad=True)
shared = x.exp()
first = (shared * 2).sum()
second = (shared * shared).sum()
first.backward()
second.backward()
