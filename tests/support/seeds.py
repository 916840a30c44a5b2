"""Numbers of random cases: the first of them quick, the others slow (`make slow`)."""

from __future__ import annotations

import pytest


def seeds(count, quick=8):
    """0 to count - 1 for `parametrize`; one in `quick` of them, the first, is run by `make test`."""
    return [n if n * quick < count else pytest.param(n, marks=pytest.mark.slow) for n in range(count)]
