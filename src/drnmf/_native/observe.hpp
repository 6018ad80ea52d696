// The weights of a tile, and X where they are zero: x = v there, so that every term of it is finite and every loss
// nought.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// The finalizer of MurmurHash3, as backends/observed.py has it.
DRNMF_INLINE uint32_t mixed(uint32_t word) {
    word ^= word >> 16, word *= 0x85ebca6bu;
    word ^= word >> 13, word *= 0xc2b2ae35u;
    return word ^ word >> 16;
}

DRNMF_INLINE bool is_kept(const Weights& w, uint32_t row, uint32_t column) {
    uint32_t sum = row + column;
    bool held_out = w.classes ? sum == 0 || sum == w.classes : mixed(row ^ column) < w.threshold;
    return held_out == w.inverted;
}

// to[c] *= whether an entry of this row is kept. Hashing and choosing are loops of their own, so that both become
// vectors.
template <class T>
inline void times_mask(const Weights& w, uint32_t row, const uint32_t* columns, T* to) {
    constexpr int TN = kTileColumns<T>;
    const uint32_t threshold = w.threshold, classes = w.classes, held = w.inverted;
    uint32_t out[TN];
    if (classes)
        for (int c = 0; c < TN; ++c) out[c] = (row + columns[c] == 0) | (row + columns[c] == classes);
    else
        for (int c = 0; c < TN; ++c) out[c] = mixed(row ^ columns[c]) < threshold;
    for (int c = 0; c < TN; ++c) to[c] = out[c] == held ? to[c] : T(0);
}

// x = v and m = 0 where an entry is not observed.
template <class T>
inline void clear_unseen(const T* X, T scale, const T* V, T floor, int vectors, T* x, T* M) {
    constexpr int L = kLanes<T>;
    for (int c = 0; c < vectors * L; c += L) {
        Vec<T> a = load(X + c) * scale, m = load(M + c), v = larger<T>(load(V + c), broadcast(floor));
        auto seen = (a - a == T(0)) & (m > T(0));
        store(x + c, seen ? a : v);
        store(M + c, seen ? m : Vec<T>{});
    }
}

// The tile at (row, column) with `count` columns: t.X, which is copied to `buffer`, and t.M.
template <class T>
struct Observer {
    static constexpr int TN = kTileColumns<T>;
    const Sweep& s;
    T* buffer;
    T columns[TN];
    uint32_t codes[TN];

    Observer(const Sweep& sweep, T* tile_buffer) : s(sweep), buffer(tile_buffer) {}

    void observe(Tile<T>& t, size_t row, size_t column, size_t count) {
        const Weights& w = s.weights;
        for (size_t c = 0; c < size_t(TN); ++c) {
            bool inside = c < count;
            columns[c] = !inside ? T(0) : w.columns ? static_cast<const T*>(w.columns)[column + c] : T(1);
            codes[c] = inside && w.column_codes ? w.column_codes[column + c] : 0;
        }
        const T* rows = static_cast<const T*>(w.rows);
        if (w.values) copy_values(t, row, column, count);
        for (int i = 0; i < t.rows; ++i) {
            T* M = t.M + i * TN;
            const T u = rows ? rows[row + size_t(i)] : T(1);
            if (w.values)
                for (int c = 0; c < TN; ++c) M[c] *= u * columns[c];
            else
                for (int c = 0; c < TN; ++c) M[c] = u * columns[c];
            if (w.row_codes) times_mask<T>(w, w.row_codes[row + size_t(i)], codes, M);
            clear_unseen<T>(t.X + i * t.ldx, t.scale, t.V + i * TN, T(s.floor), t.vectors, buffer + i * TN, M);
        }
        t.X = buffer, t.ldx = TN, t.scale = T(1);
    }

    void copy_values(Tile<T>& t, size_t row, size_t column, size_t count) {
        const Weights& w = s.weights;
        const T* corner =
            static_cast<const T*>(w.values) + ptrdiff_t(row) * w.row_stride + ptrdiff_t(column) * w.column_stride;
        if (w.column_stride == 1) {
            for (int i = 0; i < t.rows; ++i) memcpy(t.M + i * TN, corner + i * w.row_stride, count * sizeof(T));
        } else if (w.row_stride == 1) {
            transpose(corner, w.column_stride, int(count), t.rows, t.M, TN);
        } else {
            for (int i = 0; i < t.rows; ++i)
                for (size_t c = 0; c < count; ++c)
                    t.M[i * TN + int(c)] = corner[i * w.row_stride + ptrdiff_t(c) * w.column_stride];
        }
        for (int i = 0; i < t.rows; ++i)
            for (size_t c = count; c < size_t(TN); ++c) t.M[i * TN + int(c)] = T(0);
    }
};

}  // namespace drnmf::DRNMF_ISA_NAME
