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

// d = x log A - a log B, A = x (v + a) / (v (x + a)), B = (x + a) / (v + a). With log A = 2 s_A + ... as `LogRatio` has
// it, x s_A - a s_B = (x + a) s_A s_B where neither has an exponent, and there is no cancellation. Tops and bottoms are
// divided by 1 + a and, where v is small, multiplied by a power of two, so that none leaves the range of T.
template <class T>
inline double negative_binomial_loss(const Sweep& s, const Tile<T>& t, double size) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    constexpr bool single = sizeof(T) == 4;
    constexpr T most = single ? T(1e15) : T(1e100), lift = single ? T(0x1p40) : T(0x1p200);
    const double a = -least(-least(size, double(most)), single ? -1e-30 : -1e-300);
    const Vec<T> floor = broadcast(T(s.floor)), zero = broadcast(T(s.zero)), none{}, one = broadcast(T(1));
    const Vec<T> A = broadcast(T(a)), c = broadcast(T(1.0 / (1.0 + a))), b = broadcast(T(a / (1.0 + a)));
    Vec<double> total{};
    for (int i = 0; i < t.rows; ++i) {
        Vec<T> sum{};
        for (int j = 0; j < t.vectors * L; j += L) {
            Vec<T> x = smaller<T>(load(t.X + i * t.ldx + j) * t.scale, broadcast(most));
            Vec<T> v = smaller<T>(larger<T>(load(t.V + i * ld + j), floor), broadcast(most));
            x = x == T(0) ? zero : x;
            Vec<T> rise = x - v, xa = c * x + b, va = c * v + b, up = v < one ? broadcast(lift) : one;
            Vec<T> bottom = up * v * xa, top = x == T(0) ? bottom : up * x * va;  // 0 log 0 = 0
            LogRatio<T> la(top, bottom, up * b * rise), lb(xa, va, c * rise);
            auto near_one = (la.exponent == T(0)) & (lb.exponent == T(0)) & (x > T(0));
            Vec<T> d = near_one ? T(2) * (x + A) * la.s * lb.s : x * la.without_rest() - A * lb.without_rest();
            d = larger<T>(d + (x * la.rest - A * lb.rest), none);
            sum += t.M ? d * load(t.M + i * ld + j) : d;
        }
        add_to_double<T>(total, sum);
    }
    return sum_lanes(total);
}

// The expected second derivative, a / (v (v + a)).
template <class T>
DRNMF_INLINE Vec<T> negative_binomial_curvature(Vec<T> v, T inv_a) {
    return T(1) / (v + v * (v * inv_a));
}

}  // namespace drnmf::DRNMF_ISA_NAME
