// What the driver (sweep.cpp, compiled once) and the kernels (compiled once per instruction set) say to each other:
// plain structs and function pointers.
//
// In a sweep for H: X is m x n, `left` is W (m x r) and is reduced over, `right` is H (r x n) and owns the outputs.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace drnmf {

constexpr int kTileRows = 64;       // rows of X in a tile
constexpr int kTileRowBytes = 192;  // columns of X in a tile, in bytes: three cache lines

enum class Layout : int { rows, columns, strided, compressed };  // where entries of X are neighbours
enum class Mode : int { none, separate, weighted };              // which parts are wanted

constexpr int kIS = 1, kKL = 2, kFro = 4;  // bits of `mask`

struct Matrix {
    Layout layout;
    const void* values;
    ptrdiff_t row_stride, column_stride;  // in entries (dense)
    const void *starts, *indices;         // by column (compressed)
    bool wide;                            // 64-bit starts and indices
};

// Weights of the entries of X, M = values * rows columns' * mask, in the working dtype; null stands for ones. Entries
// of X that are not finite weigh nothing. `mask`: by classes, an entry is held out where its codes add up to 0 modulo
// their number; else where the mixed exclusive or of its codes is below the threshold (backends/observed.py).
struct Weights {
    bool given;                           // false: every entry counts once
    const void* values;                   // dense X: m x n
    ptrdiff_t row_stride, column_stride;  // of the values, in entries
    const void* stored;                   // compressed X: one for every stored entry
    const void *rows, *columns;           // m, n
    const uint32_t *row_codes, *column_codes;
    uint32_t threshold, classes;
    bool inverted;  // held-out entries are the observed ones
};

// A loss as kernels see it: the id of its family (the order of native.py's table) and its parameter.
enum class Family : int { beta, negative_binomial };

struct Loss {
    Family family;
    double parameter;  // beta; the size of the negative binomial
    bool is(double beta) const { return family == Family::beta && parameter == beta; }
};

// Whether the powers of a beta are square roots.
inline bool half_way(double beta) { return beta == 0.5 || beta == 1.5; }

// A loss other than beta 0, 1, 2, and where its parts go.
struct Other {
    Loss loss;
    double weight;
    int slot;
    double bend;  // its coefficient in the curvature
};

// The curvature of the columns, sum_i w_i w_i' sum_b bend_b d''_b(x, v), without beta = 2 where entries have no
// weights: that part is W'W in every column then and is returned once.
struct Curvature {
    double bend[3];    // of beta 0, 1 and 2
    size_t pairs;           // r (r + 1) / 2 where it is wanted, else 0
    const void* left;       // products of pairs of components of W, packed like W (dense)
    void* Q;                // (r (r + 1) / 2, n), the lower triangle row by row
    const double* of_part;  // what that of every part is multiplied by; null: nothing (dense)
};

constexpr size_t pair_count(size_t r) { return r * (r + 1) / 2; }

// Columns and rows of X that are swept by one thread at a time: a panel of column tiles times a chunk of rows.
struct Block {
    size_t column, column_end, row, row_end;
    size_t tile;   // of packed W where the rows begin
    size_t chunk;  // which of the partial outputs is its own
    size_t part;   // which part of X it is of
    size_t sums;   // which of the sums over W belong to its rows
    bool first;    // of the chunks of its rows: adds what belongs to no row in particular
};

struct Sweep {
    size_t m, n, r;
    Matrix x;
    Weights weights;
    const void* left;   // packed, see pack_left: `whole` tiles of rows
    const void* rest;   // the tiles after them
    size_t whole;
    const void* right;  // r x n, component-first
    int mask;
    Mode mode;
    bool losses, positive;  // positive: P is wanted beside N
    double weight[3];       // of beta 0, 1, 2 (weighted)
    int slot[3];            // of beta 0, 1, 2 (separate)
    int others;
    const Other* other;
    bool logs;                    // whether any of them is a beta that needs log v
    double scale;                 // what entries of X are multiplied by as they are read (dense; a power of four)
    bool in_place;                // tiles that need no copy are read where they are
    double zero, floor, ceiling;  // what a zero of X counts as; bounds of V and of its powers
    const double* column_sums;    // 1'W (r) of every part of the rows, times weight[1] when weighted
    const void* gram;             // W'W (r x r) of each, working dtype, times weight[2] when weighted
    Curvature curvature;
    // Outputs: (slots, r, n) each, one for every chunk of rows.
    void *N, *P;
    size_t slots;
    // The plan: a block has at most `panel` tiles of columns and one of `chunks` ranges of rows. It depends on the
    // shapes alone, never on the number of threads.
    size_t panel, chunks, blocks;
    const Block* block;
    size_t loss_count;  // 3 + others
    // Where the stored entries alone are swept: left and right are item-first (see SparseSweep), and blocks are
    // columns.
    size_t padded;
    const size_t* bounds;
    bool (*stopped)(void*);
    void* stop_context;
};

struct SparseSweep {
    size_t m, n, r, padded;  // padded: r rounded up to whole vectors
    Matrix x;
    const void *left, *right;  // W item-first, m x padded; H component-first, r x n
    int mask;
    Mode mode;
    bool losses, positive;
    bool exact;  // the norm of V from V in float64
    double weight[3];
    int slot[3];
    double floor, ceiling;
    const double* column_sums;
    const void* gram;
    Curvature curvature;
    void *N, *P;
    const size_t* bounds;  // columns of block b: bounds[b] to bounds[b + 1]
    bool (*stopped)(void*);
    void* stop_context;
};

// Sums a sparse sweep yields per block.
enum SparseSum : int { kSumKL, kSumResidual, kSumModel, kSparseSums };

// min over h >= floor of (P - N)'(h - f) + 1/2 (h - f)'(Q + G)(h - f) in every column, by coordinate descent from F.
struct Quadratic {
    size_t r, n;
    const void *F, *N, *P, *Q;
    const void* shared;     // G packed like one column of Q, working dtype; null: none
    double floor, largest;  // bounds of the new block and of the scale: beyond, the multiplicative step is taken
    double scale;           // the slope is multiplied by it; zero: by F'QF / F'P of each column
    int passes;
    void* out;  // (r, n)
    bool (*stopped)(void*);
};

// min over h >= floor of 1/2 h'Gh - N'h in every column, by coordinate descent from F; then, where `last` is given, on
// from last to beyond what was found, in the columns where that is not above F.
struct Hals {
    size_t r, n;
    const void *F, *N;
    const void* G;  // see pack_shared
    double floor;
    int passes;
    const void* last;         // (r, n) or null
    double pace;              // how far beyond, as a fraction of the way from last
    void *stepped, *further;  // (r, n) each, the second only beside last
    bool (*stopped)(void*);
};

// min over h >= floor, sum h = sum f of slope'(h - f) + 1/2 (h - f)'M(h - f) in every column, by moves of two entries,
// M = diag(sizes) (shared + Q) diag(sizes); what is null is left out. Where `last` is given the model is
// 1/2 h'Mh - slope'h, the columns are scaled to their totals and go on from last to beyond what was found.
struct Simplex {
    size_t r, n;
    const void *F, *slope, *Q, *sizes;  // (r, n), (r, n), packed, (r, n)
    const void* shared;                 // (r, r), working dtype
    double floor, tolerance;            // a column ends where its slopes agree to this fraction of the first difference
    int moves;
    void* out;                   // (r, n)
    const void *last, *totals;  // (r, n) and (n,)
    double pace;                // how far beyond, as a fraction of the way from last
    void* further;              // (r, n)
    bool (*stopped)(void*);
};

// max(floor, F t) of columns with given sums: sum P_a t^a - sum N_b t^-b + plus - minus + mu = 0, one mu a column.
struct Multiplier {
    size_t r, n;
    const void* F;             // (r, n), as are the parts
    const void *plus, *minus;  // what stands before t^0; null: nothing
    const void* const* terms;  // `rising` P_a, then `falling` N_b
    const double* exponents;   // a and b, > 0
    int rising, falling;
    const void* totals;       // (n,)
    double floor, tolerance;  // a column ends where its sum is this near to the total, and is scaled to it
    int steps;
    void* out;
    bool (*stopped)(void*);
};

// max(F * sum_b c_b N_b / sum_b c_b P_b, floor), as updates.py defines it; N and P hold `count` blocks of `size`
// entries.
struct Multiplicative {
    size_t size, count;
    const void *F, *N, *P;
    const double* coefficients;
    double floor;
    void* out;
};

struct Moments {
    double sum, squares;
    size_t zeros;
};

template <class T>
struct Kernels {
    size_t (*scratch)(const Sweep&);  // bytes a thread needs
    void (*dense)(const Sweep&, size_t block, char* scratch, double* losses);
    void (*pack_left)(const T* left, size_t m, size_t r, size_t begin, size_t end, T* out);
    void (*pack_pairs)(const T* left, size_t m, size_t r, size_t begin, size_t end, T* out);
    void (*quadratic)(const Quadratic& q, size_t begin, size_t end, char* scratch);
    void (*hals)(const Hals& q, size_t begin, size_t end, char* scratch);
    void (*pack_shared)(const double* G, size_t r, double smallest, T* out);  // r (r + 1) values
    void (*multiplicative)(const Multiplicative& q, size_t begin, size_t end);
    void (*gram)(const T* factor, size_t length, size_t r, size_t begin, size_t end, double* gram, double* sums);
    size_t (*sparse_scratch)(const SparseSweep&);
    void (*sparse)(const SparseSweep&, size_t block, char* scratch, double* sums);
    size_t (*stored_scratch)(const Sweep&);
    void (*stored)(const Sweep&, size_t block, char* scratch, double* losses);
    void (*pack_items)(const T* factor, size_t length, size_t r, size_t padded, size_t begin, size_t end, T* out);
    void (*add)(T* to, const T* from, size_t count);
    double (*dot)(const T* a, const T* b, size_t count);
    Moments (*moments)(const T* x, size_t count, double scale);
    void (*log)(const T* x, T* out, size_t count);
    void (*exp)(const T* x, T* out, size_t count);
    size_t (*hals_scratch)(const Hals& q);
    void (*simplex)(const Simplex& q, size_t begin, size_t end, char* scratch);
    size_t (*simplex_scratch)(const Simplex& q);
    void (*multiplier)(const Multiplier& q, size_t begin, size_t end, char* scratch);
    size_t lanes, group;  // columns of a vector, and of a group of hals
};

struct InstructionSet {
    const char* name;
    Kernels<float> f32;
    Kernels<double> f64;
};

template <class T>
const Kernels<T>& kernels(const InstructionSet& isa);
template <>
inline const Kernels<float>& kernels(const InstructionSet& isa) {
    return isa.f32;
}
template <>
inline const Kernels<double>& kernels(const InstructionSet& isa) {
    return isa.f64;
}

}  // namespace drnmf
