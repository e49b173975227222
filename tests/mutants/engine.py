"""stub"""

from typing import NamedTuple

CONTEXT = "fork"


class EngineMutant(NamedTuple):
    name: str


MUTANTS = []
