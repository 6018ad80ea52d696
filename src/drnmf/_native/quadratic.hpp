// The box-constrained quadratic model of every column, as newton.py defines it: one lane per column.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// Columns begin ... end (at most one vector): gathered into scratch, lanes beyond the end repeat a harmless column.
template <class T>
struct ColumnBlock {
    static constexpr size_t L = kLanes<T>;
    const Quadratic& q;
    size_t begin, count;
    T *Q, *slope, *H, *F, *multiplicative;

    ColumnBlock(const Quadratic& quadratic, size_t first, size_t end, char* scratch) : q(quadratic), begin(first) {
        count = least(L, end - first);
        T* p = reinterpret_cast<T*>(scratch);
        // the driver makes room for pair_count(r) + 4 r vectors
        Q = p, slope = Q + pair_count(q.r) * L, H = slope + q.r * L, F = H + q.r * L, multiplicative = F + q.r * L;
    }

    Vec<T> row(const void* base, size_t k) const {
        const T* from = static_cast<const T*>(base) + k * q.n + begin;
        if (count == L) return load(from);
        T lanes[L];
        for (size_t l = 0; l < L; ++l) lanes[l] = l < count ? from[l] : T(1);
        return load(lanes);
    }
    const T* pair(size_t k, size_t l) const { return Q + (k >= l ? k * (k + 1) / 2 + l : l * (l + 1) / 2 + k) * L; }

    void run() {
        const Vec<T> floor = broadcast(T(q.floor)), largest = broadcast(T(__builtin_inf()));
        const T* shared = static_cast<const T*>(q.shared);
        for (size_t k = 0; k < pair_count(q.r); ++k) {
            Vec<T> bend = row(q.Q, k);
            store(Q + k * L, shared ? bend + shared[k] : bend);
        }
        Vec<T> model{}, wanted{};
        for (size_t k = 0; k < q.r; ++k) {
            Vec<T> f = row(q.F, k), n = row(q.N, k), p = row(q.P, k);
            store(F + k * L, f), store(H + k * L, f), store(slope + k * L, p - n);
            Vec<T> ratio = n / p;
            const Vec<T> factor = ((p == T(0)) | (ratio == largest)) ? broadcast(T(1)) : ratio;
            store(multiplicative + k * L, larger<T>(f * factor, floor));
            wanted += f * p;
        }
        for (size_t k = 0; k < q.r; ++k) {
            Vec<T> product{};
            for (size_t l = 0; l < q.r; ++l) product += load(pair(k, l)) * load(F + l * L);
            model += load(F + k * L) * product;
        }
        // lambda may have moved since the sweep that made Q: F'QF = F'P holds again after this, where it ever does
        Vec<T> scale = q.scale > 0 ? broadcast(T(q.scale)) : model / wanted;
        for (size_t k = 0; k < q.r; ++k) store(slope + k * L, load(slope + k * L) * scale);
        for (int pass = 0; pass < q.passes; ++pass)
            for (size_t k = 0; k < q.r; ++k) descend(k, floor);
        auto good = (scale > T(0)) & (scale < T(q.largest));
        for (size_t k = 0; k < q.r; ++k) {
            Vec<T> h = load(H + k * L), step = good ? h : load(multiplicative + k * L);
            write(k, h == h ? step : load(multiplicative + k * L));
        }
    }

    void descend(size_t k, Vec<T> floor) {
        Vec<T> bend = load(pair(k, k)), h = load(H + k * L);
        Vec<T> moved = larger<T>(h - load(slope + k * L) / bend, floor);
        moved = bend > T(0) ? moved : h;
        Vec<T> change = moved - h;
        store(H + k * L, moved);
        for (size_t l = 0; l < q.r; ++l) store(slope + l * L, load(slope + l * L) + load(pair(k, l)) * change);
    }

    void write(size_t k, Vec<T> value) {
        T* to = static_cast<T*>(q.out) + k * q.n + begin;
        if (count == L) return store(to, value);
        T lanes[L];
        store(lanes, value);
        memcpy(to, lanes, count * sizeof(T));
    }
};

template <class T>
inline void quadratic(const Quadratic& q, size_t begin, size_t end, char* scratch) {
    for (size_t j = begin; j < end && !q.stopped(nullptr); j += kLanes<T>) ColumnBlock<T>(q, j, end, scratch).run();
}

}  // namespace drnmf::DRNMF_ISA_NAME
