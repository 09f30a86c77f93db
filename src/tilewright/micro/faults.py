"""What a processor tells about a fault: registers of Cortex-M ("Armv7-M Architecture Reference Manual", B3.2) and of RISC-V ("Privileged
Architecture", mcause)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.micro.debug.remote import Remote, words
from tilewright.micro.errors import DeviceFault, MicroError
from tilewright.micro.layout import Section
from tilewright.micro.linking.elf import Symbol

CFSR = 0xE000ED28
"""Address of the words CFSR, HFSR, DFSR, MMFAR, BFAR."""
_CAUSES = {
    0: "an instruction was fetched from where none may be",
    1: "data were accessed where that is forbidden",
    3: "a fault while a fault left the stack",
    4: "a fault while a fault entered the stack",
    8: "an instruction could not be fetched from the bus",
    9: "the bus refused an access",
    10: "the bus refused an earlier write",
    11: "the bus refused to give registers back from the stack",
    12: "the bus refused to put registers on the stack",
    16: "an undefined instruction",
    17: "code that is not Thumb code",
    18: "a wrong return from an exception",
    19: "an instruction of a coprocessor that is missing or off",
    20: "the stack overflowed",
    24: "an unaligned access",
    25: "a division by zero",
}
_MEMORY_VALID, _BUS_VALID = 7, 15
_TRAPS = {
    0: "a misaligned instruction", 1: "an instruction could not be fetched", 2: "an undefined instruction", 3: "a breakpoint",
    4: "a misaligned load", 5: "a load was refused", 6: "a misaligned store", 7: "a store was refused", 8: "a call of the environment",
    11: "a call of the environment",
}  # fmt: skip
_EXCEPTIONS = {3: "HardFault", 4: "MemManage", 5: "BusFault", 6: "UsageFault", 7: "SecureFault", 2: "NMI"}
ICSR = 0xE000ED04


class Fault(NamedTuple):
    """A fault. name: of the exception; frame: the address of the registers on the stack (Cortex-M)."""

    name: str
    reason: str
    pc: int
    address: int | None
    registers: dict[str, int]
    frame: int


def cortex_m_fault(remote: Remote, has_status: bool) -> Fault:
    """The fault at whose handler a Cortex-M stands. has_status: whether the processor says what it was, as those of ARMv6-M do not."""
    frame = remote.register("sp")
    names = ("r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr")
    registers: dict[str, int] = dict.fromkeys(names, 0)
    with contextlib.suppress(MicroError):  # the stack pointer may point nowhere
        registers |= dict(zip(names, words(remote.read(frame, 32)), strict=True))
    registers |= {f"r{k}": remote.register(f"r{k}") for k in range(4, 12)}
    padded = registers["xpsr"] >> 9 & 1
    registers["sp"] = frame + 32 + 4 * padded
    active = words(remote.read(ICSR, 4))[0] & 0x1FF
    name = _EXCEPTIONS.get(active, f"exception {active}")
    if not has_status:
        return Fault(name, "the processor does not say what it was", registers["pc"], None, registers, frame)
    status, hard, _, memory, bus = words(remote.read(CFSR, 20))
    registers |= {"cfsr": status, "hfsr": hard}
    reasons = [text for bit, text in _CAUSES.items() if status >> bit & 1]
    if hard >> 1 & 1:
        reasons.append("the table of vectors could not be read")
    address = bus if status >> _BUS_VALID & 1 else memory if status >> _MEMORY_VALID & 1 else None
    return Fault(name, "; ".join(reasons) or "no cause is marked", registers["pc"], address, registers, frame)


def riscv_fault(remote: Remote) -> Fault:
    """The trap at whose handler a RISC-V stands."""
    registers = {n: remote.register(n) for n, r in remote.registers.items() if r.number < 33}
    cause, pc, value = (remote.register(n) for n in ("mcause", "mepc", "mtval"))
    registers |= {"pc": pc, "mcause": cause, "mtval": value}
    reason = _TRAPS.get(cause, f"cause {cause:#x}")
    return Fault("trap", reason, pc, value if cause in (1, 4, 5, 6, 7) else None, registers, 0)


def fault_error(name: str, board: str, fault: Fault, function: str, line: str, stack: Section) -> DeviceFault:
    """The error of a fault. name: what was called; function, line: what the program counter was in, "" where that is not known."""
    place = (f" in {function}" if function else "") + (f", {line}" if line else "")
    reason = fault.reason
    if fault.frame and fault.frame < stack.start:
        reason = f"the stack overflowed its {stack.size} bytes ({reason})"
    touched = f" of address {fault.address:#010x}" if fault.address is not None else ""
    listed = " ".join([f"{n}={value:#x}" for n, value in fault.registers.items() if n != "pc"])
    return DeviceFault(
        f"{name} faulted on {board}: {fault.name}: {reason}{touched}, at pc={fault.pc:#010x}{place}\n{listed}",
        reason, function, fault.pc, fault.address, fault.registers, line,
    )  # fmt: skip


def told_fault(text: str, functions: Sequence[Symbol], line: Callable[[int], str] = lambda address: "") -> str:
    """What firmware tells of a fault ("fault pc=0x... cfsr=0x..."), in words. functions: those of the firmware, by address; line: the line
    of source of an address. Other texts stay as they are."""
    if not text.startswith("fault "):
        return text
    found = {name: int(value, 16) for name, value in re.findall(r"(\w+)=0x([0-9a-f]+)", text)}
    pc = found.get("pc", 0) & ~1
    inside = next((s.name for s in functions if s.value & ~1 <= pc < (s.value & ~1) + s.size), "")
    if "mcause" in found:
        reasons, touched = (
            [_TRAPS.get(found["mcause"], f"cause {found['mcause']:#x}")],
            found["mcause"] in (1, 4, 5, 6, 7),
        )
    elif "cfsr" in found:
        status = found["cfsr"]
        reasons = [t for bit, t in _CAUSES.items() if status >> bit & 1] or ["no cause is marked"]
        touched = bool(status >> _BUS_VALID & 1 or status >> _MEMORY_VALID & 1)
    else:
        reasons, touched = ["a fault; the processor does not say what it was"], False
    address = f" of address {found['address']:#010x}" if touched else ""
    places = [*([f" in {inside}"] if inside else []), *([f", {source}"] if (source := line(pc)) else [])]
    return f"{'; '.join(reasons)}{address}, at pc={pc:#010x}{''.join(places)}"


__all__ = ["Fault", "cortex_m_fault", "fault_error", "riscv_fault", "told_fault"]
