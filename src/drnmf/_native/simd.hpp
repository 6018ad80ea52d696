// Vectors of one instruction set, from one source: GCC/Clang vector types whose width is fixed by the flags
// this file is compiled with. Everything lives in a namespace named after the instruction set, and nothing here
// may come from the standard library's templates: the linker keeps one copy of those, and it must not be the
// one compiled for AVX-512.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef DRNMF_ISA_NAME
#define DRNMF_ISA_NAME baseline
#endif

#define DRNMF_INLINE inline __attribute__((always_inline))

namespace drnmf::DRNMF_ISA_NAME {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kRowsInRegisters = 8, kVectorsInRegisters = 3;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kRowsInRegisters = 4, kVectorsInRegisters = 3;
#else
constexpr int kVectorBytes = 16, kRowsInRegisters = 4, kVectorsInRegisters = 2;
#endif

template <class T>
struct IntOf;
template <>
struct IntOf<float> {
    using type = int32_t;
};
template <>
struct IntOf<double> {
    using type = int64_t;
};

template <class T, int Bytes = kVectorBytes>
struct VecOf {
    typedef T type __attribute__((vector_size(Bytes)));
    typedef T loose __attribute__((vector_size(Bytes), aligned(alignof(T)), may_alias));
};

template <class T>
using Vec = typename VecOf<T>::type;
template <class T>
using IntVec = typename VecOf<typename IntOf<T>::type>::type;
template <class T>
constexpr int kLanes = kVectorBytes / int(sizeof(T));
// Vectors of entries worked on side by side. In float64 that pays where registers are many; in float32 the stores of
// the terms come too close to each other.
template <class T>
constexpr int kSideBySide = kVectorBytes == 64 && sizeof(T) == 8 ? 3 : 1;

template <class T>
DRNMF_INLINE Vec<T> load(const T* p) {
    return *reinterpret_cast<const typename VecOf<T>::loose*>(p);
}
template <class T>
DRNMF_INLINE void store(T* p, Vec<T> v) {
    *reinterpret_cast<typename VecOf<T>::loose*>(p) = v;
}
template <class T>
DRNMF_INLINE Vec<T> broadcast(T s) {
    return s - Vec<T>{};
}
template <class To, class From>
DRNMF_INLINE To bits(From v) {
    static_assert(sizeof(To) == sizeof(From));
    To out;
    memcpy(&out, &v, sizeof(out));
    return out;
}

// A NaN in a gives b, as the hardware does.
template <class T>
DRNMF_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_max_ps((__m512)a, (__m512)b);
    else return (Vec<T>)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm256_max_ps((__m256)a, (__m256)b);
    else return (Vec<T>)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    return a > b ? a : b;
#endif
}
template <class T>
DRNMF_INLINE Vec<T> smaller(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_min_ps((__m512)a, (__m512)b);
    else return (Vec<T>)_mm512_min_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm256_min_ps((__m256)a, (__m256)b);
    else return (Vec<T>)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    return a < b ? a : b;
#endif
}

template <class T>
DRNMF_INLINE Vec<T> square_root(Vec<T> v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_sqrt_ps((__m512)v);
    else return (Vec<T>)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm256_sqrt_ps((__m256)v);
    else return (Vec<T>)_mm256_sqrt_pd((__m256d)v);
#else
    for (int l = 0; l < kLanes<T>; ++l)
        v[l] = sizeof(T) == 4 ? T(__builtin_sqrtf(float(v[l]))) : T(__builtin_sqrt(v[l]));
    return v;
#endif
}

// kLanes<double> values of T, in float64: how float32 data enters a float64 sum.
template <class T>
DRNMF_INLINE Vec<double> load_double(const T* p) {
    if constexpr (sizeof(T) == 8) {
        return load(p);
    } else {
        using Half = VecOf<float, kVectorBytes / 2>;
        typename Half::type half = *reinterpret_cast<const typename Half::loose*>(p);
        return __builtin_convertvector(half, Vec<double>);
    }
}

// Adds the lanes of v to a float64 vector.
template <class T>
DRNMF_INLINE void add_to_double(Vec<double>& total, Vec<T> v) {
    if constexpr (sizeof(T) == 8) {
        total += v;
    } else {
        float lanes[kLanes<float>];
        store(lanes, v);
        total += load_double(lanes) + load_double(lanes + kLanes<double>);
    }
}

DRNMF_INLINE double sum_lanes(Vec<double> v) {
    double total = 0.0;
    for (int l = 0; l < kLanes<double>; ++l) total += v[l];
    return total;
}

// One stage of a transposition: exchanges blocks of `Distance` lanes between a and b.
template <int Distance, bool Second, class V, int... Lane>
DRNMF_INLINE V exchange(V a, V b) {
    constexpr int n = sizeof...(Lane);
    if constexpr (!Second)
        return __builtin_shufflevector(a, b, ((Lane & Distance) == 0 ? Lane : n + Lane - Distance)...);
    else return __builtin_shufflevector(a, b, ((Lane & Distance) == 0 ? Lane + Distance : n + Lane)...);
}

template <int Distance, bool Second, class V>
DRNMF_INLINE V exchange_lanes(V a, V b) {
    constexpr int n = sizeof(V) / sizeof(a[0]);
    if constexpr (n == 16)
        return exchange<Distance, Second, V, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(a, b);
    else if constexpr (n == 8) return exchange<Distance, Second, V, 0, 1, 2, 3, 4, 5, 6, 7>(a, b);
    else if constexpr (n == 4) return exchange<Distance, Second, V, 0, 1, 2, 3>(a, b);
    else return exchange<Distance, Second, V, 0, 1>(a, b);
}

template <class T, int Distance>
DRNMF_INLINE void transpose_stage(Vec<T>* rows) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) {
        if (i & Distance) continue;
        Vec<T> a = rows[i], b = rows[i + Distance];
        rows[i] = exchange_lanes<Distance, false>(a, b);
        rows[i + Distance] = exchange_lanes<Distance, true>(a, b);
    }
    if constexpr (Distance > 1) transpose_stage<T, Distance / 2>(rows);
}

// to[j][i] = scale from[i][j] for a square of kLanes x kLanes.
template <class T>
DRNMF_INLINE void transpose_square(const T* from, ptrdiff_t from_stride, T* to, ptrdiff_t to_stride, T scale) {
    Vec<T> rows[kLanes<T>];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) rows[i] = load(from + i * from_stride);
    transpose_stage<T, kLanes<T> / 2>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) store(to + i * to_stride, rows[i] * scale);
}

// to (columns x rows) = scale from (rows x columns) transposed, any size.
template <class T>
inline void transpose(const T* from, ptrdiff_t from_stride, int rows, int columns, T* to, ptrdiff_t to_stride,
                      T scale = T(1)) {
    constexpr int L = kLanes<T>;
    int full_rows = rows - rows % L, full_columns = columns - columns % L;
    for (int i = 0; i < full_rows; i += L)
        for (int j = 0; j < full_columns; j += L)
            transpose_square(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride, scale);
    for (int i = 0; i < rows; ++i)
        for (int j = i < full_rows ? full_columns : 0; j < columns; ++j)
            to[j * to_stride + i] = scale * from[i * from_stride + j];
}

// The same where `from` has whole vectors of columns, whatever their number: items that are padded.
template <class T>
inline void transpose_items(const T* from, ptrdiff_t from_stride, int rows, int columns, T* to, ptrdiff_t to_stride) {
    constexpr int L = kLanes<T>;
    int full_rows = rows - rows % L;
    for (int i = 0; i < full_rows; i += L)
        for (int j = 0; j < columns; j += L) {
            Vec<T> square[L];
#pragma GCC unroll 16
            for (int k = 0; k < L; ++k) square[k] = load(from + (i + k) * from_stride + j);
            transpose_stage<T, L / 2>(square);
#pragma GCC unroll 16
            for (int k = 0; k < L; ++k)
                if (j + k < columns) store(to + (j + k) * to_stride + i, square[k]);
        }
    for (int j = 0; j < columns; ++j)
        for (int i = full_rows; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
}

// f(0) ... f(U - 1): one step of a chain for U vectors side by side, which hides its latency where registers are many.
template <int U, class F>
DRNMF_INLINE void each(F f) {
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) f(u);
}

template <class T>
constexpr T least(T a, T b) {
    return a < b ? a : b;
}

}  // namespace drnmf::DRNMF_ISA_NAME
