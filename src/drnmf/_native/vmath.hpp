// log, exp and expm1 of a vector. Polynomials are Chebyshev interpolants; the measured errors stand in
// docs/development/performance.md and are checked by tests/backends/test_isa.py.
#pragma once

#include "simd.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
struct Float;
template <>
struct Float<float> {
    static constexpr int mantissa = 23;
    static constexpr int32_t sqrt_half = 0x3f3504f3;  // bits of sqrt(1/2)
    static constexpr int32_t bias = 127;
    static constexpr float round = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    static constexpr float ln2 = 0.6931471806f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static constexpr float log2e = 1.442695041f;
    static constexpr float lowest_power = -87.0f, highest_power = 88.0f;
};
template <>
struct Float<double> {
    static constexpr int mantissa = 52;
    static constexpr int64_t sqrt_half = 0x3fe6a09e667f3bcd;
    static constexpr int64_t bias = 1023;
    static constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double ln2 = 0.69314718055994530942;
    static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    static constexpr double log2e = 1.44269504088896340736;
    static constexpr double lowest_power = -708.0, highest_power = 709.0;
};

// Horner's rule, constant term first: p[u] of x[u], U vectors side by side.
template <class T, int U, int n>
DRNMF_INLINE void polynomials(const T (&c)[n], const Vec<T>* x, Vec<T>* p) {
    each<U>([&](int u) { p[u] = broadcast(c[n - 1]); });
#pragma GCC unroll 16
    for (int k = n - 2; k >= 0; --k) each<U>([&](int u) { p[u] = p[u] * x[u] + c[k]; });
}
template <class T, int n>
DRNMF_INLINE Vec<T> polynomial(const T (&c)[n], Vec<T> x) {
    Vec<T> p;
    polynomials<T, 1>(c, &x, &p);
    return p;
}

// log(y) = exponent ln 2 + f - g with y = 2^exponent (1 + f), |f| < 0.42 and g = f - log(1 + f) >= 0.
// Losses want the three pieces: where y is near one the exponent is 0 and y - 1 - log(y) is g, without a
// cancellation. y = 0 gives a large negative finite value.
template <class T>
struct Log {
    Vec<T> exponent, f, g;
    DRNMF_INLINE Vec<T> value() const {
        using F = Float<T>;
        return exponent * F::ln2_high + ((exponent * F::ln2_low - g) + f);
    }
};

// g[u] of f[u], U vectors side by side.
template <class T, int U>
DRNMF_INLINE void small_log_gaps(const Vec<T>* f, Vec<T>* g) {
    Vec<T> p[U];
    if constexpr (sizeof(T) == 4) {
        constexpr float c[] = {0.4999999765f,  -0.3333333003f, 0.2500078124f,  -0.2000123446f, 0.1662664563f,
                               -0.1420485595f, 0.1312755565f,  -0.1272267279f, 0.07673641502f};
        polynomials<T, U>(c, f, p);
        each<U>([&](int u) { g[u] = f[u] * f[u] * p[u]; });
    } else {
        // log(1 + f) = 2 atanh(s), s = f / (2 + f), so g = s (f - z R(z)) with z = s^2.
        constexpr double c[] = {0.6666666666666669693, 0.3999999999989931068, 0.2857142862606338036,
                                0.2222221112044929849, 0.1818289017031397021, 0.1533168686863842825,
                                0.1461687891902982079};
        Vec<T> s[U], z[U];
        each<U>([&](int u) { s[u] = f[u] / (f[u] + T(2)); });
        each<U>([&](int u) { z[u] = s[u] * s[u]; });
        polynomials<T, U>(c, z, p);
        each<U>([&](int u) { g[u] = s[u] * (f[u] - z[u] * p[u]); });
    }
}
template <class T>
DRNMF_INLINE Vec<T> small_log_gap(Vec<T> f) {
    Vec<T> g;
    small_log_gaps<T, 1>(&f, &g);
    return g;
}

// The whole part of a number in the bits of an exponent and a mantissa, as a number and in its bits.
template <class T>
DRNMF_INLINE IntVec<T> whole_part(IntVec<T> from, Vec<T>& exponent) {
    using F = Float<T>;
    if constexpr (sizeof(T) == 4) {
        exponent = __builtin_convertvector(from >> F::mantissa, Vec<T>);
        return from & ~((int32_t(1) << F::mantissa) - 1);
    } else {
        // No conversion of 64-bit integers before AVX-512: the exponent plus its bias is written into the
        // mantissa of 2^52 instead.
        typedef uint64_t Unsigned __attribute__((vector_size(kVectorBytes)));
        Unsigned biased = Unsigned(from + (F::bias << F::mantissa)) >> F::mantissa;
        exponent = bits<Vec<T>>(biased | uint64_t(0x4330000000000000)) - T(4503599627370496.0 + F::bias);
        return from & ~((int64_t(1) << F::mantissa) - 1);
    }
}

// The exponent and f alone.
template <class T>
DRNMF_INLINE void split(Vec<T> y, Vec<T>& exponent, Vec<T>& f) {
    using U = IntVec<T>;
    U high = whole_part<T>(bits<U>(y) - Float<T>::sqrt_half, exponent);
    f = bits<Vec<T>>(bits<U>(y) - high) - T(1);
}

template <class T>
DRNMF_INLINE Log<T> log_pieces(Vec<T> y) {
    Vec<T> exponent, f;
    split<T>(y, exponent, f);
    return {exponent, f, small_log_gap<T>(f)};
}

template <class T>
DRNMF_INLINE Vec<T> log(Vec<T> y) {
    return log_pieces<T>(y).value();
}

// log of a ratio whose distance from one, `rise`, is known more accurately where it is small.
DRNMF_INLINE Log<double> log_ratio(Vec<double> ratio, Vec<double> rise) {
    Vec<double> exponent, f;
    split<double>(smaller<double>(ratio, broadcast(1e300)), exponent, f);
    f = exponent == 0.0 ? rise : f;
    return {exponent, f, small_log_gap<double>(f)};
}

// A power of two near top / bottom, and its exponent: the difference of the bits is the logarithm of the ratio to the
// base two up to 0.087, rounded here to a whole number. The ratio must not be below the smallest number of T.
template <class T>
DRNMF_INLINE void near_power(Vec<T> top, Vec<T> bottom, Vec<T>& power, Vec<T>& exponent) {
    using F = Float<T>;
    using U = IntVec<T>;
    using Int = typename IntOf<T>::type;
    constexpr Int one = Int(F::bias) << F::mantissa, half = Int(1) << (F::mantissa - 1);
    U biased = bits<U>(top) - bits<U>(bottom) + (one + half);
    if constexpr (sizeof(T) == 4) {  // beyond the largest power the largest; no ratio of float64 comes there
        const U largest = (2 * F::bias << F::mantissa) - U{};
        biased = biased < largest ? biased : largest;
    }
    power = bits<Vec<T>>(biased & ~((Int(1) << F::mantissa) - 1));
    whole_part<T>(biased - one, exponent);
}

// log(top / bottom) = 2 s + rest with one division, K of them side by side: s = (top - b) / (top + b), b = power bottom
// and |s| < 0.201. `rise` is top - bottom without its cancellation, and counts where the power is one.
template <class T, int K>
struct LogRatios {
    Vec<T> power[K], s[K], rest[K];

    DRNMF_INLINE LogRatios(const Vec<T>* top, const Vec<T>* bottom, const Vec<T>* rise) {
        Vec<T> exponent[K], z[K];
        each<K>([&](int k) { near_power<T>(top[k], bottom[k], power[k], exponent[k]); });
        each<K>([&](int k) {
            Vec<T> difference = power[k] == T(1) ? rise[k] : top[k] - power[k] * bottom[k];
            s[k] = difference / (top[k] + power[k] * bottom[k]);
        });
        each<K>([&](int k) { z[k] = s[k] * s[k]; });
        if constexpr (sizeof(T) == 4) {
            constexpr float c[] = {0.6666671446f, 0.3997869403f, 0.2996638362f};
            polynomials<T, K>(c, z, rest);
        } else {
            constexpr double c[] = {0.6666666666666694847, 0.3999999999931497979, 0.2857142884288320517,
                                    0.2222218195900205338, 0.1818465388485761903, 0.1528264129119303082,
                                    0.1512810571826570619};
            polynomials<T, K>(c, z, rest);
        }
        each<K>([&](int k) { rest[k] = (s[k] * z[k]) * rest[k] + exponent[k] * Float<T>::ln2; });
    }
};

// exp(x) = scale (1 + p): scale = 2^n and p = expm1 of the rest, |rest| <= ln(2) / 2. Saturates, never inf.
template <class T>
struct Exp {
    Vec<T> scale, p;
};

template <class T>
DRNMF_INLINE Exp<T> exp_pieces(Vec<T> x) {
    using F = Float<T>;
    using U = IntVec<T>;
    x = smaller<T>(larger<T>(x, broadcast(F::lowest_power)), broadcast(F::highest_power));
    Vec<T> shifted = x * F::log2e + F::round;
    Vec<T> n = shifted - F::round;
    Vec<T> rest = (x - n * F::ln2_high) - n * F::ln2_low;
    Vec<T> scale = bits<Vec<T>>((bits<U>(shifted) + F::bias) << F::mantissa);
    Vec<T> tail;
    if constexpr (sizeof(T) == 4) {
        constexpr float c[] = {0.50000000134658092f,     0.166666666816232314f,    0.04166646492528590541f,
                               0.008333310925480900835f, 0.001393364999630925043f, 0.0001989099082467365385f};
        tail = polynomial<T>(c, rest);
    } else {
        constexpr double c[] = {0.5,
                                0.1666666666666667099,
                                0.04166666666666666975,
                                0.008333333333326135126,
                                0.00138888888888837483,
                                0.0001984126987482062527,
                                0.00002480158732554774122,
                                2.755725540020642443e-6,
                                2.755727364311029533e-7,
                                2.510521700472074516e-8,
                                2.091468696808687723e-9};
        tail = polynomial<T>(c, rest);
    }
    return {scale, rest * rest * tail + rest};
}

template <class T>
DRNMF_INLINE Vec<T> exp(Vec<T> x) {
    Exp<T> e = exp_pieces<T>(x);
    return e.scale * e.p + e.scale;
}

template <class T>
DRNMF_INLINE Vec<T> expm1(Vec<T> x) {
    Exp<T> e = exp_pieces<T>(x);
    return e.scale * e.p + (e.scale - T(1));
}

}  // namespace drnmf::DRNMF_ISA_NAME
