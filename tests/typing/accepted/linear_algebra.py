"""Decompositions have fields."""
from typing_extensions import assert_type

import flambeau as fl

a = fl.eye(3) * 2 + 0.1
assert_type(fl.linalg.inv(a), fl.Tensor)
assert_type(fl.linalg.solve(a, fl.ones(3)), fl.Tensor)
u, s, vh = fl.linalg.svd(a)
q, r = fl.linalg.qr(a)
values, vectors = fl.linalg.eigh(a)
assert_type(fl.linalg.eigh(a).eigenvectors, fl.Tensor)
assert_type(fl.linalg.slogdet(a).logabsdet, fl.Tensor)
assert_type(s, fl.Tensor)
assert_type(fl.linalg.norm(a), fl.Tensor)
assert_type(fl.linalg.cholesky(a), fl.Tensor)
print(s, q @ r, values, u.shape, vh.shape, vectors.shape)
