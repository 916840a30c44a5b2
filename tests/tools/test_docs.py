"""The documentation's generator: docstrings to Markdown, figures to plots, and links that are followed."""

import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tool(name):
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        specification = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return module


docs = tool("make_docs")
reference = docs.reference
wheels = tool("build_wheels")


def test_sections_and_examples_become_markdown():
    doc = "One *sentence*.\n\nArgs:\n    x: a [N, C] tensor\n        of floats.\n\nExample:\n    >>> 1 + 1\n    2\n"
    assert docs.markdown(doc) == (
        "One \\*sentence\\*.\n\n**Args**\n\n- `x`: a \\[N, C\\] tensor\n  of floats.\n\n**Example**\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def test_code_in_docstrings_is_left_alone():
    assert docs.escaped("`a * b` and <c>") == "`a * b` and \\<c\\>"


SITE = {
    "index.html": '<a href="b/#here">b</a><a href="https://example.org/x">x</a><p id="top"></p>',
    "b/index.html": '<a href="../#top">up</a><p id="here"></p><img src="../p.svg">',
    "p.svg": "",
}


@pytest.fixture
def site(tmp_path):
    for name, text in SITE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_live_links(site):
    assert docs.dead_links(site) == []


@pytest.mark.parametrize(
    "text, fault",
    [
        ('<a href="c/">c</a>', "b/index.html: a link to c/, and there is no such page"),
        ('<a href="../#gone">x</a>', "b/index.html: a link to ../#gone, and there is no such place"),
        ('<script src="https://example.org/a.js"></script>', "b/index.html: loads https://example.org/a.js"),
        ('<img src="q.svg">', "b/index.html: a link to q.svg, and there is no such page"),
    ],
)
def test_dead_links(site, text, fault):
    (site / "b/index.html").write_text(SITE["b/index.html"] + text)
    assert docs.dead_links(site) == [fault]


def test_links_between_files_of_the_repository_become_links_between_pages(tmp_path):
    text = "[a](../ARCHITECTURE.md#layers) [b](../csrc/base/dtype.h) [c](lazy.md) [d](https://example.org)\n\n    [e](nowhere.md)\n"
    path = ROOT / "docs" / "graph.md"
    assert docs.relinked(text, path, tmp_path) == (
        "[a](architecture.md#layers) b [c](lazy.md) [d](https://example.org)\n\n    [e](nowhere.md)\n"
    )
    with pytest.raises(SystemExit, match=r"docs/graph.md: a link to gone.md, and there is no such file"):
        docs.relinked("[x](gone.md)", path, tmp_path)


def test_figures_of_results():
    text = "## a\n\n| | | flambeau | PyTorch | ratio |\n| --- | --- | --- | --- | --- |\n| net | image/s | 3 | 2 | 1.50 |\n| `f` | ms | 3 | 2 | 1.50 |\n\n| x |\n| --- |\n| 2.0 |\n"
    assert docs.rows_with_ratios(text) == [("net, image/s", 1.5, True), ("f, ms", 1.5, False)]


@pytest.mark.slow
def test_every_page_of_the_reference_says_something():
    names = [f"{m}.{n}" for m in ("flambeau", "flambeau.nn", "flambeau.optim", "flambeau.linalg") for n in reference.names_of(m)]
    assert [name for name in names if not reference.said(name)] == []


@pytest.mark.parametrize("wanted, text", [("2.7", r"PYTHONS has 2.7; expected some of 3.10, 3.11"), ("3.10 x", "PYTHONS has x;")])
def test_pythons_of_wheels(wanted, text):
    with pytest.raises(SystemExit, match=text):
        wheels.chosen(wanted)


@pytest.mark.slow
def test_this_python_is_found(tmp_path, monkeypatch):
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert wheels.chosen(version) == {version: tmp_path / f"python{version}"}


def test_platforms_of_a_wheel():
    name = pathlib.Path("flambeau-0.1.0-cp310-cp310-manylinux_2_34_x86_64.manylinux_2_35_x86_64.whl")
    assert wheels.platforms_in(name) == {"manylinux_2_34_x86_64", "manylinux_2_35_x86_64"}
