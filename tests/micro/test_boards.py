"""Descriptions of boards, how sessions divide their memory, and linker scripts."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tilewright import micro
from tilewright.micro.board import Board, board, known_boards
from tilewright.micro.errors import BoardError, LinkError
from tilewright.micro.layout import SECTIONS, PageAllocator, Section, session_layout
from tilewright.micro.linker_script import linker_script

GOOD: dict[str, Any] = {
    "name": "mine", "model": "stm32f746xx", "clock_hz": 1000000,
    "memory": [
        {"name": "flash", "start": 0x08000000, "size": 0x10000, "kind": "flash"},
        {"name": "ram", "start": 0x20000000, "size": 0x8000, "kind": "ram"},
    ],
    "firmware": {"code": "flash", "data": "ram"},
}  # fmt: skip
CORES = {"cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "generic"}


def test_known_boards() -> None:
    boards = [board(name) for name in known_boards()]
    assert {b.target().mcpu for b in boards} == CORES
    for b in boards:
        assert b.about and b.target("llvm").triple == b.target().triple == b.triple
        assert (b.qemu or b.openocd or b.pyocd) is not None
    facts = {b.name: (b.architecture, b.fpu) for b in boards}
    assert facts["mps2_an500"] == ("cortex_m", "double") and facts["stm32f746_disco"] == ("cortex_m", "single")
    assert facts["raspberry_pi_pico"] == ("cortex_m", "none") and facts["riscv32_virt"] == ("riscv", "none")
    assert facts["riscv32_virt_v"] == ("riscv", "double") and board("riscv32_virt_v").target("llvm").cpu.rvv
    assert board("mps3_an547").target("llvm").cpu.helium and board("mps2_an500").target("llvm").kind.name == "llvm"


def test_where_a_board_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'model = "rp2040"\nclock_hz = 1\nmemory = [{name = "m", start = 0, size = 4096, kind = "ram"}]\n'
        'firmware = {code = "m", data = "m"}\n'
    )
    assert (
        board(path).name == "own"
        and board(board(path)) is not None
        and Board("x", {k: v for k, v in GOOD.items() if k != "name"}).name == "x"
    )
    with pytest.raises(BoardError, match="there is no board 'micro-bit'; nearest: microbit. Known: esp32c3_devkit, "):
        board("micro-bit")
    path.write_text("model = ")
    with pytest.raises(BoardError, match="own.toml cannot be read"):
        board(path)


def changed(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(GOOD), **changes}


def region(**changes: Any) -> dict[str, Any]:
    """The description with another RAM."""
    return changed(memory=[GOOD["memory"][0], {**GOOD["memory"][1], **changes}])


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (changed(model="stm32"), "there is no microcontroller 'stm32'"),
        (changed(memory=[]), "the board mine has no memory"),
        (region(size=0), "memory 'ram': 0x0 bytes at 0x20000000 are not within the 32 bits"),
        (region(start=0xFFFFFFF8), "are not within the 32 bits of its addresses"),
        (region(start=0x20000004), "both must be multiples of 8"),
        (region(start=0x08008000), r"the memories 'flash' \(0x8000000 to 0x8010000\) and 'ram' \(0x8008000 to 0x8010000\) overlap"),
        (region(name="flash"), "two memories are called 'flash'"),
        (region(kind="rom"), "its kind is 'rom', but must be one of flash, ram"),
        (region(start="0x20"), "'start' must be of the type int, but is '0x20'"),
        (region(speed=3), "nothing reads 'speed'"),
        (changed(firmware={"code": "flash", "data": "flash"}), "data lies in 'flash', which is flash"),
        (changed(firmware={"code": "rom", "data": "ram"}), "has no memory 'rom'; it has flash, ram"),
        (changed(firmware={"code": "flash"}), "firmware: its description lacks 'data'"),
        (changed(session_heap="flash"), "the arrays of a session lie in 'flash', which is flash, or holds code"),
        (changed(session_heap="sram"), "has no memory 'sram'; it has flash, ram"),
        (changed(clock=3), "nothing reads 'clock'"),
        (changed(clock_hz=True), "'clock_hz' must be of the type int"),
        (changed(qemu={"machine": 7}), "'machine' must be of the type str"),
    ],
)  # fmt: skip
def test_bad_descriptions(described: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as error:
        board(described).target()
    assert isinstance(error.value, BoardError) or "microcontroller" in message


def test_code_begins_where_vectors_may() -> None:
    with pytest.raises(BoardError, match="code begins at 0x8000040, but must begin at a multiple of 256"):
        board(changed(memory=[{**GOOD["memory"][0], "start": 0x08000040, "size": 0x1000}, GOOD["memory"][1]]))
    with pytest.raises(BoardError, match="code lies in 'flash', which executes none"):
        board(changed(memory=[{**GOOD["memory"][0], "executable": False}, GOOD["memory"][1]]))


@pytest.mark.parametrize("name", known_boards())
@pytest.mark.parametrize("writes_flash", [True, False])
def test_sections_of_sessions(name: str, writes_flash: bool) -> None:
    b = board(name)
    found = session_layout(b, writes_flash=writes_flash)
    assert set(found) == set(SECTIONS)
    placed = sorted(found.values(), key=lambda s: s.start)
    assert all([one.end <= other.start for one, other in zip(placed, placed[1:], strict=False)])
    for s in placed:
        memory = next(r for r in b.memory if r.start <= s.start and s.end <= r.end)
        assert memory.executable or s.name != "code"
        assert memory.kind == "ram" or (writes_flash and s.name == "code")
    # A stack that overflows leaves the memory, or meets code, rather than arrays.
    assert found["stack"].start == b.data.start or found["code"].end == found["stack"].start


def test_section_constraints() -> None:
    b = board("microbit")
    assert session_layout(b, {"stack": 1000})["stack"].size == 1024
    with pytest.raises(BoardError, match="a session has no section 'text'; it has code, stack"):
        session_layout(b, {"text": 100})
    with pytest.raises(BoardError, match="do not fit into ram of microbit, which has 16384 bytes"):
        session_layout(b, {"workspace": 16000})
    with pytest.raises(BoardError, match="do not fit into ram of microbit"):
        session_layout(b, {"heap": 16000})
    assert session_layout(board("mps2_an500"))["heap"].size == 16 << 20
    with pytest.raises(
        BoardError, match="the section 'heap' has 20000000 bytes, but psram of mps2_an500 only 16777216"
    ):
        session_layout(board("mps2_an500"), {"heap": 20000000})
    with pytest.raises(BoardError, match="do not fit into sram of mps2_an500"):
        session_layout(board("mps2_an500"), {"workspace": 5000000})
    with pytest.raises(BoardError, match="the section 'code' has 300000 bytes, but flash of microbit only 262144"):
        session_layout(b, {"code": 300000})


def test_page_allocator_against_a_plain_model() -> None:
    rng = random.Random(3)
    section = Section("heap", 0x20000010, 5000)
    pages, held = PageAllocator(section), {}
    whole = pages.free_bytes
    for _ in range(3000):
        if held and rng.random() < 0.5:
            address = rng.choice([*held])
            pages.free(address)
            del held[address]
            continue
        size, alignment = rng.randrange(1, 400), rng.choice([1, 64, 128])
        try:
            address = pages.allocate(size, alignment)
        except LinkError:
            assert held
            continue
        assert (
            address % alignment == 0
            and address % 64 == 0
            and section.start <= address
            and address + size <= section.end
        )
        assert all([address + size <= a or a + s <= address for a, s in held.items()])
        held[address] = size
    for address in held:
        pages.free(address)
    assert pages.free_bytes == whole and len(pages.free_runs) == 1
    with pytest.raises(LinkError, match="gave nothing out at 0x5"):
        pages.free(5)


@pytest.mark.parametrize("name", known_boards())
def test_linker_scripts_name_all_memories(name: str) -> None:
    b = board(name)
    text = linker_script(b, 1000)
    for r in b.memory:
        assert f"{r.name} (" in text and f"ORIGIN = {r.start:#010x}, LENGTH = {r.size:#x}" in text
    assert "tw_heap_end = tw_stack_top - 1008;" in text and ("AT>" in text) == (b.code != b.data)
    # Objects of LLVM reach the runtime's table by addresses, which are data: behind the variables they would lie in the heap.
    assert text.index("tw_data_start") < text.index("*(.got .got.*)") < text.index("tw_data_end")
    pools = {"fast": (b.data.name, ".bss.arena"), "fixed": (b.code.name, ".rodata.table")}
    text = linker_script(b, 64, pools)
    assert f".pool.fast (NOLOAD) : ALIGN(8) {{ *(.bss.arena) }} > {b.data.name}" in text
    assert f".pool.fixed : ALIGN(8) {{ *(.rodata.table) }} > {b.code.name}" in text
    assert text.index(".pool.fixed") < text.index("*(SORT_BY_ALIGNMENT(.rodata*)")
    with pytest.raises(BoardError, match="has no memory 'gone'"):
        linker_script(b, 64, {"fast": ("gone", ".bss.arena")})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"board": "microbit", "port": 3}, "a configuration has no entry 'port'"),
        (
            {"board": "microbit", "comms_method": "jtag"},
            "comms_method is 'jtag', but must be one of qemu, openocd, pyocd, gdb",
        ),
        ({"board": "microbit", "comms_method": "gdb"}, "give its server_addr and server_port"),
        (
            {"board": "microbit", "comms_method": "pyocd", "instruction_shift": 1},
            "instruction_shift is for QEMU's clock",
        ),
        ({"board": "microbit", "instruction_shift": 11}, "QEMU takes 0 to 10"),
        ({"board": "microbit", "timeout": 0}, "must be more than 0 seconds"),
    ],
)
def test_bad_configurations(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BoardError, match=message):
        micro.Session(given)


def test_configurations_choose_how_a_board_is_reached() -> None:
    assert micro.generate_config("mps2_an500")["comms_method"] == "qemu"
    assert micro.generate_config("stm32f746_disco")["comms_method"] == "openocd"
    assert micro.generate_config("microbit", server_port=3333)["comms_method"] == "gdb"


@pytest.mark.parametrize(
    ("serial", "message"),
    [
        ({"driver": "uart", "address": 0x40000000}, "its driver is 'uart', but must be one of cmsdk, nrf51"),
        ({"driver": "cmsdk", "address": 0x40000002}, "its address 0x40000002 must be a multiple of 4, within 32 bits"),
        (
            {"driver": "cmsdk", "address": 0x40000000, "interrupt": 480},
            "its interrupt is 480, but must be one of 0 to 479",
        ),
        ({"driver": "cmsdk"}, "its description lacks 'address'"),
        ({"driver": "cmsdk", "address": 0x40000000, "speed": 9600}, "nothing reads 'speed'"),
    ],
)
def test_serial_ports(serial: dict[str, Any], message: str) -> None:
    with pytest.raises(BoardError, match=f"the board mine, serial: {message}"):
        board(changed(serial=serial))
    found = board(changed(serial={"driver": "stm32", "address": 0x40011000, "interrupt": 37})).serial
    assert found == ("stm32", 0x40011000, 37) and board(GOOD).serial is None
