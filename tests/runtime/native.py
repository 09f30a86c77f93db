"""Native code for the runtime's tests, made with llvmlite alone: nothing here needs a C compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from tilewright.support.linker import link_shared

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def _machine() -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(reloc="pic", codemodel="small", jit=False)


def compile_object(text: str) -> bytes:
    """A relocatable object of LLVM IR text for this machine."""
    module = llvm.parse_assembly(f'target triple = "{llvm.get_default_triple()}"\n{text}')
    module.verify()
    return bytes(_machine().emit_object(module))


class Jit:
    """Addresses of the functions and variables of LLVM IR text in this process."""

    def __init__(self, text: str, names: list[str]) -> None:
        module = llvm.parse_assembly(f'target triple = "{llvm.get_default_triple()}"\n{text}')
        machine = llvm.Target.from_default_triple().create_target_machine()
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.symbols = {}
        for name in names:
            self.symbols[name] = self.engine.get_function_address(name) or self.engine.get_global_value_address(name)


def link(folder: Path, name: str, *objects: bytes, libraries: tuple[Path, ...] = ()) -> Path:
    """A shared library of objects."""
    paths = []
    for i, data in enumerate(objects):
        path = folder / f"{name}{i}.o"
        path.write_bytes(data)
        paths.append(path)
    output = folder / f"{name}.so"
    link_shared([*paths, *libraries], output)
    return output


# add_one(x, y): y[i] = x[i] + 1 over float32 vectors, as any program for tvm-ffi may hold it.
ADD_ONE = r"""
%any = type { i32, i32, i64 }
@kind = private constant [11 x i8] c"ValueError\00"
@text = private constant [23 x i8] c"Expects a Tensor input\00"
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)

define internal ptr @tensor(ptr %any) {
  %t = load i32, ptr %any
  %vp = getelementptr i8, ptr %any, i64 8
  %v = load ptr, ptr %vp
  %body = getelementptr i8, ptr %v, i64 24
  %object = icmp eq i32 %t, 70
  %plain = icmp eq i32 %t, 7
  %one = select i1 %object, ptr %body, ptr null
  %r = select i1 %plain, ptr %v, ptr %one
  ret ptr %r
}

define i32 @__tvm_ffi_add_one(ptr %self, ptr %args, i32 %n, ptr %ret) {
entry:
  %x = call ptr @tensor(ptr %args)
  %second = getelementptr i8, ptr %args, i64 16
  %y = call ptr @tensor(ptr %second)
  %bad = icmp eq ptr %x, null
  br i1 %bad, label %fail, label %go
fail:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @text)
  ret i32 -1
go:
  %xd = load ptr, ptr %x
  %yd = load ptr, ptr %y
  %sp = getelementptr i8, ptr %x, i64 24
  %shape = load ptr, ptr %sp
  %count = load i64, ptr %shape
  br label %loop
loop:
  %i = phi i64 [0, %go], [%next, %body]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %xi = getelementptr float, ptr %xd, i64 %i
  %yi = getelementptr float, ptr %yd, i64 %i
  %v = load float, ptr %xi
  %w = fadd float %v, 1.0
  store float %w, ptr %yi
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}

define i32 @__tvm_ffi_nop(ptr %self, ptr %args, i32 %n, ptr %ret) {
  ret i32 0
}
"""

# A model of one kernel: out[i] = in[i] * constant[i] in the workspace, then + 1; three threads' worth of tasks on the pool.
MODEL = r"""
%context = type { ptr, ptr, ptr, ptr, ptr }
@__tilewright_context = global %context zeroinitializer

define i32 @scale(ptr %args) {
entry:
  %in = load ptr, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  %const = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %args, i64 2
  %out = load ptr, ptr %p2
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %a = getelementptr float, ptr %in, i64 %i
  %b = getelementptr float, ptr %const, i64 %i
  %o = getelementptr float, ptr %out, i64 %i
  %x = load float, ptr %a
  %y = load float, ptr %b
  %z = fmul float %x, %y
  store float %z, ptr %o
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 4
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i32 @increment(ptr %args) {
entry:
  %in = load ptr, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  %out = load ptr, ptr %p1
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %a = getelementptr float, ptr %in, i64 %i
  %o = getelementptr float, ptr %out, i64 %i
  %x = load float, ptr %a
  %z = fadd float %x, 1.0
  store float %z, ptr %o
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 4
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i32 @__tilewright_run(ptr %args) {
  %in = load ptr, ptr %args
  %p1 = getelementptr ptr, ptr %args, i64 1
  %out = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %args, i64 2
  %const = load ptr, ptr %p2
  %p3 = getelementptr ptr, ptr %args, i64 3
  %work = load ptr, ptr %p3
  %first = alloca [3 x ptr]
  store ptr %in, ptr %first
  %f1 = getelementptr ptr, ptr %first, i64 1
  store ptr %const, ptr %f1
  %f2 = getelementptr ptr, ptr %first, i64 2
  store ptr %work, ptr %f2
  %c1 = call i32 @scale(ptr %first)
  %second = alloca [2 x ptr]
  store ptr %work, ptr %second
  %s1 = getelementptr ptr, ptr %second, i64 1
  store ptr %out, ptr %s1
  %c2 = call i32 @increment(ptr %second)
  ret i32 %c2
}

; parallel(count): every task adds its index + 1 to a counter, through the context's pool
@sum = global i64 0
define i32 @task(i32 %i, i32 %n, ptr %data) {
  %one = add i32 %i, 1
  %wide = sext i32 %one to i64
  %old = atomicrmw add ptr %data, i64 %wide seq_cst
  ret i32 0
}
define i32 @failing(i32 %i, i32 %n, ptr %data) {
  %third = icmp eq i32 %i, 3
  br i1 %third, label %bad, label %good
bad:
  %setter = getelementptr %context, ptr @__tilewright_context, i32 0, i32 1
  %set = load ptr, ptr %setter
  call void %set(ptr @kind, ptr @text)
  ret i32 -1
good:
  ret i32 0
}
@kind = private constant [11 x i8] c"ValueError\00"
@text = private constant [12 x i8] c"task failed\00"

define i32 @__tvm_ffi_parallel(ptr %self, ptr %args, i32 %n, ptr %ret) {
  store i64 0, ptr @sum
  %cp = getelementptr i8, ptr %args, i64 8
  %count = load i64, ptr %cp
  %tasks = trunc i64 %count to i32
  %launch = load ptr, ptr @__tilewright_context
  %code = call i32 %launch(ptr @task, ptr @sum, i32 %tasks)
  %total = load i64, ptr @sum
  store i32 1, ptr %ret
  %pad = getelementptr i8, ptr %ret, i64 4
  store i32 0, ptr %pad
  %rp = getelementptr i8, ptr %ret, i64 8
  store i64 %total, ptr %rp
  ret i32 %code
}
define i32 @__tvm_ffi_parallel_failing(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %launch = load ptr, ptr @__tilewright_context
  %code = call i32 %launch(ptr @failing, ptr null, i32 8)
  ret i32 %code
}
"""
# take(bytes, device type, device number) and give(address, device type, device number): workspaces, by the entries of the context.
WORKSPACES = r"""
@__tilewright_context = global [8 x ptr] zeroinitializer
define internal i64 @number(ptr %args, i64 %i) {
  %at = mul i64 %i, 16
  %place = add i64 %at, 8
  %p = getelementptr i8, ptr %args, i64 %place
  %v = load i64, ptr %p
  ret i64 %v
}
define i32 @__tvm_ffi_take(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %bytes = call i64 @number(ptr %args, i64 0)
  %kind = call i64 @number(ptr %args, i64 1)
  %which = call i64 @number(ptr %args, i64 2)
  %k = trunc i64 %kind to i32
  %w = trunc i64 %which to i32
  %entry = getelementptr [8 x ptr], ptr @__tilewright_context, i32 0, i32 2
  %alloc = load ptr, ptr %entry
  %data = call ptr %alloc(i64 %bytes, i32 %k, i32 %w)
  %address = ptrtoint ptr %data to i64
  store i32 1, ptr %ret
  %pad = getelementptr i8, ptr %ret, i64 4
  store i32 0, ptr %pad
  %rp = getelementptr i8, ptr %ret, i64 8
  store i64 %address, ptr %rp
  %none = icmp eq ptr %data, null
  %code = sext i1 %none to i32
  ret i32 %code
}
define i32 @__tvm_ffi_give(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %address = call i64 @number(ptr %args, i64 0)
  %kind = call i64 @number(ptr %args, i64 1)
  %which = call i64 @number(ptr %args, i64 2)
  %data = inttoptr i64 %address to ptr
  %k = trunc i64 %kind to i32
  %w = trunc i64 %which to i32
  %entry = getelementptr [8 x ptr], ptr @__tilewright_context, i32 0, i32 6
  %free = load ptr, ptr %entry
  %code = call i32 %free(ptr %data, i32 %k, i32 %w)
  ret i32 %code
}
"""
MODEL_SYMBOLS = [
    "__tilewright_context", "__tilewright_run", "scale", "increment", "__tvm_ffi_parallel", "__tvm_ffi_parallel_failing",
]  # fmt: skip
METADATA = {
    "inputs": [{"name": "x", "shape": [4], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [4], "dtype": "float32"}],
    "workspace_bytes": 64,
    "constants_bytes": 16,
    "kernels": [
        {"name": "scale", "symbol": "scale", "args": [["input", 0], ["constant", 0], ["workspace", 0]]},
        {"name": "increment", "symbol": "increment", "args": [["workspace", 0], ["output", 0]]},
    ],
    "target": {"triple": llvm.get_default_triple(), "cpu": "generic", "features": []},
}


def bytes_variable(name: str, data: bytes) -> str:
    """LLVM IR of a constant."""
    body = "".join(f"\\{b:02x}" for b in data)
    return f'@{name} = constant [{len(data)} x i8] c"{body}", align 64\n'
