// The curvature of an entry, sum_b bend_b d''_b(x, v), as Loss.curvature defines it: for beta the second derivative
// where d_b is convex in v (beta in [1, 2]), v^(b-2) elsewhere. The part of beta = 2 is the same in every column, and
// is not in it unless entries have weights.
#pragma once

#include "negative_binomial.hpp"
#include "powers.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
inline void curvature_terms(const Sweep& s, const Tile<T>& t) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    const Vec<T> floor = broadcast(T(s.floor)), ceiling = broadcast(T(s.ceiling)), zero = broadcast(T(s.zero));
    const T is = T(s.curvature.bend[0]), kl = T(s.curvature.bend[1]), frobenius = T(s.curvature.bend[2]);
    const int mask = s.mask, others = s.others;  // beside the loop: the compiler cannot know that stores leave them
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * L; c += L) {
            int at = i * ld + c;
            Vec<T> x = load(t.X + i * t.ldx + c) * t.scale, v = larger<T>(load(t.V + at), floor), z{};
            x = x == T(0) ? zero : x;
            if (mask & (kIS | kKL)) {
                Vec<T> inv = T(1) / v;
                if (mask & kIS) z += is * smaller<T>(inv * inv, ceiling);
                if (mask & kKL) z += kl * smaller<T>(x * inv * inv, ceiling);
            }
            for (int p = 0; p < others; ++p) {
                const Other& o = s.other[p];
                Vec<T> bend = o.loss.family == Family::beta
                                  ? power_curvature<T>(x, v, t.log_v + at, o.loss.parameter)
                                  : negative_binomial_curvature<T>(v, o.loss.parameter);
                z += T(o.bend) * smaller<T>(bend, ceiling);
            }
            store(t.Z[4] + at, t.M ? load(t.M + at) * (z + frobenius) : z);
        }
}

}  // namespace drnmf::DRNMF_ISA_NAME
