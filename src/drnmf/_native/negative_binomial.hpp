// The same for the negative binomial loss of size a, as losses/negative_binomial.py defines it.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// Z[0] = weight x / v, Z[1] = weight (x + a) / (v + a), or added to what is there.
template <class T>
inline void negative_binomial_terms(const Sweep& s, const Tile<T>& t, double size, double weight, bool add_N,
                                    bool add_P) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    const Vec<T> floor = broadcast(T(s.floor)), ceiling = broadcast(T(s.ceiling)), zero = broadcast(T(s.zero));
    const T a = T(least(size, s.ceiling)), w = T(weight);
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * L; c += L) {
            int at = i * ld + c;
            Vec<T> x = load(t.X + i * t.ldx + c), v = larger<T>(load(t.V + at), floor);
            x = x == T(0) ? zero : x;
            Vec<T> n = w * smaller<T>(x / v, ceiling), p = w * ((x + a) / (v + a));
            store(t.Z[0] + at, add_N ? load(t.Z[0] + at) + n : n);
            store(t.Z[1] + at, add_P ? load(t.Z[1] + at) + p : p);
        }
}

// d = x log q - (x + a) log p, q = x / v, p = (x + a) / (v + a), always in float64. With log(1 + f) = f - g for both,
// x f_q - (x + a) f_p = a f_q f_p: where q and p are near one, the terms of first order cancel on paper. A zero of X
// has a finite log q, so that x log q is 0.
template <class T>
inline double negative_binomial_loss(const Sweep& s, const Tile<T>& t, double a) {
    constexpr int L = kLanes<double>, ld = kTileColumns<T>;
    using D = Vec<double>;
    const D floor = broadcast(double(T(s.floor)));
    D total{};
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * kLanes<T>; c += L) {
            D x = load_double(t.X + i * t.ldx + c), v = larger<double>(load_double(t.V + i * ld + c), floor);
            x = x == 0.0 ? broadcast(s.zero) : x;
            Log<double> q = log_ratio(x, v, x - v), p = log_ratio(x + a, v + a, x - v);
            D near_one = a * q.f * p.f - x * q.g + (x + a) * p.g;
            D d = (q.exponent == 0.0) & (p.exponent == 0.0) ? near_one : x * q.value() - (x + a) * p.value();
            total += larger<double>(d, D{});
        }
    return sum_lanes(total);
}

// The expected second derivative, a / (v (v + a)), from v and 1 / v.
template <class T>
DRNMF_INLINE Vec<T> negative_binomial_curvature(Vec<T> v, Vec<T> inv, T a) {
    return inv * (a / (v + a));
}

}  // namespace drnmf::DRNMF_ISA_NAME
