"""Walks over nodes: against the arrows with cotangents (`reverse`), along them with tangents (`forward`)."""
