"""The features of a target's CPU under the names that classic programs ask for: `target.features.has_sve`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.target.llvm_names import CPUS
from tilewright.target.triples import architecture

MICROCONTROLLERS = frozenset([cpu for cpu in CPUS["arm"] if cpu.startswith("cortex-m")])
"""The CPUs of Arm's M profile."""

_DSP = frozenset({"cortex-m4", "cortex-m7", "cortex-m33", "cortex-m35p", "cortex-m55", "cortex-m85"})
_MVE = frozenset({"cortex-m55", "cortex-m85"})

_CLASSIC = {
    "has_asimd": "neon",
    "has_fp16_simd": "fullfp16",
    "has_matmul_i8": "i8mm",
}
"""Features whose classic name is not `has_` before LLVM's."""


class Features(frozenset[str]):
    """The names of features; `has_<name>` and `is_<architecture>` as attributes. LLVM's names have "-" or "." where attributes have "_"."""

    _triple: str

    def __new__(cls, names: Iterable[str], triple: str) -> Features:
        made = super().__new__(cls, names)
        made._triple = triple
        return made

    def __getattr__(self, name: str) -> bool:
        if name in _CLASSIC:
            return _CLASSIC[name] in self
        if name.startswith("has_"):
            return name[4:] in {re.sub("[-.]", "_", feature) for feature in self}
        if name.startswith("is_"):
            return architecture(self._triple) == name[3:]
        raise AttributeError(
            f"features of a target are asked for as has_<feature> or is_<architecture>, but {name!r} was given"
        )


def microcontroller_features(cpu: str, attributes: Iterable[str]) -> frozenset[str]:
    """What a CPU of the M profile has besides what LLVM tells: "dsp" and "mve", unless -mattr takes them away."""
    off = {item[1:] for item in attributes if item.startswith("-")}
    return frozenset([name for name, cpus in (("dsp", _DSP), ("mve", _MVE)) if cpu in cpus and name not in off])
