"""float16 conversions for WebAssembly, and x86 CPUs without F16C. LLVM calls these helpers, which no C library is sure to have.

LLVM inserts the calls after its passes, so the helpers are weak: otherwise the passes would remove them as unused.
Bit tricks after F. Giesen, "Half to float done quic" and its round-to-nearest-even counterpart.
"""

from __future__ import annotations

from tilewright.target import Target

_TEXT = """
define weak_odr hidden float @__extendhfsf2(half %h) nounwind {
  %i = bitcast half %h to i16
  %u = zext i16 %i to i32
  %s0 = and i32 %u, 32768
  %sign = shl i32 %s0, 16
  %m0 = and i32 %u, 32767
  %o = shl i32 %m0, 13
  %exp = and i32 %o, 260046848
  %o1 = add i32 %o, 939524096
  %special = icmp eq i32 %exp, 260046848
  %o2 = add i32 %o1, 939524096
  %zero = icmp eq i32 %exp, 0
  %o3 = add i32 %o1, 8388608
  %f3 = bitcast i32 %o3 to float
  %f4 = fsub float %f3, 0x3F10000000000000
  %o4 = bitcast float %f4 to i32
  %a = select i1 %special, i32 %o2, i32 %o1
  %b = select i1 %zero, i32 %o4, i32 %a
  %r = or i32 %b, %sign
  %f = bitcast i32 %r to float
  ret float %f
}
define weak_odr hidden half @__truncsfhf2(float %f) nounwind {
  %u = bitcast float %f to i32
  %sign = and i32 %u, -2147483648
  %a = and i32 %u, 2147483647
  %nan = icmp ugt i32 %a, 2139095040
  %huge = select i1 %nan, i32 32256, i32 31744
  %af = bitcast i32 %a to float
  %d0 = fadd float %af, 5.000000e-01
  %d1 = bitcast float %d0 to i32
  %tiny = sub i32 %d1, 1056964608
  %o0 = lshr i32 %a, 13
  %odd = and i32 %o0, 1
  %n0 = add i32 %a, -939520001
  %n1 = add i32 %n0, %odd
  %normal = lshr i32 %n1, 13
  %istiny = icmp ult i32 %a, 947912704
  %ishuge = icmp uge i32 %a, 1199570944
  %x = select i1 %istiny, i32 %tiny, i32 %normal
  %y = select i1 %ishuge, i32 %huge, i32 %x
  %s = lshr i32 %sign, 16
  %r = or i32 %y, %s
  %t = trunc i32 %r to i16
  %h = bitcast i16 %t to half
  ret half %h
}
define weak_odr hidden half @__truncdfhf2(double %d) nounwind {
  %f = fptrunc double %d to float
  %h = call half @__truncsfhf2(float %f)
  ret half %h
}
"""
"""float64 becomes float16 in two roundings: code says so wherever it has both types, but LLVM may join the two
where it takes vectors apart."""


def half_helpers(target: Target) -> str:
    """The text of the helpers if the target needs them, otherwise ""."""
    arch = target.cpu.arch
    return _TEXT if arch == "wasm" or (arch == "x86" and "f16c" not in target.features) else ""
