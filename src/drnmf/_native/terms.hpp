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
    T *V, *log_v, *Z[5];  // the last for the curvature
};

// Where the terms of each product go. Separate: Z[0] = x/v^2, Z[1] = 1/v, Z[2] = x/v, Z[3] = x (only beside
// beta = 0, where zeros are replaced; X itself otherwise). Weighted: Z[0] = sum of N terms, Z[1] = weight/v.
template <class T, int mask, Mode mode, bool losses>
inline void terms(const Sweep& s, const Tile<T>& t, double* loss) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>, flush = 8;
    constexpr bool logs = losses && (mask & (kIS | kKL));
    constexpr bool inverse = (mask & (kIS | kKL)) != 0;
    const Vec<T> floor = broadcast(T(s.floor)), ceiling = broadcast(T(s.ceiling)), zero = broadcast(T(s.zero));
    const T w0 = T(s.weight[0]), w1 = T(s.weight[1]), w2 = T(s.weight[2]);
    Vec<double> total0{}, total1{}, total2{};
    for (int start = 0; start < t.rows; start += flush) {
        Vec<T> d0{}, d1{}, d2{};
        for (int i = start; i < least(start + flush, t.rows); ++i)
            for (int c = 0; c < t.vectors * L; c += L) {
                ptrdiff_t at = ptrdiff_t(i) * ld + c;
                Vec<T> x = load(t.X + i * t.ldx + c), v = larger<T>(load(t.V + at), floor), inv, q;
                if constexpr ((mask & kIS) != 0) x = x == T(0) ? zero : x;
                if constexpr (inverse) {
                    inv = T(1) / v;
                    q = smaller<T>(x * inv, ceiling);
                }
                if constexpr (mode == Mode::separate) {
                    if constexpr ((mask & kIS) != 0) {
                        store(t.Z[0] + at, smaller<T>(q * inv, ceiling));
                        store(t.Z[1] + at, inv);
                    }
                    if constexpr ((mask & kKL) != 0) store(t.Z[2] + at, q);
                    if constexpr ((mask & kIS) && (mask & kFro)) store(t.Z[3] + at, x);
                } else if constexpr (mode == Mode::weighted) {
                    Vec<T> z{};
                    if constexpr ((mask & kIS) != 0) {
                        z = w0 * smaller<T>(q * inv, ceiling);
                        store(t.Z[1] + at, w0 * inv);
                    }
                    if constexpr ((mask & kKL) != 0) z = z + w1 * q;
                    if constexpr ((mask & kFro) != 0) z = z + w2 * x;
                    store(t.Z[0] + at, z);
                }
                if constexpr (logs) {
                    // With log q = e ln2 + f - g and q = 2^e (1 + f):
                    // IS = q - 1 - log q    = (q - 1 - f) - e ln2 + g
                    // KL = x log q - x + v  = v (q f - (q - 1)) + x (e ln2 - g)
                    // Near q = 1, e = 0 and q - 1 = f exactly: IS = g, KL = v f^2 - x g, both accurate and >= 0.
                    Log<T> log_q = log_pieces<T>(q);
                    Vec<T> rise = q - T(1), shift = log_q.exponent * Float<T>::ln2 - log_q.g;
                    if constexpr ((mask & kIS) != 0) d0 += (rise - log_q.f) - shift;
                    if constexpr ((mask & kKL) != 0) d1 += v * (q * log_q.f - rise) + x * shift;
                }
                if constexpr (losses && (mask & kFro)) {
                    Vec<T> gap = x - v;
                    d2 += gap * gap;
                }
            }
        if constexpr (losses) {
            if constexpr ((mask & kIS) != 0) add_to_double<T>(total0, d0);
            if constexpr ((mask & kKL) != 0) add_to_double<T>(total1, d1);
            if constexpr ((mask & kFro) != 0) add_to_double<T>(total2, d2);
        }
    }
    if constexpr (losses) {
        if constexpr ((mask & kIS) != 0) loss[0] += sum_lanes(total0);
        if constexpr ((mask & kKL) != 0) loss[1] += sum_lanes(total1);
        if constexpr ((mask & kFro) != 0) loss[2] += 0.5 * sum_lanes(total2);
    }
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
