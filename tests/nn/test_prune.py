"""Pruning. What PyTorch makes of the same weights, tests/parity/test_more_layers.py compares."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import prune


@pytest.fixture
def layer():
    made = nn.Linear(4, 3)
    with fl.no_grad():
        made.weight.copy_(fl.tensor([[1.0, -2.0, 3.0, 0.1], [0.2, 5.0, -0.3, 4.0], [0.4, 0.5, 0.6, -0.7]]))
    return made


def test_the_smallest_elements_go(layer):
    prune.l1_unstructured(layer, "weight", 4)
    assert layer.weight_mask.tolist() == [[1, 1, 1, 0], [0, 1, 0, 1], [0, 1, 1, 1]]
    assert sorted(layer.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    assert prune.is_pruned(layer)
    layer(fl.ones(1, 4)).sum().backward()
    assert layer.weight_orig.grad.tolist() == layer.weight_mask.tolist()


def test_pruning_goes_on_with_what_is_left(layer):
    prune.l1_unstructured(layer, "weight", 4)
    prune.l1_unstructured(layer, "weight", 0.25)
    assert layer.weight_mask.sum() == 6
    prune.ln_structured(layer, "weight", 1, n=2, dim=0)
    assert layer.weight_mask[2].sum() == 0
    prune.custom_from_mask(layer, "weight", fl.tensor([[1, 1, 0, 1]] * 3))
    assert layer.weight_mask[:, 2].sum() == 0
    assert len(layer._forward_pre_hooks) == 1


def test_several_parameters_as_one(layer):
    other = nn.Linear(3, 1)
    with fl.no_grad():
        other.weight.fill_(0.01)
    prune.global_unstructured([(layer, "weight"), (other, "weight")], prune.L1Unstructured, amount=3)
    assert other.weight.tolist() == [[0, 0, 0]]
    assert layer.weight_mask.sum() == 12


def test_removing_leaves_the_product(layer):
    weight = prune.random_unstructured(layer, "weight", 0.5).weight.detach().clone()
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    assert fl.equal(layer.weight, weight)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert not prune.is_pruned(layer)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: prune.l1_unstructured(m, "wieght", 1), "'Linear' object has no attribute 'wieght'; its parameters are weight, bias"),
        (lambda m: prune.l1_unstructured(m, "weight", 13), "amount=13 should be smaller than the number of parameters to prune=12"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.5), r"amount=1\.5 should either be a float in the range \[0"),
        (lambda m: prune.l1_unstructured(m, "weight", -1), r"amount=-1 should either be a float in the range \[0"),
        (lambda m: prune.l1_unstructured(m, "weight", 1, fl.ones(2)), r"importance_scores has shape \[2\]"),
        (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), "whole slices of a tensor of 1 axes"),
        (lambda m: prune.ln_structured(m, "weight", 1, 2, 5), r"dim = 5, but the tensor has shape \[3, 4\]"),
        (lambda m: prune.custom_from_mask(m, "weight", fl.ones(2)), r"mask has shape \[2\]"),
        (lambda m: prune.remove(m, "weight"), "Parameter 'weight' of module Linear has to be pruned before pruning can be removed"),
    ],
)  # fmt: skip
def test_bad_arguments_change_nothing(layer, call, text):
    with pytest.raises((ValueError, IndexError, AttributeError), match=text):
        call(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert not layer._forward_pre_hooks


def test_scores_by_position():
    layer = nn.Linear(4, 1)
    prune.L1Unstructured.apply(layer, "weight", 2, fl.tensor([[4.0, 1.0, 3.0, 2.0]]))
    assert layer.weight_mask.tolist() == [[1.0, 0.0, 1.0, 0.0]]
    layer = nn.Linear(2, 2)
    prune.LnStructured.apply(layer, "weight", 1, 1, 0, fl.tensor([[4.0, 4.0], [1.0, 1.0]]))
    assert layer.weight_mask.tolist() == [[1.0, 1.0], [0.0, 0.0]]
