"""The documentation site: what `make docs` does. Nothing is fetched, neither here nor by who reads the pages.

    docs/*.md, README.md, ...  the guide, as it lies in the repository
    tools/reference.py         pages of every public name, of docstrings and the op table
    benchmarks/RESULTS*.md     the figures, with plots that are drawn of them

becomes Markdown in build/docs, MkDocs makes build/site of it, and every link between the pages is followed here: a page or
a place on a page that is not there ends the build.

    python tools/make_docs.py [--out build/site]
"""

from __future__ import annotations

import argparse
import html
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

import reference
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
GUIDE = {
    "First hour": "first-hour.md", "Coming from PyTorch": "coming-from-pytorch.md", "PyTorch's programs": "pytorch.md",
    "Gradients": "gradients.md", "Transformations": "func.md", "Performance": "performance.md", "lazy and compile": "lazy.md",
    "Files": "files.md", "Custom ops": "library.md", "An op in five minutes": "five-minutes.md", "Graphs": "graph.md",
    "Pipelines": "pipeline.md", "Engine": "engine.md", "Members of tensors and types": "members.md",
}  # fmt: skip
INSIDE = {
    "The op table": "op-table.md", "Architecture": "architecture.md", "Contributing": "contributing.md", "GPU": "gpu.md",
    "Changes": "changelog.md",
}  # fmt: skip
TOP = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
       "examples/README.md": "examples.md"}  # fmt: skip
STYLE = """
.md-typeset .doc-kind { color: var(--md-default-fg-color--light); font-size: .7rem; font-weight: normal; margin-left: .5rem; }
.md-typeset h3 { overflow-wrap: anywhere; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset .names { columns: 8.5rem; font-size: .7rem; line-height: 1.5; }
.md-typeset .names a { display: block; overflow-wrap: anywhere; }
.md-typeset img { background: white; }
"""

# ------------------------------------------------------------------------------------- docstrings to Markdown

_SECTION = re.compile(r"^(Args|Arguments|Shape|Raises|Returns|Yields|Example|Examples|Source|Note|Gradient):(.*)$")
_FIELD = re.compile(r"^(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)$")


def escaped(text: str) -> str:
    """Text whose `code` stays, and in which nothing else means anything to Markdown."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\\*_<>\[\]#|~])", r"\\\1", p) for p in parts)


def markdown(doc: str) -> str:
    """A docstring as Markdown: sections become bold heads and lists, lines of the prompt become code."""
    out: list[str] = []
    lines, i = doc.splitlines(), 0
    in_list = False
    while i < len(lines):
        line = lines[i]
        text = line.strip()
        if text.startswith(">>>"):
            block = []
            while i < len(lines) and lines[i].strip():
                block.append(lines[i])
                i += 1
            out += ["", "```pycon", *inspect.cleandoc("\n".join(block)).splitlines(), "```", ""]
            continue
        section = _SECTION.match(line)
        if section:
            in_list = section[1] in ("Args", "Arguments", "Raises")
            out += ["", f"**{section[1]}**" + (f": {escaped(section[2].strip())}" if section[2].strip() else ""), ""]
        elif in_list and (field := _FIELD.match(text)):
            out.append(f"- `{field[1]}`: {escaped(field[2])}")
        elif in_list and text:
            out.append(f"  {escaped(text)}")
        elif text.startswith("|") and text.endswith("|"):
            out.append(text)
        else:
            in_list = in_list and bool(text)
            out.append(escaped(text))
        i += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def call_of(value: Any) -> str:
    """The signature of a Python object as it is written, without annotations where it would be long; empty without one."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    text = str(signature)
    if len(text) > 100:
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
        text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"'([\w.\[\], |]+)'(?=[,)=]| =)", r"\1", re.sub(r"-> '(.*)'", r"-> \1", text)).replace("flambeau._C.", "")


def kind_of(value: Any) -> str:
    return "class" if inspect.isclass(value) else "function" if callable(value) else type(value).__name__


def anchor(name: str) -> str:
    """The place of a name; two names may differ by case alone, which anchors of one page may, too."""
    return name.removeprefix("flambeau.").replace("()", "")


def entry(name: str) -> list[str]:
    """One name: its head, its call, what is said of it, and for a class its own methods."""
    value = reference.find(name)
    short = name.removeprefix("flambeau.")
    lines = [f'### {short} <span class="doc-kind">{kind_of(value)}</span> {{#{anchor(name)} data-toc-label="{short}"}}', ""]
    said = reference.said(name)
    if not reference.is_op(name, value) and callable(value) and (call := call_of(value)):
        lines += ["```python", f"{name.removeprefix('flambeau.')}{call}", "```", ""]
    lines += [markdown(said), ""]
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if not method.startswith("_") and inspect.isfunction(function) and (doc := inspect.getdoc(function)):
                call = call_of(function).replace("(self, ", "(").replace("(self)", "()").split(" -> ")[0]
                lines.append(f"- `{method}{call}` {escaped(' '.join(doc.split(chr(10) * 2)[0].split()))}")
    return [*lines, ""]


# ------------------------------------------------------------------------------------------------ pages


def families() -> dict[str, list[str]]:
    """Functions of the package by the file of the table that declares them; the rest under its kind."""
    out: dict[str, list[str]] = {}
    for name in reference.names_of("flambeau"):
        value = reference.find(f"flambeau.{name}")
        if reference.is_op(f"flambeau.{name}", value):
            family = pathlib.Path(reference.table()[name][0].file).stem
        else:
            family = "types and constants" if not callable(value) or inspect.isclass(value) else "functions in Python"
        out.setdefault(family, []).append(name)
    return dict(sorted(out.items()))


def names(links: Iterable[tuple[str, str]]) -> list[str]:
    """A block of links in columns."""
    made = [f'<a href="{html.escape(to)}"><code>{html.escape(text)}</code></a>' for text, to in links]
    return ['<div class="names" markdown="0">', *made, "</div>", ""]


def write(folder: pathlib.Path, name: str, lines: Iterable[str]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines).rstrip() + "\n")


def reference_pages(folder: pathlib.Path) -> list[Any]:
    """Writes them; returns their part of the navigation."""
    pages: list[tuple[str, str, list[str]]] = []  # title, file, names
    for family, members in families().items():
        pages.append((f"flambeau: {family}", f"flambeau-{family.replace(' ', '-')}.md", [f"flambeau.{n}" for n in members]))
    pages.append(("flambeau.Tensor", "tensor.md", [f"flambeau.Tensor.{n}" for n in reference.members_of_tensor()]))
    for module in reference.MODULES[1:]:
        pages.append((module, f"{module.removeprefix('flambeau.')}.md", [f"{module}.{n}" for n in reference.names_of(module)]))
    index = ["# All names", "", "Every public name, by module. The search box finds them as well.", ""]
    for title, file, members in pages:
        head = [f"# {title}", ""]
        if title.startswith("flambeau: ") or title == "flambeau.Tensor":
            head += ["Shapes, types, conditions and gradients are as the [op table](../op-table.md) has them, with its names.", ""]
        if not title.startswith("flambeau: ") and title != "flambeau.Tensor":
            head += [markdown(inspect.getdoc(reference.find(title)) or ""), ""]
        head += names((n.rpartition(".")[2], f"#{anchor(n)}") for n in members)
        write(folder, f"reference/{file}", [*head, *(line for n in members for line in entry(n))])
        page = file.removesuffix(".md")
        index += [f"## {title}", "", *names((n.rpartition(".")[2], f"{page}/#{anchor(n)}") for n in members)]
    write(folder, "reference/index.md", index)
    return [{"All names": "reference/index.md"}, *({title: f"reference/{file}"} for title, file, _ in pages)]


# --------------------------------------------------------------------------------------------- benchmarks


def rows_with_ratios(text: str) -> list[tuple[str, float, bool]]:
    """(what, flambeau over PyTorch, whether that is better here) of the tables of a file of results."""
    rows: list[tuple[str, float, bool]] = []
    columns: list[str] = []
    heading, rate = "", False
    for line in text.splitlines():
        heading = line.lstrip("# ") if line.startswith("#") else heading
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if "ratio" in cells:
            columns = cells
        elif columns and len(cells) == len(columns) and re.fullmatch(r"[\d.]+", cells[columns.index("ratio")]):
            unit = cells[1] if columns[1] == "" else ""
            rate = unit.endswith("/s") if unit or not columns[1] == "" else rate  # of the mean: as the rows above it
            ratio = float(cells[columns.index("ratio")])
            what = ", ".join(filter(None, (cells[0].replace("`", ""), unit)))
            if any(what == other for other, _, _ in rows):  # measured in another way, too
                what = f"{what} ({heading})"
            rows.append((what, ratio, ratio > 1 if rate else ratio < 1))
        elif not line.startswith("|"):
            columns = []
    return rows


def plot(rows: list[tuple[str, float, bool]], path: pathlib.Path) -> None:
    """Bars of ratios on a logarithmic axis around 1; of many rows points in the order of the ratio. What is better here is orange."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    many = len(rows) > 45
    rows = sorted(rows, key=lambda row: row[1]) if many else rows[::-1]
    figure, axes = plt.subplots(figsize=(8, 3.5 if many else 0.7 + 0.24 * len(rows)))
    ratios, colours = [ratio for _, ratio, _ in rows], ["#c2410c" if better else "#475569" for _, _, better in rows]
    plain = matplotlib.ticker.FuncFormatter(lambda x, _: f"{x:g}")
    if many:
        axes.set_yscale("log")
        axes.scatter(range(len(rows)), ratios, s=6, color=colours)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.yaxis.set_major_formatter(plain)
        axes.set(xlabel=f"{len(rows)} measurements, by ratio", ylabel="flambeau over PyTorch")
    else:
        axes.barh(range(len(rows)), [r - 1 for r in ratios], left=1, color=colours)
        axes.set_yticks(range(len(rows)), [what for what, _, _ in rows])
        axes.set_xscale("log")
        axes.set_xlim(min(0.5, *ratios) * 0.9, max(2, *ratios) * 1.1)
        axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator([0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20]))
        axes.xaxis.set_major_formatter(plain)
        axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xlabel("flambeau over PyTorch")
        axes.tick_params(axis="y", labelsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def benchmark_pages(folder: pathlib.Path) -> list[Any]:
    navigation: list[Any] = [{"Overview": "benchmarks.md"}]
    overview = [
        "# Benchmarks", "", "Both libraries run the same code, each in its own processes, in turn. Below 1 a time is shorter here than in",
        "PyTorch; of rates (`image/s`, `token/s`) above 1 is faster. What is better here is orange, what is",
        "worse grey. Each page says what was run, on what, and how to run it again.", "",
    ]  # fmt: skip
    for path in sorted((ROOT / "benchmarks").glob("RESULTS*.md")):
        name = path.stem.removeprefix("RESULTS").strip("-") or "summary"
        text, rows = path.read_text(), rows_with_ratios(path.read_text())
        title = name.replace("-", " ")
        picture = []
        if len(rows) > 1:
            plot(rows, folder / f"plots/{name}.svg")
            picture = [f"![Ratios of {title}](../plots/{name}.svg)", ""]
            overview += [f"## {title}", "", f"![Ratios of {title}](plots/{name}.svg)", "", f"[All figures](benchmarks/{name}.md)", ""]
        head, _, rest = relinked(text, path, folder).partition("\n")
        write(folder, f"benchmarks/{name}.md", [head, "", *picture, rest])
        navigation.append({title: f"benchmarks/{name}.md"})
    write(folder, "benchmarks.md", overview)
    return navigation


# -------------------------------------------------------------------------------------------------- links


def place_of(path: pathlib.Path) -> str | None:
    """Where a file of the repository is among the pages; None where it is none of them."""
    name = path.relative_to(ROOT).as_posix()
    if name in TOP:
        return TOP[name]
    if path.parent == ROOT / "docs" and path.suffix == ".md":
        return path.name
    results = re.fullmatch(r"benchmarks/RESULTS-?(.*)\.md", name)
    return f"benchmarks/{results[1] or 'summary'}.md" if results else None


def relinked(text: str, path: pathlib.Path, folder: pathlib.Path) -> str:
    """The page with links to files of the repository leading to their pages; to what has none (sources), only the text stays.

    Raises:
        SystemExit: the file of a link is not there.
    """
    own = place_of(path)

    def target(match: re.Match[str]) -> str:
        label, link = match[1], match[2]
        if re.match(r"https?:|#|mailto:", link):
            return match[0]
        file, _, place = link.partition("#")
        found = (path.parent / file).resolve()
        if not found.exists():
            raise SystemExit(f"{path.relative_to(ROOT)}: a link to {link}, and there is no such file")
        page = place_of(found) if found.is_relative_to(ROOT) else None
        if page is None:
            return label
        return f"[{label}]({os.path.relpath(page, pathlib.PurePath(str(own)).parent)}{'#' + place if place else ''})"

    # Fenced and indented code is left as it is.
    parts = re.split(r"(^```[\s\S]*?^```|^    [^\n]*$)", text, flags=re.MULTILINE)
    return "".join(p if i % 2 else re.sub(r"\[([^\]\n]+)\]\(([^)\s]+)\)", target, p) for i, p in enumerate(parts))


class Page(HTMLParser):
    """The places and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {v for k, v in attrs if k in ("id", "name") and v}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag in ("script", "img", "source") and given.get("src"):
            self.loads.append(str(given["src"]))
        if tag == "link" and given.get("href") and given.get("rel") != "canonical":
            self.loads.append(str(given["href"]))


def dead_links(site: pathlib.Path) -> list[str]:
    """Links between pages that lead nowhere, and what pages would load from other machines."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    faults = []
    for path, page in pages.items():
        shown = path.relative_to(site)
        faults += [f"{shown}: loads {url}" for url in page.loads if re.match(r"(https?:)?//", url)]
        for link in [*page.links, *page.loads]:
            if re.match(r"\w+:|//", link):
                continue
            file, _, place = urllib.parse.unquote(link).partition("#")
            if path.name == "404.html":
                continue
            found = (path.parent / file.split("?")[0]).resolve() if file else path
            found = found / "index.html" if found.is_dir() else found
            if not found.exists():
                faults.append(f"{shown}: a link to {link}, and there is no such page")
            elif place and found.suffix == ".html" and place not in pages[found].places:
                faults.append(f"{shown}: a link to {link}, and there is no such place")
    return faults


# ---------------------------------------------------------------------------------------------------- all


def configuration(folder: pathlib.Path, out: pathlib.Path, navigation: list[Any]) -> dict[str, Any]:
    return {
        "site_name": "flambeau", "docs_dir": str(folder), "site_dir": str(out), "use_directory_urls": True, "nav": navigation,
        "theme": {
            "name": "material", "font": False, "language": "en",
            "features": ["navigation.tabs", "navigation.top", "search.suggest", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "deep orange", "accent": "deep orange",
                 "toggle": {"icon": "material/weather-night", "name": "Dark"}},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "deep orange", "accent": "deep orange",
                 "toggle": {"icon": "material/weather-sunny", "name": "Light"}},
            ],
        },
        "plugins": ["search"], "extra_css": ["style.css"],
        "markdown_extensions": [
            "tables", "attr_list", "md_in_html", {"toc": {"permalink": True, "toc_depth": 3}},
            {"pymdownx.highlight": {"use_pygments": True}}, "pymdownx.superfences",
        ],
        "validation": {"omitted_files": "warn", "absolute_links": "warn", "unrecognized_links": "warn", "anchors": "warn"},
    }  # fmt: skip


def make(work: pathlib.Path, out: pathlib.Path) -> int:
    """Makes the site in `out`; returns how many pages it has."""
    folder = work / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    for name, page in TOP.items():
        write(folder, page, [relinked((ROOT / name).read_text(), ROOT / name, folder)])
    for path in sorted((ROOT / "docs").glob("*.md")):
        write(folder, path.name, [relinked(path.read_text(), path, folder)])
    write(folder, "style.css", [STYLE])
    navigation: list[Any] = [
        {"Start": [{"flambeau": "index.md"}, {"First hour": "first-hour.md"}, {"Examples": "examples.md"}]},
        {"Guide": [{title: page} for title, page in GUIDE.items() if title != "First hour"]},
        {"Reference": reference_pages(folder)},
        {"Benchmarks": benchmark_pages(folder)},
        {"Inside": [{title: page} for title, page in INSIDE.items()]},
    ]
    fresh = work / "site"
    shutil.rmtree(fresh, ignore_errors=True)
    settings = work / "mkdocs.yml"
    settings.write_text(yaml.safe_dump(configuration(folder, fresh, navigation), sort_keys=False))
    environment = {**os.environ, "DISABLE_MKDOCS_2_WARNING": "true", "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", settings], env=environment)
    if built.returncode:
        raise SystemExit("docs: MkDocs found faults, which are above")
    faults = dead_links(fresh)
    if faults:
        raise SystemExit("\n".join([*faults[:40], f"docs: {len(faults)} dead links"]))
    shutil.rmtree(out, ignore_errors=True)
    fresh.replace(out)
    return len(list(out.rglob("*.html")))


def main() -> int:
    parser = argparse.ArgumentParser(description="The documentation site.")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "site", help="where it is left")
    args = parser.parse_args()
    work = ROOT / "build" / "docs"
    work.mkdir(parents=True, exist_ok=True)
    out = args.out.resolve()
    print(f"{make(work, out)} pages in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
