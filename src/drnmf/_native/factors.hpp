// Small work around a sweep: factors packed the way the kernels read them, Gram matrices, sums.
#pragma once

#include "kernels.hpp"
#include "vmath.hpp"

namespace drnmf::DRNMF_ISA_NAME {

// At most kTileRows rows of W (component-first, r x m) as one r x kTileRows block; missing rows are zero.
template <class T>
inline void pack_left(const T* left, size_t m, size_t r, size_t begin, size_t end, T* out) {
    size_t rows = least(size_t(kTileRows), end - begin);
    for (size_t k = 0; k < r; ++k) {
        T* to = out + k * kTileRows;
        memcpy(to, left + k * m + begin, rows * sizeof(T));
        for (size_t i = rows; i < size_t(kTileRows); ++i) to[i] = T(0);
    }
}

// The same for the products w_k w_l, l <= k, as one r (r + 1) / 2 x kTileRows block.
template <class T>
inline void pack_pairs(const T* left, size_t m, size_t r, size_t begin, size_t end, T* out) {
    size_t rows = least(size_t(kTileRows), end - begin);
    T* to = out;
    for (size_t k = 0; k < r; ++k)
        for (size_t l = 0; l <= k; ++l, to += kTileRows) {
            const T *a = left + k * m + begin, *b = left + l * m + begin;
            for (size_t i = 0; i < rows; ++i) to[i] = a[i] * b[i];
            for (size_t i = rows; i < size_t(kTileRows); ++i) to[i] = T(0);
        }
}

// Items begin ... end of a component-first factor (r x length), item by item, padded with zeros to whole vectors.
template <class T>
inline void pack_items(const T* factor, size_t length, size_t r, size_t padded, size_t begin, size_t end, T* out) {
    constexpr size_t L = kLanes<T>;
    size_t i = begin;
    for (; i + L <= end; i += L)
        for (size_t k = 0; k < padded; k += L) {
            Vec<T> square[L];
#pragma GCC unroll 16
            for (size_t l = 0; l < L; ++l) square[l] = k + l < r ? load(factor + (k + l) * length + i) : Vec<T>{};
            transpose_stage<T, int(L) / 2>(square);
#pragma GCC unroll 16
            for (size_t l = 0; l < L; ++l) store(out + (i + l) * padded + k, square[l]);
        }
    for (; i < end; ++i)
        for (size_t k = 0; k < padded; ++k) out[i * padded + k] = k < r ? factor[k * length + i] : T(0);
}

// Adds rows a times rows b, over columns begin ... end of a factor (r x length), in float64.
template <class T, int Rows, int Columns>
inline void gram_block(const T* a, const T* b, size_t length, size_t begin, size_t end, double* out, size_t r) {
    constexpr size_t L = kLanes<double>;
    Vec<double> sum[Rows][Columns] = {};
    size_t i = begin;
    for (; i + L <= end; i += L) {
        Vec<double> y[Columns];
        for (int l = 0; l < Columns; ++l) y[l] = load_double(b + size_t(l) * length + i);
        for (int k = 0; k < Rows; ++k) {
            Vec<double> x = load_double(a + size_t(k) * length + i);
            for (int l = 0; l < Columns; ++l) sum[k][l] += x * y[l];
        }
    }
    for (int k = 0; k < Rows; ++k)
        for (int l = 0; l < Columns; ++l) {
            double total = sum_lanes(sum[k][l]);
            for (size_t at = i; at < end; ++at)
                total += double(a[size_t(k) * length + at]) * double(b[size_t(l) * length + at]);
            out[size_t(k) * r + size_t(l)] += total;
        }
}

// The same for rows x columns of it, each at most Rows.
template <class T, int Rows>
inline void gram_corner(int rows, int columns, const T* a, const T* b, size_t length, size_t begin, size_t end,
                        double* out, size_t r) {
    if constexpr (Rows > 1) {
        if (rows < Rows) return gram_corner<T, Rows - 1>(rows, columns, a, b, length, begin, end, out, r);
    }
    int l = 0;
    for (; l + Rows <= columns; l += Rows)
        gram_block<T, Rows, Rows>(a, b + size_t(l) * length, length, begin, end, out + l, r);
    for (; l < columns; ++l) gram_block<T, Rows, 1>(a, b + size_t(l) * length, length, begin, end, out + l, r);
}

// Adds F F' and F 1 over columns begin ... end of a factor F; lower triangle only.
template <class T>
inline void gram(const T* factor, size_t length, size_t r, size_t begin, size_t end, double* out, double* sums) {
    constexpr size_t slice = 2048;  // of all components stays in cache
    constexpr int B = kVectorBytes == 64 ? 4 : 3;
    for (size_t start = begin; start < end; start += slice) {
        size_t stop = least(start + slice, end);
        for (size_t k = 0; k < r; ++k) {
            Vec<double> sum{};
            size_t i = start;
            for (; i + kLanes<double> <= stop; i += kLanes<double>) sum += load_double(factor + k * length + i);
            sums[k] += sum_lanes(sum);
            for (; i < stop; ++i) sums[k] += double(factor[k * length + i]);
        }
        if (!out) continue;
        for (size_t k = 0; k < r; k += B)
            for (size_t l = 0; l <= k; l += B)
                gram_corner<T, B>(int(least(size_t(B), r - k)), int(least(size_t(B), r - l)), factor + k * length,
                                  factor + l * length, length, start, stop, out + k * r + l, r);
    }
}

template <class T>
inline void add(T* to, const T* from, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

// <a, b>, products and sums in float64.
template <class T>
inline double dot(const T* a, const T* b, size_t count) {
    constexpr size_t L = kLanes<double>;
    Vec<double> sum{};
    size_t i = 0;
    for (; i + L <= count; i += L) sum += load_double(a + i) * load_double(b + i);
    double total = sum_lanes(sum);
    for (; i < count; ++i) total += double(a[i]) * double(b[i]);
    return total;
}

// Entries begin ... end of the multiplicative step; an entry without a slope (P = 0, or N/P infinite) stays; a
// NaN stays one.
template <class T>
inline void multiplicative(const Multiplicative& q, size_t begin, size_t end) {
    constexpr size_t L = kLanes<T>;
    const T *F = static_cast<const T*>(q.F), *N = static_cast<const T*>(q.N), *P = static_cast<const T*>(q.P);
    T* out = static_cast<T*>(q.out);
    const Vec<T> floor = broadcast(T(q.floor)), largest = broadcast(T(__builtin_inf()));
    for (size_t i = begin; i < end; i += L) {
        size_t count = least(L, end - i);
        T tail[3][L] = {};
        auto at = [&](const T* from, int which) {
            if (count == L) return load(from);
            memcpy(tail[which], from, count * sizeof(T));
            return load(tail[which]);
        };
        Vec<T> n{}, p{};
        for (size_t b = 0; b < q.count; ++b) {
            const T c = T(q.coefficients[b]);
            n += c * at(N + b * q.size + i, 0);
            p += c * at(P + b * q.size + i, 1);
        }
        Vec<T> ratio = n / p;
        Vec<T> moved = larger<T>(floor, at(F + i, 2) * (((p == T(0)) | (ratio == largest)) ? broadcast(T(1)) : ratio));
        if (count == L) store(out + i, moved);
        else store(tail[2], moved), memcpy(out + i, tail[2], count * sizeof(T));
    }
}

template <class T>
inline Moments moments(const T* x, size_t count, double scale) {
    constexpr size_t L = kLanes<double>;
    Vec<double> sum{}, squares{};
    size_t zeros = 0, i = 0;
    for (; i + L <= count; i += L) {
        Vec<double> v = load_double(x + i) * scale;
        sum += v;
        squares += v * v;
    }
    Moments out{sum_lanes(sum), sum_lanes(squares), 0};
    for (; i < count; ++i) {
        double v = double(x[i]) * scale;
        out.sum += v;
        out.squares += v * v;
    }
    for (i = 0; i < count; ++i) zeros += x[i] == T(0);
    out.zeros = zeros;
    return out;
}

template <class T, Vec<T> (*function)(Vec<T>)>
inline void apply(const T* x, T* out, size_t count) {
    constexpr size_t L = kLanes<T>;
    for (size_t i = 0; i < count; i += L) {
        T buffer[L] = {};
        memcpy(buffer, x + i, least(L, count - i) * sizeof(T));
        store(buffer, function(load(buffer)));
        memcpy(out + i, buffer, least(L, count - i) * sizeof(T));
    }
}

}  // namespace drnmf::DRNMF_ISA_NAME
