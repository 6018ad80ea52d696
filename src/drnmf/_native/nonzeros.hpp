// What sweeps along compressed columns share: V at stored entries, sums over them, their curvature.
//
// Entries are taken in short runs: V at each of them (L dot products at a time), their terms side by side in vectors,
// then N_j += z W_i. Factors are item-first, so an entry touches one contiguous row of W.
#pragma once

#include "gemm.hpp"
#include "kernels.hpp"

namespace drnmf::DRNMF_ISA_NAME {

constexpr size_t kRun = 128;         // non-zeros per run: their rows of W stay in the first cache levels
constexpr size_t kSparsePanel = 64;  // columns written together

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

// The same in float64: what is subtracted from a number as large must not be rounded before.
template <class T, class Index>
inline void exact_dots(const T* W, size_t padded, const Index* rows, size_t count, const T* h, double* v) {
    for (size_t t = 0; t < count; ++t) {
        const T* item = W + size_t(rows[t]) * padded;
        Vec<double> sum{};
        for (size_t w = 0; w < padded; w += kLanes<double>) sum += load_double(item + w) * load_double(h + w);
        v[t] = sum_lanes(sum);
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
struct Nonzeros {
    static constexpr size_t L = kLanes<T>;
    size_t r, n, padded, first = 0;  // first: the column with which H begins
    const Index *starts, *rows;
    const T *x, *W, *H;
    T *items, *bent;  // rows of W of a run, and the same times z

    template <class S>
    explicit Nonzeros(const S& s) : r(s.r), n(s.n), padded(s.padded) {
        starts = static_cast<const Index*>(s.x.starts);
        rows = static_cast<const Index*>(s.x.indices);
        x = static_cast<const T*>(s.x.values);
        W = static_cast<const T*>(s.left);
        H = static_cast<const T*>(s.right);
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

    // V at some entries of column j.
    void model(size_t j, size_t from, size_t count, T* to) {
        const Index *at = rows + from, *last = rows + starts[n];
        const T* h = H + (j - first) * padded;
        switch (padded / L) {
            case 1: return dots<T, Index, 1>(W, padded, at, count, last, h, to);
            case 2: return dots<T, Index, 2>(W, padded, at, count, last, h, to);
            case 3: return dots<T, Index, 3>(W, padded, at, count, last, h, to);
            case 4: return dots<T, Index, 4>(W, padded, at, count, last, h, to);
            default: return dots<T, Index, 0>(W, padded, at, count, last, h, to);
        }
    }

    template <int Lists>
    void add(size_t from, size_t count, const T* const* z, T* const* to) {
        const Index* at = rows + from;
        size_t width = padded / L;
        for (size_t w = 0; w < width; w += 4) {
            T* part[2] = {to[0] + w * L, to[Lists - 1] + w * L};
            const T* item = W + w * L;
            switch (width - w) {
                case 1: gather<T, Index, 1, Lists>(item, padded, at, count, z, part); break;
                case 2: gather<T, Index, 2, Lists>(item, padded, at, count, z, part); break;
                case 3: gather<T, Index, 3, Lists>(item, padded, at, count, z, part); break;
                default: gather<T, Index, 4, Lists>(item, padded, at, count, z, part);
            }
        }
    }

    // to += sum over t of z[t] W_i(t) W_i(t)', the lower triangle (and what shares a vector with it).
    void bend(size_t from, size_t count, const T* z, T* to) {
        for (size_t t = 0; t < count; ++t) {
            const T* item = W + size_t(rows[from + t]) * padded;
            for (size_t w = 0; w < padded; w += L) {
                Vec<T> values = load(item + w);
                store(items + t * padded + w, values);
                store(bent + t * padded + w, z[t] * values);
            }
        }
        for (size_t k = 0; k < r; k += kRowsInRegisters) {
            size_t some = least(size_t(kRowsInRegisters), r - k);
            gemm<T>(int(some), int(count), int((k + some + L - 1) / L), {bent + k, 1, ptrdiff_t(padded)},
                    {items, ptrdiff_t(padded), 1}, to + k * padded, ptrdiff_t(padded), true);
        }
    }

    // The curvatures of columns begin ... end, r x padded each, as rows of Q.
    void write_curvature(const T* bends, size_t begin, size_t end, void* Q) {
        T* to = static_cast<T*>(Q) + begin;
        for (size_t k = 0; k < r; ++k)
            for (size_t l = 0; l <= k; ++l, to += n)
                for (size_t j = 0; j < end - begin; ++j) to[j] = bends[(j * r + k) * padded + l];
    }
};

}  // namespace drnmf::DRNMF_ISA_NAME
