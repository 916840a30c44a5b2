"""Pictures of a graph: SVG that any browser shows, and DOT text for Graphviz.

A box is a node, a rounded one an argument or an output. A box has the colour of the memory that it writes: where the plan
puts two buffers at one place they share a colour. A line has the colour of the buffer that it stands for. Parameters and
constants are named in the boxes that read them.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from flambeau.graph._layout import lay_out
from flambeau.graph._memory import size_text
from flambeau.graph._plan import Plan
from flambeau.graph._structure import Arg, Draw, DType, Ref, Structure, refs_of
from flambeau.graph._text import type_of

_FONT = 12.0
_WIDE = 0.61 * _FONT  # of a letter
_LINE = 16.0
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")  # neither XML nor Graphviz takes these


@dataclass(slots=True)
class Box:
    """What is drawn as one: lines of text, the buffers that it writes, and what the mouse shows."""

    lines: list[str]
    buffers: list[int]
    hint: str = ""
    kind: str = "node"  # node, argument, output


@dataclass(slots=True)
class Picture:
    boxes: list[Box] = field(default_factory=list)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)  # (from, to) -> buffer


def picture_of(graph: Structure) -> Picture:
    """Boxes and edges, before anybody knows where they will be."""
    picture = Picture()
    writer: dict[int, int] = {}  # buffer -> box
    arguments = [v for v in graph.inputs if graph.buffers[graph.values[v].buffer].kind == "argument"]
    read = {graph.values[v].buffer for node in graph.nodes for v in refs_of(node.args)}
    read |= {graph.values[v].buffer for v in graph.outputs}
    for value in arguments:
        buffer = graph.values[value].buffer
        if buffer in writer or buffer not in read:
            continue
        writer[buffer] = len(picture.boxes)
        name = graph.buffers[buffer].name or f"%{value}"
        picture.boxes.append(Box([name, type_of(graph.values[value])], [buffer], _about(graph, buffer), "argument"))
    for index, node, reads, writes in graph.walk():
        box = len(picture.boxes)
        for buffer in reads:
            if buffer in writer:
                picture.edges.setdefault((writer[buffer], box), buffer)
        learned = [b for b in reads if b not in writer]
        lines = [node.op + _numbers(node.args)]
        lines += [type_of(graph.values[v]) for v in (*node.outs, *node.writes)[:3]]
        lines += [f"{'writes' if b in writes else 'of'} {_name(graph, b)}" for b in learned[:4]]
        lines += [f"and {len(learned) - 4} more"] if len(learned) > 4 else []
        hints = [f"node {index}: {node.op}", *([node.source] if node.source else []), *(_about(graph, b) for b in writes)]
        picture.boxes.append(Box(lines, list(writes), "\n".join(hints)))
        for buffer in writes:
            writer[buffer] = box
    for position, value in enumerate(graph.outputs):
        buffer = graph.values[value].buffer
        if buffer in writer:
            picture.edges.setdefault((writer[buffer], len(picture.boxes)), buffer)
        picture.boxes.append(Box([f"output {position}", type_of(graph.values[value])], [buffer], _about(graph, buffer), "output"))
    return picture


def _shown(text: str) -> str:
    return _UNSHOWN.sub("\ufffd", text)


def escape(text: str) -> str:
    return html.escape(_shown(text))


def _name(graph: Structure, buffer: int) -> str:
    return graph.buffers[buffer].name or f"{graph.buffers[buffer].kind} b{buffer}"


def _about(graph: Structure, buffer: int) -> str:
    it = graph.buffers[buffer]
    return f"buffer {buffer}{' ' + it.name if it.name else ''}: {it.kind}, {size_text(it.nbytes)} on {it.device}"


def _text_of(arg: Arg) -> str:
    if isinstance(arg, tuple):
        return f"[{', '.join(map(_text_of, arg))}]"
    return arg.name if isinstance(arg, DType) else "draw" if isinstance(arg, Draw) else repr(arg)


def _numbers(args: tuple[Arg, ...]) -> str:
    """The arguments that are no tensors, as far as they are short."""
    found = ", ".join(_text_of(arg) for arg in args if not isinstance(arg, Ref) and not (type(arg) is tuple and refs_of(arg)))
    if not found:
        return ""
    return f"({found if len(found) <= 28 else found[:25] + '...'})"


class Colours:
    """Of buffers: hues a golden angle apart, so that neighbouring numbers differ."""

    def __init__(self, graph: Structure, plan: Plan) -> None:
        self._graph, self._numbers = graph, plan.colours()

    def _hsl(self, buffer: int, saturation: int, light: int) -> str:
        number = self._numbers.get(buffer)
        if number is None:
            return {"fill": "#ffffff", "line": "#8a8f98"}["fill" if light > 60 else "line"]
        return f"hsl({number * 137.508 % 360:.0f}, {saturation}%, {light}%)"

    def fill(self, box: Box) -> str:
        if box.kind != "node" or not box.buffers:
            return "#f1f3f5"
        return self._hsl(box.buffers[0], 70, 84)

    def line(self, buffer: int) -> str:
        return self._hsl(buffer, 55, 45)


def svg(graph: Structure, plan: Plan) -> str:
    """The picture as SVG text."""
    picture, colours = picture_of(graph), Colours(graph, plan)
    sizes = [(max(map(len, box.lines)) * _WIDE + 20, len(box.lines) * _LINE + 12) for box in picture.boxes]
    edges = list(picture.edges)
    at = lay_out(sizes, edges, list(picture.edges.values()))
    title = (
        f"{len(graph.nodes)} nodes; intermediate memory {size_text(plan.total)} planned ({plan.mode}), "
        f"{size_text(plan.lower_bound)} in use at once"
    )
    width, height = max(at.width, len(title) * _WIDE + 40), at.height + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{_FONT:.0f}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="20" y="22" fill="#495057">{escape(title)}</text>',
        '<g transform="translate(0 20)">',
    ]
    for edge, line, in_lane in zip(edges, at.lines, at.lanes):
        colour = colours.line(picture.edges[edge])
        path = _angular(line) if in_lane else _smooth(line)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.4"{_FADED if in_lane else ""}/>')
        x, y = line[-1]
        out.append(f'<path d="M{x:.1f} {y:.1f}l-3.5 -7h7z" fill="{colour}"/>')
    for box, (x, y), (w, h) in zip(picture.boxes, at.centres, sizes):
        left, top = x - w / 2, y - h / 2
        corner = 3 if box.kind == "node" else h / 2
        border = colours.line(box.buffers[0]) if box.buffers else "#8a8f98"
        out.append(f"<g><title>{escape(box.hint)}</title>")
        out.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{corner:.0f}" '
            f'fill="{colours.fill(box)}" stroke="{border}"/>'
        )
        for number, buffer in enumerate(box.buffers[1:6]):  # further outputs: a spot each
            out.append(f'<circle cx="{left + w - 8 - 11 * number:.1f}" cy="{top + h:.1f}" r="4" fill="{colours.line(buffer)}"/>')
        for number, line_text in enumerate(box.lines):
            weight = ' font-weight="bold"' if not number else ' fill="#495057"'
            out.append(
                f'<text x="{x:.1f}" y="{top + 6 + _LINE * (number + 0.75):.1f}" text-anchor="middle"{weight}>{escape(line_text)}</text>'
            )
        out.append("</g>")
    return "\n".join([*out, "</g>", "</svg>", ""])


_FADED = ' stroke-opacity="0.55"'


def _smooth(line: list[tuple[float, float]]) -> str:
    text = f"M{line[0][0]:.1f} {line[0][1]:.1f}"
    for (x0, y0), (x1, y1) in zip(line, line[1:]):
        middle = (y0 + y1) / 2
        text += f"L{x1:.1f} {y1:.1f}" if x0 == x1 else f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return text


def _angular(line: list[tuple[float, float]]) -> str:
    """Straight lines with round corners."""
    text = f"M{line[0][0]:.1f} {line[0][1]:.1f}"
    for (x0, y0), (x1, y1), (x2, y2) in zip(line, line[1:], line[2:]):
        length0, length1 = abs(x1 - x0) + abs(y1 - y0), abs(x2 - x1) + abs(y2 - y1)
        r = min(6.0, length0 / 2, length1 / 2)
        if r < 0.5:
            text += f"L{x1:.1f} {y1:.1f}"
            continue
        a = (x1 + (x0 - x1) / length0 * r, y1 + (y0 - y1) / length0 * r)
        b = (x1 + (x2 - x1) / length1 * r, y1 + (y2 - y1) / length1 * r)
        text += f"L{a[0]:.1f} {a[1]:.1f}Q{x1:.1f} {y1:.1f} {b[0]:.1f} {b[1]:.1f}"
    return text + f"L{line[-1][0]:.1f} {line[-1][1]:.1f}"


def dot(graph: Structure, plan: Plan) -> str:
    """The picture as text for Graphviz."""
    picture, colours = picture_of(graph), Colours(graph, plan)

    def quoted(text: str) -> str:
        return '"' + _shown(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def hsv(colour: str) -> str:  # Graphviz knows #rrggbb alone of what CSS knows
        if not colour.startswith("hsl"):
            return quoted(colour)
        hue, saturation, light = (float(part.strip(" %")) for part in colour[4:-1].split(","))
        saturation, light = saturation / 100, light / 100
        value = light + saturation * min(light, 1 - light)
        return quoted(f"{hue / 360:.3f} {2 - 2 * light / value:.3f} {value:.3f}")

    out = ["digraph {", '  node [fontname="monospace", fontsize=10, style=filled];']
    for index, box in enumerate(picture.boxes):
        border = hsv(colours.line(box.buffers[0])) if box.buffers else '"#8a8f98"'
        shape = "box" if box.kind == "node" else "ellipse"
        out.append(
            f"  n{index} [label={quoted(chr(10).join(box.lines))}, shape={shape}, fillcolor={hsv(colours.fill(box))}, "
            f"color={border}, tooltip={quoted(box.hint)}];"
        )
    for (source, target), buffer in picture.edges.items():
        out.append(f"  n{source} -> n{target} [color={hsv(colours.line(buffer))}];")
    return "\n".join([*out, "}", ""])
