"""`index.html`: one page without any outside resource, read from top to bottom: an idea, its picture, its numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from chainrule.walkthrough.measurement import Measurement


@dataclass(frozen=True)
class Section:
    """One idea: three sentences, pictures by their file names without ending, and the rows that belong to it."""

    title: str
    text: str
    pictures: Sequence[tuple[str, str]]
    """Name, and what a reader who cannot see the picture should know."""
    rows: Sequence[str]


def sections(way: str) -> list[Section]:
    """The page from top to bottom; `way`, `graphviz` or `builtin`, says which pictures of graphs it shows."""
    found = tomllib.loads(Path(__file__).with_name("sections.toml").read_text(encoding="utf-8"))["section"]
    return [
        Section(
            s["title"],
            s["text"].strip(),
            [(name.replace("WAY", way), words) for name, words in s["pictures"]],
            s["rows"],
        )
        for s in found
    ]


STYLE = """
:root { color-scheme: light; }
body { font: 17px/1.55 Georgia, 'Times New Roman', serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 52rem; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; border-top: 2px solid #0072B2; padding-top: .9rem; }
p { margin: .5rem 0; }
.lead, .about { color: #444; }
.about { font: 13px/1.5 system-ui, sans-serif; }
figure { margin: 1.1rem 0; text-align: center; }
img { max-width: 100%; height: auto; }
.graphs { display: flex; justify-content: space-evenly; align-items: flex-start; gap: 1rem; }
.graphs figure { flex: 0 1 auto; }
.graphs figure:only-child { max-width: 23rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; font: 13.5px/1.4 system-ui, sans-serif; margin: .8rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
th { border-bottom: 2px solid #999; white-space: nowrap; }
th:first-child { width: 2.2rem; } th:nth-child(2), th:nth-child(4) { width: 22%; } th:last-child { width: 3.6rem; }
td:first-child { font-weight: 600; white-space: nowrap; }
td:last-child { white-space: nowrap; font-weight: 600; }
.yes { color: #00664c; } .no { color: #a33f00; } .skipped { color: #555; }
.note { color: #444; font-size: 12.5px; display: block; margin-top: .2rem; }
nav { font: 14px/1.6 system-ui, sans-serif; margin: 1.2rem 0; }
nav a { color: #005a8c; margin-right: 1rem; white-space: nowrap; }
@media (max-width: 44rem) {
  table { display: block; overflow-x: auto; table-layout: auto; }
  th:nth-child(2), th:nth-child(3), th:nth-child(4) { min-width: 11rem; }
  .graphs { flex-direction: column; align-items: center; }
}
@media print { body { max-width: none; font-size: 11pt; } h2, figure, tr { break-inside: avoid; } h2 { break-after: avoid; } nav { display: none; } }
"""


def page(sections: Sequence[Section], measurements: Sequence[Measurement], about: dict[str, Any]) -> str:
    """The whole page as HTML."""
    by_row = {m.row: m for m in measurements}
    links = "".join(f'<a href="#s{k}">{k}. {escape(s.title)}</a> ' for k, s in enumerate(sections, 1))
    body = "\n".join(_section(k, section, by_row) for k, section in enumerate(sections, 1))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>chainrule: the walkthrough</title>
<style>{STYLE}</style>
</head>
<body>
<h1>From one number that remembers to whole networks</h1>
<p class="lead">Everything on this page was computed by the run that wrote it: first with an engine that differentiates
one number at a time, then with one that differentiates arrays. Each idea comes with its picture, and its numbers stand beside
the figure that they should reproduce.</p>
{_about(about)}
<nav>{links}</nav>
{body}
</body>
</html>
"""


def _about(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    machine = ", ".join(
        str(part) for part in (about["machine"]["processor"], f"{about['machine']['cores']} cores") if part
    )
    mode = "quick run" if about["quick"] else "full run"
    text = f"{about['date']} · {mode}, {about['seconds']:.0f} s · seeds {about['seeds'][0]} to {about['seeds'][-1]} · {machine} · {versions}"
    return f'<p class="about">{escape(text)}</p>'


def _section(number: int, section: Section, by_row: dict[str, Measurement]) -> str:
    plots = "\n".join(_picture(name, words) for name, words in section.pictures if not name.startswith("graph_"))
    graphs = "\n".join(_picture(name, words) for name, words in section.pictures if name.startswith("graph_"))
    pictures = plots + (f'\n<div class="graphs">\n{graphs}\n</div>' if graphs else "")
    table = _table(by_row[row] for row in section.rows if row in by_row)
    return (
        f'<h2 id="s{number}">{number}. {escape(section.title)}</h2>\n<p>{escape(section.text)}</p>\n{pictures}\n{table}'
    )


def _picture(name: str, words: str) -> str:
    picture = f'<img src="figures/{name}.png" alt="{escape(words)}">'
    return f'<figure><a href="figures/{name}.svg">{picture}</a></figure>'


def _table(rows: Iterable[Measurement]) -> str:
    lines = "\n".join(map(_row, rows))
    if not lines:
        return ""
    head = "<tr><th>row</th><th>what</th><th>measured</th><th>reference</th><th>agrees</th></tr>"
    return f"<table><thead>{head}</thead>\n<tbody>\n{lines}\n</tbody></table>"


def _row(m: Measurement) -> str:
    look = "skipped" if m.agrees is None else "yes" if m.agrees else "no"
    note = f'<span class="note">{escape(m.note)}</span>' if m.note else ""
    cells = (m.row, m.what, m.found, m.expected)
    inner = "".join(f"<td>{escape(cell)}{note if k == 2 else ''}</td>" for k, cell in enumerate(cells))
    return f'<tr>{inner}<td class="{look}">{escape(m.mark)}</td></tr>'
