"""backward, grad and hooks."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.ones(3, requires_grad=True)
y = (x**2).sum()
handle = x.register_hook(lambda g: g * 2)
y.backward(retain_graph=True)
handle.remove()
assert_type(x.grad, "fl.Tensor | None")
if x.grad is not None:
    print(x.grad.norm())
(g,) = fl.autograd.grad(y, (x,))
print(g, y.grad_fn is not None, x.is_leaf)
x.grad = None
