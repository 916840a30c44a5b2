"""Edges of the graph in place of tensors. What PyTorch does with them is compared in `tests/parity/test_habits.py`."""

import gc
import weakref

import pytest

import flambeau as fl
from flambeau.autograd.graph import GradientEdge, allow_mutation_on_saved_tensors, get_gradient_edge


def test_an_edge_of_a_tensor_that_was_written_since_is_refused():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    edge, z = get_gradient_edge(y), (y + 1).sum()
    y.mul_(3)
    with pytest.raises(RuntimeError, match=r"grad: the tensor \(shape \[3\]\) of the edge to <MulBackward0 .*> was written in place since"):
        fl.autograd.grad(z, edge)


def test_an_edge_that_a_program_makes_leads_to_a_leaf():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    (found,) = fl.autograd.grad(y.sum(), GradientEdge(*y.grad_fn.next_functions[0]), retain_graph=True)
    assert found.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="backward: the edge to <MulBackward0 .*> was not made by get_gradient_edge"):
        fl.autograd.backward(GradientEdge(y.grad_fn, 0), fl.ones(3))


def test_an_edge_keeps_the_graph_and_goes_with_it():
    x = fl.ones(3, requires_grad=True)
    edge = get_gradient_edge(x * 2)
    gc.collect()
    fl.autograd.backward(edge, fl.ones(3))
    assert x.grad.tolist() == [2, 2, 2]
    gone = weakref.ref(edge.ownership_token.tensor)
    del edge
    assert gone() is None


def test_copies_go_at_the_end_of_the_region():
    x = fl.ones(3, requires_grad=True)
    with allow_mutation_on_saved_tensors() as region:
        y = x * 2
        z = (y * y).sum()
        y.zero_()
        region.clear()
        with pytest.raises(fl.AutogradError, match="backward: outside of the allow_mutation_on_saved_tensors in which the graph was made"):
            z.backward()
    with allow_mutation_on_saved_tensors():
        pass


def test_edges_of_a_walk_are_those_of_tensors():
    """What torchjd's engine does: edges are kept in a set, and found again along `next_functions`."""
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    edge, end = get_gradient_edge(y), (y * 3).exp()
    again = GradientEdge(*end.grad_fn.next_functions[0][0].next_functions[0])
    assert again == edge == get_gradient_edge(y) and not again != edge and again in {edge} and hash(again) == hash(edge)
    assert edge != get_gradient_edge(x) and edge != GradientEdge(edge.node, 1) and edge != 3
    (found,) = fl.autograd.grad(end, again, fl.ones(3), retain_graph=True)
    assert fl.allclose(found, 3 * end) and x.grad is None
    del edge
    with pytest.raises(RuntimeError, match="was not made by get_gradient_edge"):
        fl.autograd.grad(end, again, fl.ones(3))


def test_no_inputs_are_not_all_leaves():
    x = fl.ones(3, requires_grad=True)
    for none in ([], ()):
        with pytest.raises(RuntimeError, match="grad requires non-empty inputs"):
            fl.autograd.grad((x * 2).sum(), none)
    assert x.grad is None
