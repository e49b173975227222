"""Compiled mode: a function is traced once, and from then on runs as one program."""
