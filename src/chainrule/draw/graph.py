"""A picture's content without its geometry: boxes, arrows between them, and the same as DOT source.

Nothing here knows an engine or a drawing library: adapters make a `Graph`, Graphviz or the built-in layout draws it.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal

from chainrule.errors import ArgumentError, explain

Kind = Literal["leaf", "operation", "value", "output", "rest"]


@dataclass(frozen=True)
class Look:
    """How boxes of one kind are drawn; kinds differ in outline as well as in colour, for print without colour."""

    fill: str
    border: str
    border_width: float
    """In points."""
    rounded: bool = False
    dashed: bool = False


# Borders: Okabe and Ito, "Color Universal Design" (2008), safe for all common kinds of colour blindness; fills: light
# tints of the same, so that black text stays readable in print.
LOOKS: dict[Kind, Look] = {
    "leaf": Look("#DDF0FB", "#0072B2", 1.6),
    "operation": Look("#FCEFD2", "#E69F00", 1.2, rounded=True),
    "value": Look("#FFFFFF", "#7F7F7F", 0.9),
    "output": Look("#D9F1E9", "#009E73", 2.2),
    "rest": Look("#FFFFFF", "#7F7F7F", 0.9, rounded=True, dashed=True),
}
ARROW_COLOUR = "#4D4D4D"
FONT_SIZE = 10.0
"""In points."""


@dataclass(frozen=True)
class Box:
    """One box: its lines of text, what it stands for, and whether the first line is a name, which is set in bold."""

    lines: tuple[str, ...]
    kind: Kind = "value"
    headed: bool = False


@dataclass(frozen=True)
class Graph:
    """Boxes, and arrows as pairs of places in `boxes`; an arrow that occurs twice (`t * t`) is drawn twice.

    **Raises** ArgumentError for an arrow without a box at its end, and for an unknown kind.

    >>> Graph((Box(("x",), "leaf"), Box(("tanh",), "operation")), ((0, 1),)).arrows
    ((0, 1),)
    """

    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for box in self.boxes:
            if box.kind not in LOOKS:
                raise ArgumentError(explain("Graph", f"unknown kind {box.kind!r}", expected=" or ".join(LOOKS)))
        for arrow in self.arrows:
            if not all(0 <= end < len(self.boxes) for end in arrow):
                fault = f"arrow {arrow} leads to no box"
                raise ArgumentError(explain("Graph", fault, expected=f"ends in range({len(self.boxes)})"))


def printable(text: str) -> str:
    r"""`text` with every character that no font can show (controls, lone surrogates) replaced, line ends kept.

    >>> printable("a\tb\x00c") == "a b\ufffdc"
    True
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    return "".join("\ufffd" if c != "\n" and unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def quote(text: str) -> str:
    r"""`text` as a quoted DOT string that Graphviz shows literally.

    A backslash would start one of its escapes and an ampersand an HTML entity.

    >>> print(quote('say "a" & "b"'))
    "say \"a\" &amp; \"b\""
    """
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def to_dot(graph: Graph) -> str:
    r"""The graph as DOT source, the language of Graphviz; equal graphs give equal text.

    **Source**: the DOT language, graphviz.org/doc/info/lang.html.

    >>> print(to_dot(Graph((Box(("x", "data 2"), "leaf"),))).splitlines()[-2])
      b0 [label="x\ndata 2", style="filled", fillcolor="#DDF0FB", color="#0072B2", penwidth=1.6];
    """
    lines = [
        "digraph chainrule {",
        '  graph [charset="UTF-8", rankdir=TB, nodesep=0.25, ranksep=0.35, nslimit=2];',  # a limit: 3 s otherwise for 60 values
        f'  node [shape=box, fontname="DejaVu Sans", fontsize={FONT_SIZE:g}, margin="0.11,0.06", height=0.3, width=0.5];',
        f'  edge [color="{ARROW_COLOUR}", arrowsize=0.6];',
    ]
    for place, box in enumerate(graph.boxes):
        look = LOOKS[box.kind]
        style = ",".join(["filled", *["rounded"] * look.rounded, *["dashed"] * look.dashed])
        colours = f'fillcolor="{look.fill}", color="{look.border}", penwidth={look.border_width:g}'
        label = quote(printable("\n".join(box.lines)))
        lines.append(f'  b{place} [label={label}, style="{style}", {colours}];')
    lines += [f"  b{tail} -> b{head};" for tail, head in graph.arrows]
    return "\n".join([*lines, "}", ""])
