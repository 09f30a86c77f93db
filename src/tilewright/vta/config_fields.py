"""The JSON fields of a configuration, as classic programs write them.

Those that hold the logarithm of a size (`LOG_BATCH`) have a second form without `LOG_`, which is the size itself and need not be a power of
two. `LOG_BLOCK` stands for both sides of the array; `LOG_BLOCK_IN` and `LOG_BLOCK_OUT` make one that is not square.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tilewright.vta.configuration import TARGETS, Configuration
from tilewright.vta.isa.layout import fit


class ConfigField(NamedTuple):
    """A field of the JSON: its name, the attribute of `Configuration`, whether it has a form `LOG_`, what it may be, what it means."""

    name: str
    attribute: str
    log: bool
    allowed: range | tuple[int, ...]
    meaning: str


SIZE = range(1, (1 << 31) + 1)
FIELDS = (
    ConfigField("INP_WIDTH", "inp_width", True, (2, 4, 8, 16), "bits of an input"),
    ConfigField("WGT_WIDTH", "wgt_width", True, (2, 4, 8, 16), "bits of a weight"),
    ConfigField("ACC_WIDTH", "acc_width", True, (16, 32), "bits of an accumulator"),
    ConfigField("OUT_WIDTH", "out_width", True, (2, 4, 8, 16, 32), "bits of an output; default: those of an input"),
    ConfigField("BATCH", "batch", True, range(1, 257), "rows of the array's input"),
    ConfigField("BLOCK_IN", "block_in", True, range(1, 257), "inputs that a product adds up"),
    ConfigField("BLOCK_OUT", "block_out", True, range(1, 257), "outputs that a product gives"),
    ConfigField("UOP_BUFF_SIZE", "uop_buff_size", True, SIZE, "bytes of the memory of micro-ops"),
    ConfigField("INP_BUFF_SIZE", "inp_buff_size", True, SIZE, "bytes of the memory of inputs"),
    ConfigField("WGT_BUFF_SIZE", "wgt_buff_size", True, SIZE, "bytes of the memory of weights"),
    ConfigField("ACC_BUFF_SIZE", "acc_buff_size", True, SIZE, "bytes of the memory of accumulators"),
    ConfigField("INS_WIDTH", "ins_width", True, (128, 256), "bits of an instruction; default: the fewest that hold its fields"),
    ConfigField("UOP_WIDTH", "uop_width", True, (32, 64), "bits of a micro-op; default: the fewest that hold its fields"),
    ConfigField("COHERENT", "coherent", False, (0, 1), "whether the CPU's caches see the accelerator's memory"),
    ConfigField("HW_FREQ", "frequency", False, range(1, 5001), "megahertz of the clock"),
    ConfigField("COMMAND_QUEUE", "command_queue", False, range(1, 65537), "instructions that wait at a unit"),
    ConfigField("TOKEN_QUEUE", "token_queue", False, range(1, 65537), "tokens that a dependency queue holds"),
    ConfigField("DRAM_LATENCY", "dram_latency", False, range(1, 10001), "cycles from a request to its first data"),
    ConfigField("DRAM_BYTES", "dram_bytes", True, (1, 2, 4, 8, 16, 32, 64, 128, 256), "bytes that DRAM moves in a cycle"),
    ConfigField("DRAM_BURST", "dram_burst", True, (16, 32, 64, 128, 256, 512, 1024, 2048, 4096), "bytes of the longest request"),
    ConfigField("DRAM_REQUESTS", "dram_requests", False, range(1, 257), "requests of a unit that may be under way"),
    ConfigField("SRAM_PORTS", "sram_ports", False, (1, 2), "1: inputs, weights and outputs are read or written in a cycle; 2: both"),
    ConfigField("GEMM_LATENCY", "gemm_latency", False, range(1, 65), "cycles from reading an accumulator to its write, of a product"),
    ConfigField("ALU_LATENCY", "alu_latency", False, range(1, 65), "the same, of the ALU"),
)  # fmt: skip
_IGNORED = ("HW_VER", "HW_CLK_TARGET")
_BOTH = ("LOG_BLOCK", "BLOCK")


def of_fields(cfg: Mapping[str, Any]) -> Configuration:
    """The configuration of JSON fields; those that are missing have the values of the classic default. ValueError for unknown fields, for
    values that a field cannot have, and for configurations that cannot be encoded."""
    values: dict[str, Any] = {}
    given: dict[str, str] = {}

    def put(attribute: str, value: int, name: str) -> None:
        if values.setdefault(attribute, value) != value:
            raise ValueError(f"{name} says {value}, but {given[attribute]} says {values[attribute]}; give one of them")
        given.setdefault(attribute, name)

    known = {form: f for f in FIELDS for form in ([f.name, f"LOG_{f.name}"] if f.log else [f.name])}
    for name, value in cfg.items():
        if name in _IGNORED:
            continue
        if name == "TARGET":
            if value not in TARGETS:
                raise ValueError(f"TARGET is {value!r}; it can be {', '.join(TARGETS)}")
            values["target"] = value
        elif name in _BOTH:
            for side in ("IN", "OUT"):
                put(f"block_{side.lower()}", _size(name, value, known[f"BLOCK_{side}"]), name)
        elif name == "LOG_OUT_BUFF_SIZE":
            continue  # it follows: an output for every accumulator
        elif name in known:
            put(known[name].attribute, _size(name, value, known[name]), name)
        else:
            near = difflib.get_close_matches(name, ["TARGET", *_BOTH, *known], n=3)
            raise ValueError(f"unknown field {name}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    values.setdefault("out_width", values.get("inp_width", Configuration.inp_width))
    return _checked(values)


def _size(name: str, value: Any, field: ConfigField) -> int:
    """The size that a field gives, by its logarithm or itself."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be an integer")
    if name.startswith("LOG_"):
        if not 0 <= value <= 31:
            raise ValueError(f"{name} is {value}; it can be 0 to 31")
        value = 1 << value
    if value not in field.allowed:
        allowed = field.allowed
        can = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise ValueError(f"{name} gives {value} for {field.meaning.partition(';')[0]}; it can be {can}")
    return int(value)


def _checked(values: dict[str, Any]) -> Configuration:
    """A configuration that can be encoded, with the widths of instructions and micro-ops where they were not given."""
    trial = Configuration(**{"uop_width": 32, **values})
    for memory in ("wgt", "inp", "acc", "out"):
        rows, columns = trial.lanes(memory)
        if trial.element_bits(memory) % 8:
            raise ValueError(
                f"an element of {memory} has {rows} x {columns} numbers of {trial.width(memory)} bits; it must be a whole number of bytes"
            )
    if trial.out_width > trial.acc_width:
        raise ValueError(f"OUT_WIDTH is {trial.out_width}, more than the {trial.acc_width} bits of an accumulator")
    for memory in ("uop", "inp", "wgt", "acc"):
        size, element = getattr(trial, f"{memory}_buff_size"), trial.element_bytes(memory)
        if size % element:
            below = size // element * element
            raise ValueError(
                f"{memory.upper()}_BUFF_SIZE is {size} bytes, but an element of {memory} has {element};"
                f" take {' or '.join(str(n) for n in (below, below + element) if n)}"
            )
    return fit(trial, values)


def of_json(text: str) -> Configuration:
    """The configuration in a JSON object."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"a configuration is a JSON object of fields, not {type(found).__name__}")
    return of_fields(found)


def to_fields(config: Configuration) -> dict[str, Any]:
    """The JSON fields of a configuration, complete: logarithms where sizes are powers of two."""
    found: dict[str, Any] = {"TARGET": config.target}
    for field in FIELDS:
        value = getattr(config, field.attribute)
        log = field.log and value & (value - 1) == 0
        found[f"LOG_{field.name}" if log else field.name] = value.bit_length() - 1 if log else value
    return found


__all__ = ["FIELDS", "ConfigField", "of_fields", "of_json", "to_fields"]
