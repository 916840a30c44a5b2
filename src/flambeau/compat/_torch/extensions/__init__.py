"""Compiled extensions of packages whose operators are ours: `torch.ops.load_library` of such a file registers them, as loading it does in
PyTorch.
"""

from __future__ import annotations

import importlib
import pathlib

# (folder, beginning of the file's name) of an extension -> the module here that registers its operators when it is imported.
PROVIDED = {("torchvision", "_C"): "torchvision", ("lib", "_torchaudio"): "torchaudio", ("lib", "libtorchaudio"): "torchaudio"}


def provide(path: str) -> bool:
    """Registers the operators of the extension that lies at `path`; False where they are not ours."""
    file = pathlib.Path(path)
    module = PROVIDED.get((file.parent.name, file.name.partition(".")[0]))
    if module is None:
        return False
    importlib.import_module(f"{__name__}.{module}")
    return True
