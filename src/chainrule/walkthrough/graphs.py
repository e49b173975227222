"""C7: graphs drawn, by Graphviz and by the built-in layout, the DOT source beside each picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainrule.draw import draw, graph_of
from chainrule.draw.graphviz import find_dot
from chainrule.scalar import Neuron, Value, relu
from chainrule.walkthrough.measurement import Measurement
from chainrule.walkthrough.moons import OURS, problem
from chainrule.walkthrough.networks import tensor_loss, tensor_network
from chainrule.walkthrough.value import worked_example


@dataclass(frozen=True)
class Drawn:
    """What was drawn: the files, and boxes and arrows of each subject."""

    files: list[Path]
    boxes: dict[str, int]
    arrows: dict[str, int]
    has_graphviz: bool


def neuron() -> tuple[Value, dict[str, Value]]:
    """The hinge loss of one linear neuron on one point of sign -1, before its backward pass; names for the picture."""
    unit = Neuron(2, linear=True, seed=1)
    x = [Value(0.5), Value(-0.25)]
    loss = relu(1.0 + unit(x))
    names = {"x1": x[0], "x2": x[1], "w1": unit.weights[0], "w2": unit.weights[1], "b": unit.bias, "loss": loss}
    return loss, names


def drawings(folder: Path, seed: int) -> Drawn:
    """Draw the worked example, a neuron, and the hinge loss on the tensor engine into `folder`."""
    example, _ = worked_example()
    example.backward()
    hinge, names = neuron()
    hinge.backward()
    moons = problem(seed, OURS)
    layers = tensor_network(moons.weights)
    step, _ = tensor_loss(layers, moons.inputs(moons.points), moons.signs, 0.0)
    step.backward(retain_graph=True)
    tensors = {f"{kind}{k}": t for k, layer in enumerate(layers, 1) for kind, t in zip("Wb", layer, strict=True)}
    tensors["loss"] = step
    subjects: dict[str, tuple[Any, dict[str, Any]]] = {
        "worked_example": (example, {}),
        "neuron": (hinge, names),
        "tensor_step": (step, tensors),
    }
    graphs = {name: graph_of(result, names=known) for name, (result, known) in subjects.items()}
    files: list[Path] = []
    has_graphviz = find_dot() is not None
    for name, graph in graphs.items():
        files += draw(graph, folder / f"graph_{name}_builtin", graphviz=False)
        if has_graphviz:
            files += draw(graph, folder / f"graph_{name}_graphviz", graphviz=True)
    boxes = {name: len(graph.boxes) for name, graph in graphs.items()}
    return Drawn(files, boxes, {name: len(graph.arrows) for name, graph in graphs.items()}, has_graphviz)


def picture(drawn: Drawn, subject: str) -> str:
    """The file name of the better picture of a subject, without its ending."""
    return f"graph_{subject}_{'graphviz' if drawn.has_graphviz else 'builtin'}"


def written(drawn: Drawn) -> Measurement:
    """C7: both ways to a picture."""
    kinds = {ending: sum(file.suffix == ending for file in drawn.files) for ending in (".png", ".svg", ".dot")}
    complete = all(file.stat().st_size > 0 for file in drawn.files)
    said = ", ".join(f"{name.replace('_', ' ')} {count} boxes" for name, count in drawn.boxes.items())
    ways = "by the built-in layout" + (" and by Graphviz" if drawn.has_graphviz else "; Graphviz is not installed")
    return Measurement(
        "C7",
        "computational graphs drawn, DOT source beside each",
        f"{said}; {ways}",
        "Graphviz where its dot is, else the built-in layout",
        {
            "graphviz": drawn.has_graphviz,
            **{f"{name}_boxes": count for name, count in drawn.boxes.items()},
            **{f"{name}_arrows": count for name, count in drawn.arrows.items()},
            **{f"{ending[1:]}_files": count for ending, count in kinds.items()},
        },
        {"graphviz": "where installed"},
        complete and len(set(kinds.values())) == 1,
    )
