// argmin over h >= floor of 1/2 h'Gh - N'h in every column, one matrix G for all of them, by cyclic coordinate descent
// from F (HALS), and the extrapolation of what it found, as hals.py defines both.
//
// Components are taken in blocks of the registers' height: the slopes of a block are one small product G h over a group
// of columns, kept in registers, and inside the block every component that moved corrects the slopes of those after it.
// That is coordinate descent in the given order, at the speed of a matrix product. Slopes kept from one component to
// the next would need a load and a store for every multiplication.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// f(first, rows) for every block of components, split evenly.
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
    T *all_H, *all_N, *all_F, *all_last;  // panel x r x width each; the last two only to extrapolate
    T *H, *N, *F, *last, *middle;         // of a group

    SharedPanel(const Hals& step, char* scratch) : q(step), panel(groups(step)) {
        size_t size = panel * q.r * width;
        all_H = reinterpret_cast<T*>(scratch), all_N = all_H + size, all_F = all_N + size, all_last = all_F + size;
        middle = all_last + size;
    }
    static size_t blocks(const Hals& q) { return q.last ? 4 : 2; }
    static size_t groups(const Hals& q) {
        constexpr size_t room = 1 << 17, most = 16;
        size_t fit = room / (blocks(q) * q.r * width * sizeof(T));
        return fit < 1 ? 1 : least(fit, most);
    }
    static size_t bytes(const Hals& q) { return (blocks(q) * groups(q) + 1) * q.r * width * sizeof(T); }

    void run(size_t begin, size_t end) {
        for (size_t j = begin; j < end && !q.stopped(nullptr); j += panel * width) {
            size_t count = least(panel * width, end - j);
            fetch(q.F, j, count, all_H), fetch(q.N, j, count, all_N);
            if (q.last) fetch(q.F, j, count, all_F), fetch(q.last, j, count, all_last);
            for (size_t c = 0; c < count; c += width) {
                size_t at = c * q.r;
                H = all_H + at, N = all_N + at, F = all_F + at, last = all_last + at;
                for (int pass = 0; pass < q.passes; ++pass)
                    each_component_block(q.r, [&](size_t k, size_t rows) { rows_of<kRowsInRegisters, true>(k, rows); });
                if (q.last) extrapolate();
            }
            write(all_H, j, count, q.stepped);
            if (q.last) write(all_last, j, count, q.further);
        }
    }

    // last = max(H + pace (H - last), floor) where that is not above F: with d = last - F the loss rises by
    // d'(G (F + last) / 2 - N). H itself in the other columns.
    void extrapolate() {
        const Vec<T> floor = broadcast(T(q.floor)), pace = broadcast(T(q.pace));
        const T* steps = static_cast<const T*>(q.G) + q.r * q.r;
        each_vector([&](size_t k, size_t at, int) {
            Vec<T> h = load(H + at), ahead = h + pace * (h - load(last + at));
            ahead = larger<T>(floor, steps[k] == T(0) ? h : ahead);  // what did not move is not carried on
            store(last + at, ahead);
            store(middle + at, T(0.5) * (load(F + at) + ahead));
        });
        for (Vec<T>& sum : rise) sum = Vec<T>{};
        each_component_block(q.r, [&](size_t k, size_t rows) { rows_of<kRowsInRegisters, false>(k, rows); });
        each_vector(
            [&](size_t, size_t at, int v) { store(last + at, rise[v] <= T(0) ? load(last + at) : load(H + at)); });
    }

    // f(component, entry of the group, vector).
    template <class Do>
    void each_vector(Do f) const {
        for (size_t k = 0; k < q.r; ++k) each<V>([&](int v) { f(k, k * width + size_t(v) * L, v); });
    }

    // f(entry of a panel, entry of its row, how many) for every piece of row k.
    template <class Do>
    void each_piece(size_t k, size_t count, Do f) const {
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

    void write(const T* from, size_t begin, size_t count, void* base) const {
        for (size_t k = 0; k < q.r; ++k) {
            T* to = static_cast<T*>(base) + k * q.n + begin;
            each_piece(k, count,
                       [&](size_t at, size_t c, size_t some) { memcpy(to + c, from + at, some * sizeof(T)); });
        }
    }

    template <int Rows, bool Descend>
    void rows_of(size_t k, size_t rows) {
        if constexpr (Rows > 1) {
            if (rows < size_t(Rows)) return rows_of<Rows - 1, Descend>(k, rows);
        }
        Vec<T> slope[Rows][V] = {};
        const T *g = static_cast<const T*>(q.G) + k * q.r, *h = Descend ? H : middle;
        for (size_t l = 0; l < q.r; ++l, g += Rows, h += width) {
            Vec<T> row[V];
            each<V>([&](int v) { row[v] = load(h + v * L); });
            each<Rows>([&](int i) { each<V>([&](int v) { slope[i][v] += broadcast(g[i]) * row[v]; }); });
        }
        each<Rows>([&](int i) { each<V>([&](int v) { slope[i][v] -= load(N + (k + size_t(i)) * width + v * L); }); });
        if constexpr (Descend) descend<Rows>(k, slope);
        else add_rise<Rows>(k, slope);
    }

    template <int Rows>
    DRNMF_INLINE void descend(size_t k, Vec<T> (&slope)[Rows][V]) {
        const T *G = static_cast<const T*>(q.G) + k * q.r, *steps = static_cast<const T*>(q.G) + q.r * q.r + k;
        const Vec<T> floor = broadcast(T(q.floor));
        each<Rows>([&](int i) {
            T* at = H + (k + size_t(i)) * width;
            const T* after = G + (k + size_t(i)) * Rows;
            Vec<T> change[V];
            each<V>([&](int v) {
                Vec<T> from = load(at + v * L);
                Vec<T> moved = larger<T>(floor, from - slope[i][v] * broadcast(steps[i]));  // a NaN stays one
                store(at + v * L, moved);
                change[v] = moved - from;
            });
            each<Rows>([&](int j) {
                if (j > i) each<V>([&](int v) { slope[j][v] += broadcast(after[j]) * change[v]; });
            });
        });
    }

    template <int Rows>
    DRNMF_INLINE void add_rise(size_t k, const Vec<T> (&slope)[Rows][V]) {
        each<Rows>([&](int i) {
            each<V>([&](int v) {
                size_t at = (k + size_t(i)) * width + size_t(v) * L;
                rise[v] += (load(last + at) - load(F + at)) * slope[i][v];
            });
        });
    }

    Vec<T> rise[V];  // of the loss of a column, from F to where it was extrapolated
};

template <class T>
inline void hals(const Hals& q, size_t begin, size_t end, char* scratch) {
    SharedPanel<T>(q, scratch).run(begin, end);
}

}  // namespace drnmf::DRNMF_ISA_NAME
