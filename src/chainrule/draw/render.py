"""`draw`: a picture in files, by Graphviz where it is installed and by the built-in layout elsewhere.

Everything is made in memory first and moved into place last, so a failure leaves no half-written file.
"""

from __future__ import annotations

import secrets
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.draw.adapters import Excess, graph_of
from chainrule.draw.graph import Graph, to_dot
from chainrule.draw.graphviz import DotError, find_dot, run_dot
from chainrule.draw.painter import paint
from chainrule.errors import ArgumentError, explain

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

FORMATS = ("png", "svg", "dot")


def draw(
    result: Any,
    path: str | os.PathLike[str],
    format: str | Sequence[str] | None = None,
    *,
    names: Mapping[str, Any] | None = None,
    max_nodes: int = 200,
    excess: Excess = "elide",
    graphviz: bool = True,
) -> tuple[Path, ...]:
    """Draw what `result` (a scalar `Value`, a `Tensor` or a `Graph`) was computed from; give back the files written.

    `path` ends in `.png`, `.svg` or `.dot`, or has no such ending and gets both pictures; `format` says it instead:
    one of these words or several. The DOT source is always written beside the pictures. `names` gives values or tensors
    a name in the picture: `names={"w": w}`. Of more than `max_nodes` values the ones next to the result are drawn, and
    the others are one box that counts them, or an error with `excess="error"`.

    Graphviz makes the picture if its program `dot` is found (and answers, otherwise one warning says why not); else, or
    with `graphviz=False`, the built-in layout in matplotlib does.

    **Raises** ArgumentError for anything that is no recorded result, an unknown format, a folder that cannot be written
    to; FreedGraphError after a backward pass that freed the graph; MissingExtraError with neither `dot` nor matplotlib.

    >>> import tempfile
    >>> from chainrule.draw import Box, Graph, draw
    >>> graph = Graph((Box(("x",), "leaf"), Box(("exp",), "output")), ((0, 1),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [file.name for file in draw(graph, folder + "/exp", graphviz=False)]
    ['exp.png', 'exp.svg', 'exp.dot']
    """
    targets = _targets(path, format)
    graph = graph_of(result, names=names, max_nodes=max_nodes, excess=excess)
    source = to_dot(graph)
    contents = _pictures(graph, source, [kind for kind in targets if kind != "dot"], graphviz)
    contents["dot"] = source.encode()
    _write({file: contents[kind] for kind, file in targets.items()})
    return tuple(targets.values())


def _targets(path: str | os.PathLike[str], format: str | Sequence[str] | None) -> dict[str, Path]:
    """The files to write by format, the DOT source last."""
    path = Path(path)
    ending = path.suffix[1:].lower() if path.suffix[1:].lower() in FORMATS else None
    if format is None:
        formats = [ending] if ending else ["png", "svg"]
    else:
        formats = [format] if isinstance(format, str) else list(format)
    for kind in formats:
        if kind not in FORMATS:
            raise ArgumentError(explain("draw", f"unknown format {kind!r}", expected=" or ".join(map(repr, FORMATS))))
    if ending and ending not in formats:
        fault = f"the path ends in .{ending} and format={format!r}"
        raise ArgumentError(explain("draw", fault, remedy="a path without ending"))
    stem = path.name[: -len(ending) - 1] if ending else path.name
    if not stem:
        raise ArgumentError(explain("draw", f"{str(path)!r} names no file", expected="a path such as 'graph.png'"))
    wanted = [*dict.fromkeys(kind for kind in formats if kind != "dot"), "dot"]
    return {kind: path.with_name(path.name if kind == ending else f"{stem}.{kind}") for kind in wanted}


def _pictures(graph: Graph, source: str, formats: list[str], graphviz: bool) -> dict[str, bytes]:
    program = find_dot() if graphviz and formats else None
    if program is not None:
        try:
            return run_dot(program, source, formats)
        except DotError as failure:
            warnings.warn(f"draw: dot failed ({failure}); the built-in layout is used", RuntimeWarning, stacklevel=3)
    return paint(graph, formats) if formats else {}


def _write(contents: Mapping[Path, bytes]) -> None:
    """Write all files under temporary names in their folder, then move them into place.

    **Raises** ArgumentError, with no temporary file left.
    """
    waiting: dict[Path, Path] = {}
    try:
        for file, content in contents.items():
            if file.is_dir():
                raise IsADirectoryError(f"{file.name} is a folder")
            temporary = file.with_name(f".{file.name}.{secrets.token_hex(6)}.tmp")
            waiting[file] = temporary
            with temporary.open("xb") as stream:
                stream.write(content)
        for file, temporary in waiting.items():
            temporary.replace(file)
    except OSError as error:
        file = next(iter(contents))
        fault = f"cannot write {file.name} into folder {str(file.parent)!r} ({error.strerror or error})"
        raise ArgumentError(explain("draw", fault, remedy="a folder that exists and can be written to")) from error
    finally:
        for temporary in waiting.values():
            with suppress(OSError):  # never made, or already in place
                temporary.unlink()
