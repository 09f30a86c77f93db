"""How a model is quantised: `with relay.quantize.qconfig(...)`, with the classic names and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from enum import IntEnum
from typing import Any

MODES = ("global_scale", "kl_divergence", "percentile", "max")
WEIGHT_SCALES = ("power2", "max", "channel")


class QAnnotateKind(IntEnum):
    """The role of a value in a quantised layer."""

    IDENTITY = 0
    INPUT = 1
    WEIGHT = 2
    ACTIVATION = 3


def kind2str(kind: int) -> str:
    """The name of a kind: "input", "weight", "activation" or "identity"."""
    return QAnnotateKind(kind).name.lower()


class QConfig:
    """Settings of `relay.quantize.quantize`, for a `with` block.

    nbit_input, nbit_weight: bits of activations and of weights, 2 to 8; they are kept as int8.
    calibrate_mode: "global_scale" gives each activation the range of `global_scale`; "max", "percentile" (99.99 % of the values)
    and "kl_divergence" take it from the data set. weight_scale: "power2" the next power of two over the largest weight, "max" the
    largest weight, "channel" that of each output channel. skip_dense_layer: leave matrix products in float32.
    skip_conv_layers: numbers of the convolutions (from 0, in program order) to leave in float32, None for none.
    rounding: that of requantize, "UPWARD" or "TONEAREST". debug_enabled_ops: names of the only operators that are quantised, None
    for all. dtype_input, dtype_weight, dtype_activation and nbit_activation can only be what they are; round_for_shift and
    calibrate_chunk_by change nothing: scales need no shifts, and ranges are gathered in one run of each sample.
    """

    def __init__(
        self,
        nbit_input: int = 8,
        nbit_weight: int = 8,
        calibrate_mode: str = "global_scale",
        global_scale: float = 8.0,
        weight_scale: str = "power2",
        skip_dense_layer: bool = True,
        skip_conv_layers: Sequence[int] | None = (0,),
        do_simulation: bool = False,
        rounding: str = "UPWARD",
        nbit_activation: int = 32,
        dtype_input: str = "int8",
        dtype_weight: str = "int8",
        dtype_activation: str = "int32",
        round_for_shift: bool = True,
        debug_enabled_ops: Sequence[str] | None = None,
        calibrate_chunk_by: int = -1,
    ) -> None:
        for what, bits in (("nbit_input", nbit_input), ("nbit_weight", nbit_weight)):
            if not 2 <= bits <= 8:
                raise ValueError(f"{what} must lie in 2 to 8, but is {bits}")
        for what, value, known in (
            ("calibrate_mode", calibrate_mode, MODES),
            ("weight_scale", weight_scale, WEIGHT_SCALES),
            ("rounding", rounding, ("UPWARD", "TONEAREST")),
        ):
            if value not in known:
                raise ValueError(f"{what} must be one of {', '.join(known)}, but is {value!r}")
        if not global_scale > 0:
            raise ValueError(f"global_scale must be positive, but is {global_scale}")
        self.nbit_input, self.nbit_weight = nbit_input, nbit_weight
        self.calibrate_mode, self.global_scale, self.weight_scale = calibrate_mode, float(global_scale), weight_scale
        self.skip_dense_layer, self.do_simulation = skip_dense_layer, do_simulation
        self.skip_conv_layers = frozenset(skip_conv_layers or ())
        self.rounding = rounding
        for what, given, only in (
            ("nbit_activation", nbit_activation, 32),
            ("dtype_input", dtype_input, "int8"),
            ("dtype_weight", dtype_weight, "int8"),
            ("dtype_activation", dtype_activation, "int32"),
        ):
            if given != only:
                raise ValueError(f"{what} can only be {only}, but is {given!r}: products of int8 are added up in int32")
        self.nbit_activation, self.dtype_input, self.dtype_weight = nbit_activation, dtype_input, dtype_weight
        self.dtype_activation, self.round_for_shift = dtype_activation, round_for_shift
        self.debug_enabled_ops = None if debug_enabled_ops is None else tuple(debug_enabled_ops)
        self.calibrate_chunk_by = calibrate_chunk_by
        self._tokens: list[Token[QConfig | None]] = []

    def get_nbit_by_kind(self, kind: int) -> int:
        """The bits of values of a kind (QAnnotateKind): nbit_input, nbit_weight or nbit_activation."""
        return int(getattr(self, f"nbit_{kind2str(kind)}"))

    def get_dtype_by_kind(self, kind: int) -> str:
        """The type of values of a kind (QAnnotateKind): dtype_input, dtype_weight or dtype_activation."""
        return str(getattr(self, f"dtype_{kind2str(kind)}"))

    def guard(self, ref_call: Any) -> bool:
        """Whether `debug_enabled_ops` lets a call be quantised."""
        return self.debug_enabled_ops is None or ref_call.op.name in self.debug_enabled_ops

    def __enter__(self) -> QConfig:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exc: Any) -> None:
        _current.reset(self._tokens.pop())


_current: ContextVar[QConfig | None] = ContextVar("qconfig", default=None)


def qconfig(**settings: Any) -> QConfig:
    """Settings that differ from those around: `with relay.quantize.qconfig(calibrate_mode="max"): ...`. TypeError for an unknown name."""
    now = current_qconfig()
    kept: dict[str, Any] = {k: v for k, v in vars(now).items() if not k.startswith("_")}
    for name in settings:
        if name not in kept:
            raise TypeError(f"qconfig has no setting {name!r}; it has {', '.join(kept)}")
    return QConfig(**{**kept, **settings})


def current_qconfig() -> QConfig:
    """The innermost block's settings, else the defaults."""
    return _current.get() or QConfig()


class QuantizeContext:
    """Which products stay in float32 by the current settings, for one program whose calls are visited in order. As a `with` block it begins
    anew."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begins a program."""
        self._convolutions, self._stopped = 0, False

    def stop_quantize(self) -> None:
        """All further calls stay in float32."""
        self._stopped = True

    def check_to_skip(self, ref_call: Any) -> bool:
        """Whether the next convolution, or another call, stays in float32."""
        config = current_qconfig()
        if ref_call.op.name != "nn.conv2d":
            return self._stopped or (config.skip_dense_layer and ref_call.op.name == "nn.dense")
        self._convolutions += 1
        return self._stopped or self._convolutions - 1 in config.skip_conv_layers

    def __enter__(self) -> QuantizeContext:
        self.reset()
        return self

    def __exit__(self, *exc: Any) -> None:
        pass


_visits: ContextVar[QuantizeContext | None] = ContextVar("quantize_context", default=None)


def quantize_context() -> QuantizeContext:
    """The context of the program that is being quantised in this thread."""
    found = _visits.get()
    if found is None:
        _visits.set(found := QuantizeContext())
    return found
