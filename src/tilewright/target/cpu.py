"""Facts about CPUs: features of the host and of named CPUs, and the numbers by which schedules are chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from llvmlite import binding

from tilewright.target.core import core
from tilewright.target.triples import architecture, is_bare

CACHE_LINE, BARE_ALIGNMENT = 64, 8
"""Where tensors and temporaries begin: at multiples of a cache line; without an operating system, at those of the stacks of Arm and RISC-V,
which code need not align then. No register of these processors wants more."""

_V2 = "cx16 sahf popcnt sse3 ssse3 sse4.1 sse4.2 sse2"
_V3 = _V2 + " avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
_V4 = _V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"
_CASCADE = _V4 + " avx512vnni"
_ICELAKE = _CASCADE + " avx512vbmi avx512vbmi2 avx512ifma avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq"
_SAPPHIRE = _ICELAKE + " avx512bf16 avx512fp16 avxvnni amx-tile amx-bf16 amx-int8"
_ZEN4 = _ICELAKE + " avx512bf16"
_A64 = "neon fp-armv8"
_A76 = _A64 + " fullfp16 dotprod lse rdm"
_A710 = _A76 + " sve sve2 bf16 i8mm"
_M55 = "mve mve.fp fp-armv8d16 fullfp16 dsp thumb-mode"
_RV64GC = "m a f d c"

_CPU_FEATURES: dict[str, str] = {
    "x86-64": "sse2",
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "nehalem": _V2,
    "corei7": _V2,
    "westmere": _V2,
    "sandybridge": _V2 + " avx xsave",
    "ivybridge": _V2 + " avx xsave f16c",
    "haswell": _V3,
    "core-avx2": _V3,
    "broadwell": _V3,
    "skylake": _V3,
    "znver1": _V3,
    "znver2": _V3,
    "znver3": _V3,
    "znver4": _ZEN4,
    "znver5": _ZEN4 + " avxvnni avx512vp2intersect",
    "alderlake": _V3 + " avxvnni gfni vaes vpclmulqdq",
    "raptorlake": _V3 + " avxvnni gfni vaes vpclmulqdq",
    "skylake-avx512": _V4,
    "skx": _V4,
    "cascadelake": _CASCADE,
    "cooperlake": _CASCADE + " avx512bf16",
    "cannonlake": _V4 + " avx512vbmi avx512ifma",
    "icelake-client": _ICELAKE,
    "icelake-server": _ICELAKE,
    "gracemont": _V3 + " avxvnni gfni vaes vpclmulqdq",
    "tigerlake": _ICELAKE,
    "rocketlake": _ICELAKE,
    "sapphirerapids": _SAPPHIRE,
    "emeraldrapids": _SAPPHIRE,
    "graniterapids": _SAPPHIRE + " amx-fp16",
    "cortex-a53": _A64,
    "cortex-a57": _A64,
    "cortex-a72": _A64,
    "cortex-a73": _A64,
    "cortex-a55": _A76,
    "cortex-a75": _A76,
    "cortex-a76": _A76,
    "cortex-a77": _A76,
    "cortex-a78": _A76,
    "cortex-a78ae": _A76,
    "cortex-x1": _A76,
    "cortex-a710": _A710,
    "cortex-a715": _A710,
    "carmel": _A64 + " fullfp16 lse rdm",
    "neoverse-n1": _A76,
    "neoverse-n2": _A710,
    "neoverse-v1": _A76 + " sve bf16 i8mm",
    "a64fx": _A64 + " fullfp16 lse rdm sve",
    "neoverse-v2": _A710,
    "neoverse-v3ae": _A710,
    "apple-m1": _A76,
    "apple-m2": _A76 + " bf16 i8mm",
    "apple-m3": _A76 + " bf16 i8mm",
    "apple-m4": _A76 + " bf16 i8mm sme",
    "cortex-a5": "neon vfp4",
    "cortex-a7": "neon vfp4",
    "cortex-a8": "neon",
    "cortex-a9": "neon",
    "cortex-a15": "neon vfp4",
    "cortex-m4": "vfp4d16sp dsp thumb-mode",
    "cortex-m7": "fp-armv8d16 dsp thumb-mode",
    "cortex-m33": "fp-armv8d16sp dsp thumb-mode",
    "cortex-m55": _M55,
    "cortex-m85": _M55,
    "sifive-u54": _RV64GC,
    "sifive-u74": _RV64GC + " zba zbb",
    "sifive-p550": _RV64GC + " zba zbb",
    "spacemit-x60": _RV64GC + " v zba zbb zbs zfh zvfh",
}

_SVE_BITS = {"neoverse-v1": 256, "a64fx": 512}
"""Bits of the SVE registers of CPUs where they are wider than 128."""

_CACHES = {
    "32K 256K 8M": "nehalem corei7 westmere sandybridge ivybridge haswell core-avx2 broadwell skylake",
    "32K 1M 32M": "skylake-avx512 skx cascadelake cooperlake znver4",
    "48K 512K 8M": "icelake-client rocketlake",
    "48K 1280K 16M": "icelake-server tigerlake alderlake raptorlake",
    "48K 2M 32M": "sapphirerapids emeraldrapids graniterapids",
    "32K 512K 16M": "znver1 znver2",
    "32K 512K 32M": "znver3",
    "48K 1M 32M": "znver5",
    "32K 512K 0": "cortex-a53 cortex-a55 cortex-a7 cortex-a9 cortex-a15",
    "32K 1M 0": "cortex-a72 cortex-a73 cortex-a75",
    "64K 512K 4M": "cortex-a76 cortex-a78",
    "64K 1M 32M": "neoverse-n1 neoverse-n2 neoverse-v1",
    "64K 2M 64M": "neoverse-v2",
    "64K 8M 0": "a64fx",
    "128K 4M 8M": "apple-m1 apple-m2 apple-m3 apple-m4",
}
"""Data caches of CPUs by level, as their makers state them for the common models: what a core has of the first two, and what cores
share of the third."""

SCHEDULED_THREADS = 16
"""Threads that parallel loops are cut for where -num-cores does not say. Up to four times as many find work, since a loop has several
pieces for each; one thread runs the pieces one after the other, in the order that a loop without them would."""


def known_caches(cpu: str) -> dict[int, int]:
    """Bytes of the data caches of the named CPU by level; empty for names that the table does not hold."""
    sizes = next((sizes for sizes, names in _CACHES.items() if cpu in names.split()), "")
    return {level: _in_bytes(size) for level, size in enumerate(sizes.split(), 1)}


def _in_bytes(size: str) -> int:
    """48K, 2M: the number that it stands for."""
    return int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)


def cpu_features(triple: str, cpu: str) -> frozenset[str]:
    """Features that the named CPU implies; the triple's baseline for names that the table does not hold."""
    return frozenset(_CPU_FEATURES.get(cpu, "").split()) or baseline(triple)


def baseline(triple: str) -> frozenset[str]:
    """Features of all CPUs that a triple stands for: LLVM's own baseline, and for RISC-V what Linux distributions ask for (RV64GC)."""
    arch, head = architecture(triple), triple.split("-", 1)[0].lower()
    if arch == "arm":
        return frozenset(
            {"neon"} if re.match(r"(armv7|thumbv7)(a|k|s|l|hl|ve)?$|(arm|thumb)v8(?!(\.\d)?[mr])", head) else ()
        )
    if arch == "riscv":
        return frozenset({"m", "a", "f", "d", "c"} if "linux" in triple or "android" in triple else ())
    return frozenset({"x86": "sse2", "aarch64": _A64}.get(arch, "").split())


def sve_feature(features: frozenset[str], bits: int) -> frozenset[str]:
    """`features`, with "sve256" where code uses SVE registers as vectors of 256 bits: such code runs on no other width.

    What 128 bits hold is computed in registers of NEON, and runs on SVE of any width, so 128 adds nothing.
    """
    return features | {f"sve{bits}"} if "sve" in features and bits > 128 else features


def sve_bits(cpu: str) -> int:
    """Bits of the SVE registers of the named CPU; 128, which all have, where the table does not say more."""
    return _SVE_BITS.get(cpu, 128)


class HostCpu:
    """The machine this process runs on: LLVM's `name`, `features` that are on, `triple`, caches, SVE's width."""

    __slots__ = ("arch", "caches", "features", "name", "off", "sve_bits", "triple")

    def __init__(self) -> None:
        self.name = binding.get_host_cpu_name()
        self.triple = binding.get_process_triple()
        self.arch = architecture(self.triple)
        flags = binding.get_host_cpu_features()
        self.features = frozenset(name for name, on in flags.items() if on)
        self.off = frozenset(name for name, on in flags.items() if not on)
        self.caches = _cache_sizes()
        self.sve_bits = _host_sve_bits()


@lru_cache(maxsize=1)
def host_cpu() -> HostCpu:
    """The host, detected once per process. Features come from CPUID: virtual machines report odd model names."""
    return HostCpu()


def _cache_sizes() -> dict[int, int]:
    """Bytes of the data or unified cache of each level, where the system tells (Linux sysfs)."""
    sizes: dict[int, int] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind = (index / "type").read_text().strip()
            size = _in_bytes((index / "size").read_text().strip())
            level = int((index / "level").read_text())
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            sizes[level] = size
    return sizes


def _host_sve_bits() -> int:
    """The width that Linux gives to SVE registers of a process, which may be less than the CPU's; 128 where it does not say."""
    try:
        return 8 * int(Path("/proc/sys/abi/sve_default_vector_length").read_text())
    except (OSError, ValueError):
        return 128


class CpuFacts:
    """Facts about a CPU for schedules.

    `vector_bits` is the widest vector register worth using, `vector_registers` their number (the whole
    architectural file), `fma` fused multiply-add on float32 vectors, `extremes_keep_nan` minima and maxima of floats that are NaN where
    either operand is, `sve_bits` the width that SVE's registers are known to have (0: any); `threads` how many parallel loops are cut for
    (a run may have fewer or more); `pairs` whether pairs of 16-bit numbers are multiplied in general registers, `byte_dots` whether an
    instruction adds the products of two vectors of bytes to a general register; cache sizes in bytes;
    `intrinsics` whether code for it may name single instructions; `core` the numbers of the cost model; `alignment` the bytes at whose
    multiples tensors and temporaries begin: a cache line, or the alignment of stacks on processors without an operating system.
    """

    __slots__ = (
        "alignment",
        "amx_bf16",
        "amx_int8",
        "arch",
        "avx2",
        "avx512",
        "avx512_bf16",
        "byte_dots",
        "core",
        "dotprod",
        "extremes_keep_nan",
        "features",
        "fma",
        "fp16",
        "helium",
        "intrinsics",
        "l1_bytes",
        "l2_bytes",
        "l3_bytes",
        "neon",
        "pairs",
        "pointer_bits",
        "rvv",
        "simd128",
        "sve",
        "sve_bits",
        "threads",
        "vector_bits",
        "vector_registers",
        "vnni",
    )

    def __init__(
        self,
        triple: str,
        features: frozenset[str],
        threads: int,
        caches: Mapping[int, int],
        intrinsics: bool = True,
        name: str = "",
    ) -> None:
        self.intrinsics = intrinsics
        self.arch = arch = architecture(triple)
        self.features = features
        self.threads = threads
        has = features.__contains__
        head = triple.split("-", 1)[0].lower()
        self.alignment = BARE_ALIGNMENT if is_bare(triple) else CACHE_LINE
        self.pointer_bits = 64 if head in ("x86_64", "amd64") or "64" in head else 32
        self.avx512 = arch == "x86" and has("avx512f") and has("avx512vl") and has("avx512bw") and has("avx512dq")
        self.avx2 = has("avx2")
        self.avx512_bf16 = intrinsics and has("avx512bf16")
        self.amx_bf16 = intrinsics and has("amx-bf16")
        self.amx_int8 = intrinsics and has("amx-int8")
        self.neon = arch in ("aarch64", "arm") and has("neon")
        self.helium = arch == "arm" and has("mve.fp")
        # Code in C names these instructions as functions, which are portable where the compiler has none.
        self.pairs = arch == "arm" and has("dsp") and not self.helium
        self.byte_dots = intrinsics and self.helium
        self.sve = has("sve")
        self.sve_bits = max([int(name[3:]) for name in features if re.fullmatch(r"sve\d{3,}", name)], default=0)
        self.rvv = arch == "riscv" and has("v")
        self.simd128 = arch == "wasm" and has("simd128")
        self.vnni = intrinsics and (has("avx512vnni") or has("avxvnni"))
        self.dotprod = intrinsics and has("dotprod")
        self.fp16 = has("avx512fp16") or has("fullfp16")
        self.fma = {
            "x86": has("fma") or has("avx512f"),
            "aarch64": True,
            "arm": any(
                map(has, ("vfp4", "vfp4d16", "vfp4d16sp", "vfp4sp", "fp-armv8", "fp-armv8d16", "fp-armv8d16sp"))
            ),
            "riscv": has("f") or has("d"),
        }.get(arch, False)
        self.extremes_keep_nan = arch in ("aarch64", "wasm")
        self.vector_bits = self._vector_bits(has("avx"))
        self.vector_registers = (
            32 if self.avx512 or arch in ("aarch64", "riscv") else 15 if self.simd128 else 8 if self.helium else 16
        )
        self.core = core(self._family(name), self.vector_registers)
        self.l1_bytes = caches.get(1, 32 << 10)
        self.l2_bytes = caches.get(2, 512 << 10)
        self.l3_bytes = caches.get(3, 0)

    def _vector_bits(self, avx: bool) -> int:
        if self.avx512:
            return 512
        if self.arch == "x86":
            return 256 if avx else 128
        if self.sve_bits or self.neon or self.helium or self.simd128 or self.rvv:
            return self.sve_bits or 128
        return self.pointer_bits

    def _family(self, name: str) -> str:
        """The description of cores (target/cores) that fits the named CPU, or the features alone."""
        if self.avx512:
            return "avx512_amd" if name.startswith("znver") else "avx512_intel"
        if self.arch == "x86":
            return "avx2"
        if self.arch in ("aarch64", "arm") and self.vector_bits >= 128:
            return "sve" if self.sve_bits else "neon"
        if self.simd128:
            return "wasm"
        return "portable"

    def lanes(self, dtype_bits: int) -> int:
        """How many elements of `dtype_bits` one vector register holds, at least 1. An element takes a byte of memory at least."""
        return max(1, self.vector_bits // max(8, dtype_bits))

    def masks(self, dtype_bits: int) -> bool:
        """Whether single lanes of so many bits of a vector in memory can be read and written."""
        if self.arch == "x86":
            return self.avx512 or (self.vector_bits >= 256 and dtype_bits in (32, 64))
        return bool(self.sve_bits or self.rvv)

    def __repr__(self) -> str:
        return f"CpuFacts({self.arch}, {self.vector_registers}x{self.vector_bits} bit, {self.threads} threads)"


def apply_attributes(features: Iterable[str], attributes: Iterable[str]) -> frozenset[str]:
    """`features` with "+name" added and "-name" removed, in order."""
    result = set(features)
    for item in attributes:
        (result.discard if item.startswith("-") else result.add)(item[1:])
    return frozenset(result)
