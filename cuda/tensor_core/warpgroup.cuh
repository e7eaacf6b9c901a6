#pragma once

#include <cstdint>

namespace warpconv::cuda {

// Matrix products by a warpgroup, four warps that begin with one whose number is a multiple of four, which run on while
// its threads go on: the tensor cores of compute capability 9.0 alone have them, in code for sm_90a.

/**
 * Of this thread. The same in all lanes, for the compiler to know: a warp then computes but once what depends on
 * nothing else, and its products are not in what might be divergent code.
 */
__device__ inline int warpgroupIndex() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0); }

/**
 * Where the second operand lies in shared memory: as pieces of 16 bytes, four steps of TF32 or eight of FP16, by eight
 * columns, column by column; the next eight columns follow, and the next steps come `stepsApart` bytes later.
 */
__device__ inline uint64_t columnsAt(uint32_t shared, uint32_t stepsApart) {
  constexpr uint64_t kColumnsApart = 128;
  return (shared & 0x3ffff) >> 4 | static_cast<uint64_t>(stepsApart >> 4) << 16 | (kColumnsApart >> 4) << 32;
}

/**
 * Where an operand lies in shared memory as the copy engine leaves it: rows of 128 bytes, 16 steps of FP16 or 8 of TF32
 * each 32 of them, whose pieces of 16 bytes are exchanged with those of the seven rows around it. `shared` is a
 * multiple of 1,024, and 32 times at most 3 more.
 */
__device__ inline uint64_t swizzledAt(uint32_t shared) {
  constexpr uint64_t kEightRowsApart = 1024, kSwizzle128 = uint64_t{1} << 62;
  return (shared & 0x3ffff) >> 4 | (kEightRowsApart >> 4) << 32 | kSwizzle128;
}

/** For the rest of this warpgroup's life: registers go back, or are taken once others have given them back. */
template <int kRegisters>
__device__ inline void leaveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void takeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/** Stores a piece of an operand, see columnsAt, at an address of shared memory that is a multiple of 16. */
__device__ inline void storeFour(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

/**
 * Makes what was stored in shared memory, by this thread or by others that it has waited for, visible to the products
 * that it begins afterwards, or others do after a barrier. It waits for the loads that this thread has under way, too.
 */
__device__ inline void publishToProducts() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/** Before the first of several products, once their registers are what they should be. */
__device__ inline void beginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/** After the last of several products. */
__device__ inline void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/** Until no more than kRunning groups of products of this warpgroup run on, and those that make `sums` are done. */
template <int kRunning = 0, int kCount>
__device__ inline void waitForProducts(float (&sums)[kCount]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kRunning) : "memory");
  // The sums have changed here, as far as the compiler is concerned.
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define WARPCONV_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define WARPCONV_SUMS_8(i) WARPCONV_SUMS_4(i), WARPCONV_SUMS_4(i + 4)
#define WARPCONV_SUMS_12(i) WARPCONV_SUMS_8(i), WARPCONV_SUMS_4(i + 8)
#define WARPCONV_SUMS_16(i) WARPCONV_SUMS_8(i), WARPCONV_SUMS_8(i + 8)
#define WARPCONV_SUMS_24(i) WARPCONV_SUMS_16(i), WARPCONV_SUMS_8(i + 16)
#define WARPCONV_SUMS_32(i) WARPCONV_SUMS_16(i), WARPCONV_SUMS_16(i + 16)
#define WARPCONV_SUMS_48(i) WARPCONV_SUMS_32(i), WARPCONV_SUMS_16(i + 32)
#define WARPCONV_SUMS_64(i) WARPCONV_SUMS_32(i), WARPCONV_SUMS_32(i + 32)
#define WARPCONV_SUMS_96(i) WARPCONV_SUMS_64(i), WARPCONV_SUMS_32(i + 64)
#define WARPCONV_SUMS_128(i) WARPCONV_SUMS_64(i), WARPCONV_SUMS_64(i + 64)

/** Until no more than kRunning groups of products run on, without a word on which registers have changed. */
template <int kRunning>
__device__ inline void waitForEarlierProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kRunning) : "memory");
}

/**
 * Begins sums = a * b, or sums += a * b where `add`, 64 x 64 by 8 steps, from the four warps of a warpgroup. With
 * w = warp % 4, g = lane / 4 and t = lane % 4, a thread has a(16 w + g, t), a(16 w + g + 8, t), a(16 w + g, t + 4),
 * a(16 w + g + 8, t + 4), and of sums those of rows 16 w + g and 16 w + g + 8: (g, 8 j + 2 t), (g, 8 j + 2 t + 1),
 * (g + 8, 8 j + 2 t), (g + 8, 8 j + 2 t + 1) for j = 0, 1, and so on. Until waitForProducts none of these registers
 * may be touched. Rounding is that of multiplyAddTf32.
 */
__device__ inline void beginMultiplyTf32(float (&sums)[32], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %37, 0; "
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1; }"
      : WARPCONV_SUMS_32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

/** The same with 128 columns. */
__device__ inline void beginMultiplyTf32(float (&sums)[64], const uint32_t (&a)[4], uint64_t b, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %69, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1; }"
      : WARPCONV_SUMS_64(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

#define WARPCONV_NEW_SUMS_4(i) "=f"(sums[i]), "=f"(sums[i + 1]), "=f"(sums[i + 2]), "=f"(sums[i + 3])
#define WARPCONV_NEW_SUMS_8(i) WARPCONV_NEW_SUMS_4(i), WARPCONV_NEW_SUMS_4(i + 4)
#define WARPCONV_NEW_SUMS_12(i) WARPCONV_NEW_SUMS_8(i), WARPCONV_NEW_SUMS_4(i + 8)
#define WARPCONV_NEW_SUMS_16(i) WARPCONV_NEW_SUMS_8(i), WARPCONV_NEW_SUMS_8(i + 8)
#define WARPCONV_NEW_SUMS_24(i) WARPCONV_NEW_SUMS_16(i), WARPCONV_NEW_SUMS_8(i + 16)
#define WARPCONV_NEW_SUMS_32(i) WARPCONV_NEW_SUMS_16(i), WARPCONV_NEW_SUMS_16(i + 16)
#define WARPCONV_NEW_SUMS_48(i) WARPCONV_NEW_SUMS_32(i), WARPCONV_NEW_SUMS_16(i + 32)
#define WARPCONV_NEW_SUMS_64(i) WARPCONV_NEW_SUMS_32(i), WARPCONV_NEW_SUMS_32(i + 32)
#define WARPCONV_NEW_SUMS_96(i) WARPCONV_NEW_SUMS_64(i), WARPCONV_NEW_SUMS_32(i + 64)
#define WARPCONV_NEW_SUMS_128(i) WARPCONV_NEW_SUMS_64(i), WARPCONV_NEW_SUMS_64(i + 64)
#define WARPCONV_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WARPCONV_NAMES_12 WARPCONV_NAMES_8 ", %8, %9, %10, %11"
#define WARPCONV_NAMES_16 WARPCONV_NAMES_12 ", %12, %13, %14, %15"
#define WARPCONV_NAMES_24 WARPCONV_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WARPCONV_NAMES_32 \
  WARPCONV_NAMES_16       \
  ", "                    \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WARPCONV_NAMES_48 \
  WARPCONV_NAMES_32       \
  ", "                    \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WARPCONV_NAMES_64 \
  WARPCONV_NAMES_48       \
  ", "                    \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WARPCONV_NAMES_96                                                                                          \
  WARPCONV_NAMES_64                                                                                                \
  ", "                                                                                                             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, " \
  "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WARPCONV_NAMES_128                                                                                         \
  WARPCONV_NAMES_96                                                                                                \
  ", "                                                                                                             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, " \
  "%115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WARPCONV_MULTIPLY_ROWS(kind, signs, columns, names, a_names, b_name, add, ...)                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns kind " {" names "}, " a_names ", " b_name ", " add signs \
               : __VA_ARGS__                                                                                        \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WARPCONV_MULTIPLY_FP16_ROWS(...) WARPCONV_MULTIPLY_ROWS("k16.f32.f16.f16", ", 1, 1, 0;", __VA_ARGS__)
#define WARPCONV_MULTIPLY_BF16_ROWS(...) WARPCONV_MULTIPLY_ROWS("k16.f32.bf16.bf16", ", 1, 1, 0;", __VA_ARGS__)
#define WARPCONV_MULTIPLY_TF32_ROWS(...) WARPCONV_MULTIPLY_ROWS("k8.f32.tf32.tf32", ", 1, 1;", __VA_ARGS__)
#define WARPCONV_MULTIPLY_FP16_WHERE(columns, names, a_name, b_name, add_name, ...)                                \
  asm volatile("{ .reg .pred add; setp.ne.b32 add, " add_name ", 0; wgmma.mma_async.sync.aligned.m64n" columns     \
               "k16.f32.f16.f16 {" names "}, " a_name ", " b_name ", add, 1, 1, 0, 0; }"                           \
               : __VA_ARGS__                                                                                       \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define WARPCONV_MULTIPLY_BOTH(kind, signs, columns, names, a_name, b_name, add, ...)                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" columns kind " {" names "}, " a_name ", " b_name ", " add signs \
:__VA_ARGS__                                                                                                       \
               : "l"(a), "l"(b))
#define WARPCONV_MULTIPLY_FP16(...) WARPCONV_MULTIPLY_BOTH("k16.f32.f16.f16", ", 1, 1, 0, 0;", __VA_ARGS__)
#define WARPCONV_MULTIPLY_BF16(...) WARPCONV_MULTIPLY_BOTH("k16.f32.bf16.bf16", ", 1, 1, 0, 0;", __VA_ARGS__)
#define WARPCONV_MULTIPLY_TF32(...) WARPCONV_MULTIPLY_BOTH("k8.f32.tf32.tf32", ", 1, 1;", __VA_ARGS__)

/**
 * The same with operands of FP16 and 16 steps, both in shared memory: rows of `a` lie as columns of `b` do, see
 * columnsAt. What a chain of products begins with must not depend on what its registers held, or copies are made as
 * products of the chain before run, for which the compiler lets each wait for the one before.
 */
#define WARPCONV_DEFINE_MULTIPLY(name, multiply, A, count, columns, a_names, b_name)                 \
  template <bool kAdd>                                                                               \
  __device__ inline void name(float (&sums)[count], A a, uint64_t b) {                               \
    if constexpr (kAdd) {                                                                            \
      multiply(columns, WARPCONV_NAMES_##count, a_names, b_name, "1", WARPCONV_SUMS_##count(0));     \
    } else {                                                                                         \
      multiply(columns, WARPCONV_NAMES_##count, a_names, b_name, "0", WARPCONV_NEW_SUMS_##count(0)); \
    }                                                                                                \
  }
#define WARPCONV_DEFINE_BOTH(name, multiply)                                  \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, uint64_t, 16, "32", "%16", "%17")  \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, uint64_t, 32, "64", "%32", "%33")  \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, uint64_t, 48, "96", "%48", "%49")  \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, uint64_t, 64, "128", "%64", "%65") \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, uint64_t, 96, "192", "%96", "%97") \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, uint64_t, 128, "256", "%128", "%129")
WARPCONV_DEFINE_BOTH(beginMultiplyFp16, WARPCONV_MULTIPLY_FP16)
WARPCONV_DEFINE_BOTH(beginMultiplyBf16, WARPCONV_MULTIPLY_BF16)
/** Of 8 steps. Bits of float32 that TF32 has not are not looked at. */
WARPCONV_DEFINE_BOTH(beginMultiplyTf32, WARPCONV_MULTIPLY_TF32)

/** The same with 64, 96 and 128 columns where it is not known before whether to add. */
__device__ inline void beginMultiplyFp16(float (&sums)[32], uint64_t a, uint64_t b, bool add) {
  WARPCONV_MULTIPLY_FP16_WHERE("64", WARPCONV_NAMES_32, "%32", "%33", "%34", WARPCONV_SUMS_32(0));
}
__device__ inline void beginMultiplyFp16(float (&sums)[48], uint64_t a, uint64_t b, bool add) {
  WARPCONV_MULTIPLY_FP16_WHERE("96", WARPCONV_NAMES_48, "%48", "%49", "%50", WARPCONV_SUMS_48(0));
}
__device__ inline void beginMultiplyFp16(float (&sums)[64], uint64_t a, uint64_t b, bool add) {
  WARPCONV_MULTIPLY_FP16_WHERE("128", WARPCONV_NAMES_64, "%64", "%65", "%66", WARPCONV_SUMS_64(0));
}

/**
 * The same with the rows of `a` in registers, of which a thread has pairs of steps, in the places where with TF32 it
 * has one: a(16 w + g, 2 t) and the next in a[0], those of row g + 8 in a[1], and in a[2] and a[3] those eight steps
 * later. With BF16, and with TF32, of 8 steps.
 */
using RegisterRows = const uint32_t (&)[4];
#define WARPCONV_DEFINE_ROWS(name, multiply)                                                      \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, RegisterRows, 8, "16", "{%8, %9, %10, %11}", "%12")    \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, RegisterRows, 12, "24", "{%12, %13, %14, %15}", "%16") \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, RegisterRows, 16, "32", "{%16, %17, %18, %19}", "%20") \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, RegisterRows, 24, "48", "{%24, %25, %26, %27}", "%28") \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, RegisterRows, 32, "64", "{%32, %33, %34, %35}", "%36") \
  WARPCONV_DEFINE_MULTIPLY(name, multiply, RegisterRows, 48, "96", "{%48, %49, %50, %51}", "%52")
WARPCONV_DEFINE_ROWS(beginMultiplyFp16, WARPCONV_MULTIPLY_FP16_ROWS)
WARPCONV_DEFINE_ROWS(beginMultiplyBf16, WARPCONV_MULTIPLY_BF16_ROWS)
WARPCONV_DEFINE_ROWS(beginMultiplyTf32, WARPCONV_MULTIPLY_TF32_ROWS)

#undef WARPCONV_DEFINE_ROWS
#undef WARPCONV_DEFINE_BOTH
#undef WARPCONV_DEFINE_MULTIPLY
#undef WARPCONV_MULTIPLY_FP16_ROWS
#undef WARPCONV_MULTIPLY_BF16_ROWS
#undef WARPCONV_MULTIPLY_TF32_ROWS
#undef WARPCONV_MULTIPLY_ROWS
#undef WARPCONV_MULTIPLY_FP16
#undef WARPCONV_MULTIPLY_BF16
#undef WARPCONV_MULTIPLY_TF32
#undef WARPCONV_MULTIPLY_BOTH
#undef WARPCONV_MULTIPLY_FP16_WHERE
#undef WARPCONV_NAMES_128
#undef WARPCONV_NAMES_96
#undef WARPCONV_NAMES_64
#undef WARPCONV_NAMES_48
#undef WARPCONV_NAMES_32
#undef WARPCONV_NAMES_24
#undef WARPCONV_NAMES_16
#undef WARPCONV_NAMES_12
#undef WARPCONV_NAMES_8
#undef WARPCONV_NEW_SUMS_128
#undef WARPCONV_NEW_SUMS_96
#undef WARPCONV_NEW_SUMS_64
#undef WARPCONV_NEW_SUMS_48
#undef WARPCONV_NEW_SUMS_32
#undef WARPCONV_NEW_SUMS_24
#undef WARPCONV_NEW_SUMS_16
#undef WARPCONV_NEW_SUMS_12
#undef WARPCONV_NEW_SUMS_8
#undef WARPCONV_NEW_SUMS_4
#undef WARPCONV_SUMS_128
#undef WARPCONV_SUMS_96
#undef WARPCONV_SUMS_64
#undef WARPCONV_SUMS_48
#undef WARPCONV_SUMS_32
#undef WARPCONV_SUMS_24
#undef WARPCONV_SUMS_16
#undef WARPCONV_SUMS_12
#undef WARPCONV_SUMS_8
#undef WARPCONV_SUMS_4

}  // namespace warpconv::cuda
