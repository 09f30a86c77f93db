// Types and constants of OpenCL C that Clang takes from its header, which zig does not have.
#define __opencl_c_named_address_space_builtins 1
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define VECTORS(t)                                   \
  typedef t t##2 __attribute__((ext_vector_type(2))); \
  typedef t t##3 __attribute__((ext_vector_type(3))); \
  typedef t t##4 __attribute__((ext_vector_type(4))); \
  typedef t t##8 __attribute__((ext_vector_type(8))); \
  typedef t t##16 __attribute__((ext_vector_type(16)));
VECTORS(char) VECTORS(uchar) VECTORS(short) VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long) VECTORS(ulong)
VECTORS(float) VECTORS(double) VECTORS(half)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
typedef uint cl_mem_fence_flags;
#define as_float(x) __builtin_astype((x), float)
#define as_int(x) __builtin_astype((x), int)
#define as_uint(x) __builtin_astype((x), uint)
#define as_ulong(x) __builtin_astype((x), ulong)
#define as_double(x) __builtin_astype((x), double)
#define as_ushort(x) __builtin_astype((x), ushort)
#define as_half(x) __builtin_astype((x), half)
#define as_float2(x) __builtin_astype((x), float2)
#define as_uint2(x) __builtin_astype((x), uint2)
#define as_float4(x) __builtin_astype((x), float4)
#define as_uint4(x) __builtin_astype((x), uint4)
#define as_float8(x) __builtin_astype((x), float8)
#define as_uint8(x) __builtin_astype((x), uint8)
