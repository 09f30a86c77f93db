// By products without carries where the processor has them, else eight bytes a step by tables.
#include "crc32.h"

#include <array>

#if defined(__x86_64__) && defined(__GNUC__)
#define TW_CARRYLESS 1
#include <immintrin.h>
#endif

namespace tw {
namespace {

// Not known to the compiler, which would store the tables: 8 KB of each runtime, for what takes microseconds when it is first needed.
volatile uint32_t divisor = 0xedb88320u;

using Tables = std::array<std::array<uint32_t, 256>, 8>;
const Tables& tables() {
  static const Tables made = [] {
    const uint32_t polynomial = divisor;
    Tables t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? polynomial ^ (c >> 1) : c >> 1;
      t[0][i] = c;
    }
    for (size_t i = 0; i < 256; ++i)
      for (size_t k = 1; k < 8; ++k) t[k][i] = t[0][t[k - 1][i] & 0xff] ^ (t[k - 1][i] >> 8);
    return t;
  }();
  return made;
}

#ifdef TW_CARRYLESS
// x^n modulo the polynomial, bits reversed, one place up: what folds a polynomial n bits on when products are of reversed bits.
constexpr uint64_t fold(int n) {
  uint32_t c = 0x80000000u;
  for (; n > 0; --n) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
  return uint64_t{c} << 1;
}

// The CRC's state after the bytes, a multiple of 16 and 64 at least. Four sums of 128 bits, each folded over the next 64 bytes; then
// one, then 64 bits, and the rest of the division by the polynomial (Barrett).
__attribute__((target("pclmul,sse4.1"))) uint32_t carryless(uint32_t state, const unsigned char* p, size_t n) {
  auto load = [](const unsigned char* at) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  };
  auto folded = [](__m128i sum, __m128i by, __m128i next) __attribute__((target("pclmul,sse4.1"))) {
    __m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
  };
  constexpr uint64_t k64[] = {fold(512 + 32), fold(512 - 32)}, k16[] = {fold(128 + 32), fold(128 - 32)}, k8 = fold(64);
  constexpr uint64_t kPolynomial = 0x1db710641, kInverse = 0x1f7011641;
  const __m128i by64 = _mm_set_epi64x(static_cast<long long>(k64[1]), static_cast<long long>(k64[0]));
  const __m128i by16 = _mm_set_epi64x(static_cast<long long>(k16[1]), static_cast<long long>(k16[0]));
  __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(state))), b = load(p + 16), c = load(p + 32), d = load(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = folded(a, by64, load(p));
    b = folded(b, by64, load(p + 16));
    c = folded(c, by64, load(p + 32));
    d = folded(d, by64, load(p + 48));
  }
  a = folded(folded(folded(a, by16, b), by16, c), by16, d);
  for (; n >= 16; p += 16, n -= 16) a = folded(a, by16, load(p));
  const __m128i low32 = _mm_set_epi32(0, -1, 0, -1);
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by16, 0x10));
  a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low32), _mm_cvtsi64_si128(static_cast<long long>(k8)), 0x00));
  const __m128i division = _mm_set_epi64x(static_cast<long long>(kInverse), static_cast<long long>(kPolynomial));
  __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low32), division, 0x10), low32);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(a, _mm_clmulepi64_si128(quotient, division, 0x00)), 1));
}
#endif

}  // namespace

uint32_t crc32(uint32_t crc, const unsigned char* p, size_t n) {
  const Tables& t = tables();
  crc = ~crc;
#ifdef TW_CARRYLESS
  static const bool has = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (has && n >= 64) {
    size_t whole = n & ~size_t{15};
    crc = carryless(crc, p, whole);
    p += whole;
    n -= whole;
  }
#endif
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t low = crc ^ (uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24);
    crc = t[7][low & 0xff] ^ t[6][(low >> 8) & 0xff] ^ t[5][(low >> 16) & 0xff] ^ t[4][low >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^
          t[1][p[6]] ^ t[0][p[7]];
  }
  for (; n > 0; --n, ++p) crc = t[0][(crc ^ *p) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace tw
