"""Gradients that come from outside (arguments, hooks, other threads), views that leave their base, in-place history."""

from __future__ import annotations

import threading
import time

import pytest

import flambeau as fl

F = fl.nn.functional


@pytest.mark.parametrize("name", ["sum", "mean", "nansum", "nanmean", "prod", "cumsum", "cumprod", "softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", [fl.float64, fl.float16])
def test_result_type_does_not_change_the_gradients_type(name, dtype):
    kwargs = {} if name in ("sum", "mean") else {"dim": 1}
    x = fl.tensor([[0.5, -1.5, 2.0], [1.0, 3.0, -0.5]], requires_grad=True)
    y = getattr(fl, name)(x, dtype=dtype, **kwargs)
    w = fl.randn(list(y.shape), dtype=dtype)
    (y * w).sum().backward()
    cast_first = x.detach().clone().requires_grad_()
    (getattr(fl, name)(cast_first.to(dtype), **kwargs) * w).sum().backward()
    assert x.grad.dtype == fl.float32
    assert (x.grad - cast_first.grad).abs().max() < 1e-2


def test_a_gradient_of_another_type_reaches_kernels_in_theirs():
    x = fl.randn(8, 4, requires_grad=True)
    F.layer_norm(x, (4,)).sum(dtype=fl.float64).backward()
    assert x.grad.abs().max() < 1e-5
    a = fl.randn(2, 3, requires_grad=True)
    (a @ fl.ones(3, 4)).backward(fl.ones(2, 4, dtype=fl.float16))
    assert a.grad.tolist() == [[4.0] * 3] * 2


def test_gradients_of_another_shape_or_device_are_refused():
    x = fl.ones(8, 4, requires_grad=True)
    z = F.layer_norm(x, (4,))
    z.register_hook(lambda g: fl.ones(1))
    with pytest.raises(RuntimeError, match=r"hook '.*<lambda>': a gradient of shape \[1\]"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="on meta for a tensor"):
        (x * 2).backward(fl.ones(8, 4, device="meta"))
    with pytest.raises(RuntimeError, match="expected one device"):
        x.grad = fl.ones(8, 4, device="meta")
    y = x * 2
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (fl.ones(3), None))
    with pytest.raises(RuntimeError, match=r"hook: a gradient of shape \[3\]"):
        y.sum().backward()
    assert x.grad is None


def test_a_hook_may_register_hooks():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: [y.register_hook(lambda g: g) for _ in range(200)] and None)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_view_outside_of_its_base_gets_no_gradient_from_there():
    big = fl.zeros(300000, requires_grad=True)
    x = (big * 1)[290000:290002]
    x.as_strided((290000,), (1,), 0).sum().backward()
    assert big.grad.sum() == 0
    x = (big * 1)[:2]
    x.as_strided((300000,), (1,), 0).sum().backward()
    assert big.grad[:3].tolist() == [1, 1, 0]


def test_a_view_of_an_expanded_base_shares_its_gradient():
    w = fl.arange(8.0).requires_grad_()
    w[::2].expand(3, 4).as_strided((4,), (2,), 0).sum().backward()
    assert w.grad.tolist() == [1, 0, 1, 0, 1, 0, 1, 0]


def test_a_view_whose_base_got_other_memory_is_on_its_own():
    x = fl.zeros(100)
    v = x[50:]
    x.data = fl.zeros(1)
    w = fl.ones(50, requires_grad=True)
    v.mul_(w)
    v.sum().backward()
    assert w.grad.shape == (50,)
    assert not x.requires_grad


def test_writing_to_a_view_of_overlapping_elements_is_refused_before_it_happens():
    b = fl.zeros(1, 3).expand(2, 3).detach()
    with pytest.raises(ValueError, match="share places"):
        b[0].add_(1)
    assert b.sum() == 0


def test_backward_with_inputs_gives_gradients_of_their_own():
    x, w = (fl.ones(3, requires_grad=True) for _ in range(2))
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.sum().item()))
    (x + w).sum().backward(inputs=[x, w])
    assert seen == [3.0]
    fl.nn.utils.clip_grad_norm_([x, w], 1.0)
    g = fl.ones(3)
    y = fl.ones(3, requires_grad=True)
    (y + w.detach()).backward(g, inputs=[y])
    y.grad.mul_(0.5)
    assert g.tolist() == [1, 1, 1]


def test_in_place_comparison_cuts_the_history():
    for name, args in {"eq_": (1.0,), "ge_": (0.0,), "logical_not_": (), "heaviside_": (fl.ones(3),), "floor_divide_": (2.0,)}.items():
        w = fl.tensor([1.5, 2.5, -3.5], requires_grad=True)
        y = w * 1
        getattr(y, name)(*args)
        y.sum().backward()
        assert w.grad is None or w.grad.abs().sum() == 0, name


def test_logcumsumexp_far_from_zero():
    for shift in (0.0, -200.0, 500.0):
        x = (fl.tensor([0.5, -1.0, 2.0, -30.0], dtype=fl.float64) + shift).requires_grad_()
        fl.autograd.gradcheck(lambda x: x.logcumsumexp(0), (x,))
        fl.autograd.gradgradcheck(lambda x: x.logcumsumexp(0), (x,))
    y = fl.tensor([-float("inf"), 0.0, 1.0], requires_grad=True)
    y.logcumsumexp(0)[1:].sum().backward()
    assert y.grad.isfinite().all()


def test_index_fill_passes_the_gradient_of_its_value():
    v = fl.tensor(2.0, requires_grad=True)
    x = fl.zeros(2, 3, requires_grad=True)
    x.index_fill(1, fl.tensor([1]), v).sum().backward()
    assert v.grad == 2
    assert x.grad.tolist() == [[1, 0, 1]] * 2
    with pytest.raises(ValueError, match="value has shape"):
        x.detach().index_fill(1, fl.tensor([1]), fl.ones(2))


def test_retain_grad_follows_an_in_place_write():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1, 1]
    assert x.grad.tolist() == [6, 6, 6]


@pytest.mark.slow
def test_grad_may_be_replaced_while_backward_runs():
    x = fl.ones(1000, requires_grad=True)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        x.grad = None
        g = x.grad
        del g
    stop.set()
    for t in threads:
        t.join()


def test_optimizers_refuse_gradients_without_values():
    x = fl.ones(3, device="meta", requires_grad=True)
    x.grad = fl.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="holds no values"):
        fl.optim.SGD([x], lr=0.1).step()
