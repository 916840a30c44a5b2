"""What the library says to wrong programs is what stands beside them.

After a wanted change: PYTHONPATH=tests python -m errors --update
"""

from __future__ import annotations

import re
import sys

import pytest

import flambeau as fl
from errors.page import KINDS, PAGE, page
from errors.running import PROGRAMS, mistake, run

WRITTEN_WITH = (3, 11)
# Warned of, or found in what a tool prints.
NOT_REFUSED = {"losses_softmax_without_dim", "memory_losses_listed", "memory_losses_summed", "optim_scheduler_order"}


@pytest.mark.eager("errors come when a recording runs, and name other lines")
@pytest.mark.parametrize("program", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_what_is_said(program):
    expected = program.with_suffix(".txt").read_text()
    said, refused = run(program)
    if sys.version_info[:2] == WRITTEN_WITH:
        assert said == expected
    else:  # Python's own words, and where notes stand, are those of its version
        assert [line for line in expected.splitlines() if line.startswith("flambeau.") and line not in said] == []
    assert refused == (program.stem not in NOT_REFUSED)
    assert f"{program.name}:" in said, "no line of the program is named"
    assert not re.search(r"\bflambeau/\S+\.py|/\w+/\w+/|0x[0-9a-f]", said), "a line of the library, a path or an address"


def test_programs_are_of_a_kind_and_say_what_is_wrong():
    assert len(PROGRAMS) >= 80
    assert {p.stem.split("_")[0] for p in PROGRAMS} == set(KINDS)
    mistakes = [mistake(p) for p in PROGRAMS]
    assert all(re.fullmatch(r"[A-Z].*\.|\w.*\.", text) for text in mistakes)
    assert len(set(mistakes)) == len(mistakes)
    texts = {p.stem for p in PROGRAMS} | {f"{p.stem}.torch" for p in PROGRAMS}
    assert {f.stem for f in PROGRAMS[0].parent.glob("*.txt")} <= texts


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "run `PYTHONPATH=tests python -m errors --update`"


def test_a_program_leaves_nothing_behind():
    before = fl.is_grad_enabled(), fl.is_anomaly_enabled(), fl.get_default_dtype()
    for program in PROGRAMS:
        if program.stem.startswith(("autograd_anomaly", "autograd_inference", "compile_lazy")):
            run(program)
    assert (fl.is_grad_enabled(), fl.is_anomaly_enabled(), fl.get_default_dtype()) == before
