"""Small data sets, made on the spot: what the examples and the walkthrough train on."""

from chainrule.data.line import line
from chainrule.data.moons import two_moons
from chainrule.data.spiral import two_arm_spiral

__all__ = ["line", "two_arm_spiral", "two_moons"]
