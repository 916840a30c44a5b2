"""compile: recorded calls and replayed programs give what eager mode gives, and what can not be replayed says so."""

from __future__ import annotations

import copy
import enum
import pickle
import threading
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from support.replays import CALLS, replayed, same

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import _C, nn

pytestmark = pytest.mark.filterwarnings("ignore:compile:UserWarning")

PROGRAMS = {
    "element-wise": (lambda x, y: (x * 2 + y).sigmoid() - 0.5, lambda: (fl.randn(4, 5), fl.randn(4, 5))),
    "long chain": (lambda x, y: ((x * 2 + y).relu() * y - x).tanh(), lambda: (fl.randn(64, 128), fl.randn(64, 128))),
    "broadcast": (lambda x, y: (x + y) * (x - y), lambda: (fl.randn(64, 128), fl.randn(128))),
    "product": (lambda x, y: (x @ y).softmax(-1), lambda: (fl.randn(8, 6), fl.randn(6, 3))),
    "views": (lambda x, y: (x.T[1:] * y.view(5, 4)[1:]).flatten(), lambda: (fl.randn(4, 5), fl.randn(20))),
    "several results": (lambda x, y: {"max": x.max(1), "both": (x + y, [y * 2])}, lambda: (fl.randn(3, 4), fl.randn(3, 4))),
    "an argument back": (lambda x, y: (y, x + y), lambda: (fl.randn(3), fl.randn(3))),
    "in place": (lambda x, y: x.add_(y).mul_(2), lambda: (fl.randn(3), fl.randn(3))),
    "zeros written": (lambda x, y: fl.zeros(3).add_(x).mul_(y), lambda: (fl.randn(3), fl.randn(3))),
    "constants": (lambda x, y: x * fl.tensor([1.0, 2.0, 3.0]) + fl.arange(3) + y, lambda: (fl.randn(3), fl.randn(3))),
    "draws": (lambda x, y: F.dropout(x, 0.5) + fl.rand(6) + fl.randn_like(y), lambda: (fl.randn(6), fl.randn(6))),
    "draws that nobody wants": (lambda x, y: (fl.rand(6), x + fl.rand(6))[1], lambda: (fl.randn(6), fl.randn(6))),
    "an index": (lambda x, i: x[i] + F.embedding(i, x), lambda: (fl.randn(5, 3), fl.randint(0, 5, (4,)))),
    "images": (lambda x, w: F.max_pool2d((F.conv2d(F.conv2d(x, w, padding=1).relu(), w, padding=1) + x).relu_().mul_(2) + 1, 2).sum((2, 3)), lambda: (fl.randn(2, 16, 12, 12), fl.randn(16, 16, 3, 3))),
    "images that nobody wants": (lambda x, w: (F.conv2d(x, w) * 2, F.conv2d(x, w).relu().sum())[1], lambda: (fl.randn(2, 16, 12, 12), fl.randn(16, 16, 3, 3))),
    "half": (lambda x, y: ((x + y) * x).exp(), lambda: (fl.randn(100, 64).bfloat16(), fl.randn(100, 64).bfloat16())),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["lazy", "replay"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, mode):
    function, make = PROGRAMS[name]
    compiled = fl.compile(function, mode=mode)
    for _ in range(CALLS):
        args = make()
        copies = tuple(a.clone() for a in args)
        state = fl.get_rng_state()
        expected = function(*copies)
        after = fl.get_rng_state()
        fl.set_rng_state(state)
        assert same(compiled(*args), expected)
        assert same(args, copies)  # written alike
        assert same(fl.get_rng_state(), after)
    if mode == "replay":
        assert replayed(compiled)


def test_a_training_step_that_writes_parameters():
    def step(parameters, x, target):
        for p in parameters:
            p.requires_grad_()
        loss = F.cross_entropy(F.relu(x @ parameters[0] + parameters[1]) @ parameters[2], target)
        grads = fl.autograd.grad(loss, parameters)
        with fl.no_grad():
            for p, g in zip(parameters, grads, strict=True):
                p.sub_(g * 0.1)
        return loss.detach()

    def train(f):
        fl.manual_seed(3)
        parameters = [fl.randn(6, 8), fl.randn(8), fl.randn(8, 4)]
        for p in parameters:
            p.requires_grad_()
        return [f(parameters, fl.randn(5, 6), fl.randint(0, 4, (5,))) for _ in range(12)], [p.detach() for p in parameters]

    compiled = fl.compile(step, mode="replay")
    assert same(train(compiled), train(step))
    assert replayed(compiled)


def test_a_module_in_both_modes_follows_its_statistics():
    def make():
        fl.manual_seed(1)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(72, 5))

    eager, module = make(), make()
    compiled = fl.compile(module, mode="replay")
    assert compiled.state_dict().keys() == {f"_orig_mod.{k}" for k in eager.state_dict()}
    with fl.no_grad():
        for training in (True, False, True):
            eager.train(training)
            compiled.train(training)
            for _ in range(CALLS):
                x = fl.randn(2, 3, 8, 8)
                state = fl.get_rng_state()
                expected = eager(x)
                fl.set_rng_state(state)
                assert same(compiled(x), expected)
    assert all(same(a, b) for a, b in zip(eager.state_dict().values(), module.state_dict().values(), strict=True))
    assert replayed(compiled)


def test_other_shapes_types_and_modes_are_other_programs():
    f = fl.compile(lambda x, k: (x * k).cumsum(0), mode="replay")
    for _ in range(6):
        for x in (fl.ones(3), fl.ones(4), fl.ones(3, dtype=fl.float64), fl.ones(6)[::2], fl.ones(2, 3).T):
            for k in (2, 2.0, True, -0.0):
                assert same(f(x, k), (x * k).cumsum(0))
    with fl.autocast("cpu"):
        assert same(f(fl.ones(3), 2), fl.ones(3).mul(2).cumsum(0))
    assert replayed(f)


class Pair(NamedTuple):
    a: object
    b: object


class Few(enum.IntEnum):
    ONE = 1


def test_what_makes_two_calls_alike():
    def key(*args, **kwargs):
        return _C.graph.call_key(args, kwargs, lambda x: repr(x))[0]

    x = fl.ones(3)
    loop = []
    loop.append(loop)
    values = [1, True, 1.0, 0.0, -0.0, float("nan"), 1j, "a", "\N{EURO SIGN}", "\ud800", b"a", None, 2**70, -(2**70), fl.float32, fl.float64, fl.device("cpu"), (), [], {}, (1,), [1], (1, 2),
              ((1,), 2), (1, (2,)), {"a": 1}, {1: "a"}, Pair(1, 2), Pair(1, Pair(2, 3)), Few.ONE, np.float64(1.0), x, x.clone().requires_grad_(), [x], (x, x)]  # fmt: skip
    keys = [key(v) for v in values]
    assert len(set(keys)) == len(values)
    assert keys == [key(v) for v in copy.deepcopy(values)]
    assert key(1, 2) != key((1, 2)) != key(1, b=2) != key(1, c=2)
    assert _C.graph.call_key((x, [x * 1, {"a": x}]), {"b": x}, repr)[1][3] is x
    with fl.no_grad():
        assert key(1) != keys[0]
    with fl.autocast("cpu", dtype=fl.bfloat16):
        low = key(1)
        with fl.autocast("cpu", dtype=fl.float16):
            assert len({low, key(1), keys[0]}) == 3
    with pytest.raises(RecursionError):
        key(loop)
    with pytest.raises(ZeroDivisionError):
        _C.graph.call_key((object(),), {}, lambda x: 1 / 0)


def test_a_module_that_went_is_not_taken_for_another():
    f = fl.compile(lambda module, x: module(x), mode="replay")
    x = fl.randn(2, 3)
    with fl.no_grad():
        for _ in range(40):
            module = nn.Linear(3, 2)
            for _ in range(3):
                assert same(f(module, x), module(x))
            del module


def test_arguments_that_share_memory():
    f = fl.compile(lambda x, y: x.add_(1) * y, mode="replay")
    for _ in range(CALLS):
        x, y = fl.ones(3), fl.ones(3)
        assert same(f(x, y), fl.tensor([2.0, 2.0, 2.0]))
        assert same(f(x, x), fl.tensor([9.0, 9.0, 9.0]))
        z = fl.ones(4)
        assert same(f(z[1:], z[:3]), fl.tensor([2.0, 4.0, 4.0]))


def test_a_result_that_is_returned_twice_is_one_object():
    @fl.compile(mode="replay", fullgraph=True)
    def f(x, y):
        a, b = x * 2, y + 1
        return a, [b, x, y], {"a": a, "b": b, "c": a + 1}

    x, y = fl.ones(3), fl.zeros(3)
    before = fl.compiler.stats()["replayed"]
    for _ in range(6):
        a, (b, *given), more = f(x, y)
        assert more["a"] is a and more["b"] is b and given[0] is x and given[1] is y
        a.unsqueeze_(0)
        assert more["a"].tolist() == [[2.0] * 3] and b.tolist() == [1.0] * 3 and more["c"].tolist() == [3.0] * 3
    assert fl.compiler.stats()["replayed"] > before


def test_draws_that_nobody_reads_keep_their_place_inside_of_a_pass():
    def f(y):
        y.add_(1)
        fl.rand(10)
        return (y * 2 + fl.rand(4096)).sum()

    ends = []
    for g in (f, fl.compile(f), fl.compile(f, mode="replay", fullgraph=True)):
        fl.manual_seed(0)
        ends.append([g(fl.ones(4096)).item() for _ in range(12)])
    assert ends[0] == ends[1] == ends[2]


def test_replayed_results_are_inference_tensors_where_recorded_ones_are():
    f, inside = (fl.compile(g, mode="replay", fullgraph=True) for g in (lambda x: x * 2, fl.inference_mode()(lambda x: x + 1)))
    x = fl.ones(3)
    before = fl.compiler.stats()["replayed"]
    for _ in range(6):
        with fl.inference_mode():
            assert f(x).is_inference()
        assert not f(x).is_inference() and inside(x).is_inference()
    assert fl.compiler.stats()["replayed"] > before


def test_an_index_out_of_range_is_refused_in_a_replayed_call():
    f = fl.compile(lambda x, i: F.embedding(i, x) * 2, mode="replay")
    x = fl.randn(4, 2)
    for _ in range(5):
        f(x, fl.tensor([0, 3]))
    for bad in (4, 10**12, -1):
        with pytest.raises(IndexError, match=str(bad)):
            f(x, fl.tensor([0, bad]))
    assert same(f(x, fl.tensor([3, 1])), F.embedding(fl.tensor([3, 1]), x) * 2)
    assert replayed(f)


def counter():
    calls = [0]

    def f(x):
        calls[0] += 1
        return x * calls[0]

    return f


def growing():
    kept = []

    def f(x):
        kept.append(1)
        return x + len(kept)

    return f


def attribute():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 1.0

        def forward(self, x):
            self.k += 1.0
            return x * self.k

    module = Scale()
    return lambda x: module(x)


LEFT = []


def leaves(x):
    y = x * 2
    LEFT[:] = [y]
    return y + 1


def history():
    total = [fl.zeros(3)]

    def f(x):
        total[0] = total[0] + x
        return total[0] * 1

    return f


STALE = {
    "a counter": counter,
    "a list that grows": growing,
    "an attribute": attribute,
    "a branch on a value": lambda: lambda x: x * 2 if x.sum().item() > 0 else x * 3,
    "a branch on an argument's element": lambda: lambda x: x * 2 if x[0] > 0 else x * 3,
    "a list of values": lambda: lambda x: x + sum(x.tolist()),
    "an array of values": lambda: lambda x: x + float(x.detach().numpy().sum()),
    "positions of values": lambda: lambda x: x[x > 0].sum() + x,
    "as many as values say": lambda: lambda x: x.repeat_interleave((x > 0).long() + 1)[:3],
    "what lives on": lambda: leaves,
    "a state of tensors": history,
    "a seed": lambda: lambda x: (fl.manual_seed(int(x.numel())), x + fl.rand(3))[1],
    "NumPy's memory": lambda: lambda x: x + fl.from_numpy(np.ones(3, np.float32)),
    "a result with a history": lambda: lambda x: x.detach().requires_grad_() * 2,
    "a leaf's gradient": lambda: lambda x: ((p := x.detach().requires_grad_()) * 2).sum().backward() or p.grad,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["lazy", "replay"])
@pytest.mark.parametrize("name", STALE)
def test_what_would_go_stale_does_not(name, mode):
    eager, compiled = STALE[name](), fl.compile(STALE[name](), mode=mode)
    rng = np.random.default_rng(0)
    for _ in range(CALLS):
        x = fl.tensor(rng.normal(size=3).astype(np.float32).tolist())
        state = fl.get_rng_state()
        expected = eager(x.clone())
        fl.set_rng_state(state)
        assert same(compiled(x).detach(), expected.detach())


def test_global_state_and_replaced_parameters_in_recorded_calls():
    module = nn.Linear(3, 2)
    f = fl.compile(lambda x: module(x))
    x = fl.randn(4, 3)
    for _ in range(3):
        assert same(f(x), module(x))
        module.weight = nn.Parameter(fl.randn(2, 3))
        assert same(f(x), module(x))
        module.weight.data = fl.randn(2, 3)
        assert same(f(x), module(x))


def weight():
    return fl.ones(3, requires_grad=True)


# What changes something of an argument beside its bytes: f(x, another tensor like it), and what is looked at afterwards.
CHANGES = {
    "another gradient": (lambda x, y: setattr(x, "grad", y), lambda x: x.grad, "a gradient that it has not made"),
    "a gradient by backward": (lambda x, y: (x.detach() * weight()).sum().backward() or (x.requires_grad_() * 2).sum().backward(), lambda x: x.grad, "requires grad"),
    "requires_grad_": (lambda x, y: x.requires_grad_(), lambda x: x.requires_grad, "requires grad"),
    "a history": (lambda x, y: x.mul_(weight()), lambda x: x.grad_fn is not None, "a history"),
    "a history through a view": (lambda x, y: x[1:].mul_(weight()[1:]), lambda x: x.grad_fn is not None, "a history"),
    "other memory": (lambda x, y: setattr(x, "data", y), lambda x: x, "other memory"),
    "another size": (lambda x, y: x.resize_(2), lambda x: x, "resizes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_happens_to_an_argument_beside_its_bytes(name):
    change, look, why = CHANGES[name]

    def f(x, y):
        change(x, y)
        return y + 1

    compiled = fl.compile(f, mode="replay")
    with pytest.warns(UserWarning, match=why):
        for k in range(CALLS):
            x, y = fl.full((3,), float(k)), fl.ones(3) * k
            other = x.clone()
            f(other, y.clone())
            assert same(compiled(x, y), y + 1)
            assert same(look(x), look(other))


def test_a_gradient_that_is_dropped_again_is_no_change():
    w = weight()

    @fl.compile(mode="replay")
    def f(x):
        (x * w).sum().backward()
        g = w.grad * 1
        w.grad = None
        return g

    for k in range(CALLS):
        assert same(f(fl.full((3,), float(k))), fl.full((3,), float(k)))
    assert replayed(f) and w.grad is None


def test_tensors_of_an_earlier_region_are_no_constants():
    with fl.lazy():
        made, given, zeros = fl.ones(3) * 2, fl.tensor([1.0, 2.0, 3.0]), fl.zeros(3)
    f = fl.compile(lambda x: x + made + given + zeros, mode="replay")
    for k in range(CALLS):
        if k > 4:
            made.add_(1)
            given.mul_(2)
            zeros.add_(3)
        assert same(f(fl.ones(3)), 1 + made + given + zeros)
    assert replayed(f)


@pytest.mark.parametrize("name, why", [
    ("a branch on a value", "a value was read"),
    ("positions of values", "the size of a result follows from values"),
    ("what lives on", "lives on, but is not returned"),
    ("a counter", r"two calls with equal arguments differ in op 0 \(mul\) at .*test_compile.py:\d+"),
    ("a result with a history", "requires grad"),
    ("NumPy's memory", "NumPy or another library"),
])  # fmt: skip
def test_a_refusal_says_why_and_where(name, why):
    f = fl.compile(STALE[name](), mode="replay")
    with pytest.warns(UserWarning, match=why):
        for _ in range(4):
            f(fl.ones(3))
    assert "recorded at every call" in fl.compiler.explain(f)
    g = fl.compile(STALE[name](), mode="replay", fullgraph=True)
    with pytest.raises(fl.compiler.CompileError, match=why):
        for _ in range(4):
            g(fl.ones(3))


class Kept(fl.Tensor):
    """Results are of this type, too."""


@pytest.mark.parametrize(
    "f, args, why",
    [
        (lambda x, y: x @ y, lambda: (fl.eye(3).to_sparse(), fl.ones(3, 2)), "an argument is a SparseCOO, which takes calls over"),
        (lambda x: x.to_sparse_csr(), lambda: (fl.eye(3),), "a result is a SparseCSR, which takes calls over"),
        (lambda x: x * 2, lambda: (fl.ones(3).as_subclass(Kept),), "an argument is a Kept, which takes calls over"),
        (lambda x: x.as_subclass(Kept), lambda: (fl.ones(3),), "a result is a Kept, which takes calls over"),
    ],
    ids=["sparse argument", "sparse result", "subclass argument", "subclass result"],
)
def test_what_takes_calls_over_is_recorded_at_each_call(f, args, why):
    compiled = fl.compile(f, mode="replay")
    for _ in range(CALLS):
        given = args()
        expected, result = f(*given), compiled(*given)
        assert type(result) is type(expected)
        assert not isinstance(result, Kept) or result.tolist() == expected.tolist()
        assert isinstance(result, Kept) or fl.allclose(result.to_dense(), expected.to_dense())
    assert why in fl.compiler.explain(compiled)


def test_a_mode_sees_the_ops_of_a_replayed_function():
    class Counts(fl.overrides.TorchFunctionMode):
        seen = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen += 1
            return func(*args, **(kwargs or {}))

    compiled = fl.compile(lambda x: x * 2 + 1, mode="replay")
    x = fl.ones(3)
    for _ in range(CALLS):
        compiled(x)
    with Counts() as counts:
        for _ in range(CALLS):
            compiled(x)
    assert counts.seen == 2 * CALLS
    assert replayed(compiled)


def test_fullgraph_refuses_a_value_in_the_middle():
    f = fl.compile(lambda x: x * x.sum().item(), fullgraph=True)
    with pytest.raises(fl.compiler.CompileError, match=r"a value was read at .*test_compile.py"):
        f(fl.ones(3))
    assert same(fl.compile(lambda x: x * x.sum(), fullgraph=True)(fl.ones(3)), fl.ones(3) * 3)


def test_an_exception_inside():
    def f(x, fail):
        y = x * 2
        if fail:
            raise KeyError("inside")
        return y

    for mode in (None, "replay"):
        g = fl.compile(f, mode=mode)
        for _ in range(4):
            assert same(g(fl.ones(2), False), fl.ones(2) * 2)
            with pytest.raises(KeyError, match="inside"):
                g(fl.ones(2), True)


def test_gradients_flow_through_recorded_calls():
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
    compiled = fl.compile(module)
    x = fl.randn(5, 4)
    compiled(x).sum().backward()
    got = [p.grad for p in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    assert same(got, [p.grad for p in module.parameters()])


def test_threads_share_a_replayed_function():
    weight = fl.randn(16, 16)
    f = fl.compile(lambda x: (x @ weight).relu(), mode="replay")
    wrong = []

    def work(seed):
        generator = fl.Generator()
        generator.manual_seed(seed)
        for _ in range(50):
            x = fl.randn(4, 16, generator=generator)
            if not same(f(x), (x @ weight).relu()):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_programs_are_kept_up_to_a_number():
    f = fl.compile(lambda x: x + 1, mode="replay")
    for n in range(1, 200):
        f(fl.ones(n))
    assert int(fl.compiler.explain(f).split("replayed; ")[1].split()[0]) <= 64


def backend_of_mine(gm, example_inputs):
    raise AssertionError


def test_options_of_others_are_taken_and_wrong_ones_refused():
    def f(x):
        return x + 1

    assert fl.compile(f, disable=True) is f
    assert same(fl.compile(dynamic=True, backend="inductor", options={"a": 1})(f)(fl.ones(2)), fl.ones(2) + 1)
    with pytest.warns(UserWarning, match="compile: backend = backend_of_mine is not called, since there are no graphs to give it"):
        g = fl.compile(f, backend=backend_of_mine)
    assert same(g(fl.ones(2)), fl.ones(2) + 1)
    with pytest.raises(ValueError, match="Unrecognized mode=fast"):
        fl.compile(f, mode="fast")
    with pytest.raises(TypeError, match="expected a function or a module"):
        fl.compile(3)
    with pytest.raises(TypeError, match="options is a str; expected a dict"):
        fl.compile(f, options="floor")
    with pytest.raises(TypeError, match="is not compiled"):
        fl.compiler.explain(f)


def test_warnings_come_once():
    f = fl.compile(counter(), mode="replay")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            f(fl.ones(2))
    assert len([w for w in caught if "compile:" in str(w.message)]) == 1


# ---------------------------------------------------------------- recording that is not worth it


def test_small_ops_are_called_as_they_are():
    seen = []

    def f(x):
        seen.append((_C.graph.recording(), fl.compiler.is_compiling()))
        return (x * 2 + 1).tanh() * x

    g = fl.compile(f)
    small, large = fl.randn(8), fl.randn(300_000)
    for _ in range(8):
        assert same(g(small), f(small))
    calls = seen[::2]
    assert [recorded for recorded, _ in calls] == [True, True, True, False, True, False, False, False], "the first, and the 2^k-th after it"
    assert all(compiling for _, compiling in calls) and not any(compiling for _, compiling in seen[1::2])
    assert "called as it is (recording 4 ops spares" in fl.compiler.explain(g)
    seen.clear()
    assert same(g(large), f(large)) and seen[0][0], "much larger arguments are looked at at once"
    assert "recorded at every call" in fl.compiler.explain(g)
    seen.clear()
    for _ in range(3):
        g(large)
    assert all(recorded for recorded, _ in seen)


def test_an_error_in_a_call_as_it_is_leaves_nothing_behind():
    def f(x, fail):
        if fail:
            raise ZeroDivisionError("in f")
        return x + 1

    g = fl.compile(f)
    for _ in range(4):
        g(fl.ones(3), False)
    with pytest.raises(ZeroDivisionError, match="in f"):
        g(fl.ones(3), True)
    assert not fl.compiler.is_compiling()
    assert same(g(fl.ones(3), False), fl.ones(3) + 1)


# ---------------------------------------------------------------- copies


@fl.compile(mode="replay")
def named(x):
    return x + 1


@pytest.mark.parametrize("mode", [None, "replay", "predict"])
@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "copy", "pickle"])
def test_a_compiled_module_is_copied_and_its_programs_are_not(mode, again):
    model = fl.compile(nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)).eval(), mode=mode)
    x = fl.randn(2, 2, 4, 4)
    with fl.no_grad():
        first = [model(x) for _ in range(3)][-1]
        other = again(model)
        found = [other(x) for _ in range(3)]
        assert fl.allclose(found[0], first, 1e-5, 1e-6) and fl.equal(found[2], first)
        if again is not copy.copy:
            for p in other.parameters():
                p.zero_()
            assert other(x).count_nonzero() == 0 and fl.equal(model(x), first)
    assert "called as it is (recording 2 ops" in fl.compiler.explain(other) or mode is not None
    if mode is not None:
        assert "replayed; 1 program" in fl.compiler.explain(other)


def test_a_compiled_function_is_copied_as_functions_are():
    assert copy.deepcopy(named) is named and pickle.loads(pickle.dumps(named)) is named
    inner = fl.compile(lambda x: x * 2, mode="replay")
    other = copy.deepcopy(inner)
    assert other is not inner and other(fl.ones(2)).tolist() == [2, 2]


def test_arguments_that_are_pytorchs():
    f = fl.compile(name="f", recompile_limit=3, isolate_recompiles=True)(lambda x: x + 1)
    assert f(fl.ones(1)).tolist() == [2.0]
    with pytest.raises(ValueError, match="shapes_spec = 3; expected None"):
        fl.compile(lambda x: x, shapes_spec=3)


def compiled_or_not(x):
    return x + 1 if fl.compiler.is_compiling() else x - 1


@pytest.mark.eager("asks whether it is recorded")
@pytest.mark.parametrize("mode", [None, "lazy", "replay"])
def test_a_stance_holds_where_it_is_set(mode):
    f = fl.compile(compiled_or_not, mode=mode)
    x = fl.zeros(2)
    eager = fl.compiler.set_stance("force_eager")
    try:
        assert f(x).tolist() == [-1, -1]  # at once, without `with`
    finally:
        fl.compiler.set_stance("default")
    assert f(x).tolist() == [1, 1]

    @fl.compiler.set_stance("force_eager")
    def inside():
        return f(x).tolist()

    assert f(x).tolist() == [1, 1]  # a decorator changes nothing outside of its function
    assert inside() == [-1, -1] and f(x).tolist() == [1, 1]
    with eager:
        assert f(x).tolist() == [-1, -1]
        with fl.compiler.set_stance("eager_on_recompile"):
            assert f(x).tolist() == [1, 1]
        assert f(x).tolist() == [-1, -1]
    fl.compiler.set_stance("default")
    with pytest.raises(RuntimeError, match="set_stance: stance = 'fast'; expected one of"):
        fl.compiler.set_stance("fast")
    assert f(x).tolist() == [1, 1]


def test_parts_are_compiled_as_their_module_was():
    """What programs take over to a module's parts: `dynamo_ctx` of a compiled module."""
    model = fl.compile(fl.nn.Linear(2, 2), mode="replay")
    part, layer = model.dynamo_ctx(lambda x: x * 2), model.dynamo_ctx(fl.nn.Linear(2, 2))
    assert part(fl.ones(2)).tolist() == [2.0, 2.0] and part.replay and layer._compiled.replay and type(layer) is type(model)
