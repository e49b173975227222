"""LLVM text that looks at arguments: nothing is read through an address before it is known to be one."""

from __future__ import annotations

from chainrule.compiler.native.layout import Layout, swapped_order
from chainrule.compiler.native.records import InputRecord, offset


def text(at: Layout) -> str:
    """`@look`, one argument, and `@overlapping`, all of them together."""

    def wanted(name: str) -> str:
        """Load an entry of the record."""
        return f"""%{name}.wanted.at = getelementptr i8, ptr %record, i64 {offset(InputRecord, name)}
  %{name}.wanted = load i64, ptr %{name}.wanted.at"""

    return f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i8 @llvm.ctpop.i8(i8)

; The address of the entries of `object`, or null if it is not what `record` says.  A Python int is put `beside`.
define internal ptr @look(ptr %object, ptr %record, ptr %array_type, ptr %float_type, ptr %int_type, ptr %beside) alwaysinline {{
entry:
  %type.at = getelementptr i8, ptr %object, i64 {at.type}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %array_type
  br i1 %is.array, label %array, label %scalar

array:
  %descriptor.at = getelementptr i8, ptr %object, i64 {at.descriptor}
  %descriptor = load i64, ptr %descriptor.at
  {wanted("descriptor")}
  %same = icmp eq i64 %descriptor, %descriptor.wanted
  br i1 %same, label %dimensions, label %equivalent
equivalent:
  %kind = inttoptr i64 %descriptor to ptr
  %number.at = getelementptr i8, ptr %kind, i64 {at.number}
  %number = load i32, ptr %number.at
  %order.at = getelementptr i8, ptr %kind, i64 {at.order}
  %order = load i8, ptr %order.at
  %known = icmp ult i32 %number, 64
  %native = icmp ne i8 %order, {ord(swapped_order())}
  %simple = and i1 %known, %native
  br i1 %simple, label %numbered, label %misfit
numbered:
  {wanted("numbers")}
  %distance = zext i32 %number to i64
  %shifted = lshr i64 %numbers.wanted, %distance
  %bit = trunc i64 %shifted to i1
  br i1 %bit, label %dimensions, label %misfit

dimensions:
  %ndim.at = getelementptr i8, ptr %object, i64 {at.ndim}
  %ndim.short = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.short to i64
  {wanted("ndim")}
  %shape.at = getelementptr i8, ptr %object, i64 {at.shape}
  %shape = load ptr, ptr %shape.at
  {wanted("shape")}
  %shape.right = inttoptr i64 %shape.wanted to ptr
  %as.many = icmp eq i64 %ndim, %ndim.wanted
  br i1 %as.many, label %axes, label %misfit
axes:
  %axis = phi i64 [0, %dimensions], [%axis.next, %axis.look]
  %more.axes = icmp slt i64 %axis, %ndim
  br i1 %more.axes, label %axis.look, label %layout
axis.look:
  %length.at = getelementptr i64, ptr %shape, i64 %axis
  %length = load i64, ptr %length.at
  %length.right.at = getelementptr i64, ptr %shape.right, i64 %axis
  %length.right = load i64, ptr %length.right.at
  %axis.next = add i64 %axis, 1
  %as.long = icmp eq i64 %length, %length.right
  br i1 %as.long, label %axes, label %misfit

layout:
  %flags.at = getelementptr i8, ptr %object, i64 {at.flags}
  %flags.short = load i32, ptr %flags.at
  %flags = zext i32 %flags.short to i64
  {wanted("flags")}
  %flags.both = and i64 %flags, %flags.wanted
  %missing = xor i64 %flags.both, %flags.wanted
  %data.at = getelementptr i8, ptr %object, i64 {at.data}
  %data = load ptr, ptr %data.at
  %address = ptrtoint ptr %data to i64
  {wanted("misaligned")}
  %crooked = and i64 %address, %misaligned.wanted
  %wrong = or i64 %missing, %crooked
  %right = icmp eq i64 %wrong, 0
  br i1 %right, label %good, label %misfit

scalar:
  {wanted("number")}
  switch i64 %number.wanted, label %misfit [ i64 1, label %float  i64 2, label %int ]
float:
  %is.float = icmp eq ptr %type, %float_type
  %inside = getelementptr i8, ptr %object, i64 {at.float_value}
  br i1 %is.float, label %good, label %misfit
int:
  %is.int = icmp eq ptr %type, %int_type
  br i1 %is.int, label %int.value, label %misfit
int.value:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
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
  %taken = phi ptr [%data, %layout], [%inside, %float], [%beside, %int.value], [%beside, %int.doubtful]
  ret ptr %taken
misfit:
  ret ptr null
}}

; The number of a written argument that overlaps with another argument, or -1.  Argument k lies from arrays[k] to ends[k],
; which is 0 for an empty one; so many zeros follow that they can be looked at by eights.
define internal i64 @overlapping(ptr %arrays, ptr %ends, i64 %inputs, ptr %written_list, i64 %written) {{
entry:
  %rest = getelementptr i64, ptr %ends, i64 %inputs
  store <8 x i64> zeroinitializer, ptr %rest, align 8
  br label %one
one:
  %k = phi i64 [0, %entry], [%k.next, %apart]
  %which.at = getelementptr i64, ptr %written_list, i64 %k
  %which = load i64, ptr %which.at
  %from.at = getelementptr i64, ptr %arrays, i64 %which
  %from.one = load i64, ptr %from.at
  %to.at = getelementptr i64, ptr %ends, i64 %which
  %to.one = load i64, ptr %to.at
  %from.some = insertelement <8 x i64> poison, i64 %from.one, i32 0
  %from = shufflevector <8 x i64> %from.some, <8 x i64> poison, <8 x i32> zeroinitializer
  %to.some = insertelement <8 x i64> poison, i64 %to.one, i32 0
  %to = shufflevector <8 x i64> %to.some, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %eight
eight:
  %j = phi i64 [0, %one], [%j.next, %eight]
  %met = phi i64 [0, %one], [%met.now, %eight]
  %theirs.at = getelementptr i64, ptr %arrays, i64 %j
  %theirs = load <8 x i64>, ptr %theirs.at, align 8
  %their.ends.at = getelementptr i64, ptr %ends, i64 %j
  %their.ends = load <8 x i64>, ptr %their.ends.at, align 8
  %before = icmp ult <8 x i64> %theirs, %to
  %behind = icmp ult <8 x i64> %from, %their.ends
  %meets = and <8 x i1> %before, %behind
  %bits = bitcast <8 x i1> %meets to i8
  %count = call i8 @llvm.ctpop.i8(i8 %bits)
  %count.long = zext i8 %count to i64
  %met.now = add i64 %met, %count.long
  %j.next = add i64 %j, 8
  %more = icmp slt i64 %j.next, %inputs
  br i1 %more, label %eight, label %told
told:
  %only.itself = icmp eq i64 %met.now, 1
  br i1 %only.itself, label %apart, label %found
apart:
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %written
  br i1 %k.more, label %one, label %none
found:
  ret i64 %which
none:
  ret i64 -1
}}
"""
