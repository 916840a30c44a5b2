"""Optimizers against plain NumPy versions, and what all of them share."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn, optim


def sgd(p, g, s, t, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False):
    g = g + weight_decay * p
    if momentum:
        s["b"] = g if t == 1 else momentum * s["b"] + (1 - dampening) * g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def adam(
    p, g, s, t, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, decoupled=False
):
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    b1, b2 = betas
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    v = s["v"]
    if amsgrad:
        v = s["max"] = np.maximum(s.get("max", 0), v)
    return p - lr / (1 - b1**t) * s["m"] / (np.sqrt(v / (1 - b2**t)) + eps)


def adamw(p, g, s, t, lr, weight_decay=1e-2, **kw):
    return adam(p, g, s, t, lr, weight_decay=weight_decay, decoupled=True, **kw)


def rmsprop(p, g, s, t, lr, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False):
    g = g + weight_decay * p
    s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g * g
    v = s["v"]
    if centered:
        s["g"] = alpha * s.get("g", 0) + (1 - alpha) * g
        v = v - s["g"] ** 2
    d = g / (np.sqrt(v) + eps)
    if momentum:
        d = s["b"] = momentum * s.get("b", 0) + d
    return p - lr * d


def adagrad(p, g, s, t, lr, lr_decay=0, weight_decay=0, initial_accumulator_value=0.0, eps=1e-10):
    g = g + weight_decay * p
    s["sum"] = s.get("sum", initial_accumulator_value) + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["sum"]) + eps)


def adadelta(p, g, s, t, lr, rho=0.9, eps=1e-6, weight_decay=0):
    g = g + weight_decay * p
    s["v"] = rho * s.get("v", 0) + (1 - rho) * g * g
    d = np.sqrt(s.get("u", 0) + eps) / np.sqrt(s["v"] + eps) * g
    s["u"] = rho * s.get("u", 0) + (1 - rho) * d * d
    return p - lr * d


def adamax(p, g, s, t, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
    g = g + weight_decay * p
    b1, b2 = betas
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["u"] = np.maximum(b2 * s.get("u", 0), abs(g) + eps)
    return p - lr / (1 - b1**t) * s["m"] / s["u"]


def nadam(p, g, s, t, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False):
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    b1, b2 = betas
    mu, following = (b1 * (1 - 0.5 * 0.96 ** (k * momentum_decay)) for k in (t, t + 1))
    s["mu"] = s.get("mu", 1) * mu
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    ahead = (1 - mu) * g / (1 - s["mu"]) + following * s["m"] / (1 - s["mu"] * following)
    return p - lr * ahead / (np.sqrt(s["v"] / (1 - b2**t)) + eps)


def radam(p, g, s, t, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False):
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    b1, b2 = betas
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    m, full = s["m"] / (1 - b1**t), 2 / (1 - b2) - 1
    rho = full - 2 * t * b2**t / (1 - b2**t)
    if rho <= 5:
        return p - lr * m
    r = np.sqrt((rho - 4) * (rho - 2) * full / ((full - 4) * (full - 2) * rho))
    return p - lr * m * r * np.sqrt(1 - b2**t) / (np.sqrt(s["v"]) + eps)


def asgd(p, g, s, t, lr, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0):
    g = g + weight_decay * p
    eta = s.get("eta", lr)
    p = p * (1 - lambd * eta) - eta * g
    s["eta"] = lr / (1 + lambd * lr * t) ** alpha
    return p


def rprop(p, g, s, t, lr, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    product = g * s.get("prev", 0)
    factor = np.where(product > 0, etas[1], np.where(product < 0, etas[0], 1))
    s["step"] = np.clip(s.get("step", lr) * factor, *step_sizes)
    s["prev"] = np.where(product < 0, 0, g)
    return p - np.sign(s["prev"]) * s["step"]


def adafactor(p, g, s, t, lr, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0):
    eps1 = np.finfo(p.dtype).eps if eps[0] is None else eps[0]
    weight = t**beta2_decay
    alpha = max(eps[1], np.sqrt((p * p).mean())) * min(lr, 1 / np.sqrt(t))
    p = p * (1 - lr * weight_decay)
    s["row"] = (1 - weight) * s.get("row", 0) + weight * (g * g).mean(-1, keepdims=True)
    s["col"] = (1 - weight) * s.get("col", 0) + weight * (g * g).mean(-2, keepdims=True)
    moment = s["row"] * s["col"] / max(s["row"].mean(), eps1)
    update = g / np.sqrt(np.maximum(moment, eps1**2))
    return p - alpha / max(1, np.sqrt((update * update).mean()) / d) * update


CASES = [
    (optim.ASGD, asgd, {}),
    (optim.ASGD, asgd, {"lambd": 0.1, "alpha": 0.5, "weight_decay": 0.1}),
    (optim.Rprop, rprop, {}),
    (optim.Rprop, rprop, {"etas": (0.3, 2.0), "step_sizes": (0.01, 0.1)}),
    (optim.Adafactor, adafactor, {}),
    (optim.Adafactor, adafactor, {"beta2_decay": -0.5, "eps": (1e-3, 0.1), "d": 2.0, "weight_decay": 0.1}),
    (optim.SGD, sgd, {}),
    (optim.SGD, sgd, {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    (optim.SGD, sgd, {"momentum": 0.9, "nesterov": True}),
    (optim.Adam, adam, {}),
    (optim.Adam, adam, {"weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-4}),
    (optim.Adam, adam, {"amsgrad": True}),
    (optim.AdamW, adamw, {}),
    (optim.AdamW, adamw, {"weight_decay": 0.3, "amsgrad": True}),
    (optim.RMSprop, rmsprop, {}),
    (optim.RMSprop, rmsprop, {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    (optim.Adagrad, adagrad, {}),
    (
        optim.Adagrad,
        adagrad,
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    ),
    (optim.Adadelta, adadelta, {}),
    (optim.Adadelta, adadelta, {"rho": 0.7, "eps": 1e-3, "weight_decay": 0.1}),
    (optim.Adamax, adamax, {}),
    (optim.Adamax, adamax, {"betas": (0.8, 0.9), "weight_decay": 0.1}),
    (optim.NAdam, nadam, {}),
    (optim.NAdam, nadam, {"momentum_decay": 0.1, "weight_decay": 0.1}),
    (optim.NAdam, nadam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, radam, {}),
    (optim.RAdam, radam, {"betas": (0.5, 0.8), "weight_decay": 0.1}),
    (optim.RAdam, radam, {"betas": (0.5, 0.8), "weight_decay": 0.1, "decoupled_weight_decay": True}),
]


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize(
    "cls, rule, options", CASES, ids=[f"{c.__name__}-{'-'.join(o)}" for c, _, o in CASES]
)
def test_against_numpy(cls, rule, options, maximize):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(2, 3))
    p = nn.Parameter(fl.tensor(start.tolist(), dtype=fl.float64))
    opt = cls([p], lr=0.05, maximize=maximize, **options)
    want, state = start, {}
    for t in range(1, 8):
        g = rng.normal(size=start.shape)
        p.grad = fl.tensor(g.tolist(), dtype=fl.float64)
        opt.step()
        want = rule(want, -g if maximize else g, state, t, 0.05, **options)
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-6, atol=1e-9)


MAKERS = {
    "SGD": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9),
    "Adam": lambda ps: optim.Adam(ps, lr=0.1, amsgrad=True),
    "AdamW": lambda ps: optim.AdamW(ps, lr=0.1),
    "RMSprop": lambda ps: optim.RMSprop(ps, lr=0.1, momentum=0.5, centered=True),
    "Adagrad": lambda ps: optim.Adagrad(ps, lr=0.1),
    "Adadelta": lambda ps: optim.Adadelta(ps, lr=0.1),
    "Adamax": lambda ps: optim.Adamax(ps, lr=0.1),
    "NAdam": lambda ps: optim.NAdam(ps, lr=0.1),
    "RAdam": lambda ps: optim.RAdam(ps, lr=0.1, betas=(0.5, 0.8)),
    "ASGD": lambda ps: optim.ASGD(ps, lr=0.1, t0=2),
    "Rprop": lambda ps: optim.Rprop(ps, lr=0.1),
    "Adafactor": lambda ps: optim.Adafactor(ps, lr=0.1),
}


def steps(net, opt, n):
    x = fl.arange(6.0).reshape(2, 3) / 6
    for _ in range(n):
        opt.zero_grad()
        (net(x) ** 2).sum().backward()
        opt.step()
    return [p.tolist() for p in net.parameters()]


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_saved_state_goes_on_exactly(name, tmp_path):
    fl.manual_seed(0)
    net = nn.Linear(3, 2)
    opt = MAKERS[name](net.parameters())
    steps(net, opt, 3)
    fl.save({"net": net.state_dict(), "opt": opt.state_dict()}, tmp_path / "state")
    want = steps(net, opt, 3)

    again = nn.Linear(3, 2)
    opt2 = MAKERS[name](again.parameters())
    state = fl.load(tmp_path / "state")
    again.load_state_dict(state["net"])
    opt2.load_state_dict(state["opt"])
    assert steps(again, opt2, 3) == want


@pytest.mark.parametrize("name", list(MAKERS))
def test_state_dict_layout(name):
    net = nn.Linear(3, 2)
    opt = MAKERS[name](net.parameters())
    steps(net, opt, 1)
    state = opt.state_dict()
    assert set(state) == {"state", "param_groups"} and list(state["state"]) == [0, 1]
    assert state["param_groups"][0]["params"] == [0, 1]
    keys = {
        "SGD": {"momentum_buffer"},
        "Adam": {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
        "AdamW": {"step", "exp_avg", "exp_avg_sq"},
        "RMSprop": {"step", "square_avg", "momentum_buffer", "grad_avg"},
        "Adagrad": {"step", "sum"},
        "Adadelta": {"step", "square_avg", "acc_delta"},
        "Adamax": {"step", "exp_avg", "exp_inf"},
        "NAdam": {"step", "mu_product", "exp_avg", "exp_avg_sq"},
        "RAdam": {"step", "exp_avg", "exp_avg_sq"},
        "ASGD": {"step", "eta", "mu", "ax"},
        "Rprop": {"step", "prev", "step_size"},
        "Adafactor": {"step", "row_var", "col_var"},
    }
    assert set(state["state"][0]) == keys[name]


@pytest.mark.parametrize("name", list(MAKERS))
def test_parameters_without_gradient_are_left_alone(name):
    a, b = nn.Parameter(fl.ones(2)), nn.Parameter(fl.ones(2))
    opt = MAKERS[name]([a, b])
    a.grad = fl.ones(2)
    opt.step()
    assert b.tolist() == [1.0, 1.0] and a.tolist() != [1.0, 1.0]
    a.grad = None
    before = a.tolist()
    b.grad = fl.ones(2)
    opt.step()
    assert a.tolist() == before and b.tolist() != [1.0, 1.0]


def test_groups_have_their_own_options_and_can_be_added():
    a, b, c = (nn.Parameter(fl.zeros(1)) for _ in range(3))
    opt = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
    opt.add_param_group({"params": [c], "lr": 10.0})
    for p in (a, b, c):
        p.grad = fl.ones(1)
    opt.step()
    assert [p.item() for p in (a, b, c)] == pytest.approx([-0.1, -1.0, -10.0])
    opt.param_groups[0]["lr"] = 5.0
    opt.step()
    assert a.item() == pytest.approx(-5.1)


def test_named_parameters_are_accepted():
    net = nn.Linear(2, 1)
    opt = optim.SGD(net.named_parameters(), lr=0.1)
    assert opt.param_groups[0]["param_names"] == ["weight", "bias"]


def test_closure_and_hooks():
    p = nn.Parameter(fl.ones(1))
    opt = optim.SGD([p], lr=0.5)
    log = []
    opt.register_step_pre_hook(lambda o, a, k: log.append("pre"))
    handle = opt.register_step_post_hook(lambda o, a, k: log.append("post"))

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with fl.no_grad():
        assert opt.step(closure).item() == 1.0
    assert p.item() == 0.0 and log == ["pre", "post"]
    handle.remove()
    opt.step(closure)
    assert log == ["pre", "post", "pre"]


def test_own_optimizer_by_subclassing_step():
    class SignSGD(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with fl.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    p = nn.Parameter(fl.zeros(2))
    opt = SignSGD([p], lr=1.0)
    log = []
    opt.register_step_post_hook(lambda *a: log.append(1))
    p.grad = fl.tensor([3.0, -2.0])
    opt.step()
    assert p.tolist() == [-1.0, 1.0] and log == [1]


def test_zero_grad():
    p = nn.Parameter(fl.ones(1))
    opt = optim.SGD([p], lr=1.0)
    p.grad = fl.ones(1)
    opt.zero_grad(set_to_none=False)
    assert p.grad.item() == 0.0
    opt.zero_grad()
    assert p.grad is None


def test_copies():
    net = nn.Linear(2, 1)
    opt = optim.Adam(net.parameters())
    steps(nn.Sequential(nn.Linear(3, 2), net), opt, 1)
    for twin in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        assert twin.param_groups[0]["lr"] == 1e-3 and len(twin.state) == 2


def test_repr_lists_groups():
    text = repr(optim.SGD([nn.Parameter(fl.zeros(1))], lr=0.5))
    assert text.startswith("SGD (\nParameter Group 0\n") and "    lr: 0.5\n" in text


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda p: optim.SGD(p, lr=0.1), TypeError, "one Tensor"),
        (lambda p: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1), ValueError, "some parameters appear in more than one parameter group"),
        (lambda p: optim.SGD([p * 2], lr=0.1), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([3], lr=0.1), TypeError, "optimizer can only optimize Tensors"),
        (lambda p: optim.SGD([{"params": {p}}], lr=0.1), TypeError, "set"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), ValueError, "Invalid beta parameter at index 1"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make(nn.Parameter(fl.zeros(1)))


def test_loading_a_state_of_another_size():
    a, b = nn.Linear(2, 1), nn.Linear(2, 1, bias=False)
    state = optim.SGD(a.parameters(), lr=0.1).state_dict()
    with pytest.raises(ValueError, match="group 0 has 2 parameters in the state, 1"):
        optim.SGD(b.parameters(), lr=0.1).load_state_dict(state)


# ------------------------------------------------------------------ what the user changes between steps


@pytest.mark.parametrize("name", list(MAKERS))
def test_changed_parameters_of_a_group_are_stepped(name):
    a, b = nn.Parameter(fl.ones(2)), nn.Parameter(fl.ones(2))
    opt = MAKERS[name]([a])
    a.grad, b.grad = fl.ones(2), fl.ones(2)
    opt.step()
    before = a.tolist()
    opt.param_groups[0]["params"] = [b]
    opt.step()
    assert a.tolist() == before and b.tolist() != [1.0, 1.0]
    opt.param_groups[0]["params"][0] = a
    opt.step()
    assert a.tolist() != before
    c = nn.Parameter(fl.ones(2))
    c.grad = fl.ones(2)
    opt.param_groups[0]["params"].append(c)
    opt.step()
    assert c.tolist() != [1.0, 1.0]


def one_step(make, prepare):
    """A parameter after three steps, `prepare(opt, p)` being called before the third."""
    p = nn.Parameter(fl.tensor([1.0, -2.0]))
    opt = make([p])
    for i in range(3):
        if i == 2:
            prepare(opt, p)
        p.grad = fl.tensor([0.5, -0.25])
        opt.step()
    return p.tolist()


@pytest.mark.parametrize("name", list(MAKERS))
def test_replaced_state_starts_anew(name):
    from collections import defaultdict

    def replace(opt, p):
        opt.state = defaultdict(dict)

    def replace_plain(opt, p):
        opt.state = {}

    def clear(opt, p):
        opt.state.clear()

    def pop(opt, p):
        opt.state.pop(p)

    def empty(opt, p):
        opt.state[p].clear()

    def anew(opt, p):
        opt.__init__([p], **{k: v for k, v in opt.defaults.items() if k != "decoupled_weight_decay" or type(opt) in (optim.NAdam, optim.RAdam)})

    want = one_step(MAKERS[name], anew)
    for change in (replace, replace_plain, clear, pop, empty):
        assert one_step(MAKERS[name], change) == want, change.__name__


@pytest.mark.parametrize(
    "name, key",
    [("SGD", "momentum_buffer"), ("Adam", "exp_avg"), ("Adam", "max_exp_avg_sq"), ("RMSprop", "square_avg"), ("Adagrad", "sum")],
)
def test_replaced_state_tensors_are_used(name, key):
    def write(opt, p):
        opt.state[p][key].fill_(3.0)

    def put(opt, p):
        opt.state[p][key] = fl.full((2,), 3.0)

    def put_dict(opt, p):
        opt.state[p] = {**opt.state[p], key: fl.full((2,), 3.0)}

    want = one_step(MAKERS[name], write)
    assert one_step(MAKERS[name], put) == want
    assert one_step(MAKERS[name], put_dict) == want
    assert one_step(MAKERS[name], lambda opt, p: None) != want


def test_adamw_spells_out_its_options():
    p = nn.Parameter(fl.ones(1))
    optim.AdamW([p], maximize=True, foreach=False, capturable=False, fused=None)
    with pytest.raises(TypeError, match="decoupled_weight_decay"):
        optim.AdamW([p], decoupled_weight_decay=False)
    with pytest.raises(TypeError, match="momentum"):
        optim.AdamW([p], momentum=0.9)


def test_hook_handles_are_context_managers_and_can_go_first():
    p = nn.Parameter(fl.ones(1))
    opt = optim.SGD([p], lr=0.5)
    log = []
    opt.register_state_dict_pre_hook(lambda o: log.append("second"))
    with opt.register_state_dict_pre_hook(lambda o: log.append("first"), prepend=True):
        opt.state_dict()
    opt.state_dict()
    assert log == ["first", "second", "second"]


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_parameter_that_stands_twice_moves_twice(name):
    """PyTorch warns, too; a fused pass over one parameter in two places would race."""
    once, twice = nn.Parameter(fl.full((40_000,), 2.0)), nn.Parameter(fl.full((40_000,), 2.0))
    single = MAKERS[name]([once])
    with pytest.warns(UserWarning, match="parameter 1 .* appears twice"):
        double = MAKERS[name]([twice, twice])
    for _ in range(3):
        once.grad, twice.grad = fl.ones(40_000), fl.ones(40_000)
        single.step()
        single.step()
        double.step()
        assert fl.equal(once, twice)


@pytest.mark.parametrize("name", list(MAKERS))
def test_everything_goes_with_the_last_reference(name):
    """Model, gradients and state of an optimizer that has stepped, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        net = nn.Linear(3, 2)
        opt = MAKERS[name](net.parameters())
        schedule = optim.lr_scheduler.StepLR(opt, 1)
        net(fl.ones(4, 3)).sum().backward()
        opt.step()
        schedule.step()
        state = [t for entries in opt.state.values() for t in entries.values() if isinstance(t, fl.Tensor)]
        alive = [weakref.ref(x) for x in (net, opt, schedule, net.weight, net.weight.grad, *state)]
        del net, opt, schedule, state
        assert [ref() for ref in alive if ref() is not None] == []
    finally:
        gc.enable()


def test_zero_grad_with_zeros_keeps_the_tensor():
    param = nn.Parameter(fl.ones(2))
    opt = optim.SGD([param], lr=0.1)
    (param * 3).sum().backward()
    grad = param.grad
    opt.zero_grad(set_to_none=False)
    assert param.grad is grad and grad.tolist() == [0.0, 0.0]
    (g,) = fl.autograd.grad((param**3).sum(), [param], create_graph=True)
    param.grad = g
    opt.zero_grad(set_to_none=False)
    assert param.grad is g and g.grad_fn is None and not g.requires_grad and g.tolist() == [0.0, 0.0]


def test_an_optimizer_that_keeps_nothing_has_no_state():
    p = fl.nn.Parameter(fl.ones(2))
    opt = fl.optim.SGD([p], lr=0.1)
    p.grad = fl.ones(2)
    opt.step()
    assert opt.state_dict()["state"] == {}


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("SGD", "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"),
        ("Adam", "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"),
        ("AdamW", "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"),
        ("Adagrad", "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"),
        ("Adadelta", "lr rho eps weight_decay maximize capturable foreach differentiable"),
        ("Adamax", "lr betas eps weight_decay foreach maximize differentiable capturable"),
        ("ASGD", "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"),
        ("NAdam", "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"),
        ("RAdam", "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"),
        ("RMSprop", "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"),
        ("Rprop", "lr etas step_sizes foreach maximize differentiable capturable"),
        ("Adafactor", "lr beta2_decay eps d weight_decay foreach maximize"),
    ],
)
def test_options_stand_in_the_order_that_programs_print(name, order):
    opt = getattr(optim, name)([nn.Parameter(fl.ones(2, 2))])
    assert list(opt.defaults) == order.split()
    assert list(opt.state_dict()["param_groups"][0]) == [*order.split(), "params"]


def test_a_class_may_give_other_options_than_its_base():
    class Mine(optim.Adam):
        def __init__(self, params):
            optim.Optimizer.__init__(self, params, {"mine": 1, "eps": 2.0, "lr": 0.1})

    assert Mine([nn.Parameter(fl.ones(1))]).defaults == {"lr": 0.1, "eps": 2.0, "mine": 1}


def test_hooks_of_a_step_get_the_arguments_of_the_call_the_optimizer_first():
    opt = optim.SGD([nn.Parameter(fl.ones(1))], lr=0.1)
    seen = []
    opt.register_step_pre_hook(lambda o, args, kwargs: seen.append((o, *args)) or (args, {"closure": lambda: fl.tensor(7.0)}))
    opt.register_step_post_hook(lambda o, args, kwargs: seen.append((o, *args, *kwargs)))
    assert opt.step().item() == 7
    assert seen == [(opt, opt), (opt, opt, "closure")]
    opt.register_step_pre_hook(lambda o, args, kwargs: args)
    with pytest.raises(RuntimeError, match=r"SGD.step: a hook before it returned a tuple of 1; expected None or a tuple \(args, kwargs\)"):
        opt.step()


@pytest.mark.parametrize(
    "name, options, error, text",
    [
        ("Adam", {"betas": 3}, TypeError, "Adam: betas = 3 is a int; expected a tuple of two numbers"),
        ("AdamW", {"betas": "ab"}, TypeError, "AdamW: betas = 'ab' is a str"),
        ("NAdam", {"betas": None}, TypeError, "NAdam: betas = None is a NoneType"),
        ("RAdam", {"betas": (0.9, "x")}, TypeError, r"RAdam: betas\[1\] = 'x' is a str; expected a number"),
        ("Adam", {"betas": (0.9,)}, IndexError, r"Adam: betas = \(0.9,\); expected two numbers"),
        ("Adam", {"lr": "1e-3"}, TypeError, "Adam: lr = '1e-3' is a str; expected a number"),
        ("SGD", {"lr": None}, TypeError, "SGD: lr = None is a NoneType; expected a number"),
        ("SGD", {"momentum": "x"}, TypeError, "SGD: momentum = 'x'"),
        ("Adadelta", {"rho": "x"}, TypeError, "Adadelta: rho = 'x'"),
        ("Rprop", {"etas": 3}, TypeError, "Rprop: etas = 3 is a int"),
        ("Adafactor", {"eps": 3}, TypeError, "Adafactor: eps = 3 is a int"),
    ],
)
def test_options_that_are_no_numbers_are_named(name, options, error, text):
    with pytest.raises(error, match=text):
        getattr(fl.optim, name)([fl.ones(1, requires_grad=True)], **options)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda o: o.add_param_group({"lr": 1.0}), KeyError, "SGD: a group has 'lr'; expected 'params' among them"),
        (lambda o: o.add_param_group({"params": 3}), TypeError, "params is a int; expected a Tensor or an iterable"),
        (lambda o: o.load_state_dict(3), TypeError, "SGD.load_state_dict: state_dict is a int; expected a dict"),
        (lambda o: o.load_state_dict(3), AttributeError, "state_dict is a int"),
        (lambda o: o.load_state_dict({"state": {}}), KeyError, "state_dict has no 'param_groups'"),
    ],
)
def test_groups_and_states_that_are_none(call, error, text):
    optimizer = fl.optim.SGD([fl.ones(1, requires_grad=True)], lr=1.0)
    with pytest.raises(error, match=text):
        call(optimizer)
    assert len(optimizer.param_groups) == 1


class Around(optim.Optimizer):
    """A wrapper as programs write them: its groups and its state are the other's, and `__init__` of the base is not called."""

    def __init__(self, optimizer):
        self.optimizer, self.defaults = optimizer, optimizer.defaults

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state

    def step(self, closure=None):
        return self.optimizer.step(closure)


def test_a_wrapper_works_on_the_groups_of_what_it_wraps():
    w, v = (fl.ones(2, requires_grad=True) for _ in range(2))
    around = Around(optim.SGD([w], lr=0.5, momentum=0.9))
    w.grad = fl.ones(2)
    around.step()
    assert w.tolist() == [0.5, 0.5] and list(around.state_dict()["state"]) == [0]
    assert repr(around).startswith("Around (\nParameter Group 0") and "lr: 0.5" in repr(around)
    around.add_param_group({"params": [v], "lr": 0.1})
    assert around.param_groups is around.optimizer.param_groups and len(around.param_groups) == 2
    around.zero_grad()
    assert w.grad is None


def test_an_empty_entry_of_the_state_is_kept_where_the_program_made_it():
    class Own(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            for group in self.param_groups:
                for param in group["params"]:
                    self.state[param]

    w = fl.ones(2, requires_grad=True)
    own = Own([w])
    own.step()
    own.state["count"] = 0
    assert own.state_dict()["state"] == {0: {}, "count": 0}
    own.load_state_dict(own.state_dict())
    assert own.state_dict()["state"] == {0: {}, "count": 0}
    plain = optim.SGD([w], lr=0.1)
    w.grad = fl.ones(2)
    plain.step()
    assert plain.state_dict()["state"] == {}


def test_a_class_sees_which_values_the_groups_of_an_older_state_miss():
    class Own(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0, "scale": 3.0, "other": 4.0})

        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                if "scale" not in group:
                    group["scale"] = group.pop("older")

    opt = Own([fl.ones(2, requires_grad=True)])
    state = opt.state_dict()
    del state["param_groups"][0]["scale"], state["param_groups"][0]["other"]
    state["param_groups"][0]["older"] = 0.5
    opt.load_state_dict(state)
    group = opt.param_groups[0]
    assert group["scale"] == 0.5 and group["other"] == 4.0 and "older" not in group


def test_nested_state_is_loaded_with_its_keys_and_in_the_parameters_type():
    w = fl.ones(2, requires_grad=True)
    double = fl.ones(2, dtype=fl.float64)
    shared = {w: double}
    state = optim.SGD([w], lr=0.1).state_dict()
    state["state"] = {0: {"by": {w: double, "step": double}, "rows": [double, (double, 3)]}, "all": shared}
    opt = optim.SGD([w], lr=0.1)
    opt.load_state_dict(state)
    found = opt.state[w]
    assert found["by"][w].dtype == fl.float32 and found["by"]["step"].dtype == fl.float64
    assert [found["rows"][0].dtype, found["rows"][1][0].dtype] == [fl.float32, fl.float32] and found["rows"][1][1] == 3
    assert opt.state["all"] is shared


def test_a_rule_without_a_state_leaves_no_entries_whatever_follows():
    w, v = (fl.ones(2, requires_grad=True) for _ in range(2))
    plain = optim.SGD([w], lr=0.1)
    w.grad = fl.ones(2)
    plain.step()
    assert plain.state == {}
    plain.add_param_group({"params": [v]})
    assert plain.state_dict()["state"] == {}
    v.grad = fl.ones(2)
    plain.step()
    w.grad = fl.ones(2).to_sparse()
    plain.step()
    w.grad = None
    plain.step()
    assert pickle.loads(pickle.dumps(plain)).state_dict()["state"] == plain.state_dict()["state"] == {}
    for group in plain.param_groups:
        group["momentum"] = 0.9
    plain.step()
    assert list(plain.state_dict()["state"]) == [1]


def test_adamw_stays_decoupled_where_an_adams_state_is_loaded():
    w = fl.ones(2, requires_grad=True)
    after = optim.AdamW([w])
    after.load_state_dict(optim.Adam([w]).state_dict())
    assert after.param_groups[0]["decoupled_weight_decay"] is True


def test_a_state_may_hold_anything_under_other_keys():
    p = fl.ones(1, requires_grad=True)
    opt = optim.Adam([p])
    p.grad = fl.ones(1)
    opt.step()
    state = opt.state_dict()
    state["state"]["note"] = 5
    opt.load_state_dict(state)
    assert opt.state["note"] == 5 and opt.state[p]["step"].item() == 1
