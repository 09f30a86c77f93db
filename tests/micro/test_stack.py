"""The analysis of stacks beside what the compiler says of its frames, on hand-written code, and on programs without a bound."""

from __future__ import annotations

import struct

import pytest

from tilewright.micro.board import board
from tilewright.micro.device_runtime import (
    SESSION,
    SIZE,
    WARNINGS,
    compile_files,
    helpers,
    runtime_objects,
    source_folder,
    start_file,
)
from tilewright.micro.linking.elf import ElfObject
from tilewright.micro.linking.link import Image, link
from tilewright.micro.stack import riscv, thumb
from tilewright.micro.stack.depth import CallGraph, StackError
from tilewright.micro.templates.handler import RPC

BOARDS = ["microbit", "mps2_an500", "mps3_an547", "riscv32_virt"]
SOURCE = b"""
#include <stdint.h>
#define OPEN __attribute__((noinline))
int32_t leaf(int32_t a);
int32_t some(int32_t a, volatile char* p);
int32_t hundreds(int32_t a);
int32_t thousands(int32_t a);
int32_t many(int32_t a);
int32_t aligned(int32_t a);
int32_t floats(float a, float b);
int32_t top(int32_t a);
OPEN int32_t leaf(int32_t a) { return a * 3; }
OPEN int32_t some(int32_t a, volatile char* p) { volatile char b[100]; b[a & 63] = p[0]; return leaf(a) + b[3]; }
OPEN int32_t hundreds(int32_t a) { volatile char b[600]; b[a & 63] = 1; return leaf(a) + b[3]; }
OPEN int32_t thousands(int32_t a) { volatile char b[5000]; b[a] = 1; return some(a, b) + b[3]; }
OPEN int32_t many(int32_t a) { volatile char b[70000]; b[a] = 1; return some(a, b) + b[3]; }
OPEN int32_t aligned(int32_t a) { volatile char b[300] __attribute__((aligned(64))); b[a] = 1; return some(a, b) + b[3]; }
OPEN int32_t floats(float a, float b) {
  volatile float x[9];
  for (int i = 0; i < 4; i++) { x[i] = a * b; b += (float)leaf((int)x[i]); }
  return leaf((int32_t)(b + x[2]));
}
int32_t top(int32_t a) { return thousands(a) + aligned(a) + floats((float)a, 2) + hundreds(a) + many(a); }
"""
NAMES = ("leaf", "some", "hundreds", "thousands", "many", "aligned", "floats", "top")


def linked(name: str, source: bytes, roots: list[str], *options: str) -> tuple[Image, list[ElfObject]]:
    b = board(name)
    objects = compile_files(
        b, [("program.c", source)], ("-ffreestanding", "-ffunction-sections", "-g0", "-fstack-size-section", *options)
    )
    at = {"next": b.code.start + 0x1000}

    def place(kind: str, size: int, alignment: int) -> int:
        found = -(-at["next"] // alignment) * alignment
        at["next"] = found + size
        return found

    return link(objects, roots, place, {}, helpers(b)), objects


def stated(o: ElfObject) -> dict[str, int]:
    """Frames by function, as the compiler states them in sections .stack_sizes: an address and a number (ULEB128) each."""
    data, found = o.data, {}
    at, entry, count = struct.unpack_from("<I", data, 32)[0], *struct.unpack_from("<HH", data, 46)
    for k in range(count):
        _, _, _, _, offset, _, section, _, _, _ = struct.unpack_from("<10I", data, at + entry * k)
        if o.sections[k].name != ".stack_sizes":
            continue
        size, shift, place = 0, 0, offset + 4
        while True:
            byte = data[place]
            size |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if not byte & 0x80:
                break
        name = next(s.name for s in o.symbols if s.section == section and s.is_function)
        found[name] = size
    return found


@pytest.mark.parametrize("level", ["-Os", "-O2", "-O0"])
@pytest.mark.parametrize("name", BOARDS)
def test_frames_as_the_compiler_states_them(name: str, level: str) -> None:
    image, objects = linked(name, SOURCE, ["top"], level)
    graph, expected = CallGraph(image, objects[0].machine), stated(objects[0])
    assert set(expected) == set(NAMES)
    for function, size in expected.items():
        # Where a frame is aligned, the compiler does not count what may be lost; code counts all it ever takes.
        assert size <= graph.frame(function) <= size + (128 if function == "aligned" else 16), function
    deepest = graph.depth("top")
    assert deepest.path[:3] == ("top", "many", "some")
    assert deepest.size == sum([graph.frame(f) for f in deepest.path])
    assert graph.deepest(["leaf", "some"]) == graph.depth("some")


@pytest.mark.parametrize("name", BOARDS)
def test_the_runtime_has_a_bound(name: str) -> None:
    b = board(name)
    at = {"next": b.code.start + 0x1000}

    def place(kind: str, size: int, alignment: int) -> int:
        found = -(-at["next"] // alignment) * alignment
        at["next"] = found + size
        return found

    outside = dict.fromkeys(
        ("tw_session_queue", "tw_session_workspace", "tw_session_workspace_end", "tw_stack_top"), 0x20000000
    )
    objects = runtime_objects(b, (*SESSION, "src/pages.c", "src/graph.c"))
    roots = [
        "tw_session_begin",
        "tw_graph_run",
        "tw_pages_take",
        "tw_pages_give",
        "tw_workspace_take",
        "__tilewright_context",
    ]
    image = link(objects, roots, place, outside, helpers(b))
    graph = CallGraph(image, objects[0].machine)
    assert max([graph.depth(r).size for r in roots if r != "__tilewright_context"]) <= 200
    code = image.sizes["text"] + image.sizes["rodata"]
    assert code < 8192, f"{name}: the runtime takes {code} bytes"


SERVES = b"""
#include "tilewright/micro_rpc.h"
#include "tilewright/micro_serial.h"
int main(void);
static uint8_t memory[1024];
static int32_t nothing(void** args) { return args == 0; }
static const struct tw_rpc_function functions[] = {{"nothing", 0, nothing}};
void tw_platform_log(const char* text, size_t length) { tw_program_log(text, length); }
void tw_platform_abort(int32_t code) { (void)code; for (;;) {} }
int main(void) {
  static const struct tw_rpc_program program = {functions, 0, memory, sizeof memory, 1u};
  tw_serial_start();
  tw_start(memory, 0);
  tw_rpc_serve(&program);
  return 0;
}
"""


@pytest.mark.parametrize("name", BOARDS)
def test_the_server_of_sessions_has_a_bound(name: str) -> None:
    """Firmware with the server and one function: code, frames, and no recursion."""
    b = board(name)
    assert b.serial is not None
    files = [*RPC, "src/memory.c", "start/firmware.c", f"serial/{b.serial.driver}.c", start_file(b)]
    given = [("main.c", SERVES), *[(f, (source_folder() / f).read_bytes()) for f in files]]
    objects = compile_files(b, given, (*WARNINGS, *SIZE, f"-DTW_SERIAL={b.serial.address:#x}u"))
    at = {"next": b.code.start + 0x1000}

    def place(kind: str, size: int, alignment: int) -> int:
        found = -(-at["next"] // alignment) * alignment
        at["next"] = found + size
        return found

    edges = ("data_load", "data_start", "data_end", "bss_start", "bss_end", "stack_top")
    image = link(objects, ["tw_reset"], place, {f"tw_{e}": 0x20000000 for e in edges}, helpers(b))
    own = sum([p.size for p in image.places if p.is_function and p.name not in {h.name for h in helpers(b)[0].symbols}])
    assert own < 8192, f"{name}: the runtime with the server takes {own} bytes"
    assert CallGraph(image, objects[0].machine).depth("main").size <= 600
    assert image.sizes["bss"] + image.sizes.get("data", 0) < 1024 + 3500


RECURS = b"""
int odd(int n);
int even(int n);
int even(int n) { return n == 0 ? 1 : odd(n - 1) + 1; }
__attribute__((noinline)) int odd(int n) { return n == 0 ? 0 : even(n - 1) + 2; }
"""
GROWS = b"""
int use(char *p);
int grows(int n);
__attribute__((noinline)) int use(char *p) { return *(volatile char*)p; }
int grows(int n) { char b[n]; b[0] = (char)n; return use(b); }
"""
POINTS = b"""
static int a(int n) { volatile char b[900]; b[n] = 1; return b[0]; }
static int c(int n) { return n; }
int (*const table[2])(int) = {a, c};
int calls(int n);
int calls(int n) { return table[n & 1](n) + 1; }
"""


@pytest.mark.parametrize("name", BOARDS)
def test_stacks_without_a_bound(name: str) -> None:
    image, objects = linked(name, RECURS, ["even"], "-O1", "-fno-optimize-sibling-calls", "-fno-inline")
    with pytest.raises(StackError, match="the stack has no bound: even calls odd calls even"):
        CallGraph(image, objects[0].machine).depth("even")
    image, objects = linked(name, GROWS, ["grows"], "-O1")
    with pytest.raises(StackError, match="grows has an array whose size is known at run time only"):
        CallGraph(image, objects[0].machine).depth("grows")
    with pytest.raises(StackError, match="the program has no function 'main'"):
        CallGraph(image, objects[0].machine).depth("main")


@pytest.mark.parametrize("name", BOARDS)
def test_calls_through_pointers(name: str) -> None:
    image, objects = linked(name, POINTS, ["calls"], "-O1")
    graph = CallGraph(image, objects[0].machine)
    assert graph.depth("calls").path == ("calls", "a") and graph.depth("calls").size > 900


def test_thumb_instructions() -> None:
    def frame(*halves: int) -> int:
        return thumb.read(struct.pack(f"<{len(halves)}H", *halves), 0x1000, []).frame

    assert frame(0xB5F0) == 20  # push {r4-r7, lr}
    assert frame(0xE92D, 0x4FF0) == 36  # push.w {r4-r11, lr}
    assert frame(0xB084) == 16 and frame(0xF5AD, 0x7D00) == 512  # sub sp, #16; sub.w sp, sp, #512
    assert frame(0xED2D, 0x8B10) == 64  # vpush {d8-d15}
    assert frame(0xF84D, 0xED04) == 4  # str lr, [sp, #-4]!
    assert frame(0xBDF0, 0xB004, 0x46BD, 0xF1A7, 0x0D18) == 0  # pop, add sp, mov sp, r7, sub.w sp, r7, #24
    assert frame(0xF44F, 0x5480, 0xEBAD, 0x0D04) == 4096  # mov.w r4, #4096; sub.w sp, sp, r4
    code = thumb.read(struct.pack("<4H", 0xF7FF, 0xFFFE, 0x4718, 0x4770), 0x1000, [])
    assert code.calls == {0x1000} and code.indirect  # bl to itself; bx r3; bx lr
    assert not thumb.read(struct.pack("<2H", 0x4770, 0x4718), 0x1000, [(0x1002, 0x1004)]).indirect


def test_riscv_instructions() -> None:
    def read(*words: int) -> int:
        return riscv.read(b"".join([w.to_bytes(2 if w & 3 != 3 else 4, "little") for w in words]), 0x1000, []).frame

    assert read(0x1141) == 16 and read(0x7139) == 64 and read(0xFF010113) == 16  # addi sp, sp, -16; -64; -16
    assert read(0x0141, 0x6121) == 0  # addi sp, sp, 16; 64
    assert read(0x6505, 0x40A10133) == 4096  # lui a0, 1; sub sp, sp, a0
    vectors = struct.pack(
        "<IIHI", 0xC22026F3, 0x00169713, 0x96BA, 0x40D10133
    )  # csrr a3, vlenb; a3 += a3 << 1; sub sp, sp, a3
    assert riscv.read(vectors, 0x1000, [], 16).frame == 48 and riscv.read(vectors, 0x1000, []).unknown
    code = riscv.read(struct.pack("<IIHH", 0x00000097, 0x010080E7, 0x9782, 0x8082), 0x1000, [])
    assert code.calls == {0x1010} and code.indirect  # auipc ra, 0; jalr 16(ra); jalr a5; ret


def test_session_flags() -> None:
    assert "-ffunction-sections" in SIZE  # without it, the linker keeps what nobody needs
