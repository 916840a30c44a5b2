"""Arguments that mean nothing, drawn from a seed: both libraries refuse a call, or both take it. What differs is listed with its reason."""

from __future__ import annotations

import math
import random

import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402

CALLS = {
    "interpolate": lambda x: ((x(1, 1, 4, 4),), {"size": (3, 3), "mode": "bilinear", "align_corners": False, "antialias": False}),
    "pad": lambda x: ((x(1, 2, 3), (1, 1)), {"mode": "reflect"}),
    "grid_sample": lambda x: ((x(1, 1, 4, 4), x(1, 2, 2, 2)), {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}),
    "dropout2d": lambda x: ((x(2, 3, 2, 2),), {"p": 0.5, "training": True}),
    "alpha_dropout": lambda x: ((x(2, 3),), {"p": 0.5, "training": True}),
    "rrelu": lambda x: ((x(2, 3),), {"lower": 0.1, "upper": 0.3, "training": False}),
    "hardtanh": lambda x: ((x(2, 3),), {"min_val": -1.0, "max_val": 1.0}),
    "smooth_l1_loss": lambda x: ((x(4, 3), x(4, 3)), {"beta": 1.0}),
    "huber_loss": lambda x: ((x(4, 3), x(4, 3)), {"delta": 1.0}),
    "poisson_nll_loss": lambda x: ((x(4, 3), x(4, 3)), {"log_input": True, "full": False}),
    "kl_div": lambda x: ((x(4, 3), x(4, 3)), {"reduction": "sum", "log_target": False}),
    "triplet_margin_loss": lambda x: ((x(4, 3),) * 3, {"margin": 1.0, "swap": False}),
    "cosine_similarity": lambda x: ((x(2, 3), x(2, 3)), {"eps": 1e-8}),
    "pdist": lambda x: ((x(3, 2),), {"p": 2.0}),
    "unfold": lambda x: ((x(1, 1, 4, 4), 2), {"dilation": 1, "padding": 0, "stride": 1}),
    "celu": lambda x: ((x(2, 3),), {"alpha": 1.0}),
}
ABSURD = [math.nan, math.inf, -1, 0, 0.5, "x", None, (), [], {}, object(), int, True, ["a"], [1, 2]]

# Switches that are numbers: for what they are worth here, as everywhere in this library.
NUMBERS = (-1, 0, 0.5, math.nan, math.inf)
SWITCHES = {"align_corners", "antialias", "training", "log_input", "full", "log_target", "swap"}
# What one library takes and the other does not: (function, argument), or with the value's repr.
DIFFERENT = {
    ("interpolate", "antialias"): "PyTorch asks any object for its truth, here it is a switch as the others",
    ("interpolate", "size", "True"): "an int of Python's",
    ("pad", 1, "[]"): "nothing is padded",
    ("pad", 1, "()"): "nothing is padded",
    ("pad", 1, "{}"): "nothing is padded",
}


def outcome(library, name, place, value):
    def x(*shape):
        return library.arange(1.0, 1.0 + math.prod(shape)).reshape(shape) / 7

    args, kwargs = CALLS[name](x)
    args = list(args)
    if isinstance(place, int):
        args[place] = value
    else:
        kwargs[place] = value
    try:
        getattr(library.nn.functional, name)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001
        return f"refused: {type(error).__name__}: {error}"
    return "taken"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_both_refuse_or_both_take(name):
    rng = random.Random(f"7:{name}")
    args, kwargs = CALLS[name](torch.ones)
    wrong = []
    for _ in range(40):
        place, value = rng.choice([*range(len(args)), *kwargs]), rng.choice(ABSURD)
        if (place in SWITCHES and type(value) in (int, float)) or not {(name, place), (name, place, repr(value))}.isdisjoint(DIFFERENT):
            continue
        ours, theirs = outcome(fl, name, place, value), outcome(torch, name, place, value)
        if (ours == "taken") != (theirs == "taken"):
            wrong.append(f"{place} = {value!r}: {ours}; there {theirs}")
    assert not wrong
