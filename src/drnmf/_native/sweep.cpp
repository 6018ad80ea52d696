#include "sweep.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>

#include "dispatch.hpp"
#include "pool.hpp"

namespace drnmf {
namespace {

constexpr std::size_t kBlocks = 64;             // enough to keep many threads busy, whatever their number
constexpr std::size_t kStrip = 3;               // tiles side by side: pieces of rows long enough for the memory system
constexpr std::size_t kPanelBytes = 384 << 10;  // factors and sums of a panel stay in the second cache level
// Products of W with X that is not scaled yet stay far from the ends of the dtype as long as the scale is within these.
template <class T>
constexpr double kLargestScale = sizeof(T) == 4 ? 0x1p20 : 0x1p300;
constexpr std::size_t kSmall = 1 << 15;  // entries below which waking a thread costs more than it brings

// Every block on its own thread's turn, or all on this one when there is little to do.
bool run(bool small, std::size_t blocks, const std::function<void(std::size_t, char*)>& task) {
    if (!small) return run_blocks(blocks, 0, task);
    for (std::size_t b = 0; b < blocks; ++b) task(b, nullptr);
    return true;
}

using Bounds = std::vector<std::size_t>;

struct Gram {
    std::vector<double> products, sums;  // F F' (r x r) and F 1 (r)
};

// Over a fixed number of slices, added in order.
template <class T>
Gram gram_of(const T* factor, std::size_t length, std::size_t r, bool products, std::size_t begin, std::size_t end) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::size_t count = end - begin, slices = std::clamp<std::size_t>(count / 4096, 1, kBlocks);
    std::size_t size = products ? r * r : 0;
    std::vector<double> partial(slices * (size + r), 0.0);
    run(count * r < kSmall, slices, [&](std::size_t b, char*) {
        double* at = partial.data() + b * (size + r);
        k.gram(factor, length, r, begin + count * b / slices, begin + count * (b + 1) / slices,
               products ? at : nullptr, at + size);
    });
    Gram out{std::vector<double>(size, 0.0), std::vector<double>(r, 0.0)};
    for (std::size_t b = 0; b < slices; ++b) {
        const double* at = partial.data() + b * (size + r);
        for (std::size_t i = 0; i < size; ++i) out.products[i] += at[i];
        for (std::size_t i = 0; i < r; ++i) out.sums[i] += at[size + i];
    }
    for (std::size_t i = 0; products && i < r; ++i)
        for (std::size_t j = i + 1; j < r; ++j) out.products[i * r + j] = out.products[j * r + i];
    return out;
}

template <class T>
Gram gram_of(const T* factor, std::size_t length, std::size_t r, bool products) {
    return gram_of(factor, length, r, products, 0, length);
}

// The same of every part, one after another.
template <class T>
Gram grams_of(const T* factor, std::size_t length, std::size_t r, bool products, const Bounds& bounds) {
    Gram all;
    for (std::size_t g = 0; g + 1 < bounds.size(); ++g) {
        Gram own = gram_of(factor, length, r, products, bounds[g], bounds[g + 1]);
        all.products.insert(all.products.end(), own.products.begin(), own.products.end());
        all.sums.insert(all.sums.end(), own.sums.begin(), own.sums.end());
    }
    return all;
}

// <a, b> over a fixed number of slices, added in order.
template <class T>
double dot_of(const T* a, const T* b, std::size_t size) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::size_t slices = std::clamp<std::size_t>(size / 4096, 1, kBlocks);
    std::vector<double> partial(slices, 0.0);
    run(size < kSmall, slices, [&](std::size_t at, char*) {
        std::size_t begin = size * at / slices;
        partial[at] = k.dot(a + begin, b + begin, size * (at + 1) / slices - begin);
    });
    return std::accumulate(partial.begin(), partial.end(), 0.0);
}

// The coefficient of a beta in the curvature.
double bend_of(const Request& q, double beta) {
    for (std::size_t i = 0; i < q.curvature.size(); ++i)
        if (q.omega[i].is(beta)) return q.curvature[i];
    return 0.0;
}

// What is wanted of the curvature; the part of beta = 2 is done with this.
template <class S>
void name_curvature(const Request& q, const std::vector<double>& gram, S& s) {
    for (int b = 0; b <= 2; ++b) s.curvature.bend[b] = bend_of(q, double(b));
    s.curvature.pairs = q.makes_Q() ? pair_count(q.r) : 0;
    for (std::size_t i = 0; q.makes_gram() && i < gram.size(); ++i) q.gram[i] = bend_of(q, 2.0) * gram[i];
}

// W'W in the working dtype, rows `stride` apart, weighted; several of them one after another.
template <class T>
std::vector<T> weighted_gram(const std::vector<double>& gram, std::size_t r, std::size_t stride, double weight) {
    std::size_t rows = gram.size() / r;
    std::vector<T> out(std::max(rows, r) * stride, T(0));
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < r; ++j) out[i * stride + j] = T(weight * gram[i * r + j]);
    return out;
}

// The bit of beta 0, 1 or 2; 0 for any other loss.
int bit_of(const Loss& loss) {
    for (int b = 0; b <= 2; ++b)
        if (loss.is(double(b))) return 1 << b;
    return 0;
}

// Losses other than beta 0, 1, 2, in their order.
std::vector<Other> others_of(const Request& q) {
    std::vector<Other> others;
    for (std::size_t i = 0; i < q.omega.size(); ++i)
        if (!bit_of(q.omega[i]))
            others.push_back({q.omega[i], q.weights.empty() ? 1.0 : q.weights[i], int(i),
                              q.curvature.empty() ? 0.0 : q.curvature[i]});
    return others;
}

// <H, N> comes with the parts, so the loss of beta = 2 needs no V.
bool by_identity(const Request& q) {
    return q.beta2_alone() && q.parts && q.losses && q.weights.empty() && !q.apart.across;
}

template <class S>
void name_parts(const Request& q, S& s) {
    s.m = q.m, s.n = q.n, s.r = q.r;
    s.x = q.x;
    s.mode = !q.parts ? Mode::none : q.weights.empty() ? Mode::separate : Mode::weighted;
    for (std::size_t i = 0; i < q.omega.size(); ++i) {
        s.mask |= bit_of(q.omega[i]);
        for (int b = 0; b <= 2; ++b)
            if (q.omega[i].is(double(b))) {
                s.slot[b] = int(i);
                s.weight[b] = q.weights.empty() ? 1.0 : q.weights[i];
            }
    }
    s.losses = q.losses && !by_identity(q);
    s.positive = q.parts && q.positive;
    s.floor = q.floor, s.ceiling = q.ceiling;
    s.stopped = stopped;
    s.stop_context = nullptr;
}

// 1/2 (||X||^2 - 2 <H, N> + <W'W, HH'>) of every part of the rows; false where that has lost its digits.
template <class T>
bool frobenius_identity(const Request& q, const Gram& left) {
    const T* H = static_cast<const T*>(q.right);
    Gram right = gram_of(H, q.n, q.r, true);
    std::size_t size = q.r * q.n;
    bool kept = true;
    for (std::size_t g = 0; g < q.row_parts(); ++g) {
        double squares = q.apart.bounds.empty() ? q.squared_norm : q.apart.squared_norms[g];
        double cross = dot_of(H, static_cast<const T*>(q.N) + g * size, size);
        double model = std::inner_product(right.products.begin(), right.products.end(),
                                          left.products.begin() + std::ptrdiff_t(g * q.r * q.r), 0.0);
        q.totals[g] = 0.5 * (squares - 2.0 * cross + model);
        kept = kept && q.totals[g] > q.identity_limit * squares;
    }
    return kept;
}

// The losses alone, from V.
Request direct(Request q) {
    q.parts = false;
    q.exact = true;
    q.curvature.clear();
    return q;
}

std::size_t tiles_in(std::size_t length, std::size_t width) { return (length + width - 1) / width; }

// The tiles of rows of every part, one after another.
std::vector<std::array<std::size_t, 2>> row_tiles_of(const Bounds& rows) {
    std::vector<std::array<std::size_t, 2>> tiles;
    for (std::size_t g = 0; g + 1 < rows.size(); ++g)
        for (std::size_t i = rows[g]; i < rows[g + 1]; i += kTileRows)
            tiles.push_back({i, std::min<std::size_t>(i + kTileRows, rows[g + 1])});
    return tiles;
}

struct Plan {
    std::vector<Block> blocks;
    Bounds chunks;  // those of part k of the rows are chunks[k] to chunks[k + 1]
};

// Shapes alone decide the blocks. Panels of columns own their outputs; where there are too few of them, rows are
// split as well and the partial results added in order. No block is of two parts.
Plan plan(Sweep& s, std::size_t item_size, std::size_t products, const Bounds& rows, const Bounds& columns) {
    std::size_t height = (products + 1) * s.r + s.curvature.pairs;
    std::size_t width = kTileRowBytes / item_size, column_tiles = tiles_in(s.n, width), parts = rows.size() - 1;
    std::size_t fits = std::max<std::size_t>(1, kPanelBytes / (height * kTileRowBytes));
    std::size_t strip = std::clamp<std::size_t>(column_tiles / (kBlocks / 2), 1, kStrip);
    s.panel = std::min(std::clamp<std::size_t>(column_tiles / kBlocks, strip, 16), fits);
    std::size_t panels = 0;
    for (std::size_t g = 0; g + 1 < columns.size(); ++g)
        panels += tiles_in(columns[g + 1] - columns[g], s.panel * width);
    std::size_t most = panels * parts >= kBlocks / 2 ? 1 : kBlocks / (panels * parts);
    std::vector<Block> of_rows;
    Plan made{{}, {0}};
    for (std::size_t g = 0, tile = 0; g < parts; ++g) {
        std::size_t tiles = tiles_in(rows[g + 1] - rows[g], kTileRows);
        std::size_t count = std::clamp<std::size_t>(tiles / 8, 1, most);
        for (std::size_t c = 0; c < count; ++c) {
            std::size_t begin = tiles * c / count, end = tiles * (c + 1) / count;
            of_rows.push_back({0, 0, rows[g] + begin * kTileRows, std::min(rows[g] + end * kTileRows, rows[g + 1]),
                               tile + begin, of_rows.size(), g, g, c == 0});
        }
        tile += tiles;
        made.chunks.push_back(of_rows.size());
    }
    for (std::size_t g = 0; g + 1 < columns.size(); ++g)
        for (std::size_t j = columns[g]; j < columns[g + 1]; j += s.panel * width)
            for (Block block : of_rows) {
                block.column = j, block.column_end = std::min(j + s.panel * width, columns[g + 1]);
                if (columns.size() > 2) block.part = g;
                made.blocks.push_back(block);
            }
    s.chunks = of_rows.size(), s.blocks = made.blocks.size();
    return made;
}

// Chunks begin to end of partial results, added in order.
template <class T>
bool add_chunks(std::size_t begin, std::size_t end, std::size_t size, const T* partial, T* out) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::size_t slices = std::clamp<std::size_t>(size / 4096, 1, kBlocks);
    return run(size * (end - begin) < kSmall, slices, [&](std::size_t b, char*) {
        std::size_t at = size * b / slices, count = size * (b + 1) / slices - at;
        std::copy_n(partial + begin * size + at, count, out + at);
        for (std::size_t c = begin + 1; c < end; ++c) k.add(out + at, partial + c * size + at, count);
    });
}

}  // namespace

bool Request::makes_gram() const {
    return !curvature.empty() && !observed.given &&
           std::any_of(omega.begin(), omega.end(), [](const Loss& loss) { return loss.is(2.0); });
}

bool Request::known_P() const {
    return !observed.given && weights.empty() && std::all_of(omega.begin(), omega.end(), [](const Loss& loss) {
        return loss.is(1.0) || loss.is(2.0);
    });
}

namespace {

// What sweeps over tiles know beside the parts.
void name_terms(const Request& q, const std::vector<Other>& others, Sweep& s) {
    name_parts(q, s);
    s.weights = q.observed;
    s.others = int(others.size());
    s.other = others.data();
    s.logs = std::any_of(others.begin(), others.end(),
                         [](const Other& o) { return o.loss.family == Family::beta && !half_way(o.loss.parameter); });
    s.scale = q.scale;
    s.zero = q.zero;
    s.slots = q.parts ? (q.weights.empty() ? q.omega.size() : 1) : 0;
    s.loss_count = 3 + others.size();
}

// Where a loss stands among those of a block: 0, 1 and 2 are their own, others follow in their order.
std::size_t place_of(const Loss& loss, std::size_t& other) {
    int bit = bit_of(loss);
    return bit ? std::size_t(bit >> 1) : other++;
}

// The losses of every part from those of its blocks, in order.
void add_losses_of_parts(const Request& q, const Sweep& s, const std::vector<double>& losses) {
    std::size_t other = 3, at = place_of(q.omega[0], other);
    std::fill_n(q.totals, q.apart.bounds.size() - 1, 0.0);
    for (std::size_t b = 0; b < s.blocks; ++b) q.totals[s.block[b].part] += losses[b * s.loss_count + at];
}

// The losses from those of every block, in order.
void add_losses(const Request& q, const Sweep& s, std::size_t blocks, const std::vector<double>& losses) {
    std::size_t other = 3;
    for (std::size_t i = 0; i < q.omega.size(); ++i) {
        std::size_t at = place_of(q.omega[i], other);
        double total = 0.0;
        for (std::size_t b = 0; b < blocks; ++b) total += losses[b * s.loss_count + at];
        q.totals[i] = total;
    }
}

}  // namespace

template <class T>
bool dense_sweep(const Request& q) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    Sweep s{};
    std::vector<Other> others = others_of(q);
    name_terms(q, others, s);

    Borrowed memory(*q.memory);
    const bool apart = !q.apart.bounds.empty();
    const Bounds rows = apart && !q.apart.across ? q.apart.bounds : Bounds{0, q.m};
    const Bounds columns = apart && q.apart.across ? q.apart.bounds : Bounds{0, q.n};
    const auto row_tiles = row_tiles_of(rows);
    const std::size_t tile_size = kTileRows * q.r;
    s.whole = q.spare ? q.m / kTileRows : 0;
    T *left = static_cast<T*>(q.spare), *rest = memory->left.reserve<T>((row_tiles.size() - s.whole) * tile_size);
    const T* factor = static_cast<const T*>(q.left);
    bool ok = run(q.m * q.r < kSmall, row_tiles.size(), [&](std::size_t b, char*) {
        k.pack_left(factor, q.m, q.r, row_tiles[b][0], row_tiles[b][1],
                    b < s.whole ? left + b * tile_size : rest + (b - s.whole) * tile_size);
    });
    s.left = left, s.rest = rest;
    s.right = q.right;
    Gram gram;
    if (!q.observed.given && (s.mask & (kKL | kFro))) gram = grams_of(factor, q.m, q.r, s.mask & kFro, rows);
    std::vector<T> gram_T = weighted_gram<T>(gram.products, q.r, q.r, s.weight[2]);
    std::vector<double> column_sums = gram.sums;
    for (double& sum : column_sums) sum *= s.weight[1];
    s.gram = gram_T.data();
    s.column_sums = column_sums.data();
    name_curvature(q, gram.products, s);
    if (s.curvature.pairs && apart) s.curvature.of_part = q.apart.coefficients.data();
    const std::size_t pairs_size = kTileRows * s.curvature.pairs;
    T* left_pairs = memory->pairs.reserve<T>(row_tiles.size() * pairs_size);
    const bool few = q.m * s.curvature.pairs < kSmall;
    ok = ok && (!s.curvature.pairs || run(few, row_tiles.size(), [&](std::size_t b, char*) {
             k.pack_pairs(factor, q.m, q.r, row_tiles[b][0], row_tiles[b][1], left_pairs + b * pairs_size);
         }));
    s.curvature.left = left_pairs;

    s.in_place = q.x.layout == Layout::rows && q.scale <= kLargestScale<T> && q.scale * kLargestScale<T> >= 1.0;
    const Plan planned = plan(s, sizeof(T), s.mode == Mode::weighted ? 2 : 2 * q.omega.size(), rows, columns);
    s.block = planned.blocks.data();
    std::size_t size = s.slots * q.r * q.n;
    bool partial = s.chunks >= rows.size() && q.parts;  // more than one chunk for some part
    T* parts = memory->parts.reserve<T>(partial ? 2 * s.chunks * size : 0);
    s.N = partial ? parts : q.N;
    s.P = partial ? parts + s.chunks * size : q.P;
    std::size_t curvature_size = s.curvature.pairs * q.n;
    T* curvature = memory->curvature.reserve<T>(s.chunks > 1 ? s.chunks * curvature_size : 0);
    s.curvature.Q = s.chunks > 1 ? curvature : q.Q;
    std::vector<double> losses(s.blocks * s.loss_count, 0.0);
    ok = ok && run_blocks(s.blocks, k.scratch(s), [&](std::size_t b, char* scratch) {
             k.dense(s, b, scratch, losses.data() + b * s.loss_count);
         });
    if (!ok) return false;
    for (std::size_t g = 0; partial && ok && g + 1 < rows.size(); ++g) {
        std::size_t begin = planned.chunks[g], end = planned.chunks[g + 1];
        ok = add_chunks(begin, end, size, parts, static_cast<T*>(q.N) + g * size) &&
             (!s.positive || add_chunks(begin, end, size, parts + s.chunks * size, static_cast<T*>(q.P) + g * size));
    }
    if (s.chunks > 1 && curvature_size)
        ok = ok && add_chunks(0, s.chunks, curvature_size, curvature, static_cast<T*>(q.Q));
    if (!q.losses || !ok) return ok;
    if (by_identity(q)) {
        if (frobenius_identity<T>(q, gram)) return true;
        memory.give_back();  // to the second pass
        return dense_sweep<T>(direct(q));
    }
    if (apart) add_losses_of_parts(q, s, losses);
    else add_losses(q, s, s.blocks, losses);
    return ok;
}

namespace {

template <class Index>
std::vector<std::size_t> split_columns(const Index* starts, std::size_t n) {
    // Equally many non-zeros and columns; bounds depend on X alone.
    std::size_t work = std::size_t(starts[n]) + n;
    std::size_t blocks = std::clamp<std::size_t>(work / 4096, 1, 4 * kBlocks);
    std::vector<std::size_t> bounds = {0};
    for (std::size_t b = 1, j = 0; b < blocks; ++b) {
        while (j < n && std::size_t(starts[j]) + j < work * b / blocks) ++j;
        bounds.push_back(j);
    }
    bounds.push_back(n);
    return bounds;
}

template <class T>
bool pack_items(const T* factor, std::size_t length, std::size_t r, std::size_t padded, T* out) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::size_t slices = std::clamp<std::size_t>(length / 1024, 1, kBlocks);
    return run(length * r < kSmall, slices, [&](std::size_t b, char*) {
        k.pack_items(factor, length, r, padded, length * b / slices, length * (b + 1) / slices, out);
    });
}

}  // namespace

template <class T>
bool sparse_sweep(const Request& q) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    SparseSweep s{};
    name_parts(q, s);
    s.exact = q.exact && sizeof(T) < sizeof(double);  // float64 has nothing more exact
    s.padded = (q.r + k.lanes - 1) / k.lanes * k.lanes;
    Borrowed memory(*q.memory);
    const T *W = static_cast<const T*>(q.left), *H = static_cast<const T*>(q.right);
    bool spared = q.spare && s.padded == q.r;
    T* left = spared ? static_cast<T*>(q.spare) : memory->left.reserve<T>(q.m * s.padded);
    bool ok = pack_items(W, q.m, q.r, s.padded, left);
    s.left = left, s.right = H;
    Gram gram;
    if (s.positive || q.losses || q.makes_gram()) gram = gram_of(W, q.m, q.r, s.mask & kFro);
    std::vector<T> gram_T = weighted_gram<T>(gram.products, q.r, s.padded, s.weight[2]);
    std::vector<double> column_sums = gram.sums;
    for (double& sum : column_sums) sum *= s.weight[1];
    s.gram = gram_T.data();
    s.column_sums = column_sums.data();
    s.N = q.N, s.P = q.P;
    name_curvature(q, gram.products, s);
    s.curvature.Q = q.Q;
    std::vector<std::size_t> bounds = q.x.wide ? split_columns(static_cast<const std::int64_t*>(q.x.starts), q.n)
                                               : split_columns(static_cast<const std::int32_t*>(q.x.starts), q.n);
    s.bounds = bounds.data();
    std::size_t blocks = bounds.size() - 1;
    std::vector<double> sums(blocks * kSparseSums, 0.0);
    ok = ok && run_blocks(blocks, k.sparse_scratch(s), [&](std::size_t b, char* scratch) {
             k.sparse(s, b, scratch, sums.data() + b * kSparseSums);
         });
    if (!ok || !q.losses) return ok;
    if (by_identity(q)) {
        if (frobenius_identity<T>(q, gram)) return true;
        memory.give_back();  // to the second pass
        return sparse_sweep<T>(direct(q));
    }
    double total[kSparseSums] = {};
    for (std::size_t b = 0; b < blocks; ++b)
        for (int i = 0; i < kSparseSums; ++i) total[i] += sums[b * kSparseSums + std::size_t(i)];
    Gram other = gram_of(H, q.n, q.r, s.mask & kFro);
    bool lost = false;
    for (std::size_t i = 0; i < q.omega.size(); ++i) {
        if (q.omega[i].is(1.0)) {
            // sum over non-zeros of x log(x/v) - x, plus (1'W)(H1)
            double model = std::inner_product(gram.sums.begin(), gram.sums.end(), other.sums.begin(), 0.0);
            q.totals[i] = std::max(total[kSumKL] + model, 0.0);
        } else {
            // The identity of the Frobenius loss, split at the support of X: (x - v)^2 on it, v^2 off it.
            double model = std::inner_product(gram.products.begin(), gram.products.end(), other.products.begin(), 0.0);
            q.totals[i] = 0.5 * (total[kSumResidual] + std::max(model - total[kSumModel], 0.0));
            lost = sizeof(T) < sizeof(double) && !q.exact && q.totals[i] <= q.identity_limit * q.squared_norm;
        }
    }
    if (!lost) return ok;
    memory.give_back();  // to the second pass
    return sparse_sweep<T>(direct(q));
}

template <class T>
bool stored_sweep(const Request& q) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    Sweep s{};
    std::vector<Other> others = others_of(q);
    name_terms(q, others, s);
    s.padded = (q.r + k.lanes - 1) / k.lanes * k.lanes;
    Borrowed memory(*q.memory);
    T *left = memory->left.reserve<T>(q.m * s.padded), *right = memory->right.reserve<T>(q.n * s.padded);
    bool ok = pack_items(static_cast<const T*>(q.left), q.m, q.r, s.padded, left) &&
              pack_items(static_cast<const T*>(q.right), q.n, q.r, s.padded, right);
    s.left = left, s.right = right;
    s.N = q.N, s.P = q.P;
    name_curvature(q, {}, s);
    s.curvature.Q = q.Q;
    std::vector<std::size_t> bounds = q.x.wide ? split_columns(static_cast<const std::int64_t*>(q.x.starts), q.n)
                                               : split_columns(static_cast<const std::int32_t*>(q.x.starts), q.n);
    s.bounds = bounds.data();
    std::size_t blocks = bounds.size() - 1;
    std::vector<double> losses(blocks * s.loss_count, 0.0);
    ok = ok && run_blocks(blocks, k.stored_scratch(s), [&](std::size_t b, char* scratch) {
             k.stored(s, b, scratch, losses.data() + b * s.loss_count);
         });
    if (ok && q.losses) add_losses(q, s, blocks, losses);
    return ok;
}

template <class T>
bool quadratic_step(Quadratic q, const double* gram) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::vector<T> packed;
    for (std::size_t i = 0; gram && i < q.r; ++i)
        for (std::size_t j = 0; j <= i; ++j) packed.push_back(T(gram[i * q.r + j]));
    q.shared = gram ? packed.data() : nullptr;
    q.stopped = stopped;
    std::size_t vectors = (q.n + k.lanes - 1) / k.lanes, slices = std::clamp<std::size_t>(vectors / 8, 1, kBlocks);
    std::size_t bytes = sizeof(T) * k.lanes * (pair_count(q.r) + 5 * q.r);
    return run_blocks(slices, bytes, [&](std::size_t b, char* scratch) {
        k.quadratic(q, vectors * b / slices * k.lanes, std::min(vectors * (b + 1) / slices * k.lanes, q.n), scratch);
    });
}

template <class T>
bool hals_step(Hals q, const double* gram, double smallest) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::vector<T> packed(q.r * (q.r + 1));
    k.pack_shared(gram, q.r, smallest, packed.data());
    q.G = packed.data();
    q.stopped = stopped;
    std::size_t groups = (q.n + k.group - 1) / k.group, work = q.r * q.r * q.n * std::size_t(q.passes);
    std::size_t slices = std::clamp<std::size_t>(std::min(groups, work / kSmall), 1, kBlocks);
    return run_blocks(slices, k.hals_scratch(q), [&](std::size_t b, char* scratch) {
        k.hals(q, groups * b / slices * k.group, std::min(groups * (b + 1) / slices * k.group, q.n), scratch);
    });
}

namespace {

template <class T>
bool descent_step(const DescentSide& side, double vanished) {
    const double* gram = side.sweep.gram;
    double largest = gram[0];
    for (std::size_t k = 1; k < side.step.r; ++k) largest = std::max(largest, gram[k * side.step.r + k]);
    return hals_step<T>(side.step, gram, vanished * largest);
}

template <class T>
bool descent_sweep(const DescentSide& side) {
    if (!(side.compressed ? sparse_sweep<T>(side.sweep) : dense_sweep<T>(side.sweep))) return false;
    if (side.weight == 1.0) return true;
    T *N = static_cast<T*>(side.sweep.N), weight = T(side.weight);
    for (std::size_t at = 0, size = side.sweep.r * side.sweep.n; at < size; ++at) N[at] *= weight;
    return true;
}

}  // namespace

template <class T>
bool descend(const DescentSide& H, const DescentSide& W, double vanished) {
    return descent_step<T>(H, vanished) && descent_sweep<T>(W) && descent_step<T>(W, vanished) && descent_sweep<T>(H);
}

template <class T>
bool simplex_step(Simplex q, const double* gram) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::vector<T> shared(gram ? gram : nullptr, gram ? gram + q.r * q.r : nullptr);
    q.shared = gram ? shared.data() : nullptr;
    q.stopped = stopped;
    std::size_t slices = std::clamp<std::size_t>(std::min(q.n, q.r * q.r * q.n / kSmall), 1, kBlocks);
    return run_blocks(slices, k.simplex_scratch(q), [&](std::size_t b, char* scratch) {
        k.simplex(q, q.n * b / slices, q.n * (b + 1) / slices, scratch);
    });
}

template <class T>
bool multiplier_step(Multiplier q) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    q.stopped = stopped;
    std::size_t vectors = (q.n + k.lanes - 1) / k.lanes;
    std::size_t slices = std::clamp<std::size_t>(std::min(vectors, 16 * q.r * q.n / kSmall), 1, kBlocks);
    std::size_t bytes = sizeof(T) * k.lanes * q.r * std::size_t(4 + q.rising + q.falling);
    return run_blocks(slices, bytes, [&](std::size_t b, char* scratch) {
        k.multiplier(q, vectors * b / slices * k.lanes, std::min(vectors * (b + 1) / slices * k.lanes, q.n), scratch);
    });
}

template <class T>
bool multiplicative_step(const Multiplicative& q) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::size_t slices = std::clamp<std::size_t>(q.size / 4096, 1, kBlocks);
    return run(q.size < kSmall, slices,
               [&](std::size_t b, char*) { k.multiplicative(q, q.size * b / slices, q.size * (b + 1) / slices); });
}

template <class T>
Moments moments(const T* x, std::size_t rows, std::size_t columns, std::ptrdiff_t stride, double scale) {
    const Kernels<T>& k = kernels<T>(instruction_set());
    std::size_t slices = std::min<std::size_t>(rows, kBlocks);
    std::vector<Moments> partial(slices, Moments{0.0, 0.0, 0});
    run(rows * columns < kSmall, slices, [&](std::size_t b, char*) {
        for (std::size_t i = rows * b / slices; i < rows * (b + 1) / slices; ++i)
            for (std::size_t at = 0; at < columns; at += 4096) {
                Moments piece = k.moments(x + std::ptrdiff_t(i) * stride + std::ptrdiff_t(at),
                                          std::min<std::size_t>(4096, columns - at), scale);
                partial[b].sum += piece.sum;
                partial[b].squares += piece.squares;
                partial[b].zeros += piece.zeros;
            }
    });
    Moments all{0.0, 0.0, 0};
    for (const Moments& piece : partial) {
        all.sum += piece.sum;
        all.squares += piece.squares;
        all.zeros += piece.zeros;
    }
    return all;
}

template bool dense_sweep<float>(const Request&);
template bool dense_sweep<double>(const Request&);
template bool sparse_sweep<float>(const Request&);
template bool sparse_sweep<double>(const Request&);
template bool stored_sweep<float>(const Request&);
template bool stored_sweep<double>(const Request&);
template bool quadratic_step<float>(Quadratic, const double*);
template bool quadratic_step<double>(Quadratic, const double*);
template bool hals_step<float>(Hals, const double*, double);
template bool hals_step<double>(Hals, const double*, double);
template bool descend<float>(const DescentSide&, const DescentSide&, double);
template bool descend<double>(const DescentSide&, const DescentSide&, double);
template bool simplex_step<float>(Simplex, const double*);
template bool simplex_step<double>(Simplex, const double*);
template bool multiplier_step<float>(Multiplier);
template bool multiplier_step<double>(Multiplier);
template bool multiplicative_step<float>(const Multiplicative&);
template bool multiplicative_step<double>(const Multiplicative&);
template Moments moments<float>(const float*, std::size_t, std::size_t, std::ptrdiff_t, double);
template Moments moments<double>(const double*, std::size_t, std::size_t, std::ptrdiff_t, double);

}  // namespace drnmf
