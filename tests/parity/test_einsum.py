"""How the results of `einsum` lie in memory: programs view them, which works in PyTorch where the axes of the output are in order."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from beside import torch, values

import flambeau as fl

EQUATIONS = (
    "ij,jk->ki", "bij,bjk->bki", "i,j->ji", "bi,bj->bji", "ij,i->ij", "ij,j->ij", "abcd,c->abcd", "ab,cad->da", "bac,a->ca", "adb,d->ba", "abc,bca->ca",
    "cdab,d->ac", "abc,cd->bad", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "nchw,dc->ndhw", "bcf,fd->bdc", "ab,bcd,de->ace", "bcd,ab->acd", "dcb,ab->acd", "c,bac,a->cb",
)  # fmt: skip


def operands(lib, equation):
    sizes = {c: k + 2 for k, c in enumerate(sorted({c for c in equation if c.isalpha()}))}
    for k, term in enumerate(equation.partition("->")[0].split(",")):
        shape = [sizes[c] for c in term]
        yield (lib.arange(math.prod(shape)).double() * (k + 1) - 3).reshape(shape).requires_grad_()


@pytest.mark.parametrize("equation", EQUATIONS)
def test_strides_values_and_gradients(equation):
    found = []
    for lib in (fl, torch):
        xs = list(operands(lib, equation))
        y = lib.einsum(equation, *xs)
        (y * lib.arange(y.numel()).reshape(y.shape)).sum().backward()
        found.append((y, xs))
    (ours, mine), (theirs, others) = found
    assert tuple(ours.stride()) == tuple(theirs.stride())
    np.testing.assert_allclose(values(ours.detach()), values(theirs.detach()), rtol=1e-12)
    for a, b in zip(mine, others):
        np.testing.assert_allclose(values(a.grad), values(b.grad), rtol=1e-12)


def test_values_of_any_equation():
    draw = random.Random(0)
    for _ in range(300):
        labels = "abcde"[: draw.randint(2, 5)]
        terms = ["".join(draw.sample(labels, draw.randint(1, min(len(labels), 4)))) for _ in range(draw.choice((2, 2, 3)))]
        used = sorted(set("".join(terms)))
        equation = f"{','.join(terms)}->{''.join(draw.sample(used, draw.randint(0, len(used))))}"
        ours, theirs = (lib.einsum(equation, *operands(lib, equation)).detach() for lib in (fl, torch))
        np.testing.assert_allclose(values(ours), values(theirs), rtol=1e-9, err_msg=equation)
