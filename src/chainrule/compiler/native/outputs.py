"""LLVM text that makes fresh outputs, or takes one again that nobody holds any more.

Making an array costs more than a small kernel, and the pages of a large one more than computing it.  So the last two
arrays of every output are kept: two, because `.grad` of one step is still in place while the next step runs.  An array
is handed out again only if our list is the only one that refers to it, and if nobody has changed what it is.
"""

from __future__ import annotations

from chainrule.compiler.native.layout import Layout
from chainrule.compiler.native.records import ALIGNED, CONTIGUOUS, OWNED, WRITEABLE, OutputRecord, offset

_PLAIN = CONTIGUOUS | OWNED | ALIGNED | WRITEABLE


def text(at: Layout) -> str:
    """`@fresh`: a new reference to output number `number`, or null with an error set."""

    def wanted(name: str) -> str:
        """Load an entry of the record."""
        return f"%{name}.wanted = load i64, [%record + {offset(OutputRecord, name)}]"

    return f"""
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)

; Whether this is an array as `record` wants it, all in its own memory, that nobody but our list refers to.
define internal i1 @free.again(ptr %array, ptr %record, ptr %array_type) alwaysinline {{
entry:
  %count = load i32, ptr %array
  %single = icmp eq i32 %count, 1
  %type = load ptr, [%array + {at.type}]
  %is.array = icmp eq ptr %type, %array_type
  %ours = and i1 %single, %is.array
  br i1 %ours, label %kind, label %no
kind:
  %descriptor = load i64, [%array + {at.descriptor}]
  {wanted("descriptor")}
  %same = icmp eq i64 %descriptor, %descriptor.wanted
  %base = load ptr, [%array + {at.base}]
  %baseless = icmp eq ptr %base, null
  %weak = load ptr, [%array + {at.weak}]
  %unknown = icmp eq ptr %weak, null
  %flags = load i32, [%array + {at.flags}]
  %flags.both = and i32 %flags, {_PLAIN}
  %plain = icmp eq i32 %flags.both, {_PLAIN}
  %ndim.short = load i32, [%array + {at.ndim}]
  %ndim = sext i32 %ndim.short to i64
  {wanted("ndim")}
  %as.many = icmp eq i64 %ndim, %ndim.wanted
  %a = and i1 %same, %baseless
  %b = and i1 %unknown, %plain
  %c = and i1 %a, %b
  %d = and i1 %c, %as.many
  %shape = load ptr, [%array + {at.shape}]
  {wanted("shape")}
  %shape.right = inttoptr i64 %shape.wanted to ptr
  br i1 %d, label %axes, label %no
axes:
  %axis = phi i64 [0, %kind], [%axis.next, %axis.look]
  %more = icmp slt i64 %axis, %ndim
  br i1 %more, label %axis.look, label %yes
axis.look:
  %length = load i64, [%shape + 8 * %axis]
  %length.right = load i64, [%shape.right + 8 * %axis]
  %axis.next = add i64 %axis, 1
  %as.long = icmp eq i64 %length, %length.right
  br i1 %as.long, label %axes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal ptr @fresh(i64 %number, ptr %record, ptr %spares, ptr %array_type, ptr %new) {{
entry:
  %keeps = icmp ne ptr %spares, null
  %place = mul i64 %number, 2
  br i1 %keeps, label %first, label %make
first:
  %first.array = call ptr @PyList_GetItem(ptr %spares, i64 %place)
  %first.free = call i1 @free.again(ptr %first.array, ptr %record, ptr %array_type)
  br i1 %first.free, label %again, label %second
second:
  %second.place = add i64 %place, 1
  %second.array = call ptr @PyList_GetItem(ptr %spares, i64 %second.place)
  %second.free = call i1 @free.again(ptr %second.array, ptr %record, ptr %array_type)
  br i1 %second.free, label %again, label %make
again:
  %spare = phi ptr [%first.array, %first], [%second.array, %second]
  call void @Py_IncRef(ptr %spare)
  ret ptr %spare

make:
  {wanted("descriptor")}
  %descriptor = inttoptr i64 %descriptor.wanted to ptr
  {wanted("ndim")}
  %ndim = trunc i64 %ndim.wanted to i32
  {wanted("shape")}
  %shape = inttoptr i64 %shape.wanted to ptr
  call void @Py_IncRef(ptr %descriptor)
  %made = call ptr %new(ptr %array_type, ptr %descriptor, i32 %ndim, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  %got = icmp ne ptr %made, null
  %keep.it = and i1 %got, %keeps
  br i1 %keep.it, label %keep, label %done
keep:
  {wanted("turn")}
  %turn.next = xor i64 %turn.wanted, 1
  store i64 %turn.next, [%record + {offset(OutputRecord, "turn")}]
  %kept.place = add i64 %place, %turn.wanted
  call void @Py_IncRef(ptr %made)
  %kept = call i32 @PyList_SetItem(ptr %spares, i64 %kept.place, ptr %made)
  br label %done
done:
  ret ptr %made
}}
"""
