"""Seeds and generators."""
from typing_extensions import assert_type

import flambeau as fl

assert_type(fl.manual_seed(0), fl.Generator)
state = fl.get_rng_state()
a = fl.rand(3)
fl.set_rng_state(state)
b = fl.rand(3)
g = fl.Generator().manual_seed(7)
assert_type(fl.randperm(5, generator=g), fl.Tensor)
assert_type(fl.allclose(a, b), bool)
assert_type(fl.equal(a, b), bool)
print(fl.equal(a, b), g.initial_seed())
