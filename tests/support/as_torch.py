"""Programs that have `torch` for flambeau, each in a process of its own."""

from __future__ import annotations

import textwrap

from support.forks import Forks

FORKS = Forks("import flambeau.compat.torch")


def python(code, status=0):
    """What such a program prints, or its errors where it shall fail."""
    done = FORKS.run(textwrap.dedent(code))
    assert done.returncode == status, done.stderr[-3000:]
    return done.stdout if status == 0 else done.stderr


def says(code):
    """Lines of what it prints."""
    return python(code).strip().splitlines()
