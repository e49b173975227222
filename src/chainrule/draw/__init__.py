"""Drawings of computational graphs: `draw` writes a picture of what a result was made of, and its DOT source."""

from chainrule.draw.adapters import graph_of
from chainrule.draw.graph import Box, Graph, to_dot
from chainrule.draw.render import draw

__all__ = ["Box", "Graph", "draw", "graph_of", "to_dot"]
