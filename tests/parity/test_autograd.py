"""Derivatives of whole functions, hooks of saved tensors and anomaly detection beside PyTorch."""

from __future__ import annotations

import pytest
from beside import as_ours, as_theirs, assert_same, both_raise, randn, torch

import flambeau as fl

FUNCTIONS = {
    "one in, one out": (lambda lib, x: (x**3).sum(-1), [(3, 2)]),
    "0-d": (lambda lib, x: x.exp(), [()]),
    "two in": (lambda lib, x, y: x * y.exp(), [(3,), (2, 3)]),
    "two out": (lambda lib, x: (x.sin(), (x * x).sum()), [(4,)]),
    "two and two": (lambda lib, x, y: (lib.outer(x, y), y.cos()), [(2,), (3,)]),
    "unused": (lambda lib, x, y: x * 2, [(2,), (3,)]),
    "constant": (lambda lib, x: (x * 2, lib.ones(2, dtype=lib.float64)), [(2,)]),
    "linear": (lambda lib, x: x * 3, [(2, 2)]),
}
SCALARS = {
    "cubes": (lambda lib, x: (x**3).sum(), [(3, 2)]),
    "two": (lambda lib, x, y: (x.exp() * y).sum() + (y**2).prod(), [(3,), (3,)]),
    "unused": (lambda lib, x, y: (x**2).sum(), [(2,), (3,)]),
    "one element": (lambda lib, x: (x**2).sum().reshape(1), [(2,)]),
    "linear": (lambda lib, x: x.sum() * 2, [(2,)]),
}


def both(name, which, call):
    function, shapes = which[name]
    data = tuple(randn(*s, seed=i) for i, s in enumerate(shapes))
    for lib, as_tensor in ((fl, as_ours), (torch, as_theirs)):
        inputs = tuple(as_tensor(d) for d in data)
        yield call(lib.autograd.functional, lambda *x, lib=lib: function(lib, *x), inputs if len(inputs) > 1 else inputs[0], as_tensor)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian(name, strategy):
    # PyTorch's forward mode needs vectorize; what both compute is the same.
    ours, theirs = both(name, FUNCTIONS, lambda lib, f, x, _: lib.jacobian(f, x, **({"strategy": strategy} if lib is fl.autograd.functional else {})))
    assert type(ours) is tuple or not isinstance(theirs, tuple)
    assert_same(ours, theirs)


@pytest.mark.parametrize("name", SCALARS)
def test_hessian(name):
    assert_same(*both(name, SCALARS, lambda lib, f, x, _: lib.hessian(f, x)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_with_a_jacobian(name):
    def left(lib, f, x, as_tensor):
        y = f(*x) if isinstance(x, tuple) else f(x)
        v = tuple(as_tensor(randn(*t.shape, seed=7)) for t in (y if isinstance(y, tuple) else (y,)))
        return lib.vjp(f, x, v if isinstance(y, tuple) else v[0])

    def right(lib, f, x, as_tensor):
        v = tuple(as_tensor(randn(*t.shape, seed=8)) for t in (x if isinstance(x, tuple) else (x,)))
        return lib.jvp(f, x, v if isinstance(x, tuple) else v[0])

    assert_same(*both(name, FUNCTIONS, left))
    assert_same(*both(name, FUNCTIONS, right))


@pytest.mark.parametrize("product", ["hvp", "vhp"])
@pytest.mark.parametrize("name", SCALARS)
def test_products_with_a_hessian(name, product):
    def call(lib, f, x, as_tensor):
        v = tuple(as_tensor(randn(*t.shape, seed=8)) for t in (x if isinstance(x, tuple) else (x,)))
        y, found = getattr(lib, product)(f, x, v if isinstance(x, tuple) else v[0])
        return y.reshape(()), found

    assert_same(*both(name, SCALARS, call))


@pytest.mark.parametrize("create", [False, True])
def test_results_can_be_differentiated(create):
    found = []
    for lib, as_tensor in ((fl, as_ours), (torch, as_theirs)):
        x = as_tensor(randn(3), True)
        jac = lib.autograd.functional.jacobian(lambda t: t**3, x, create_graph=create)
        assert jac.requires_grad == create
        if create:
            jac.sum().backward()
            found.append(x.grad)
    if create:
        assert_same(*found)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda f, lib: f.jacobian(lambda x: x.sum() * 0 + 1 if False else lib.ones(2), lib.ones(2), strict=True),
        lambda f, lib: f.jacobian(lambda x, y: x, (lib.ones(2), lib.ones(2)), strict=True),
        lambda f, lib: f.hvp(lambda x: lib.relu(x).sum(), lib.ones(2), lib.ones(2), strict=True),
        lambda f, lib: f.jacobian(lambda x: 3, lib.ones(2)),
        lambda f, lib: f.jacobian(lambda x: x, [1.0]),
        lambda f, lib: f.vjp(lambda x: x, lib.ones(2)),
        lambda f, lib: f.vjp(lambda x: x, lib.ones(2), lib.ones(3)),
        lambda f, lib: f.hessian(lambda x: x, lib.ones(2)),
        lambda f, lib: f.jacobian(lambda x: x, lib.ones(2), strategy="sideways"),
    ],
)
def test_refusals(wrong):
    both_raise(lambda lib: wrong(lib.autograd.functional, lib))


PROGRAMS = {
    "mul": lambda lib, x: x * x,
    "exp": lambda lib, x: x.exp(),
    "chain": lambda lib, x: (x.sin() * x).tanh().sum(),
    "matmul": lambda lib, x: x @ x.t(),
    "max": lambda lib, x: x.max(0)[0],
    "softmax": lambda lib, x: x.softmax(0),
    "index": lambda lib, x: x[lib.tensor([0, 0, 1])],
    "in place": lambda lib, x: (x * 2).mul_(x),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (3,)),
    "cat": lambda lib, x: lib.cat([x * x, x], 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_of_saved_tensors_keep_gradients_right(name):
    """First and second gradients through hooks that keep NumPy arrays."""
    found = []
    for lib, as_tensor in ((fl, as_ours), (torch, as_theirs)):
        x = as_tensor(randn(3, 3), True)
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), lambda kept, lib=lib: lib.from_numpy(kept)):
            y = PROGRAMS[name](lib, x)
            (dx,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
        (dx * dx).sum().backward()
        found.append((dx, x.grad))
    assert_same(*found)


def test_what_hooks_are_called_with():
    for lib, as_tensor in ((fl, as_ours), (torch, as_theirs)):
        x = as_tensor(randn(2, 2), True)
        packed, unpacked = [], []
        with lib.autograd.graph.saved_tensors_hooks(lambda t, p=packed: (p.append(t), t)[1], lambda t, u=unpacked: (u.append(t), t)[1]):
            y = x.exp()
            z = y * x
        assert not unpacked
        z.sum().backward()
        assert len(unpacked) == 3
        (x * x).sum().backward()
        assert len(packed) == 3
    with pytest.raises(Exception):
        pass_through = lambda t: t  # noqa: E731
        with fl.autograd.graph.disable_saved_tensors_hooks("not here"), fl.autograd.graph.saved_tensors_hooks(pass_through, pass_through):
            pass


def test_anomalies():
    texts = []
    for lib in (fl, torch):
        x = lib.tensor([-1.0, 1.0], requires_grad=True)
        assert not lib.is_anomaly_enabled()
        with pytest.warns(UserWarning), lib.autograd.detect_anomaly():
            assert lib.is_anomaly_enabled() and lib.is_anomaly_check_nan_enabled()
            y = (x.sqrt() * 2).sum()
            with pytest.raises(RuntimeError) as caught:
                y.backward()
        texts.append(str(caught.value).split(";")[0].rstrip("."))
        assert not lib.is_anomaly_enabled()
        with lib.autograd.set_detect_anomaly(True, check_nan=False):
            x.sqrt().sum().backward()
        assert x.grad[0].isnan()
    assert texts[0] == texts[1]
