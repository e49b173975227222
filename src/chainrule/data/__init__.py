"""Data: small sets made on the spot or read from files, and batches of them in an order that a seed fixes."""

from chainrule.data.batches import Batches
from chainrule.data.characters import Characters, Vocabulary, characters, windows
from chainrule.data.digits import digits
from chainrule.data.fashion import fashion
from chainrule.data.idx import read_idx
from chainrule.data.line import line
from chainrule.data.moons import two_moons
from chainrule.data.spiral import two_arm_spiral
from chainrule.data.splitting import split
from chainrule.data.text import default_text, read_text

__all__ = [
    "Batches", "Characters", "Vocabulary", "characters", "default_text", "digits", "fashion", "line", "read_idx",
    "read_text", "split", "two_arm_spiral", "two_moons", "windows",
]  # fmt: skip
