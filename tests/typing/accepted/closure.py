"""step gives what its closure gives."""
from typing_extensions import assert_type

import flambeau as fl

w = fl.ones(2, requires_grad=True)
optimizer = fl.optim.LBFGS([w], lr=0.5, max_iter=3)


def closure() -> fl.Tensor:
    optimizer.zero_grad()
    loss = ((w - 3) ** 2).sum()
    loss.backward()
    return loss


assert_type(optimizer.step(closure), fl.Tensor)
assert_type(fl.optim.Adam([w]).step(lambda: 1.5), float)
print(w)
