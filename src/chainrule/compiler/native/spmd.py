"""How threads share a program: LLVM text of `run`, `worker` and `chainrule_barrier`.

All threads of the pool run the same part, each its share of every kernel, and meet at barriers in between.  They are
told once per call, through a pool: memory in which a generation counts the calls.  A worker that has nothing to do
watches the generation for a moment, since the next call often follows at once, and then sleeps on a condition.
Whoever finds the pool taken, by another Python thread, runs alone: the share never changes the bits.

Every wait is on a counter that only grows, so that nothing must be reset and nobody can miss a change.
"""

from __future__ import annotations

from chainrule.compiler.native.assembly import expand

GENERATION, FUNCTION, FRAME, THREADS, DONE, TAKEN, STOP, SLEEPERS, MUTEX, CONDITION = 0, 64, 72, 80, 128, 192, 256, 264, 320, 384  # fmt: skip
"""Offsets in a pool.  What different threads write lies on different cache lines."""
POOL_BYTES = 512
WATCHING = 8000  # looks at the generation before a worker sleeps, 15-40 ns each: longer than Python needs between calls
PATIENCE = 1000  # looks at a barrier before the system may run somebody else on this core


def text(architecture: str, *, threads: bool) -> str:
    """`threads`: whether the system has POSIX threads; without them a program runs alone."""
    pause = {
        "x86_64": "call void @llvm.x86.sse2.pause()",
        "aarch64": "call void @llvm.aarch64.hint(i32 1)",
    }.get(architecture, "fence acq_rel")
    declared = {
        "x86_64": "declare void @llvm.x86.sse2.pause()\n",
        "aarch64": "declare void @llvm.aarch64.hint(i32)\n",
    }.get(architecture, "")
    return declared + expand((_COMMON + (_POOL if threads else _ALONE)).replace("PAUSE", pause))


_COMMON = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; The part on this thread only; i32 bits that say what went wrong.
define i32 @alone(ptr %part, ptr %frame, i64 %long) {
entry:
  %release = icmp ne i64 %long, 0
  br i1 %release, label %others, label %quick
quick:
  call void %part(ptr %frame, i64 0, i64 1)
  br label %after
others:
  %state = call ptr @PyEval_SaveThread()
  call void %part(ptr %frame, i64 0, i64 1)
  call void @PyEval_RestoreThread(ptr %state)
  br label %after
after:
  %failure = call i32 @outcome(ptr %frame)
  ret i32 %failure
}

define internal i32 @outcome(ptr %frame) {
entry:
  %status = load i32, ptr %frame
  %flags = load i32, [%frame + 4]
  %both = or i32 %status, %flags
  ret i32 %both
}
"""

_ALONE = """
define i32 @run(ptr %cell, ptr %part, ptr %frame, i64 %threads, i64 %long) {
entry:
  %failure = call i32 @alone(ptr %part, ptr %frame, i64 %long)
  ret i32 %failure
}
"""

_POOL = f"""
declare i32 @sched_yield()
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

; Wait until the counter has reached the target.
define internal void @reach(ptr %counter, i64 %target) {{
entry:
  br label %look
look:
  %tries = phi i64 [0, %entry], [%tries.next, %again]
  %now = load atomic i64, ptr %counter acquire, align 8
  %there = icmp uge i64 %now, %target
  br i1 %there, label %done, label %wait
wait:
  PAUSE
  %tries.next = add i64 %tries, 1
  %left = urem i64 %tries.next, {PATIENCE}
  %tired = icmp eq i64 %left, 0
  br i1 %tired, label %yield, label %again
yield:
  %_ = call i32 @sched_yield()
  br label %again
again:
  br label %look
done:
  ret void
}}

define void @chainrule_barrier(ptr %counter, i64 %target) {{
entry:
  %before = atomicrmw add ptr %counter, i64 1 acq_rel
  call void @reach(ptr %counter, i64 %target)
  ret void
}}

; Take the pool: an i1, whether it was free.
define internal i1 @take(ptr %pool) {{
entry:
  %claim = cmpxchg [%pool + {TAKEN}], i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %claim, 1
  ret i1 %mine
}}

; Begin a new generation, and wake who sleeps.  A sleeper counts itself before it looks at the generation for the last
; time, and we look for sleepers after changing it: one of the two sees the other.
define internal void @announce(ptr %pool) {{
entry:
  %before = atomicrmw add ptr %pool, i64 1 seq_cst
  %sleepers = load atomic i64, [%pool + {SLEEPERS}] seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %wake, label %done
wake:
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {CONDITION}
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}}

; Run a part on all threads of the pool in `cell`, if there is one of so many threads that is free.
define i32 @run(ptr %cell, ptr %part, ptr %frame, i64 %threads, i64 %long) {{
entry:
  %none = icmp eq ptr %cell, null
  br i1 %none, label %single, label %find
find:
  %pool = load ptr, ptr %cell
  %gone = icmp eq ptr %pool, null
  br i1 %gone, label %single, label %count
count:
  %members = load i64, [%pool + {THREADS}]
  %fits = icmp eq i64 %members, %threads
  br i1 %fits, label %try, label %single
try:
  %mine = call i1 @take(ptr %pool)
  br i1 %mine, label %together, label %single
single:
  %failure.single = call i32 @alone(ptr %part, ptr %frame, i64 %long)
  ret i32 %failure.single
together:
  %state = call ptr @PyEval_SaveThread()
  store ptr %part, [%pool + {FUNCTION}]
  store ptr %frame, [%pool + {FRAME}]
  store atomic i64 0, [%pool + {DONE}] monotonic, align 8
  call void @announce(ptr %pool)
  call void %part(ptr %frame, i64 0, i64 %threads)
  %workers = sub i64 %threads, 1
  call void @reach([%pool + {DONE}], i64 %workers)
  %failure = call i32 @outcome(ptr %frame)
  store atomic i64 0, [%pool + {TAKEN}] release, align 8
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %failure
}}

; The life of a thread of the pool; it ends when the pool is stopped.
define void @worker(ptr %pool, i64 %thread) {{
entry:
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 {CONDITION}
  %threads = load i64, [%pool + {THREADS}]
  br label %idle
idle:
  %seen = phi i64 [0, %entry], [%seen.next, %work]
  %seen.next = add i64 %seen, 1
  br label %watch
watch:
  %looks = phi i64 [0, %idle], [%looks.next, %watch.on]
  %now = load atomic i64, ptr %pool acquire, align 8
  %new = icmp ne i64 %now, %seen
  br i1 %new, label %told, label %watch.on
watch.on:
  PAUSE
  %looks.next = add i64 %looks, 1
  %bored = icmp uge i64 %looks.next, {WATCHING}
  br i1 %bored, label %lie.down, label %watch
lie.down:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %others = atomicrmw add [%pool + {SLEEPERS}], i64 1 seq_cst
  br label %asleep
asleep:
  %then = load atomic i64, ptr %pool seq_cst, align 8
  %called = icmp ne i64 %then, %seen
  br i1 %called, label %get.up, label %sleep
sleep:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %asleep
get.up:
  %fewer = atomicrmw sub [%pool + {SLEEPERS}], i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %told
told:
  %stopped = load atomic i32, [%pool + {STOP}] acquire, align 4
  %over = icmp ne i32 %stopped, 0
  br i1 %over, label %end, label %work
work:
  %function = load ptr, [%pool + {FUNCTION}]
  %frame = load ptr, [%pool + {FRAME}]
  call void %function(ptr %frame, i64 %thread, i64 %threads)
  %finished = atomicrmw add [%pool + {DONE}], i64 1 release
  br label %idle
end:
  ret void
}}

; End all workers, after the run that has the pool.  The pool stays taken for good.
define void @halt(ptr %pool) {{
entry:
  br label %ask
ask:
  %mine = call i1 @take(ptr %pool)
  br i1 %mine, label %now, label %later
later:
  %_ = call i32 @sched_yield()
  br label %ask
now:
  store atomic i32 1, [%pool + {STOP}] release, align 4
  call void @announce(ptr %pool)
  ret void
}}
"""
