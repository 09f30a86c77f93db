"""Targets under the classic names of their makers: `arm_cpu("rasp4b64")`, `micro("nrf52840")`."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.target.tag import known_tags
from tilewright.target.target import Target

Options = str | Sequence[str] | None

_M0 = ["-mtriple=thumbv6m-unknown-none-eabi", "-mcpu=cortex-m0"]
_M0PLUS = ["-mtriple=thumbv6m-unknown-none-eabi", "-mcpu=cortex-m0plus"]
_M3 = ["-mtriple=thumbv7m-unknown-none-eabi", "-mcpu=cortex-m3"]
_M4 = ["-mtriple=thumbv7em-unknown-none-eabihf", "-mcpu=cortex-m4"]
_M7 = ["-mtriple=thumbv7em-unknown-none-eabihf", "-mcpu=cortex-m7"]
_M33 = ["-mtriple=thumbv8m.main-unknown-none-eabihf", "-mcpu=cortex-m33"]
_M55 = ["-mtriple=thumbv8.1m.main-unknown-none-eabihf", "-mcpu=cortex-m55"]
_RV32IMC = ["-mtriple=riscv32-unknown-none-elf", "-mattr=+m,+c", "-mabi=ilp32"]
_RV32IMAC = ["-mtriple=riscv32-unknown-none-elf", "-mattr=+m,+a,+c", "-mabi=ilp32"]
_RV32V = ["-mtriple=riscv32-unknown-none-elf", "-mattr=+m,+a,+c,+f,+d,+v", "-mabi=ilp32d"]
_R5 = ["-mtriple=armv7r-unknown-none-eabihf", "-mcpu=cortex-r5"]

MICRO_SUPPORTED_MODELS: dict[str, list[str]] = {
    "host": [],
    "atsamd51": _M4,
    "cxd5602gg": _M4,
    "esp32": [],
    "esp32c3": _RV32IMC,
    "fe310": _RV32IMAC,
    "imxrt10xx": _M7,
    "mps2_an385": _M3,
    "mps2_an386": _M4,
    "mps2_an500": _M7,
    "mps2_an505": _M33,
    "mps2_an521": _M33,
    "mps3_an547": _M55,
    "nrf51822": _M0,
    "nrf52840": [*_M4, "-mattr=-dsp"],
    "nrf5340dk": _M33,
    "riscv32_virt": _RV32IMAC,
    "riscv32_virt_v": _RV32V,
    "rp2040": _M0PLUS,
    "sam3x8e": _M3,
    "stm32f405xx": _M4,
    "stm32f746xx": _M7,
    "stm32h7xx": _M7,
    "stm32l4r5zi": _M4,
    "stm32u5xx": _M33,
    "zynq_mp_r5": _R5,
}
"""Microcontrollers of `micro`, with the options of their targets."""

STM32_SUPPORTED_SERIES: dict[str, list[str]] = {
    "stm32H7xx": _M7, "stm32F7xx": _M7, "stm32F4xx": _M4, "stm32F2xx": _M3, "stm32G4xx": _M4, "stm32F3xx": _M4, "stm32F1xx": _M3,
    "stm32G0xx": _M0PLUS, "stm32F0xx": _M0, "stm32U5xx": _M33, "stm32L5xx": _M33, "stm32L4xx": _M4, "stm32L1xx": _M3, "stm32L0xx": _M0PLUS,
}  # fmt: skip
"""Series of `stm32`, with the options of their targets."""


def _made(*parts: str, options: Options) -> Target:
    more = [options] if isinstance(options, str) else list(options or ())
    return Target(" ".join([p for p in (*parts, *more) if p]))


def _modelled(prefix: str, fallback: str, model: str, options: Options) -> Target:
    """The target of the tag `prefix`/`model`; for other models that of `fallback` with -model."""
    if f"{prefix}/{model}" in known_tags():
        return _made(f"{prefix}/{model}", options=options)
    return _made(fallback, f"-model={model}", options=options)


def _need(what: str, name: str, known: Mapping[str, list[str]]) -> list[str]:
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        nearest = f"; nearest: {', '.join(close)}" if close else ""
        raise TVMError(f"there is no {what} {name!r}{nearest}. Known: {', '.join(known)}")
    return known[name]


def llvm(*, options: Options = None) -> Target:
    """An LLVM target; `options` as on the command line, for example "-mcpu=znver5"."""
    return _made("llvm", options=options)


def cuda(model: str = "unknown", arch: str | None = None, options: Options = None) -> Target:
    """A GPU of NVIDIA. model: its name in `list_tags`, with or without "nvidia/", or any other text; arch: such as "sm_90"."""
    known = known_tags()
    tags = [model, *[f"nvidia/{prefix}{model}" for prefix in ("", "geforce-", "nvidia-")]]
    tag = next((t for t in tags if t in known), None)
    return _made(tag or f"cuda -model={model}", f"-arch={arch}" if arch else "", options=options)


def rocm(model: str = "unknown", options: Options = None) -> Target:
    """A GPU of AMD."""
    return _made("rocm", f"-model={model}", options=options)


def mali(model: str = "unknown", options: Options = None) -> Target:
    """A Mali GPU of the Midgard family."""
    return _made("opencl -device=mali", f"-model={model}", options=options)


def bifrost(model: str = "unknown", options: Options = None) -> Target:
    """A Mali GPU of the Bifrost family."""
    return _made("opencl -device=bifrost", f"-model={model}", options=options)


def adreno(model: str = "unknown", options: Options = None) -> Target:
    """An Adreno GPU."""
    return _made("opencl -device=adreno", f"-model={model}", options=options)


def intel_graphics(model: str = "unknown", options: Options = None) -> Target:
    """A GPU of Intel."""
    return _made("opencl -device=intel_graphics", f"-model={model}", "-thread_warp_size=16", options=options)


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An ARM CPU. model: one of the tags `arm/...` without the prefix, such as "rasp4b64", "rk3399" or "pixel2"; with another name the
    options say what machine it is."""
    return _modelled("arm", "llvm -device=arm_cpu", model, options)


def rasp(options: Options = None) -> Target:
    """A Raspberry Pi 3B with a 32-bit system; arm_cpu("rasp3b") is the newer name."""
    warnings.warn("tvm.target.rasp() is deprecated; use tvm.target.arm_cpu('rasp3b')", DeprecationWarning, stacklevel=2)
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A RISC-V CPU. model: one of the tags `riscv/...` without the prefix; with another name the options say what machine it is."""
    return _modelled("riscv", "llvm -device=riscv_cpu -mtriple=riscv64-unknown-linux-gnu", model, options)


def vta(model: str = "unknown", options: Options = None) -> Target:
    """The VTA accelerator."""
    return _made("ext_dev -keys=vta,cpu", f"-model={model}", options=options)


def micro(model: str = "unknown", options: Options = None) -> Target:
    """A microcontroller, by one of MICRO_SUPPORTED_MODELS: C source for its CPU. Raises TVMError for other names."""
    return _made("c", *_need("microcontroller", model, MICRO_SUPPORTED_MODELS), f"-model={model}", options=options)


def stm32(series: str = "unknown", options: Options = None) -> Target:
    """A microcontroller of ST, by one of STM32_SUPPORTED_SERIES: C source for its CPU. Raises TVMError for other names."""
    found = _need("series of STM32", series, STM32_SUPPORTED_SERIES)
    return _made("c -device=arm_cpu", *found, f"-model={series}", options=options)


def hexagon(
    cpu_ver: str = "v68",
    *,
    hvx: int = 128,
    use_qfloat: bool | None = None,
    use_ieee_fp: bool = False,
    num_cores: int = 4,
    vtcm_capacity: int | None = None,
    llvm_options: Options = None,
) -> Target:
    """Qualcomm's Hexagon of a version, "v65" or later. hvx: bytes of its vectors, 0, 64 or 128; use_qfloat: arithmetic in its own float
    format (by default from v68); vtcm_capacity: bytes of its fast memory. Raises TVMError for other values."""
    number = cpu_ver.removeprefix("v").rstrip("t")
    if not cpu_ver.startswith("v") or not number.isdecimal() or not 65 <= int(number) < 100:
        raise TVMError(f"cpu_ver must be a version of Hexagon from v65, such as 'v68', but is {cpu_ver!r}")
    if hvx not in (0, 64, 128):
        raise TVMError(f"hvx must be 0, 64 or 128 bytes, but is {hvx!r}")
    modern = int(number) >= 68
    features = [f"+hvxv{number}", f"+hvx-length{hvx}b"] if hvx else ["-hvx"]
    if hvx and modern:
        quick = use_qfloat if use_qfloat is not None else True
        features += [f"{'+' if quick else '-'}hvx-qfloat", f"{'+' if use_ieee_fp else '-'}hvx-ieee-fp"]
    tag = known_tags().get(f"qcom/hexagon-{cpu_ver}")
    room = vtcm_capacity if vtcm_capacity is not None else (tag.config["vtcm-capacity"] if tag else 0)
    given = [llvm_options] if isinstance(llvm_options, str) else list(llvm_options or ())
    config: dict[str, Any] = {
        "kind": "hexagon",
        "mtriple": "hexagon",
        "mcpu": f"hexagon{cpu_ver}",
        "mattr": features,
        "num-cores": num_cores,
    }
    return Target({**config, "vtcm-capacity": room, **({"llvm-options": given} if given else {})})


__all__ = [
    "MICRO_SUPPORTED_MODELS", "STM32_SUPPORTED_SERIES", "adreno", "arm_cpu", "bifrost", "cuda", "hexagon", "intel_graphics", "llvm", "mali",
    "micro", "rasp", "riscv_cpu", "rocm", "stm32", "vta",
]  # fmt: skip
