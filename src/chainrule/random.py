"""Random numbers: one generator for all, or explicit ones."""
