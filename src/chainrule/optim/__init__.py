"""Optimisers, schedules and what belongs to a step."""
