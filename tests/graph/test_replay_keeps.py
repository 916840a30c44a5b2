"""Replay: what a call keeps, changes or gives back in containers is as in eager mode at each call, or the call is refused and says so."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading

import pytest
from support.replays import CALLS, replayed, same

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore:compile:UserWarning")


KEPT = []


def _keeps_its_result(x):
    y = x * 2
    KEPT.append(y)
    return y


def _keeps_a_tuple(x):
    both = (x * 2, x + 1)
    KEPT.append(both)
    return both


def _keeps_its_argument(x):
    KEPT[:] = [x]
    return x * 2


def _keeps_a_list(x):
    KEPT.append(x)
    return x[0] * 2


def _returns_what_was_there(x):
    KEPT[:1] = [len(KEPT)]
    return x * 2, KEPT


@pytest.mark.parametrize(
    "function, make, why",
    [
        (_keeps_its_result, lambda k: fl.full((3,), k), "what it returns lives on elsewhere"),
        (_keeps_a_tuple, lambda k: fl.full((3,), k), "what it returns lives on elsewhere"),
        (_keeps_its_argument, lambda k: fl.full((3,), k), "it keeps an argument"),
        (_keeps_a_list, lambda k: [fl.full((3,), k)], "it keeps an argument"),
        (_returns_what_was_there, lambda k: fl.full((3,), k), "what it returns lives on elsewhere"),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_what_a_call_keeps_is_kept_at_each_call(function, make, why, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # others, of other tests, may hold what they like
    compiled = fl.compile(function, mode="replay")
    seen = []
    for f in (function, compiled):
        KEPT.clear()
        seen.append([(f(make(float(k))), KEPT[-1]) for k in range(CALLS)])
    assert same(*seen)
    assert why in fl.compiler.explain(compiled)


def test_a_module_that_keeps_what_it_returns_says_so():
    class Keeps(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last

    compiled = fl.compile(Keeps(), mode="replay")
    for k in range(CALLS):
        compiled(fl.full((3,), float(k)))
        assert compiled.last.tolist() == [2.0 * k] * 3
    assert "lives on elsewhere" in fl.compiler.explain(compiled)


def test_results_that_others_hold_for_a_while_are_replayed():
    compiled = fl.compile(lambda x, more: (x * 2, [x, {"more": more, "sum": x + more[0]}]), mode="replay")
    held = []
    for k in range(CALLS):
        x, y = fl.full((3,), float(k)), fl.ones(3)
        held.append(compiled(x, [y]))
        assert held[-1][1][0] is x and held[-1][1][1]["more"][0] is y
    assert all(h[0].tolist() == [2.0 * k] * 3 for k, h in enumerate(held))
    assert replayed(compiled)


@dataclasses.dataclass
class Answer(collections.OrderedDict):
    """A dict whose items are fields, as models of the transformers package return them."""

    first: fl.Tensor | None = None
    second: fl.Tensor | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


class Titled(list):
    title = ""


class Counted(tuple):
    def __new__(cls, n):
        return super().__new__(cls, (fl.ones(n), n))


def _titled(x):
    result = Titled([x * 2])
    result.title = "twice"
    return result


def _one_list_twice(x):
    result = [x * 2]
    return result, result


def _a_list_in_itself(x):
    result = [x * 2]
    result.append(result)
    return result


@pytest.mark.parametrize(
    "function, replays",
    [
        (lambda x: collections.OrderedDict(b=x * 2, a=x + 1), True),
        (lambda x: collections.defaultdict(list, a=[x * 2]), True),
        (lambda x: Answer(second=x * 2), True),
        (lambda x: x.max(0), True),
        (lambda x: (x * 2, x.shape), True),
        (lambda x: (x * 2, collections.Counter("aab")), False),
        (_titled, False),
        (lambda x: Counted(3), False),
        (_one_list_twice, False),
    ],
    ids=["ordered", "default", "dataclass", "max", "shape", "counter", "attribute", "new", "twice"],
)
def test_results_keep_their_types(function, replays):
    compiled = fl.compile(function, mode="replay")
    for k in range(CALLS):
        expected, found = function(fl.full((3,), float(k))), compiled(fl.full((3,), float(k)))
        assert type(found) is type(expected) and same(found, expected)
        assert getattr(found, "__dict__", {}).keys() == getattr(expected, "__dict__", {}).keys()
        if isinstance(found, dict):
            assert list(found) == list(expected)
        if isinstance(found, Answer):
            assert found.first is None and found.second is found["second"]
        if isinstance(found, collections.defaultdict):
            assert found["new"] == []
        if function is _one_list_twice:
            assert found[0] is found[1]
    assert replayed(compiled) is replays


def test_a_result_that_holds_itself():
    compiled = fl.compile(_a_list_in_itself, mode="replay")
    for _ in range(4):
        found = compiled(fl.ones(2))
        assert found[1] is found
    assert "holds itself" in fl.compiler.explain(compiled)


@pytest.mark.parametrize(
    "function",
    [lambda x: (x[1:], x * 2), lambda x: ((z := x * 2)[1:], z), lambda x: (z := x * 2, z.view(3, 1), z.flip(0)), lambda x: (fl.view_as_real(x), x * 2), lambda x: (x[1:], x * 2)],
    ids=["argument", "before its base", "behind its base", "complex", "view"],
)
def test_views_stay_views_of_what_is_given(function, request):
    complexes = "complex" in request.node.name
    compiled = fl.compile(function, mode="replay")
    for _ in range(CALLS):
        seen = []
        for f in (function, compiled):
            x = fl.tensor([1.0 + 2.0j, 3.0, 5.0j]) if complexes else fl.tensor([1.0, 2.0, 3.0])
            whole, x = x, x[:] if "view]" in request.node.name else x
            results = f(x)
            of = [next((i for i, t in enumerate([whole, *results]) if t is y._base), None) for y in results]
            view = next(y for y in results if y._is_view())
            view.mul_(fl.full((1,), 2.0).requires_grad_())  # its base gets a history
            seen.append((of, [(t.requires_grad, t._version) for t in (whole, *results)], [t.detach() for t in results]))
        assert same(*seen)
    assert replayed(compiled)


def _pops(batch):
    labels = batch.pop("labels")
    return batch["x"] * labels


def _counts(batch):
    batch["n"] = batch.get("n", 0) + 1
    return batch["x"] * 2


def _swaps(batch):
    batch["x"], batch["labels"] = batch["labels"], batch["x"]
    return batch["x"] * 2


def _returns_it(batch):
    batch["labels"] = batch["x"] * 2
    return batch


def _switches_grad_off(batch):
    fl.set_grad_enabled(False)
    return batch["x"] * 2


@pytest.mark.parametrize("function", [_pops, _counts, _swaps, _returns_it, _switches_grad_off], ids=lambda f: f.__name__)
def test_what_a_call_changes_among_its_arguments_is_changed_at_each_call(function):
    compiled = fl.compile(function, mode="replay")
    for k in range(CALLS):
        seen = []
        for f in (function, compiled):
            x, labels = fl.full((3,), float(k)), fl.ones(3)
            batch = {"x": x, "labels": labels}
            with fl.set_grad_enabled(True):
                result = f(batch)
                seen.append((result, batch, [v is x for v in batch.values()], result is batch, fl.is_grad_enabled()))
        assert same(*seen)
    assert not replayed(compiled)


def test_the_mode_of_a_module_that_is_an_argument_is_left_as_each_call_leaves_it():
    def evaluates(module, x):
        module.train(not module.training)
        return x * 2

    compiled, module = fl.compile(evaluates, mode="replay"), nn.Linear(2, 2)
    for k in range(CALLS):
        compiled(module, fl.ones(3))
        assert module.training is (k % 2 == 1)


def test_hooks_of_what_is_saved_are_called_at_each_call():
    from flambeau.autograd.graph import saved_tensors_hooks

    layer = nn.Linear(4, 3)

    def step(x):
        layer.zero_grad()
        (layer(x) ** 2).sum().backward()

    compiled = fl.compile(step, mode="replay")
    for k in range(CALLS + 4):
        x = fl.randn(5, 4)
        hooks = saved_tensors_hooks(lambda t: t.bfloat16(), lambda t: t.float()) if k in (6, 7, 11) else contextlib.nullcontext()
        seen = []
        for f in (step, compiled):
            with hooks:
                f(x)
            seen.append([layer.weight.grad.clone(), layer.bias.grad.clone()])
        assert same(*seen)
    assert replayed(compiled)


def test_another_default_device_is_another_program():
    compiled = fl.compile(lambda x: (fl.zeros(3) + 1, x * 2), mode="replay")
    for k in range(2 * CALLS):
        with fl.device("meta" if k % 3 == 2 else "cpu") if k > 5 else contextlib.nullcontext():
            made, given = compiled(fl.ones(3, device="cpu"))
        assert made.device.type == ("meta" if k > 5 and k % 3 == 2 else "cpu") and given.tolist() == [2.0] * 3


def test_attributes_of_a_result_are_there_at_each_call():
    def f(x):
        y = x * 2
        y.tag = "twice"
        return y

    compiled = fl.compile(f, mode="replay")
    for _ in range(CALLS):
        assert compiled(fl.ones(3)).tag == "twice"
    assert "attributes (tag)" in fl.compiler.explain(compiled)


def test_attributes_of_an_argument_are_set_at_each_call():
    def f(x):
        x.seen = True
        return x * 2

    compiled = fl.compile(f, mode="replay")
    for _ in range(CALLS):
        x = fl.ones(3)
        compiled(x)
        assert x.seen
    assert "sets attributes" in fl.compiler.explain(compiled)


@pytest.mark.parametrize("agree", [True, False])
def test_threads_that_record_one_call_at_once(agree):
    meet, apart = threading.Barrier(2), threading.local()

    def f(x):
        if getattr(apart, "by", 0):
            meet.wait()
        return x * (2 + (0 if agree else getattr(apart, "by", 0)))

    compiled, found, errors = fl.compile(f, mode="replay"), {}, []
    compiled(fl.ones(3))  # what both are compared with

    def call(k):
        apart.by = k
        try:
            with fl.no_grad():
                found[k] = compiled(fl.ones(3)).tolist()
        except BaseException as e:
            errors.append(e)

    with fl.no_grad():
        compiled(fl.ones(3))
    threads = [threading.Thread(target=call, args=(k,)) for k in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert found == ({1: [2.0] * 3, 2: [2.0] * 3} if agree else {1: [3.0] * 3, 2: [4.0] * 3})


def test_a_gradient_that_is_kept_is_no_stale_one():
    net, kept = nn.Linear(3, 2), []

    def step(x):
        net.zero_grad()
        net(x).square().sum().backward()
        kept[:] = [p.grad for p in net.parameters()]

    compiled = fl.compile(step, mode="replay")
    with pytest.warns(UserWarning, match="keeps a gradient"):
        for i in range(6):
            compiled(fl.full((4, 3), i + 1.0))
            seen = [g.clone() for g in kept]
            step(fl.full((4, 3), i + 1.0))
            assert all(fl.equal(a, b) for a, b in zip(seen, kept, strict=True))


@pytest.mark.parametrize("look", [lambda x: x[0], lambda x: x.detach(), lambda x: x.view(-1)[1:]])
def test_a_view_of_an_argument_that_is_kept_is_no_stale_one(look, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    kept = []

    def f(x):
        kept[:] = [look(x)]
        return x * 2

    compiled = fl.compile(f, mode="replay")
    with pytest.warns(UserWarning, match="a view of it"):
        for i in range(6):
            x = fl.full((2, 3), float(i))
            compiled(x)
            assert fl.equal(kept[0], look(x))


def test_views_that_are_returned_are_not_kept():
    compiled = fl.compile(lambda x: (x[0], x * 2, x.detach()), mode="replay", fullgraph=True)
    for i in range(6):
        x = fl.full((2, 3), float(i))
        a, b, c = compiled(x)
        assert fl.equal(a, x[0]) and fl.equal(b, x * 2) and c.data_ptr() == x.data_ptr()


def test_what_nobody_reads_is_checked_at_each_replay():
    table = fl.randn(3, 2)

    def f(x, i):
        nn.functional.embedding(i, table)
        return x + 1

    compiled = fl.compile(f, mode="replay", fullgraph=True)
    for i in (0, 1, 2, 1, 0):
        assert fl.equal(compiled(fl.ones(3), fl.tensor([i])), fl.full((3,), 2.0))
    with pytest.raises(IndexError, match="9"):
        compiled(fl.ones(3), fl.tensor([9]))


def test_other_threads_do_not_hide_for_ever_that_an_argument_is_kept(monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    kept = []
    compiled = fl.compile(lambda x: (kept.append(x[1:]), x * 2)[1], mode="replay")
    with pytest.warns(UserWarning, match="a view of it"):
        for i in range(40):
            compiled(fl.full((3,), float(i)))
    assert [k[0].item() for k in kept] == list(range(40))


def test_a_named_tuple_that_looks_at_its_items_is_returned():
    compiled = fl.compile(lambda x: nn.utils.rnn.pack_padded_sequence(x, [4, 3]), mode="replay")
    before = fl.compiler.stats()["replayed"]
    for i in range(6):
        x = fl.full((5, 2, 3), float(i))
        found, expected = compiled(x), nn.utils.rnn.pack_padded_sequence(x, [4, 3])
        assert type(found) is type(expected) and all(fl.equal(a, b) for a, b in zip(found[:2], expected[:2]))
    assert fl.compiler.stats()["replayed"] > before


def test_a_gradient_that_is_returned_is_the_one_of_its_leaf():
    """One object, as in eager mode: who changes the one changes the other."""
    w = fl.randn(3).requires_grad_()

    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad, x * 2

    compiled = fl.compile(f, mode="replay")
    before = fl.compiler.stats()["replayed"]
    for i in range(6):
        x = fl.full((3,), float(i))
        grad, _ = compiled(x)
        assert grad is w.grad
        assert grad.tolist() == [i] * 3
        grad.mul_(2)
        assert w.grad.tolist() == [2 * i] * 3
    assert fl.compiler.stats()["replayed"] > before


def test_bags_are_replayed_and_look_at_their_indices():
    table = fl.randn(10, 4)
    f = fl.compile(lambda at, starts: F.embedding_bag(at, table, starts, mode="sum") * 2, mode="replay")
    for i in range(5):
        at, starts = fl.tensor([1, 2, i]), fl.tensor([0, 2])
        assert fl.equal(f(at, starts), F.embedding_bag(at, table, starts, mode="sum") * 2)
    assert replayed(f)
    with pytest.raises(IndexError):
        f(fl.tensor([1, 2, 10]), fl.tensor([0, 2]))


def test_norms_write_their_statistics_in_training_alone():
    norm = nn.BatchNorm1d(4)

    @fl.compile(mode="replay")
    def f(x):
        return norm(x).detach()

    for _ in range(6):
        f(fl.rand(8, 4))
    norm.eval()
    versions = norm.running_mean._version, norm.running_var._version
    w = fl.ones(4, requires_grad=True)
    y = (w * norm.running_mean).sum()
    for _ in range(9):
        f(fl.rand(8, 4))
    assert (norm.running_mean._version, norm.running_var._version) == versions
    y.backward()
    norm.train()
    for _ in range(4):
        f(fl.rand(8, 4))
    assert norm.running_mean._version == versions[0] + 4
