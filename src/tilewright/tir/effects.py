"""Effects that calls of intrinsics may have, under the classic names: values of the operator attribute "TCallEffectKind"."""

from __future__ import annotations

from tilewright.tir.op import PURE, READS, UPDATES


class CallEffectKind:
    """`register_op_attr("tir.my_intrinsic", "TCallEffectKind", CallEffectKind.Pure)`."""

    ExprAnnotation = Pure = PURE
    """Nothing but give a value."""
    ReadState = EmbedInfo = SpecialCallArg = READS
    """Read memory."""
    UpdateState = Opaque = ControlJump = UPDATES
    """Change something; such calls are never moved, repeated or dropped."""
