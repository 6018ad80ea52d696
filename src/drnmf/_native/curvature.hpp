// The curvature of an entry, sum_b bend_b d''_b(x, v), as divergence.py defines it: the second derivative where d_b is
// convex in v (beta in [1, 2]), v^(b-2) elsewhere. The part of beta = 2 is the same in every column and is not in it.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T>
inline void curvature_terms(const Sweep& s, const Tile<T>& t) {
    constexpr int L = kLanes<T>, ld = kTileColumns<T>;
    const Vec<T> floor = broadcast(T(s.floor)), ceiling = broadcast(T(s.ceiling)), zero = broadcast(T(s.zero));
    const T is = T(s.curvature.bend[0]), kl = T(s.curvature.bend[1]);
    for (int i = 0; i < t.rows; ++i)
        for (int c = 0; c < t.vectors * L; c += L) {
            int at = i * ld + c;
            Vec<T> x = load(t.X + i * t.ldx + c), v = larger<T>(load(t.V + at), floor), inv = T(1) / v, z{};
            x = x == T(0) ? zero : x;
            if (s.mask & kIS) z += is * smaller<T>(inv * inv, ceiling);
            if (s.mask & kKL) z += kl * smaller<T>(x * inv * inv, ceiling);
            for (int p = 0; p < s.powers; ++p) {
                const double beta = s.power[p].beta;
                Vec<T> power = exp<T>(load(t.log_v + at) * T(beta - 2.0));
                if (beta > 1.0 && beta < 2.0) power = T(beta - 1.0) * power + T(2.0 - beta) * (x * inv) * power;
                z += T(s.power[p].bend) * smaller<T>(power, ceiling);
            }
            store(t.Z[4] + at, z);
        }
}

}  // namespace drnmf::DRNMF_ISA_NAME
