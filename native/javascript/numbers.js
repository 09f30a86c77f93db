// Numbers as bits: doubles, and floats of 16 bits.

const scratch = new DataView(new ArrayBuffer(8));
export function bitsOf(number) {
  scratch.setFloat64(0, number);
  return scratch.getBigInt64(0);
}
function floatOf(bits) {
  scratch.setUint32(0, bits);
  return scratch.getFloat32(0);
}
function bitsOfFloat(number) {
  scratch.setFloat32(0, number);
  return scratch.getUint32(0);
}
export function fromBrain(bits) {
  return floatOf((bits << 16) >>> 0);
}
// To the nearest, ties to even.
export function toBrain(number) {
  const bits = bitsOfFloat(number);
  return Number.isNaN(number) ? 0x7fc0 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24);
}
export function toHalf(number) {
  const sign = Object.is(number, -0) || number < 0 ? 0x8000 : 0, size = Math.abs(number);
  if (Number.isNaN(number)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size || 1)), -14), step = 2 ** (Math.max(exponent, -14) - 10);
  const quotient = size < 2 ** -14 ? size / 2 ** -24 : size / step, below = Math.floor(quotient), rest = quotient - below;
  const whole = below + (rest > 0.5 || (rest === 0.5 && below & 1) ? 1 : 0);
  return sign | (size < 2 ** -14 ? whole : ((exponent + 15) << 10) + (whole - 1024));
}
