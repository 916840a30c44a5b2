"""`differentiable=True`: gradients go through steps, which move parameters as the fused ones do."""

import pytest

import flambeau as fl

CASES = {
    "SGD": dict(lr=0.1), "SGD momentum": dict(lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1), "SGD nesterov": dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adam": dict(lr=0.1, weight_decay=0.1), "Adam amsgrad": dict(lr=0.1, amsgrad=True), "Adam decoupled": dict(lr=0.1, weight_decay=0.3, decoupled_weight_decay=True),
    "AdamW": dict(lr=0.1, weight_decay=0.2, maximize=True), "Adagrad": dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2),
    "RMSprop": dict(lr=0.1, weight_decay=0.1), "RMSprop centered": dict(lr=0.1, centered=True, momentum=0.9),
    "Adadelta": dict(lr=0.5), "Adamax": dict(lr=0.1, weight_decay=0.1), "NAdam": dict(lr=0.1), "NAdam decoupled": dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "ASGD": dict(lr=0.1, lambd=0.01, t0=1), "ASGD decay": dict(lr=0.1, weight_decay=0.1, maximize=True), "Rprop": dict(lr=0.1), "Rprop steps": dict(lr=0.3, etas=(0.3, 1.5), step_sizes=(0.1, 0.4)),
    "RAdam": dict(lr=0.1, weight_decay=0.1), "RAdam short": dict(lr=0.1, betas=(0.9, 0.6)),
}  # fmt: skip


def steps(name, options, w, n, **more):
    """A parameter after n steps along the gradient of (p^2 + w^2 p) / 2 and so forth."""
    p = w.clone() if more else w.detach().clone().requires_grad_()
    optimizer = getattr(fl.optim, name.partition(" ")[0])([p], **{**options, **more})
    for k in range(n):
        p.grad = (p + w * w * (k + 1)) if more else (p + w * w * (k + 1)).detach()
        optimizer.step()
    return p, optimizer


@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_the_fused_form(name):
    w = fl.tensor([0.5, -1.5, 2.0], dtype=fl.float64)
    (p, optimizer), (q, fused) = steps(name, CASES[name], w.requires_grad_(), 6, differentiable=True), steps(name, CASES[name], w, 6)
    fl.testing.assert_close(p.detach(), q.detach())
    ours, theirs = next(iter(optimizer.state.values()), {}), next(iter(fused.state.values()), {})
    assert set(ours) == set(theirs)
    for key, value in ours.items():
        fl.testing.assert_close(value.detach(), theirs[key].detach(), msg=key)


@pytest.mark.parametrize("differentiable", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_complex_parameter_moves_as_its_two_parts(name, differentiable):
    values = fl.tensor([[0.5 - 1j, 1 + 2j], [-1.5 + 0.5j, 0.3 + 2j], [1 + 1j, 1 - 3j], [-2 - 1j, 0.7 - 1j]], dtype=fl.complex128)
    found = []
    for parts in (lambda x: x, fl.view_as_real):
        w = parts(values[0]).clone().requires_grad_()
        p = w.clone() if differentiable else w
        optimizer = getattr(fl.optim, name.partition(" ")[0])([p], differentiable=differentiable, **CASES[name])
        for slope in values:
            p.grad = parts(slope) * 1
            optimizer.step()
        state = {k: fl.view_as_real(v) if v.is_complex() else v for k, v in optimizer.state.get(p, {}).items()}
        found.append({**state, "p": fl.view_as_real(p) if p.is_complex() else p})
        if differentiable:
            (found[-1]["gradient"],) = fl.autograd.grad(found[-1]["p"].square().sum(), w)
    ours, real = found
    assert ours.keys() == real.keys()
    for key in real:
        got = fl.view_as_real(ours[key]) if ours[key].is_complex() else ours[key]
        fl.testing.assert_close(got.detach(), real[key].detach(), msg=key)


@pytest.mark.parametrize("name", CASES)
def test_gradients_go_through_several_steps(name):
    w = fl.tensor([0.5, -1.5, 2.0], dtype=fl.float64, requires_grad=True)
    lr = fl.tensor(0.1, dtype=fl.float64, requires_grad=True)
    options = CASES[name]
    if name.startswith(("ASGD", "Rprop")):  # whose states have the rate as a number
        assert fl.autograd.gradcheck(lambda w: steps(name, options, w, 3, differentiable=True)[0], (w,))
    else:
        assert fl.autograd.gradcheck(lambda w, lr: steps(name, {**options, "lr": lr}, w, 3, differentiable=True)[0], (w, lr))


def test_a_learning_rate_is_learned():
    w, lr = fl.ones(2), fl.tensor(0.1, requires_grad=True)
    p = w.clone()
    optimizer = fl.optim.SGD([p], lr=lr, differentiable=True)
    p.grad = fl.tensor([1.0, 2.0])
    optimizer.step()
    p.sum().backward()
    assert lr.grad.item() == -3.0


def test_what_is_refused():
    p = fl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        fl.optim.SGD([p], differentiable=True, fused=True)
    with pytest.raises(ValueError, match="Adagrad2: differentiable = True; expected False, or one of SGD"):
        fl.optim.optimizer.check_hints("Adagrad2", differentiable=True)
    with pytest.raises(ValueError, match="is the result of an operation"):
        fl.optim.SGD([p * 2])
    kept = p * 2
    kept.retain_grad()
    fl.optim.SGD([kept], lr=0.5)  # PyTorch takes what keeps its gradient

    class Own(fl.optim.Adam):
        pass

    assert Own([p], differentiable=True).defaults["differentiable"]
