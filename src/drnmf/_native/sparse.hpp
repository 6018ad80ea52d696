// One block of columns of a sparse X, Omega within {1, 2}: O(r) work per non-zero.
#pragma once

#include "factors.hpp"
#include "nonzeros.hpp"
#include "vmath.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T, class Index>
struct SparseBlock : Nonzeros<T, Index> {
    using Base = Nonzeros<T, Index>;
    using Base::x, Base::H, Base::starts, Base::items, Base::bent, Base::L;
    const SparseSweep& s;
    T *v, *z1, *z2, *N1, *N2, *own;  // runs, sums of a panel (items x padded), and its columns of H
    double* v64;                     // V of a run in float64, where its norm is asked for; float64 has it in v
    T* bends;                        // the curvatures of a panel (r x padded each)
    double* sums;
    bool needs_model, needs_P2, weighted;

    SparseBlock(const SparseSweep& sweep, char* scratch, double* out) : Base(sweep), s(sweep), sums(out) {
        v64 = reinterpret_cast<double*>(scratch);
        T* p = sizeof(T) == sizeof(double) ? reinterpret_cast<T*>(v64) : reinterpret_cast<T*>(v64 + kRun + L);
        v = p, z1 = v + kRun + L, z2 = z1 + kRun + L;
        N1 = z2 + kRun + L, N2 = N1 + kSparsePanel * s.padded;
        own = N2 + kSparsePanel * s.padded, H = own;
        items = own + kSparsePanel * s.padded, bent = items + kRun * s.padded, bends = bent + kRun * s.padded;
        weighted = s.mode == Mode::weighted;
        needs_model = s.losses || weighted || (s.mask & kKL) || s.curvature.pairs;
        needs_P2 = s.positive && (s.mask & kFro);
    }

    void run(size_t block) {
        for (size_t j = s.bounds[block]; j < s.bounds[block + 1]; j += kSparsePanel) {
            if (s.stopped(s.stop_context)) return;
            panel(j, least(j + kSparsePanel, s.bounds[block + 1]));
        }
    }

    void panel(size_t begin, size_t end) {
        memset(N1, 0, 2 * kSparsePanel * s.padded * sizeof(T));
        if (s.curvature.pairs) memset(bends, 0, kSparsePanel * s.r * s.padded * sizeof(T));
        size_t column = begin;
        if (needs_P2 || (needs_model && starts[begin] < starts[end]))
            pack_items(static_cast<const T*>(s.right) + begin, s.n, s.r, s.padded, 0, end - begin, own);
        this->first = begin;
        for (size_t at = size_t(starts[begin]); at < size_t(starts[end]);) {
            size_t stop = least(at + kRun, size_t(starts[end]));
            size_t next = column;
            if (needs_model) {
                next = this->each_column(column, at, stop, [&](size_t j, size_t from, size_t count) {
                    this->model(j, from, count, v + (from - at));
                    if (s.exact)
                        exact_dots(this->W, s.padded, this->rows + from, count, H + (j - begin) * s.padded,
                                   v64 + (from - at));
                });
                entries(at, stop - at);
            }
            if (s.mode != Mode::none)
                next = this->each_column(column, at, stop, [&](size_t j, size_t from, size_t count) {
                    const T* z[2] = {z1 + (from - at), x + from};
                    T* to[2] = {N1 + (j - begin) * s.padded, N2 + (j - begin) * s.padded};
                    if (weighted || s.mask == kKL) this->template add<1>(from, count, z, to);
                    else if (s.mask == kFro) this->template add<1>(from, count, z + 1, to + 1);
                    else this->template add<2>(from, count, z, to);
                });
            if (s.curvature.pairs)
                next = this->each_column(column, at, stop, [&](size_t j, size_t from, size_t count) {
                    this->bend(from, count, z2 + (from - at), bends + (j - begin) * s.r * s.padded);
                });
            column = next;
            at = stop;
        }
        if (s.mode != Mode::none) write(begin, end);
        if (s.curvature.pairs) this->write_curvature(bends, begin, end, s.curvature.Q);
    }

    // Terms of a run. Lanes beyond it hold x = v = 0, which add nothing.
    void entries(size_t at, size_t count) {
        for (size_t t = count; t < (count + L - 1) / L * L; ++t) v[t] = T(0), v64[t] = 0.0;
        if (sizeof(T) < sizeof(double) && !s.exact)
            for (size_t t = 0; t < count; ++t) v64[t] = double(v[t]);
        const Vec<T> floor = broadcast(T(s.floor)), ceiling = broadcast(T(s.ceiling));
        const T w1 = T(s.weight[1]), w2 = T(s.weight[2]);
        Vec<T> kl{};
        Vec<double> kl_total{}, residual{}, model_norm{};
        for (size_t t = 0; t < count; t += L) {
            T tail[L] = {};
            const T* from = x + at + t;
            if (t + L > count) {
                memcpy(tail, from, (count - t) * sizeof(T));
                from = tail;
            }
            Vec<T> a = load(from), m = larger<T>(load(v + t), floor);
            if (s.mask & kKL) {
                Vec<T> q = smaller<T>(a / m, ceiling);
                store(z1 + t, weighted ? (s.mask & kFro ? w1 * q + w2 * a : w1 * q) : q);
                if (s.curvature.pairs) store(z2 + t, T(s.curvature.bend[1]) * smaller<T>(q / m, ceiling));
                if (s.losses) kl += a * log<T>(q) - a;
            } else if (weighted) {
                store(z1 + t, w2 * a);
            }
            if (s.losses && (s.mask & kFro)) norms(from, v64 + t, residual, model_norm);
        }
        add_to_double<T>(kl_total, kl);
        sums[kSumKL] += sum_lanes(kl_total);
        sums[kSumResidual] += sum_lanes(residual);
        sums[kSumModel] += sum_lanes(model_norm);
    }

    // (x - v)^2 and v^2, in float64 from the start: their sums are subtracted from a norm as large.
    DRNMF_INLINE void norms(const T* a, const double* model, Vec<double>& residual, Vec<double>& model_norm) {
        const Vec<double> floor = broadcast(double(s.floor));
        for (size_t l = 0; l < L; l += kLanes<double>) {
            Vec<double> m = larger<double>(load(model + l), floor), gap = load_double(a + l) - m;
            residual += gap * gap;
            model_norm += m * m;
        }
    }

    T* output(void* base, int slot, size_t j) const { return static_cast<T*>(base) + size_t(slot) * s.r * s.n + j; }

    void write(size_t begin, size_t end) {
        size_t count = end - begin;
        auto put = [&](void* base, int slot, const T* items) {
            T* to = output(base, slot, begin);
            transpose_items(items, ptrdiff_t(s.padded), int(count), int(s.r), to, ptrdiff_t(s.n));
        };
        if (weighted) put(s.N, 0, N1);
        else if (s.mask & kKL) put(s.N, s.slot[1], N1);
        if (!weighted && (s.mask & kFro)) put(s.N, s.slot[2], N2);
        if (!s.positive) return;
        if (needs_P2) {
            // P_2 = (W'W)H, items first: rows of H times the padded Gram matrix.
            gemm<T>(int(count), int(s.r), int(s.padded / L), {H, ptrdiff_t(s.padded), 1},
                    {static_cast<const T*>(s.gram), ptrdiff_t(s.padded), 1}, N1, ptrdiff_t(s.padded), false);
            if (weighted && (s.mask & kKL))
                for (size_t j = 0; j < count; ++j)
                    for (size_t k = 0; k < s.r; ++k) N1[j * s.padded + k] += T(s.column_sums[k]);
            put(s.P, weighted ? 0 : s.slot[2], N1);
        }
        if ((s.mask & kKL) && !(weighted && (s.mask & kFro)))
            for (size_t k = 0; k < s.r; ++k) {
                T* to = output(s.P, weighted ? 0 : s.slot[1], begin) + k * s.n;
                for (size_t j = 0; j < count; ++j) to[j] = T(s.column_sums[k]);
            }
    }
};

template <class T>
inline size_t sparse_scratch(const SparseSweep& s) {
    size_t curvature = s.curvature.pairs ? (2 * kRun + kSparsePanel * s.r) * s.padded : 0;
    size_t runs = kLanes<T> + kRun;
    return sizeof(double) * runs + sizeof(T) * (3 * runs + 3 * kSparsePanel * s.padded + curvature);
}

}  // namespace drnmf::DRNMF_ISA_NAME
