// C (M x columns) = or += A (M x K) B (K x columns), tiles small enough for the first two cache levels.
// Vectors run along the columns; entries of A are broadcast, so A may have any strides. Both products of a sweep
// are this one: V = W H has (M, K) = (rows, r), N = W' Z has (M, K) = (r, rows).
#pragma once

#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
struct Operand {
    const T* p;
    ptrdiff_t down, across;  // strides
};

// Rows x Vectors of C in registers. Sums over K start from zero and are added to C once: short sums of short
// sums keep float32 accurate.
template <class T, int Rows, int Vectors, class Between>
inline void gemm_block(int K, Operand<T> A, Operand<T> B, T* C, ptrdiff_t ldc, bool add, Between& between) {
    constexpr int L = kLanes<T>;
    Vec<T> c[Rows][Vectors] = {};
    const T *a = A.p, *b = B.p;
    for (int k = 0; k < K; ++k, a += A.across, b += B.down) {
        between();
        Vec<T> row[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) row[v] = load(b + v * L);
#pragma GCC unroll 8
        for (int i = 0; i < Rows; ++i) {
            Vec<T> s = broadcast(a[i * A.down]);
#pragma GCC unroll 4
            for (int v = 0; v < Vectors; ++v) c[i][v] += s * row[v];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
            T* to = C + i * ldc + v * L;
            store(to, add ? load(to) + c[i][v] : c[i][v]);
        }
}

template <class T, int Vectors, int Rows, class Between>
inline void gemm_rows(int rows, int K, Operand<T> A, Operand<T> B, T* C, ptrdiff_t ldc, bool add, Between& between) {
    if constexpr (Rows > 1) {
        if (rows < Rows) return gemm_rows<T, Vectors, Rows - 1>(rows, K, A, B, C, ldc, add, between);
    }
    gemm_block<T, Rows, Vectors>(K, A, B, C, ldc, add, between);
}

// Rows are split evenly (10 is 5 + 5, not 8 + 2), so that no block is too thin to hide the latency.
template <class T, int Vectors, class Between>
inline void gemm_columns(int M, int K, Operand<T> A, Operand<T> B, T* C, ptrdiff_t ldc, bool add, Between& between) {
    int blocks = (M + kRowsInRegisters - 1) / kRowsInRegisters;
    for (int b = 0, i = 0; b < blocks; ++b) {
        int rows = (M - i + blocks - b - 1) / (blocks - b);
        Operand<T> part{A.p + i * A.down, A.down, A.across};
        gemm_rows<T, Vectors, kRowsInRegisters>(rows, K, part, B, C + i * ldc, ldc, add, between);
        i += rows;
    }
}

// `between` is called before every step of every block, that is gemm_steps(M, K) times for each group of vectors.
template <class T, class Between>
inline void gemm(int M, int K, int vectors, Operand<T> A, Operand<T> B, T* C, ptrdiff_t ldc, bool add,
                 Between& between) {
    constexpr int V = kVectorsInRegisters, L = kLanes<T>;
    int v = 0;
    for (; v + V <= vectors; v += V)
        gemm_columns<T, V>(M, K, A, {B.p + v * L, B.down, B.across}, C + v * L, ldc, add, between);
    if (V > 2 && vectors - v == 2)
        gemm_columns<T, 2>(M, K, A, {B.p + v * L, B.down, B.across}, C + v * L, ldc, add, between);
    else if (vectors - v == 1)
        gemm_columns<T, 1>(M, K, A, {B.p + v * L, B.down, B.across}, C + v * L, ldc, add, between);
}

struct Nothing {
    void operator()() const {}
};

template <class T>
inline void gemm(int M, int K, int vectors, Operand<T> A, Operand<T> B, T* C, ptrdiff_t ldc, bool add) {
    Nothing nothing;
    gemm<T>(M, K, vectors, A, B, C, ldc, add, nothing);
}

inline int gemm_steps(int M, int K) { return (M + kRowsInRegisters - 1) / kRowsInRegisters * K; }

}  // namespace drnmf::DRNMF_ISA_NAME
