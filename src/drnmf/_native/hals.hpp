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

// Columns are fetched a panel of groups at a time: rows of F and N are far apart, and memory gives long pieces of them
// sooner than short ones. A panel stays in the second cache level, a group of it in the first.
template <class T>
struct SharedPanel {
    static constexpr int V = kVectorsInRegisters, L = kLanes<T>;
    static constexpr size_t width = size_t(V) * L;  // columns of a group
    const Hals& q;
    size_t panel;
    T *all_H, *all_N;  // panel x r x width each
    T *H, *N;          // of a group

    SharedPanel(const Hals& step, char* scratch) : q(step), panel(groups(step)) {
        all_H = reinterpret_cast<T*>(scratch), all_N = all_H + panel * q.r * width;
    }
    static size_t groups(const Hals& q) {
        constexpr size_t room = 1 << 17, most = 16;
        size_t fit = room / (2 * q.r * width * sizeof(T));
        return fit < 1 ? 1 : least(fit, most);
    }
    static size_t bytes(const Hals& q) { return 2 * groups(q) * q.r * width * sizeof(T); }

    void run(size_t begin, size_t end) {
        for (size_t j = begin; j < end && !q.stopped(nullptr); j += panel * width) {
            size_t count = least(panel * width, end - j);
            fetch(q.F, j, count, all_H), fetch(q.N, j, count, all_N);
            for (size_t c = 0; c < count; c += width) {
                H = all_H + c * q.r, N = all_N + c * q.r;
                for (int pass = 0; pass < q.passes; ++pass)
                    each_component_block(q.r, [&](size_t k, size_t rows) { rows_of<kRowsInRegisters>(k, rows); });
            }
            write(j, count);
        }
    }

    // f(entry of a panel, entry of its row, how many) for every piece of row k.
    template <class F>
    void each_piece(size_t k, size_t count, F f) const {
        for (size_t c = 0; c < count; c += width) f(c * q.r + k * width, c, least(width, count - c));
    }

    // Lanes beyond the last column hold zeros; they are worked on like the others, so that every column sees one code.
    void fetch(const void* base, size_t begin, size_t count, T* to) const {
        for (size_t k = 0; k < q.r; ++k) {
            const T* from = static_cast<const T*>(base) + k * q.n + begin;
            each_piece(k, count, [&](size_t at, size_t c, size_t some) {
                if (some < width) memset(to + at, 0, width * sizeof(T));
                memcpy(to + at, from + c, some * sizeof(T));
            });
        }
    }

    void write(size_t begin, size_t count) const {
        for (size_t k = 0; k < q.r; ++k) {
            T* to = static_cast<T*>(q.out) + k * q.n + begin;
            each_piece(k, count, [&](size_t at, size_t c, size_t some) { memcpy(to + c, all_H + at, some * sizeof(T)); });
        }
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
    SharedPanel<T>(q, scratch).run(begin, end);
}

}  // namespace drnmf::DRNMF_ISA_NAME
