"""Prints the folder of oneDNN's wheels (include/ and lib/ below it), or nothing where there are none."""

from __future__ import annotations

import importlib.metadata
import pathlib


def wheel_root() -> pathlib.Path | None:
    """The record says where the files went: pip's overlay, a virtual environment or sys.prefix."""
    try:
        files = importlib.metadata.files("onednn-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for entry in files:
        if entry.name.startswith("libdnnl.so"):
            return pathlib.Path(str(entry.locate())).resolve().parent.parent
    return None


if __name__ == "__main__":
    root = wheel_root()
    if root:
        print(root)
