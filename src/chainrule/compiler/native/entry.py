"""The function that Python calls: LLVM text, the same for every program.

It looks at every argument, makes the fresh outputs, and runs the program.  What a program needs stands in its context,
an array that Python hands over as `self`; so this text is compiled once, and programs hold no addresses and can be kept
on disk.
"""

from __future__ import annotations

from chainrule.compiler.native import arguments, frame, outputs
from chainrule.compiler.native.assembly import expand
from chainrule.compiler.native.layout import Layout
from chainrule.compiler.native.records import InputRecord, OutputRecord, offset, slot

_DECLARATIONS = """
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @PyErr_SetNone(ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @run(ptr, ptr, ptr, i64, i64)
"""


def text(at: Layout) -> str:
    """The module's text; `run` is the one of `spmd`."""
    return expand(_DECLARATIONS + arguments.text(at) + outputs.text(at) + _entry(at))


def _entry(at: Layout) -> str:
    def read(kind: str, name: str) -> str:
        """Load an entry of the context."""
        return f"%{name} = load {kind}, [%context + {slot(name)}]"

    return f"""
@wrong.tuple = private constant [35 x i8] c"a compiled program takes one tuple\\00"

define ptr @entry(ptr %self, ptr %values) {{
entry:
  %context = load ptr, [%self + {at.data}]
  {read("i64", "inputs")}
  {read("i64", "outputs")}
  {read("ptr", "tuple_type")}
  %values.type = load ptr, [%values + {at.type}]
  %is.tuple = icmp eq ptr %values.type, %tuple_type
  br i1 %is.tuple, label %counting, label %misused
counting:
  %length = load i64, [%values + {at.length}]
  %complete = icmp eq i64 %length, %inputs
  br i1 %complete, label %start, label %misused
misused:
  {read("ptr", "type_error")}
  call void @PyErr_SetString(ptr %type_error, ptr @wrong.tuple)
  ret ptr null

start:
  %items = getelementptr i8, ptr %values, i64 {at.items}
  {read("i64", "frame_bytes")}
  %frame = alloca i8, i64 %frame_bytes, align 64
  store i64 0, ptr %frame
  store i64 0, [%frame + {frame.BARRIER}]
  %arrays = getelementptr i8, ptr %frame, i64 {frame.ARRAYS}
  {read("i64", "ends")}
  %ends.base = getelementptr i8, ptr %frame, i64 %ends
  {read("i64", "numbers")}
  %numbers.base = getelementptr i8, ptr %frame, i64 %numbers
  {read("ptr", "array_type")}
  {read("ptr", "float_type")}
  {read("ptr", "int_type")}
  {read("ptr", "input_records")}
  {read("i64", "written")}
  {read("ptr", "written_list")}
  %any = icmp ne i64 %inputs, 0
  br i1 %any, label %argument, label %allocate

argument:
  %i = phi i64 [0, %start], [%i.next, %fits]
  %object = load ptr, [%items + 8 * %i]
  %record = getelementptr [{len(InputRecord._fields)} x i64], ptr %input_records, i64 %i
  %beside = getelementptr i64, ptr %numbers.base, i64 %i
  %taken = call ptr @look(ptr %object, ptr %record, ptr %array_type, ptr %float_type, ptr %int_type, ptr %beside)
  %wrong = icmp eq ptr %taken, null
  br i1 %wrong, label %misfit, label %fits
fits:
  store ptr %taken, [%arrays + 8 * %i]
  %bytes = load i64, [%record + {offset(InputRecord, "bytes")}]
  %first.byte = ptrtoint ptr %taken to i64
  %last.byte = add i64 %first.byte, %bytes
  %empty = icmp eq i64 %bytes, 0
  %end = select i1 %empty, i64 0, i64 %last.byte
  store i64 %end, [%ends.base + 8 * %i]
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %inputs
  br i1 %more, label %argument, label %guarded
guarded:
  %writes = icmp ne i64 %written, 0
  br i1 %writes, label %apart, label %allocate
apart:
  %met = call i64 @overlapping(ptr %arrays, ptr %ends.base, i64 %inputs, ptr %written_list, i64 %written)
  %alone = icmp slt i64 %met, 0
  br i1 %alone, label %allocate, label %misfit
misfit:
  %which = phi i64 [%i, %argument], [%met, %apart]
  %code = add i64 %which, 1
  %told = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %told

allocate:
  {read("ptr", "output_records")}
  {read("ptr", "new")}
  {read("ptr", "spares")}
  %made = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %made, null
  br i1 %no.tuple, label %failed, label %output
output:
  %o = phi i64 [0, %allocate], [%o.next, %output.made]
  %more.outputs = icmp slt i64 %o, %outputs
  br i1 %more.outputs, label %output.make, label %room
output.make:
  %out = getelementptr [{len(OutputRecord._fields)} x i64], ptr %output_records, i64 %o
  %fresh = call ptr @fresh(i64 %o, ptr %out, ptr %spares, ptr %array_type, ptr %new)
  %no.array = icmp eq ptr %fresh, null
  br i1 %no.array, label %abandon, label %output.made
output.made:
  %set = call i32 @PyTuple_SetItem(ptr %made, i64 %o, ptr %fresh)
  %fresh.data = load ptr, [%fresh + {at.data}]
  %place = add i64 %inputs, %o
  store ptr %fresh.data, [%arrays + 8 * %place]
  %o.next = add i64 %o, 1
  br label %output

; memory to work in: the program's own, unless another call is using it
room:
  {read("i64", "workspace_bytes")}
  {read("ptr", "workspace")}
  {read("ptr", "constants")}
  %claim = cmpxchg [%context + {slot("busy")}], i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %claim, 1
  br i1 %mine, label %ready, label %borrow
borrow:
  %enough = add i64 %workspace_bytes, 64
  %block = call ptr @malloc(i64 %enough)
  %none.left = icmp eq ptr %block, null
  br i1 %none.left, label %exhausted, label %borrowed
borrowed:
  %block.address = ptrtoint ptr %block to i64
  %block.up = add i64 %block.address, 63
  %block.whole = and i64 %block.up, -64
  %block.aligned = inttoptr i64 %block.whole to ptr
  br label %ready
ready:
  %lent = phi ptr [null, %room], [%block, %borrowed]
  %space = phi ptr [%workspace, %room], [%block.aligned, %borrowed]
  store ptr %space, [%frame + {frame.WORKSPACE}]
  store ptr %constants, [%frame + {frame.CONSTANTS}]
  {read("ptr", "pool")}
  {read("ptr", "part")}
  {read("i64", "threads")}
  {read("i64", "long")}
  %failure = call i32 @run(ptr %pool, ptr %part, ptr %frame, i64 %threads, i64 %long)
  br i1 %mine, label %release, label %return.block
release:
  store atomic i64 0, [%context + {slot("busy")}] release, align 8
  br label %ended
return.block:
  call void @free(ptr %lent)
  br label %ended
ended:
  %well = icmp eq i32 %failure, 0
  br i1 %well, label %success, label %failing
success:
  ret ptr %made
failing:
  call void @Py_DecRef(ptr %made)
  %beyond = trunc i32 %failure to i1
  br i1 %beyond, label %out.of.range, label %careful
careful:
  {read("ptr", "none")}
  call void @Py_IncRef(ptr %none)
  ret ptr %none
out.of.range:
  {read("ptr", "out_of_range")}
  call void @PyErr_SetNone(ptr %out_of_range)
  ret ptr null
exhausted:
  %memory = call ptr @PyErr_NoMemory()
  br label %abandon
abandon:
  call void @Py_DecRef(ptr %made)
  br label %failed
failed:
  ret ptr null
}}
"""
