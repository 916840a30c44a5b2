"""A GraphModule as a package in a folder: its code, its state, and layers that no line of code makes again as files of their own."""

from __future__ import annotations

import keyword
from pathlib import Path
from textwrap import indent
from typing import Any

from flambeau import _C, serialization
from flambeau._warn import warn
from flambeau.fx._imports import import_lines
from flambeau.fx._targets import is_ours, library_name
from flambeau.nn.module import Module
from flambeau.nn.modules import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    Linear,
)
from flambeau.serialization._files import write_text

_BY_REPR = (Linear, Conv1d, Conv2d, Conv3d, BatchNorm1d, BatchNorm2d, BatchNorm3d)


def write_folder(module: Any, folder: Any, name: str) -> None:
    """Writes `module.py` with the class `name`, `__init__.py`, `state_dict.pt` and a file for each layer that has to be one."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"GraphModule.to_folder: module_name = {name!r}; expected a name that a class can have")
    for member in (*module._modules, *module._buffers, *module._parameters):
        if not member.replace("_", "").isalnum():
            raise ValueError(
                f"GraphModule.to_folder: a member is called {member!r}; expected letters, digits and '_', since files are named after it"
            )
    place, lib = Path(folder), library_name()
    written = module.graph.python_code(root_module="self")
    parts, files = _parts(module, lib)
    imports = {line for layer in files.values() if isinstance(layer, Module) for line in _classes(layer)}
    place.mkdir(exist_ok=True)
    serialization.save(module.state_dict(), place / "state_dict.pt", format="pt")
    for file, value in files.items():
        serialization.save(value, place / file, format="pt")
    lines = [
        "from pathlib import Path as _Path", "", f"import {lib}", *sorted(imports), import_lines(written.globals).rstrip("\n"),
        f"from {lib}.nn import *", "", "_here = _Path(__file__).parent", "", "",
        f"class {name}({lib}.nn.Module):", "    def __init__(self):", "        super().__init__()", *(f"        {part}" for part in parts),
        f'        self.load_state_dict({lib}.load(_here / "state_dict.pt"))', "", indent(written.src.strip("\n"), "    "),
    ]  # fmt: skip
    write_text(place / "module.py", "\n".join(lines) + "\n")
    write_text(place / "__init__.py", "from .module import *\n")
    if whole := [file for file, value in files.items() if isinstance(value, Module)]:
        warn(f"GraphModule.to_folder: layers that are not made again by a line of code lie in files of their own: {', '.join(whole)}")


def _parts(module: Module, lib: str) -> tuple[list[str], dict[str, Any]]:
    """Lines that make the members, and what these read from files, by the file's name."""
    lines: list[str] = []
    files: dict[str, Any] = {}
    for name, layer in module.named_children():
        if type(layer) in _BY_REPR and not layer._fl_has_hooks() and all(p.dtype is _C.float32 for p in layer.parameters()):
            lines.append(f"setattr(self, {name!r}, {layer!r})")
        else:
            files[f"{name}.pt"] = layer
            lines.append(f"setattr(self, {name!r}, {lib}.load(_here / {f'{name}.pt'!r}, weights_only=False))")
    for name, x in module._buffers.items():
        if x is None:
            lines.append(f"self.register_buffer({name!r}, None)")
        elif name in module._non_persistent_buffers_set:
            files[f"{name}.pt"] = x.detach()
            lines.append(f"self.register_buffer({name!r}, {lib}.load(_here / {f'{name}.pt'!r}), persistent=False)")
        else:
            lines.append(f"self.register_buffer({name!r}, {lib}.empty({list(x.shape)}, dtype={lib}.{x.dtype.name}))")
    for name, x in module._parameters.items():
        if x is not None:
            made = f"{lib}.empty({list(x.shape)}, dtype={lib}.{x.dtype.name})"
            lines.append(f"setattr(self, {name!r}, {lib}.nn.Parameter({made}, requires_grad={x.requires_grad}))")
    return lines, files


def _classes(layer: Module) -> list[str]:
    """Imports of the classes of a layer and of what is in it: files are read by programs that know their classes."""
    return [f"import {type(m).__module__}" for m in layer.modules() if not is_ours(type(m).__module__)]
