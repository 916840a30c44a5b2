"""pyproject.toml agrees with itself and with the package."""

import importlib.metadata
import pathlib
import re

import flambeau

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_one_version():
    assert PROJECT["project"]["version"] == flambeau.__version__
    assert importlib.metadata.version("flambeau") == flambeau.__version__
    assert f"## {flambeau.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_numpy_is_the_only_hard_dependency():
    names = [re.split(r"[<>=!~;\[ ]", d)[0] for d in PROJECT["project"]["dependencies"]]
    assert names == ["numpy"]


def test_builds_with_and_without_isolation_want_the_same():
    groups = PROJECT["dependency-groups"]
    group = {d for d in groups["build"] + groups["build-plain"] if isinstance(d, str)}
    # The backend asks for these two by itself where the machine lacks them.
    own = {d for d in group if re.match(r"(cmake|ninja)\b", d)}
    assert set(PROJECT["build-system"]["requires"]) == group - own


def test_pytorch_is_never_asked_for():
    """`make parity` installs it apart, in a folder that nothing else sees."""
    text = (ROOT / "pyproject.toml").read_text().split("[tool.", 1)[0]
    assert not re.search(r'"torch\b', text)
