"""The function that Python calls: LLVM text, the same for every program.

It looks at every argument before it takes an address from it, makes the fresh outputs, and runs the program.  What a
program needs stands in its context, an array that Python hands over as `self`; so this text is compiled once, and
programs hold no addresses and can be kept on disk.
"""

from __future__ import annotations

from typing import NamedTuple

from chainrule.compiler.native import frame
from chainrule.compiler.native.layout import Layout, swapped_order

CONTEXT = (
    "array_type", "tuple_type", "float_type", "int_type", "none", "out_of_range", "type_error", "new", "part", "inputs",
    "outputs", "written", "workspace", "busy", "workspace_bytes", "frame_bytes", "ends", "numbers", "constants",
    "input_records", "output_records", "written_list", "pool", "threads", "long", "spares",
)  # fmt: skip
"""What stands in a context, an i64 each: addresses and numbers.

`written`: how many inputs that are not empty are written, whose numbers are `written_list`; `busy`: 1 while a call uses
the workspace; `ends`, `numbers`: offsets in the frame; `pool`: address of the address of the threads' pool, or 0;
`threads`: for how many the workspace is; `long`: whether other Python threads may run meanwhile; `spares`: a list of
two places for each output, where its last arrays are kept: one that nobody else holds any more is handed out again.
"""


class InputRecord(NamedTuple):
    """What an argument must be: eight i64."""

    descriptor: int
    numbers: int
    """A bit for each of NumPy's type numbers that will do, where the descriptor is another object."""
    ndim: int
    shape: int
    bytes: int
    flags: int
    misaligned: int
    """Bits of the address that must be 0."""
    number: int
    """1: a Python float will do, 2: a Python int, 0: neither."""


class OutputRecord(NamedTuple):
    """What a fresh output is: four i64."""

    descriptor: int
    ndim: int
    shape: int
    turn: int = 0
    """Which of the two places the next new array goes in."""


CONTIGUOUS, OWNED, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400
"""NumPy's flags."""

DECLARATIONS = """
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare void @PyErr_SetNone(ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare ptr @malloc(i64)
declare void @free(ptr)
declare i8 @llvm.ctpop.i8(i8)
declare i32 @run(ptr, ptr, ptr, i64, i64)
"""


def slot(name: str) -> int:
    """Offset of an entry of the context."""
    return 8 * CONTEXT.index(name)


def text(at: Layout) -> str:
    """The module's text; `run` is the one of `spmd`."""
    record = {name: 8 * k for k, name in enumerate(InputRecord._fields)}

    def read(kind: str, name: str) -> str:
        """Load an entry of the context."""
        return f"""%{name}.at = getelementptr i8, ptr %context, i64 {slot(name)}
  %{name} = load {kind}, ptr %{name}.at"""

    return f"""{DECLARATIONS}
@wrong.tuple = private constant [35 x i8] c"a compiled program takes one tuple\\00"

; Whether this is an array as `output` wants it, all in its own memory, that nobody but our list refers to.
define internal i1 @free.again(ptr %array, ptr %output, ptr %array_type) {{
entry:
  %count = load i32, ptr %array
  %single = icmp eq i32 %count, 1
  %type.at = getelementptr i8, ptr %array, i64 {at.type}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %array_type
  %ours = and i1 %single, %is.array
  br i1 %ours, label %look, label %no
look:
  %descriptor.at = getelementptr i8, ptr %array, i64 {at.descriptor}
  %descriptor = load ptr, ptr %descriptor.at
  %descriptor.wanted = load ptr, ptr %output
  %same = icmp eq ptr %descriptor, %descriptor.wanted
  %base.at = getelementptr i8, ptr %array, i64 {at.base}
  %base = load ptr, ptr %base.at
  %weak.at = getelementptr i8, ptr %array, i64 {at.weak}
  %weak = load ptr, ptr %weak.at
  %baseless = icmp eq ptr %base, null
  %unknown = icmp eq ptr %weak, null
  %flags.at = getelementptr i8, ptr %array, i64 {at.flags}
  %flags = load i32, ptr %flags.at
  %flags.wanted = and i32 %flags, {CONTIGUOUS | OWNED | ALIGNED | WRITEABLE}
  %plain = icmp eq i32 %flags.wanted, {CONTIGUOUS | OWNED | ALIGNED | WRITEABLE}
  %ndim.at = getelementptr i8, ptr %array, i64 {at.ndim}
  %ndim.short = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.short to i64
  %ndim.wanted.at = getelementptr i64, ptr %output, i64 1
  %ndim.wanted = load i64, ptr %ndim.wanted.at
  %as.many = icmp eq i64 %ndim, %ndim.wanted
  %a = and i1 %same, %baseless
  %b = and i1 %unknown, %plain
  %c = and i1 %a, %b
  %d = and i1 %c, %as.many
  %shape.at = getelementptr i8, ptr %array, i64 {at.shape}
  %shape = load ptr, ptr %shape.at
  %shape.wanted.at = getelementptr i64, ptr %output, i64 2
  %shape.wanted = load ptr, ptr %shape.wanted.at
  br i1 %d, label %axes, label %no
axes:
  %axis = phi i64 [0, %look], [%axis.next, %axis.look]
  %more = icmp slt i64 %axis, %ndim
  br i1 %more, label %axis.look, label %yes
axis.look:
  %length.at = getelementptr i64, ptr %shape, i64 %axis
  %length = load i64, ptr %length.at
  %wanted.at = getelementptr i64, ptr %shape.wanted, i64 %axis
  %wanted = load i64, ptr %wanted.at
  %axis.next = add i64 %axis, 1
  %fits = icmp eq i64 %length, %wanted
  br i1 %fits, label %axes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define ptr @entry(ptr %self, ptr %values) {{
entry:
  %context.at = getelementptr i8, ptr %self, i64 {at.data}
  %context = load ptr, ptr %context.at
  {read("i64", "inputs")}
  {read("i64", "outputs")}
  {read("ptr", "tuple_type")}
  %values.type.at = getelementptr i8, ptr %values, i64 {at.type}
  %values.type = load ptr, ptr %values.type.at
  %is.tuple = icmp eq ptr %values.type, %tuple_type
  br i1 %is.tuple, label %counting, label %misused
counting:
  %length.at = getelementptr i8, ptr %values, i64 {at.length}
  %length = load i64, ptr %length.at
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
  %barrier = getelementptr i8, ptr %frame, i64 {frame.BARRIER}
  store i64 0, ptr %barrier
  %arrays = getelementptr i8, ptr %frame, i64 {frame.ARRAYS}
  {read("i64", "ends")}
  %ends.base = getelementptr i8, ptr %frame, i64 %ends
  {read("i64", "numbers")}
  %numbers.base = getelementptr i8, ptr %frame, i64 %numbers
  {read("ptr", "array_type")}
  {read("ptr", "float_type")}
  {read("ptr", "int_type")}
  {read("ptr", "input_records")}
  %any = icmp ne i64 %inputs, 0
  br i1 %any, label %argument, label %guarded

; ------------------------------------------------------------ each argument
argument:
  %i = phi i64 [0, %start], [%i.next, %good]
  %object.at = getelementptr ptr, ptr %items, i64 %i
  %object = load ptr, ptr %object.at
  %record = getelementptr [8 x i64], ptr %input_records, i64 %i
  %type.at = getelementptr i8, ptr %object, i64 {at.type}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %array_type
  br i1 %is.array, label %array, label %scalar
array:
  %descriptor.at = getelementptr i8, ptr %object, i64 {at.descriptor}
  %descriptor = load ptr, ptr %descriptor.at
  %descriptor.wanted = load ptr, ptr %record
  %same = icmp eq ptr %descriptor, %descriptor.wanted
  br i1 %same, label %dimensions, label %equivalent
equivalent:
  %number.at = getelementptr i8, ptr %descriptor, i64 {at.number}
  %number = load i32, ptr %number.at
  %order.at = getelementptr i8, ptr %descriptor, i64 {at.order}
  %order = load i8, ptr %order.at
  %known = icmp ult i32 %number, 64
  %native = icmp ne i8 %order, {ord(swapped_order())}
  %simple = and i1 %known, %native
  br i1 %simple, label %numbered, label %misfit
numbered:
  %allowed.at = getelementptr i8, ptr %record, i64 {record["numbers"]}
  %allowed = load i64, ptr %allowed.at
  %distance = zext i32 %number to i64
  %shifted = lshr i64 %allowed, %distance
  %bit = trunc i64 %shifted to i1
  br i1 %bit, label %dimensions, label %misfit
dimensions:
  %ndim.at = getelementptr i8, ptr %object, i64 {at.ndim}
  %ndim.short = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.short to i64
  %ndim.wanted.at = getelementptr i8, ptr %record, i64 {record["ndim"]}
  %ndim.wanted = load i64, ptr %ndim.wanted.at
  %shape.at = getelementptr i8, ptr %object, i64 {at.shape}
  %shape = load ptr, ptr %shape.at
  %shape.wanted.at = getelementptr i8, ptr %record, i64 {record["shape"]}
  %shape.wanted = load ptr, ptr %shape.wanted.at
  %as.many = icmp eq i64 %ndim, %ndim.wanted
  br i1 %as.many, label %axes, label %misfit
axes:
  %axis = phi i64 [0, %dimensions], [%axis.next, %axis.same]
  %more.axes = icmp slt i64 %axis, %ndim
  br i1 %more.axes, label %axis.look, label %flags
axis.look:
  %length.axis.at = getelementptr i64, ptr %shape, i64 %axis
  %length.axis = load i64, ptr %length.axis.at
  %wanted.at = getelementptr i64, ptr %shape.wanted, i64 %axis
  %wanted = load i64, ptr %wanted.at
  %axis.next = add i64 %axis, 1
  %fits = icmp eq i64 %length.axis, %wanted
  br i1 %fits, label %axis.same, label %misfit
axis.same:
  br label %axes
flags:
  %flags.at = getelementptr i8, ptr %object, i64 {at.flags}
  %flags.short = load i32, ptr %flags.at
  %flags.long = zext i32 %flags.short to i64
  %flags.wanted.at = getelementptr i8, ptr %record, i64 {record["flags"]}
  %flags.wanted = load i64, ptr %flags.wanted.at
  %flags.both = and i64 %flags.long, %flags.wanted
  %flags.missing = xor i64 %flags.both, %flags.wanted
  %data.at = getelementptr i8, ptr %object, i64 {at.data}
  %data = load ptr, ptr %data.at
  %address = ptrtoint ptr %data to i64
  %misaligned.at = getelementptr i8, ptr %record, i64 {record["misaligned"]}
  %misaligned = load i64, ptr %misaligned.at
  %crooked = and i64 %address, %misaligned
  %wrong = or i64 %flags.missing, %crooked
  %right = icmp eq i64 %wrong, 0
  br i1 %right, label %good, label %misfit

scalar:
  %kind.at = getelementptr i8, ptr %record, i64 {record["number"]}
  %kind = load i64, ptr %kind.at
  switch i64 %kind, label %misfit [ i64 1, label %float  i64 2, label %int ]
float:
  %is.float = icmp eq ptr %type, %float_type
  %inside = getelementptr i8, ptr %object, i64 {at.float_value}
  br i1 %is.float, label %good, label %misfit
int:
  %is.int = icmp eq ptr %type, %int_type
  br i1 %is.int, label %int.value, label %misfit
int.value:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  %beside = getelementptr i64, ptr %numbers.base, i64 %i
  store i64 %value, ptr %beside
  %doubtful = icmp eq i64 %value, -1
  br i1 %doubtful, label %int.doubtful, label %good
int.doubtful:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %good, label %int.large
int.large:
  call void @PyErr_Clear()
  br label %misfit

good:
  %taken = phi ptr [%data, %flags], [%inside, %float], [%beside, %int.value], [%beside, %int.doubtful]
  %array.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %taken, ptr %array.at
  %bytes.at = getelementptr i8, ptr %record, i64 {record["bytes"]}
  %bytes = load i64, ptr %bytes.at
  %first.byte = ptrtoint ptr %taken to i64
  %last.byte = add i64 %first.byte, %bytes
  %empty = icmp eq i64 %bytes, 0
  %end = select i1 %empty, i64 0, i64 %last.byte
  %end.at = getelementptr i64, ptr %ends.base, i64 %i
  store i64 %end, ptr %end.at
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %inputs
  br i1 %more, label %argument, label %guarded
misfit:
  %i.wrong = phi i64 [%i, %equivalent], [%i, %numbered], [%i, %dimensions], [%i, %axis.look], [%i, %flags],
      [%i, %scalar], [%i, %float], [%i, %int], [%i, %int.large], [%written.one, %overlap.done]
  %code = add i64 %i.wrong, 1
  %told = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %told

; ------------------------------------------------------------ no written array overlaps with another argument
guarded:
  {read("i64", "written")}
  {read("ptr", "written_list")}
  %writes = icmp ne i64 %written, 0
  br i1 %writes, label %padding, label %allocate
padding:
  %pad.at = getelementptr i64, ptr %ends.base, i64 %inputs
  store <8 x i64> zeroinitializer, ptr %pad.at, align 8
  br label %overlap
overlap:
  %k = phi i64 [0, %padding], [%k.next, %overlap.next]
  %which.at = getelementptr i64, ptr %written_list, i64 %k
  %written.one = load i64, ptr %which.at
  %from.at = getelementptr i64, ptr %arrays, i64 %written.one
  %from.one = load i64, ptr %from.at
  %to.at = getelementptr i64, ptr %ends.base, i64 %written.one
  %to.one = load i64, ptr %to.at
  %from.some = insertelement <8 x i64> poison, i64 %from.one, i32 0
  %from = shufflevector <8 x i64> %from.some, <8 x i64> poison, <8 x i32> zeroinitializer
  %to.some = insertelement <8 x i64> poison, i64 %to.one, i32 0
  %to = shufflevector <8 x i64> %to.some, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %eight
eight:
  %j = phi i64 [0, %overlap], [%j.next, %eight]
  %met = phi i64 [0, %overlap], [%met.now, %eight]
  %others.at = getelementptr i64, ptr %arrays, i64 %j
  %others = load <8 x i64>, ptr %others.at, align 8
  %their.at = getelementptr i64, ptr %ends.base, i64 %j
  %their.ends = load <8 x i64>, ptr %their.at, align 8
  %before = icmp ult <8 x i64> %others, %to
  %behind = icmp ult <8 x i64> %from, %their.ends
  %meets = and <8 x i1> %before, %behind
  %meets.bits = bitcast <8 x i1> %meets to i8
  %meets.count = call i8 @llvm.ctpop.i8(i8 %meets.bits)
  %meets.long = zext i8 %meets.count to i64
  %met.now = add i64 %met, %meets.long
  %j.next = add i64 %j, 8
  %eight.more = icmp slt i64 %j.next, %inputs
  br i1 %eight.more, label %eight, label %overlap.done
overlap.done:
  %only.itself = icmp eq i64 %met.now, 1
  br i1 %only.itself, label %overlap.next, label %misfit
overlap.next:
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %written
  br i1 %k.more, label %overlap, label %allocate

; ------------------------------------------------------------ fresh outputs
allocate:
  %made = call ptr @PyTuple_New(i64 %outputs)
  %no.tuple = icmp eq ptr %made, null
  br i1 %no.tuple, label %failed, label %filling
filling:
  {read("ptr", "output_records")}
  {read("ptr", "new")}
  {read("ptr", "spares")}
  %keeps.spares = icmp ne ptr %spares, null
  br label %output
output:
  %o = phi i64 [0, %filling], [%o.next, %output.made]
  %more.outputs = icmp slt i64 %o, %outputs
  br i1 %more.outputs, label %output.make, label %room
output.make:
  %out = getelementptr [4 x i64], ptr %output_records, i64 %o
  %out.descriptor = load ptr, ptr %out
  %out.ndim.at = getelementptr i64, ptr %out, i64 1
  %out.ndim.long = load i64, ptr %out.ndim.at
  %out.ndim = trunc i64 %out.ndim.long to i32
  %out.shape.at = getelementptr i64, ptr %out, i64 2
  %out.shape = load ptr, ptr %out.shape.at
  %twice = mul i64 %o, 2
  br i1 %keeps.spares, label %first.spare, label %output.new
first.spare:
  %first.array = call ptr @PyList_GetItem(ptr %spares, i64 %twice)
  %first.free = call i1 @free.again(ptr %first.array, ptr %out, ptr %array_type)
  br i1 %first.free, label %recycle, label %second.spare
second.spare:
  %twice.one = add i64 %twice, 1
  %second.array = call ptr @PyList_GetItem(ptr %spares, i64 %twice.one)
  %second.free = call i1 @free.again(ptr %second.array, ptr %out, ptr %array_type)
  br i1 %second.free, label %recycle, label %output.new
recycle:
  %again = phi ptr [%first.array, %first.spare], [%second.array, %second.spare]
  call void @Py_IncRef(ptr %again)
  br label %output.made
output.new:
  call void @Py_IncRef(ptr %out.descriptor)
  %newest = call ptr %new(ptr %array_type, ptr %out.descriptor, i32 %out.ndim, ptr %out.shape, ptr null, ptr null, i32 0, ptr null)
  %no.array = icmp eq ptr %newest, null
  br i1 %no.array, label %abandon, label %output.got
output.got:
  br i1 %keeps.spares, label %keep, label %output.made
keep:
  %turn.at = getelementptr i64, ptr %out, i64 3
  %turn = load i64, ptr %turn.at
  %turn.next = xor i64 %turn, 1
  store i64 %turn.next, ptr %turn.at
  %kept.place = add i64 %twice, %turn
  call void @Py_IncRef(ptr %newest)
  %kept = call i32 @PyList_SetItem(ptr %spares, i64 %kept.place, ptr %newest)
  br label %output.made
output.made:
  %fresh = phi ptr [%again, %recycle], [%newest, %output.got], [%newest, %keep]
  %set = call i32 @PyTuple_SetItem(ptr %made, i64 %o, ptr %fresh)
  %fresh.at = getelementptr i8, ptr %fresh, i64 {at.data}
  %fresh.data = load ptr, ptr %fresh.at
  %place = add i64 %inputs, %o
  %place.at = getelementptr ptr, ptr %arrays, i64 %place
  store ptr %fresh.data, ptr %place.at
  %o.next = add i64 %o, 1
  br label %output

; ------------------------------------------------------------ memory to work in: the program's own, unless in use
room:
  {read("i64", "workspace_bytes")}
  {read("ptr", "workspace")}
  {read("ptr", "constants")}
  %busy.at = getelementptr i8, ptr %context, i64 {slot("busy")}
  %claim = cmpxchg ptr %busy.at, i64 0, i64 1 acquire monotonic
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
  %space.at = getelementptr i8, ptr %frame, i64 {frame.WORKSPACE}
  store ptr %space, ptr %space.at
  %constants.place = getelementptr i8, ptr %frame, i64 {frame.CONSTANTS}
  store ptr %constants, ptr %constants.place
  {read("ptr", "pool")}
  {read("ptr", "part")}
  {read("i64", "threads")}
  {read("i64", "long")}
  %failure = call i32 @run(ptr %pool, ptr %part, ptr %frame, i64 %threads, i64 %long)
  br i1 %mine, label %release, label %return.block
release:
  store atomic i64 0, ptr %busy.at release, align 8
  br label %end.of.run
return.block:
  call void @free(ptr %lent)
  br label %end.of.run
end.of.run:
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
