"""What a function with several forms says when none of them takes its arguments."""

from __future__ import annotations

import collections
import re

import pytest
from support.table import OPS

from flambeau import _C

FORMS = collections.defaultdict(list)
for op in OPS:
    FORMS[op.name].append(op)
FORMS = {name: ops for name, ops in FORMS.items() if len(ops) > 1 and hasattr(_C.ops, name)}
TEXTS = {"dim": "int", "dim?": "int?", "dim[]": "int[]", "dim[]?": "int[]?", "Operand": "Tensor|number"}


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_named_with_their_types(name):
    with pytest.raises(TypeError) as raised:
        getattr(_C.ops, name)(*[object()] * 4)
    lines = re.findall(rf"{name}\((.*)\)", str(raised.value))
    for op in FORMS[name]:
        wanted = [f"{TEXTS.get(a.type.spelling, re.sub('[0-9]', '', a.type.spelling))} {a.name}" for a in op.sig.args]
        assert wanted in [[a.removesuffix("=...") for a in line.split(", ") if a != "*"] for line in lines], (wanted, lines)
