"""Batch normalisation: the function, and layers."""
