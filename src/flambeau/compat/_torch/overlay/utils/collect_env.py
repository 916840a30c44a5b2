"""`torch.utils.collect_env`: the lines about a machine that packages print into their logs."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

import flambeau as fl
from flambeau.compat._torch.names import FOLLOWS

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info() -> str:
    """Versions, system and processor, a line each."""
    libc = " ".join(platform.libc_ver())
    lines = {
        "PyTorch version": f"{FOLLOWS} ({fl.__version__})",
        "Is debug build": False,
        "CUDA used to build PyTorch": None,
        "OS": platform.platform(),
        "Libc version": libc or "N/A",
        "Python version": " ".join(sys.version.split()),
        "Is CUDA available": fl.cuda.is_available(),
        "CPU": f"{platform.machine()}, {fl.get_num_threads()} threads",
    }
    names = ("flambeau", "numpy", "onnx", "scipy", "torchvision", "transformers", "triton")
    found = []
    for name in names:
        try:
            found.append(f"[pip3] {name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return "\n".join([*(f"{key}: {value}" for key, value in lines.items()), "", "Versions of relevant libraries:", *found])


def main() -> None:
    """Prints them."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
