// argmin over h >= floor of 1/2 h'Gh - N'h in every column, one matrix G for all of them, by cyclic coordinate descent
// from F (HALS), as newton.py defines it.
//
// Components are taken in blocks of the registers' height: the slopes of a block are one small product G h over a group
// of columns, kept in registers, and inside the block every component that moved corrects the slopes of those after it.
// That is coordinate descent in the given order, at the speed of a matrix product. Slopes kept from one component to the
// next would need a load and a store for every multiplication.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// f(first, rows) for every block of components, cut evenly.
template <class F>
inline void each_component_block(size_t r, F f) {
    size_t blocks = (r + kRowsInRegisters - 1) / kRowsInRegisters;
    for (size_t b = 0, k = 0; b < blocks; ++b) {
        size_t rows = (r - k + blocks - b - 1) / (blocks - b);
        f(k, rows);
        k += rows;
    }
}

// G in the order the products read it: block by block, r x rows each. Then the steps 1 / G_kk, zero for a component
// that is not to move: its square G_kk is at most `smallest`, or out of the range of T.
template <class T>
inline void pack_shared(const double* G, size_t r, double smallest, T* out) {
    each_component_block(r, [&](size_t k, size_t rows) {
        for (size_t l = 0; l < r; ++l)
            for (size_t i = 0; i < rows; ++i) out[k * r + l * rows + i] = T(G[(k + i) * r + l]);
    });
    for (size_t k = 0; k < r; ++k) {
        T step = T(1.0 / G[k * r + k]);
        out[r * r + k] = G[k * r + k] > smallest && step - step == T(0) ? step : T(0);
    }
}

template <class T>
struct SharedGroup {
    static constexpr int V = kVectorsInRegisters, L = kLanes<T>;
    static constexpr size_t width = size_t(V) * L;  // columns of a group
    const Hals& q;
    T *H, *N;  // r x width each

    SharedGroup(const Hals& step, char* scratch) : q(step) {
        H = reinterpret_cast<T*>(scratch), N = H + q.r * width;
    }

    // Lanes beyond the last column hold zeros; they cost what they cost, so that every column sees the same code.
    void run(size_t begin, size_t end) {
        size_t count = least(width, end - begin);
        for (size_t k = 0; k < q.r; ++k) fetch(q.F, k, begin, count, H), fetch(q.N, k, begin, count, N);
        for (int pass = 0; pass < q.passes; ++pass)
            each_component_block(q.r, [&](size_t k, size_t rows) { rows_of<kRowsInRegisters>(k, rows); });
        for (size_t k = 0; k < q.r; ++k)
            memcpy(static_cast<T*>(q.out) + k * q.n + begin, H + k * width, count * sizeof(T));
    }

    void fetch(const void* from, size_t k, size_t begin, size_t count, T* to) const {
        memcpy(to + k * width, static_cast<const T*>(from) + k * q.n + begin, count * sizeof(T));
        for (size_t c = count; c < width; ++c) to[k * width + c] = T(0);
    }

    template <int Rows>
    void rows_of(size_t k, size_t rows) {
        if constexpr (Rows > 1) {
            if (rows < size_t(Rows)) return rows_of<Rows - 1>(k, rows);
        }
        block<Rows>(k);
    }

    template <int Rows>
    void block(size_t k) {
        const T *G = static_cast<const T*>(q.G) + k * q.r, *steps = static_cast<const T*>(q.G) + q.r * q.r + k;
        Vec<T> slope[Rows][V] = {};
        const T *g = G, *h = H;
        for (size_t l = 0; l < q.r; ++l, g += Rows, h += width) {
            Vec<T> row[V];
            each<V>([&](int v) { row[v] = load(h + v * L); });
            each<Rows>([&](int i) { each<V>([&](int v) { slope[i][v] += broadcast(g[i]) * row[v]; }); });
        }
        const Vec<T> floor = broadcast(T(q.floor));
        each<Rows>([&](int i) {
            T* at = H + (k + size_t(i)) * width;
            const T *n = N + (k + size_t(i)) * width, *below = G + (k + size_t(i)) * Rows;
            Vec<T> change[V];
            each<V>([&](int v) {
                Vec<T> from = load(at + v * L), down = slope[i][v] - load(n + v * L);
                Vec<T> moved = larger<T>(floor, from - down * broadcast(steps[i]));  // a NaN stays one
                store(at + v * L, moved);
                change[v] = moved - from;
            });
            each<Rows>([&](int j) {
                if (j > i) each<V>([&](int v) { slope[j][v] += broadcast(below[j]) * change[v]; });
            });
        });
    }
};

template <class T>
inline void hals(const Hals& q, size_t begin, size_t end, char* scratch) {
    SharedGroup<T> group(q, scratch);
    for (size_t j = begin; j < end && !q.stopped(nullptr); j += SharedGroup<T>::width) group.run(j, end);
}

}  // namespace drnmf::DRNMF_ISA_NAME
