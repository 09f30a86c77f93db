"""The linker of sessions beside lld: the same objects at the same addresses give the same bytes; and what it refuses."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.micro.boards import exp_plus
from tilewright.codegen.llvm.native.target_machine import compile_object
from tilewright.micro.board import board
from tilewright.micro.device_runtime import compile_files
from tilewright.micro.errors import LinkError
from tilewright.micro.linking import arm, riscv
from tilewright.micro.linking.elf import ElfObject
from tilewright.micro.linking.lines import line_at, line_rows, source_place
from tilewright.micro.linking.link import Image, Place, link
from tilewright.runtime.linking.export import library_objects
from tilewright.runtime.linking.symbol_file import ElfFile
from tilewright.runtime.linking.symbols import CONTEXT
from tilewright.support.linker import cross_linker

START = {"vectors": 0x100, "text": 0x1000, "rodata": 0x40000, "data": 0x20000000, "bss": 0x20008000}
BOARDS = ["microbit", "mps2_an500", "mps3_an547", "riscv32_virt"]


def at_start(base: dict[str, int]) -> Place:
    def place(kind: str, size: int, alignment: int) -> int:
        assert base[kind] % alignment == 0
        return base[kind]

    return place


def function(name: str, target: str, body: str, others: str = "") -> ElfObject:
    text = f"{others}\ndefine i32 @{name}(i32 %x) noinline {{\n{body}\n}}\n"
    return ElfObject(f"{name}.o", compile_object(text, target))


CALLER = """  %v = load i32, ptr @counter
  %s = add i32 %v, %x
  store i32 %s, ptr @counter
  %t = load i32, ptr @table
  %p = load ptr, ptr @pointer
  %r = call i32 @callee(i32 %t)
  %q = call i32 %p(i32 %r)
  %a = ptrtoint ptr @here to i32
  %z = add i32 %q, %a
  ret i32 %z"""
OTHERS = """declare i32 @callee(i32)
@counter = dso_local global i32 7
@zero = dso_local global [40 x i8] zeroinitializer
@table = dso_local constant [3 x i32] [i32 1, i32 2, i32 3]
@pointer = dso_local global ptr @callee
@here = external dso_local global i8"""


@pytest.mark.parametrize("name", BOARDS)
def test_as_lld(name: str, tmp_path: Path) -> None:
    """Calls, constants, variables, pointers to functions, addresses from outside."""
    target = str(board(name).target("llvm"))
    objects = [
        function("caller", target, CALLER, OTHERS),
        function("callee", target, "  %y = mul i32 %x, 3\n  ret i32 %y"),
    ]
    here = {"here": 0x20001234}
    ours = link(objects, ["caller"], at_start(START), here)
    assert set(ours.symbols) - {"table"} == {"caller", "callee", "counter", "pointer"}  # zero is needed by nobody
    check_against_lld(ours, objects, ["caller"], here, tmp_path)


def check_against_lld(
    ours: Image, objects: list[ElfObject], roots: list[str], outside: dict[str, int], folder: Path
) -> None:
    """Compares the bytes of every function and variable with those of a program of lld's, whose sections are where ours are."""
    command = cross_linker()
    assert command is not None
    files = []
    for o in objects:
        files.append(folder / o.name)
    script = "SECTIONS {\n"
    # Each section where ours is.
    for file, section, address in sorted(ours.sections, key=lambda s: s[2]):
        script += f"  .s{address:x} {address:#x} : {{ *{file}({section}) }}\n"
    script += "  /DISCARD/ : { *(.ARM.*) *(.eh_frame) *(.note*) *(.comment) *(.riscv.attributes) }\n}\n"
    (folder / "script.ld").write_text(script)
    for o, file in zip(objects, files, strict=True):
        file.write_bytes(o.data)
    given = [f"--defsym={n}={a:#x}" for n, a in outside.items()]
    out = folder / "program"
    subprocess.run(
        [
            *command,
            "-T",
            str(folder / "script.ld"),
            "--no-relax",
            "--gc-sections",
            *[f"--undefined={r}" for r in roots],
            "-e",
            roots[0],
            *given,
            *map(str, files),
            "-o",
            str(out),
        ],
        check=True,
    )
    theirs = ElfFile(out.read_bytes())
    for symbol, address in ours.symbols.items():
        section, value, size = theirs.symbols[symbol]
        assert value == address, symbol
        kind = theirs.sections[section]
        if kind[1] == 8 or not size:
            continue
        at = kind[3] + (value & ~1) - kind[2]
        expected = theirs.data[at : at + size]
        assert content(ours, address & ~1, size) == expected, symbol


def content(image: Image, address: int, size: int) -> bytes:
    start = max([a for a in image.segments if a <= address])
    return image.segments[start][address - start : address - start + size]


@pytest.mark.parametrize("name", BOARDS)
def test_compiled_programs(name: str) -> None:
    """Their code is position-independent: the word for the context is in the global offset table."""
    module = exp_plus(board(name).target("llvm"))
    objects = [ElfObject(n, d) for n, d in library_objects([module.source], prefix="").items()]
    missing = sorted({s.name for o in objects for s in o.symbols if s.section == -1 and s.name})
    outside = {n: 0x4000 + 16 * k + (name != "riscv32_virt") for k, n in enumerate(missing)}
    ours = link(objects, ["__tvm_ffi_exp_plus"], at_start(START), outside)
    (word,) = ours.words.values()
    assert struct.unpack("<I", ours.segments[word]) == (ours.symbols[CONTEXT],)
    assert sum(ours.sizes.values()) >= sum(map(len, ours.segments.values()))
    assert ours.function_at(ours.symbols["__tvm_ffi_exp_plus"] + 4) is not None and ours.function_at(0xFFFFFF00) is None


M7 = "llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7"
RV = "llvm -mtriple=riscv32-unknown-none-elf -mattr=+m,+c"


@pytest.mark.parametrize("target", [M7, RV])
def test_what_cannot_be_linked(target: str) -> None:
    caller = function(
        "caller",
        target,
        "  %r = call i32 @callee(i32 %x)\n  %q = add i32 %r, 1\n  ret i32 %q",
        "declare i32 @callee(i32)",
    )
    callee = function("callee", target, "  ret i32 %x")
    with pytest.raises(LinkError, match=r"nothing defines 'callee' \(needed by caller.o.text\)"):
        link([caller], ["caller"], at_start(START))
    with pytest.raises(LinkError, match="no object defines 'callr'; nearest: caller"):
        link([caller], ["callr"], at_start(START))
    with pytest.raises(LinkError, match="the symbol 'callee' is defined by callee.o and by callee.o"):
        link([caller, callee, function("callee", target, "  ret i32 7")], ["caller"], at_start(START))
    with pytest.raises(LinkError, match="nothing to link"):
        link([], [], at_start(START))
    if target == M7:
        with pytest.raises(LinkError, match="R_ARM_THM_CALL at 0x1002 does not reach 'callee' at 0x60000000"):
            link([caller], ["caller"], at_start(START), {"callee": 0x60000001})
    with pytest.raises(LinkError, match="are for different machines"):
        link([caller, function("callee", RV if target == M7 else M7, "  ret i32 %x")], ["caller"], at_start(START))
    with pytest.raises(LinkError, match="is no relocatable ELF object of 32 bits"):
        ElfObject("x.o", compile_object("define i32 @f() {\n  ret i32 0\n}", "llvm"))


def test_weak_definitions_give_way() -> None:
    weak = ElfObject("weak.o", compile_object("@slot = weak global i32 1\ndefine ptr @get() {\n  ret ptr @slot\n}", M7))
    ours = link([weak], ["get"], at_start(START))
    assert ours.symbols["slot"] == START["data"]
    other = link([weak], ["get"], at_start(START), {"slot": 0x1234})
    assert struct.unpack("<I", other.segments[START["rodata"]][:4])[0] == 0x1234 and "slot" not in other.symbols


def test_libraries_come_last() -> None:
    caller = function("caller", M7, "  %r = call i32 @callee(i32 %x)\n  ret i32 %r", "declare i32 @callee(i32)")
    own, library = (function("callee", M7, f"  ret i32 {k}") for k in (1, 2))
    other = function("unused", M7, "  ret i32 5")
    assert link([caller, own], ["caller"], at_start(START), {}, [library, other]).symbols.keys() == {"caller", "callee"}
    assert link([caller], ["caller"], at_start(START), {}, [library, other]).symbols.keys() == {"caller", "callee"}


def test_libraries_are_made_when_something_needs_them() -> None:
    """What compilers call by themselves is not compiled for code that calls none of it."""
    asked: list[int] = []

    def made() -> list[ElfObject]:
        asked.append(1)
        return [function("callee", M7, "  ret i32 2")]

    plain = [function("plain", M7, "  ret i32 %x")]
    link(plain, ["plain"], at_start(START), {}, made)
    assert not asked
    caller = function("caller", M7, "  %r = call i32 @callee(i32 %x)\n  ret i32 %r", "declare i32 @callee(i32)")
    assert "callee" in link([caller], ["caller"], at_start(START), {}, made).symbols and asked == [1]
    other = function("other", M7, "  %r = call i32 @nobody(i32 %x)\n  ret i32 %r", "declare i32 @nobody(i32)")
    with pytest.raises(LinkError, match="nothing defines 'nobody'"):
        link([other], ["other"], at_start(START), {}, made)
    with pytest.raises(LinkError, match="no object defines 'fourth'"):
        link(plain, ["fourth"], at_start(START), {}, made)
    assert "callee" in link(plain, ["callee"], at_start(START), {}, made).symbols


def test_damaged_objects() -> None:
    good = compile_object("define i32 @f() {\n  ret i32 0\n}\n@x = global i32 5", M7)
    rng = random.Random(4)
    for _ in range(500):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            o = ElfObject("f.o", bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
            link([o], ["f"], at_start({k: v & ~0xFFFF for k, v in START.items()}))
        except (LinkError, AssertionError):
            continue


def no_limit(distance: int, bits: int) -> None:
    pass


@pytest.mark.parametrize("kind", [arm.THM_CALL, arm.THM_JUMP24, arm.JUMP19, arm.JUMP11, arm.JUMP8])
def test_branches_of_arm(kind: int) -> None:
    """A branch that was written twice says where it was sent last: the addend that is read back is the distance."""
    first = {arm.THM_CALL: (0xF7FF, 0xFFFE), arm.THM_JUMP24: (0xF7FF, 0xBFFE), arm.JUMP19: (0xF43F, 0xAFFE)}
    rng, bits = (
        random.Random(kind),
        {arm.THM_CALL: 25, arm.THM_JUMP24: 25, arm.JUMP19: 21, arm.JUMP11: 12, arm.JUMP8: 9}[kind],
    )
    for _ in range(200):
        code = bytearray(
            struct.pack("<HH", *first[kind])
            if kind in first
            else struct.pack("<H", 0xE7FE if kind == arm.JUMP11 else 0xD0FE)
        )
        distance = rng.randrange(-(1 << bits - 2), 1 << bits - 2) & ~1
        assert arm.apply(code, 0, 0x10000000, kind, 0x10000000 + distance, True, no_limit)
        # The addend of a branch is -4: that of the place before the processor's pc.
        again = bytearray(code)
        arm.apply(again, 0, 0x10000000, kind, 0x10000000, True, no_limit)
        assert again == code


@pytest.mark.parametrize("kind", [riscv.BRANCH, riscv.JAL, riscv.RVC_JUMP, riscv.RVC_BRANCH])
def test_branches_of_riscv(kind: int) -> None:
    decoders: dict[int, Callable[[int], int]] = {
        riscv.BRANCH: lambda w: (w >> 31) << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1,
        riscv.JAL: lambda w: (w >> 31) << 20 | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1,
        riscv.RVC_JUMP: lambda w: sum(
            [(w >> 2 + k & 1) << p for k, p in enumerate((5, 1, 2, 3, 7, 6, 10, 8, 9, 4, 11))]
        ),
        riscv.RVC_BRANCH: lambda w: sum(
            [(w >> k & 1) << p for k, p in ((2, 5), (3, 1), (4, 2), (5, 6), (6, 7), (10, 3), (11, 4), (12, 8))]
        ),
    }
    bits = {riscv.BRANCH: 13, riscv.JAL: 21, riscv.RVC_JUMP: 12, riscv.RVC_BRANCH: 9}[kind]
    rng = random.Random(kind)
    for _ in range(200):
        code = bytearray(4)
        distance = rng.randrange(-(1 << bits - 1), 1 << bits - 1) & ~1
        assert riscv.apply(code, 0, 0x1000, kind, 0x1000 + distance, no_limit)
        assert decoders[kind](struct.unpack("<I", code)[0]) == distance & ((1 << bits) - 1)


LINES = b"""
int helper(int a);
static inline int inlined(int a) { return *(volatile int*)(a + 4); }

int faulty(int a);
int faulty(int a) {
  int b = helper(a);
  b += inlined(b);
  return b * 3;
}
"""


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("name", BOARDS)
def test_lines_of_source(name: str, version: str) -> None:
    """Every address of a function has a line; damaged tables say nothing."""
    options = ("-O1", "-ffunction-sections", "-gline-tables-only", version)
    o = compile_files(board(name), [("faulty.c", LINES)], options)
    image = link(o, ["faulty"], at_start(START), {"helper": 0x1401})
    place = next(p for p in image.places if p.name == "faulty")
    found = [image.line_at(a) for a in range(place.address, place.address + place.size, 2)]
    assert {line for line in found if line} <= {3, 6, 7, 8, 9, 10} and {3, 7, 9} <= set(found)
    rows = line_rows(image.debug["faulty.c"])
    assert 3 not in {line_at(rows, a, {3}) for a in range(place.address, place.address + place.size, 2)}
    assert found.count(None) <= 1 and image.line_at(0x9000) is None
    data, rng = image.debug["faulty.c"], random.Random(6)
    path, line = source_place(data, place.address) or ("", 0)
    assert line == found[0] and (path.endswith("faulty.c") or version == "-gdwarf-5")
    assert source_place(data, 0x9000) is None
    for _ in range(300):
        broken = bytearray(data[: rng.randrange(len(data))])
        for _ in range(3):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        assert isinstance(line_rows(bytes(broken)), list)
        source_place(bytes(broken), place.address)


@pytest.mark.parametrize("name", BOARDS)
def test_lines_of_tensorir(name: str) -> None:
    """Code of LLVM has no lines until it is compiled again, to the same bytes."""
    source = exp_plus(board(name).target("llvm")).source
    objects = [ElfObject("exp_plus.o", data) for data in library_objects([source], prefix="").values()]
    (o,) = [o for o in objects if any([".compute" in s.name for s in o.symbols])]
    ((text, data),) = source.lined(lambda number: f"program{number}.tir")
    again = ElfObject(o.name, data)
    assert [s.data for s in again.sections if s.kind == "text"] == [s.data for s in o.sections if s.kind == "text"]
    same, texts = source.with_lines(lambda number: f"program{number}.tir")
    assert same.objects == [data, *source.objects[1:]] and texts == [text] and data not in source.objects
    outside = {s.name: 0x1401 for s in o.symbols if s.section == -1 and s.name}
    roots = [s.name for s in o.symbols if s.is_global and s.is_function and s.section >= 0]
    image = link([o], roots, at_start(START), outside)
    body = next(p for p in image.places if ".compute" in p.name)
    assert image.compiled_line(body.address, outside) == ""
    image.lined = lambda function: (text, data[:100])  # a damaged object
    assert image.compiled_line(body.address, outside) == ""
    image.lined = lambda function: (text, data)
    found = {image.compiled_line(a, outside) for a in range(body.address, body.address + body.size, 2)}
    assert [line for line in found if "c_1[i] = T.exp(a_1[i])" in line] and "" not in found
