// What happens to one entry: from x and v to the terms of N and P and to the losses, for beta in {0, 1, 2}.
// Compiled once per subset of {0, 1, 2}, so an entry pays for nothing that was not asked for.
#pragma once

#include "kernels.hpp"
#include "vmath.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
constexpr int kTileColumns = kTileRowBytes / int(sizeof(T));

// A tile of X and the buffers beside it; each buffer is kTileRows x kTileColumns.
template <class T>
struct Tile {
    int rows, vectors;
    const T* X;
    ptrdiff_t ldx;
    T scale = T(1);           // what entries of X are multiplied by as they are loaded
    T *V, *log_v, *M, *Z[6];  // M: weights of the entries, null without; Z[4] for the curvature
};

// Where the terms of each product go. Separate: Z[0] = x/v^2, Z[1] = 1/v, Z[2] = x/v, Z[3] = x (only beside
// beta = 0, where zeros are replaced; X itself otherwise). Weighted: Z[0] = sum of N terms, Z[1] = weight/v.
// With weights m of the entries all of them times m, P of every loss among them: Z[5] = m v, and m itself for beta = 1.
template <class T, int mask, Mode mode, bool losses, bool observed>
struct Entries {
    static constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    static constexpr bool is = (mask & kIS) != 0, kl = (mask & kKL) != 0, frobenius = (mask & kFro) != 0;
    const Tile<T>& t;
    const Vec<T> scale, floor, ceiling, zero;
    const bool replace;  // zeros, where there are any
    const T w0, w1, w2;
    Vec<T> d0{}, d1{}, d2{};

    Entries(const Sweep& s, const Tile<T>& tile)
        : t(tile), scale(broadcast(tile.scale)), floor(broadcast(T(s.floor))), ceiling(broadcast(T(s.ceiling))),
          zero(broadcast(T(s.zero))), replace(s.zero > 0.0), w0(T(s.weight[0])), w1(T(s.weight[1])),
          w2(T(s.weight[2])) {}

    // U vectors of row i from column c on.
    template <int U>
    DRNMF_INLINE void run(int i, int c) {
        ptrdiff_t at = ptrdiff_t(i) * ld + c;
        const T *X = t.X + i * t.ldx + c, *V = t.V + at;
        Vec<T> x[U], v[U], inv[U], q[U], m[U];
        if constexpr (observed) each<U>([&](int u) { m[u] = load(t.M + at + u * L); });
        each<U>([&](int u) { x[u] = load(X + u * L) * scale, v[u] = larger<T>(load(V + u * L), floor); });
        if constexpr (is)
            if (replace) each<U>([&](int u) { x[u] = x[u] == T(0) ? zero : x[u]; });
        if constexpr (is || kl) {
            each<U>([&](int u) { inv[u] = T(1) / v[u]; });
            each<U>([&](int u) { q[u] = smaller<T>(x[u] * inv[u], ceiling); });
        }
        if constexpr (observed) each<U>([&](int u) { put_weighed(at + u * L, x[u], v[u], inv[u], q[u], m[u]); });
        else each<U>([&](int u) { put(at + u * L, x[u], inv[u], q[u]); });
        if constexpr (losses && (is || kl)) logs<U>(x, v, q, m);
        if constexpr (losses && frobenius) each<U>([&](int u) { d2 += weighed((x[u] - v[u]) * (x[u] - v[u]), m[u]); });
    }

    static DRNMF_INLINE Vec<T> weighed(Vec<T> d, Vec<T> m) {
        if constexpr (observed) return m * d;
        else return d;
    }

    DRNMF_INLINE void put_weighed(ptrdiff_t at, Vec<T> x, Vec<T> v, Vec<T> inv, Vec<T> q, Vec<T> m) const {
        if constexpr (mode == Mode::separate) {
            if constexpr (is) {
                store(t.Z[0] + at, m * smaller<T>(q * inv, ceiling));
                store(t.Z[1] + at, m * inv);
            }
            if constexpr (kl) store(t.Z[2] + at, m * q);
            if constexpr (frobenius) store(t.Z[3] + at, m * x), store(t.Z[5] + at, m * v);
        } else if constexpr (mode == Mode::weighted) {
            Vec<T> n{}, p{};
            if constexpr (is) n = w0 * smaller<T>(q * inv, ceiling), p = w0 * inv;
            if constexpr (kl) n = n + w1 * q, p = p + w1;
            if constexpr (frobenius) n = n + w2 * x, p = p + w2 * v;
            store(t.Z[0] + at, m * n), store(t.Z[1] + at, m * p);
        }
    }

    DRNMF_INLINE void put(ptrdiff_t at, Vec<T> x, Vec<T> inv, Vec<T> q) const {
        if constexpr (mode == Mode::separate) {
            if constexpr (is) {
                store(t.Z[0] + at, smaller<T>(q * inv, ceiling));
                store(t.Z[1] + at, inv);
            }
            if constexpr (kl) store(t.Z[2] + at, q);
            if constexpr (is && frobenius) store(t.Z[3] + at, x);
        } else if constexpr (mode == Mode::weighted) {
            Vec<T> z{};
            if constexpr (is) {
                z = w0 * smaller<T>(q * inv, ceiling);
                store(t.Z[1] + at, w0 * inv);
            }
            if constexpr (kl) z = z + w1 * q;
            if constexpr (frobenius) z = z + w2 * x;
            store(t.Z[0] + at, z);
        }
    }

    // With log q = e ln2 + f - g and q = 2^e (1 + f):
    // IS = q - 1 - log q    = (q - 1 - f) - e ln2 + g
    // KL = x log q - x + v  = v (q f - (q - 1)) + x (e ln2 - g)
    // Near q = 1, e = 0 and q - 1 = f exactly: IS = g, KL = v f^2 - x g, both accurate and >= 0.
    template <int U>
    DRNMF_INLINE void logs(const Vec<T>* x, const Vec<T>* v, const Vec<T>* q, const Vec<T>* m) {
        Vec<T> exponent[U], f[U], g[U], rise[U], shift[U];
        each<U>([&](int u) { split<T>(q[u], exponent[u], f[u]); });
        small_log_gaps<T, U>(f, g);
        each<U>([&](int u) { rise[u] = q[u] - T(1), shift[u] = exponent[u] * Float<T>::ln2 - g[u]; });
        if constexpr (is) each<U>([&](int u) { d0 += weighed((rise[u] - f[u]) - shift[u], m[u]); });
        if constexpr (kl)
            each<U>([&](int u) { d1 += weighed(v[u] * (q[u] * f[u] - rise[u]) + x[u] * shift[u], m[u]); });
    }
};

// A function per U: both in one would share the registers that hold the constants.
template <class T, int mask, Mode mode, bool losses, bool observed, int U>
inline __attribute__((noinline)) void terms_side_by_side(const Sweep& s, const Tile<T>& t, double* loss) {
    constexpr int L = kLanes<T>, flush = 8;
    Vec<double> total0{}, total1{}, total2{};
    Entries<T, mask, mode, losses, observed> entries(s, t);
    for (int start = 0; start < t.rows; start += flush) {
        entries.d0 = entries.d1 = entries.d2 = Vec<T>{};
        for (int i = start; i < least(start + flush, t.rows); ++i)
            for (int c = 0; c < t.vectors * L; c += U * L) entries.template run<U>(i, c);
        if constexpr (losses) {
            if constexpr ((mask & kIS) != 0) add_to_double<T>(total0, entries.d0);
            if constexpr ((mask & kKL) != 0) add_to_double<T>(total1, entries.d1);
            if constexpr ((mask & kFro) != 0) add_to_double<T>(total2, entries.d2);
        }
    }
    if constexpr (losses) {
        if constexpr ((mask & kIS) != 0) loss[0] += sum_lanes(total0);
        if constexpr ((mask & kKL) != 0) loss[1] += sum_lanes(total1);
        if constexpr ((mask & kFro) != 0) loss[2] += 0.5 * sum_lanes(total2);
    }
}

template <class T, int mask, Mode mode, bool losses>
inline void terms(const Sweep& s, const Tile<T>& t, double* loss) {
    if (t.M) terms_side_by_side<T, mask, mode, losses, true, 1>(s, t, loss);
    else if (t.vectors % kSideBySide<T>) terms_side_by_side<T, mask, mode, losses, false, 1>(s, t, loss);
    else terms_side_by_side<T, mask, mode, losses, false, kSideBySide<T>>(s, t, loss);
}

template <class T>
using Terms = void (*)(const Sweep&, const Tile<T>&, double*);

template <class T, int mask>
inline Terms<T> choose_terms(Mode mode, bool losses) {
    if (mode == Mode::none) return losses ? terms<T, mask, Mode::none, true> : nullptr;
    if (mode == Mode::separate)
        return losses ? terms<T, mask, Mode::separate, true> : terms<T, mask, Mode::separate, false>;
    return losses ? terms<T, mask, Mode::weighted, true> : terms<T, mask, Mode::weighted, false>;
}

template <class T>
inline Terms<T> choose_terms(int mask, Mode mode, bool losses) {
    switch (mask) {
        case 1: return choose_terms<T, 1>(mode, losses);
        case 2: return choose_terms<T, 2>(mode, losses);
        case 3: return choose_terms<T, 3>(mode, losses);
        case 4: return choose_terms<T, 4>(mode, losses);
        case 5: return choose_terms<T, 5>(mode, losses);
        case 6: return choose_terms<T, 6>(mode, losses);
        case 7: return choose_terms<T, 7>(mode, losses);
        default: return nullptr;
    }
}

}  // namespace drnmf::DRNMF_ISA_NAME
