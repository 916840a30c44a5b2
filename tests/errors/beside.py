"""Whether an error says no less than PyTorch's for the same mistake: each number, shape, element type and quoted name of PyTorch's
text stands in ours, or here with a reason."""

from __future__ import annotations

import pathlib
import re

from errors.running import run

# Programs that mean nothing to PyTorch, or whose text there can not be compared.
NOT_THERE: dict[str, str] = {}

# PyTorch goes on where this library refuses or tells.
GOES_ON: dict[str, str] = {}

# What PyTorch's text says and ours does not: program -> {what: why}.
LEFT_OUT: dict[str, dict[str, str]] = {}

_TYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32", "short": "int16",
    "byte": "uint8", "char": "int8", "bool": "bool",
}  # fmt: skip
_TYPE = re.compile(r"(?:\btorch\.(?:cuda\.)?|\bc10::|\bdtype |\btype |\b)(Float|Double|Half|BFloat16|Long|Int|Short|Byte|Char|Bool)(?:Tensor)?\b|(?<=: )(float|double)(?= !=)|(?<=!= )(float|double)\b|\((float|double)\)")
_SHAPE = re.compile(r"[\[(](\d+(?:, ?\d+)*),?[\])]")
_NUMBER = re.compile(r"(?<![\w.%-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w%]|\.\d)")
_NAME = re.compile(r"""(?<!\w)(['"`])([\w.]+)\1""")


def torch_text(program: pathlib.Path) -> tuple[str, bool]:
    import torch

    torch.manual_seed(0)
    return run(program, "torch")


def _message(text: str, file: str) -> str:
    """Without the program's own lines, which both say."""
    return "\n".join(line for line in text.split("\n") if not re.match(rf"\s*(File \"|){re.escape(file)}\b", line))


def facts(text: str, file: str) -> set[str]:
    """The numbers, shapes, element types and quoted names in a text."""
    text = re.sub(r"https?://\S+", "", _message(text, file))
    text = re.sub(r"PyTorch \d[\d.]*\d|\b\w+\.(?:cpp|py)(?::\d+)?", "", text)
    found = {_TYPES[next(g for g in m.groups() if g).lower()] for m in _TYPE.finditer(text)}
    found |= {name for _, name in _NAME.findall(text)}
    for shape in _SHAPE.findall(text):
        found.add(f"[{', '.join(re.split(', ?', shape))}]")
    return found | {_number(n) for n in _NUMBER.findall(_SHAPE.sub("", text))}


def _number(text: str) -> str:
    value = float(text)
    return str(int(value)) if value == int(value) else f"{value:.4g}"


def said(fact: str, ours: str) -> bool:
    if re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?", fact):
        return fact in {_number(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", ours)}
    return fact in ours or fact.replace("[", "(").replace("]", ")") in ours


def left_out(program: pathlib.Path, ours: str, theirs: str) -> set[str]:
    """What theirs says and ours does not."""
    ours = _message(ours, program.name)
    return {fact for fact in facts(theirs, program.name) if not said(fact, ours)}
