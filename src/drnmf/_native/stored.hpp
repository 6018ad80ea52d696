// One block of columns of a sparse X of which the stored entries alone are observed: any loss, O(r) work per entry.
//
// A run of entries is a tile of one row, so that what happens to an entry is what happens to it in dense X; only the
// products walk along compressed columns.
#pragma once

#include "dense.hpp"
#include "nonzeros.hpp"

namespace drnmf::DRNMF_ISA_NAME {

template <class T, class Index>
struct StoredBlock : Nonzeros<T, Index> {
    using Base = Nonzeros<T, Index>;
    using Base::x, Base::rows, Base::starts, Base::items, Base::bent, Base::L;
    static constexpr size_t kLength = kRun + kLanes<T>;  // of the buffers of a run
    static constexpr int kBuffers = 10;
    const Sweep& s;
    Products list;
    Terms<T> terms_of;
    size_t all_products;
    Tile<T> t;
    T *run_x, *sums, *bends;  // a run of X; sums of a panel, (product, item, padded); curvatures of a panel
    double* losses;

    StoredBlock(const Sweep& sweep, char* scratch, double* out)
        : Base(sweep), s(sweep), list(products(sweep)), losses(out) {
        terms_of = choose_terms<T>(s.mask, s.mode, s.losses);
        all_products = product_count(s);
        T* p = reinterpret_cast<T*>(scratch);
        auto take = [&p](size_t count) { return (p += count) - count; };
        t.V = take(kLength), t.log_v = take(kLength), t.M = take(kLength), run_x = take(kLength);
        for (T*& z : t.Z) z = take(kLength);
        t.X = run_x, t.ldx = ptrdiff_t(kLength), t.rows = 1;
        sums = take(all_products * kSparsePanel * s.padded);
        items = take(kRun * s.padded), bent = take(kRun * s.padded), bends = take(kSparsePanel * s.r * s.padded);
    }
    static size_t bytes(const Sweep& s) {
        size_t curvature = s.curvature.pairs ? (2 * kRun + kSparsePanel * s.r) * s.padded : 0;
        return sizeof(T) * (kBuffers * kLength + product_count(s) * kSparsePanel * s.padded + curvature);
    }

    void run(size_t block) {
        for (size_t j = s.bounds[block]; j < s.bounds[block + 1]; j += kSparsePanel) {
            if (s.stopped(s.stop_context)) return;
            panel(j, least(j + kSparsePanel, s.bounds[block + 1]));
        }
    }

    void panel(size_t begin, size_t end) {
        memset(sums, 0, all_products * kSparsePanel * s.padded * sizeof(T));
        if (s.curvature.pairs) memset(bends, 0, kSparsePanel * s.r * s.padded * sizeof(T));
        size_t column = begin;
        for (size_t at = size_t(starts[begin]); at < size_t(starts[end]);) {
            size_t stop = least(at + kRun, size_t(starts[end]));
            size_t next = this->each_column(column, at, stop, [&](size_t j, size_t from, size_t count) {
                this->model(j, from, count, t.V + (from - at));
                weigh(j, from, count, t.M + (from - at));
            });
            entries(at, stop - at, begin, column);
            column = next, at = stop;
        }
        write(begin, end);
        if (s.curvature.pairs) this->write_curvature(bends, begin, end, s.curvature.Q);
    }

    // The weights of some entries of column j.
    void weigh(size_t j, size_t from, size_t count, T* M) {
        const Weights& w = s.weights;
        const T *stored = static_cast<const T*>(w.stored), *u = static_cast<const T*>(w.rows),
                *values = static_cast<const T*>(w.values);
        const T v = w.columns ? static_cast<const T*>(w.columns)[j] : T(1);
        for (size_t t = 0; t < count; ++t) M[t] = stored ? v * stored[from + t] : v;
        if (u)
            for (size_t t = 0; t < count; ++t) M[t] *= u[rows[from + t]];
        if (values)
            for (size_t t = 0; t < count; ++t)
                M[t] *= values[ptrdiff_t(rows[from + t]) * w.row_stride + ptrdiff_t(j) * w.column_stride];
        if (w.row_codes)
            for (size_t t = 0; t < count; ++t)
                if (!is_kept(w, w.row_codes[rows[from + t]], w.column_codes[j])) M[t] = T(0);
    }

    // Everything about a run of entries: what the tile of dense X does, in its order.
    void entries(size_t at, size_t count, size_t begin, size_t column) {
        t.vectors = int((count + L - 1) / L);
        for (size_t c = count; c < size_t(t.vectors) * L; ++c) t.V[c] = t.M[c] = T(0);
        memcpy(run_x, x + at, count * sizeof(T));
        clear_unseen<T>(run_x, T(1), t.V, T(s.floor), t.vectors, run_x, t.M);
        if (terms_of) terms_of(s, t, losses);
        if (s.logs) log_model(s, t);
        other_losses<T>(s, t, losses);
        if (s.curvature.pairs) {
            curvature_terms(s, t);
            this->each_column(column, at, at + count, [&](size_t j, size_t from, size_t some) {
                this->bend(from, some, t.Z[4] + (from - at), bends + (j - begin) * s.r * s.padded);
            });
        }
        if (s.mode == Mode::weighted)
            for (int p = 0; p < s.others; ++p)
                other_terms<T>(s, t, p, s.other[p].weight, p || s.mask, p || s.mask, losses);
        for (int p = 0; p < list.count; p += 2)
            accumulate(at, count, begin, column, term(list.item[p].z), term(list.item[p + 1].z), size_t(p));
        if (s.mode == Mode::separate)
            for (int p = 0; p < s.others; ++p) {
                other_terms<T>(s, t, p, 1.0, false, false, losses);
                accumulate(at, count, begin, column, t.Z[0], t.Z[1], size_t(list.count + 2 * p));
            }
    }

    const T* term(int z) const { return z < 0 ? t.M : t.Z[z]; }
    T* sum(size_t product, size_t item) const { return sums + (product * kSparsePanel + item) * s.padded; }

    // N and P of one loss, whose products follow each other, with one look at the rows of W.
    void accumulate(size_t at, size_t count, size_t begin, size_t column, const T* n, const T* p, size_t product) {
        this->each_column(column, at, at + count, [&](size_t j, size_t from, size_t some) {
            const T* z[2] = {n + (from - at), p + (from - at)};
            T* to[2] = {sum(product, j - begin), sum(product + 1, j - begin)};
            this->template add<2>(from, some, z, to);
        });
    }

    void write(size_t begin, size_t end) {
        for (size_t p = 0; p < all_products; ++p) {
            bool other = p >= size_t(list.count), positive = p % 2;
            int slot = other ? s.other[(p - size_t(list.count)) / 2].slot : list.item[p].slot;
            T* to = static_cast<T*>(positive ? s.P : s.N) + size_t(slot) * s.r * s.n + begin;
            transpose_items(sum(p, 0), ptrdiff_t(s.padded), int(end - begin), int(s.r), to, ptrdiff_t(s.n));
        }
    }
};

}  // namespace drnmf::DRNMF_ISA_NAME
