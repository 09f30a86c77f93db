"""Target: a kind, its options and the CPU behind it; parsed from the classic strings and dictionaries."""

from __future__ import annotations

import difflib
import json
import shlex
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tilewright.node import register_leaf
from tilewright.support import lazy
from tilewright.support.errors import ProgramError, TVMError
from tilewright.target.cpu import (
    SCHEDULED_THREADS,
    CpuFacts,
    apply_attributes,
    baseline,
    cpu_features,
    host_cpu,
    known_caches,
    sve_bits,
    sve_feature,
)
from tilewright.target.features import MICROCONTROLLERS, Features, microcontroller_features
from tilewright.target.gpu import GpuFacts, gpu_facts
from tilewright.target.kinds import KINDS, TargetKind, kind_named
from tilewright.target.llvm_names import CPUS, FEATURES
from tilewright.target.tag import known_tags, remember, tag_named
from tilewright.target.triples import architecture, is_bare, is_triple, need_triple, normal_triple, with_float_abi

VECTOR_WIDTHS = tuple(32 << k for k in range(7))
"""Bits of vectors that -vector-width may ask for; SVE has registers of up to 2048."""


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> Target:
    """Makes `Target(name)` stand for the target that `config` describes; returns that target."""
    if tag_named(name) is not None and not override:
        raise TVMError(f"target tag {name!r} is registered already; pass override=True to replace it")
    target = Target(config)
    remember(name, config)
    return target


def list_tags() -> dict[str, Target]:
    """Every tag and its target."""
    return {name: Target(name) for name in known_tags()}


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    return f"; nearest known: {', '.join(close)}" if close else ""


class Target:
    """A compilation target.

    `Target("llvm -mcpu=znver5 -num-cores=8")`, `Target({"kind": "llvm", ...})`, `Target("raspberry-pi/5")`, `Target("aarch64-linux-gnu")`,
    `Target("cuda", host="llvm")`. The name of a machine (`list_tags`) or a triple may be followed by options. An "llvm" target without
    -mcpu, -mattr and -mtriple stands for the machine this process runs on, with all of its features; `-mcpu=generic` asks for the
    architecture's baseline.
    Raises TVMError on unknown kinds, options, CPU names and CPU features.
    """

    __slots__ = ("_facts", "_features", "_gpu", "attrs", "host", "keys", "kind", "tag")

    kind: TargetKind
    attrs: Mapping[str, Any]
    keys: tuple[str, ...]
    host: Target | None
    tag: str
    _features: Features | None
    _facts: CpuFacts | None
    _gpu: GpuFacts | None

    _stack: ClassVar[threading.local] = threading.local()

    def __new__(
        cls, target: Target | str | Mapping[str, Any], host: Target | str | Mapping[str, Any] | None = None
    ) -> Self:
        if isinstance(target, cls) and host is None:
            return target
        self = super().__new__(cls)
        if isinstance(target, Target):
            self.kind, self.attrs, self.keys, self.tag = target.kind, target.attrs, target.keys, target.tag
            self.host = target.host
        else:
            self._parse(target)
        if host is not None:
            self.host = Target(host)
        self._features = None
        self._facts = None
        self._gpu = None
        return self

    def _parse(self, target: str | Mapping[str, Any]) -> None:
        self.tag = ""
        if isinstance(target, str):
            options = json.loads(target) if target.lstrip().startswith("{") else _split_options(target)
        elif isinstance(target, Mapping):
            options = dict(target)
        else:
            raise TypeError(
                f"Target takes a str, a dict or a Target, but was given {type(target).__name__}: {target!r}"
            )
        options = _machine_named(options)
        name = options.pop("kind", None)
        if not isinstance(name, str):
            raise TVMError(f"a target needs a kind, such as llvm or cuda, but {target!r} names none")
        kind = kind_named(name)
        if kind is None:
            if "/" in name:
                raise TVMError(
                    f"there is no machine {name!r}{_nearest(name, known_tags())}. `tilewright targets` lists the names; a triple,"
                    " such as aarch64-linux-gnu, is a target too"
                )
            known = [*KINDS, *known_tags()]
            raise TVMError(
                f"there is no target kind {name!r}{_nearest(name, known)}. Kinds: {', '.join(sorted(KINDS))}; a triple, such as"
                " aarch64-linux-gnu, and a machine that `tilewright targets` lists are targets too"
            )
        self.kind = kind
        self.tag = options.pop("tag", self.tag)
        host = options.pop("host", None)
        self.host = Target(host) if host else None
        attrs: dict[str, Any] = {}
        for key, value in options.items():
            if key not in kind.options and kind.takes_any_option:
                attrs[key] = int(value) if isinstance(value, str) and value.isdecimal() else value
                continue
            if key not in kind.options:
                raise TVMError(
                    f"target kind {name!r} has no option -{key}{_nearest(key, kind.options)}. "
                    f"Options: {', '.join(sorted(kind.options))}"
                )
            attrs[key] = _convert(name, key, kind.options[key], value)
        keys = list(attrs.pop("keys", ()))
        device = attrs.get("device")
        if device and device not in keys:
            keys.insert(0, device)
        if name == "c" and attrs.get("mcpu") in MICROCONTROLLERS and "arm_cpu" not in keys:
            keys.insert(0, "arm_cpu")
        keys += [key for key in kind.default_keys if key not in keys]
        self.keys = tuple(keys)
        self.attrs = MappingProxyType({**kind.default_attrs, **attrs})
        if name in ("llvm", "c", "hexagon"):
            self._check_cpu()

    def _check_cpu(self) -> None:
        arch = architecture(self.triple)
        cpu, said = self.attrs.get("mcpu"), self.attrs.get("mtriple") or self.triple
        if arch not in CPUS:
            return
        if cpu is not None and cpu not in CPUS[arch] and cpu != "native":
            raise TVMError(
                f"-mcpu={cpu} is no CPU of {said} that LLVM knows{_nearest(cpu, CPUS[arch])}. "
                f"-mcpu=generic takes the architecture's baseline; leave -mcpu away for this machine"
            )
        for item in self.attrs.get("mattr", ()):
            if item[:1] not in "+-" or len(item) < 2:
                raise TVMError(f"-mattr takes features as +name or -name, but holds {item!r}")
            if item[1:] not in FEATURES[arch]:
                raise TVMError(
                    f"-mattr={item}: {said} has no CPU feature {item[1:]!r}{_nearest(item[1:], FEATURES[arch])}"
                )

    # --- the CPU behind an llvm target

    @property
    def is_host(self) -> bool:
        """Whether this is the machine that the process runs on, with the features it reports."""
        own = self.attrs.get("mcpu", "native") == "native" and "mtriple" not in self.attrs
        return self.kind.name in ("llvm", "c", "interp") and own and "mattr" not in self.attrs

    @property
    def text_for_all(self) -> str:
        """The target as text that means the same on every machine: what stands for this one has the name of its CPU."""
        if not self.is_host:
            return str(self)
        return str(Target(f"{str(self).replace(' -mcpu=native', '')} -mcpu={self.mcpu}"))

    @property
    def is_native(self) -> bool:
        """Whether code for the target can run in this process, as far as architecture and system tell; its CPU features are the user's
        word."""
        host = host_cpu()
        if self.is_host:
            return True
        system = [part for part in ("linux", "darwin", "windows") if part in host.triple]
        same = architecture(self.triple) == host.arch and self.cpu.pointer_bits == Target("llvm").cpu.pointer_bits
        return same and all([part in self.triple for part in system])

    @property
    def triple(self) -> str:
        """The LLVM triple, with all of its parts; that of this process unless -mtriple was given."""
        given = self.attrs.get("mtriple")
        if not given and self.kind.name == "c" and self.attrs.get("mcpu") in MICROCONTROLLERS:
            return "arm-none-eabi"
        if not given:
            return str(host_cpu().triple)
        triple, abi = normal_triple(str(given)), self.attrs.get("mfloat-abi")
        return with_float_abi(triple, str(abi)) if abi else triple

    @property
    def abi(self) -> str:
        """The name of the ABI for LLVM; "" where the triple says all. RISC-V: floats are passed in registers where the CPU has them."""
        given = str(self.attrs.get("mabi", ""))
        if given or architecture(self.triple) != "riscv":
            return given
        floats = "d" if "d" in self.features else "f" if "f" in self.features else ""
        return ("lp64" if "64" in self.triple.split("-")[0] else "ilp32") + floats

    @property
    def mcpu(self) -> str:
        """The CPU name for LLVM."""
        cpu = str(self.attrs.get("mcpu", "native" if self.is_host else "generic"))
        return host_cpu().name if cpu == "native" else cpu

    @property
    def features(self) -> Features:
        """Names of the CPU features that code for this target may use; "sve256": SVE of just that width (-vector-width, or the CPU's). Its
        attributes `has_sve` and the like tell of single ones."""
        if self._features is None:
            if (
                self.attrs.get("mcpu", "native") == "native"
                and "mtriple" not in self.attrs
                and (self.is_host or "mcpu" in self.attrs)
            ):
                base, width = host_cpu().features, host_cpu().sve_bits
            else:
                base, width = cpu_features(self.triple, self.mcpu), sve_bits(self.mcpu)
            given = apply_attributes(base, self.attrs.get("mattr", ()))
            found = sve_feature(given, int(self.attrs.get("vector-width", width)))
            self._features = Features(
                found | microcontroller_features(self.mcpu, self.attrs.get("mattr", ())), self.triple
            )
        return self._features

    @property
    def feature_string(self) -> str:
        """The feature list for LLVM: what the host reports, on and off, or the -mattr given."""
        given = list(self.attrs.get("mattr", ()))
        if self.is_host or self.attrs.get("mcpu") == "native":
            host = host_cpu()
            given = [f"+{name}" for name in sorted(host.features)] + [f"-{name}" for name in sorted(host.off)] + given
        elif architecture(self.triple) == "riscv":
            given = [f"+{name}" for name in sorted(baseline(self.triple))] + given
        return ",".join(given)

    @property
    def cpu(self) -> CpuFacts:
        """The facts that CPU schedules ask for."""
        if self._facts is None:
            attrs = self.attrs
            # What names another CPU is compiled alike wherever it is compiled.
            here = self.is_host or attrs.get("mcpu") == "native"
            caches = dict(host_cpu().caches) if here else known_caches(self.mcpu)
            for level in (1, 2, 3):
                if (size := attrs.get(f"l{level}-cache-bytes")) is not None:
                    caches[level] = size
            facts = CpuFacts(
                self.triple,
                self.features,
                attrs.get("num-cores", 1 if is_bare(self.triple) else SCHEDULED_THREADS),
                caches,
                self.kind.takes_intrinsics,
                self.mcpu,
            )
            if (width := attrs.get("vector-width")) is not None:
                facts.vector_bits = width
            self._facts = facts
        return self._facts

    # --- the GPU of a target for one

    @property
    def gpu(self) -> GpuFacts:
        """The facts that schedules for GPUs and the analysis of kernels ask for. Raises TVMError for kinds that are no GPUs, and for
        architectures that are not written like "sm_80"."""
        if self._gpu is None:
            self._gpu = gpu_facts(self.kind.name, self.attrs, self.tag)
        return self._gpu

    # --- classic accessors

    @property
    def mattr(self) -> list[str]:
        return list(self.attrs.get("mattr", ()))

    @property
    def model(self) -> str:
        return str(self.attrs.get("model", "unknown"))

    @property
    def libs(self) -> list[str]:
        return list(self.attrs.get("libs", ()))

    @property
    def arch(self) -> str:
        return str(self.attrs.get("arch", ""))

    @property
    def max_num_threads(self) -> int:
        return int(self.attrs.get("max_num_threads", 1))

    @property
    def thread_warp_size(self) -> int:
        return int(self.attrs.get("thread_warp_size", 1))

    @property
    def l2_cache_size_bytes(self) -> int:
        """Bytes of a GPU's second cache; 0 where nothing is known."""
        return int(self.attrs.get("l2_cache_size_bytes", 0))

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that a block of a GPU may use. Raises TVMError where the target does not say."""
        return self._need_int("max_shared_memory_per_block")

    @property
    def max_block_size_x(self) -> int:
        return int(self.attrs.get("max_block_size_x", self.max_num_threads))

    @property
    def max_block_size_y(self) -> int:
        return int(self.attrs.get("max_block_size_y", self.max_num_threads))

    @property
    def max_function_args(self) -> int:
        """How many arguments a kernel may have; 0 where nothing is known."""
        return int(self.attrs.get("max_function_args", self.kind.max_function_args))

    @property
    def vtcm_capacity(self) -> int:
        """Bytes of Hexagon's fast memory; 0 for others."""
        return int(self.attrs.get("vtcm-capacity", 0))

    @property
    def device_name(self) -> str:
        return str(self.attrs.get("device", ""))

    @property
    def supports_integer_dot_product(self) -> bool:
        """Whether a GPU multiplies and adds bytes in one instruction, as far as the target says."""
        arch = self.arch.removeprefix("sm_").rstrip("af")
        return bool(self.attrs.get("supports_integer_dot_product", arch.isdecimal() and int(arch) >= 61))

    @property
    def supports_cooperative_matrix(self) -> bool:
        return bool(self.attrs.get("supports_cooperative_matrix", False))

    def _need_int(self, name: str) -> int:
        if name not in self.attrs:
            raise TVMError(f"the target {self} does not say its {name}; give -{name}=N")
        return int(self.attrs[name])

    def get_kind_attr(self, attr_name: str) -> Any:
        """What is known of the target's kind by name: "device_type", "default_keys" or "is_external_codegen"; None for other names."""
        return (
            getattr(self.kind, attr_name)
            if attr_name in ("device_type", "default_keys", "is_external_codegen")
            else None
        )

    @staticmethod
    def target_or_current(target: Target | str | Mapping[str, Any] | None) -> Target:
        """A target, or the innermost `with target:`. Raises TVMError where there is neither."""
        found = Target.canon_target(target) or Target.current(allow_none=False)
        assert found is not None
        return found

    @property
    def device_type(self) -> int:
        """The DLPack device type that code for this target runs on."""
        return self.kind.device_type

    def get_target_device_type(self) -> int:
        return self.kind.device_type

    def supports_feature(self, name: str) -> bool:
        """Whether the CPU feature `name` is on."""
        return name in self.features

    def has_key(self, key: str) -> bool:
        return key in self.keys

    def with_host(self, host: Target | str | Mapping[str, Any]) -> Target:
        return Target(self, host)

    @staticmethod
    def canon_target(target: Target | str | Mapping[str, Any] | None) -> Target | None:
        """`target` as a Target; None stays None."""
        return None if target is None else Target(target)

    @staticmethod
    def from_device(device: Any) -> Target:
        """The default target for a runtime device (or its name, such as "cpu")."""
        name = device if isinstance(device, str) else str(device)
        name = name.split("(")[0].split(":")[0]
        name = {"cpu": "llvm", "gpu": "cuda"}.get(name, name)
        return Target(name)

    @staticmethod
    def canon_target_and_host(target: Any, target_host: Any = None) -> tuple[Target | None, Target | None]:
        """A target that has its host, and the host, from what `tvm.build` takes for each."""
        if target is None:
            return None, None if target_host is None else Target(target_host)
        made = Target(target, target_host) if target_host is not None else Target(target)
        return made, made.host

    @staticmethod
    def canon_multi_target(multi_targets: Any) -> list[Target] | None:
        """The targets that a model may be compiled for: from one, a list, or a mapping of devices to them."""
        if multi_targets is None:
            return None
        given = (
            list(multi_targets.values())
            if isinstance(multi_targets, Mapping) and "kind" not in multi_targets
            else multi_targets
        )
        return [Target(t) for t in (given if isinstance(given, (list, tuple)) else [given])]

    @staticmethod
    def canon_multi_target_and_host(target: Any, target_host: Any = None) -> list[Target] | None:
        """The same, each with a host."""
        found = Target.canon_multi_target(target)
        return found if found is None or target_host is None else [Target(t, target_host) for t in found]

    @staticmethod
    def canon_target_map_and_host(
        target_map: Mapping[Any, Any], target_host: Any = None
    ) -> tuple[dict[Target, Any], Target | None]:
        """The modules of `tvm.build` by their targets, which have their host, and the host."""
        made, host = {}, None if target_host is None else Target(target_host)
        for target, mod in target_map.items():
            own, host = Target.canon_target_and_host(target, host)
            made[own] = mod
        return {t: m for t, m in made.items() if t is not None}, host

    @staticmethod
    def list_kinds() -> list[str]:
        return sorted(KINDS)

    def export(self) -> dict[str, Any]:
        """The target as a dictionary that `Target` takes back."""
        config: dict[str, Any] = {"kind": self.kind.name, "keys": list(self.keys), "tag": self.tag}
        config |= {key: list(value) if isinstance(value, tuple) else value for key, value in self.attrs.items()}
        if self.host is not None:
            config["host"] = self.host.export()
        return config

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost `with target:`; None where there is none, or an error when `allow_none` is False."""
        stack = getattr(Target._stack, "targets", None)
        if stack:
            top: Target = stack[-1]
            return top
        if allow_none:
            return None
        raise ProgramError("no target is in scope: wrap the call in `with tvm.target.Target(...):` or pass target=")

    def __enter__(self) -> Self:
        if not hasattr(Target._stack, "targets"):
            Target._stack.targets = []
        Target._stack.targets.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        Target._stack.targets.pop()

    def __str__(self) -> str:
        parts = [self.kind.name, f"-keys={','.join(self.keys)}"]
        for key, value in sorted(self.attrs.items()):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            parts.append(f"-{key}={int(value) if isinstance(value, bool) else text}")
        return " ".join(f'"{part}"' if " " in part else part for part in parts)

    def __repr__(self) -> str:
        host = f", host={str(self.host)!r}" if self.host is not None else ""
        return f"Target({str(self)!r}{host})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other
        return isinstance(other, Target) and str(self) == str(other) and self.host == other.host

    def __hash__(self) -> int:
        return hash(str(self))

    def same_as(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> tuple[Any, ...]:
        return (Target, (self.export(),))


# The classic module has the functions for machines by their makers as well.
__getattr__, __dir__ = lazy.late(__name__)

register_leaf(
    Target,
    "target",
    Target.export,
    Target,
    lambda t: json.dumps(t.export(), sort_keys=True).encode(),
    lambda a, b: bool(a == b),
)


def _machine_named(options: dict[str, Any]) -> dict[str, Any]:
    """Options in which the name of a machine is replaced by what it stands for; options beside it take precedence. A triple stands for
    LLVM's target with that triple."""
    given = options.get("kind", options.get("tag"))
    if not isinstance(given, str):
        return options
    rest = {k: v for k, v in options.items() if k not in ("kind", "tag")}
    tag = tag_named(given)
    if tag is not None and ("kind" not in options or options["kind"] == given):
        return {**tag.config, "tag": given, **rest}
    if "kind" in options and is_triple(given) and kind_named(given) is None:
        return {**options, "kind": "llvm", "mtriple": need_triple(given)}
    return options


def _split_options(text: str) -> dict[str, Any]:
    """`"llvm -mcpu=a -mattr=+b,-c -system-lib"` as a dictionary with the kind under "kind"."""
    words = shlex.split(text)
    if not words:
        raise TVMError('a target string is empty; name a kind, such as "llvm"')
    options: dict[str, Any] = {"kind": words[0]}
    rest = words[1:]
    index = 0
    while index < len(rest):
        word = rest[index]
        index += 1
        if not word.startswith("-") or len(word) < 2:
            raise TVMError(f"target options begin with a dash, but {text!r} holds {word!r}")
        key, sep, value = word.lstrip("-").partition("=")
        if not sep and index < len(rest) and not rest[index].startswith("-"):
            value, sep = rest[index], "="
            index += 1
        options[key] = value if sep else "1"
    return options


def _convert(kind: str, key: str, wanted: type, value: Any) -> Any:
    """`value` (text or already typed) as the option's type."""
    where = f"target kind {kind!r}, option -{key}"
    if wanted is list:
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple(item.strip() if isinstance(item, str) else item for item in items if item != "")
    if wanted is int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise TVMError(f"{where} takes an integer, but was given {value!r}") from None
        if number < 0 or (key == "num-cores" and number < 1):
            raise TVMError(f"{where} must be positive, but is {number}")
        if key == "vector-width" and number not in VECTOR_WIDTHS:
            raise TVMError(f"{where} must be a power of two of bits, 32 to 2048, but is {number}")
        return number
    if wanted is bool:
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        if str(value).lower() in ("1", "true", "0", "false"):
            return str(value).lower() in ("1", "true")
        raise TVMError(f"{where} takes 0 or 1, but was given {value!r}")
    if not isinstance(value, str):
        raise TVMError(f"{where} takes text, but was given {value!r}")
    return value
