"""Skip connections: layers that stash and pop, alone, with a store, and as a plan of a model."""

import copy
import pickle
import threading

import pytest
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import nn
from flambeau.pipeline.skip import (
    Namespace,
    Skippable,
    _Table,
    layout,
    pop,
    skippable,
    stash,
    use_store,
    verify_skippables,
)


@skippable(stash=["x"])
class Keep(nn.Module):
    """Keeps its input."""

    def __init__(self, bias=True):
        super().__init__()
        self.fc = nn.Linear(2, 2, bias=bias)

    def forward(self, input):
        yield stash("x", input)
        return self.fc(input)


@skippable(pop=["x"])
class Add(nn.Module):
    def forward(self, input):
        kept = yield pop("x")
        return input + kept


def layer(stashes=(), pops=(), forward=None):
    """A layer that declares names; what it does is `forward`."""

    class Layer(nn.Module):
        pass

    Layer.forward = forward or (lambda self, input: input)
    return skippable(stash=stashes, pop=pops)(Layer)()


class Log:
    """A store that writes down what it is asked for."""

    def __init__(self, kept=None):
        self.kept = kept or {}
        self.calls = []

    def stash(self, namespace, name, tensor):
        self.calls.append(("stash", namespace, name))
        self.kept[namespace, name] = tensor

    def pop(self, namespace, name):
        self.calls.append(("pop", namespace, name))
        return self.kept.pop((namespace, name))


@pytest.fixture(autouse=True)
def _own_store():
    """What a failing forward leaves stashed is not seen by other tests."""
    with use_store(_Table()):
        yield


# ---- namespaces


def test_namespaces():
    a, b = Namespace(), Namespace()
    assert a != b and a == a and a is not None and a != "a"
    assert copy.copy(a) == a and copy.deepcopy(a) == a and pickle.loads(pickle.dumps(a)) == a
    assert len({a, copy.deepcopy(a), b, None}) == 3
    assert sorted([b, a]) == [a, b] and a < b and b > a and a <= a and not a < a
    assert sorted([b, None, a]) == [None, a, b]
    with pytest.raises(TypeError):
        a < 1  # noqa: B015


def test_isolate():
    ns = Namespace()
    both = layer(["x", "y"])
    assert both.isolate(ns, only=["y"]) is both
    assert both.stashable() == [(None, "x"), (ns, "y")]
    assert layer(["x"], ["y"]).isolate(ns).poppable() == [(ns, "y")]


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((None,), TypeError, r"namespace = None; expected a Namespace\(\)"),
        ((Namespace(), ["z"]), ValueError, r"only = \['z'\]; this layer declared \['x', 'y'\]"),
        ((Namespace(), "x"), TypeError, r"only = 'x' is a str.*expected \['x'\]"),
    ],
)
def test_isolate_refuses(arguments, error, text):
    both = layer(["x"], ["y"])
    with pytest.raises(error, match=text):
        both.isolate(arguments[0], only=arguments[1] if len(arguments) > 1 else None)
    assert both.namespaces == {}


# ---- the wrapper


def test_wrapper():
    keep = Keep(bias=False)
    assert isinstance(keep, Keep) and isinstance(keep, Skippable)
    assert repr(keep) == "@skippable(" + repr(keep.module) + ")"
    assert list(keep.state_dict()) == ["module.fc.weight"]
    assert Keep.__name__ == "Keep" and Keep.__doc__ == "Keeps its input." and Keep.__module__ == __name__


def test_repr_of_a_layer():
    assert repr(skippable(stash=["x"])(nn.ReLU)()) == "@skippable(ReLU())"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies(copied):
    ns = Namespace()
    model = nn.Sequential(Keep().isolate(ns), Add().isolate(ns)).eval()
    other = copied(model)
    x = fl.rand(3, 2)
    fl.testing.assert_close(other(x), model(x))
    assert other[0].stashable() == [(ns, "x")] and not other[0].module.training
    assert other[0].module.fc.weight is not model[0].module.fc.weight
    assert layout([model]) == layout([other])


@pytest.mark.parametrize("given", [dict(stash="skip"), dict(pop="skip")], ids=str)
def test_a_str_is_no_list_of_names(given):
    """It was taken for the names 's', 'k', 'i' and 'p'."""
    with pytest.raises(TypeError, match=r"= 'skip' is a str, .*expected \['skip'\]"):
        skippable(**given)


def test_declarations_are_checked():
    with pytest.raises(TypeError, match=r"skippable: stash: name = 1 \(int\); expected a str"):
        skippable(stash=["a", 1])
    with pytest.raises(TypeError, match="expected a class of modules"):
        skippable(stash=["a"])(nn.ReLU())


# ---- alone


def test_alone():
    model = nn.Sequential(Keep(), nn.ReLU(), Add())
    x = fl.rand(3, 2, requires_grad=True)
    y = model(x)
    fl.testing.assert_close(y, model[0].module.fc(x).relu() + x)
    y.sum().backward()
    assert x.grad is not None and model[0].module.fc.weight.grad is not None


@pytest.mark.eager("live objects")
def test_nothing_stays():
    model = nn.Sequential(Keep(), nn.ReLU(), Add())
    assert_nothing_stays(lambda: model(fl.rand(3, 2)).sum().backward() or model.zero_grad())


def test_none_is_a_value():
    seen = []

    def popping(self, input):
        seen.append((yield pop("x")))
        return input

    def stashing(self, input):
        yield stash("x", None)
        return input

    nn.Sequential(layer(["x"], (), stashing), layer((), ["x"], popping))(fl.ones(1))
    assert seen == [None]


def test_integers_and_views_pass():
    def stashing(self, input):
        yield stash("x", input[1:])
        return input

    def popping(self, input):
        kept = yield pop("x")
        return kept

    y = nn.Sequential(layer(["x"], (), stashing), layer((), ["x"], popping))(fl.arange(3))
    assert y.tolist() == [1, 2]


def test_a_plain_forward_without_names():
    assert layer(forward=lambda self, input: input * 2)(fl.ones(2)).tolist() == [2, 2]


def test_namespaces_do_not_mix():
    a, b = Namespace(), Namespace()

    def stashing(value):
        def forward(self, input):
            yield stash("x", input * value)
            return input

        return layer(["x"], (), forward)

    def popping(self, input):
        kept = yield pop("x")
        return kept

    inner, outer = layer((), ["x"], popping).isolate(b), layer((), ["x"], popping).isolate(a)
    model = nn.Sequential(stashing(2).isolate(a), stashing(3).isolate(b), outer)
    assert model(fl.ones(1)).tolist() == [2]
    assert inner(fl.ones(1)).tolist() == [3]


def _forward(*commands):
    def forward(self, input):
        for command in commands:  # noqa: UP028 (an iterator takes no answers)
            yield command
        return input

    return forward


@pytest.mark.parametrize(
    "stashes, pops, commands, error, text",
    [
        ([], [], [stash("x", None)], RuntimeError, "'x' has not been declared as stashable"),
        (["y"], [], [stash("x", None)], RuntimeError, "'x' has not been declared as stashable"),
        ([], [], [pop("x")], RuntimeError, "'x' has not been declared as poppable"),
        ([], ["x"], [pop("x")], RuntimeError, "'x' has not been stashed"),
        (["b", "a"], [], [], RuntimeError, "'a', 'b' must be stashed but have not"),
        (["b", "a"], [], [stash("a", None)], RuntimeError, "'b' must be stashed but have not"),
        ([], ["x"], [], RuntimeError, "'x' must be popped but have not"),
        (["x"], [], [stash("x", None)] * 2, RuntimeError, "'x' has been stashed already"),
        ([], [], ["x"], TypeError, "'x' is not a command from @skippable"),
        ([], [], [None], TypeError, "None is not a command from @skippable"),
    ],
)
def test_faults_while_running(stashes, pops, commands, error, text):
    with pytest.raises(error, match=text):
        layer(stashes, pops, _forward(*commands))(fl.ones(1))


def test_popping_twice():
    with use_store(Log({(None, "x"): fl.ones(1)})), pytest.raises(RuntimeError, match="'x' has been popped already"):
        layer((), ["x"], _forward(pop("x"), pop("x")))(fl.ones(1))


def test_a_plain_forward_owes_what_it_declared():
    with pytest.raises(RuntimeError, match="'x' must be stashed but have not"):
        layer(["x"])(fl.ones(1))


def test_commands_check_their_arguments():
    with pytest.raises(TypeError, match=r"stash: name = 1 \(int\); expected a str"):
        stash(1, None)
    with pytest.raises(TypeError, match="stash: tensor = list for 'x'; expected a Tensor or None"):
        stash("x", [fl.ones(1)])
    with pytest.raises(TypeError, match=r"pop: name = None \(NoneType\); expected a str"):
        pop(None)


def test_a_failing_forward_is_closed():
    closed = []

    def forward(self, input):
        try:
            yield "nonsense"
        finally:
            closed.append(True)

    with pytest.raises(TypeError, match="nonsense"):
        layer(forward=forward)(fl.ones(1))
    assert closed == [True]


# ---- stores


def test_store():
    ns, log = Namespace(), Log()
    model = nn.Sequential(Keep().isolate(ns), Add().isolate(ns))
    with use_store(log):
        model(fl.ones(1, 2))
    assert log.calls == [("stash", ns, "x"), ("pop", ns, "x")] and log.kept == {}


def test_stores_nest_and_are_restored():
    inner, outer = Log(), Log()
    with use_store(outer):
        with pytest.raises(ZeroDivisionError), use_store(inner):
            1 / 0  # noqa: B018
        Keep()(fl.ones(1, 2))
    assert len(outer.calls) == 1 and inner.calls == []


def test_an_error_of_the_store_is_its_own():
    """Another partition's KeyError is not taken for a missing tensor."""

    class Failing(Log):
        def pop(self, namespace, name):
            raise KeyError("of a layer elsewhere")

    with use_store(Failing()), pytest.raises(KeyError, match="of a layer elsewhere"):
        Add()(fl.ones(1))


def test_threads_have_tables_of_their_own():
    results, errors = {}, []
    both = threading.Barrier(2)
    model = nn.Sequential(Keep(), Add())

    def work(value):
        try:
            h = model[0](fl.full((1, 2), value))
            both.wait(timeout=60)  # the other has stashed, too
            results[value] = (model[1](h) - h).tolist()
        except Exception as error:
            errors.append(error)
            both.abort()

    threads = [threading.Thread(target=work, args=(float(v),)) for v in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    for value, row in results.items():
        assert row == [[pytest.approx(value, abs=1e-5)] * 2]


# ---- verify_skippables and layout


def test_verify_accepts():
    ns = Namespace()
    verify_skippables(nn.Sequential())
    verify_skippables(nn.Sequential(nn.ReLU(), layer(["x"]), nn.ReLU(), layer((), ["x"])))
    verify_skippables(nn.Sequential(layer(["x"]), layer(["x"]).isolate(ns), layer((), ["x"]).isolate(ns), layer((), ["x"])))
    verify_skippables(nn.Sequential(layer(["a", "b"]), layer(["c"], ["a"]), layer((), ["b", "c"])))


@pytest.mark.parametrize(
    "layers, faults",
    [
        ([layer(["x"])], ["no module declared 'x' as poppable but stashed"]),
        ([layer((), ["x"])], ["'0' declared 'x' as poppable but it was not stashed"]),
        ([layer(["x"], ["x"])], ["'0' declared 'x' both as stashable and as poppable"]),
        (
            [layer(["x"]), layer(["x"]), layer((), ["x"])],
            ["'1' redeclared 'x' as stashable but not isolated by namespace"],
        ),
        (
            [layer(["x"]), layer((), ["x"]), layer((), ["x"])],
            ["'2' redeclared 'x' as poppable but not isolated by namespace"],
        ),
        (
            [layer((), ["x"]), layer(["x"])],
            ["'0' declared 'x' as poppable but it was not stashed", "no module declared 'x' as poppable but stashed"],
        ),
        (
            [layer(["x"]).isolate(Namespace()), layer((), ["x"])],
            ["'1' declared 'x' as poppable but it was not stashed", "no module declared 'x' as poppable but stashed"],
        ),
        (
            [layer(["a", "b"], ["a"]), layer(["c"], ["d"])],
            [
                "'0' declared 'a' both as stashable and as poppable",
                "'1' declared 'd' as poppable but it was not stashed",
                "no module declared 'b' as poppable but stashed",
                "no module declared 'c' as poppable but stashed",
            ],
        ),
        (
            [nn.Sequential(layer(["x"])), nn.Sequential(nn.ReLU(), layer((), ["y"]))],
            ["'1.1' declared 'y' as poppable but it was not stashed", "no module declared 'x' as poppable but stashed"],
        ),
    ],
)
def test_verify_lists_all_faults(layers, faults):
    with pytest.raises(TypeError) as caught:
        verify_skippables(nn.Sequential(*layers))
    assert str(caught.value).split("\n* ") == ["one or more pairs of stash and pop do not match:\n", *faults]


def test_the_same_layer_twice():
    keep = layer(["x"])
    with pytest.raises(TypeError, match="'1' redeclared 'x' as stashable"):
        verify_skippables(nn.Sequential(keep, keep, layer((), ["x"])))


def seq(*layers):
    return nn.Sequential(*layers)


def test_layout():
    ns = Namespace()
    foo, bar = layer(["foo"]), layer(["bar"])
    assert layout([]) == {}
    assert layout([seq(nn.ReLU()), seq(nn.ReLU())]) == {}
    assert layout([seq(foo, layer((), ["foo"]))]) == {(None, "foo"): (0, 0)}
    assert layout([seq(foo), seq(layer((), ["foo"]))]) == {(None, "foo"): (0, 1)}
    assert layout([seq(foo), seq(nn.ReLU()), seq(layer((), ["foo"]))]) == {(None, "foo"): (0, 2)}
    assert layout(seq(seq(foo), seq(bar), seq(layer((), ["foo", "bar"])))) == {(None, "foo"): (0, 2), (None, "bar"): (1, 2)}
    assert layout([seq(layer(["foo"]).isolate(ns)), seq(foo, layer((), ["foo"])), seq(layer((), ["foo"]).isolate(ns))]) == {
        (ns, "foo"): (0, 2),
        (None, "foo"): (1, 1),
    }


def test_layout_looks_into_sequentials():
    """In other modules nobody knows the order; a pair of theirs is their own affair."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.first = layer((), ["own"]), layer(["own"])

        def forward(self, input):
            return self.last(self.first(input))

    assert layout([seq(seq(layer(["x"]))), seq(Block(), seq(layer((), ["x"])))]) == {(None, "x"): (0, 1)}


def test_layout_refuses_what_does_not_match():
    with pytest.raises(TypeError, match="'0' declared 'foo' as poppable but it was not stashed"):
        layout([seq(layer((), ["foo"])), seq(layer(["foo"]))])
