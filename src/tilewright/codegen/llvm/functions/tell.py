"""LLVM IR text of the functions that report an error, with or without numbers in the message. They need no C library."""

from __future__ import annotations

_SET_ERROR = """  %set = load ptr, ptr getelementptr ([8 x ptr], ptr @__tilewright_context, i32 0, i32 1)
  %none = icmp eq ptr %set, null
"""

_SIZE = """  %negative = icmp slt i64 %value, 0
  %opposite = sub i64 0, %value
  %size = select i1 %negative, i64 %opposite, i64 %value
  br label %copy
"""
_TERMINATE = """  %nul = getelementptr i8, ptr %buffer, i64 %stopat
  store i8 0, ptr %nul
"""


def _digits(place: str, all_digits: str, end: str, then: str) -> str:
    """The text that writes a number, its sign first, to the buffer from `place` on."""
    return f"""sign:
  store i8 45, ptr %to
  %extra = zext i1 %negative to i64
  %start = add i64 {place}, %extra
  br label %count
count:
  %t = phi i64 [ %size, %sign ], [ %t1, %count ]
  %n = phi i64 [ 0, %sign ], [ %n1, %count ]
  %t1 = udiv i64 %t, 10
  %n1 = add i64 %n, 1
  {all_digits} = icmp eq i64 %t1, 0
  br i1 {all_digits}, label %write, label %count
write:
  %stopat = add i64 %start, %n1
{end}  br label %digit
digit:
  %q = phi i64 [ %size, %write ], [ %q1, %digit ]
  %p = phi i64 [ %stopat, %write ], [ %p1, %digit ]
  %p1 = sub i64 %p, 1
  %q1 = udiv i64 %q, 10
  %tens = mul i64 %q1, 10
  %d = sub i64 %q, %tens
  %d8 = trunc i64 %d to i8
  %char = add i8 %d8, 48
  %at = getelementptr i8, ptr %buffer, i64 %p1
  store i8 %char, ptr %at
  %done = icmp eq i64 %p1, %start
  br i1 %done, label %{then}, label %digit
"""


TELL = f"""
define internal void @.tell(ptr %kind, ptr %text) nounwind noinline optnone cold {{
entry:
{_SET_ERROR}  br i1 %none, label %untold, label %tell
tell:
  call void %set(ptr %kind, ptr %text)
  br label %untold
untold:
  ret void
}}
"""

TELL_NUMBER = f"""
define internal void @.tell_number(ptr %kind, ptr %text, i64 %value) nounwind noinline optnone cold {{
entry:
  %buffer = alloca [1024 x i8]
{_SET_ERROR}  br i1 %none, label %untold, label %begin
begin:
{_SIZE}copy:
  %i = phi i64 [ 0, %begin ], [ %i1, %more ]
  %from = getelementptr i8, ptr %text, i64 %i
  %c = load i8, ptr %from
  %to = getelementptr i8, ptr %buffer, i64 %i
  %end = icmp eq i8 %c, 0
  %full = icmp uge i64 %i, 990
  %stop = or i1 %end, %full
  br i1 %stop, label %sign, label %more
more:
  store i8 %c, ptr %to
  %i1 = add i64 %i, 1
  br label %copy
{_digits("%i", "%last", _TERMINATE, "tell")}tell:
  call void %set(ptr %kind, ptr %buffer)
  br label %untold
untold:
  ret void
}}
"""

TELL_NUMBERS = f"""
define internal void @.tell_numbers(ptr %kind, ptr %text, i64 %value, i64 %last) nounwind noinline optnone cold {{
entry:
  %buffer = alloca [1024 x i8]
{_SIZE}copy:
  %i = phi i64 [ 0, %entry ], [ %i1, %more ], [ %i1, %written ]
  %o = phi i64 [ 0, %entry ], [ %o1, %more ], [ %stopat, %written ]
  %from = getelementptr i8, ptr %text, i64 %i
  %c = load i8, ptr %from
  %to = getelementptr i8, ptr %buffer, i64 %o
  %i1 = add i64 %i, 1
  %o1 = add i64 %o, 1
  %end = icmp eq i8 %c, 0
  %full = icmp uge i64 %o, 960
  %stop = or i1 %end, %full
  br i1 %stop, label %tell, label %character
character:
  %here = icmp eq i8 %c, 1
  br i1 %here, label %sign, label %more
more:
  store i8 %c, ptr %to
  br label %copy
{_digits("%o", "%all", "", "written")}written:
  br label %copy
tell:
  store i8 0, ptr %to
  call void @.tell_number(ptr %kind, ptr %buffer, i64 %last)
  ret void
}}
"""
"""Function that replaces the character 1 in the text by a number, and appends another number, with `TELL_NUMBER`."""
