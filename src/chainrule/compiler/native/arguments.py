"""LLVM text that looks at arguments: nothing is read through an address before it is known to be one."""

from __future__ import annotations

from chainrule.compiler.native.layout import Layout, swapped_order
from chainrule.compiler.native.records import InputRecord, offset


def text(at: Layout) -> str:
    """`@look`, one argument, and `@overlapping`, all of them together."""

    def wanted(name: str) -> str:
        """Load an entry of the record."""
        return f"%{name}.wanted = load i64, [%record + {offset(InputRecord, name)}]"

    return f"""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i8 @llvm.ctpop.i8(i8)

; The address of the entries of `object`, or null if it is not what `record` says.  A Python int is put `beside`.
define internal ptr @look(ptr %object, ptr %record, ptr %array_type, ptr %float_type, ptr %int_type, ptr %beside) alwaysinline {{
entry:
  %type = load ptr, [%object + {at.type}]
  %is.array = icmp eq ptr %type, %array_type
  br i1 %is.array, label %array, label %scalar

array:
  %descriptor = load i64, [%object + {at.descriptor}]
  {wanted("descriptor")}
  %same = icmp eq i64 %descriptor, %descriptor.wanted
  br i1 %same, label %dimensions, label %equivalent
equivalent:
  %kind = inttoptr i64 %descriptor to ptr
  %number = load i32, [%kind + {at.number}]
  %order = load i8, [%kind + {at.order}]
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
  %ndim.short = load i32, [%object + {at.ndim}]
  %ndim = sext i32 %ndim.short to i64
  {wanted("ndim")}
  %shape = load ptr, [%object + {at.shape}]
  {wanted("shape")}
  %shape.right = inttoptr i64 %shape.wanted to ptr
  %as.many = icmp eq i64 %ndim, %ndim.wanted
  br i1 %as.many, label %axes, label %misfit
axes:
  %axis = phi i64 [0, %dimensions], [%axis.next, %axis.look]
  %more.axes = icmp slt i64 %axis, %ndim
  br i1 %more.axes, label %axis.look, label %layout
axis.look:
  %length = load i64, [%shape + 8 * %axis]
  %length.right = load i64, [%shape.right + 8 * %axis]
  %axis.next = add i64 %axis, 1
  %as.long = icmp eq i64 %length, %length.right
  br i1 %as.long, label %axes, label %misfit

layout:
  %flags.short = load i32, [%object + {at.flags}]
  %flags = zext i32 %flags.short to i64
  {wanted("flags")}
  %flags.both = and i64 %flags, %flags.wanted
  %missing = xor i64 %flags.both, %flags.wanted
  %data = load ptr, [%object + {at.data}]
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
  store <8 x i64> zeroinitializer, [%ends + 8 * %inputs], align 8
  br label %one
one:
  %k = phi i64 [0, %entry], [%k.next, %apart]
  %which = load i64, [%written_list + 8 * %k]
  %from.one = load i64, [%arrays + 8 * %which]
  %to.one = load i64, [%ends + 8 * %which]
  %from.some = insertelement <8 x i64> poison, i64 %from.one, i32 0
  %from = shufflevector <8 x i64> %from.some, <8 x i64> poison, <8 x i32> zeroinitializer
  %to.some = insertelement <8 x i64> poison, i64 %to.one, i32 0
  %to = shufflevector <8 x i64> %to.some, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %eight
eight:
  %j = phi i64 [0, %one], [%j.next, %eight]
  %met = phi i64 [0, %one], [%met.now, %eight]
  %theirs = load <8 x i64>, [%arrays + 8 * %j], align 8
  %their.ends = load <8 x i64>, [%ends + 8 * %j], align 8
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
