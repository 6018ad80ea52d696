// One block of columns of a sparse X, Omega within {1, 2}: O(r) work per non-zero.
//
// Non-zeros are taken in short runs: V at each of them (L dot products at a time), their terms side by side in
// vectors, then N_j += z W_i. Factors are item-first, so a non-zero touches one contiguous row of W.
#pragma once

#include "gemm.hpp"
#include "kernels.hpp"
#include "vmath.hpp"

namespace drnmf::DRNMF_ISA_NAME {

constexpr size_t kRun = 128;        // non-zeros per run: their rows of W stay in the first cache levels
constexpr size_t kSparsePanel = 64; // columns written together

// rows[0][l] = sum of the lanes of rows[l].
template <class T, int Distance = kLanes<T> / 2>
DRNMF_INLINE void sum_rows(Vec<T>* rows) {
#pragma GCC unroll 16
    for (int i = 0; i < Distance; ++i)
        rows[i] = exchange_lanes<Distance, false>(rows[i], rows[i + Distance]) +
                  exchange_lanes<Distance, true>(rows[i], rows[i + Distance]);
    if constexpr (Distance > 1) sum_rows<T, Distance / 2>(rows);
}

// v[t] = W_i(t) . h for a run of one column. Writes up to L - 1 values too many, which the next run overwrites.
// Width: vectors per item when known at compile time, 0 otherwise.
template <class T, class Index, int Width>
inline void dots(const T* W, size_t padded, const Index* rows, size_t count, const Index* last, const T* h, T* v) {
    constexpr size_t L = kLanes<T>, ahead = 16;
    const size_t width = Width ? size_t(Width) : padded / L;
    for (size_t t = 0; t < count; t += L) {
        Vec<T> sum[L];
#pragma GCC unroll 16
        for (size_t l = 0; l < L; ++l) {
            const Index* at = rows + least(t + l, count - 1);
            if (at + ahead < last)
                for (size_t w = 0; w < width * L; w += 64 / sizeof(T))
                    __builtin_prefetch(W + size_t(at[ahead]) * padded + w);
            const T* item = W + size_t(*at) * padded;
            sum[l] = load(item) * load(h);
            for (size_t w = 1; w < width; ++w) sum[l] += load(item + w * L) * load(h + w * L);
        }
        sum_rows<T>(sum);
        store(v + t, sum[0]);
    }
}

// to[p] += sum over t of z[p][t] W_i(t), Width vectors of the items, for one or two lists z.
template <class T, class Index, int Width, int Lists>
inline void gather(const T* W, size_t padded, const Index* rows, size_t count, const T* const* z, T* const* to) {
    constexpr size_t L = kLanes<T>;
    Vec<T> sum[Lists][Width];
    for (int p = 0; p < Lists; ++p)
        for (int w = 0; w < Width; ++w) sum[p][w] = load(to[p] + size_t(w) * L);
    for (size_t t = 0; t < count; ++t) {
        const T* item = W + size_t(rows[t]) * padded;
#pragma GCC unroll 4
        for (int w = 0; w < Width; ++w) {
            Vec<T> values = load(item + size_t(w) * L);
#pragma GCC unroll 2
            for (int p = 0; p < Lists; ++p) sum[p][w] += z[p][t] * values;
        }
    }
    for (int p = 0; p < Lists; ++p)
        for (int w = 0; w < Width; ++w) store(to[p] + size_t(w) * L, sum[p][w]);
}

template <class T, class Index>
struct SparseBlock {
    static constexpr size_t L = kLanes<T>;
    const SparseSweep& s;
    const Index *starts, *rows;
    const T *x, *W, *H;
    T *v, *z1, *z2, *N1, *N2;  // runs, and sums of a panel (items x padded)
    T *items, *bent, *bends;   // rows of W of a run, the same times z2, and the curvatures of a panel (r x padded each)
    double* sums;
    bool needs_model, weighted;

    SparseBlock(const SparseSweep& sweep, char* scratch, double* out) : s(sweep), sums(out) {
        starts = static_cast<const Index*>(s.x.starts);
        rows = static_cast<const Index*>(s.x.indices);
        x = static_cast<const T*>(s.x.values);
        W = static_cast<const T*>(s.left);
        H = static_cast<const T*>(s.right);
        T* p = reinterpret_cast<T*>(scratch);
        v = p, z1 = v + kRun + L, z2 = z1 + kRun + L;
        N1 = z2 + kRun + L, N2 = N1 + kSparsePanel * s.padded;
        items = N2 + kSparsePanel * s.padded, bent = items + kRun * s.padded, bends = bent + kRun * s.padded;
        weighted = s.mode == Mode::weighted;
        needs_model = s.losses || weighted || (s.mask & kKL) || s.curvature.pairs;
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
        for (size_t at = size_t(starts[begin]); at < size_t(starts[end]);) {
            size_t stop = least(at + kRun, size_t(starts[end]));
            size_t next = column;
            if (needs_model) {
                next = each_column(column, at, stop, [&](size_t j, size_t from, size_t count) { model(j, from, count, at); });
                entries(at, stop - at);
            }
            if (s.mode != Mode::none)
                next = each_column(column, at, stop, [&](size_t j, size_t from, size_t count) {
                    const T* z[2] = {z1 + (from - at), x + from};
                    T* to[2] = {N1 + (j - begin) * s.padded, N2 + (j - begin) * s.padded};
                    if (weighted || s.mask == kKL) add<1>(from, count, z, to);
                    else if (s.mask == kFro) add<1>(from, count, z + 1, to + 1);
                    else add<2>(from, count, z, to);
                });
            if (s.curvature.pairs)
                next = each_column(column, at, stop, [&](size_t j, size_t from, size_t count) {
                    bend(from, count, z2 + (from - at), bends + (j - begin) * s.r * s.padded);
                });
            column = next;
            at = stop;
        }
        if (s.mode != Mode::none) write(begin, end);
        if (s.curvature.pairs) write_curvature(begin, end);
    }

    // Calls f(column, first, count) for every column met by non-zeros begin ... end; returns the last column met.
    template <class F>
    size_t each_column(size_t j, size_t begin, size_t end, F f) {
        for (size_t at = begin; at < end;) {
            while (size_t(starts[j + 1]) <= at) ++j;
            size_t stop = least(size_t(starts[j + 1]), end);
            f(j, at, stop - at);
            at = stop;
        }
        return j;
    }

    void model(size_t j, size_t from, size_t count, size_t run) {
        const Index *at = rows + from, *last = rows + starts[s.n];
        const T* h = H + j * s.padded;
        T* to = v + (from - run);
        switch (s.padded / L) {
            case 1: return dots<T, Index, 1>(W, s.padded, at, count, last, h, to);
            case 2: return dots<T, Index, 2>(W, s.padded, at, count, last, h, to);
            case 3: return dots<T, Index, 3>(W, s.padded, at, count, last, h, to);
            case 4: return dots<T, Index, 4>(W, s.padded, at, count, last, h, to);
            default: return dots<T, Index, 0>(W, s.padded, at, count, last, h, to);
        }
    }

    template <int Lists>
    void add(size_t from, size_t count, const T* const* z, T* const* to) {
        const Index* at = rows + from;
        size_t width = s.padded / L;
        for (size_t w = 0; w < width; w += 4) {
            T* part[2] = {to[0] + w * L, to[Lists - 1] + w * L};
            const T* item = W + w * L;
            switch (width - w) {
                case 1: gather<T, Index, 1, Lists>(item, s.padded, at, count, z, part); break;
                case 2: gather<T, Index, 2, Lists>(item, s.padded, at, count, z, part); break;
                case 3: gather<T, Index, 3, Lists>(item, s.padded, at, count, z, part); break;
                default: gather<T, Index, 4, Lists>(item, s.padded, at, count, z, part);
            }
        }
    }

    // to += sum over t of z[t] W_i(t) W_i(t)', the lower triangle (and what shares a vector with it).
    void bend(size_t from, size_t count, const T* z, T* to) {
        for (size_t t = 0; t < count; ++t) {
            const T* item = W + size_t(rows[from + t]) * s.padded;
            for (size_t w = 0; w < s.padded; w += L) {
                Vec<T> values = load(item + w);
                store(items + t * s.padded + w, values);
                store(bent + t * s.padded + w, z[t] * values);
            }
        }
        for (size_t k = 0; k < s.r; k += kRowsInRegisters) {
            size_t some = least(size_t(kRowsInRegisters), s.r - k);
            gemm<T>(int(some), int(count), int((k + some + L - 1) / L), {bent + k, 1, ptrdiff_t(s.padded)},
                    {items, ptrdiff_t(s.padded), 1}, to + k * s.padded, ptrdiff_t(s.padded), true);
        }
    }

    void write_curvature(size_t begin, size_t end) {
        T* to = static_cast<T*>(s.curvature.Q) + begin;
        for (size_t k = 0; k < s.r; ++k)
            for (size_t l = 0; l <= k; ++l, to += s.n)
                for (size_t j = 0; j < end - begin; ++j) to[j] = bends[(j * s.r + k) * s.padded + l];
    }

    // Terms of a run. Lanes beyond it hold x = v = 0, which add nothing.
    void entries(size_t at, size_t count) {
        for (size_t t = count; t < (count + L - 1) / L * L; ++t) v[t] = T(0);
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
            if (s.losses && (s.mask & kFro)) norms(from, m, residual, model_norm);
        }
        add_to_double<T>(kl_total, kl);
        sums[kSumKL] += sum_lanes(kl_total);
        sums[kSumResidual] += sum_lanes(residual);
        sums[kSumModel] += sum_lanes(model_norm);
    }

    // (x - v)^2 and v^2, in float64 from the start: their sums are subtracted from a norm as large.
    DRNMF_INLINE void norms(const T* a, Vec<T> m, Vec<double>& residual, Vec<double>& model_norm) {
        T lanes[L];
        store(lanes, m);
        for (size_t l = 0; l < L; l += kLanes<double>) {
            Vec<double> v64 = load_double(lanes + l), gap = load_double(a + l) - v64;
            residual += gap * gap;
            model_norm += v64 * v64;
        }
    }

    T* output(void* base, int slot, size_t j) const {
        return static_cast<T*>(base) + size_t(slot) * s.r * s.n + j;
    }

    void write(size_t begin, size_t end) {
        size_t count = end - begin;
        auto put = [&](void* base, int slot, const T* items) {
            transpose(items, ptrdiff_t(s.padded), int(count), int(s.r), output(base, slot, begin), ptrdiff_t(s.n));
        };
        if (weighted) put(s.N, 0, N1);
        else if (s.mask & kKL) put(s.N, s.slot[1], N1);
        if (!weighted && (s.mask & kFro)) put(s.N, s.slot[2], N2);
        if (!s.positive) return;
        if (s.mask & kFro) {
            // P_2 = (W'W)H, items first: rows of H times the padded Gram matrix.
            gemm<T>(int(count), int(s.r), int(s.padded / L), {H + begin * s.padded, ptrdiff_t(s.padded), 1},
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
    return sizeof(T) * (3 * (kRun + kLanes<T>) + 2 * kSparsePanel * s.padded + curvature);
}

}  // namespace drnmf::DRNMF_ISA_NAME
