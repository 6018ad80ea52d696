// Tiles of X, whatever its layout: rows side by side are used in place, anything else is copied into a small buffer
// as rows, times the scale of the sweep; what is in place is multiplied where it is loaded. Columns beyond n hold the
// smallest model value, so that x = v there and they add nothing to a loss.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// The next tile, fetched a line or two at every step of the products of this one: its strips are too short for the
// hardware to guess, and many lines at once would wait for each other.
template <class T>
struct Prefetch {
    const T* p = nullptr;
    ptrdiff_t skip = 0;                              // from the end of a strip to the next
    int left = 0, line = 0, lines = 0, portion = 0;  // strips left; lines done and in all of a strip; lines at once
    bool far = false;                                // into the second cache level only
    DRNMF_INLINE void operator()() {
        if (!left) return;
        for (int n = 0; n < portion; ++n) {
            if (far) __builtin_prefetch(p, 0, 2);
            else __builtin_prefetch(p);
            p += 64 / sizeof(T);
            if (++line < lines) continue;
            p += skip, line = 0;
            if (!--left) return;
        }
    }
};

template <class T>
struct Source {
    static constexpr int TN = kTileColumns<T>;
    const Sweep& s;
    T* buffer;
    int64_t* cursors;
    const T* values;

    Source(const Sweep& sweep, T* tile_buffer, int64_t* column_cursors)
        : s(sweep), buffer(tile_buffer), cursors(column_cursors), values(static_cast<const T*>(sweep.x.values)) {}

    // Whether the tiles of a column of tiles are used where they are; all of them are, or none.
    static bool in_place(const Sweep& s, size_t count) { return s.in_place && count == size_t(TN); }

    int64_t start_of(size_t j) const {
        return s.x.wide ? static_cast<const int64_t*>(s.x.starts)[j] : static_cast<const int32_t*>(s.x.starts)[j];
    }
    int64_t row_of(int64_t at) const {
        return s.x.wide ? static_cast<const int64_t*>(s.x.indices)[at] : static_cast<const int32_t*>(s.x.indices)[at];
    }

    // Compressed columns are walked downwards: a cursor per column stands at its first entry not yet used.
    void start_columns(size_t row, size_t column, size_t count) {
        if (s.x.layout != Layout::compressed) return;
        for (size_t c = 0; c < count; ++c) {
            int64_t low = start_of(column + c), high = start_of(column + c + 1);
            while (low < high) {
                int64_t middle = (low + high) / 2;
                if (row_of(middle) < int64_t(row)) low = middle + 1;
                else high = middle;
            }
            cursors[c] = low;
        }
    }

    void tile(size_t row, size_t column, size_t count, Tile<T>& t) {
        const T* corner = values + ptrdiff_t(row) * s.x.row_stride + ptrdiff_t(column) * s.x.column_stride;
        const T scale = T(s.scale);
        const int rows = t.rows;
        if (in_place(s, count)) {
            t.X = corner, t.ldx = s.x.row_stride, t.scale = scale;
            return;
        }
        t.X = buffer, t.ldx = TN, t.scale = T(1);
        if (count != size_t(TN))
            for (int at = 0; at < rows * TN; ++at) buffer[at] = T(s.floor);
        if (s.x.layout == Layout::columns) {
            transpose(corner, s.x.column_stride, int(count), rows, buffer, TN, scale);
        } else if (s.x.layout == Layout::compressed) {
            scatter(row, rows, column, count);
        } else {
            for (int i = 0; i < rows; ++i)
                for (size_t c = 0; c < count; ++c)
                    buffer[i * TN + int(c)] = scale * corner[i * s.x.row_stride + ptrdiff_t(c) * s.x.column_stride];
        }
    }

    void scatter(size_t row, int rows, size_t column, size_t count) {
        for (int i = 0; i < rows; ++i) memset(buffer + i * TN, 0, count * sizeof(T));
        int64_t end_row = int64_t(row) + rows;
        for (size_t c = 0; c < count; ++c) {
            int64_t at = cursors[c], end = start_of(column + c + 1);
            for (; at < end && row_of(at) < end_row; ++at)
                buffer[(row_of(at) - int64_t(row)) * TN + int64_t(c)] = values[at];
            cursors[c] = at;
        }
    }

    // The tile at (row, column), asked for within `steps` calls; nothing for a tile at the edge. The first tile of the
    // next block is one too: small parts have few others.
    Prefetch<T> prefetch(size_t row, size_t column, int steps, bool far) const {
        Prefetch<T> ask;
        bool rows = s.x.layout == Layout::rows;
        if (row + kTileRows > s.m || column + TN > s.n || !(rows || s.x.layout == Layout::columns)) return ask;
        int length = rows ? TN : kTileRows;
        ask.p = values + ptrdiff_t(row) * s.x.row_stride + ptrdiff_t(column) * s.x.column_stride;
        ask.left = rows ? kTileRows : TN;
        ask.lines = length * int(sizeof(T)) / 64;
        ask.skip = (rows ? s.x.row_stride : s.x.column_stride) - length;
        ask.far = far;
        ask.portion = (ask.left * ask.lines + steps - 1) / steps;
        return ask;
    }
};

}  // namespace drnmf::DRNMF_ISA_NAME
