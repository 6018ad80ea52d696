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
            Vec<T> x = load(t.X + i * t.ldx + c) * t.scale, v = larger<T>(load(t.V + at), floor);
            x = x == T(0) ? zero : x;
            Vec<T> n = w * smaller<T>(x / v, ceiling), p = w * ((x + a) / (v + a));
            if (t.M) n *= load(t.M + at), p *= load(t.M + at);
            store(t.Z[0] + at, add_N ? load(t.Z[0] + at) + n : n);
            store(t.Z[1] + at, add_P ? load(t.Z[1] + at) + p : p);
        }
}

// d = x log(1 + s) - a log(1 + f), s = a (x - v) / (v (x + a)), f = (x - v) / (v + a), always in float64. With g the
// gap of a logarithm, x s - a f = a s f, so where both are small d = a s f - x g_s + a g_f, without a cancellation. A
// zero of X has a finite logarithm here, so that x log(1 + s) is 0.
template <class T>
inline double negative_binomial_loss(const Sweep& s, const Tile<T>& t, double a) {
    constexpr int L = kLanes<double>, ld = kTileColumns<T>;
    using D = Vec<double>;
    const D floor = broadcast(double(T(s.floor))), scale = broadcast(double(t.scale));
    D total{};
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * kLanes<T>; c += L) {
            D x = load_double(t.X + i * t.ldx + c) * scale, v = larger<double>(load_double(t.V + i * ld + c), floor);
            x = x == 0.0 ? broadcast(s.zero) : x;
            D inv_v = 1.0 / v, inv_va = 1.0 / (v + a), inv_xa = 1.0 / (x + a), rise = x - v;
            Log<double> s1 = log_ratio(x * inv_v * ((v + a) * inv_xa), rise * inv_v * (a * inv_xa));
            Log<double> f1 = log_ratio((x + a) * inv_va, rise * inv_va);
            D near_one = a * s1.f * f1.f - x * s1.g + a * f1.g;
            D d = ((s1.exponent == 0.0) & (f1.exponent == 0.0)) ? near_one : x * s1.value() - a * f1.value();
            d = larger<double>(d, D{});
            total += t.M ? d * load_double(t.M + i * ld + c) : d;
        }
    return sum_lanes(total);
}

// The expected second derivative, a / (v (v + a)), from v and 1 / v.
template <class T>
DRNMF_INLINE Vec<T> negative_binomial_curvature(Vec<T> v, Vec<T> inv, T a) {
    return inv * (a / (v + a));
}

}  // namespace drnmf::DRNMF_ISA_NAME
