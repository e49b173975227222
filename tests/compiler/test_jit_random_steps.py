"""Random steps over shared state, compiled against eager: results, everything that is written, and who shares an object.

A step is a handful of statements drawn from a list; between calls the state is changed from outside at random, too.
"""

import random
import re
import warnings
from collections import namedtuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import TraceError
from tests.compiler.jitted import executor, is_exact, jit  # noqa: F401

STATEMENTS = """
h.a = h.a * 0.5 + x | h.a += x | h.a[1:] = x[:-1] | h.a[0] = x.sum() | h.a = h.l[0] | h.a.fill(2.0) | np.add(h.a, x, out=h.a)
h.a = np.zeros_like(x) | h.b = h.a | h.b += 1.0 | y = y + h.b | y = y + h.a | y, h.a = h.a, y | h.a = h.a[::-1]
h.n += 1 | h.n = h.n + 2 | y = y * h.n | h.n = len(h.d) | h.n, h.f = h.n + 1, h.n * 0.5 | h.f = float(h.n) | h.f = h.f * 0.5
y = y + h.f | h.flag = not h.flag | y = y * (2.0 if h.flag else 3.0) | h.q = h.n > 3 | h.s = h.s + 'a' if len(h.s) < 3 else ''
y = y + len(h.s) | h.l[0] = x * h.f | h.l[1] = h.l[0] | h.l[0], h.l[1] = h.l[1], h.l[0] | y = y + h.l[0] - h.l[1]
h.l[0] += 1.0 | h.l[0][1] = 5.0 | h.l.reverse() | h.l[1] = h.a | h.m = h.l | h.m[0] = x * 3.0 | h.d['k'] = x + h.n
h.d['m'] = h.d.get('k', x) | h.d.update(k=x) | h.d = dict(h.d) | h.d = {'n': x, 'o': h.a} | y = y + (h.n if 'k' in h.d else -h.n)
h.t = cr.tensor(x) | h.t = h.t * 2.0 | h.t[0] = 5.0 | h.e = cr.zeros(3) | h.e += x; y = y + h.e.data | h.u = h.w * 2.0
y = y + h.u.detach().data | h.w.grad = None | (h.w * x).sum().backward() | ((h.w * h.t) ** 2).sum().backward()
h.w.data -= 0.1 * x | h.w.grad = h.w.data * 1.0 | y = y + h.w.data | y = y + (0.0 if h.w.grad is None else h.w.grad)
with cr.no_grad(): h.w *= 0.5 | h.w.grad = None; (cr.tanh(h.w) * h.w).sum().backward(); h.w.data -= h.w.grad
h.c = h.a.copy() | h.c = x | y = y + (h.c if h.c is not None else 0.0) | h.c = None | h.x = x | y = y + h.x | x = x + 1.0
G['z'] = G['z'] + x | y = y + G['z'] | h.v = x[0] | y = y + h.v | y = y + cr.random.normal(3).data | y = np.where(y > 0, y, -y)
h.p = (h.a, h.n) | y = y + h.p[0] * h.p[1] | h.p = (*h.p[:1], 3) | h.r = Pair(x, h.n) | y = y + h.r.p * h.r.q
z = h.a[1:]; z += 1.0 | z = x.reshape(3, 1); z *= 2.0 | h.o = Box(x) | y = y + h.o.value | h.o.value = h.o.value + 1.0
setattr(h, 'late', x) | y = y + getattr(h, 'late', 0.0) | h.cls = h.cls + 1 | y = y + h.shared
"""
CHANGES = """
pass | pass | pass | h.n = 7 | h.a = np.full(3, 9.0) | h.f = 0.25 | h.flag = True | h.l[0] = np.full(3, 4.0) | h.w.data = np.full(3, 1.5)
h.w.grad = None | h.w.grad = np.ones(3) | h.b = np.full(3, 2.0) | h.c = None | h.t = cr.tensor(np.full(3, 3.0)) | h.s = 'ab'
"""
Pair = namedtuple("Pair", "p q")  # noqa: PYI024 - as users write it


class Box:
    def __init__(self, value):
        self.value = value


def listed(text):
    return [statement.strip() for line in text.strip().splitlines() for statement in line.split("|")]


class World:
    """A step, and the state that it works on."""

    def __init__(self, body, compile_it):
        self.h = h = type("Holder", (Box,), {"cls": 0, "shared": np.ones(3)})(None)
        h.a, h.b, h.c, h.x, h.v = np.arange(3.0), np.ones(3), None, np.zeros(3), np.float64(1.0)
        h.n, h.f, h.flag, h.q, h.s = 1, 0.5, True, False, ""
        h.l, h.m, h.d, h.p = [np.ones(3), np.zeros(3)], [np.zeros(3)], {}, (np.ones(3), 2)
        h.t, h.u, h.e, h.w = (
            cr.tensor(np.ones(3)),
            cr.ones(3),
            cr.zeros(3),
            cr.tensor(np.full(3, 2.0), requires_grad=True),
        )
        h.o, h.r = Box(np.ones(3)), Pair(np.ones(3), 2)
        self.G = {"z": np.zeros(3)}
        space = {"h": h, "G": self.G, "np": np, "cr": cr, "Box": Box, "Pair": Pair, "__name__": "world"}
        exec(
            "def step(x):\n    y = x * 1.0\n" + "".join(f"    {line}\n" for line in body) + "    return y, h.a\n", space
        )
        self.step = compile_it(space["step"])

    def run(self, k):
        """What comes of a call: an error, or everything that can be seen afterwards."""
        x = np.arange(3.0) + k
        cr.random.seed(k)
        try:
            with np.errstate(all="ignore"):
                result = self.step(x)
        except TraceError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever eager raises, compiled has to raise
            return type(error).__name__, None
        return described([result, x, self.h, self.G], {}), cr.random.state()


def described(value, seen):
    """A value in full, as text; which arrays are the same one as well."""
    if isinstance(value, cr.Tensor):
        grad = None if value.grad is None else described(np.array(value.grad), {})
        return f"tensor {np.array(value.data).tolist()} {grad} {value.requires_grad}"
    if isinstance(value, np.ndarray):
        return f"array {value.tolist()} #{seen.setdefault(id(value), len(seen))}"
    if isinstance(value, Box):
        return described(dict(sorted(vars(value).items())), seen)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {described(v, seen)}" for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} " + ", ".join(described(v, seen) for v in value)
    return f"{type(value).__name__} {value!r}"


NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def is_same(found, expected):
    if is_exact():
        return found == expected
    a, b = ([float(n) for n in NUMBER.findall(text)] for text in (found[0], expected[0]))
    texts = [NUMBER.sub("", text) for text in (found[0], expected[0])]
    return texts[0] == texts[1] and found[1] == expected[1] and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_step_leaves_what_eager_leaves(seed):
    choose = random.Random(seed)
    body = [choose.choice(listed(STATEMENTS)) for _ in range(choose.randint(2, 12))]
    changes = [choose.choice(listed(CHANGES)) for _ in range(5)]
    eager, compiled = World(body, lambda f: f), World(body, jit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, change in enumerate(changes):
            expected, found = eager.run(k), compiled.run(k)
            assert is_same(found, expected), "\n".join([*body, f"call {k} after {changes[:k]}", expected[0], found[0]])
            if expected[1] is None:
                break
            for world in (eager, compiled):
                exec(change, {"h": world.h, "np": np, "cr": cr})


def test_a_wrong_step_is_told():
    class Wrong(World):
        def run(self, k):
            text, state = super().run(k)
            return text.replace("int 1", "int 2"), state

    assert not is_same(Wrong(["h.a += x"], jit).run(1), World(["h.a += x"], lambda f: f).run(1))
