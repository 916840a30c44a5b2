"""What writes in place gives what it was called on."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn

w = nn.Parameter(fl.ones(3))
with fl.no_grad():
    assert_type(w.mul_(0.5), nn.Parameter)
    assert_type(w.add_(1).clamp_(min=0.0), nn.Parameter)
    w -= 0.1 * w
    assert_type(w, nn.Parameter)
x = fl.empty(3).normal_(0.0, 1.0).zero_()
assert_type(x, fl.Tensor)
assert_type(x.requires_grad_(), fl.Tensor)
print(w)
