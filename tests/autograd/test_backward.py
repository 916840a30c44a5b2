"""backward() and grad(): leaves, accumulation, retained graphs, higher orders, inputs, errors."""

from __future__ import annotations

import inspect
import re

import pytest
from support.compare import assert_near
from support.tensors import leaf

import flambeau as fl
from flambeau.autograd import backward, grad

# ---------------------------------------------------------------- leaves and accumulation


def test_leaf_and_non_leaf():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert x.is_leaf and x.grad_fn is None and x.requires_grad
    assert not y.is_leaf and y.requires_grad and y.grad_fn.name() == "MulBackward0"
    assert fl.ones(2).is_leaf and not fl.ones(2).requires_grad
    y.sum().backward()
    assert y.grad is None
    assert x.grad.tolist() == [2.0, 2.0]


def test_gradients_accumulate_until_cleared():
    x = leaf(1.0, 2.0)
    for k in range(1, 4):
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0 * k, 4.0 * k]
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_accumulation_does_not_write_into_a_gradient_somebody_holds_from_outside():
    x = leaf(1.0)
    seed = fl.ones(1, dtype=fl.float64)
    (x * 1).backward(seed)
    (x * 1).backward(seed)
    assert seed.tolist() == [1.0]
    assert x.grad.tolist() == [2.0]


def test_one_tensor_used_many_times():
    x = leaf(3.0)
    y = x * x + x * 2 + x
    y.backward()
    assert x.grad.tolist() == [9.0]


def test_diamond():
    x = leaf(2.0)
    a = x * x
    (a * 3 + a.exp() * 0 + a * a).sum().backward()
    assert x.grad.item() == pytest.approx(3 * 4 + 4 * 8)


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    assert y.retains_grad and not x.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [8.0, 16.0]


def test_backward_of_a_leaf():
    x = fl.tensor(2.0, requires_grad=True)
    x.backward()
    assert x.grad.item() == 1.0


def test_requires_grad_is_for_floating_point():
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        fl.tensor([1, 2], requires_grad=True)


def test_non_leaf_can_not_stop_requiring_grad():
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError):
        y.requires_grad_(False)


def test_backward_with_a_gradient():
    x = leaf(1.0, 2.0)
    (x * x).backward(fl.tensor([10.0, 100.0], dtype=fl.float64))
    assert x.grad.tolist() == [20.0, 400.0]


@pytest.mark.parametrize("kind", [list, tuple])
def test_backward_with_a_list_of_one_gradient(kind):
    x = fl.ones(2, requires_grad=True)
    (x * 3).backward(kind([fl.tensor([1.0, 2.0])]))
    (x * 3).sum().backward(kind([None]))
    assert x.grad.tolist() == [6.0, 9.0]


def test_gradient_of_another_shape_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"\[3\]"):
        (x * x).backward(fl.ones(3, dtype=fl.float64))
    assert x.grad is None


def test_backward_without_gradient_wants_one_element():
    with pytest.raises(fl.AutogradError, match=r"grad can be implicitly created only for scalar outputs.*\[2\]"):
        leaf(1.0, 2.0).exp().backward()


def test_backward_of_a_constant():
    with pytest.raises(fl.AutogradError, match="does not require grad and does not have a grad_fn"):
        fl.ones(2).sum().backward()


def test_several_roots():
    x = leaf(1.0, 2.0)
    backward([x.sum(), (x * x).sum()], [None, fl.tensor(2.0, dtype=fl.float64)])
    assert x.grad.tolist() == [5.0, 9.0]


def test_gradient_has_the_type_of_the_leaf():
    x = fl.ones(2, dtype=fl.float32, requires_grad=True)
    w = fl.ones(2, dtype=fl.float64, requires_grad=True)
    (x * w).sum().backward()
    assert x.grad.dtype is fl.float32 and w.grad.dtype is fl.float64


def test_cast_in_the_graph():
    x = fl.ones(2, dtype=fl.float16, requires_grad=True)
    x.to(fl.float64).exp().sum().backward()
    assert x.grad.dtype is fl.float16


# ---------------------------------------------------------------- retained graphs


def test_second_backward_needs_retain_graph():
    x = leaf(1.0)
    y = x.exp()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(fl.AutogradError, match="ExpBackward0: Trying to backward through the graph a second time.*retain_graph=True"):
        y.backward()
    assert x.grad.item() == pytest.approx(2 * 2.718281828459045)


def test_part_of_a_used_graph_without_saved_tensors_may_run_again():
    x = leaf(1.0)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.item() == 2.0


def test_create_graph_gives_second_derivatives():
    x = leaf(0.5, 1.5)
    (g,) = grad((x * x * x).sum(), x, create_graph=True)
    assert g.requires_grad
    (h,) = grad(g.sum(), x)
    assert_near(h, 6 * x)
    assert not h.requires_grad


def test_backward_with_create_graph_leaves_a_differentiable_gradient():
    x = leaf(2.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad.requires_grad
    (second,) = grad(x.grad, x)
    assert second.item() == 12.0
    x.grad = None  # the gradient holds the graph, which holds the leaf


def test_many_orders():
    x = fl.tensor(0.7, dtype=fl.float64, requires_grad=True)
    y, expected = x.sin(), [fl.cos, lambda v: -fl.sin(v), lambda v: -fl.cos(v), fl.sin, fl.cos, lambda v: -fl.sin(v)]
    for f in expected:
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(f(x).item(), abs=1e-12)


def test_gradient_penalty():
    w, x = leaf(0.3, -0.2), leaf(1.0, 2.0)
    (g,) = grad((w * x).sin().sum(), x, create_graph=True)
    (g * g).sum().backward()
    v = w.detach().requires_grad_()
    ((v * fl.cos(v * x)) ** 2).sum().backward()
    assert_near(w.grad, v.grad)


# ---------------------------------------------------------------- grad()


def test_grad_leaves_grad_alone():
    x = leaf(1.0)
    (g,) = grad(x * 5, x)
    assert g.tolist() == [5.0] and x.grad is None


def test_grad_of_unused_inputs():
    x, z = leaf(1.0), leaf(2.0, 3.0)
    with pytest.raises(fl.AutogradError, match=r"inputs\[1\].*not have been used.*allow_unused=True"):
        grad((x * 2).sum(), (x, z))
    assert grad((x * 2).sum(), (x, z), allow_unused=True)[1] is None
    zeros = grad((x * 2).sum(), (x, z), materialize_grads=True)[1]
    assert zeros.tolist() == [0.0, 0.0]


def test_grad_of_a_non_leaf_input():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    gy, gx = grad(z, (y, x))
    assert gy.tolist() == [4.0, 8.0] and gx.tolist() == [8.0, 16.0]


def test_grad_of_a_subset_does_not_run_the_rest():
    ran = []

    class Loud(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append(1)
            return g * 2

    x, z = leaf(1.0), leaf(1.0)
    (g,) = grad((x * 3 + Loud.apply(z)).sum(), x)
    assert g.tolist() == [3.0] and ran == []


def test_grad_of_an_output_by_itself():
    x = leaf(1.0)
    y = x * 2
    assert grad(y, y)[0].tolist() == [1.0]


def test_grad_outputs():
    x = leaf(1.0, 2.0)
    (g,) = grad([x * 2, x * x], x, [fl.ones(2, dtype=fl.float64), fl.tensor([1.0, 10.0], dtype=fl.float64)])
    assert g.tolist() == [4.0, 42.0]


def test_grad_outputs_are_differentiable():
    x, v = leaf(0.5, 1.0), leaf(1.0, 2.0)
    (g,) = grad(x.exp(), x, v, create_graph=True)
    (gv,) = grad(g.sum(), v)
    assert_near(gv, x.exp())


def test_the_same_input_twice():
    x = leaf(2.0)
    a, b = grad((x * x).sum(), (x, x))
    assert a.tolist() == b.tolist() == [4.0]


def test_backward_inputs():
    x, z = leaf(1.0), leaf(2.0)
    y = x * z
    y.backward(inputs=[x], retain_graph=True)
    assert x.grad.tolist() == [2.0] and z.grad is None
    y.backward(inputs=z)
    assert z.grad.tolist() == [1.0] and x.grad.tolist() == [2.0]
    with pytest.raises(ValueError, match="inputs is empty"):
        backward(leaf(1.0).sum(), inputs=[])


def test_outputs_of_one_op_keep_their_numbers():
    x = fl.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    values, indices = x.sort(1)
    assert not indices.requires_grad and values.output_nr == 0
    (values * fl.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [[100.0, 1.0, 10.0]]
    a, b = fl.ones(4, requires_grad=True).chunk(2)
    assert (a.output_nr, b.output_nr) == (0, 1)


def test_unused_output_of_a_split():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    _, b = x.split(2)
    (b * b).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 6.0, 8.0]


# ---------------------------------------------------------------- in-place accumulation and strides


def test_gradients_of_expanded_and_transposed_tensors():
    x = fl.randn(3, 1, dtype=fl.float64, requires_grad=True)
    w = fl.randn(4, 3, dtype=fl.float64)
    (x.expand(3, 4).t() * w).sum().backward()
    assert_near(x.grad, w.sum(0).reshape(3, 1))


def test_gradients_kept_with_create_graph_are_memory_of_their_own():
    a, b = fl.ones(2, 3, requires_grad=True), fl.ones(2, 3, requires_grad=True)
    (a + b).sum().backward(create_graph=True)
    assert a.grad.is_contiguous() and a.grad.data_ptr() != b.grad.data_ptr()
    (a * 2).sum().backward()  # adds to what the first pass left
    assert a.grad.tolist() == [[3.0] * 3] * 2
    assert b.grad.tolist() == [[1.0] * 3] * 2


def test_a_leaf_that_no_longer_requires_grad_gets_none():
    a, b = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    y = (a * b).sum()
    a.requires_grad_(False)
    y.backward()
    assert a.grad is None
    assert b.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_materialized_gradients_require_grad_as_the_others_do(create_graph):
    a, b = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    _, unused = fl.autograd.grad((a * a).sum(), [a, b], create_graph=create_graph, materialize_grads=True)
    assert unused.tolist() == [0.0, 0.0]
    assert unused.requires_grad == create_graph


def test_gradients_with_a_graph_are_each_leafs_own():
    """A later backward adds in place, to one and not to all that got the same gradient."""
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward(create_graph=True)
    x.sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_a_second_backward_names_the_line_of_the_first_and_of_the_forward():
    x = fl.ones(2, requires_grad=True)
    y = x.exp()
    first = inspect.currentframe().f_lineno + 1
    y.sum().backward()
    with pytest.raises(fl.AutogradError, match=rf"through the graph a second time \(the first was at \S*test_backward.py:{first}, in .*`y.sum\(\).backward\(\)`\)\)") as caught:
        y.sum().backward()
    said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert re.search(rf"in the backward of ExpBackward0, whose forward was at \S*test_backward.py:{first - 2}, ", said)


class Failing(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, dy):
        raise KeyError("x")


def test_what_fails_in_a_backward_has_a_note_and_what_fails_later_has_none():
    x = fl.ones(2, requires_grad=True)
    line = inspect.currentframe().f_lineno + 1
    y = Failing.apply(x).sum()
    with pytest.raises(KeyError) as caught:
        y.backward()
    assert re.fullmatch(rf"in the backward of FailingBackward, whose forward was at \S*test_backward.py:{line}, .*", *caught.value.__notes__)
    with pytest.raises(fl.ShapeError) as later:
        fl.ones(2) + fl.ones(3)
    assert not getattr(later.value, "__notes__", [])


def test_a_batch_of_no_gradients():
    """Shapes, types and what is unused are as with rows."""
    x, unused = leaf(1.0, 2.0), fl.ones(3, requires_grad=True)
    (dx,) = grad(x * 3, x, fl.zeros(0, 2, dtype=fl.float64), is_grads_batched=True)
    assert dx.shape == (0, 2) and dx.dtype == fl.float64
    assert grad(x * 3, [x, unused], fl.zeros(0, 2, dtype=fl.float64), is_grads_batched=True, allow_unused=True)[1] is None
    made = grad(x * 3, [x, unused], fl.zeros(0, 2, dtype=fl.float64), is_grads_batched=True, materialize_grads=True)
    assert [list(g.shape) for g in made] == [[0, 2], [0, 3]]
    with pytest.raises(fl.AutogradError):
        grad(x * 3, unused, fl.zeros(0, 2, dtype=fl.float64), is_grads_batched=True)
    with pytest.raises(ValueError, match=r"grad_outputs of shapes \[\[\]\]; expected one first axis"):
        grad((x * 3).sum(), x, fl.ones((), dtype=fl.float64), is_grads_batched=True)


@pytest.mark.parametrize("n", [0, 2])
def test_a_batch_of_sparse_gradients_is_refused(n):
    table = fl.nn.Embedding(5, 2, sparse=True)
    with pytest.raises(TypeError, match=r"grad: is_grads_batched, and gradient 0 \(shape \[5, 2\]\) is sparse; expected dense ones, or a call for each row"):
        grad(table(fl.tensor([1, 2])), table.weight, fl.ones(n, 2, 2), is_grads_batched=True)


# ---------------------------------------------------------------- PyTorch's older arguments


def test_inputs_come_after_the_older_name_of_gradients():
    x, y = leaf(1.0), leaf(2.0)
    backward((x * y).sum(), None, None, False, None, [y])
    assert x.grad is None and y.grad.tolist() == [1.0]
    with pytest.warns(FutureWarning, match="grad_variables is the older name of grad_tensors"):
        backward(x * y, grad_variables=fl.tensor([3.0], dtype=x.dtype))
    assert x.grad.tolist() == [6.0]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="grad_tensors and grad_variables, its older name, are both given"):
        backward(x * y, fl.ones(1), grad_variables=fl.ones(1))


def test_inputs_of_a_dict_are_its_values():
    x, y = leaf(1.0), leaf(2.0)
    backward((x * y).sum(), inputs={"weight": y})
    assert x.grad is None and y.grad.tolist() == [1.0]


LEAVES = {
    "in order": lambda: fl.ones(3, 4),
    "turned": lambda: fl.ones(4, 3).t(),
    "of a larger one": lambda: fl.ones(6, 4)[::2],
    "one element at all places": lambda: fl.ones(1).expand(3, 4),
}
USES = {
    "turned": lambda w: w.t() * fl.ones(4, 3),
    "product": lambda w: fl.ones(5, 4) @ w.t(),
    "as it is": lambda w: w * 2,
    "summed": lambda w: w,
    "parts": lambda w: w.reshape(4, 3).t()[1:],
}


@pytest.mark.parametrize("leaf", [pytest.param(make, id=name) for name, make in LEAVES.items()])
@pytest.mark.parametrize("use", [pytest.param(use, id=name) for name, use in USES.items()])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_lies_as_its_leaf(leaf, use, create_graph):
    w = leaf().requires_grad_()
    use(w).sum().backward(create_graph=create_graph)
    dense = sorted(w.stride()) in ([1, 4], [1, 3]) and w.untyped_storage().nbytes() == 48
    assert w.grad.stride() == (w.stride() if dense else (4, 1))
    if w.is_contiguous() or not dense:
        assert w.grad.view(-1).shape == (12,)
    twin = w.detach().contiguous().requires_grad_()
    use(twin).sum().backward()
    assert fl.equal(w.grad, twin.grad)


def test_a_gradient_that_others_see_is_copied_as_the_leaf_lies():
    w, g = fl.ones(3, 4, requires_grad=True), fl.arange(12.0).view(4, 3).t()
    w.backward(g)
    assert w.grad.stride() == (4, 1) and fl.equal(w.grad, g) and w.grad.data_ptr() != g.data_ptr()
    w.backward(g)
    assert fl.equal(w.grad, 2 * g)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: grad(x.sum(), [3]), RuntimeError, r"grad: inputs\[0\] is a int; expected a Tensor"),
        (lambda x: grad(x.sum(), 3), TypeError, "grad: inputs is a int; expected a Tensor, or a list of them"),
        (lambda x: grad([x.sum(), "y"], x), AssertionError, r"grad: outputs\[1\] is a str"),
        (lambda x: grad(x, x, [3.0, 4.0]), TypeError, r"grad: grad_outputs\[0\] is a float"),
        (lambda x: backward([3]), AssertionError, r"backward: tensors\[0\] is a int"),
        (lambda x: backward(x.sum(), inputs=[3]), RuntimeError, r"backward: inputs\[0\] is a int"),
        (lambda x: x.sum().backward(inputs=[]), RuntimeError, "backward: inputs is empty"),
    ],
)
def test_what_is_no_tensor_is_named(call, error, text):
    x = leaf([1.0, 2.0])
    with pytest.raises(error, match=text):
        call(x)
    assert x.grad is None


def test_only_inputs_is_ignored():
    x = leaf([1.0, 2.0])
    with pytest.warns(FutureWarning, match="only_inputs=False is ignored"):
        (found,) = grad((x * x).sum(), x, only_inputs=False)
    assert found.tolist() == [[2.0, 4.0]] and x.grad is None


def test_gradients_by_name():
    x, y, unused = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0)
    found = grad((x * y).sum(), {"y": y, "x": x})
    assert list(found) == ["y", "x"]
    assert found["x"].tolist() == [3.0, 4.0] and found["y"].tolist() == [1.0, 2.0]
    assert grad((x * y).sum(), {"x": x, "unused": unused}, allow_unused=True)["unused"] is None
    assert grad((x * y).sum(), {"unused": unused}, materialize_grads=True)["unused"].tolist() == [0.0]
    rows = grad(x * y, {"x": x}, fl.eye(2, dtype=fl.float64), is_grads_batched=True)
    assert rows["x"].tolist() == [[3.0, 0.0], [0.0, 4.0]]
    with pytest.raises(fl.AutogradError, match="grad requires non-empty inputs"):
        grad((x * y).sum(), {})


def test_the_divisor_of_one_may_be_written_into():
    """1 / x is differentiated by its result."""
    w = fl.tensor([2.0, 4.0], requires_grad=True)
    x = w * 1
    y = 1 / x
    x.add_(1)
    y.sum().backward()
    assert w.grad.tolist() == [-0.25, -0.0625]


FLAT = {
    "relu": fl.relu, "leaky_relu": fl.nn.functional.leaky_relu, "hardtanh": fl.nn.functional.hardtanh, "relu6": fl.nn.functional.relu6,
    "threshold": lambda x: fl.nn.functional.threshold(x, 0.1, 0.0), "softshrink": fl.nn.functional.softshrink,
    "l1_loss": lambda x: fl.nn.functional.l1_loss(x, 0.3 * x, reduction="sum"),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAT)
def test_second_derivatives_that_are_zero_are_zeros(name):
    """And not nothing, which a program would have to ask for (Note [Gradients that are 0])."""
    x = fl.tensor([0.5, -1.2, 2.0], requires_grad=True)
    w = fl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = fl.autograd.grad(FLAT[name](x * w).sum(), x, create_graph=True)
    assert g.requires_grad
    hidden = x * 1
    (again,) = fl.autograd.grad(FLAT[name](hidden * 2).sum(), hidden, create_graph=True)
    of_hidden, of_x = fl.autograd.grad(again.sum(), (hidden, x), retain_graph=True)
    assert of_hidden.tolist() == [0, 0, 0] and of_x.tolist() == [0, 0, 0]
    again.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    (mixed,) = fl.autograd.grad(g.sum(), w)
    slope = fl.autograd.grad(FLAT[name](h := (x * w).detach().requires_grad_()).sum(), h)[0]
    assert mixed.tolist() == slope.tolist()


def test_what_nothing_reaches_is_not_zero():
    x, other = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    (g,) = fl.autograd.grad((fl.relu(x) * other.detach()).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="not have been used"):
        fl.autograd.grad(g.sum(), other)
    assert fl.autograd.grad(g.sum(), (x, other), allow_unused=True)[1] is None


def test_who_is_in_a_backward_for_inputs_alone_knows():
    seen = []
    for inputs in (None, []):
        x = fl.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append(fl.autograd._is_checkpoint_valid()))
        if inputs is None:
            y.sum().backward()
        else:
            fl.autograd.grad(y.sum(), x)
    assert seen == [True, False] and fl.autograd._is_checkpoint_valid()


def test_evaluation_does_not_write_running_statistics():
    norm = fl.nn.BatchNorm1d(3).eval()
    before = norm.running_mean._version
    z = (norm.weight * norm.running_mean).sum()
    norm(fl.ones(2, 3))
    z.backward()
    assert norm.running_mean._version == before
    norm.train()(fl.randn(2, 3))
    assert norm.running_mean._version == before + 1
