"""Whether an error says no less than PyTorch's for the same mistake: each number, shape, element type and quoted name of PyTorch's
text stands in ours, or here with a reason."""

from __future__ import annotations

import pathlib
import re

from errors.running import run

# Programs that mean nothing to PyTorch, or whose text there can not be compared.
_COMPILER = "PyTorch's compiler takes seconds, changes settings of the process and speaks of its own graph"
NOT_THERE: dict[str, str] = {
    "compile_fullgraph": _COMPILER,
    "compile_shapes_inside": _COMPILER,
    "compile_unknown_mode": _COMPILER,
    "compile_lazy_index": "PyTorch does not record",
    "compile_lazy_shapes": "PyTorch does not record",
    "pipeline_balance": "PyTorch has no such pipeline",
    "pipeline_not_sequential": "PyTorch has no such pipeline",
    "pipeline_stage_fails": "PyTorch has no such pipeline",
    "memory_losses_listed": "PyTorch has nothing that says who holds a graph",
    "memory_losses_summed": "PyTorch has nothing that says who holds a graph",
}

# PyTorch goes on where this library refuses or tells.
GOES_ON: dict[str, str] = {
    "losses_broadcast_l1": "it warns and broadcasts",
    "losses_broadcast_mse": "it warns and broadcasts",
    "losses_softmax_without_dim": "both warn",
    "optim_scheduler_order": "both warn",
}

# What PyTorch's text says and ours does not: program -> {what: why}.
_BY_SHAPES = "which axis follows from the shapes that are named"
_CODE = "a number of the C library for what the text says"
_ADVICE = "advice to switch a check off, which does not exist here"
LEFT_OUT: dict[str, dict[str, str]] = {
    "autograd_in_place_over_weight": {
        "[4, 1]": "PyTorch's linear saves the transposed weight; ours is [1, 4], as the user made it",
        "0": "the number of an output: the op and both lines are named",
    },
    "distributions_support": {"0.3": "the parameter is not at fault; the value outside is named with its place"},
    "dtypes_embedding_of_floats": {"1": "the argument is named"},
    "dtypes_wrong_argument": {"1": "the argument is named", "input": "the argument is called x"},
    "files_truncated": {"22": _CODE},
    "files_whole_model": dict.fromkeys(("1", "2", "False", "True", "load", "weights_only"), _ADVICE),
    "func_grad_not_scalar": {"1": "the number of axes of the shape that is named"},
    "memory_out_of_memory": {"12": _CODE},
    "memory_too_large": {"12": _CODE},
    "optim_clip_not_finite": {"parameters": "the function's own argument"},
    "shapes_assign": {"0": _BY_SHAPES},
    "shapes_image_not_flattened": {"416": "the product of the first three sizes, 2 * 8 * 26: the whole shape is named"},
    "shapes_loss_mse": {"1": _BY_SHAPES},
    "shapes_matmul": {"[8, 64]": "PyTorch's wish for the second shape; both shapes and what has to be equal are named"},
}

_TYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32", "short": "int16",
    "byte": "uint8", "char": "int8", "bool": "bool",
}  # fmt: skip
_TYPE = re.compile(r"(?:\btorch\.(?:cuda\.)?|\bc10::|\bdtype |\btype |\b)(Float|Double|Half|BFloat16|Long|Int|Short|Byte|Char|Bool)(?:Tensor)?\b|(?<=: )(float|double)(?= !=)|(?<=!= )(float|double)\b|\((float|double)\)")
_SUBSCRIPT = re.compile(r"(?<=\w)\[-?\d\]|(?<=size)\(-?\d\)")  # of a name, such as x.shape[0]
_SHAPE = re.compile(r"\[(\d+(?:, ?\d+)*),?\]|\((\d+(?:, ?\d+)+),?\)")
_NUMBER = re.compile(r"(?<![\w.%-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w%]|\.\d)")
_NAME = re.compile(r"""(?<!\w)(['"`]|<class ')([\w.]+)['"`]""")


def torch_text(program: pathlib.Path) -> tuple[str, bool]:
    import torch

    torch.manual_seed(0)
    return run(program, "torch")


def _message(text: str, file: str) -> str:
    """Without the program's own lines, which both say."""
    lines = text.split("\n")
    quoted = {i + 1 for i, line in enumerate(lines) if re.match(r'\s*File "', line)}
    return "\n".join(line for i, line in enumerate(lines) if i not in quoted and not re.match(rf"\s*(File \"|){re.escape(file)}\b", line))


def facts(text: str, file: str) -> set[str]:
    """The numbers, shapes, element types and quoted names in a text."""
    text = re.sub(r"https?://\S+", "", _message(text, file))
    text = re.sub(r"PyTorch \d[\d.]*\d|\b\w+\.(?:cpp|py)(?::\d+)?", "", text)
    found = {_TYPES[next(g for g in m.groups() if g).lower()] for m in _TYPE.finditer(text)}
    text = _SUBSCRIPT.sub("", text)
    text = re.sub(r"(?<=\d) ?x ?(?=\d)", " ", text)  # 4x5
    found |= {name.rpartition(".")[2] for _, name in _NAME.findall(text) if name.strip(".") and not _TYPE.search(name)}
    for shape in _SHAPE.finditer(text):
        found.add(f"[{', '.join(re.split(', ?', shape[1] or shape[2]))}]")
    return found | {_number(n) for n in _NUMBER.findall(_SHAPE.sub("", text))}


def _number(text: str) -> str:
    value = float(text)
    return str(int(value)) if value == int(value) else f"{value:.4g}"


def said(fact: str, ours: str) -> bool:
    if re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?", fact):
        return fact in {_number(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", ours)}
    if fact.startswith("["):
        return re.search(rf"(?<![\d.]){re.escape(fact[1:-1])}(?![\d.])", ours) is not None
    return fact in ours


def left_out(program: pathlib.Path, ours: str, theirs: str) -> set[str]:
    """What theirs says and ours does not."""
    ours = _message(ours, program.name)
    return {fact for fact in facts(theirs, program.name) if not said(fact, ours)}
