// The same for the negative binomial loss of size a, as losses/negative_binomial.py defines it.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// Bounds of a and v in units of the mean of X: products and ratios stay in the range of T, and little changes beyond.
template <class T>
constexpr T kLargestSize = sizeof(T) == 4 ? T(1e15) : T(1e100);

template <class T>
DRNMF_INLINE Vec<T> size_within_range(double a) {
    constexpr double smallest = sizeof(T) == 4 ? 1e-20 : 1e-100;
    return broadcast(T(a < smallest ? smallest : least(a, double(kLargestSize<T>))));
}

// Terms and loss of the entries, in one pass.
// Terms: Z[0] = weight x / v, Z[1] = weight (x + a) / (v + a), or added to what is there.
// Loss: d = x log A - a log B, A = x (v + a) / (v (x + a)), B = (x + a) / (v + a). With log A = 2 s_A + ... as
// `LogRatios` has it, x s_A - a s_B = (x + a) s_A s_B where both powers are one, and there is no cancellation.
template <class T, bool terms, bool losses, bool observed>
struct NegativeBinomialEntries {
    static constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    const Tile<T>& t;
    const Vec<T> scale, floor, ceiling, zero, a;
    const bool replace, add_N, add_P;
    const T weight;
    Vec<T> sum{};

    NegativeBinomialEntries(const Sweep& s, const Tile<T>& tile, double size, double w, bool to_N, bool to_P)
        : t(tile), scale(broadcast(tile.scale)), floor(broadcast(T(s.floor))), ceiling(broadcast(T(s.ceiling))),
          zero(broadcast(T(s.zero))), a(size_within_range<T>(size)), replace(s.zero > 0.0), add_N(to_N), add_P(to_P),
          weight(T(w)) {}

    // U vectors of row i from column c on.
    template <int U>
    DRNMF_INLINE void run(int i, int c) {
        const ptrdiff_t at = ptrdiff_t(i) * ld + c;
        const T *X = t.X + i * t.ldx + c, *V = t.V + at;
        const Vec<T> largest = broadcast(kLargestSize<T>);
        Vec<T> x[U], v[U], xa[U], va[U];
        each<U>([&](int u) {
            x[u] = load(X + u * L) * scale, v[u] = smaller<T>(larger<T>(load(V + u * L), floor), largest);
        });
        if (replace) each<U>([&](int u) { x[u] = x[u] == T(0) ? zero : x[u]; });
        each<U>([&](int u) { xa[u] = x[u] + a, va[u] = v[u] + a; });
        if constexpr (terms)
            each<U>([&](int u) { put(at + u * L, smaller<T>(x[u] / v[u], ceiling), xa[u] / va[u]); });
        if constexpr (losses) add_losses<U>(at, x, v, xa, va);
    }

    DRNMF_INLINE void put(ptrdiff_t at, Vec<T> n, Vec<T> p) const {
        n *= weight, p *= weight;
        if constexpr (observed) n *= load(t.M + at), p *= load(t.M + at);
        store(t.Z[0] + at, add_N ? load(t.Z[0] + at) + n : n);
        store(t.Z[1] + at, add_P ? load(t.Z[1] + at) + p : p);
    }

    template <int U>
    DRNMF_INLINE void add_losses(ptrdiff_t at, const Vec<T>* x, const Vec<T>* v, const Vec<T>* xa, const Vec<T>* va) {
        const Vec<T> above_zero = broadcast(sizeof(T) == 4 ? T(1e-20) : T(1e-100));  // so that 0 log 0 = 0
        Vec<T> top[2 * U], bottom[2 * U], rise[2 * U];  // of A, then of B
        each<U>([&](int u) {
            top[u] = larger<T>(x[u], above_zero) * va[u], bottom[u] = v[u] * xa[u];
            top[U + u] = xa[u], bottom[U + u] = va[u];
            rise[U + u] = x[u] - v[u], rise[u] = a * rise[U + u];
        });
        const LogRatios<T, 2 * U> log(top, bottom, rise);
        each<U>([&](int u) {
            const auto near_one = (log.power[u] == T(1)) & (log.power[U + u] == T(1));
            Vec<T> d = near_one ? xa[u] * log.s[u] * log.s[U + u] : x[u] * log.s[u] - a * log.s[U + u];
            d = larger<T>(T(2) * d + (x[u] * log.rest[u] - a * log.rest[U + u]), Vec<T>{});
            if constexpr (observed) d *= load(t.M + at + u * L);
            sum += d;
        });
    }
};

template <class T, bool terms, bool losses, bool observed, int U>
inline __attribute__((noinline)) double negative_binomial_side_by_side(const Sweep& s, const Tile<T>& t, double size,
                                                                       double weight, bool add_N, bool add_P) {
    constexpr int L = kLanes<T>, flush = 8;
    NegativeBinomialEntries<T, terms, losses, observed> entries(s, t, size, weight, add_N, add_P);
    Vec<double> total{};
    for (int start = 0; start < t.rows; start += flush) {
        entries.sum = Vec<T>{};
        for (int i = start; i < least(start + flush, t.rows); ++i)
            for (int c = 0; c < t.vectors * L; c += U * L) entries.template run<U>(i, c);
        if constexpr (losses) add_to_double<T>(total, entries.sum);
    }
    return sum_lanes(total);
}

// The loss, where it is wanted, and the terms beside it.
template <class T, bool terms, bool losses>
inline double negative_binomial(const Sweep& s, const Tile<T>& t, double size, double weight, bool add_N, bool add_P) {
    constexpr int U = kVectorBytes == 64 ? 3 : 2;  // two logs each: as many as there are registers for
    auto* run = t.M             ? negative_binomial_side_by_side<T, terms, losses, true, 1>
                : t.vectors % U ? negative_binomial_side_by_side<T, terms, losses, false, 1>
                                : negative_binomial_side_by_side<T, terms, losses, false, U>;
    return run(s, t, size, weight, add_N, add_P);
}

// The expected second derivative, a / (v (v + a)).
template <class T>
DRNMF_INLINE Vec<T> negative_binomial_curvature(Vec<T> v, double size) {
    const Vec<T> a = size_within_range<T>(size);
    v = smaller<T>(v, broadcast(kLargestSize<T>));
    return a / (v * (v + a));
}

}  // namespace drnmf::DRNMF_ISA_NAME
