"""`Variable._execution_engine.queue_callback`: what hooks have called at the end of their backward."""

import threading

import pytest

import flambeau as fl
from flambeau.autograd import Variable
from flambeau.utils.checkpoint import checkpoint


def queue(call):
    Variable._execution_engine.queue_callback(call)


def test_called_once_when_all_gradients_are_there():
    weights = [fl.ones(2, requires_grad=True) for _ in range(3)]
    seen, asked = [], []

    def hook(_):
        if not asked:  # the first of them, as who gathers gradients does
            asked.append(True)
            queue(lambda: seen.append([w.grad.tolist() for w in weights]))

    for w in weights:
        w.register_hook(hook)
    for times in (1, 2):
        asked.clear()
        (weights[0] * weights[1] * weights[2]).sum().backward()
        assert seen == [[[t, t]] * 3 for t in range(1, times + 1)]
    fl.autograd.grad((weights[0] * weights[1]).sum(), weights[0])
    assert len(seen) == 2


def test_calls_queue_others_and_belong_to_the_innermost_backward():
    order = []

    def block(x):
        y = x * 2
        y.register_hook(lambda _: queue(lambda: order.append("inner")))
        return y

    x = fl.ones(2, requires_grad=True)
    first = x * 3
    first.register_hook(lambda _: order.append("first"))
    y = checkpoint(block, first, use_reentrant=True)
    y.register_hook(lambda _: queue(lambda: (order.append("outer"), queue(lambda: order.append("last")))))
    y.sum().backward()
    assert order == ["inner", "first", "outer", "last"]


def test_forgotten_where_the_backward_fails():
    x = fl.ones(2, requires_grad=True)
    seen = []

    def fail(_):
        raise ValueError("no")

    y = x * 2
    x.register_hook(fail)
    y.register_hook(lambda _: queue(lambda: seen.append(1)))
    with pytest.raises(ValueError, match="no"):
        y.sum().backward()
    (fl.ones(2, requires_grad=True) * 2).sum().backward()
    assert seen == []


def test_a_call_that_is_false():
    class Empty(list):
        def __call__(self):
            seen.append(1)

    seen = []
    x = fl.ones(2, requires_grad=True) * 2
    x.register_hook(lambda _: queue(Empty()) or queue(lambda: seen.append(2)))
    x.sum().backward()
    assert seen == [1, 2]


def test_threads_have_queues_of_their_own():
    def run(mine):
        for _ in range(100):
            x = fl.ones(2, requires_grad=True) * 2
            for _ in range(3):
                x.register_hook(lambda _: queue(lambda: mine.append(threading.get_ident())))
            x.sum().backward()

    every = [[] for _ in range(4)]
    threads = [threading.Thread(target=run, args=(mine,)) for mine in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(mine) == 300 and len(set(mine)) == 1 for mine in every)


def test_refused_outside_of_a_backward():
    with pytest.raises(RuntimeError, match="no backward runs in this thread"):
        queue(print)
