"""Losses whose shapes differ: refused by the library, broadcast for programs that were written for PyTorch, whose losses do that."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

import flambeau as fl
from flambeau.nn import functional as F

SHAPES = ((4, 1), (4,))
# Losses of an input and a target: what PyTorch makes of [4, 1] and [4], and whether it warns. None: it refuses, too.
LOSSES = {
    "mse_loss": ([4, 4], True),
    "l1_loss": ([4, 4], True),
    "smooth_l1_loss": ([4, 4], True),
    "huber_loss": ([4, 4], True),
    "kl_div": ([4, 4], False),
    "poisson_nll_loss": ([4, 4], False),
    "hinge_embedding_loss": ([4, 4], False),
    "multilabel_soft_margin_loss": ([4], False),
    "soft_margin_loss": (None, False),
    "binary_cross_entropy": (None, False),
    "binary_cross_entropy_with_logits": (None, False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_library_refuses_shapes_that_differ(name):
    with pytest.raises(fl.ShapeError, match=rf"{name}: Target size \(\[4\]\) must be the same as input size \(\[4, 1\]\)"):
        getattr(F, name)(fl.full(SHAPES[0], 0.5), fl.ones(SHAPES[1]))


@pytest.fixture(scope="module")
def under_pytorchs_name(tmp_path_factory):
    """What a program sees: the shape of a loss (None where it was refused), its sum, and the warnings."""
    program = tmp_path_factory.mktemp("losses") / "program.py"
    program.write_text(textwrap.dedent(f"""\
        import json, sys, warnings, torch
        from torch.nn import functional as F
        found = {{}}
        def ask(name, *tensors, **more):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    loss = getattr(F, name.partition(" ")[0])(*tensors, **{{"reduction": "none", **more}})
                    found[name] = list(loss.shape), loss.double().sum().item(), [(str(w.message), w.lineno) for w in told]
                except ValueError as error:
                    found[name] = None, 0.0, [str(error)]
        x, y = torch.tensor([[0.25], [0.5], [0.75], [0.5]]), torch.tensor([0.5, 0.25, 1.0, 0.0])
        for name in {list(LOSSES)}:
            ask(name, x, y)
        ask("soft_margin_loss of rows", x.expand(4, 2), torch.tensor([1.0, -1.0]))
        ask("kl_div batches", y, x, reduction="batchmean")
        ask("gaussian_nll_loss", y, x, torch.ones(4))
        ask("margin_ranking_loss", x, x.expand(4, 2), x[:1])
        ask("margin_ranking_loss axes", x, x, y)
        ask("triplet_margin_loss", x, x[:1], x[:2].T)
        ask("cosine_embedding_loss", x.expand(4, 2), x[:1].expand(1, 2), torch.ones(4))
        ask("mse_loss not at all", x, torch.ones(3, 3))
        json.dump(found, sys.stdout)
        """))  # fmt: skip
    command = [sys.executable, "-m", "flambeau", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout), next(i for i, line in enumerate(program.read_text().splitlines(), 1) if "loss = getattr" in line)


@pytest.mark.slow
@pytest.mark.eager("a program in a process of its own")
@pytest.mark.parametrize("name", LOSSES)
def test_programs_for_pytorch_broadcast(under_pytorchs_name, name):
    (shape, _, told), line = under_pytorchs_name[0][name], under_pytorchs_name[1]
    expected, warns = LOSSES[name]
    assert shape == expected
    if warns:
        [(text, at)] = told
        assert at == line and text == (
            "Using a target size (torch.Size([4])) that is different to the input size (torch.Size([4, 1])). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )
    elif shape is not None:
        assert told == []


@pytest.mark.eager("a program in a process of its own")
@pytest.mark.parametrize(("name", "shape", "total"), [
    ("mse_loss", [4, 4], 2.75), ("soft_margin_loss of rows", [4, 2], None), ("kl_div batches", [], None), ("gaussian_nll_loss", [4, 4], 1.375),
    ("margin_ranking_loss", [4, 2], 0.0), ("margin_ranking_loss axes", None, None), ("triplet_margin_loss", [4], None),
    ("cosine_embedding_loss", [4], 0.0), ("mse_loss not at all", None, None),
])  # fmt: skip
def test_what_broadcasts_has_the_values_of_the_expanded(under_pytorchs_name, name, shape, total):
    found = under_pytorchs_name[0][name]
    assert found[0] == shape
    if total is not None:
        assert found[1] == pytest.approx(total, abs=1e-6)
