"""`unsqueeze_`, `t_` and their kin on tensors that require grad: the tensor becomes the view, with its history."""

import numpy as np
import pytest

import flambeau as fl


def leaf():
    return fl.arange(6.0).reshape(2, 3).clone().requires_grad_()


def test_it_is_the_view_from_then_on():
    x = leaf()
    y = x * 2
    same = y
    assert y.unsqueeze_(0) is y and y.shape == (1, 2, 3) and y.grad_fn.name() == "UnsqueezeBackward0" and not y.is_leaf
    y.mul_(3)
    (y * fl.arange(6.0).view(1, 2, 3)).sum().backward()
    assert same is y and x.grad.tolist() == [[0.0, 6.0, 12.0], [18.0, 24.0, 30.0]]


def test_what_was_saved_before_keeps_its_shape():
    x = leaf()
    y = x.exp()
    y.t_()
    assert y.shape == (3, 2) and y.stride() == (1, 3)
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-6)


def test_views_of_it_stay_what_they_are():
    x = leaf()
    y = x * 2
    row = y[0]
    y.transpose_(0, 1)
    y.add_(1)
    assert row.tolist() == [1.0, 3.0, 5.0]
    row.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]


def test_a_view_that_changes_its_shape_writes_to_its_base():
    x = leaf()
    y = x * 2
    row = y[0]
    row.unsqueeze_(0).mul_(5)
    assert row.shape == (1, 3) and row._base is y
    y.sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0, 10.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize("change", [lambda t: t.squeeze_(), lambda t: t.swapaxes_(0, 1), lambda t: t.t_(), lambda t: t.unsqueeze_(-1)])
def test_leaves_and_their_views_are_refused(change):
    x = leaf()
    with pytest.raises(fl.AutogradError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        change(x)
    with pytest.raises(fl.AutogradError, match="a view of a leaf Variable that requires grad"):
        change(x[:, :2])
    assert x.shape == (2, 3) and x.is_leaf
    with fl.no_grad():
        assert change(x.detach()) is not None


@pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t.unsqueeze_(0), lambda t: t[0].add_(1)])
def test_a_view_that_requires_grad_by_itself_stays_a_leaf(write):
    base = fl.arange(6.0)
    x = base.view(2, 3).requires_grad_()
    with pytest.raises(fl.AutogradError, match="leaf Variable that requires grad is being used in an in-place operation"):
        write(x)
    assert x.is_leaf and base.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] and not base.requires_grad


def test_second_derivative_of_binary_cross_entropy_at_the_ends():
    z = fl.tensor([1.0, 0.0, 0.3], requires_grad=True)
    loss = fl.nn.functional.binary_cross_entropy(z, fl.tensor([1.0, 0.0, 0.5]), reduction="sum")
    (first,) = fl.autograd.grad(loss, z, create_graph=True)
    (second,) = fl.autograd.grad(first.sum(), z)
    np.testing.assert_allclose(second.numpy(), [0.0, 0.0, 0.5 / 0.09 + 0.5 / 0.49], rtol=1e-5)


def test_sparse_tensors_and_inference_mode():
    x = (fl.eye(3).to_sparse().requires_grad_() * 2)
    with pytest.raises(fl.AutogradError, match="t_: a sparse tensor that requires grad can not become a view; use t()"):
        x.t_()
    y = leaf() * 2
    with fl.inference_mode(), fl.enable_grad():
        z = y.clone()
        z.unsqueeze_(0)
    assert z.shape == (1, 2, 3)


def test_without_grad_mode_the_gradient_comes_in_the_shape_of_before():
    x = leaf()
    y = x * 2
    part = y[:1]
    with fl.no_grad():
        part.unsqueeze_(0)
        y.unsqueeze_(0)
    assert part.shape == (1, 1, 3) and part.requires_grad
    (y.sum() + (part * fl.ones(1, 1, 3)).sum() * 5).backward()
    assert x.grad.tolist() == [[12.0] * 3, [2.0] * 3]


def test_other_data_before_the_backward_pass():
    """A kernel of a gradient reads as many elements as the op made."""
    x = leaf()
    y = x[fl.tensor([0, 1])]
    y.data = fl.ones(1)
    with pytest.raises(fl.AutogradError, match=r"IndexBackward0: a gradient of shape \[1\] for its output of shape \[2, 3\]"):
        y.sum().backward()
    z = x.exp()
    z.data = z.data.double()
    z.sum().backward()
    assert x.grad.dtype is fl.float32 and x.grad.equal(x.detach().exp())


def test_a_view_stays_one_of_its_base():
    base, w = fl.zeros(3), fl.ones(1, 3, requires_grad=True)
    view = base.view(3)
    view.unsqueeze_(0)
    assert view._base is base
    view.add_(w)
    assert base.requires_grad and base.tolist() == [1.0, 1.0, 1.0]
    (base * fl.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert w.grad.tolist() == [[1.0, 2.0, 3.0]]


def test_a_view_of_no_grad_is_not_written_with_what_requires_grad():
    base, w = fl.zeros(4), fl.ones(2, requires_grad=True)
    with fl.no_grad():
        view = base[:2]
    with pytest.raises(fl.AutogradError, match="add_: what is written requires grad, and this view was made under no_grad"):
        view.add_(w)
    assert base.tolist() == [0.0] * 4 and not view.requires_grad
    view.add_(1)
    assert base.tolist() == [1.0, 1.0, 0.0, 0.0]
