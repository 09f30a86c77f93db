// Stand-ins for what the texts use of Metal's library, so that a C++ compiler can check them.
#define kernel
#define device
#define threadgroup
#define constant const
#define thread
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
half operator""h(long double);

namespace metal {
template <typename T, int N> struct vec {
  T x, y, z, w;
  vec();
  template <typename... S> explicit vec(S...);
  template <typename S> explicit vec(vec<S, N>);
};
#define VECTORS(t)                              \
  typedef vec<t, 2> t##2, packed_##t##2;        \
  typedef vec<t, 3> t##3, packed_##t##3;        \
  typedef vec<t, 4> t##4, packed_##t##4;
VECTORS(bool) VECTORS(char) VECTORS(uchar) VECTORS(short) VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long)
VECTORS(ulong) VECTORS(half) VECTORS(float)
#define ARITHMETIC(op)                                                         \
  template <typename T, int N> vec<T, N> operator op(vec<T, N>, vec<T, N>);    \
  template <typename T, int N> vec<T, N> operator op(vec<T, N>, T);
ARITHMETIC(+) ARITHMETIC(-) ARITHMETIC(*) ARITHMETIC(/) ARITHMETIC(%) ARITHMETIC(&) ARITHMETIC(|) ARITHMETIC(^)
ARITHMETIC(<<) ARITHMETIC(>>)
#define COMPARISON(op)                                                         \
  template <typename T, int N> vec<bool, N> operator op(vec<T, N>, vec<T, N>); \
  template <typename T, int N> vec<bool, N> operator op(vec<T, N>, int);
COMPARISON(<) COMPARISON(<=) COMPARISON(>) COMPARISON(>=) COMPARISON(==) COMPARISON(!=)
template <typename T> T select(T, T, bool);
template <typename T, int N> vec<T, N> select(vec<T, N>, vec<T, N>, vec<bool, N>);
template <typename T, int N> vec<bool, N> isnan(vec<T, N>);
bool isnan(float);
bool isinf(float);
bool isfinite(float);
template <typename T, typename S> T as_type(S);
#define OF_ONE(f) template <typename T> T f(T);
#define OF_TWO(f) template <typename T> T f(T, T);
namespace precise {
OF_ONE(exp) OF_ONE(log) OF_ONE(tanh) OF_ONE(sqrt) OF_ONE(rsqrt) OF_ONE(sin) OF_ONE(cos) OF_TWO(pow)
}
namespace fast {
OF_ONE(exp) OF_ONE(log)
}
OF_ONE(fabs) OF_ONE(floor) OF_ONE(ceil) OF_ONE(trunc) OF_ONE(rint) OF_ONE(abs) OF_TWO(copysign) OF_TWO(fmod)
OF_TWO(max) OF_TWO(min) OF_ONE(popcount) OF_ONE(clz)
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
template <typename T> T simd_shuffle(T, ushort);
template <typename T> T simd_shuffle_up(T, ushort);
template <typename T> T simd_shuffle_down(T, ushort);
template <typename T> struct simdgroup_matrix {};
typedef simdgroup_matrix<half> simdgroup_half8x8;
typedef simdgroup_matrix<float> simdgroup_float8x8;
template <typename T, int rows, int columns> simdgroup_matrix<T> make_filled_simdgroup_matrix(T);
template <typename T> void simdgroup_load(simdgroup_matrix<T>&, const T*, unsigned long, unsigned long, bool);
template <typename T> void simdgroup_store(simdgroup_matrix<T>, T*, unsigned long, unsigned long, bool);
template <typename T> void simdgroup_multiply_accumulate(simdgroup_matrix<T>&, simdgroup_matrix<T>, simdgroup_matrix<T>, simdgroup_matrix<T>);
struct atomic_int {};
struct atomic_uint {};
struct atomic_float {};
enum memory_order { memory_order_relaxed };
template <typename A, typename T> T atomic_fetch_add_explicit(A*, T, memory_order);
}
