// Tiles of X, whatever its layout: rows side by side are used in place, anything else is copied into a small buffer
// as rows. Columns beyond n hold the smallest model value, so that x = v there and they add nothing to a loss.
#pragma once

#include "terms.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// The next tile, fetched a few strips at a time while this one is worked on: its strips are too short for the
// hardware to guess, and all of them at once would wait for each other.
template <class T>
struct Prefetch {
    const T* p = nullptr;
    ptrdiff_t stride = 0;
    int left = 0, length = 0, portion = 0;
    DRNMF_INLINE void operator()() {
        for (int n = least(portion, left); n > 0; --n, --left, p += stride)
            for (int c = 0; c < length; c += 64 / int(sizeof(T))) __builtin_prefetch(p + c);
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

    void tile(size_t row, int rows, size_t column, size_t count, const T*& X, ptrdiff_t& ldx) {
        const T* corner = values + ptrdiff_t(row) * s.x.row_stride + ptrdiff_t(column) * s.x.column_stride;
        bool whole = count == size_t(TN);
        if (s.x.layout == Layout::rows && whole) {
            X = corner;
            ldx = s.x.row_stride;
            return;
        }
        X = buffer;
        ldx = TN;
        if (!whole)
            for (int at = 0; at < rows * TN; ++at) buffer[at] = T(s.floor);
        if (s.x.layout == Layout::columns) {
            transpose(corner, s.x.column_stride, int(count), rows, buffer, TN);
        } else if (s.x.layout == Layout::compressed) {
            scatter(row, rows, column, count);
        } else {
            for (int i = 0; i < rows; ++i)
                for (size_t c = 0; c < count; ++c)
                    buffer[i * TN + int(c)] = corner[i * s.x.row_stride + ptrdiff_t(c) * s.x.column_stride];
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

    // The tile at (row, column_tile), asked for in `calls` portions; nothing for a tile at the edge.
    Prefetch<T> prefetch(size_t row, size_t column_tile, size_t row_end, int calls) const {
        size_t column = column_tile * TN;
        Prefetch<T> ask;
        if (row + kTileRows > row_end || column + TN > s.n) return ask;
        ask.p = values + ptrdiff_t(row) * s.x.row_stride + ptrdiff_t(column) * s.x.column_stride;
        if (s.x.layout == Layout::rows) ask.stride = s.x.row_stride, ask.left = kTileRows, ask.length = TN;
        if (s.x.layout == Layout::columns) ask.stride = s.x.column_stride, ask.left = TN, ask.length = kTileRows;
        ask.portion = (ask.left + calls - 1) / calls;
        return ask;
    }
};

}  // namespace drnmf::DRNMF_ISA_NAME
