"""Mutants of the engine's own steps: a piece of source text replaced, and the library imported anew with it.

Each runs in a process of its own, forked where that exists, and is met by the laws of the engine and by all laws of a few
records. A piece of text that is no longer there exactly once is reported: whoever changes a step of the engine says here how
it can go wrong.
"""

import importlib
import importlib.util
import inspect
import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, NamedTuple

import numpy as np

CONTEXT = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
SECONDS = 90  # a mutant that takes longer hangs, which is noticed as well
SUITES = tuple(
    f"tests.laws.test_engine_{name}" for name in ("walks", "memory", "in_place", "rules", "orders", "traces")
)
RECORDS = [
    "add",
    "multiply",
    "divide",
    "sqrt",
    "log",
    "where",
    "maximum",
    "exp",
    "tanh",
    "matmul",
    "sum",
    "getitem",
    "concat",
    "split",
    "max",
    "setitem",
    "permute_dims",
]


class EngineMutant(NamedTuple):
    name: str
    module: str
    old: str
    new: str


def source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


class Broken(SourceFileLoader):
    """Loads one module with a piece of its text replaced."""

    mutant: EngineMutant

    def get_code(self, fullname: str) -> Any:
        text = self.get_data(self.path).decode()
        return compile(text.replace(self.mutant.old, self.mutant.new), self.path, "exec")


class Finder:
    def __init__(self, mutant: EngineMutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.mutant.module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = Broken(name, spec.origin)
        spec.loader.mutant = self.mutant
        return spec


def forget() -> None:
    """Let the library, and the laws about it, be imported anew."""
    for name in list(sys.modules):
        if name.split(".")[0] == "chainrule" or name.startswith("tests.laws"):
            del sys.modules[name]


def checks() -> Iterator[tuple[str, Any]]:
    """(name, what to call) of everything that may notice, the quickest first."""
    for name in SUITES:
        module = importlib.import_module(name)
        for test, function in inspect.getmembers(module, inspect.isfunction):
            if test.startswith("test_") and function.__module__ == name:
                yield f"{name.rpartition('.')[2]}.{test}", function
    for name in ("first_order", "higher_order", "values"):
        importlib.import_module(f"tests.laws.{name}")
    laws = importlib.import_module("tests.laws.registry").LAWS
    records = importlib.import_module("tests.laws.examples").records()
    for record in RECORDS:
        for name, (check, applies) in laws.items():
            if applies(records[record]):
                yield f"{name}-{record}", lambda check=check, record=record: check(records[record])


def _hangs(*_: Any) -> None:
    raise TimeoutError


def killer(mutant: EngineMutant) -> str:
    """What notices the mutant; empty where nothing does. To be called in a process of its own."""
    if source(mutant.module).count(mutant.old) != 1:
        raise LookupError(f"out of date: {mutant.name}: its text is not in {mutant.module} exactly once")
    forget()
    finder = Finder(mutant)
    sys.meta_path.insert(0, finder)
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _hangs)
        signal.alarm(SECONDS)
    name = "import"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, check in checks():  # noqa: B007 - said when one raises
                check()
    except SyntaxError as error:
        raise LookupError(f"out of date: {mutant.name} is no Python any more: {error}") from error
    except BaseException as error:  # noqa: BLE001 - pytest's own failures are no Exception, and whatever it is, it has noticed
        return f"{name}: {type(error).__name__}"
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)
        sys.meta_path.remove(finder)
        forget()
        np.seterr(all="warn")
    return ""


def _table(module: str, *rows: tuple[str, str, str]) -> list[EngineMutant]:
    return [EngineMutant(f"{module.removeprefix('chainrule.')}: {what}", module, old, new) for what, old, new in rows]


MUTANTS = [
    *_table(
        "chainrule.core.template",
        ("a second contribution replaces the first", "cts[key] + g_{a} if key in cts else g_{a}", "g_{a}"),
        ("broadcasting is not undone", '"g_{a}.shape != n_{a}[5] or g_{a}.dtype', '"g_{a}.dtype'),
        ("promotion is not undone", 'or g_{a}.dtype is not n_{a}[6]"', '"'),
        ("broadcasting is not undone, elementwise", '"node[5] != n_{a}[5] or node[6]', '"node[6]'),
        ("promotion is not undone, elementwise", 'or node[6] is not n_{a}[6]"', '"'),
        ("no_grad is not looked at", ' + " or modes.paused and modes.is_paused()" if live', " if live"),
        ("a kept constant is not marked", '{a}.shared = True"', '{a}.shared = False"'),
        ("views are not noted", 'share=f"share({first}, t)" if is_view else ""', 'share=""'),
        ("residuals lose their graph", "wrap(r_{name}, {node})", "wrap(r_{name}, None)"),
        ("residuals are kept that no rule will read", "value if len(inputs) == 1 else", "value if True else"),
        ("the invalid flag is not looked at", "except FloatingPointError:\n            {all", "except OSError:\n            {all"),
        ("an undefined sum is dropped", "except FloatingPointError: send(cts, key, g_{a})", "except FloatingPointError: pass"),
        ("traces are not seen", "if modes.unusual: return general", "if False: return general"),
        ("x * x is no square", '"if x is y and x.node is not None: return same(x)" if', '"" if'),
        ("every product is a square", '"if x is y and x.node is not None: return same(x)" if', '"return same(x)" if'),
        ("NaN behind an operation are not looked for", "n_{a}[1] is not None and hides_nan(d_{a})", "n_{a}[1] is None and hides_nan(d_{a})"),
        ("leaves are searched for NaN", "n_{a}[1] is not None and hides_nan(d_{a})", "hides_nan(d_{a})"),
        ("any value takes one number as its cotangent", "n_{a}[1].flat else", "True else"),
        ("cotangents that show are one number", "ct if graph is None and not ct", "ct if not graph and not ct"),
        ("a row of a sum is one number", "not ct.shape and n_{a}", "n_{a}"),
        ("a constant operand loses the graph", 'each("n_{a} is None", between=" and ")', 'each("n_{a} is None", between=" or ")'),
    ),
    *_table(
        "chainrule.core.graph",
        ("nodes in no order", "nodes.sort(key=_by_number)\n    if nodes", "if nodes"),
        ("newer nodes in no order", "nodes.sort(key=_by_number)\n    return nodes", "return nodes"),
        ("older nodes are walked as well", "node[0] > since and", ""),
        ("stale values are not looked for", "if nodes and nodes[0][0] < modes.last_write:", "if False:"),
        ("old writes count as new", "written < node[NUMBER]:", "written < 0:"),
        ("values that no rule reads are stale", "if primitive.kept(node, name) is not None:", "if True:"),
        ("views are not followed to their source", "if node[PRIMITIVE].is_view and node[PARENTS] else None", "if False else None"),
        ("a view of a freed graph shares memory", "result.data = own_copy(result.data)  # nobody", "pass  # nobody"),
        ("the source of a view is not shared", "source.shared = result.shared = True", "result.shared = True"),
        ("the view is not shared", "source.shared = result.shared = True", "source.shared = True"),
        (
            "a value without a node shares the leaf's memory",
            "elif result.node is None:\n        result.data = own_copy(result.data)",
            "elif result.node is None:\n        pass",
        ),
        ("views of a leaf are forgotten", "state.aliases.append(weakref.ref(result))", "pass"),
        ("views of a leaf see its writes", "view.data = own_copy(view.data)", "pass"),
        ("living views are dropped in place of dead ones", "if alias() is not None]", "if alias() is None]"),
        ("dead views are never dropped", "if len(state.aliases) >= state.limit:", "if False:"),
        ("views are counted again for each new one", "state.limit = 16 + 2 * len(state.aliases)", "pass"),
        ("views are copied at every write", "leaf.aliases.clear()", "pass"),
        ("the end of a long chain of views shares memory", "result.data = own_copy(result.data)  # so that", "pass  # so that"),
        ("writes are not seen through the longest chain of views", "memory_of(parent, _LONGEST_CHAIN + 1)", "memory_of(parent)"),
        ("a write that failed counts", "node[RESIDUALS].written = before", "pass"),
        ("a write that failed takes back the one before", "node[RESIDUALS].written = before", "node[RESIDUALS].written = 0"),
        ("writes are not dated", "leaf.written = next_number()", "leaf.written = 0"),
        ("writes are not noted", "modes.last_write = leaf.written = next_number()", "leaf.written = next_number()"),
        ("shared memory is written", 'if node is not None or getattr(tensor, "shared", False) or is_number(', "if is_number("),
        ("a node holds its leaf", "self.tensor = weakref.ref(tensor)", "self.tensor = lambda: tensor"),
    ),
    *_table(
        "chainrule.walks.reverse",
        ("the invalid flag is never raised", 'np.errstate(all="ignore", invalid="raise")', 'np.errstate(all="ignore")'),
        ("hidden NaN are not looked for", "careful = careful or (primitive.hides and node[3][-1])", "pass"),
        ("NaN are not masked", "return where(bad, 0.0, g)", "return g"),
        ("every NaN is masked", "bad = logical_and(isnan(raw(g)), silent)", "bad = isnan(raw(g))"),
        ("finite values are masked", "bad = logical_and(isnan(raw(g)), silent)", "bad = silent"),
        ("axes of length 1 are not summed", "if n == 1 != given[extra + k]]", "if False]"),
        ("new axes are not summed", "axes = (*range(extra),", "axes = (*(),"),
        ("new axes in front are summed away with those behind", "ALL_AXES[extra], False)", "ALL_AXES[len(given)], False)"),
        ("no cast to the dtype of the value", "g = cast(g, dtype)", "pass"),
        ("a root named twice counts once", "cts[key] = cts[key] + ct if key in cts else ct", "cts[key] = ct"),
        ("accumulation replaces, in the slow walk", "cts[key] = cts[key] + g if key in cts else g", "cts[key] = g"),
        ("no fitting in the slow walk", "g = fit(g, parent)", "pass"),
        ("cotangents on the way to what is wanted are one number", "unseen = live is None and not graph", "unseen = not graph"),
        ("cotangents that leave a part are one number", "cts, bool(graph), live", "cts, graph, live"),
        ("wanted values are not reported", "if node[0] in wanted:", "if False:"),
        ("the newest node last", "node = nodes.pop()", "node = nodes.pop(0)"),
        ("the graph is not freed", "node[2] = node[3] = None", "pass"),
        ("residuals survive the walk", "node[2] = node[3] = None", "node[2] = None"),
        ("only ways through all parents count", "if any(parent is not None and", "if all(parent is not None and"),
        ("debug mode does not look", "if modes.unusual:\n        verify", "if False:\n        verify"),
        ("residuals lose their graph, in the slow walk", "named[name] = wrap(named[name], ties[name])", "named[name] = wrap(named[name], None)"),
    ),
    *_table(
        "chainrule.walks.forward",
        ("tangents replace one another", "total = out if total is None else total + out", "total = out"),
        ("NaN from zero tangents are not masked", "out = _without_nan_at_zeros(out, t, rule, kept)", "pass"),
        ("NaN at slopes of zero are not masked", "logical_or(raw(t) == 0, slope == 0)", "raw(t) == 0"),
        ("the second factor has no tangent", "parts += [] if given[1] is None else", "parts += [] if True else"),
        ("the invalid flag is never raised", 'np.errstate(all="ignore", invalid="raise")', 'np.errstate(all="ignore")'),
        ("tangents are not broadcast", "out = _fitted(out, shape, dtype)", "pass"),
        ("a linear map does not look for later writes", "if self.checked < modes.last_write:", "if False:"),
        ("tangents are dropped too early", "needed = {root[0] for root in self.roots}", "needed = set()"),
    ),
    *_table(
        "chainrule.core.calls",
        ("array operands are not copied", "return wrap(lift(value, beside.data, copy=True), None)", "return wrap(lift(value, beside.data, copy=False), None)"),
        ("array operands are not copied, slow path", "lift(a, beside, copy=bool(tensors))", "lift(a, beside, copy=False)"),
        ("numbers are strong", "dtype = np.result_type(beside.dtype, value)", "dtype = np.asarray(value).dtype"),
        ("0.0 and -0.0 are one constant", "key: Any = (value, type(value), dtype) if value else (repr(value), dtype)", "key: Any = (value, type(value), dtype)"),
        ("1, 1.0 and True are one constant", "key: Any = (value, type(value), dtype) if value", "key: Any = (value, dtype) if value"),
        ("NaN of before are not seen", 'if data.dtype.kind == "f" and data.size and np.isnan', 'if False and np.isnan'),
        ("no_grad is not looked at, slow path", "if not wanted or (modes.paused and modes.is_paused()):", "if not wanted:"),
        ("kept constants are not marked, slow path", "operand.shared = operand.node is None or", "operand.shared = False and"),
        ("fingerprints are all the same", "return [crc32(", "return [0 and crc32("),
        ("all outputs are the first", "entry[index] = ct", "entry[0] = ct"),
        ("x * x is no square, slow path", "same = primitive.same is not None and", "same = False and"),
        ("every product is a square, slow path", "operands[0] is operands[1] and is_tensor(operands[0])", "is_tensor(operands[0])"),
        ("NaN behind an operation are not looked for, slow path", "if n is not None and n[1] is not None]", "if n is not None and n[1] is None]"),
        ("leaves are searched for NaN, slow path", "if n is not None and n[1] is not None]", "if n is not None]"),
        ("a mask decides the kind of a number", "beside = next((a for a in strong if not is_mask(a)), strong[0] if strong else None)", "beside = strong[0] if strong else None"),
    ),
    *_table(
        "chainrule.core.checked",
        ("every rule is the library's own", 'startswith("chainrule.")', 'startswith("")'),
        ("numbers are no cotangents", "g = np.asarray(g, wanted.dtype)", "pass"),
        ("anything is an array", "if not _is_real(g):", "if False:"),
        ("complex rules are real", 'in "biuf"', 'in "biufc"'),
        ("any shape will do", "if g.shape != wanted.shape:", "if False:"),
        ("no rule may leave broadcasting to the engine", "if not _lies_between(", "if True or not _lies_between("),
        ("forward mode knows the cotangent's shape alone", "if diagonal else []", "if False else []"),
        ("every rule may spread over its residuals", "if diagonal else []", "if True else []"),
        ("a rule need not spread", "np.broadcast_shapes(wanted, given) == given and ", ""),
        ("a rule may spread over anything", " and np.broadcast_shapes(given, whole) == whole", ""),
        ("shapes that do not broadcast fit", "except ValueError:\n        return False", "except ValueError:\n        return True"),
        ("the rule does not get what it reads", "given = {n: named[n] for n in read}", "given = {n: ct for n in read}"),
    ),
    *_table(
        "chainrule.core.primitive",
        ("rules from outside are trusted", "if not (self.is_ours or self.variadic):", "if False:"),
        ("one rule of the library's own vouches for all", "all(rule is None or checked.is_ours(rule)", "any(rule is None or checked.is_ours(rule)"),
        ("users' operations are listed", "if listed:\n", "if True:\n"),
    ),
    *_table(
        "chainrule.backward",
        ("a second gradient replaces the first", "total = g if leaf.grad is None else leaf.grad + g", "total = g"),
        ("two leaves share one gradient", "or id(total) in owned:", ":"),
        ("the upstream gradient is shared", "owned = {id(ct.data if create_graph else ct)}", "owned = set()"),
        ("a gradient looks at other memory", "or total.base is not None or", "or"),
        ("given gradients are not remembered", "owned.add(id(total))", "pass"),
        ("a leaf told anew gets the old gradient", "if leaf is not None and (leaf.node is node or memory_of(leaf.node) is node):", "if leaf is not None:"),
        ("a leaf that is gone is missed", "if leaf is not None and (leaf.node is node or memory_of(leaf.node) is node):", "if leaf.node is node:"),
        ("the graph is kept unasked", "free=not retain_graph", "free=False"),
        ("retain_graph is not looked at", "free=not retain_graph", "free=True"),
        ("recorded gradients share memory", "shared = id(data) in owned or", "shared ="),
        ("recorded gradients look at other memory", ' or getattr(data, "base", None) is not None', ""),
        ("recorded gradients are not remembered", "owned.add(id(data))", "pass"),
        ("a copied gradient loses its graph", "return wrap(own_copy(data), g.node) if", "return wrap(own_copy(data), None) if"),
        ("a number's cotangent has the dtype of the first", "one: Any = _ones.get(dtype)", "one: Any = next(iter(_ones.values()), None)"),
        ("the upstream gradient loses its graph", "ct: Any = cotangent if graph and is_tensor(cotangent) else raw(cotangent)", "ct: Any = raw(cotangent)"),
        ("a recorded walk shares the upstream gradient", "ct, copy=graph)", "ct, copy=False)"),
        ("an upstream gradient of any shape", "if ct.shape != y.shape:", "if False:"),
        ("a complex upstream gradient", 'if dtype_kind(ct.dtype) == "c" and', "if False and"),
        ("an upstream gradient of any dtype", "ct = ct if ct.dtype == y.dtype else views.cast(ct, y.dtype)", "pass"),
        ("an array is a loss", "if y.size != 1:", "if False:"),
        ("gradients are handed out as the walk found them", "else own_copy(g))", "else g)"),
        ("recorded gradients are arrays where nothing was reached", "wrap(g, None) if create_graph else", "g if create_graph else"),
    ),
    *_table(
        "chainrule.in_place",
        ("leaves are overwritten while recording", "if node is not None and node[1] is None:\n            fault", "if False:\n            fault"),
        ("updates under no_grad are recorded", "if modes.paused and modes.is_paused():\n            return False", "pass"),
        ("a rebound tensor keeps its old graph", "self.data, self.node, self.shared = result.data, result.node,", "self.data, _, self.shared = result.data, result.node,"),
        ("a constant takes no graph", "if node is None and not (is_tensor(other) and other.node is not None):", "if node is None:"),
        ("entries are written without asking", "before = before_write(self)\n            self._opened(value", "before = 0\n            self._opened(value"),
        ("updates are written without asking", "before = before_write(self)\n        self._opened(other)", "before = 0\n        self._opened(other)"),
        ("a failed write of entries counts", "take_back(self, before)\n                raise", "raise"),
        ("a failed update counts", 'take_back(self, before)\n            if "read', 'if "read'),
        ("a rebound tensor takes any shape", "if result.shape != self.shape:", "if False:"),
        ("a rebound tensor takes any dtype", "if result.dtype != self.dtype:", "if False:"),
        ("a rebound tensor drops fractions", 'if not np.can_cast(result.dtype, self.dtype, "same_kind"):', "if False:"),
    ),
    *_table(
        "chainrule.tensor",
        ("a new leaf shares memory", 'if getattr(self, "shared", False) or is_number(self.data):', "if is_number(self.data):"),
        ("a detached value shares memory unnoticed", "share(self, result)", "pass"),
        ("a tensor turns into an array in silence", "if self.node is not None:\n            fault = \"a tensor that wants", "if False:\n            fault = \"a tensor that wants"),
        ("an entry of an array loses its graph in silence", "if self.node is not None and _is_entry_of_an_array", "if False and _is_entry_of_an_array"),
        ("no tensor with a graph is a float", " and _is_entry_of_an_array(sys._getframe(1))", ""),
        ("new tensors share memory", "self.data = data.copy() if plain", "self.data = data if plain"),
        ("copies share their gradient", "return None if grad is None else own_copy(raw(grad))", "return grad"),
        ("retain_graph does not follow create_graph", "create_graph if retain_graph is None else retain_graph", "False if retain_graph is None else retain_graph"),
    ),
    *_table(
        "chainrule.core.calls",
        ("traced numbers are strong", "return beside_strong(value, beside) if value.weak else value", "return value"),
        ("numbers made of traced numbers are strong", "out.weak = not strong and primitive.name in _ARITHMETIC", "out.weak = False and primitive.name in _ARITHMETIC"),
        ("everything made of traced numbers is a number", "not strong and primitive.name in _ARITHMETIC and all(", "not strong and all("),
        ("views of traced arrays are copies", "out.look_at(datas[0], primitive, parameters)", "pass"),
        ("entries of traced arrays are views", "and not (datas[0].fixed or out.fixed):", "and not datas[0].fixed:"),
        ("a trace does not note where NaN may hide", "trace.watched.append(data.equation)", "pass"),
    ),
    *_table(
        "chainrule.core.equations",
        ("constants are not copied", "else np.array(data)  # one value", "else data  # one value"),
        ("a constant is taken for an earlier one", " and known[1].source.tobytes() == data.tobytes()", ""),
        ("traced numbers are written to", "parameters, shape, dtype), fixed=shape == ())", "parameters, shape, dtype))"),
        ("walks are not noted", "self.flagged += [", "_ = ["),
        ("every draw of a block around is of that block", "self.generator = around()", "self.generator = None"),
    ),
    *_table(
        "chainrule.core.generators",
        ("a checkpoint draws anew in a trace", "equation = draws.traced.pop()", "pass"),
        ("a checkpoint draws in the wrong order in a trace", "list(reversed(self.traced))", "list(self.traced)"),
        ("checkpoints within checkpoints do not note draws", "draws.traced.append(equation)", "pass"),
        ("a block inside a trace is not seen", "Draw(None if found is trace.generator else found,", "Draw(None,"),
    ),
    *_table(
        "chainrule.boxes",
        ("the source of a view does not see a write", "_put(source, _written_back(source, seen, primitive.name, parameters))", "pass"),
        ("views do not see a write", "_put(view, primitive.call(source, *parameters))", "pass"),
        ("other views do not see a write to one", "_show(source, seen)", "pass"),
        ("views of an array do not see its writes", "_show(box, None)", "pass"),
        ("any two arrays look alike", "_look_alike(source, view, name)", "pass"),
        ("any dtype can be written", 'if not np.can_cast(value.dtype, box.dtype, "same_kind"):', "if False:"),
        ("a branch does not note its writes", "trace.writes(box)", "pass"),
    ),
    *_table(
        "chainrule.walks.reverse",
        ("a careful trace is not careful", "careful = careful or (trace is not None and trace.careful)", "pass"),
        ("a trace does not note what a walk gave", "trace.walked(raw(ct) for _, ct in found)", "pass"),
    ),
    *_table(
        "chainrule.walks.forward",
        ("a careful trace is not careful", "tangents.get, trace is not None and trace.careful", "tangents.get, False"),
        ("a trace does not note what a walk gave", "trace.walked(raw(t) for t in tangents.values())", "pass"),
    ),
    *_table(
        "chainrule.modes",
        ("paused here is paused everywhere", "return _paused.get()", "return True"),
    ),
]  # fmt: skip
