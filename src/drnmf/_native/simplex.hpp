// argmin over h >= floor, sum h = sum f of g'(h - f) + 1/2 (h - f)'M(h - f) in every column, by moves of two entries
// from F, as simplex_steps.py defines it: the entry of the smallest slope gains, and the one loses that lowers the
// model most.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
struct SimplexColumn {
    const Simplex& q;
    size_t r;
    T *M, *h, *g;  // r x r, r, r

    SimplexColumn(const Simplex& step, char* scratch) : q(step), r(step.r) {
        M = reinterpret_cast<T*>(scratch), h = M + r * r, g = h + r;
        if (shared_alone()) memcpy(M, q.shared, r * r * sizeof(T));
    }
    bool shared_alone() const { return q.shared && !q.Q && !q.sizes; }
    T at(const void* base, size_t k, size_t j) const { return static_cast<const T*>(base)[k * q.n + j]; }

    void run(size_t j) {
        for (size_t k = 0; k < r; ++k) h[k] = at(q.F, k, j), g[k] = at(q.slope, k, j);
        if (!shared_alone()) fill(j);
        T first = T(0);
        for (int move = 0; move < q.moves; ++move) {
            T wide = pair(first);
            if (move == 0) first = wide;
            if (!(wide > T(q.tolerance) * first)) break;
        }
        for (size_t k = 0; k < r; ++k) static_cast<T*>(q.out)[k * q.n + j] = h[k];
    }

    void fill(size_t j) {
        const T* shared = static_cast<const T*>(q.shared);
        for (size_t k = 0; k < r; ++k)
            for (size_t l = 0; l <= k; ++l) {
                T bend = shared ? shared[k * r + l] : T(0);
                if (q.Q) bend += at(q.Q, k * (k + 1) / 2 + l, j);
                if (q.sizes) bend *= at(q.sizes, k, j) * at(q.sizes, l, j);
                M[k * r + l] = M[l * r + k] = bend;
            }
    }

    // One move; returns by how much the slopes differed. Nothing moves where they agree.
    T pair(T first) {
        const T floor = T(q.floor);
        size_t low = 0, high = 0;
        for (size_t k = 1; k < r; ++k)
            if (g[k] < g[low]) low = k;
        const T* up = M + low * r;
        T wide = T(0), best = T(0), length = T(0);
        for (size_t k = 0; k < r; ++k) {
            T bend = M[k * r + k] + up[low] - T(2) * up[k], gap = g[k] - g[low];
            if (!(h[k] > floor && bend > T(0))) continue;
            wide = gap > wide ? gap : wide;
            if (gap * gap > best * bend) best = gap * gap / bend, high = k, length = gap / bend;
        }
        if (!(best > T(0)) || !(wide > T(q.tolerance) * first)) return T(0);
        T room = h[high] - floor, change = length < room ? length : room;
        h[high] = length < room ? h[high] - change : floor;
        h[low] += change;
        const T* down = M + high * r;
        for (size_t k = 0; k < r; ++k) g[k] += change * (up[k] - down[k]);
        return wide;
    }
};

template <class T>
inline void simplex(const Simplex& q, size_t begin, size_t end, char* scratch) {
    SimplexColumn<T> column(q, scratch);
    for (size_t j = begin; j < end && !q.stopped(nullptr); ++j) column.run(j);
}

}  // namespace drnmf::DRNMF_ISA_NAME
