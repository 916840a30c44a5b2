"""Checks what is committed: no build products, no machine's paths, no unfinished notes, no huge files.

Where there is no git, all files that a checkout would have are looked at.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILT = re.compile(
    r"\.(so|so\.\d+|o|a|pyc|whl|egg-info)$|(^|/)(build|dist|__pycache__|\.venv[^/]*|\.\w+_cache)/"
)
NOT_OURS = {".git", "build", "dist", ".hypothesis", ".gl"}
# Spelled so that this file does not accuse itself.
FORBIDDEN = {
    "an unfinished note": re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b"),
    "a path of one machine": re.compile(r"(?<![\w.~-])/(wo" r"rk|ro" r"ot|ho" r"me)/\w"),
}
BINARY = {".bin", ".png", ".npz", ".safetensors"}
MAX_BYTES = 1_000_000


def committed(root: pathlib.Path) -> list[str]:
    """Tracked files and new ones that git does not ignore."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, check=True, text=True,
        )  # fmt: skip
        return sorted(n for n in listed.stdout.split("\0") if n and (root / n).is_file())
    paths = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
    skip = NOT_OURS | {"__pycache__"}
    return sorted(
        str(p)
        for p in paths
        if not skip & set(p.parts)
        and not p.parts[0].startswith(".venv")
        and not BUILT.search(str(p))
    )


def faults_of(name: str, content: bytes) -> list[str]:
    """Complaints about one file."""
    faults = []
    if BUILT.search(name):
        faults.append(f"{name}: a product of the build")
    if len(content) > MAX_BYTES:
        faults.append(f"{name}: {len(content)} bytes; expected at most {MAX_BYTES}")
    if pathlib.PurePath(name).suffix in BINARY:
        return faults
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return [*faults, f"{name}: neither UTF-8 nor a known binary kind"]
    for number, line in enumerate(text.split("\n"), 1):
        for what, pattern in FORBIDDEN.items():
            if found := pattern.search(line):
                faults.append(f"{name}:{number}: {what}: '{found.group()}'")
        if "\t" in line and not re.search(r"Makefile$|\.mk$", name):
            faults.append(f"{name}:{number}: a tab")
        if line != line.rstrip():
            faults.append(f"{name}:{number}: white space at the end of the line")
    if text and not text.endswith("\n"):
        faults.append(f"{name}: no newline at the end")
    return faults


def main(root: pathlib.Path = ROOT) -> int:
    names = committed(root)
    faults = [fault for name in names for fault in faults_of(name, (root / name).read_bytes())]
    print(
        "\n".join(faults) if faults else f"{len(names)} files: nothing that should not be committed"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
