// One block of a sweep over dense tiles: V of a tile, its terms, its products; V is never seen outside.
#pragma once

#include "curvature.hpp"
#include "gemm.hpp"
#include "observe.hpp"
#include "source.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// A product W'Z of the sweep: which terms, and which output it belongs to.
struct Product {
    int z;  // -1: X itself, -2: the weights of the entries
    bool positive;
    int slot;
};

struct Products {
    Product item[6];
    int count = 0;
    void add(int z, bool positive, int slot) { item[count++] = {z, positive, slot}; }
};

// Products of beta 0, 1, 2. P_1 (column sums) and P_2 = (W'W)H need none, unless entries have weights.
inline Products products(const Sweep& s) {
    Products list;
    if (s.weights.given) {
        if (s.mode == Mode::weighted) list.add(0, false, 0), list.add(1, true, 0);
        if (s.mode != Mode::separate) return list;
        if (s.mask & kIS) list.add(0, false, s.slot[0]), list.add(1, true, s.slot[0]);
        if (s.mask & kKL) list.add(2, false, s.slot[1]), list.add(-2, true, s.slot[1]);
        if (s.mask & kFro) list.add(3, false, s.slot[2]), list.add(5, true, s.slot[2]);
        return list;
    }
    if (s.mode == Mode::weighted) {
        list.add(0, false, 0);
        if ((s.mask & kIS) || s.others) list.add(1, true, 0);
    } else if (s.mode == Mode::separate) {
        if (s.mask & kIS) list.add(0, false, s.slot[0]), list.add(1, true, s.slot[0]);
        if (s.mask & kKL) list.add(2, false, s.slot[1]);
        if (s.mask & kFro) list.add(s.mask & kIS ? 3 : -1, false, s.slot[2]);
    }
    return list;
}

inline size_t product_count(const Sweep& s) {
    return size_t(products(s).count) + (s.mode == Mode::separate ? 2 * size_t(s.others) : 0);
}

// Buffers of one thread, from one allocation; everything starts on a cache line.
template <class T>
struct Scratch {
    static constexpr size_t tile = size_t(kTileRows) * kTileColumns<T>;
    T *V, *log_v, *X, *M, *Z[6], *right, *sums, *pair_sums;
    int64_t* cursors;

    Scratch(const Sweep& s, char* p) {
        auto take = [&p](size_t count) {
            T* at = reinterpret_cast<T*>(p);
            p += count * sizeof(T);
            return at;
        };
        V = take(tile), log_v = take(tile), X = take(tile), M = take(tile);
        for (T*& z : Z) z = take(tile);
        right = take(s.panel * right_size(s));
        sums = take(s.panel * product_count(s) * right_size(s));
        pair_sums = take(s.panel * s.curvature.pairs * kTileColumns<T>);
        cursors = reinterpret_cast<int64_t*>(p);
    }
    static size_t right_size(const Sweep& s) { return s.r * kTileColumns<T>; }
    static size_t bytes(const Sweep& s) {
        size_t panel = (1 + product_count(s)) * right_size(s) + s.curvature.pairs * kTileColumns<T>;
        return sizeof(T) * (10 * tile + s.panel * panel) + 8 * kTileColumns<T>;
    }
};

// The negative binomial's loss comes with its terms, where there are any.
inline bool loss_with_terms(const Sweep& s, const Other& other) {
    return other.loss.family == Family::negative_binomial && s.mode != Mode::none;
}

template <class T>
inline void other_losses(const Sweep& s, const Tile<T>& t, double* losses) {
    for (int p = 0; p < s.others; ++p) {
        const Loss& loss = s.other[p].loss;
        if (!s.losses || loss_with_terms(s, s.other[p])) continue;
        losses[3 + p] += loss.family == Family::beta
                             ? power_loss(s, t, loss.parameter)
                             : negative_binomial<T, false, true>(s, t, loss.parameter, 1.0, false, false);
    }
}

template <class T>
inline void other_terms(const Sweep& s, const Tile<T>& t, int p, double weight, bool add_N, bool add_P,
                        double* losses) {
    const Other& other = s.other[p];
    if (!loss_with_terms(s, other)) return power_terms(s, t, other.loss.parameter, weight, add_N, add_P);
    auto* run = s.losses ? negative_binomial<T, true, true> : negative_binomial<T, true, false>;
    losses[3 + p] += run(s, t, other.loss.parameter, weight, add_N, add_P);
}

template <class T>
struct DenseBlock {
    static constexpr int TN = kTileColumns<T>, TM = kTileRows, L = kLanes<T>;
    const Sweep& s;
    Scratch<T> b;
    Products list;
    Terms<T> terms_of;
    const Block& at;
    size_t all_products, pairs, right_size, tiles;
    double* losses;
    bool needs_model;
    Observer<T> observer;
    Prefetch<T> next;
    int steps;  // of the products of a tile

    DenseBlock(const Sweep& sweep, size_t block, char* scratch, double* out)
        : s(sweep), b(sweep, scratch), list(products(sweep)), at(sweep.block[block]), losses(out),
          observer(sweep, b.X) {
        terms_of = choose_terms<T>(s.mask, s.mode, s.losses);
        all_products = product_count(s);
        right_size = Scratch<T>::right_size(s);
        needs_model = s.weights.given || (s.mask & (kIS | kKL)) || s.others || s.losses;
        pairs = s.curvature.pairs;
        int groups = (TN / L + kVectorsInRegisters - 1) / kVectorsInRegisters;
        steps = groups * (int(all_products) * gemm_steps(int(s.r), TM) + (needs_model ? gemm_steps(TM, int(s.r)) : 0) +
                          gemm_steps(int(pairs), TM));
        tiles = (at.column_end - at.column + TN - 1) / TN;
    }

    size_t column(size_t j) const { return at.column + j * TN; }
    size_t columns(size_t j) const { return least(size_t(TN), at.column_end - column(j)); }
    size_t left_tile(size_t i) const { return at.tile + (i - at.row) / TM; }
    int vectors(size_t j) const { return int((columns(j) + L - 1) / L); }
    T* sums(size_t j, size_t product) const { return b.sums + (j * all_products + product) * right_size; }
    Operand<T> left(size_t i, bool transposed) const {
        size_t tile = left_tile(i);
        const T* p = tile < s.whole ? static_cast<const T*>(s.left) + tile * TM * s.r  // r x TM
                                    : static_cast<const T*>(s.rest) + (tile - s.whole) * TM * s.r;
        return transposed ? Operand<T>{p, TM, 1} : Operand<T>{p, 1, TM};
    }
    Operand<T> left_pairs(size_t i) const {
        return {static_cast<const T*>(s.curvature.left) + left_tile(i) * TM * pairs, TM, 1};
    }
    T* pair_sums(size_t j) const { return b.pair_sums + j * pairs * TN; }
    Operand<T> right(size_t j) const { return {b.right + j * right_size, TN, 1}; }

    void run() {
        pack_right();
        memset(b.sums, 0, tiles * all_products * right_size * sizeof(T));
        memset(b.pair_sums, 0, tiles * pairs * TN * sizeof(T));
        Source<T> source(s, b.X, b.cursors);
        if (s.x.layout == Layout::rows) {
            // Row pieces of the whole panel are read side by side, so that a cache line is fetched once; they are asked
            // for a whole panel of tiles ahead, which leaves memory the most time.
            for (size_t i = at.row; i < at.row_end; i += TM)
                for (size_t j = 0; j < tiles; ++j) {
                    if (s.stopped(s.stop_context)) return;
                    next = source.prefetch(least(i + TM, at.row_end), column(j), steps, !needs_model);
                    tile(source, i, j);
                }
        } else {
            for (size_t j = 0; j < tiles; ++j) {
                source.start_columns(at.row, column(j), columns(j));
                for (size_t i = at.row; i < at.row_end; i += TM) {
                    if (s.stopped(s.stop_context)) return;
                    next = source.prefetch(least(i + TM, at.row_end), column(j), steps, false);
                    tile(source, i, j);
                }
            }
        }
        for (size_t j = 0; j < tiles; ++j) write(j);
    }

    // H of the panel, tile by tile, r x TN each; columns beyond n are zero.
    void pack_right() {
        const T* H = static_cast<const T*>(s.right);
        for (size_t j = 0; j < tiles; ++j)
            for (size_t k = 0; k < s.r; ++k) {
                T* to = b.right + j * right_size + k * TN;
                const T* from = H + k * s.n + column(j);
                size_t count = columns(j);
                memcpy(to, from, count * sizeof(T));
                for (size_t c = count; c < size_t(TN); ++c) to[c] = T(0);
            }
    }

    void tile(Source<T>& source, size_t i, size_t j) {
        Tile<T> t;
        t.rows = int(least(size_t(TM), at.row_end - i));
        t.vectors = vectors(j);
        t.V = b.V, t.log_v = b.log_v, t.M = s.weights.given ? b.M : nullptr;
        for (int z = 0; z < 6; ++z) t.Z[z] = b.Z[z];
        if (s.others == 1 && !s.mask) t.Z[1] = t.V;  // nothing reads V after these terms: one buffer less in the cache
        source.tile(i, column(j), columns(j), t);
        if (needs_model) gemm<T>(t.rows, int(s.r), t.vectors, left(i, false), right(j), b.V, TN, false, next);
        if (t.M) observer.observe(t, i, column(j), columns(j));
        if (terms_of && needs_model) terms_of(s, t, losses);
        if (s.logs) log_model(s, t);
        other_losses<T>(s, t, losses);
        if (pairs) {
            curvature_terms(s, t);
            gemm<T>(int(pairs), t.rows, t.vectors, left_pairs(i), {t.Z[4], TN, 1}, pair_sums(j), TN, true, next);
        }
        if (s.mode == Mode::weighted)
            for (int p = 0; p < s.others; ++p)
                other_terms<T>(s, t, p, s.other[p].weight, p || s.mask, p || (s.mask & (t.M ? 7 : kIS)), losses);
        for (int p = 0; p < list.count; ++p) accumulate(t, i, list.item[p].z, sums(j, size_t(p)));
        if (s.mode == Mode::separate)
            for (int p = 0; p < s.others; ++p) {
                other_terms<T>(s, t, p, 1.0, false, false, losses);
                accumulate(t, i, 0, sums(j, size_t(list.count + 2 * p)));
                accumulate(t, i, 1, sums(j, size_t(list.count + 2 * p + 1)));
            }
    }

    void accumulate(const Tile<T>& t, size_t i, int z, T* to) {
        Operand<T> Z = z == -1 ? Operand<T>{t.X, t.ldx, 1} : Operand<T>{z < 0 ? t.M : t.Z[z], TN, 1};
        gemm<T>(int(s.r), t.rows, t.vectors, left(i, true), Z, to, TN, true, next);
    }

    T* output(void* base, int slot, size_t k, size_t j) const {
        return static_cast<T*>(base) + ((at.chunk * s.slots + size_t(slot)) * s.r + k) * s.n + column(j);
    }
    void copy_out(void* base, int slot, size_t j, const T* from) {
        for (size_t k = 0; k < s.r; ++k) memcpy(output(base, slot, k, j), from + k * TN, columns(j) * sizeof(T));
    }

    void write_curvature(size_t j) {
        T *to = static_cast<T*>(s.curvature.Q) + at.chunk * pairs * s.n + column(j), *from = pair_sums(j);
        if (s.curvature.of_part)
            for (size_t k = 0; k < pairs * TN; ++k) from[k] *= T(s.curvature.of_part[at.part]);
        for (size_t k = 0; k < pairs; ++k, to += s.n, from += TN) memcpy(to, from, columns(j) * sizeof(T));
    }

    void write(size_t j) {
        write_curvature(j);
        if (s.mode == Mode::none) return;
        T* known = sums(j, 0);  // P_1 and P_2 parts; borrowed once the first product is written
        bool has_P = false;
        for (size_t p = 0; p < all_products; ++p) {
            bool other = p >= size_t(list.count);
            bool positive = other ? (p - size_t(list.count)) % 2 : list.item[p].positive;
            int slot = other ? s.other[(p - size_t(list.count)) / 2].slot : list.item[p].slot;
            has_P |= positive && s.mode == Mode::weighted;
            if (!other && list.item[p].z == -1) scale_products(j, sums(j, p));
            if (!positive || s.mode == Mode::separate) copy_out(positive ? s.P : s.N, slot, j, sums(j, p));
        }
        if (s.mode == Mode::weighted) {
            if (has_P) known = sums(j, 1);
            else memset(known, 0, right_size * sizeof(T));
            add_known(j, known, s.mask & kKL, s.mask & kFro);
            copy_out(s.P, 0, j, known);
            return;
        }
        for (int beta = 1; beta <= 2; ++beta) {
            if (!s.positive || s.weights.given || !(s.mask & (1 << beta))) continue;
            memset(known, 0, right_size * sizeof(T));
            add_known(j, known, beta == 1, beta == 2);
            copy_out(s.P, s.slot[beta], j, known);
        }
    }

    // W'X of tiles that were used where they are: X is multiplied here, r times n numbers instead of m times n.
    void scale_products(size_t j, T* to) const {
        if (s.scale == 1.0 || !Source<T>::in_place(s, columns(j))) return;
        for (size_t at = 0; at < right_size; ++at) to[at] *= T(s.scale);
    }

    // P_1 = (1'W)' and P_2 = (W'W)H, already weighted, belong to no row in particular.
    void add_known(size_t j, T* to, bool kl, bool frobenius) {
        if (!at.first || s.weights.given) return;
        if (frobenius) {
            const T* gram = static_cast<const T*>(s.gram) + at.sums * s.r * s.r;
            gemm<T>(int(s.r), int(s.r), vectors(j), {gram, ptrdiff_t(s.r), 1}, right(j), to, TN, true);
        }
        if (kl)
            for (size_t k = 0; k < s.r; ++k)
                for (int c = 0; c < TN; ++c) to[k * TN + size_t(c)] += T(s.column_sums[at.sums * s.r + k]);
    }
};

}  // namespace drnmf::DRNMF_ISA_NAME
