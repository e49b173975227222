"""A schedule becomes one LLVM module: each distinct kernel once, and the parts that call them in order.

A part is what lies between two opaque steps: `void (ptr frame, i64 thread, i64 threads)`, run by every thread at once,
each doing its share of every kernel.  The last part ends with the phase that writes into inputs, which nobody enters
once something went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chainrule.compiler.native import frame, vector_math
from chainrule.compiler.native.kernel import Call, Kernel, Opaque, Place, Schedule
from chainrule.compiler.native.writer import Writer

ATTRIBUTES = 'attributes #0 = { nounwind noinline "prefer-vector-width"="512" "no-trapping-math"="true" }'
STEPS_IN_A_FUNCTION = 64
SHARED_FROM = 5e-6  # seconds: work below this is done sooner by one thread than it is told to two
PARALLEL_FROM = (
    2.5e-3  # seconds: below, what is gained is lost again whenever one of the cores has something else to do
)
FLOP_PER_SECOND, BYTES_PER_SECOND = 60e9, 25e9  # of one thread, roughly: these only say what is small


class Module(NamedTuple):
    text: str
    parts: tuple[str | Opaque, ...]
    """Names of functions, and what NumPy does between them."""
    workspace: int
    """Bytes of the arena and of every thread's scratch memory."""
    parallel: bool
    """Whether it is worth running on several threads."""
    seconds: float
    """A rough guess at how long it runs on one."""


def duration(kernel: Kernel) -> float:
    """A rough guess, in seconds."""
    return max(kernel.flop / FLOP_PER_SECOND, kernel.moved / BYTES_PER_SECOND)


def build(
    schedule: Schedule,
    inputs: int,
    architecture: str,
    threads: int = 1,
    *,
    repeats: Sequence[int] = (),
    avx512: bool = False,
) -> Module:
    """The text of a program with so many inputs, for at most `threads` threads.

    `repeats`, for one thread: each step runs so many times, and notes when it began and when it ended.
    """
    calls = [step for step in schedule.steps if isinstance(step, Call)]
    seconds = sum(duration(call.kernel) for call in calls)
    parallel = threads > 1 and seconds >= PARALLEL_FROM and any(_shared(call.kernel) for call in calls)
    scratch = max([(call.kernel.scratch + 63) // 64 * 64 for call in calls], default=0)
    arena = (schedule.arena + 63) // 64 * 64
    emitter = _Emitter(schedule, inputs, architecture, parallel, arena, scratch, repeats)
    parts = emitter.parts()
    text = "\n".join([*emitter.kernels(avx512), *emitter.functions, ATTRIBUTES, ""])
    return Module(text, tuple(parts), arena + scratch * (threads if parallel else 1), parallel, seconds)


def _shared(kernel: Kernel) -> bool:
    return kernel.extent > 1 and duration(kernel) >= SHARED_FROM


class _Emitter:
    def __init__(
        self,
        schedule: Schedule,
        inputs: int,
        architecture: str,
        parallel: bool,
        arena: int,
        scratch: int,
        repeats: Sequence[int],
    ) -> None:
        self.schedule, self.architecture, self.parallel = schedule, architecture, parallel
        self.arena, self.scratch, self.repeats = arena, scratch, repeats
        self.inputs = inputs
        self.distinct: dict[tuple[str, int], tuple[str, Kernel]] = {}
        self.functions: list[str] = []
        self.declarations: set[str] = set()
        self._barriers = 0
        self._since = ""
        """Who has worked since the last barrier: nobody, the first thread "alone", or all, "shared"."""

    # ------------------------------------------------------------ parts
    def parts(self) -> list[str | Opaque]:
        """Write all parts; the commit phase lies in the last one, which is always there."""
        made: list[str | Opaque] = []
        steps, commit = self.schedule.steps, self.schedule.commit
        first = 0
        for k, step in enumerate(steps[:commit]):
            if isinstance(step, Opaque):
                if first < k:
                    made.append(self.part(len(made), first, k, k))
                made.append(step)
                first = k + 1
        made.append(self.part(len(made), first, commit, len(steps)))
        return made

    def part(self, number: int, first: int, last: int, end: int) -> str:
        """`steps[first:last]`, then `steps[last:end]`, which write into inputs, if all went well."""
        w, name = Writer(), f"part{number}"
        self._barriers = 0
        self._since = ""
        checked = min(self.schedule.checked, last)
        if first < checked:
            _clear_flag(w, self.architecture)
            self._stretch(w, name, first, checked)
            _note_flag(w, self.architecture)
        self._stretch(w, name, max(first, checked), last)
        if last < end:
            if self.parallel:
                self._barrier(w)  # until all have noted their flags
            both = w.value("load atomic i64, ptr %frame monotonic, align 8")
            w.when(w.value(f"icmp eq i64 {both}, 0"), lambda: self._stretch(w, name, last, end))
        self._function(f"@{name}", w)
        return name

    def _stretch(self, w: Writer, part: str, first: int, last: int) -> None:
        """Some steps, in functions of a few each: LLVM takes time that grows with the square of a function's length."""
        for begin in range(first, last, STEPS_IN_A_FUNCTION):
            inner, name = Writer(), f"@{part}.{begin}"
            inner.line(f"%at = getelementptr i8, ptr %frame, i64 {frame.WORKSPACE}")
            inner.line("%workspace = load ptr, ptr %at")
            offset = inner.multiply_add("%thread", self.scratch, str(self.arena))
            inner.line(f"%scratch = getelementptr i8, ptr %workspace, i64 {offset}")
            for k in range(begin, min(begin + STEPS_IN_A_FUNCTION, last)):
                step = self.schedule.steps[k]
                assert isinstance(step, Call)
                self.step(inner, step, k)
            self._function(name, inner)
            w.line(f"call void {name}(ptr %frame, i64 %thread, i64 %threads)")

    def _function(self, name: str, w: Writer) -> None:
        linkage = "internal " if "." in name else ""
        self.declarations |= w.declarations
        head = f"define {linkage}void {name}(ptr %frame, i64 %thread, i64 %threads) #0 {{\nentry:"
        self.functions.append("\n".join([head, *w.lines, "  ret void", "}"]))

    def step(self, w: Writer, call: Call, number: int) -> None:
        """One kernel, after a barrier unless the first thread alone has worked since the last one and goes on alone."""
        kernel = call.kernel
        if kernel.extent < 1:
            return
        shared = self.parallel and _shared(kernel)
        if self._since == "shared" or (self._since == "alone" and shared):
            self._barrier(w)
        self._since = "shared" if shared else "alone" if self.parallel else ""
        name = self._named(kernel)
        if self.repeats:
            _stamp(w, self.architecture, 2 * number)
        pointers = [f"ptr {self._pointer(w, place)}" for place in call.operands]

        def invoke(begin: str, end: str) -> None:
            w.line(
                f"call void @{name}({', '.join([*pointers, 'ptr %scratch', 'ptr %frame', f'i64 {begin}', f'i64 {end}'])})"
            )

        def whole(_: str, __: list[str]) -> None:
            invoke("0", str(kernel.extent))

        if shared:
            begin = w.value(f"udiv i64 {w.value(f'mul i64 %thread, {kernel.extent}')}, %threads")
            following = w.value("add i64 %thread, 1")
            end = w.value(f"udiv i64 {w.value(f'mul i64 {following}, {kernel.extent}')}, %threads")
            w.when(w.value(f"icmp ult i64 {begin}, {end}"), lambda: invoke(begin, end))
        elif self.parallel:
            w.when(w.value("icmp eq i64 %thread, 0"), lambda: invoke("0", str(kernel.extent)))
        elif self.repeats:
            w.loop(self.repeats[number], whole)
        else:
            invoke("0", str(kernel.extent))
        if self.repeats:
            _stamp(w, self.architecture, 2 * number + 1)

    def _barrier(self, w: Writer) -> None:
        """All threads of the call wait for each other.  The counter only grows, so that nobody has to reset it."""
        self._barriers += 1
        self._since = ""
        counter = w.value(f"getelementptr i8, ptr %frame, i64 {frame.BARRIER}")
        target = w.value(f"mul i64 %threads, {self._barriers}")
        w.declarations.add("declare void @chainrule_barrier(ptr, i64)")
        w.line(f"call void @chainrule_barrier(ptr {counter}, i64 {target})")

    def _pointer(self, w: Writer, place: Place) -> str:
        kind, number = place
        if kind == "arena":
            return w.value(f"getelementptr i8, ptr %workspace, i64 {number}") if number else "%workspace"
        if kind == "constant":
            at = w.value(f"getelementptr i8, ptr %frame, i64 {frame.CONSTANTS}")
            table = w.value(f"load ptr, ptr {at}")
            return w.value(f"load ptr, ptr {w.value(f'getelementptr ptr, ptr {table}, i64 {number}')}")
        slot = number if kind == "input" else self.inputs + number
        return w.value(f"load ptr, ptr {w.value(f'getelementptr i8, ptr %frame, i64 {frame.ARRAYS + 8 * slot}')}")

    # ------------------------------------------------------------ kernels
    def _named(self, kernel: Kernel) -> str:
        key = (kernel.body, kernel.operands)
        name, _ = self.distinct.setdefault(key, (f"kernel{len(self.distinct)}", kernel))
        return name

    def kernels(self, avx512: bool) -> list[str]:
        """Vector functions, declarations, and the kernels themselves."""
        texts: list[str] = []
        for body, operands in self.distinct:
            name, _ = self.distinct[body, operands]
            parameters = [*(f"ptr noalias %a{k}" for k in range(operands)), "ptr %scratch", "ptr %status", "i64 %begin", "i64 %end"]  # fmt: skip
            end = "" if body.rstrip().endswith("ret void") else "\n  ret void"
            texts.append(f"define internal void @{name}({', '.join(parameters)}) #0 {{\nentry:\n{body}{end}\n}}")
        functions = sorted({f for _, kernel in self.distinct.values() for f in kernel.functions})
        declared = self.declarations.union(*(kernel.declarations for _, kernel in self.distinct.values()))
        for each in functions:
            texts.append(vector_math.function(*each, avx512))
            declared |= vector_math.declarations(*each, avx512)
        return [*sorted(declared), *texts]


# ---------------------------------------------------------------- what differs from processor to processor
def _clear_flag(w: Writer, architecture: str) -> None:
    """Lower the invalid flag of this thread."""
    if architecture in ("x86_64", "i686"):
        w.declarations |= {"declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"}
        w.line("%control = alloca i32")
        w.line("call void @llvm.x86.sse.stmxcsr(ptr %control)")
        before = w.value("load i32, ptr %control")
        w.line(f"store i32 {w.value(f'and i32 {before}, -2')}, ptr %control")
        w.line("call void @llvm.x86.sse.ldmxcsr(ptr %control)")
    elif architecture == "aarch64":
        w.declarations |= {"declare i64 @llvm.aarch64.get.fpsr()", "declare void @llvm.aarch64.set.fpsr(i64)"}
        before = w.value("call i64 @llvm.aarch64.get.fpsr()")
        w.line(f"call void @llvm.aarch64.set.fpsr(i64 {w.value(f'and i64 {before}, -2')})")
    else:
        w.declarations.add("declare i32 @feclearexcept(i32)")
        w.value(f"call i32 @feclearexcept(i32 {invalid_mask()})")


def _note_flag(w: Writer, architecture: str) -> None:
    """Put CAREFUL into the frame if this thread's invalid flag is up."""
    if architecture in ("x86_64", "i686"):
        w.line("call void @llvm.x86.sse.stmxcsr(ptr %control)")
        up = w.value(f"and i32 {w.value('load i32, ptr %control')}, 1")
    elif architecture == "aarch64":
        state = w.value("call i64 @llvm.aarch64.get.fpsr()")
        up = w.value(f"and i32 {w.value(f'trunc i64 {state} to i32')}, 1")
    else:
        w.declarations.add("declare i32 @fetestexcept(i32)")
        up = w.value(f"call i32 @fetestexcept(i32 {invalid_mask()})")

    def note() -> None:
        flags = w.value(f"getelementptr i8, ptr %frame, i64 {frame.FLAGS}")
        w.line(f"store atomic i32 {frame.CAREFUL}, ptr {flags} monotonic, align 4")

    w.when(w.value(f"icmp ne i32 {up}, 0"), note)


def _stamp(w: Writer, architecture: str, number: int) -> None:
    """Note the counter of cycles, or of another steady clock."""
    if architecture == "aarch64":  # where user programs may not read the cycles
        w.declarations |= {"declare i64 @llvm.read_volatile_register.i64(metadata)", '!9 = !{!"cntvct_el0"}'}
        now = w.value("call i64 @llvm.read_volatile_register.i64(metadata !9)")
    else:
        if architecture == "x86_64":  # what came before must have ended
            w.declarations.add("declare void @llvm.x86.sse2.lfence()")
            w.line("call void @llvm.x86.sse2.lfence()")
        w.declarations.add("declare i64 @llvm.readcyclecounter()")
        now = w.value("call i64 @llvm.readcyclecounter()")
    times = w.value(f"load ptr, ptr {w.value(f'getelementptr i8, ptr %frame, i64 {frame.TIMES}')}")
    w.line(f"store i64 {now}, ptr {w.value(f'getelementptr i64, ptr {times}, i64 {number}')}")


def invalid_mask() -> int:
    """C's FE_INVALID: what a root of -1 raises.  Processors number their exceptions differently."""
    import ctypes

    library = ctypes.CDLL(None)
    library.sqrt.restype, library.sqrt.argtypes = ctypes.c_double, [ctypes.c_double]
    library.feclearexcept(-1)
    library.sqrt(-1.0)
    return int(library.fetestexcept(-1))
