// The Python side of the compiled extension. Checks what could crash; backends/host/native.py sees to shapes and
// dtypes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dispatch.hpp"
#include "pool.hpp"
#include "sweep.hpp"

namespace nb = nanobind;

namespace drnmf {
namespace {

using Input = nb::ndarray<nb::ro, nb::device::cpu>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu>;
using SquareInput = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Square = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Losses = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

template <class A>
bool contiguous(const A& a) {
    std::int64_t expected = 1;
    for (std::size_t d = a.ndim(); d-- > 0;) {
        if (a.shape(d) > 1 && a.stride(d) != expected) return false;
        expected *= std::int64_t(a.shape(d));
    }
    return true;
}

Matrix dense_matrix(const Input& X) {
    Matrix x{};
    x.values = X.data();
    x.row_stride = ptrdiff_t(X.stride(0));
    x.column_stride = ptrdiff_t(X.stride(1));
    // An axis of length one has no meaningful stride.
    if (x.column_stride == 1 || X.shape(1) == 1) x.layout = Layout::rows;
    else if (x.row_stride == 1 || X.shape(0) == 1) x.layout = Layout::columns;
    else x.layout = Layout::strided;
    return x;
}

Matrix compressed_matrix(const Input& values, const Input& starts, const Input& indices, std::size_t n) {
    require(values.ndim() == 1 && starts.ndim() == 1 && indices.ndim() == 1, "sparse arrays must be flat");
    require(contiguous(values) && contiguous(starts) && contiguous(indices), "sparse arrays must be contiguous");
    require(starts.shape(0) == n + 1 && values.shape(0) == indices.shape(0), "sparse arrays have the wrong length");
    bool wide = starts.dtype() == nb::dtype<std::int64_t>() && indices.dtype() == nb::dtype<std::int64_t>();
    bool narrow = starts.dtype() == nb::dtype<std::int32_t>() && indices.dtype() == nb::dtype<std::int32_t>();
    require(wide || narrow, "starts and indices must both be int32 or int64");
    return {Layout::compressed, values.data(), 0, 0, starts.data(), indices.data(), wide};
}

// Weights of the entries of X as Python gives them; what is None counts as ones.
struct Observed {
    Input values, stored, rows, columns, row_codes, column_codes;
    std::uint32_t threshold, classes;
    bool inverted;
};

Weights weights_of(const Observed* o, std::size_t m, std::size_t n, std::size_t stored, nb::dlpack::dtype dtype) {
    Weights w{};
    if (!o) return w;
    w.given = true, w.threshold = o->threshold, w.classes = o->classes, w.inverted = o->inverted;
    auto vector = [&](const Input& a, std::size_t length, nb::dlpack::dtype type) -> const void* {
        if (!a.is_valid()) return nullptr;
        require(a.ndim() == 1 && a.shape(0) == length && contiguous(a) && a.dtype() == type,
                "weights of rows, columns or stored entries have the wrong length or dtype");
        return a.data();
    };
    w.rows = vector(o->rows, m, dtype), w.columns = vector(o->columns, n, dtype);
    w.stored = vector(o->stored, stored, dtype);
    w.row_codes = static_cast<const std::uint32_t*>(vector(o->row_codes, m, nb::dtype<std::uint32_t>()));
    w.column_codes = static_cast<const std::uint32_t*>(vector(o->column_codes, n, nb::dtype<std::uint32_t>()));
    require(!w.row_codes == !w.column_codes, "codes of rows and of columns belong together");
    if (o->values.is_valid()) {
        const Input& a = o->values;
        require(a.ndim() == 2 && a.shape(0) == m && a.shape(1) == n && a.dtype() == dtype,
                "weights of the entries have the wrong shape or dtype");
        w.values = a.data(), w.row_stride = ptrdiff_t(a.stride(0)), w.column_stride = ptrdiff_t(a.stride(1));
    }
    return w;
}

// What every kind of sweep is asked for.
struct Ask {
    std::vector<std::pair<int, double>> omega;  // family and parameter of every loss
    std::vector<double> weights;
    bool parts, losses;
    double scale, zero, floor, ceiling, squared_norm, identity_limit;
    std::vector<double> curvature;
};

std::vector<Loss> losses_of(const Ask& ask) {
    std::vector<Loss> omega;
    for (auto [family, parameter] : ask.omega) {
        require(family >= 0 && family <= int(Family::negative_binomial), "no such family of losses");
        omega.push_back({Family(family), parameter});
    }
    return omega;
}

Request request(std::size_t m, std::size_t n, const Matrix& x, const Input& left, const Input& right, const Ask& ask,
                const Output& N, const Output& P, const Output& Q, const Square& gram, const Losses& totals,
                Workspace& memory, const Output& spare, const Weights& observed, nb::dlpack::dtype dtype,
                const Parts& apart = {}) {
    require(left.ndim() == 2 && right.ndim() == 2 && contiguous(left) && contiguous(right),
            "factors must be C-contiguous, component-first");
    require(left.shape(1) == m && right.shape(1) == n && left.shape(0) == right.shape(0) && left.shape(0) > 0,
            "factors do not fit X");
    require(left.dtype() == dtype && right.dtype() == dtype && N.dtype() == dtype && P.dtype() == dtype,
            "X, factors and outputs must share one dtype");
    require(m > 0 && n > 0, "X is empty");
    std::size_t count = ask.omega.size();
    std::size_t divided = apart.bounds.empty() ? 0 : apart.bounds.size() - 1;
    require(count && totals.shape(0) == (divided ? divided : count), "one total per loss, or part, is needed");
    require(!divided || (count == 1 && ask.weights.empty() && !observed.given),
            "parts are swept under one loss, without weights");
    require(ask.weights.empty() || ask.weights.size() == count, "one weight per loss is needed");
    require(ask.curvature.empty() || ask.curvature.size() == count, "one coefficient per loss is needed");
    std::size_t r = left.shape(0);
    Request q{m,
              n,
              r,
              x,
              left.data(),
              right.data(),
              losses_of(ask),
              ask.weights,
              ask.parts,
              P.ndim() > 0 && P.shape(0) > 0,
              ask.losses,
              ask.scale,
              ask.zero,
              ask.floor,
              ask.ceiling,
              ask.squared_norm,
              ask.identity_limit,
              N.data(),
              P.data(),
              totals.data(),
              ask.curvature,
              Q.data(),
              gram.data(),
              &memory,
              spare.is_valid() ? spare.data() : nullptr,
              observed,
              false,
              apart};
    std::size_t slots = ask.parts ? (ask.weights.empty() ? count : 1) * q.row_parts() : 0;
    std::size_t side = q.makes_gram() ? r : 0;
    auto is_block = [&](const Output& a, std::size_t count) {
        return a.ndim() == 3 && a.shape(0) == count && a.shape(1) == r && a.shape(2) == n;
    };
    require(is_block(N, slots) && (is_block(P, slots) || (is_block(P, 0) && q.known_P())),
            "outputs have the wrong shape");
    require(!spare.is_valid() || (spare.size() == m * r && contiguous(spare) && spare.dtype() == dtype),
            "the array to work in does not fit W");
    require(Q.ndim() == 2 && Q.shape(0) == (q.makes_Q() ? pair_count(r) : 0) && Q.shape(1) == n && Q.dtype() == dtype,
            "the curvature has the wrong shape");
    require(gram.shape(0) == side * q.row_parts() && gram.shape(1) == side,
            "the shared curvature has the wrong shape");
    return q;
}

// Parts of the rows (columns) of dense X, see `Parts`.
Parts parts_of(const std::vector<std::size_t>& bounds, bool across, const std::vector<double>& coefficients,
               const std::vector<double>& squared_norms, std::size_t length) {
    require(bounds.size() > 1 && bounds.front() == 0 && bounds.back() == length &&
                std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end(),
            "parts do not fit X");
    require(coefficients.size() + 1 == bounds.size() && squared_norms.size() + 1 == bounds.size(),
            "one coefficient and one norm per part are needed");
    return {bounds, across, coefficients, squared_norms};
}

void finish(bool done) {
    if (!done) throw nb::python_error();  // set by the interrupt check
}

bool signal_arrived() {
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

void run_dense(const Request& q, nb::dlpack::dtype dtype) {
    bool single = dtype == nb::dtype<float>();
    require(single || dtype == nb::dtype<double>(), "X must be float32 or float64");
    bool done;
    {
        nb::gil_scoped_release release;
        done = single ? dense_sweep<float>(q) : dense_sweep<double>(q);
    }
    finish(done);
}

void sweep_dense(Input X, Input left, Input right, const Ask& ask, Output N, Output P, Output Q, Square gram,
                 Losses totals, Workspace& memory, const Observed* observed, Output spare) {
    require(X.ndim() == 2, "X must have two axes");
    std::size_t m = X.shape(0), n = X.shape(1);
    Request q = request(m, n, dense_matrix(X), left, right, ask, N, P, Q, gram, totals, memory,
                        spare, weights_of(observed, m, n, 0, X.dtype()), X.dtype());
    run_dense(q, X.dtype());
}

// The same for every part of X.
void sweep_parts(Input X, Input left, Input right, const Ask& ask, Output N, Output P, Output Q, Square gram,
                 Losses totals, Workspace& memory, const std::vector<std::size_t>& bounds, bool across,
                 const std::vector<double>& coefficients, const std::vector<double>& squared_norms) {
    require(X.ndim() == 2, "X must have two axes");
    std::size_t m = X.shape(0), n = X.shape(1);
    Request q = request(m, n, dense_matrix(X), left, right, ask, N, P, Q, gram, totals, memory, Output(), Weights{},
                        X.dtype(), parts_of(bounds, across, coefficients, squared_norms, across ? n : m));
    run_dense(q, X.dtype());
}

void sweep_sparse(Input values, Input starts, Input indices, std::size_t m, std::size_t n, Input left, Input right,
                  const Ask& ask, Output N, Output P, Output Q, Square gram, Losses totals, Workspace& memory,
                  const Observed* observed, Output spare, bool stored_alone) {
    Matrix x = compressed_matrix(values, starts, indices, n);
    require(observed || !stored_alone, "stored entries alone are swept under weights");
    Request q = request(m, n, x, left, right, ask, N, P, Q, gram, totals, memory,
                        spare, weights_of(observed, m, n, values.shape(0), values.dtype()), values.dtype());
    bool single = values.dtype() == nb::dtype<float>();
    require(single || values.dtype() == nb::dtype<double>(), "X must be float32 or float64");
    bool at_nonzeros = !observed;
    for (const Loss& loss : q.omega) at_nonzeros = at_nonzeros && (loss.is(1.0) || loss.is(2.0));
    bool done;
    {
        nb::gil_scoped_release release;
        if (stored_alone) done = single ? stored_sweep<float>(q) : stored_sweep<double>(q);
        else if (at_nonzeros) done = single ? sparse_sweep<float>(q) : sparse_sweep<double>(q);
        else done = single ? dense_sweep<float>(q) : dense_sweep<double>(q);
    }
    finish(done);
}

// newton.py's step from block F (r x n) with gradient parts N, P and curvature Q + gram, written to out.
void quadratic(Input F, Input N, Input P, Input Q, SquareInput gram, double floor, double largest, double scale,
               int passes, Output out) {
    require(F.ndim() == 2 && F.shape(0) > 0, "F must have two axes");
    std::size_t r = F.shape(0), n = F.shape(1);
    for (const Input* a : {&F, &N, &P, &Q})
        require(a->ndim() == 2 && a->shape(1) == n && contiguous(*a) && a->dtype() == F.dtype(),
                "blocks must be C-contiguous, of one dtype and width");
    require(N.shape(0) == r && P.shape(0) == r && Q.shape(0) == pair_count(r), "blocks have the wrong shape");
    require(!gram.is_valid() || (gram.shape(0) == r && gram.shape(1) == r), "the shared curvature has the wrong shape");
    require(out.ndim() == 2 && out.shape(0) == r && out.shape(1) == n && out.dtype() == F.dtype(), "out does not fit");
    bool single = F.dtype() == nb::dtype<float>();
    require(single || F.dtype() == nb::dtype<double>(), "blocks must be float32 or float64");
    Quadratic q{r,     n,       F.data(), N.data(), P.data(),   Q.data(), nullptr,
                floor, largest, scale,    passes,   out.data(), nullptr};
    const double* shared = gram.is_valid() ? gram.data() : nullptr;
    bool done;
    {
        nb::gil_scoped_release release;
        done = single ? quadratic_step<float>(q, shared) : quadratic_step<double>(q, shared);
    }
    finish(done);
}

// hals.py's step from block F (r x n) with the negative part N and one curvature for all columns, written to stepped.
void run_hals(Hals q, const Input& F, const Input& N, const SquareInput& gram, double smallest, const Output& stepped) {
    require(F.ndim() == 2 && F.shape(0) > 0, "F must have two axes");
    q.r = F.shape(0), q.n = F.shape(1);
    auto fits = [&](const auto& a) {
        return a.ndim() == 2 && a.shape(0) == q.r && a.shape(1) == q.n && contiguous(a) && a.dtype() == F.dtype();
    };
    require(fits(F) && fits(N) && fits(stepped), "blocks must be C-contiguous, of one dtype and shape");
    require(gram.shape(0) == q.r && gram.shape(1) == q.r, "the shared curvature has the wrong shape");
    bool single = F.dtype() == nb::dtype<float>();
    require(single || F.dtype() == nb::dtype<double>(), "blocks must be float32 or float64");
    q.F = F.data(), q.N = N.data(), q.stepped = stepped.data();
    bool done;
    {
        nb::gil_scoped_release release;
        done = single ? hals_step<float>(q, gram.data(), smallest) : hals_step<double>(q, gram.data(), smallest);
    }
    finish(done);
}

void hals(Input F, Input N, SquareInput gram, double floor, double smallest, int passes, Output stepped) {
    Hals q{};
    q.floor = floor, q.passes = passes;
    run_hals(q, F, N, gram, smallest, stepped);
}

// The same, and extrapolated away from `last` by `pace`, written to further.
void hals_ahead(Input F, Input N, SquareInput gram, double floor, double smallest, int passes, Input last, double pace,
                Output stepped, Output further) {
    require(F.ndim() == 2, "F must have two axes");
    auto fits = [&](const auto& a) {
        return a.ndim() == 2 && a.shape(0) == F.shape(0) && a.shape(1) == F.shape(1) && contiguous(a) &&
               a.dtype() == F.dtype();
    };
    require(fits(last) && fits(further), "blocks must be C-contiguous, of one dtype and shape");
    Hals q{};
    q.floor = floor, q.passes = passes;
    q.last = last.data(), q.pace = pace, q.further = further.data();
    run_hals(q, F, N, gram, smallest, stepped);
}

// A block F (r x n) of X, `stored` as one dense array or as values, starts and indices by column, the sweep for it and
// the arrays it writes to, and the point `last` before it was extrapolated.
struct BlockOfDescent {
    std::vector<Input> stored;
    Output F, last;
    Ask ask;
    Output N, P, Q;
    Square gram;
    double floor, weight;
};

// Whole iterations of hals.py in one call: its arrays are those of the run, and are written over.
class Descent {
public:
    Descent(BlockOfDescent H, BlockOfDescent W, Losses totals, Workspace& memory, double vanished)
        : H_(std::move(H)), W_(std::move(W)), totals_(totals), vanished_(vanished),
          first_(side(H_, W_, memory)), second_(side(W_, H_, memory)) {}

    // Take `passes` in each block and extrapolate by the paces; the loss is written to the totals.
    void iterate(int passes, double pace_H, double pace_W) {
        first_.step.passes = second_.step.passes = passes;
        first_.step.pace = pace_H, second_.step.pace = pace_W;
        bool done;
        {
            nb::gil_scoped_release release;
            done = H_.F.dtype() == nb::dtype<float>() ? descend<float>(first_, second_, vanished_)
                                                      : descend<double>(first_, second_, vanished_);
        }
        finish(done);
    }

private:
    DescentSide side(BlockOfDescent& own, BlockOfDescent& other, Workspace& memory) {
        require(own.F.ndim() == 2 && other.F.ndim() == 2, "blocks must have two axes");
        require(own.stored.size() == 1 || own.stored.size() == 3, "X must be one dense array or three of a sparse one");
        std::size_t m = other.F.shape(1), n = own.F.shape(1);
        bool compressed = own.stored.size() == 3;
        const Input& values = own.stored[0];
        require(compressed || (values.ndim() == 2 && values.shape(0) == m && values.shape(1) == n), "X does not fit");
        require(values.dtype() == nb::dtype<float>() || values.dtype() == nb::dtype<double>(),
                "X must be float32 or float64");
        Matrix x = compressed ? compressed_matrix(values, own.stored[1], own.stored[2], n) : dense_matrix(values);
        Request sweep = request(m, n, x, Input(other.F), Input(own.F), own.ask, own.N, own.P, own.Q, own.gram, totals_,
                                memory, other.N, Weights{}, values.dtype());
        require(sweep.beta2_alone() && sweep.makes_gram() && sweep.parts, "descent is for beta = 2 alone");
        require(own.last.ndim() == 2 && own.last.shape(0) == sweep.r && own.last.shape(1) == n &&
                    own.last.dtype() == own.F.dtype() && own.last.data() != own.F.data(),
                "the last point does not fit its block");
        Hals step{};
        step.r = sweep.r, step.n = n, step.floor = own.floor;
        step.F = own.F.data(), step.N = own.N.data(), step.last = own.last.data();
        step.stepped = own.last.data(), step.further = own.F.data();
        return {std::move(sweep), step, compressed, own.weight};
    }

    BlockOfDescent H_, W_;
    Losses totals_;
    double vanished_;
    DescentSide first_, second_;
};

// simplex_steps.py's step from block F (r x n) with the slopes there, written to out, and on from last to further.
void simplex(Input F, Input slope, Input Q, Input sizes, SquareInput gram, double floor, double tolerance, int moves,
             Output out, Input last, Input totals, double pace, Output further) {
    require(F.ndim() == 2 && F.shape(0) > 0, "F must have two axes");
    std::size_t r = F.shape(0), n = F.shape(1);
    auto fits = [&](const auto& a, std::size_t rows) {
        return a.ndim() == 2 && a.shape(0) == rows && a.shape(1) == n && contiguous(a) && a.dtype() == F.dtype();
    };
    require(fits(F, r) && fits(slope, r) && fits(out, r), "blocks must be C-contiguous, of one dtype and shape");
    require(!Q.is_valid() || fits(Q, pair_count(r)), "the curvature does not fit");
    require(!sizes.is_valid() || fits(sizes, r), "the sizes do not fit");
    require(!gram.is_valid() || (gram.shape(0) == r && gram.shape(1) == r), "the shared curvature has the wrong shape");
    bool single = F.dtype() == nb::dtype<float>();
    require(single || F.dtype() == nb::dtype<double>(), "blocks must be float32 or float64");
    Simplex q{};
    q.r = r, q.n = n, q.F = F.data(), q.slope = slope.data(), q.out = out.data();
    q.Q = Q.is_valid() ? Q.data() : nullptr, q.sizes = sizes.is_valid() ? sizes.data() : nullptr;
    q.floor = floor, q.tolerance = tolerance, q.moves = moves, q.pace = pace;
    if (last.is_valid()) {
        require(fits(last, r) && further.is_valid() && fits(further, r), "last and further do not fit");
        require(totals.is_valid() && totals.ndim() == 1 && totals.shape(0) == n && totals.dtype() == F.dtype(),
                "there must be one total for every column");
        q.last = last.data(), q.totals = totals.data(), q.further = further.data();
    }
    const double* shared = gram.is_valid() ? gram.data() : nullptr;
    bool done;
    {
        nb::gil_scoped_release release;
        done = single ? simplex_step<float>(q, shared) : simplex_step<double>(q, shared);
    }
    finish(done);
}

// The step of updates/roots.py from block F (r x n) with the parts before every power of t, written to out.
void multiplier(Input F, Input plus, Input minus, const std::vector<Input>& terms, const std::vector<double>& exponents,
                int rising, Input totals, double floor, double tolerance, int steps, Output out) {
    require(F.ndim() == 2 && F.shape(0) > 0, "F must have two axes");
    std::size_t r = F.shape(0), n = F.shape(1);
    auto fits = [&](const auto& a) {
        return a.ndim() == 2 && a.shape(0) == r && a.shape(1) == n && contiguous(a) && a.dtype() == F.dtype();
    };
    require(fits(F) && fits(out), "blocks must be C-contiguous, of one dtype and shape");
    require((!plus.is_valid() || fits(plus)) && (!minus.is_valid() || fits(minus)), "parts must be like F");
    require(std::all_of(terms.begin(), terms.end(), fits), "parts must be like F");
    require(terms.size() == exponents.size() && !terms.empty() && rising >= 0 && std::size_t(rising) <= terms.size(),
            "every part needs an exponent");
    require(totals.ndim() == 1 && totals.shape(0) == n && contiguous(totals) && totals.dtype() == F.dtype(),
            "there must be one total for every column");
    bool single = F.dtype() == nb::dtype<float>();
    require(single || F.dtype() == nb::dtype<double>(), "blocks must be float32 or float64");
    std::vector<const void*> parts;
    for (const Input& term : terms) parts.push_back(term.data());
    Multiplier q{r, n, F.data(), plus.is_valid() ? plus.data() : nullptr, minus.is_valid() ? minus.data() : nullptr,
                 parts.data(), exponents.data(), rising, int(terms.size()) - rising, totals.data(), floor, tolerance,
                 steps, out.data(), nullptr};
    bool done;
    {
        nb::gil_scoped_release release;
        done = single ? multiplier_step<float>(q) : multiplier_step<double>(q);
    }
    finish(done);
}

// updates.py's multiplicative step from block F (r x n) with `coefficients.size()` parts N and P, written to out.
void multiplicative(Input F, Input N, Input P, const std::vector<double>& coefficients, double floor, Output out) {
    require(F.ndim() == 2 && contiguous(F), "F must have two axes and be C-contiguous");
    for (const Input* a : {&N, &P})
        require(a->ndim() == 3 && a->shape(0) == coefficients.size() && a->shape(1) == F.shape(0) &&
                    a->shape(2) == F.shape(1) && contiguous(*a) && a->dtype() == F.dtype(),
                "parts must be C-contiguous, one per coefficient, each like F");
    require(out.ndim() == 2 && out.shape(0) == F.shape(0) && out.shape(1) == F.shape(1) && out.dtype() == F.dtype(),
            "out does not fit");
    bool single = F.dtype() == nb::dtype<float>();
    require(single || F.dtype() == nb::dtype<double>(), "blocks must be float32 or float64");
    Multiplicative q{F.size(), coefficients.size(), F.data(), N.data(),
                     P.data(), coefficients.data(), floor,    out.data()};
    bool done;
    {
        nb::gil_scoped_release release;
        done = single ? multiplicative_step<float>(q) : multiplicative_step<double>(q);
    }
    finish(done);
}

// (sum, sum of squares, number of zeros) of X with one axis contiguous.
nb::tuple moments_of(Input X, double scale) {
    require(X.ndim() == 2, "X must have two axes");
    std::size_t rows = X.shape(0), columns = X.shape(1);
    std::int64_t stride = X.stride(0);
    if (X.stride(1) != 1 && columns > 1) {
        require(X.stride(0) == 1 || rows == 1, "one axis of X must be contiguous");
        std::swap(rows, columns);
        stride = X.stride(1);
    }
    Moments result;
    bool single = X.dtype() == nb::dtype<float>();
    require(single || X.dtype() == nb::dtype<double>(), "X must be float32 or float64");
    {
        nb::gil_scoped_release release;
        result = single ? moments(static_cast<const float*>(X.data()), rows, columns, ptrdiff_t(stride), scale)
                        : moments(static_cast<const double*>(X.data()), rows, columns, ptrdiff_t(stride), scale);
    }
    return nb::make_tuple(result.sum, result.squares, result.zeros);
}

template <class T>
using Flat = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
void vector_log(Flat<const T> x, Flat<T> out) {
    require(x.shape(0) == out.shape(0), "x and out differ in length");
    kernels<T>(instruction_set()).log(x.data(), out.data(), x.shape(0));
}

template <class T>
void vector_exp(Flat<const T> x, Flat<T> out) {
    require(x.shape(0) == out.shape(0), "x and out differ in length");
    kernels<T>(instruction_set()).exp(x.data(), out.data(), x.shape(0));
}

}  // namespace
}  // namespace drnmf

// What threadpoolctl calls (see threads.py).
#if defined(_WIN32)
#define DRNMF_EXPORT __declspec(dllexport)
#else
#define DRNMF_EXPORT __attribute__((visibility("default")))
#endif
extern "C" {
DRNMF_EXPORT int drnmf_get_num_threads() { return drnmf::num_threads(); }
DRNMF_EXPORT void drnmf_set_num_threads(int count) { drnmf::set_num_threads(count); }
}

NB_MODULE(_core, module) {
    using namespace drnmf;
    set_interrupt_check(signal_arrived);
    nb::class_<Ask>(module, "Ask")
        .def(nb::init<std::vector<std::pair<int, double>>, std::vector<double>, bool, bool, double, double, double,
                      double, double, double, std::vector<double>>(),
             nb::arg("omega"), nb::arg("weights"), nb::arg("parts"), nb::arg("losses"), nb::arg("scale"),
             nb::arg("zero"), nb::arg("floor"), nb::arg("ceiling"), nb::arg("squared_norm"), nb::arg("identity_limit"),
             nb::arg("curvature"));
    nb::class_<Workspace>(module, "Workspace")
        .def(nb::init<>())
        // Nothing in it is worth keeping: a copy, here or in another process, begins empty.
        .def("__reduce__", [](nb::object self) { return nb::make_tuple(self.type(), nb::make_tuple()); });
    nb::class_<Observed>(module, "Observed")
        .def(nb::init<Input, Input, Input, Input, Input, Input, std::uint32_t, std::uint32_t, bool>(),
             nb::arg("values").none(), nb::arg("stored").none(), nb::arg("rows").none(), nb::arg("columns").none(),
             nb::arg("row_codes").none(), nb::arg("column_codes").none(), nb::arg("threshold"), nb::arg("classes"),
             nb::arg("inverted"));
    nb::class_<BlockOfDescent>(module, "BlockOfDescent")
        .def(nb::init<std::vector<Input>, Output, Output, Ask, Output, Output, Output, Square, double, double>());
    nb::class_<Descent>(module, "Descent")
        .def(nb::init<BlockOfDescent, BlockOfDescent, Losses, Workspace&, double>(), nb::keep_alive<1, 5>())
        .def("iterate", &Descent::iterate);
    module.def("sweep_dense", &sweep_dense, nb::arg("X"), nb::arg("left"), nb::arg("right"), nb::arg("ask"),
               nb::arg("N"), nb::arg("P"), nb::arg("Q"), nb::arg("gram"), nb::arg("losses"), nb::arg("memory"),
               nb::arg("observed").none(), nb::arg("spare").none());
    module.def("sweep_parts", &sweep_parts);
    module.def("sweep_sparse", &sweep_sparse, nb::arg("values"), nb::arg("starts"), nb::arg("indices"), nb::arg("m"),
               nb::arg("n"), nb::arg("left"), nb::arg("right"), nb::arg("ask"), nb::arg("N"), nb::arg("P"),
               nb::arg("Q"), nb::arg("gram"), nb::arg("losses"), nb::arg("memory"), nb::arg("observed").none(),
               nb::arg("spare").none(), nb::arg("stored_alone"));
    module.def("quadratic_step", &quadratic, nb::arg("F"), nb::arg("N"), nb::arg("P"), nb::arg("Q"),
               nb::arg("gram").none(), nb::arg("floor"), nb::arg("largest"), nb::arg("scale"), nb::arg("passes"),
               nb::arg("out"));
    module.def("simplex_step", &simplex, nb::arg("F"), nb::arg("slope"), nb::arg("Q").none(), nb::arg("sizes").none(),
               nb::arg("gram").none(), nb::arg("floor"), nb::arg("tolerance"), nb::arg("moves"), nb::arg("out"),
               nb::arg("last").none(), nb::arg("totals").none(), nb::arg("pace"), nb::arg("further").none());
    module.def("multiplier_step", &multiplier, nb::arg("F"), nb::arg("plus").none(), nb::arg("minus").none(),
               nb::arg("terms"), nb::arg("exponents"), nb::arg("rising"), nb::arg("totals"), nb::arg("floor"),
               nb::arg("tolerance"), nb::arg("steps"), nb::arg("out"));
    module.def("hals_step", &hals);
    module.def("hals_step_ahead", &hals_ahead);
    module.def("multiplicative_step", &multiplicative);
    module.def("moments", &moments_of);
    module.def("instruction_set", [] { return std::string(instruction_set().name); });
    module.def("supported_instruction_sets", &supported_instruction_sets);
    module.def("get_num_threads", &num_threads);
    module.def("set_num_threads", &set_num_threads);
    module.def("default_num_threads", &default_num_threads);
    module.def("vector_log", &vector_log<float>);
    module.def("vector_log", &vector_log<double>);
    module.def("vector_exp", &vector_exp<float>);
    module.def("vector_exp", &vector_exp<double>);
}
