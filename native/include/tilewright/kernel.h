/* What generated C is written in: vectors, conversions, elementary functions, errors, parallel loops.
 *
 * Any C99 compiler takes it. With those that know GNU C (gcc, clang, zig cc) vectors are vectors of the machine and no other
 * header is needed; else, or where TW_PLAIN_C is defined, they are arrays, and <math.h> and <string.h> are included.
 * TW_NO_RUNTIME: there is no runtime to call; parallel loops run one round after the other, errors are return codes, large
 * temporaries come from TVMBackendAllocWorkspace, which the program brings.
 * Integers wrap around; sums of products are one instruction where the compiler's -ffp-contract says so. */
#ifndef TILEWRIGHT_KERNEL_H_
#define TILEWRIGHT_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#if (defined(__GNUC__) || defined(__clang__)) && !defined(TW_PLAIN_C)
#define TW_GNU 1
#endif

/* Of what compilers warn about: functions that nothing calls, literals that fill their array. Older gcc do not take TW_NO_STRING for rows. */
#ifdef __GNUC__
#define TW_UNUSED __attribute__((unused))
#else
#define TW_UNUSED
#endif
#define TW_NO_STRING
#if defined(__has_attribute) && (defined(__clang__) || __GNUC__ >= 15)
#if __has_attribute(nonstring)
#undef TW_NO_STRING
#define TW_NO_STRING __attribute__((nonstring))
#endif
#endif

#ifdef TW_GNU
#pragma GCC diagnostic ignored "-Wpsabi"
#define TW_INLINE static inline TW_UNUSED __attribute__((always_inline))
#define TW_COLD static TW_UNUSED __attribute__((noinline, cold))
#define TW_ALIGN(n) __attribute__((aligned(n)))
#define TW_HIDDEN __attribute__((visibility("hidden")))
#define TW_EXPORTED __attribute__((visibility("default")))
#define TW_WEAK __attribute__((weak))
#define TW_TEXT_OF(x) #x
#define TW_TEXT(x) TW_TEXT_OF(x)
#define TW_SYMBOL(name) __asm__(TW_TEXT(__USER_LABEL_PREFIX__) name)
/* Symbols of any characters: gcc writes labels as they are, so there they are another name, quoted, of the function. */
#ifdef __clang__
#define TW_ANY_SYMBOL(function, name, quoted) TW_SYMBOL(name)
#else
#define TW_ANY_SYMBOL(function, name, quoted) \
  ;                                           \
  __asm__(".globl " quoted "\n.set " quoted ", " TW_TEXT(__USER_LABEL_PREFIX__) #function)
#endif
#define TW_PRAGMA(x) _Pragma(#x)
#define TW_PREFETCH(p, write, locality) __builtin_prefetch(p, write, locality)
#define tw_copy __builtin_memcpy
#define TW_MATH(name) __builtin_##name
#define TW_INF __builtin_inff()
#define TW_NAN __builtin_nanf("")
#else
#include <math.h>
#include <string.h>
#define TW_INLINE static inline TW_UNUSED
#define TW_COLD static inline TW_UNUSED
#define TW_ALIGN(n)
#define TW_HIDDEN
#define TW_EXPORTED
#define TW_WEAK
#define TW_SYMBOL(name)
#define TW_ANY_SYMBOL(function, name, quoted)
#define TW_PRAGMA(x)
#define TW_PREFETCH(p, write, locality) ((void)(p))
#define tw_copy memcpy
#define TW_MATH(name) name
#define TW_INF INFINITY
#define TW_NAN NAN
#endif
/* Types of memory that is read as something else than it was written as. */
#ifdef TW_GNU
#define TW_ANY __attribute__((may_alias))
#else
#define TW_ANY
#endif
typedef int8_t i8_any TW_ANY;
typedef int16_t i16_any TW_ANY;
typedef int32_t i32_any TW_ANY;
typedef int64_t i64_any TW_ANY;
typedef uint8_t u8_any TW_ANY;
typedef uint16_t u16_any TW_ANY;
typedef uint32_t u32_any TW_ANY;
typedef uint64_t u64_any TW_ANY;
typedef float f32_any TW_ANY;
typedef double f64_any TW_ANY;
typedef void* ptr_any TW_ANY;
#define TW_UNROLL(n) TW_PRAGMA(GCC unroll n)
/* A loop over lanes: left as it is until it becomes vectors. */
#define TW_LANES(n) TW_PRAGMA(GCC unroll 1) for (int l = 0; l < (n); ++l)

/* --- integers */

#define TW_SCALAR_INT(s, T, U)                                                   \
  TW_INLINE T tw_add_##s(T a, T b) { return (T)((U)a + (U)b); }                  \
  TW_INLINE T tw_sub_##s(T a, T b) { return (T)((U)a - (U)b); }                  \
  TW_INLINE T tw_mul_##s(T a, T b) { return (T)((U)a * (U)b); }                  \
  TW_INLINE T tw_shl_##s(T a, T b) { return (T)((U)a << b); }                    \
  TW_INLINE T tw_shr_##s(T a, T b) { return (T)(a >> b); }                       \
  TW_INLINE T tw_min_##s(T a, T b) { return a < b ? a : b; }                     \
  TW_INLINE T tw_max_##s(T a, T b) { return a > b ? a : b; }                     \
  TW_INLINE T tw_div_##s(T a, T b) { return (T)(a / b); }                        \
  TW_INLINE T tw_mod_##s(T a, T b) { return (T)(a % b); }                        \
  TW_INLINE T tw_popcount_##s(T a) {                                             \
    uint64_t u = (uint64_t)a & (~(uint64_t)0 >> (64 - 8 * sizeof(T)));           \
    T n = 0;                                                                     \
    for (; u; u &= u - 1) ++n;                                                   \
    return n;                                                                    \
  }                                                                              \
  TW_INLINE T tw_clz_##s(T a) {                                                  \
    uint64_t u = (uint64_t)a & (~(uint64_t)0 >> (64 - 8 * sizeof(T)));           \
    T n = (T)(8 * sizeof(T));                                                    \
    for (; u; u >>= 1) --n;                                                      \
    return n;                                                                    \
  }
#define TW_SCALAR_SIGNED(s, T, U)                                                \
  TW_SCALAR_INT(s, T, U)                                                         \
  TW_INLINE T tw_floordiv_##s(T a, T b) {                                        \
    T r = (T)(a % b);                                                            \
    return (T)(a / b - ((r != 0) & ((r ^ b) < 0)));                              \
  }                                                                              \
  TW_INLINE T tw_floormod_##s(T a, T b) {                                        \
    T r = (T)(a % b);                                                            \
    return (T)(r + (((r != 0) & ((r ^ b) < 0)) ? b : 0));                        \
  }
#define TW_SCALAR_UNSIGNED(s, T, U)                                              \
  TW_SCALAR_INT(s, T, U)                                                         \
  TW_INLINE T tw_floordiv_##s(T a, T b) { return (T)(a / b); }                   \
  TW_INLINE T tw_floormod_##s(T a, T b) { return (T)(a % b); }
TW_SCALAR_SIGNED(i8, int8_t, uint32_t)
TW_SCALAR_SIGNED(i16, int16_t, uint32_t)
TW_SCALAR_SIGNED(i32, int32_t, uint32_t)
TW_SCALAR_SIGNED(i64, int64_t, uint64_t)
TW_SCALAR_UNSIGNED(u8, uint8_t, uint32_t)
TW_SCALAR_UNSIGNED(u16, uint16_t, uint32_t)
TW_SCALAR_UNSIGNED(u32, uint32_t, uint32_t)
TW_SCALAR_UNSIGNED(u64, uint64_t, uint64_t)

/* x * y / 2**(q + shift), to the nearest, ties upwards. */
TW_INLINE int64_t tw_q_multiply_shift(int64_t x, int64_t y, int64_t q, int64_t shift) {
  int64_t left = shift < 0 ? -shift : 0, total = q + (shift > 0 ? shift : 0);
  int64_t product = (int64_t)((uint64_t)(x * y) << left);
  return (product + ((int64_t)1 << (total - 1))) >> total;
}

/* Words of neighbouring elements. */
#define TW_WORDS(s, T)                                                             \
  TW_INLINE T tw_read_##s(const void* p) {                                         \
    T r;                                                                           \
    tw_copy(&r, p, sizeof r);                                                      \
    return r;                                                                      \
  }                                                                                \
  TW_INLINE void tw_write_##s(void* p, T value) { tw_copy(p, &value, sizeof value); }
TW_WORDS(i32, int32_t)
TW_WORDS(i64, int64_t)
TW_WORDS(u32, uint32_t)
TW_WORDS(u64, uint64_t)
TW_INLINE uint32_t tw_fshl_u32(uint32_t high, uint32_t low, uint32_t n) {
  n &= 31;
  return n ? high << n | low >> (32 - n) : high;
}
/* Products of pairs of 16-bit numbers: instructions of Arm's DSP extension where the compiler has them. */
#if defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_DSP) && (!defined(__GNUC__) || defined(__clang__) || __GNUC__ >= 10)
#include <arm_acle.h>
TW_INLINE int32_t tw_smlad(int32_t x, int32_t y, int32_t sum) { return __smlad(x, y, sum); }
TW_INLINE int32_t tw_smlabb(int32_t x, int32_t y, int32_t sum) { return __smlabb(x, y, sum); }
TW_INLINE int32_t tw_smlatt(int32_t x, int32_t y, int32_t sum) { return __smlatt(x, y, sum); }
TW_INLINE int32_t tw_sxtb16(uint32_t x) { return __sxtb16((int32_t)x); }
#else
TW_INLINE int32_t tw_smlabb(int32_t x, int32_t y, int32_t sum) { return tw_add_i32((int16_t)x * (int16_t)y, sum); }
TW_INLINE int32_t tw_smlatt(int32_t x, int32_t y, int32_t sum) { return tw_add_i32((x >> 16) * (y >> 16), sum); }
TW_INLINE int32_t tw_smlad(int32_t x, int32_t y, int32_t sum) { return tw_smlatt(x, y, tw_smlabb(x, y, sum)); }
TW_INLINE int32_t tw_sxtb16(uint32_t x) {
  return (int32_t)(((uint32_t)(int8_t)x & 0xffff) | (uint32_t)(int8_t)(x >> 16) << 16);
}
#endif

/* --- floats */

#define TW_SCALAR_FLOAT(s, F, i, I, NAN_OF)                                                                        \
  TW_INLINE F tw_min_##s(F a, F b) { return a < b || a != a ? a : b; }                                             \
  TW_INLINE F tw_max_##s(F a, F b) { return a > b || a != a ? a : b; }                                             \
  TW_INLINE int tw_isnan_##s(F a) { return a != a; }                                                               \
  TW_INLINE int tw_isinf_##s(F a) { return a == (F)TW_INF || a == -(F)TW_INF; }                                    \
  TW_INLINE int tw_isfinite_##s(F a) { return a < (F)TW_INF && a > -(F)TW_INF; }                                   \
  TW_INLINE I s##_bits(F a) {                                                                                      \
    I r;                                                                                                           \
    tw_copy(&r, &a, sizeof r);                                                                                     \
    return r;                                                                                                      \
  }                                                                                                                \
  TW_INLINE F s##_of_bits(I a) {                                                                                   \
    F r;                                                                                                           \
    tw_copy(&r, &a, sizeof r);                                                                                     \
    return r;                                                                                                      \
  }
TW_SCALAR_FLOAT(f32, float, i32, int32_t, TW_NAN)
TW_SCALAR_FLOAT(f64, double, i64, int64_t, TW_NAN)

/* To integers: towards zero, held in their range; NaN is 0. LIMIT: the first number above the range. */
#define TW_FLOAT_TO_INT(f, F, i, I, LOW, LIMIT, MOST)             \
  TW_INLINE I tw_##f##_to_##i(F x) {                              \
    F y = x > (F)(LOW) ? x : (F)(LOW);                            \
    I r = (I)(y < (F)(LIMIT) ? y : (F)0);                         \
    r = y < (F)(LIMIT) ? r : (I)(MOST);                           \
    return x == x ? r : 0;                                        \
  }
#define TW_FLOAT_TO_INTS(f, F)                                                             \
  TW_FLOAT_TO_INT(f, F, i8, int8_t, -128, 128, INT8_MAX)                                   \
  TW_FLOAT_TO_INT(f, F, i16, int16_t, -32768, 32768, INT16_MAX)                            \
  TW_FLOAT_TO_INT(f, F, i32, int32_t, -2147483648.0, 2147483648.0, INT32_MAX)              \
  TW_FLOAT_TO_INT(f, F, i64, int64_t, -9223372036854775808.0, 9223372036854775808.0, INT64_MAX) \
  TW_FLOAT_TO_INT(f, F, u8, uint8_t, 0, 256, UINT8_MAX)                                    \
  TW_FLOAT_TO_INT(f, F, u16, uint16_t, 0, 65536, UINT16_MAX)                               \
  TW_FLOAT_TO_INT(f, F, u32, uint32_t, 0, 4294967296.0, UINT32_MAX)                        \
  TW_FLOAT_TO_INT(f, F, u64, uint64_t, 0, 18446744073709551616.0, UINT64_MAX)
TW_FLOAT_TO_INTS(f32, float)
TW_FLOAT_TO_INTS(f64, double)

/* float16 is kept as its bits. */
#if defined(TW_GNU) && (defined(__AVX512FP16__) || defined(__aarch64__))
#define TW_HALF 1
__extension__ typedef _Float16 tw_half;
#endif
TW_INLINE float tw_f16_to_f32(uint16_t h) {
#ifdef TW_HALF
  tw_half x;
  tw_copy(&x, &h, sizeof x);
  return (float)x;
#else
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = (uint32_t)(h & 0x7fff) << 13, e = m & 0x0f800000;
  /* Denormal numbers: what the exponent of 2**-14 takes away again. */
  float low = f32_of_bits((int32_t)(m + 0x38800000)) - 6.103515625e-05f;
  uint32_t r = e == 0x0f800000 ? m + 0x70000000 : e == 0 ? (uint32_t)f32_bits(low) : m + 0x38000000;
  return f32_of_bits((int32_t)(r | sign));
#endif
}
TW_INLINE uint16_t tw_f32_to_f16(float x) {
#ifdef TW_HALF
  tw_half h = (tw_half)x;
  uint16_t r;
  tw_copy(&r, &h, sizeof r);
  return r;
#else
  uint32_t u = (uint32_t)f32_bits(x), sign = (u & 0x80000000u) >> 16, a = u & 0x7fffffffu;
  uint32_t tiny = (uint32_t)f32_bits(f32_of_bits((int32_t)a) + 0.5f) - 0x3f000000u;
  uint32_t normal = (a - 0x37fff001u + ((a >> 13) & 1)) >> 13;
  uint32_t huge = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return (uint16_t)((a >= 0x47800000u ? huge : a < 0x38800000u ? tiny : normal) | sign);
#endif
}

/* --- elementary functions without branches, which loops over lanes make vectors of: polynomials as in the compiler's own math */

TW_INLINE float tw_pow2_f32(int32_t n) { return f32_of_bits((int32_t)((uint32_t)(n + 127) << 23)); }
TW_INLINE float tw_scale_f32(float x, int32_t n) {
  int32_t half = n >> 1;
  return x * tw_pow2_f32(half) * tw_pow2_f32(n - half);
}
TW_INLINE float tw_clamp_f32(float x, float low, float high) {
  x = high < x ? high : x;
  return low > x ? low : x;
}
/* q and n with exp(x) = 2**n * (1 + q). */
TW_INLINE float tw_exp_parts_f32(float x, int32_t* n) {
  float shifted = x * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f;
  float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float p = 1.9739438721444458e-4f;
  p = p * r + 1.3935081660747528e-3f;
  p = p * r + 8.333571255207062e-3f;
  p = p * r + 4.1666463017463684e-2f;
  p = p * r + 1.666666567325592e-1f;
  p = p * r + 0.5f;
  *n = f32_bits(shifted) - 0x4b400000;
  return p * (r * r) + r;
}
TW_INLINE float tw_exp_f32(float x) {
  int32_t n;
  float q = tw_exp_parts_f32(tw_clamp_f32(x, -104.0f, 88.8f), &n);
  return x != x ? x : tw_scale_f32(q + 1.0f, n);
}
TW_INLINE float tw_exp2_f32(float x) {
  float y = tw_clamp_f32(x, -151.0f, 129.0f), shifted = y + 12582912.0f, r = y - (shifted - 12582912.0f);
  float p = 1.535336188e-4f;
  p = p * r + 1.339887440e-3f;
  p = p * r + 9.618437357e-3f;
  p = p * r + 5.550332471e-2f;
  p = p * r + 2.402264791e-1f;
  p = p * r + 6.931472028e-1f;
  p = p * r + 1.0f;
  return x != x ? x : tw_scale_f32(p, f32_bits(shifted) - 0x4b400000);
}
TW_INLINE float tw_sigmoid_f32(float x) { return 1.0f / (1.0f + tw_exp_f32(-x)); }
TW_INLINE float tw_copysign_f32(float x, float y) {
  return f32_of_bits((int32_t)(((uint32_t)f32_bits(x) & 0x7fffffffu) | ((uint32_t)f32_bits(y) & 0x80000000u)));
}
TW_INLINE float tw_fabs_f32(float x) { return f32_of_bits(f32_bits(x) & 0x7fffffff); }
TW_INLINE float tw_tanh_f32(float x) {
  int32_t n;
  float a = tw_clamp_f32(tw_fabs_f32(x), 0.0f, 10.0f), q = tw_exp_parts_f32(a + a, &n), s = tw_pow2_f32(n);
  float y = (s * q + (s - 1.0f)) / (s * q + (s + 1.0f));
  return x != x ? x : tw_copysign_f32(y, x);
}
TW_INLINE float tw_erf_f32(float x) {
  float t = tw_fabs_f32(x), z = x * x, far = tw_clamp_f32(t, 0.0f, 4.2f);
  float p = 7.907654799055308e-05f, r = -1.0369190022174735e-05f;
  int32_t n;
  p = p * z - 8.032448822632432e-04f;
  p = p * z + 5.191225558519363e-03f;
  p = p * z - 2.6855405420064926e-02f;
  p = p * z + 1.1283622682094574e-01f;
  p = p * z - 3.761262893676758e-01f;
  p = p * z + 1.2837916612625122e-01f;
  r = r * far + 3.1414139084517956e-04f;
  r = r * far - 3.6070989444851875e-03f;
  r = r * far + 2.3686988279223442e-02f;
  r = r * far - 1.0614940524101257e-01f;
  r = r * far - 6.352043747901917e-01f;
  r = r * far - 1.2863539159297943e-01f;
  r = r * far - far;
  r = tw_exp_parts_f32(r, &n);
  far = tw_copysign_f32(1.0f - tw_pow2_f32(n) * (1.0f + r), x);
  return x != x ? x : t > 0.9f ? far : p * x + x;
}
/* Activations as a whole: what a sum's rounding hides is not computed. Their errors rest on fused multiply-adds, which clang does not
 * make of a product that two sums use. */
#if defined(__FP_FAST_FMAF) || (defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__riscv_f)))
#define tw_muladd_f32(a, b, c) __builtin_fmaf(a, b, c)
#else
#define tw_muladd_f32(a, b, c) ((a) * (b) + (c))
#endif
/* p with 2**(a * b) = 2**n * p; n - less is what the bits of *shifted are above those of 12582912, where magic = 12582912 - less. */
TW_INLINE float tw_exp2_parts_f32(float a, float b, float magic, float* shifted) {
  float s = tw_muladd_f32(a, b, magic), n = s - magic, r = tw_muladd_f32(a, b, -n);
  float p = 1.532926398795098e-4f;
  p = tw_muladd_f32(p, r, 1.3390969252213836e-3f);
  p = tw_muladd_f32(p, r, 9.61849931627512e-3f);
  p = tw_muladd_f32(p, r, 5.550359562039375e-2f);
  p = tw_muladd_f32(p, r, 2.4022647738456726e-1f);
  p = tw_muladd_f32(p, r, 6.931471824645996e-1f);
  *shifted = s;
  return tw_muladd_f32(p, r, 1.0f);
}
TW_INLINE float tw_pow2_of_shifted_f32(float shifted) {
  return f32_of_bits((int32_t)(((uint32_t)f32_bits(shifted) - 0x4b400000u + 127u) << 23));
}
TW_INLINE float tw_one_plus_erf_f32(float x) {
  float a = tw_fabs_f32(x), t = 4.2f < a ? 4.2f : a, s, p, low;
  float r = 1.0076064427266829e-05f;
  r = tw_muladd_f32(r, t, -1.393135025864467e-04f);
  r = tw_muladd_f32(r, t, 7.990218000486493e-04f);
  r = tw_muladd_f32(r, t, -2.182330470532179e-03f);
  r = tw_muladd_f32(r, t, -1.2667729606619105e-05f);
  r = tw_muladd_f32(r, t, 2.778228372335434e-02f);
  r = tw_muladd_f32(r, t, -1.4832617342472076e-01f);
  r = tw_muladd_f32(r, t, -9.184402227401733e-01f);
  r = tw_muladd_f32(r, t, -1.627907395362854f);
  p = tw_exp2_parts_f32(r, t, 12582912.0f, &s);
  low = a > 4.2f ? 0.0f : p * tw_pow2_of_shifted_f32(s);
  return x < 0.0f ? low : 2.0f - low;
}
/* x * (1 + erf(x / sqrt(2))) / 2: what is positive of x, less |x| * 2**r / 2, where 2**r is erfc(|x| / sqrt(2)). */
TW_INLINE float tw_gelu_f32(float x) {
  float a = tw_fabs_f32(x), t = 8.0f < a ? 8.0f : a, s, p;
  float r = -4.327966607320377e-08f;
  r = tw_muladd_f32(r, t, 1.1406522162360488e-06f);
  r = tw_muladd_f32(r, t, -1.3203422895458061e-05f);
  r = tw_muladd_f32(r, t, 8.569925557821989e-05f);
  r = tw_muladd_f32(r, t, -3.007627965416759e-04f);
  r = tw_muladd_f32(r, t, 2.5704572180984542e-05f);
  r = tw_muladd_f32(r, t, 6.932997144758701e-03f);
  r = tw_muladd_f32(r, t, -5.2440986037254333e-02f);
  r = tw_muladd_f32(r, t, -4.592187702655792e-01f);
  r = tw_muladd_f32(r, t, -1.1511045694351196f);
  p = tw_exp2_parts_f32(r, t, 12582911.0f, &s);
  return tw_muladd_f32(-t, p * tw_pow2_of_shifted_f32(s), x - (x < 0.0f ? x : 0.0f));
}
TW_INLINE float tw_one_plus_tanh_f32(float x) {
  float s, p = tw_exp2_parts_f32(tw_clamp_f32(x, -43.0f, 11.0f), -2.8853900817779268f, 12582912.0f, &s);
  return 2.0f / tw_muladd_f32(p, tw_pow2_of_shifted_f32(s), 1.0f);
}
TW_INLINE float tw_silu_f32(float x) {
  float y = tw_clamp_f32(x, -89.0f, 104.0f), s = tw_muladd_f32(y, -1.4426950216293335f, 12582912.0f);
  float r = tw_muladd_f32(y, -1.4426950216293335f, 12582912.0f - s);
  r = tw_muladd_f32(y, -1.925963033500011e-08f, r);
  float p = 1.532926398795098e-4f;
  p = tw_muladd_f32(p, r, 1.3390969252213836e-3f);
  p = tw_muladd_f32(p, r, 9.61849931627512e-3f);
  p = tw_muladd_f32(p, r, 5.550359562039375e-2f);
  p = tw_muladd_f32(p, r, 2.4022647738456726e-1f);
  p = tw_muladd_f32(p, r, 6.931471824645996e-1f);
  p = tw_muladd_f32(p, r, 1.0f);
  return x / (1.0f + tw_scale_f32(p, (int32_t)((uint32_t)f32_bits(s) - 0x4b400000u)));
}
TW_INLINE float tw_log_f32(float x) {
  int tiny = x < 1.17549435e-38f;
  int32_t ix = f32_bits(tiny ? x * 8388608.0f : x) - 0x3f3504f3;
  float e = (float)(ix >> 23) - (tiny ? 23.0f : 0.0f), f = f32_of_bits((ix & 0x007fffff) + 0x3f3504f3) - 1.0f, z = f * f;
  float p = 7.0376836292e-2f, y;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  y = e * -2.12194440e-4f + f * z * p;
  y = z * -0.5f + y;
  y = e * 0.693359375f + (f + y);
  y = x == TW_INF ? x : y;
  y = x == 0.0f ? -TW_INF : y;
  return x < 0.0f || x != x ? TW_NAN : y;
}
TW_INLINE float tw_sqrt_f32(float x) { return TW_MATH(sqrtf)(x); }
TW_INLINE double tw_sqrt_f64(double x) { return TW_MATH(sqrt)(x); }
TW_INLINE float tw_rsqrt_f32(float x) { return 1.0f / tw_sqrt_f32(x); }
TW_INLINE double tw_rsqrt_f64(double x) { return 1.0 / tw_sqrt_f64(x); }
TW_INLINE double tw_sigmoid_f64(double x) { return 1.0 / (1.0 + TW_MATH(exp)(-x)); }
TW_INLINE float tw_exp10_f32(float x) { return (float)TW_MATH(pow)(10.0, (double)x); }
TW_INLINE double tw_exp10_f64(double x) { return TW_MATH(pow)(10.0, x); }
TW_INLINE float tw_round_f32(float x) { return TW_MATH(rintf)(x); }
TW_INLINE double tw_round_f64(double x) { return TW_MATH(rint)(x); }
TW_INLINE float tw_ldexp_f32(float x, int n) { return TW_MATH(ldexpf)(x, n); }
TW_INLINE double tw_ldexp_f64(double x, int n) { return TW_MATH(ldexp)(x, n); }
TW_INLINE float tw_fma_f32(float a, float b, float c) { return TW_MATH(fmaf)(a, b, c); }
TW_INLINE double tw_fma_f64(double a, double b, double c) { return TW_MATH(fma)(a, b, c); }

/* Those of the C library. */
#define TW_LIBM1(name)                                                       \
  TW_INLINE double tw_##name##_f64(double x) { return TW_MATH(name)(x); }
#define TW_LIBM1F(name)                                                      \
  TW_LIBM1(name)                                                             \
  TW_INLINE float tw_##name##_f32(float x) { return TW_MATH(name##f)(x); }
#define TW_LIBM2F(name)                                                                     \
  TW_INLINE double tw_##name##_f64(double x, double y) { return TW_MATH(name)(x, y); }      \
  TW_INLINE float tw_##name##_f32(float x, float y) { return TW_MATH(name##f)(x, y); }
TW_LIBM1(exp)
TW_LIBM1(exp2)
TW_LIBM1(log)
TW_LIBM1(tanh)
TW_LIBM1(erf)
TW_LIBM1(fabs)
TW_LIBM1F(erfc)
TW_LIBM1F(expm1)
TW_LIBM1F(log2)
TW_LIBM1F(log10)
TW_LIBM1F(log1p)
TW_LIBM1F(sinh)
TW_LIBM1F(cosh)
TW_LIBM1F(sin)
TW_LIBM1F(cos)
TW_LIBM1F(tan)
TW_LIBM1F(asin)
TW_LIBM1F(acos)
TW_LIBM1F(atan)
TW_LIBM1F(asinh)
TW_LIBM1F(acosh)
TW_LIBM1F(atanh)
TW_LIBM1F(floor)
TW_LIBM1F(ceil)
TW_LIBM1F(trunc)
TW_LIBM2F(hypot)
/* By float64, so that nothing but the last rounding is lost. */
#define TW_LIBM2W(name)                                                                     \
  TW_INLINE double tw_##name##_f64(double x, double y) { return TW_MATH(name)(x, y); }      \
  TW_INLINE float tw_##name##_f32(float x, float y) { return (float)TW_MATH(name)((double)x, (double)y); }
TW_LIBM2W(atan2)
TW_LIBM2W(pow)
TW_LIBM2F(fmod)
TW_LIBM2F(nextafter)
TW_INLINE double tw_copysign_f64(double x, double y) { return TW_MATH(copysign)(x, y); }

/* --- vectors. TW_FLOATS(f32x16, float, int32_t, 16, boolx16) makes a type and its functions, TW_INTS and TW_BOOLS likewise.
 * TW_..._ANY: of a number of lanes that is not a power of two. */

#define TW_VECTOR_MEMORY(V, T, N, B)                                                        \
  TW_INLINE V V##_load(const void* p) {                                                     \
    V r;                                                                                    \
    tw_copy(&r, p, sizeof(T) * (N));                                                        \
    return r;                                                                               \
  }                                                                                         \
  TW_INLINE void V##_store(void* p, V v) { tw_copy(p, &v, sizeof(T) * (N)); }               \
  TW_INLINE V V##_ramp(T first, T step) {                                                   \
    T r[N];                                                                                 \
    TW_LANES(N) r[l] = (T)(first + (T)l * step);                                            \
    return V##_load(r);                                                                     \
  }                                                                                         \
  TW_INLINE V V##_load_step(const T* p, ptrdiff_t step) {                                   \
    T r[N];                                                                                 \
    TW_LANES(N) r[l] = p[l * step];                                                         \
    return V##_load(r);                                                                     \
  }                                                                                         \
  TW_INLINE void V##_store_step(T* p, ptrdiff_t step, V v) {                                \
    T r[N];                                                                                 \
    V##_store(r, v);                                                                        \
    TW_LANES(N) p[l * step] = r[l];                                                         \
  }                                                                                         \
  TW_INLINE V V##_load_if(B c, const T* p, ptrdiff_t step) {                                \
    T r[N];                                                                                 \
    uint8_t m[N];                                                                           \
    B##_store(m, c);                                                                        \
    TW_LANES(N) r[l] = m[l] ? p[l * step] : (T)0;                                           \
    return V##_load(r);                                                                     \
  }                                                                                         \
  TW_INLINE void V##_store_if(B c, T* p, ptrdiff_t step, V v) {                             \
    T r[N];                                                                                 \
    uint8_t m[N];                                                                           \
    V##_store(r, v);                                                                        \
    B##_store(m, c);                                                                        \
    TW_LANES(N) if (m[l]) p[l * step] = r[l];                                               \
  }
/* Lanes at indices of a vector type I of elements IT. */
#define TW_GATHER(V, T, I, IT, N, B)                                                        \
  TW_INLINE V V##_gather_##I(const T* p, I at) {                                            \
    T r[N];                                                                                 \
    IT k[N];                                                                                \
    I##_store(k, at);                                                                       \
    TW_LANES(N) r[l] = p[k[l]];                                                             \
    return V##_load(r);                                                                     \
  }                                                                                         \
  TW_INLINE void V##_scatter_##I(T* p, I at, V v) {                                         \
    T r[N];                                                                                 \
    IT k[N];                                                                                \
    V##_store(r, v);                                                                        \
    I##_store(k, at);                                                                       \
    TW_LANES(N) p[k[l]] = r[l];                                                             \
  }                                                                                         \
  TW_INLINE V V##_gather_if_##I(B c, const T* p, I at) {                                    \
    T r[N];                                                                                 \
    IT k[N];                                                                                \
    uint8_t m[N];                                                                           \
    I##_store(k, at);                                                                       \
    B##_store(m, c);                                                                        \
    TW_LANES(N) r[l] = m[l] ? p[k[l]] : (T)0;                                               \
    return V##_load(r);                                                                     \
  }                                                                                         \
  TW_INLINE void V##_scatter_if_##I(B c, T* p, I at, V v) {                                 \
    T r[N];                                                                                 \
    IT k[N];                                                                                \
    uint8_t m[N];                                                                           \
    V##_store(r, v);                                                                        \
    I##_store(k, at);                                                                       \
    B##_store(m, c);                                                                        \
    TW_LANES(N) if (m[l]) p[k[l]] = r[l];                                                   \
  }
/* Lane by lane, through a function of scalars (or a cast in parentheses). */
#define TW_MAP1(NAME, R, RT, A, AT, N, F)                                                   \
  TW_INLINE R NAME(A a) {                                                                   \
    RT r[N];                                                                                \
    AT x[N];                                                                                \
    A##_store(x, a);                                                                        \
    TW_LANES(N) r[l] = (RT)F(x[l]);                                                         \
    return R##_load(r);                                                                     \
  }
#define TW_MAP2(NAME, R, RT, A, AT, C, CT, N, F)                                            \
  TW_INLINE R NAME(A a, C c) {                                                              \
    RT r[N];                                                                                \
    AT x[N];                                                                                \
    CT y[N];                                                                                \
    A##_store(x, a);                                                                        \
    C##_store(y, c);                                                                        \
    TW_LANES(N) r[l] = (RT)F(x[l], y[l]);                                                   \
    return R##_load(r);                                                                     \
  }
#define TW_MAP4(NAME, V, T, N, F)                                                           \
  TW_INLINE V NAME(V a, V b, V c, V d) {                                                    \
    T r[N], x[N], y[N], z[N], w[N];                                                         \
    V##_store(x, a);                                                                        \
    V##_store(y, b);                                                                        \
    V##_store(z, c);                                                                        \
    V##_store(w, d);                                                                        \
    TW_LANES(N) r[l] = (T)F(x[l], y[l], z[l], w[l]);                                        \
    return V##_load(r);                                                                     \
  }
/* The same bits. */
#define TW_BITS(NAME, R, A)                                                                 \
  TW_INLINE R NAME(A a) {                                                                   \
    R r;                                                                                    \
    tw_copy(&r, &a, sizeof r);                                                              \
    return r;                                                                               \
  }

#define TW_ARRAY_SELECT(V, N, B)                                                            \
  TW_INLINE V V##_select(B c, V a, V b) {                                                   \
    V r;                                                                                    \
    TW_LANES(N) r.v[l] = c.v[l] ? a.v[l] : b.v[l];                                          \
    return r;                                                                               \
  }
#define TW_ARRAY_TYPE(V, T, N)                                                              \
  typedef struct {                                                                          \
    T v[N];                                                                                 \
  } V;                                                                                      \
  TW_INLINE V V##_splat(T x) {                                                              \
    V r;                                                                                    \
    TW_LANES(N) r.v[l] = x;                                                                 \
    return r;                                                                               \
  }                                                                                         \
  TW_INLINE T V##_get(V v, int k) { return v.v[k]; }
#define TW_ARRAY_BINARY(NAME, V, R, RT, N, E)                                               \
  TW_INLINE R NAME(V a, V b) {                                                              \
    R r;                                                                                    \
    TW_LANES(N) r.v[l] = (RT)(E);                                                           \
    return r;                                                                               \
  }
#define TW_ARRAY_COMPARE(V, N, B)                                                           \
  TW_ARRAY_BINARY(V##_eq, V, B, uint8_t, N, a.v[l] == b.v[l])                               \
  TW_ARRAY_BINARY(V##_ne, V, B, uint8_t, N, a.v[l] != b.v[l])                               \
  TW_ARRAY_BINARY(V##_lt, V, B, uint8_t, N, a.v[l] < b.v[l])                                \
  TW_ARRAY_BINARY(V##_le, V, B, uint8_t, N, a.v[l] <= b.v[l])                               \
  TW_ARRAY_BINARY(V##_gt, V, B, uint8_t, N, a.v[l] > b.v[l])                                \
  TW_ARRAY_BINARY(V##_ge, V, B, uint8_t, N, a.v[l] >= b.v[l])
#define TW_ARRAY_BITWISE(V, T, N)                                                           \
  TW_ARRAY_BINARY(V##_and, V, V, T, N, a.v[l] & b.v[l])                                     \
  TW_ARRAY_BINARY(V##_or, V, V, T, N, a.v[l] | b.v[l])                                      \
  TW_ARRAY_BINARY(V##_xor, V, V, T, N, a.v[l] ^ b.v[l])

#define TW_BOOLS_ANY(V, N)                                                                  \
  TW_ARRAY_TYPE(V, uint8_t, N)                                                              \
  TW_VECTOR_MEMORY(V, uint8_t, N, V)                                                        \
  TW_ARRAY_BITWISE(V, uint8_t, N)                                                           \
  TW_ARRAY_COMPARE(V, N, V)                                                                 \
  TW_ARRAY_SELECT(V, N, V)
#define TW_FLOATS_ANY(V, T, M, N, B)                                                        \
  TW_ARRAY_TYPE(V, T, N)                                                                    \
  TW_VECTOR_MEMORY(V, T, N, B)                                                              \
  TW_ARRAY_BINARY(V##_add, V, V, T, N, a.v[l] + b.v[l])                                     \
  TW_ARRAY_BINARY(V##_sub, V, V, T, N, a.v[l] - b.v[l])                                     \
  TW_ARRAY_BINARY(V##_mul, V, V, T, N, a.v[l] * b.v[l])                                     \
  TW_ARRAY_BINARY(V##_div, V, V, T, N, a.v[l] / b.v[l])                                     \
  TW_ARRAY_BINARY(V##_min, V, V, T, N, a.v[l] < b.v[l] || a.v[l] != a.v[l] ? a.v[l] : b.v[l]) \
  TW_ARRAY_BINARY(V##_max, V, V, T, N, a.v[l] > b.v[l] || a.v[l] != a.v[l] ? a.v[l] : b.v[l]) \
  TW_INLINE V V##_fma(V a, V b, V c) {                                                      \
    V r;                                                                                    \
    TW_LANES(N) r.v[l] = a.v[l] * b.v[l] + c.v[l];                                          \
    return r;                                                                               \
  }                                                                                         \
  TW_ARRAY_COMPARE(V, N, B)                                                                 \
  TW_ARRAY_SELECT(V, N, B)
#define TW_INTS_ANY(V, T, U, N, B)                                                          \
  TW_ARRAY_TYPE(V, T, N)                                                                    \
  TW_VECTOR_MEMORY(V, T, N, B)                                                              \
  TW_ARRAY_BINARY(V##_add, V, V, T, N, (uint64_t)a.v[l] + (uint64_t)b.v[l])                 \
  TW_ARRAY_BINARY(V##_sub, V, V, T, N, (uint64_t)a.v[l] - (uint64_t)b.v[l])                 \
  TW_ARRAY_BINARY(V##_mul, V, V, T, N, (uint64_t)a.v[l] * (uint64_t)b.v[l])                 \
  TW_ARRAY_BINARY(V##_shl, V, V, T, N, (uint64_t)a.v[l] << b.v[l])                          \
  TW_ARRAY_BINARY(V##_shr, V, V, T, N, a.v[l] >> b.v[l])                                    \
  TW_ARRAY_BINARY(V##_min, V, V, T, N, a.v[l] < b.v[l] ? a.v[l] : b.v[l])                   \
  TW_ARRAY_BINARY(V##_max, V, V, T, N, a.v[l] > b.v[l] ? a.v[l] : b.v[l])                   \
  TW_ARRAY_BITWISE(V, T, N)                                                                 \
  TW_ARRAY_COMPARE(V, N, B)                                                                 \
  TW_ARRAY_SELECT(V, N, B)

/* With Helium, gcc (12.2) loses the results of comparisons of vectors, at any level of optimisation; it has vectors of arrays there. */
#if defined(TW_GNU) && (defined(__clang__) || !defined(__ARM_FEATURE_MVE))
#define TW_GNU_TYPE(V, T, N)                                                                \
  typedef T V __attribute__((vector_size(sizeof(T) * (N))));                                \
  TW_INLINE V V##_splat(T x) { return x - (V){0}; }                                         \
  TW_INLINE T V##_get(V v, int k) { return v[k]; }
#define TW_GNU_BINARY(NAME, V, R, E)                                                        \
  TW_INLINE R NAME(V a, V b) { return (R)(E); }
/* Truth values are bytes, 0 or 1. */
#define TW_GNU_TRUTH(B, c) ((B)__builtin_convertvector(c, B##_mask) & 1)
#define TW_GNU_COMPARE(V, B)                                                                \
  TW_GNU_BINARY(V##_eq, V, B, TW_GNU_TRUTH(B, a == b))                                      \
  TW_GNU_BINARY(V##_ne, V, B, TW_GNU_TRUTH(B, a != b))                                      \
  TW_GNU_BINARY(V##_lt, V, B, TW_GNU_TRUTH(B, a < b))                                       \
  TW_GNU_BINARY(V##_le, V, B, TW_GNU_TRUTH(B, a <= b))                                      \
  TW_GNU_BINARY(V##_gt, V, B, TW_GNU_TRUTH(B, a > b))                                       \
  TW_GNU_BINARY(V##_ge, V, B, TW_GNU_TRUTH(B, a >= b))
#define TW_GNU_PICK(V, m, a, b) ((V)(((m) & (V##_mask)(a)) | (~(m) & (V##_mask)(b))))
#define TW_GNU_SELECT(V, B)                                                                 \
  TW_INLINE V V##_select(B c, V a, V b) {                                                   \
    V##_mask m = -__builtin_convertvector(c, V##_mask);                                     \
    return TW_GNU_PICK(V, m, a, b);                                                         \
  }
#define TW_GNU_BITWISE(V)                                                                   \
  TW_GNU_BINARY(V##_and, V, V, a & b)                                                       \
  TW_GNU_BINARY(V##_or, V, V, a | b)                                                        \
  TW_GNU_BINARY(V##_xor, V, V, a ^ b)
#define TW_BOOLS(V, N)                                                                      \
  TW_GNU_TYPE(V, uint8_t, N)                                                                \
  typedef int8_t V##_mask __attribute__((vector_size(N)));                                  \
  TW_VECTOR_MEMORY(V, uint8_t, N, V)                                                        \
  TW_GNU_BITWISE(V)                                                                         \
  TW_GNU_COMPARE(V, V)                                                                      \
  TW_GNU_SELECT(V, V)
#define TW_FLOATS(V, T, M, N, B)                                                            \
  TW_GNU_TYPE(V, T, N)                                                                      \
  typedef M V##_mask __attribute__((vector_size(sizeof(T) * (N))));                         \
  TW_VECTOR_MEMORY(V, T, N, B)                                                              \
  TW_GNU_BINARY(V##_add, V, V, a + b)                                                       \
  TW_GNU_BINARY(V##_sub, V, V, a - b)                                                       \
  TW_GNU_BINARY(V##_mul, V, V, a * b)                                                       \
  TW_GNU_BINARY(V##_div, V, V, a / b)                                                       \
  TW_GNU_BINARY(V##_min, V, V, TW_GNU_PICK(V, (a < b) | (a != a), a, b))                    \
  TW_GNU_BINARY(V##_max, V, V, TW_GNU_PICK(V, (a > b) | (a != a), a, b))                    \
  TW_INLINE V V##_fma(V a, V b, V c) { return a * b + c; }                                  \
  TW_GNU_COMPARE(V, B)                                                                      \
  TW_GNU_SELECT(V, B)
/* U: the unsigned type, in which nothing overflows; M: the signed one. */
#define TW_INTS(V, T, U, N, B)                                                              \
  TW_GNU_TYPE(V, T, N)                                                                      \
  typedef __typeof__((V){0} == (V){0}) V##_mask;                                            \
  typedef U V##_bare __attribute__((vector_size(sizeof(T) * (N))));                         \
  TW_VECTOR_MEMORY(V, T, N, B)                                                              \
  TW_GNU_BINARY(V##_add, V, V, (V##_bare)a + (V##_bare)b)                                   \
  TW_GNU_BINARY(V##_sub, V, V, (V##_bare)a - (V##_bare)b)                                   \
  TW_GNU_BINARY(V##_mul, V, V, (V##_bare)a * (V##_bare)b)                                   \
  TW_GNU_BINARY(V##_shl, V, V, (V##_bare)a << (V##_bare)b)                                  \
  TW_GNU_BINARY(V##_shr, V, V, a >> b)                                                      \
  TW_GNU_BINARY(V##_min, V, V, TW_GNU_PICK(V, a < b, a, b))                                 \
  TW_GNU_BINARY(V##_max, V, V, TW_GNU_PICK(V, a > b, a, b))                                 \
  TW_GNU_BITWISE(V)                                                                         \
  TW_GNU_COMPARE(V, B)                                                                      \
  TW_GNU_SELECT(V, B)
/* A conversion that C makes of each lane. */
#define TW_CONVERT(NAME, R, RT, A, AT, N)                                                   \
  TW_INLINE R NAME(A a) { return __builtin_convertvector(a, R); }
#else
#define TW_BOOLS TW_BOOLS_ANY
#define TW_FLOATS TW_FLOATS_ANY
#define TW_INTS TW_INTS_ANY
#define TW_CONVERT(NAME, R, RT, A, AT, N) TW_MAP1(NAME, R, RT, A, AT, N, (RT))
#endif

/* --- what generated code shares with a runtime: layouts of tvm-ffi and DLPack */

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} tw_tensor;
typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
  } value;
} tw_any;
typedef int32_t (*tw_task)(int32_t task, int32_t count, void* data);
typedef struct {
  int32_t (*parallel_launch)(tw_task task, void* data, int32_t pieces);
  void (*set_error)(const char* kind, const char* message);
  void* (*alloc_workspace)(int64_t bytes, int32_t device_type, int32_t device_id);
  void (*free_workspace)(void* data);
  int32_t (*call_packed)(const char* name, const tw_any* args, int32_t count, tw_any* result);
  int32_t (*call_from)(void* slot, const char* name, const tw_any* args, int32_t count, tw_any* result);
  int32_t (*free_device_workspace)(void* data, int32_t device_type, int32_t device_id);
  void* more[1];
} tw_context;

#if defined(TW_NO_RUNTIME) || !defined(TW_GNU)
/* Nobody fills it in. */
static tw_context __tilewright_context;
#define TW_CONTEXT()
#define TW_OWN_MODULE() static void* __tvm_ffi__library_ctx;
#else
/* The loader fills it in. On Linux errors go to a library of tvm-ffi's where the process has one. */
extern TW_EXPORTED tw_context __tilewright_context;
#ifdef __linux__
extern void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) __attribute__((weak));
#define TW_CONTEXT() __attribute__((weak)) tw_context __tilewright_context = {0, TVMFFIErrorSetRaisedFromCStr, 0, 0, 0, 0, 0, {0}};
#else
#define TW_CONTEXT() __attribute__((weak)) tw_context __tilewright_context = {0, 0, 0, 0, 0, 0, 0, {0}};
#endif
#define TW_OWN_MODULE() TW_EXPORTED __attribute__((weak)) void* __tvm_ffi__library_ctx = 0;
#endif

TW_INLINE int32_t tw_tell(const char* kind, const char* text) {
  if (__tilewright_context.set_error) __tilewright_context.set_error(kind, text);
  return -1;
}
/* The character 1 of the text stands for the first number of two; the last one stands after the text. */
TW_COLD int32_t tw_tell_numbers(const char* kind, const char* text, const int64_t* values, int count) {
  char buffer[1024];
  int at = 0, k = 0;
  if (!__tilewright_context.set_error) return -1;
  for (;;) {
    char digits[20];
    int n = 0, last = *text == 0 || at > 960;
    uint64_t size;
    if (!last && (*text != 1 || k + 1 >= count)) {
      buffer[at++] = *text++;
      continue;
    }
    size = values[k] < 0 ? -(uint64_t)values[k] : (uint64_t)values[k];
    if (values[k++] < 0) buffer[at++] = '-';
    do digits[n++] = (char)('0' + size % 10);
    while (size /= 10);
    while (n) buffer[at++] = digits[--n];
    if (last) break;
    ++text;
  }
  buffer[at] = 0;
  __tilewright_context.set_error(kind, buffer);
  return -1;
}
TW_INLINE int32_t tw_parallel(tw_task task, void* data, int64_t rounds) {
  if (!__tilewright_context.parallel_launch) return task(0, 1, data);
  return __tilewright_context.parallel_launch(task, data, -(int32_t)(rounds < 0x7fff ? rounds : 0x7fff));
}

#ifdef TW_NO_RUNTIME
void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int type_code, int type_bits);
int TVMBackendFreeWorkspace(int device_type, int device_id, void* data);
TW_INLINE void* tw_alloc(int64_t bytes) { return TVMBackendAllocWorkspace(1, 0, (uint64_t)bytes, 2, 32); }
TW_INLINE void tw_free(void* data) { TVMBackendFreeWorkspace(1, 0, data); }
#elif __STDC_HOSTED__ && !defined(__wasm__)
#ifndef TW_GNU
#include <stdlib.h>
/* Nothing asks for more than what any type asks for. */
#define TW_ALLOCATED(bytes) malloc(bytes)
#define TW_FREED(data) free(data)
#elif defined(_WIN32)
extern void* _aligned_malloc(size_t bytes, size_t alignment);
extern void _aligned_free(void* data);
#define TW_ALLOCATED(bytes) _aligned_malloc(bytes, 64)
#define TW_FREED(data) _aligned_free(data)
#else
extern void* aligned_alloc(size_t alignment, size_t bytes);
#define TW_ALLOCATED(bytes) aligned_alloc(64, ((bytes) + 63) & ~(size_t)63)
#define TW_FREED(data) __builtin_free(data)
#endif
TW_INLINE void* tw_alloc(int64_t bytes) {
  if (__tilewright_context.alloc_workspace) return __tilewright_context.alloc_workspace(bytes, 1, 0);
  return TW_ALLOCATED((size_t)bytes);
}
TW_INLINE void tw_free(void* data) {
  if (__tilewright_context.free_workspace)
    __tilewright_context.free_workspace(data);
  else
    TW_FREED(data);
}
#else
TW_INLINE void* tw_alloc(int64_t bytes) {
  return __tilewright_context.alloc_workspace ? __tilewright_context.alloc_workspace(bytes, 1, 0) : 0;
}
TW_INLINE void tw_free(void* data) {
  if (__tilewright_context.free_workspace) __tilewright_context.free_workspace(data);
}
#endif

#endif
