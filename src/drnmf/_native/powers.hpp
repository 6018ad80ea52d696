// The same for any other beta: one log of v per entry, shared by all of them, and one exp per entry and beta. Half way
// between two of {0, 1, 2} a square root serves instead.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
inline void log_model(const Sweep& s, const Tile<T>& t) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    const Vec<T> floor = broadcast(T(s.floor));
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * L; c += L) {
            Vec<T> v = larger<T>(load(t.V + i * ld + c), floor);
            store(t.log_v + i * ld + c, log<T>(v));
        }
}

// v^(b-2), from log v where b is not half way.
template <class T>
DRNMF_INLINE Vec<T> power(Vec<T> v, const T* log_v, double beta) {
    if (!half_way(beta)) return exp<T>(load(log_v) * T(beta - 2.0));
    Vec<T> inv = T(1) / v, root = square_root<T>(inv);
    return beta < 1.0 ? root * inv : root;
}

// Z[0] = weight x v^(b-2), Z[1] = weight v^(b-1), or added to what is there.
template <class T>
inline void power_terms(const Sweep& s, const Tile<T>& t, double beta, double weight, bool add_N, bool add_P) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    const Vec<T> floor = broadcast(T(s.floor)), ceiling = broadcast(T(s.ceiling)), zero = broadcast(T(s.zero));
    const T w = T(weight);
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * L; c += L) {
            int at = i * ld + c;
            Vec<T> x = load(t.X + i * t.ldx + c) * t.scale, v = larger<T>(load(t.V + at), floor);
            x = x == T(0) ? zero : x;
            Vec<T> p = power<T>(v, t.log_v + at, beta);
            Vec<T> n = w * smaller<T>(p * x, ceiling);
            p = w * smaller<T>(p * v, ceiling);
            if (t.M) n *= load(t.M + at), p *= load(t.M + at);
            store(t.Z[0] + at, add_N ? load(t.Z[0] + at) + n : n);
            store(t.Z[1] + at, add_P ? load(t.Z[1] + at) + p : p);
        }
}

// d_1/2 = 2 (a - c)^2 / c and d_3/2 = 2/3 (a - c)^2 (2 a + c) with a = sqrt(x), c = sqrt(v), in float64; a - c is
// (x - v) / (a + c), without a cancellation.
template <class T>
inline double half_way_loss(const Sweep& s, const Tile<T>& t, double b) {
    constexpr int L = kLanes<double>, ld = kTileColumns<T>;
    using D = Vec<double>;
    const D floor = broadcast(double(T(s.floor))), scale = broadcast(double(t.scale));
    D total{};
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * kLanes<T>; c += L) {
            D x = load_double(t.X + i * t.ldx + c) * scale, v = larger<double>(load_double(t.V + i * ld + c), floor);
            x = x == 0.0 ? broadcast(s.zero) : x;
            D a = square_root<double>(x), root = square_root<double>(v), gap = (x - v) / (a + root);
            D d = gap * gap * (b < 1.0 ? 2.0 / root : (2.0 * a + root) * (2.0 / 3.0));
            total += t.M ? d * load_double(t.M + i * ld + c) : d;
        }
    return sum_lanes(total);
}

// d_b = x^b [E(b) - E(b-1)], E(s) = expm1(s l)/s, l = log(v/x): continuous in beta, summed as its series in l near
// l = 0 where both terms agree. For v well above x the factor v^b is taken out instead, against overflow:
// d_b = v^b [E(-b) - (x/v) E(1-b)]. A zero of X costs v^b / b. Always in float64: the loss decides the weights.
template <class T>
inline double power_loss(const Sweep& s, const Tile<T>& t, double b) {
    if (half_way(b)) return half_way_loss(s, t, b);
    constexpr int L = kLanes<double>, ld = kTileColumns<T>;
    using D = Vec<double>;
    const D floor = broadcast(double(T(s.floor))), scale = broadcast(double(t.scale));
    double series[7], up = b, down = b - 1.0, factorial = 2.0;
    for (int k = 2; k <= 8; ++k) {
        series[k - 2] = (up - down) / factorial;
        up *= b, down *= b - 1.0, factorial *= k + 1;
    }
    const double radius = 1e-2 / (b > 1.0 ? b : 1.0);  // as in losses/beta.py, where the series is derived
    D total{};
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * kLanes<T>; c += L) {
            D x = load_double(t.X + i * t.ldx + c) * scale, v = larger<double>(load_double(t.V + i * ld + c), floor);
            x = x == 0.0 ? broadcast(s.zero) : x;
            D x1 = x > 0.0 ? x : v;
            D l = log_ratio(v / x1, (v - x1) / x1).value();  // v - x is exact where the two are close
            auto far = l > 1.0;
            D s1 = far ? broadcast(-b) : broadcast(b), s2 = far ? broadcast(1.0 - b) : broadcast(b - 1.0);
            D first = expm1<double>(s1 * l) / s1, second = expm1<double>(s2 * l) / s2;
            second = far ? second * (x1 / v) : second;
            D power = exp<double>(log<double>(far ? v : x1) * b);
            D near_one = l * l * polynomial<double>(series, l);
            D d = ((l < radius) & (l > -radius)) ? near_one : first - second;
            d = x > 0.0 ? larger<double>(power * d, D{}) : power / b;
            total += t.M ? d * load_double(t.M + i * ld + c) : d;
        }
    return sum_lanes(total);
}

// v^(b-2), or the second derivative where d_b is convex in v.
template <class T>
DRNMF_INLINE Vec<T> power_curvature(Vec<T> x, Vec<T> v, const T* log_v, double beta) {
    Vec<T> p = power<T>(v, log_v, beta);
    if (beta > 1.0 && beta < 2.0) p = T(beta - 1.0) * p + T(2.0 - beta) * (x * (T(1) / v)) * p;
    return p;
}

}  // namespace drnmf::DRNMF_ISA_NAME
