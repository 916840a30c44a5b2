"""group_norm and instance_norm of what a convolution made, whose channels lie last: the same as of a row-major copy, without putting it in order."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F

TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 4e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("sizes", "groups"),
    [((2, 16, 9, 7), 4), ((3, 32, 33, 17), 1), ((1, 96, 20, 20), 96), ((2, 80, 5, 5), 8), ((2, 16, 300), 2), ((1, 32, 3, 5, 9), 16), ((2, 16, 1, 2), 16)],
)
def test_as_of_a_row_major_copy(dtype, sizes, groups):
    fl.manual_seed(1)
    n, channels, *plane = sizes
    convolution = {1: fl.nn.Conv1d, 2: fl.nn.Conv2d, 3: fl.nn.Conv3d}[len(plane)](8, channels, 1).to(getattr(fl, dtype))
    made = convolution(fl.randn(n, 8, *plane).to(getattr(fl, dtype))).detach() * 1.5 + 0.25
    weight, bias, dy = fl.rand(channels), fl.rand(channels), fl.randn(sizes)
    found = []
    for x in (made, fl.tensor(made.double().numpy().copy()).to(made.dtype)):
        x.requires_grad_()
        w, b = (t.clone().to(made.dtype).requires_grad_() for t in (weight, bias))
        y = F.group_norm(x, groups, w, b)
        y.backward(dy.to(made.dtype))
        plain = F.instance_norm(x) if len(plane) else x
        found.append([t.detach().double().numpy() for t in (y, x.grad, w.grad, b.grad, plain)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * max(1.0, np.abs(b).max()))


@pytest.mark.eager("when bytes are put in order")
def test_the_images_alone_are_put_in_order():
    nn = fl.nn
    net = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1), nn.InstanceNorm2d(32), nn.ReLU(), nn.Conv2d(32, 16, 1)
    )  # fmt: skip
    x = fl.randn(2, 16, 24, 24)
    for _ in range(2):
        before = fl._C.layout_reorders()
        y = net(x)
        assert fl._C.layout_reorders() - before == 1
    y.backward(fl.ones_like(y))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
