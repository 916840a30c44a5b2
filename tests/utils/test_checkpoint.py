"""Checkpointing: the same values and gradients, computed twice."""

import weakref

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.utils.checkpoint import (
    CheckpointError,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3))
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return self.layers(x) * scale


def run(call, net, x):
    """Value, gradients of x and of the parameters, and the next random number."""
    fl.manual_seed(1)
    net.zero_grad()
    x = x.clone().requires_grad_()
    y = call(net, x)
    (y * y).sum().backward()
    return [y, x.grad, *(p.grad for p in net.parameters()), fl.rand(1)]


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_gradients_are_those_of_the_plain_call(reentrant):
    options = {} if reentrant else {"scale": 2.0}  # which the older variant does not hand on
    net, x = Counted(), fl.randn(5, 4)
    want = run(lambda net, x: net(x, **options), net, x)
    net.calls = 0
    got = run(lambda net, x: checkpoint(net, x, use_reentrant=reentrant, **options), net, x)
    assert net.calls == 2
    for a, b in zip(got, want):
        assert a.tolist() == b.tolist()


def test_without_the_random_state_another_mask_is_drawn():
    drop = nn.Dropout(0.5)
    x = fl.ones(100, requires_grad=True)
    checkpoint(drop, x, preserve_rng_state=False).sum().backward()
    y = checkpoint(drop, fl.ones(100, requires_grad=True))
    assert set(x.grad.tolist()) == {0.0, 2.0} and y.requires_grad


def test_no_argument_needs_a_gradient_and_grad_works():
    net, x = nn.Linear(4, 3), fl.randn(5, 4)
    want = fl.autograd.grad(net(x).sum(), list(net.parameters()))
    got = fl.autograd.grad(checkpoint(net, x).sum(), list(net.parameters()))
    assert [g.tolist() for g in got] == [g.tolist() for g in want]
    assert all(p.grad is None for p in net.parameters())


def test_captured_tensors_with_a_history():
    w = fl.randn(3, requires_grad=True)
    x = fl.randn(3, requires_grad=True)

    def total(call):
        w.grad = x.grad = None
        h = w.exp()
        (call(lambda x: x * h, x).sum() + h.sum()).backward()
        return w.grad.tolist(), x.grad.tolist()

    assert np.allclose(total(checkpoint), total(lambda f, x: f(x)))


def test_structures_and_outputs_without_gradient():
    x = fl.randn(3, requires_grad=True)

    def part(pair, *, k):
        a, b = pair
        return {"y": a * b * k, "n": [a.detach() > 0, "text"], "t": (b.exp(),)}

    out = checkpoint(part, (x, x * 2), k=3.0)
    assert out["n"][1] == "text" and not out["n"][0].requires_grad and isinstance(out["t"], tuple)
    out["y"].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 12 * x.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("leaf", [True, False])
def test_second_derivatives(leaf):
    x = fl.tensor([2.0], requires_grad=True)
    w = fl.tensor([1.0], requires_grad=True)
    y = checkpoint(lambda x: w * x**3, x if leaf else x * 1.0)
    (dx,) = fl.autograd.grad(y, x, create_graph=True)
    ddx, dw = fl.autograd.grad(dx, (x, w))
    assert dx.item() == 12 and ddx.item() == 12 and dw.item() == 12


# The second run's graph is that of the inputs, which may hold the leaves that the part uses, too.
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    "program",
    [
        lambda run, x, w: run(lambda z: z * w, run(lambda z: z * w, x)),
        lambda run, x, w: run(lambda z: z * w * w, w) * x,
        lambda run, x, w: run(lambda y, z: run(lambda u: u * w, y * w) * z.sin(), x * w, w * w),
    ],
    ids=["in two parts", "argument and surroundings", "nested"],
)
def test_leaves_that_a_part_shares_with_its_inputs(program, reentrant):
    def derivatives(run):
        x, w = (fl.tensor(v, requires_grad=True) for v in (3.0, 2.0))
        first = fl.autograd.grad(program(run, x, w), (x, w), create_graph=True)
        second = fl.autograd.grad(sum(first), (x, w), create_graph=True, allow_unused=True)
        third = fl.autograd.grad(sum(g for g in second if g is not None), (x, w), allow_unused=True)
        return [0.0 if g is None else g.item() for g in (*first, *second, *third)]

    part = lambda f, *args: checkpoint(f, *args, use_reentrant=reentrant)  # noqa: E731
    np.testing.assert_allclose(derivatives(part), derivatives(lambda f, *args: f(*args)), rtol=1e-5)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_hooks_of_leaves_are_called_once_with_the_sum(reentrant, again):
    x, w = (fl.tensor(v, requires_grad=True) for v in (3.0, 2.0))
    seen = []
    for leaf in (x, w):
        leaf.register_hook(lambda g: (seen.append(g.item()), g * 10)[1])
        leaf.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.item()))
    y = x
    for _ in range(2):
        y = checkpoint(lambda z: z * w, y, use_reentrant=reentrant)
    y.backward(create_graph=again)
    assert sorted(seen) == [4, 12, 40, 120]
    seen.clear()
    y = checkpoint(lambda z: z * w, x * w, use_reentrant=reentrant)
    assert fl.autograd.grad(y, w)[0].item() == 120 and seen == [12]


def test_inside_no_grad_it_is_the_plain_call():
    net, x = Counted(), fl.randn(5, 4)
    with fl.no_grad():
        assert not checkpoint(net, x).requires_grad
    assert net.calls == 1


def test_inputs_that_were_overwritten_are_noticed():
    x = fl.ones(3, requires_grad=True)
    h = x * 2
    y = checkpoint(lambda h: h * h, h)
    h.fill_(5.0)
    with pytest.raises(RuntimeError):
        y.sum().backward()


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(segments):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = fl.randn(2, 3)
    want = run(lambda net, x: net(x), net, x)
    got = run(lambda net, x: checkpoint_sequential(net, segments, x, use_reentrant=False), net, x)
    for a, b in zip(got, want):
        assert a.tolist() == b.tolist()


def test_sequential_errors():
    with pytest.raises(ValueError, match="segments = 3 for 2 functions; expected 1 to 2"):
        checkpoint_sequential(nn.Sequential(nn.Tanh(), nn.Tanh()), 3, fl.ones(1))


def test_a_second_run_that_gives_something_else_is_refused():
    runs = []

    def part(x):
        runs.append(1)
        return x.sin() if len(runs) == 1 else x.sin()[:1]

    x = fl.ones(3, requires_grad=True)
    with pytest.raises(CheckpointError, match=r"second run of .*part returned \['flambeau.float32 \[1\] on cpu'\]; expected .*\[3\]"):
        checkpoint(part, x).sum().backward()
    assert x.grad is None and checkpoint(fl.sin, x).grad_fn.name() == "CheckpointFunctionBackward"


def test_an_unknown_determinism_check_is_refused():
    with pytest.raises(ValueError, match="determinism_check should be one of 'default' and 'none', but is 'all'"):
        checkpoint(fl.sin, fl.ones(1, requires_grad=True), use_reentrant=False, determinism_check="all")


# ------------------------------------------------------------------------------------- how often and how far the part is run


def frame(function, *args, **kwargs):
    return checkpoint(function, *args, use_reentrant=False, **kwargs)


class Steps:
    """sin, exp, plus 1; `seen` gets a letter before each, and one at the end."""

    def __init__(self):
        self.seen = ""

    def __call__(self, x, scale=1.0):
        self.seen += "a"
        y = x.sin()
        self.seen += "b"
        y = y.exp()
        self.seen += "c"
        y = y + scale
        self.seen += "d"
        return y

    def short(self, x):
        self.seen += "x"
        return x + 1


def angles():
    return fl.tensor([1.0, 2.0, 3.0], requires_grad=True)


def once(x, y):
    y.sum().backward()


def twice(x, y):
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def second(x, y):
    (g,) = fl.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()


def steps(x):
    return x.sin().exp()


@pytest.mark.parametrize(
    "call, plain, use, seen",
    [
        (frame, steps, once, "abcdab"),  # the second run ends when exp has saved its result
        (lambda part, x: frame(part, x, early_stop=False), steps, once, "abcdabcd"),
        (checkpoint, steps, once, "abcdabcd"),
        (lambda part, x: frame(part.short, x), lambda x: x + 1, once, "x"),  # nothing is saved, so nothing is missing
        (frame, steps, twice, "abcdabab"),
        (frame, steps, second, "abcdabab"),
        (lambda part, x: frame(lambda x: frame(part, part.short(x)), x), lambda x: steps(x + 1), once, "xabcdxab"),
        (lambda part, x: frame(lambda x: frame(lambda x: frame(part, x), x), x), steps, once, "abcdab"),
        (lambda part, x: frame(lambda x: part.short(frame(part, x)), x), steps, once, "abcdxab"),
        (lambda part, x: frame(part, x, debug=True), steps, once, "abcdab"),
    ],
)
def test_the_second_run_ends_when_all_is_there(call, plain, use, seen):
    part, x, own = Steps(), angles(), angles()
    use(x, call(part, x))
    use(own, plain(own))
    assert part.seen == seen
    np.testing.assert_allclose(x.grad.numpy(), own.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("region, argument, seen", [(True, False, "abcdab"), (False, True, "abcdabcd")])
def test_a_region_says_whether_second_runs_end_early(region, argument, seen):
    part, x = Steps(), angles()
    with set_checkpoint_early_stop(region):
        y = frame(part, x, early_stop=argument)
    y.sum().backward()
    assert part.seen == seen


def test_the_graph_is_that_of_the_plain_call():
    x = angles()
    assert frame(lambda x: x, x) is x
    assert frame(fl.exp, x).grad_fn.name() == fl.exp(x).grad_fn.name()
    assert frame(lambda x: x.exp().detach(), x).requires_grad is False
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    y = checkpoint_sequential(net[:2], 1, x, use_reentrant=False)
    assert checkpoint_sequential(net, 2, y, use_reentrant=True).grad_fn.name() != "CheckpointFunctionBackward"
    assert checkpoint_sequential(nn.Sequential(nn.Tanh(), nn.Identity()), 2, x, use_reentrant=False).grad_fn.name() == "TanhBackward0"
    assert checkpoint_sequential(nn.Sequential(nn.Tanh(), nn.Identity()), 2, x, use_reentrant=True).grad_fn.name().startswith("Checkpoint")


@pytest.mark.parametrize("wanted, expected", [("x", [True, False]), ("w", [False, True])])
def test_gradients_of_a_part_of_the_arguments(wanted, expected):
    given = {"x": angles(), "w": angles()}
    y = frame(lambda x, *, w: x.sin() * w, given["x"], w=given["w"])
    (got,) = fl.autograd.grad(y.sum(), given[wanted])
    (want,) = fl.autograd.grad((given["x"].sin() * given["w"]).sum(), given[wanted])
    assert got.tolist() == want.tolist() and all(g.grad is None for g in given.values())


def test_hooks_around_see_the_arguments_alone():
    kept, part, x = [], Steps(), angles()
    with fl.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.tolist()) or t, lambda t: t):
        y = frame(part, x)
    y.sum().backward()
    assert kept == [x.tolist()]


def test_contexts_of_both_runs():
    class Region:
        def __init__(self, part, name):
            self.part, self.name = part, name

        def __enter__(self):
            self.part.seen += self.name

        def __exit__(self, *exc):
            self.part.seen += ")"

    part, x = Steps(), angles()
    frame(part, x, context_fn=lambda: (Region(part, "1("), Region(part, "2("))).sum().backward()
    assert part.seen == "1(abcd)2(ab)"


class Changing:
    """Does something else the second time."""

    def __init__(self, first, second):
        self.steps = [second, first]

    def __call__(self, x):
        return self.steps.pop()(x)


@pytest.mark.parametrize(
    "part, options, text",
    [
        (Changing(lambda x: x.sin().exp(), fl.sin), {}, r"Changing saved 1 tensors for backward; expected 2, as the first one"),
        (Changing(lambda x: x.sin().exp(), fl.sin), {"determinism_check": "none"}, r"saved 1 tensors for backward; expected 2"),
        (Changing(fl.sin, lambda x: x.sin().exp()), {"early_stop": False}, r"saves more tensors than the first one \(1\)"),
        (Changing(fl.sin, lambda x: x.double().sin()), {}, r"tensor 0: flambeau.float64 \[3\] on cpu; expected flambeau.float32 \[3\] on cpu"),
        (Changing(lambda x: x.sin().exp(), fl.sin), {"debug": True}, r"first run:  flambeau.Tensor.sin, flambeau.Tensor.exp\nsecond run: flambeau.sin\n"),
    ],
)
def test_a_second_run_that_saves_something_else_is_refused(part, options, text):
    x = angles()
    with pytest.raises(CheckpointError, match=text):
        frame(part, x, **options).sum().backward()
    assert x.grad is None


def test_a_region_says_whether_errors_list_the_functions():
    with set_checkpoint_debug_enabled(True):
        y = frame(Changing(lambda x: x.sin().exp(), fl.sin), angles())
    with pytest.raises(CheckpointError, match="second run: "):
        y.sum().backward()


@pytest.mark.parametrize(
    "options, text",
    [
        ({"debug": True, "use_reentrant": True}, "Passing `context_fn` or `debug` is only supported when use_reentrant=False"),
        ({"context_fn": dict, "use_reentrant": True}, "Passing `context_fn` or `debug` is only supported when use_reentrant=False"),
        ({"k": 1, "use_reentrant": True}, "use_reentrant = True with k; pass use_reentrant=False"),
        ({"debug": True, "context_fn": dict, "use_reentrant": False}, "debug = True with a context_fn; expected one of them"),
    ],
)
def test_options_that_do_not_go_together(options, text):
    with pytest.raises(ValueError, match=text):
        checkpoint(fl.sin, angles(), **options)


def test_sequential_refuses_other_keywords():
    with pytest.raises(ValueError, match="unexpected keyword argument 'other'"):
        checkpoint_sequential([fl.sin], 1, angles(), other=1)


def test_what_was_overwritten_is_noticed_by_the_second_run():
    h = angles() * 2
    y = frame(lambda h: h.sin(), h)
    h.detach().fill_(5.0)
    with pytest.raises(fl.AutogradError, match="saved for backward"):
        y.sum().backward()


@pytest.mark.eager("when memory is given back")
def test_what_is_between_is_not_kept():
    kept = []

    def part(x):
        y = x.exp()
        kept.append(weakref.ref(y))
        return y.sin()

    y = frame(part, angles())
    assert kept[0]() is None
    y.sum().backward()


def test_inside_of_transformations():
    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    mapped = fl.vmap(fl.func.grad(lambda row: frame(lambda a: a.sin().exp(), row).sum()))(x)
    np.testing.assert_allclose(mapped.numpy(), (x.cos() * x.sin().exp()).numpy(), rtol=1e-5)


def test_helpers_for_checkpoints_of_a_programs_own():
    x = fl.ones(2, requires_grad=True)
    cut, other, number = detach_variable((x * 2, fl.ones(1), 3))
    assert cut.is_leaf and cut.requires_grad and not other.requires_grad and number == 3
    with pytest.raises(RuntimeError, match="inputs are list; expected a tuple"):
        detach_variable([x])
    check_backward_validity((x, 3))
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity((fl.ones(1), 3))


@pytest.mark.parametrize("reentrant", [False, True])
def test_contexts_that_do_nothing_may_be_named(reentrant):
    x = fl.ones(2, requires_grad=True)
    checkpoint(fl.exp, x, use_reentrant=reentrant, context_fn=noop_context_fn).sum().backward()
    assert fl.equal(x.grad, x.detach().exp())
