"""Installs the project in every way that its README names, each from nothing, as a stranger's machine would.

    wheel    `pip wheel .` with build isolation; what it makes is installed into an environment without compiler and
             without sources in reach, with the extra `demo`, and `flambeau demo` runs there
    sdist    a source distribution, unpacked nowhere near the repository, and `pip install .` there, with build isolation
    install  `pip install .` in the repository; what could go wrong with it, the two above would see
    editable `pip install -e .` with build isolation

Files are what git tracks, in a folder of their own: nothing that an earlier build left can help. Each way ends with a
program that trains a model, and with `flambeau info`.

    python tools/check_install.py [--ways wheel,sdist,install,editable] [--isas native] [--wheel-to dist]

`--isas` shortens the compilations, without a compiler cache, of all ways but `wheel`, whose result is the one that would be published.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = """
import flambeau as fl
from flambeau import nn
from flambeau.datasets import Digits

train = Digits(train=True)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
optimizer = fl.optim.Adam(model.parameters(), lr=1e-2)
x, y = train.data[:256].reshape(-1, 1, 8, 8) / 16.0, train.targets[:256]
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses
print(f"trained: {losses[0]:.2f} to {losses[-1]:.2f}, {fl.__file__}")
"""


class Machine:
    """A folder with a copy of the tracked files and fresh environments; nothing of the caller's Python leaks in."""

    def __init__(self, folder: pathlib.Path, isas: str) -> None:
        self.folder, self.isas = folder, isas
        self.source = folder / "source"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, names.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.source / name)

    def run(self, *command: object, cwd: pathlib.Path | None = None, path: str | None = None) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "CMAKE"))}
        env["PATH"] = path if path is not None else os.pathsep.join(
            p for p in os.environ["PATH"].split(os.pathsep) if not p.startswith(str(ROOT))
        )  # fmt: skip
        # A compiler cache, where there is one, may know the files from another of these folders.
        env |= {"CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1", "TMPDIR": str(self.temporary)}
        words = [str(c) for c in command]
        done = subprocess.run(words, cwd=cwd or self.folder, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}\n{done.stdout[-6000:]}\nexit status {done.returncode}")
        return done.stdout

    def environment(self, name: str) -> pathlib.Path:
        """The Python of a fresh virtual environment."""
        self.run(sys.executable, "-m", "venv", self.folder / name)
        return self.folder / name / "bin" / "python"

    def pip(self, python: pathlib.Path, *words: object, cwd: pathlib.Path | None = None, path: str | None = None) -> None:
        self.run(python, "-m", "pip", "--disable-pip-version-check", "-q", *words, cwd=cwd, path=path)

    def settings(self, short: bool = True) -> list[str]:
        """The build in a folder that lies as the editable one does, so that a compiler cache finds what that made; without a cache `short`
        builds are for fewer instruction sets."""
        out = ["--config-settings=build-dir=build/install"]
        if short and not shutil.which("ccache"):
            out.append(f"--config-settings=cmake.define.FLAMBEAU_ISAS={self.isas}")
        return out

    def use(self, python: pathlib.Path, path: str | None = None) -> None:
        """What a user does first, away from the sources."""
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        print("   ", self.run(python, "-c", PROGRAM, cwd=elsewhere, path=path).strip().splitlines()[-1])
        self.run(python.parent / "flambeau", "info", cwd=elsewhere, path=path)


def way_wheel(machine: Machine, keep: pathlib.Path | None) -> None:
    build, wheels = machine.environment("wheel-build"), machine.folder / "wheels"
    machine.pip(build, "wheel", "--no-deps", "-w", wheels, ".", *machine.settings(short=False), cwd=machine.source)
    (wheel,) = wheels.glob("flambeau-*.whl")
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        for old in keep.glob("flambeau-*.whl"):
            old.unlink()
        shutil.copy2(wheel, keep)
    hidden = machine.source.rename(machine.folder / "hidden")
    try:
        python = machine.environment("wheel-use")
        bare = str(python.parent)  # no compiler, no make, no other Python
        machine.pip(python, "install", f"{wheel}[demo]", path=bare)
        machine.use(python, path=bare)
        machine.run(python.parent / "flambeau", "demo", "--out", machine.folder / "demo", path=bare)
    finally:
        hidden.rename(machine.source)


def way_install(machine: Machine, keep: pathlib.Path | None) -> None:
    python = machine.environment("install")
    machine.pip(python, "install", ".", *machine.settings(), cwd=machine.source)
    machine.use(python)


def way_sdist(machine: Machine, keep: pathlib.Path | None) -> None:
    python = machine.environment("sdist")
    machine.pip(python, "install", "build")
    machine.run(python, "-m", "build", "--sdist", "--outdir", machine.folder / "sdist", machine.source)
    (archive,) = (machine.folder / "sdist").glob("flambeau-*.tar.gz")
    shutil.unpack_archive(archive, machine.folder / "unpacked")
    (source,) = (machine.folder / "unpacked").iterdir()
    machine.pip(python, "install", ".", *machine.settings(), cwd=source)
    machine.use(python)


def way_editable(machine: Machine, keep: pathlib.Path | None) -> None:
    python = machine.environment("editable")
    machine.pip(python, "install", "-e", ".", *machine.settings(), cwd=machine.source)
    machine.use(python)


WAYS = {"wheel": way_wheel, "sdist": way_sdist, "install": way_install, "editable": way_editable}


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs the project in every way that its README names.")
    parser.add_argument("--ways", default=",".join(WAYS), help="which, by commas")
    parser.add_argument("--isas", default="native", help="FLAMBEAU_ISAS of all builds but the wheel's")
    parser.add_argument("--wheel-to", type=pathlib.Path, help="where to leave the wheel")
    args = parser.parse_args()
    unknown = set(args.ways.split(",")) - WAYS.keys()
    if unknown:
        parser.error(f"--ways = {sorted(unknown)}; expected some of {', '.join(WAYS)}")
    with tempfile.TemporaryDirectory(prefix="flambeau-install-") as folder:
        machine = Machine(pathlib.Path(folder), args.isas)
        for name in args.ways.split(","):
            start = time.monotonic()
            print(f"{name}: ...", flush=True)
            WAYS[name](machine, args.wheel_to and args.wheel_to.resolve())
            print(f"{name}: fine ({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
