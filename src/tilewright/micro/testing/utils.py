"""Platforms and boards of projects, and what tests read of packages and logs."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.micro.board import board as board_of
from tilewright.micro.board import known_boards
from tilewright.micro.errors import MicroError
from tilewright.micro.package_format import package_metadata
from tilewright.micro.project_api.server import IoTimeoutError
from tilewright.micro.standalone import MicroTVMTemplateProject, get_microtvm_template_projects
from tilewright.micro.transport.base import Transport
from tilewright.target import Target
from tilewright.target import micro as micro_target

TIMEOUT_SEC = 10
"""Seconds that a device has to answer, in tests."""
AGAIN = 0.5
"""Seconds after which firmware that may not have begun yet is asked again."""


def get_supported_platforms() -> list[str]:
    """The platforms that projects are made for."""
    return MicroTVMTemplateProject.list()


def get_supported_boards(platform: str) -> dict[str, dict[str, Any]]:
    """The boards of a platform, by name: `model`, `is_qemu` (whether an emulator has it), `fpu`. Those of "crt" are this machine; of others
    boards that this package describes, where "zephyr" and "arduino" know more. Raises MicroTVMTemplateProjectNotFoundError."""
    get_microtvm_template_projects(platform)
    if platform == MicroTVMTemplateProject.CRT.value:
        return {"host": {"model": "host", "is_qemu": False, "fpu": True}}
    found = {name: board_of(name) for name in known_boards()}
    return {
        name: {"model": b.model, "is_qemu": b.qemu is not None, "fpu": b.fpu != "none"}
        for name, b in found.items()
        if platform != MicroTVMTemplateProject.QEMU.value or (b.qemu is not None and b.serial is not None)
    }


def get_target(platform: str, board: str | None = None) -> Target:
    """The target of a platform's board. Raises MicroError for boards that are not known."""
    boards = get_supported_boards(platform)
    if platform == MicroTVMTemplateProject.CRT.value:
        host: Target = micro_target("host")
        return host
    if board not in boards:
        raise MicroError(f"the platform {platform} has no board {board!r}; it has {', '.join(boards)}")
    return board_of(board).target("c")


def check_tune_log(log_path: str | os.PathLike[str]) -> None:
    """Raises MicroError where a record of AutoTVM is of a measurement that failed, and ValueError for lines that are no records."""
    for number, line in enumerate(Path(log_path).read_text().splitlines(), 1):
        if not line.strip():
            continue
        record = json.loads(line)
        if record["result"][1]:
            raise MicroError(f"{os.fspath(log_path)}, line {number}: the measurement failed: {record['result'][0]}")


def mlf_extract_workspace_size_bytes(mlf_tar_path: str | os.PathLike[str]) -> int:
    """The bytes of workspace of the model in a package. Raises MicroError for packages without a model."""
    metadata = package_metadata(mlf_tar_path)
    for facts in (metadata or {}).get("modules", {}).values():
        if facts["style"] == "full-model":
            return int(facts["memory"]["functions"]["main"][0]["workspace_size_bytes"])
    raise MicroError(f"{os.fspath(mlf_tar_path)} has no model")


def create_header_file(
    tensor_name: str, npy_data: np.ndarray[Any, Any], output_path: str | os.PathLike[str], tar_file: tarfile.TarFile
) -> None:
    """Adds a C header with an array, and its number of elements (NAME_len), to an archive. output_path: its folder there."""
    kinds = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}
    kind = kinds.get(npy_data.dtype.name)
    if kind is None:
        raise ValueError(f"{tensor_name}: headers have arrays of {', '.join(kinds)}, not of {npy_data.dtype}")
    values = ", ".join([float(v).hex() + "f" if kind == "float" else str(v) for v in npy_data.ravel().tolist()])
    text = (
        f"#include <stddef.h>\n#include <stdint.h>\nconst size_t {tensor_name}_len = {npy_data.size};\n"
        f"__attribute__((aligned(16))) {kind} {tensor_name}[] = {{{values or '0'}}};\n"
    ).encode()
    info = tarfile.TarInfo(os.path.join(output_path, f"{tensor_name}.h"))
    info.size = len(text)
    tar_file.addfile(info, io.BytesIO(text))


def aot_transport_init_wait(transport: Transport) -> None:
    """Waits for firmware without a client (the project type aot_standalone): asks it until it answers, for TIMEOUT_SEC at most. Raises
    IoTimeoutError where it does not."""
    until = time.monotonic() + TIMEOUT_SEC
    while True:
        transport.write(b"init%", timeout_sec=TIMEOUT_SEC)
        try:
            aot_transport_find_message(transport, "wakeup", timeout_sec=AGAIN)
            return
        except IoTimeoutError:
            if time.monotonic() > until:
                raise


def aot_transport_find_message(transport: Transport, expression: str, timeout_sec: float) -> str:
    """The next line of a device that has an expression in it, with its end. Raises IoTimeoutError where none comes in time."""
    until, line = time.monotonic() + timeout_sec, b""
    while True:
        line += transport.read(1, timeout_sec=max(0.0, until - time.monotonic()))
        if line.endswith(b"\n"):
            text, line = line.decode(errors="replace"), b""
            if expression in text:
                return text


def get_conv2d_relay_module() -> IRModule:
    """A convolution of int8: data (1, 3, 64, 64), weight (8, 3, 5, 5), padding 2, to int32."""
    data = relay.var("data", shape=(1, 3, 64, 64), dtype="int8")
    weight = relay.var("weight", shape=(8, 3, 5, 5), dtype="int8")
    y = relay.nn.conv2d(data, weight, padding=(2, 2), kernel_size=(5, 5), channels=8, out_dtype="int32")
    return IRModule.from_expr(relay.Function([data, weight], y))


__all__ = [
    "TIMEOUT_SEC", "aot_transport_find_message", "aot_transport_init_wait", "check_tune_log", "create_header_file",
    "get_conv2d_relay_module", "get_supported_boards", "get_supported_platforms", "get_target", "mlf_extract_workspace_size_bytes",
]  # fmt: skip
