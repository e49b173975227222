"""Lowering: equations become expressions, by running the array API spelling of each record on expressions."""
