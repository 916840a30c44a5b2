"""Programs with custom ops, in both libraries: what they compute, what schemas are inferred, and what they refuse."""

from typing import List, Optional, Sequence, Tuple, Union  # noqa: UP035

import numpy as np
import pytest
import torch

import flambeau as fl

BOTH = pytest.mark.parametrize("lib", [torch, fl], ids=["torch", "flambeau"])
count = iter(range(1000))


def name():
    return f"parity::op{next(count)}"


def make_sine(lib):
    @lib.library.custom_op(name(), mutates_args=())
    def sine(x: lib.Tensor, k: float = 1.0) -> lib.Tensor:
        return lib.from_numpy(np.sin(x.numpy() * k))

    sine.register_fake(lambda x, k=1.0: lib.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]
        ctx.needs = ctx.needs_input_grad

    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        assert ctx.needs[:2] == (True, False)
        return dy * lib.cos(x * ctx.k) * ctx.k, None

    sine.register_autograd(backward, setup_context=setup)
    return sine


@BOTH
def test_values_gradients_and_transformations(lib):
    sine = make_sine(lib)
    given = np.linspace(-1, 2, 6).reshape(2, 3)
    x = lib.tensor(given, requires_grad=True)
    y = sine(x, 2.0)
    np.testing.assert_allclose(y.detach().numpy(), np.sin(given * 2))
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(given * 2))
    assert lib.autograd.gradcheck(lambda x: sine(x, 2.0), (x,)) and lib.autograd.gradgradcheck(lambda x: sine(x, 2.0), (x,))
    sine.register_vmap(lambda info, in_dims, x, k=1.0: (sine(x, k), in_dims[0]))
    np.testing.assert_allclose(lib.func.vmap(sine, in_dims=1)(x.detach()).numpy(), np.sin(given).T)
    if lib is fl:  # PyTorch's transforms do not differentiate custom ops
        got = lib.func.grad(lambda x: sine(x).sum())(x.detach())
        np.testing.assert_allclose(got.numpy(), np.cos(given))
    assert sine(lib.empty(3, device="meta")).shape == (3,)
    assert set(lib.library.opcheck(sine, (x.detach().clone(),), test_utils=("test_schema", "test_faketensor")).values()) == {"SUCCESS"}
    assert sine(x).grad_fn.name().replace("::", "_").startswith("GeneratedBackwardFor_parity_op")


@BOTH
def test_lists_optionals_and_keywords(lib):
    @lib.library.custom_op(name(), mutates_args=())
    def mix(xs: List[lib.Tensor], w: Optional[lib.Tensor], n: int, *, scale: float = 2.0) -> Tuple[lib.Tensor, lib.Tensor]:  # noqa: UP006, UP045
        total = sum(xs) * scale * n
        return total if w is None else total * w, xs[0] + 1

    seen = []

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.scale, ctx.n, ctx.count = keyword_only_inputs["scale"], inputs[2], len(inputs[0])
        seen.append((len(inputs), sorted(keyword_only_inputs), len(output)))

    def backward(ctx, da, db):
        g = da * ctx.scale * ctx.n
        return [g + db, *[g] * (ctx.count - 1)], None, None

    mix.register_autograd(backward, setup_context=setup)
    a, b = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    y, z = mix([a, b], None, 3, scale=5.0)
    (y.sum() + 7 * z.sum()).backward()
    assert a.grad.tolist() == [22.0, 22.0] and b.grad.tolist() == [15.0, 15.0]
    assert seen == [(3, ["scale"], 2)]
    with pytest.raises(Exception):  # noqa: B017
        mix(a, None, 3)
    with pytest.raises(Exception):  # noqa: B017
        mix([a], None)


@BOTH
def test_writes(lib):
    @lib.library.custom_op(name(), mutates_args={"x"})
    def add_(x: lib.Tensor, y: lib.Tensor) -> None:
        x.numpy()[...] += y.numpy()

    x, w = lib.ones(2), lib.ones(2, requires_grad=True)
    y = w * x
    assert add_(x, lib.ones(2)) is None
    assert x.tolist() == [2.0, 2.0] and x._version >= 1
    with pytest.raises(RuntimeError):
        y.sum().backward()
    with pytest.raises(RuntimeError):
        add_.register_autograd(lambda ctx: None)


@BOTH
def test_without_a_formula(lib):
    @lib.library.custom_op(name(), mutates_args=())
    def plain(x: lib.Tensor) -> lib.Tensor:
        return x + 1

    y = plain(lib.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError):
        y.sum().backward()


@BOTH
def test_views_of_arguments_are_refused(lib):
    @lib.library.custom_op(name(), mutates_args=())
    def view(x: lib.Tensor) -> lib.Tensor:
        return x.view(-1)

    with pytest.raises(RuntimeError):
        view(lib.ones(2, 2))
        lib.library.opcheck(view, (lib.ones(2, 2),))


def signatures(lib):
    def a(x: lib.Tensor, n: int, f: float = 1.5, on: bool = True, s: str = "u") -> lib.Tensor: ...
    def b(xs: Sequence[lib.Tensor], ns: Sequence[int], o: Optional[lib.Tensor] = None) -> Tuple[lib.Tensor, lib.Tensor]: ...  # noqa: UP006, UP045
    def c(x: lib.Tensor, *, d: lib.dtype, v: lib.device, k: Union[int, float, bool] = 1) -> List[lib.Tensor]: ...  # noqa: UP006, UP007
    def d(x: lib.Tensor, n: Optional[int] = None, fs: Optional[Sequence[float]] = None) -> None: ...  # noqa: UP045
    def e(x: lib.Tensor) -> Tuple[lib.Tensor, int, float, bool]: ...  # noqa: UP006

    return a, b, c, d, e


@pytest.mark.parametrize("i", range(5))
@pytest.mark.parametrize("mutates", [(), "unknown", {"x"}])
def test_inferred_schemas(i, mutates):
    def inferred(lib):
        function = signatures(lib)[i]
        function.__annotations__ = {k: eval(v, globals(), {"lib": lib}) if isinstance(v, str) else v for k, v in function.__annotations__.items()}
        try:
            return lib.library.infer_schema(function, mutates_args=mutates)
        except ValueError:
            return ValueError

    assert inferred(fl) == inferred(torch)


@BOTH
def test_library_objects(lib):
    ns = f"parity_{lib.__name__}"
    library = lib.library.Library(ns, "FRAGMENT")
    library.define("scaled(Tensor x, float k=2.) -> Tensor")
    library.impl("scaled", lambda x, k=2.0: x * k, "CompositeExplicitAutograd")
    op = getattr(lib.ops, ns).scaled
    assert op(lib.ones(2)).tolist() == [2.0, 2.0] and op.default(lib.ones(2), k=3.0).tolist() == [3.0, 3.0]
    lib.library.define(f"{ns}::other", "(Tensor x) -> Tensor")
    lib.library.impl(f"{ns}::other", "cpu")(lambda x: x + 4)
    assert getattr(lib.ops, ns).other(lib.ones(1)).item() == 5.0
    with pytest.raises(RuntimeError):
        lib.library.define(f"{ns}::other", "(Tensor x) -> Tensor")
    lib.library.impl(f"{ns}::early", ["cpu", "cuda"])(lambda x: x + 5)
    lib.library.define(f"{ns}::early", "(Tensor x) -> Tensor")
    assert getattr(lib.ops, ns).early(lib.ones(1)).item() == 6.0
    with pytest.raises(AttributeError):
        getattr(lib.ops, ns).nothing  # noqa: B018
