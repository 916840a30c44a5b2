"""What nodes show: names, and under `_saved_...` the axes and sizes by which programs walk a graph (prune it, draw it)."""

import pytest
import torch

import flambeau

# op: (call, what its node keeps)
KEPT = {
    "split": (lambda T, x: T.split(x, [2, 4], 1)[0], ["dim", "split_sizes", "self_sym_sizes"]),
    "cat": (lambda T, x: T.cat([x, x], 1), ["dim"]),
    "view": (lambda T, x: x.view(2, -1), ["self_sym_sizes"]),
    "expand": (lambda T, x: x[:, :1].expand(2, 3, 4, 4), ["self_sym_sizes"]),
    "permute": (lambda T, x: x.permute(0, 2, 3, 1), ["dims"]),
    "sum": (lambda T, x: x.sum((2, 3)), ["dim", "keepdim", "self_sym_sizes"]),
    "mean": (lambda T, x: x.mean(1, keepdim=True), ["dim", "keepdim", "self_sym_sizes"]),
    "softmax": (lambda T, x: x.softmax(1), ["dim"]),
    "unbind": (lambda T, x: x.unbind(1)[0], ["dim"]),
    "repeat": (lambda T, x: x.repeat(1, 2, 1, 1), ["repeats", "self_sym_sizes"]),
    "avg_pool2d": (lambda T, x: T.nn.functional.avg_pool2d(x, 2), ["kernel_size", "ceil_mode", "count_include_pad"]),
    "leaky_relu": (lambda T, x: T.nn.functional.leaky_relu(x, 0.2), ["negative_slope"]),
    "index_select": (lambda T, x: x.index_select(1, T.tensor([0])), ["dim", "self_sym_sizes"]),
}
NAMES = {
    "max_pool2d": lambda T, x: T.nn.functional.max_pool2d(x, 2),
    "avg_pool2d": lambda T, x: T.nn.functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda T, x: T.nn.functional.adaptive_avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda T, x: T.nn.functional.adaptive_max_pool2d(x, 2),
    "pad": lambda T, x: T.nn.functional.pad(x, (1, 1)),
    "cross_entropy": lambda T, x: T.nn.functional.cross_entropy(x[:, :, 0, 0], T.tensor([1, 2])),
    "norm": lambda T, x: x.norm(),
    "index": lambda T, x: x[T.tensor([0])],
    "mask": lambda T, x: x[x > 0],
    "grid_sample": lambda T, x: T.nn.functional.grid_sample(x, T.zeros(2, 2, 2, 2), align_corners=False),
}


def node_of(call, T):
    return call(T, T.arange(192.0).reshape(2, 6, 4, 4).sin().requires_grad_()).grad_fn


def plain(value):
    """Axes of PyTorch's that count from the end are unsigned; tuples of it are of sizes."""
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    return value


@pytest.mark.parametrize("name", KEPT)
def test_what_a_node_keeps(name):
    call, kept = KEPT[name]
    theirs, ours = node_of(call, torch), node_of(call, flambeau)
    for key in kept:
        assert plain(getattr(ours, f"_saved_{key}")) == plain(getattr(theirs, f"_saved_{key}")), key
        assert f"_saved_{key}" in dir(ours)


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert node_of(NAMES[name], flambeau).name() == node_of(NAMES[name], torch).name()
