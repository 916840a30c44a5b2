"""PyTorch refuses the wrong programs of tests/errors, too, and its texts say nothing that ours do not.

After a wanted change: PYTHONPATH=tests:build/torch python -m errors --update
"""

from __future__ import annotations

import pytest
from errors import beside
from errors.running import PROGRAMS

COMPARED = [p for p in PROGRAMS if p.stem not in beside.NOT_THERE]


@pytest.mark.parametrize("program", COMPARED, ids=[p.stem for p in COMPARED])
def test_ours_says_no_less(program):
    theirs, refused = beside.torch_text(program)
    assert theirs == program.with_suffix(".torch.txt").read_text()
    assert refused == (program.stem not in beside.GOES_ON), "PyTorch goes on" if not refused else "PyTorch refuses"
    listed = beside.LEFT_OUT.get(program.stem, {})
    assert beside.left_out(program, program.with_suffix(".txt").read_text(), theirs) == set(listed)


def test_what_is_listed_is_there():
    names = {p.stem for p in PROGRAMS}
    for table in (beside.NOT_THERE, beside.GOES_ON, beside.LEFT_OUT):
        assert set(table) <= names
    assert not [p.stem for p in PROGRAMS if p.stem in beside.NOT_THERE and p.with_suffix(".torch.txt").exists()]
    assert all(reason for left in beside.LEFT_OUT.values() for reason in left.values())
