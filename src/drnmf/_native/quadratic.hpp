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
    T *Q, *slope, *H, *F, *multiplicative, *change;

    ColumnBlock(const Quadratic& quadratic, size_t first, size_t end, char* scratch) : q(quadratic), begin(first) {
        count = least(L, end - first);
        T* p = reinterpret_cast<T*>(scratch);
        // the driver makes room for pair_count(r) + 5 r vectors
        Q = p, slope = Q + pair_count(q.r) * L, H = slope + q.r * L, F = H + q.r * L, multiplicative = F + q.r * L;
        change = multiplicative + q.r * L;
    }

    Vec<T> row(const void* base, size_t k) const {
        const T* from = static_cast<const T*>(base) + k * q.n + begin;
        if (count == L) return load(from);
        T lanes[L];
        for (size_t l = 0; l < L; ++l) lanes[l] = l < count ? from[l] : T(1);
        return load(lanes);
    }

    // Row k of Q times the first `count` entries of x; four sums, so that none waits for the one before it.
    Vec<T> product(size_t k, const T* x, size_t count) const {
        Vec<T> sum[4] = {};
        const T* row = Q + k * (k + 1) / 2 * L;
        size_t before = least(count, k + 1), l = 0;
        for (; l + 4 <= before; l += 4)
            each<4>([&](int i) { sum[i] += load(row + (l + size_t(i)) * L) * load(x + (l + size_t(i)) * L); });
        for (; l < before; ++l) sum[0] += load(row + l * L) * load(x + l * L);
        const T* below = Q + (l * (l + 1) / 2 + k) * L;  // of row l > k, which is as long as l + 1
        for (; l + 2 <= count; l += 2) {
            sum[1] += load(below) * load(x + l * L), below += (l + 1) * L;
            sum[2] += load(below) * load(x + (l + 1) * L), below += (l + 2) * L;
        }
        if (l < count) sum[3] += load(below) * load(x + l * L);
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }

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
        for (size_t k = 0; k < q.r; ++k) model += load(F + k * L) * product(k, F, q.r);
        // lambda may have moved since the sweep that made Q: F'QF = F'P holds again after this, where it ever does
        Vec<T> scale = q.scale > 0 ? broadcast(T(q.scale)) : model / wanted;
        for (size_t k = 0; k < q.r; ++k) store(slope + k * L, load(slope + k * L) * scale);
        for (int pass = 0; pass < q.passes; ++pass)
            for (size_t k = 0; k < q.r; ++k) descend(k, pass ? q.r : k, floor);
        auto good = (scale > T(0)) & (scale < T(q.largest));
        for (size_t k = 0; k < q.r; ++k) {
            Vec<T> h = load(H + k * L), step = good ? h : load(multiplicative + k * L);
            write(k, h == h ? step : load(multiplicative + k * L));
        }
    }

    // The slope of component k at H is made anew, from that at F and what has changed since, of which the first
    // `count` entries are not zero: kept up to date, the slopes of all components would be stored again for each.
    void descend(size_t k, size_t count, Vec<T> floor) {
        Vec<T> bend = load(Q + (k * (k + 1) / 2 + k) * L), h = load(H + k * L);
        Vec<T> moved = larger<T>(h - (load(slope + k * L) + product(k, change, count)) / bend, floor);
        moved = bend > T(0) ? moved : h;
        store(H + k * L, moved), store(change + k * L, moved - load(F + k * L));
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
