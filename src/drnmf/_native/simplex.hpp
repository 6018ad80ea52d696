// argmin over h >= floor, sum h = sum f of g'(h - f) + 1/2 (h - f)'M(h - f) in every column, by moves of two entries
// from F, as simplex_steps.py defines it: the first entry of the smallest slope gains, and the one loses that lowers the
// model most. Then, where `last` is given, on from there to beyond what was found, where that is not above F.
//
// A column lies in one piece and is padded to whole vectors: with zeros, which never lose, and infinite slopes, which
// never gain.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// The best of the values offered in a lane and where it was.
template <class T>
struct Best {
    Vec<T> value;
    IntVec<T> where{};

    DRNMF_INLINE void offer(Vec<T> other, IntVec<T> better, size_t at) {
        value = better ? other : value;
        where = better ? IntVec<T>{} + typename IntOf<T>::type(at) : where;
    }
    // The first entry of the largest lanes, without a branch that nobody could predict; the first of all beside a NaN.
    DRNMF_INLINE size_t entry() const {
        using I = typename IntOf<T>::type;
        T best = value[0];
        for (int l = 1; l < kLanes<T>; ++l) best = value[l] > best ? value[l] : best;
        constexpr I none = I(1) << 30;
        I found = none;
        for (int l = 0; l < kLanes<T>; ++l) {
            I at = value[l] == best ? where[l] + I(l) : none;
            found = at < found ? at : found;
        }
        return found < none ? size_t(found) : 0;
    }
};

template <class T>
struct SimplexColumn {
    using V = Vec<T>;
    static constexpr size_t L = kLanes<T>, kColumns = 16;
    static constexpr int kSome = 5;
    const Simplex& q;
    size_t r, padded;
    T *M, *diagonal, *h, *g, *middle;              // padded x padded; padded each
    T *all_F, *all_slopes, *all_out, *all_last;  // kColumns x padded each

    SimplexColumn(const Simplex& step, char* scratch) : q(step), r(step.r), padded(rounded(step.r)) {
        M = reinterpret_cast<T*>(scratch), diagonal = M + padded * padded, h = diagonal + padded, g = h + padded;
        middle = g + padded, all_F = middle + padded;
        size_t size = kColumns * padded;
        all_slopes = all_F + size, all_out = all_slopes + size, all_last = all_out + size;
        memset(scratch, 0, bytes(step));
        if (shared_alone()) fill(0);
    }
    static size_t rounded(size_t r) { return (r + L - 1) / L * L; }
    static size_t bytes(const Simplex& q) {
        return sizeof(T) * rounded(q.r) * (rounded(q.r) + 4 + 4 * kColumns);
    }
    bool shared_alone() const { return q.shared && !q.Q && !q.sizes; }
    T at(const void* base, size_t k, size_t j) const { return static_cast<const T*>(base)[k * q.n + j]; }

    void run(size_t j, size_t columns) {
        fetch(q.F, j, columns, all_F), fetch(q.slope, j, columns, all_slopes);
        if (q.last) fetch(q.last, j, columns, all_last);
        for (size_t c = 0; c < columns; ++c) {
            if (!shared_alone()) fill(j + c);
            const T *F = all_F + c * padded, *given = all_slopes + c * padded;
            memcpy(h, F, padded * sizeof(T));
            if (q.last) slopes(F, given, g);
            else memcpy(g, given, padded * sizeof(T));
            for (size_t k = r; k < padded; ++k) g[k] = T(__builtin_inf());
            descend();
            if (q.last) extrapolate(F, given, static_cast<const T*>(q.totals)[j + c], all_last + c * padded);
            memcpy(all_out + c * padded, h, padded * sizeof(T));
        }
        write(all_out, j, columns, q.out);
        if (q.last) write(all_last, j, columns, q.further);
    }

    void fetch(const void* base, size_t j, size_t columns, T* to) const {
        transpose(static_cast<const T*>(base) + j, ptrdiff_t(q.n), int(r), int(columns), to, ptrdiff_t(padded));
    }
    void write(const T* from, size_t j, size_t columns, void* base) const {
        transpose(from, ptrdiff_t(padded), int(columns), int(r), static_cast<T*>(base) + j, ptrdiff_t(q.n));
    }

    void fill(size_t j) {
        const T* shared = static_cast<const T*>(q.shared);
        for (size_t k = 0; k < r; ++k)
            for (size_t l = 0; l <= k; ++l) {
                T bend = shared ? shared[k * r + l] : T(0);
                if (q.Q) bend += at(q.Q, k * (k + 1) / 2 + l, j);
                if (q.sizes) bend *= at(q.sizes, k, j) * at(q.sizes, l, j);
                M[k * padded + l] = M[l * padded + k] = bend;
            }
        for (size_t k = 0; k < r; ++k) diagonal[k] = M[k * padded + k];
    }

    // M x - N, some vectors of it side by side.
    void slopes(const T* x, const T* N, T* out) const {
        for (size_t i = 0; i < padded; i += kSome * L) slopes_of<kSome>(i, (padded - i) / L, x, N, out);
    }
    template <int Some>
    void slopes_of(size_t i, size_t left, const T* x, const T* N, T* out) const {
        if constexpr (Some > 1) {
            if (left < size_t(Some)) return slopes_of<Some - 1>(i, left, x, N, out);
        }
        V sums[Some];
        each<Some>([&](int v) { sums[v] = -load(N + i + size_t(v) * L); });
        const T* row = M + i;
        for (size_t k = 0; k < r; ++k, row += padded) {
            const V entry = broadcast(x[k]);
            each<Some>([&](int v) { sums[v] += entry * load(row + size_t(v) * L); });
        }
        each<Some>([&](int v) { store(out + i + size_t(v) * L, sums[v]); });
    }

    void descend() {
        T first = T(0);
        for (int move = 0; move < q.moves; ++move) {
            T wide = pair(first);
            if (move == 0) first = wide;
            if (!(wide > T(q.tolerance) * first)) break;
        }
    }

    // The first entry whose slope is the smallest but for `near`. A move leaves two slopes equal: which of them is
    // the smaller is rounding, and must not decide where the column goes. The first of all beside a NaN.
    size_t gaining(T near) const {
        V least = load(g);
        for (size_t i = L; i < padded; i += L) least = smaller<T>(load(g + i), least);
        T limit = least[0];
        for (size_t l = 1; l < L; ++l) limit = least[l] < limit ? least[l] : limit;
        limit += near;
        using I = typename IntOf<T>::type;
        constexpr I none = I(1) << 30;
        IntVec<T> where = IntVec<T>{} + none;
        for (size_t i = padded; i > 0; i -= L)
            where = load(g + i - L) <= broadcast(limit) ? IntVec<T>{} + I(i - L) : where;
        I found = none;
        for (size_t l = 0; l < L; ++l) {
            I at = where[l] + I(l);
            found = at < found ? at : found;
        }
        return found < none ? size_t(found) : 0;
    }

    // One move; returns by how much the slopes differed. Nothing moves where they agree.
    T pair(T first) {
        const V floor = broadcast(T(q.floor)), none{};
        const size_t low = gaining(T(q.tolerance) * first);
        const T* up = M + low * padded;
        const V lowest = broadcast(g[low]), own = broadcast(up[low]);
        Best<T> gain{none};
        V widest{};
        for (size_t i = 0; i < padded; i += L) {
            V bend = load(diagonal + i) + own - T(2) * load(up + i), gap = load(g + i) - lowest;
            auto loses = (load(h + i) > floor) & (bend > T(0));
            V gained = loses ? gap * gap / bend : none;
            widest = larger<T>(loses ? gap : none, widest);
            gain.offer(gained, gained > gain.value, i);
        }
        T wide = T(0);
        for (size_t l = 0; l < L; ++l) wide = widest[l] > wide ? widest[l] : wide;
        const size_t high = gain.entry();
        T gap = g[high] - g[low], bend = diagonal[high] + up[low] - T(2) * up[high], room = h[high] - T(q.floor);
        if (!(gap > T(0) && bend > T(0) && room > T(0) && wide > T(q.tolerance) * first)) return T(0);
        const T* down = M + high * padded;
        T length = gap / bend, change = length < room ? length : room;
        h[high] = length < room ? h[high] - change : T(q.floor);
        h[low] += change;
        for (size_t i = 0; i < padded; i += L)
            store(g + i, load(g + i) + broadcast(change) * (load(up + i) - load(down + i)));
        return wide;
    }

    // Scales x to a sum, entries at least the floor.
    void normalise(T* x, T total) const {
        const V floor = broadcast(T(q.floor));
        V sums{};
        auto clip = [&] {
            for (size_t i = 0; i < padded; i += L) store(x + i, larger<T>(load(x + i), floor));
            for (size_t k = r; k < padded; ++k) x[k] = T(0);
        };
        clip();
        for (size_t i = 0; i < padded; i += L) sums += load(x + i);
        T sum = T(0);
        for (size_t l = 0; l < L; ++l) sum += sums[l];
        const V scale = broadcast(total / sum);
        for (size_t i = 0; i < padded; i += L) store(x + i, load(x + i) * scale);
        clip();
    }

    // last = h + pace (h - last) where that is not above F: with d = last - F the loss rises by
    // d'(M (F + last) / 2 - N). h itself elsewhere.
    void extrapolate(const T* F, const T* N, T total, T* last) {
        normalise(h, total);
        if (q.pace == 0.0) {
            memcpy(last, h, padded * sizeof(T));
            return;
        }
        const V pace = broadcast(T(q.pace));
        for (size_t i = 0; i < padded; i += L) store(last + i, load(h + i) + pace * (load(h + i) - load(last + i)));
        normalise(last, total);
        for (size_t i = 0; i < padded; i += L) store(middle + i, T(0.5) * (load(F + i) + load(last + i)));
        slopes(middle, N, g);
        V rises{};
        for (size_t i = 0; i < padded; i += L) rises += (load(last + i) - load(F + i)) * load(g + i);
        T rise = T(0);
        for (size_t l = 0; l < L; ++l) rise += rises[l];
        if (!(rise <= T(0))) memcpy(last, h, padded * sizeof(T));
    }
};

template <class T>
inline void simplex(const Simplex& q, size_t begin, size_t end, char* scratch) {
    SimplexColumn<T> column(q, scratch);
    constexpr size_t some = SimplexColumn<T>::kColumns;
    for (size_t j = begin; j < end && !q.stopped(nullptr); j += some) column.run(j, least(some, end - j));
}

}  // namespace drnmf::DRNMF_ISA_NAME
