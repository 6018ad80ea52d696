// A whole sweep: packs the factors, plans the blocks, runs them, adds what has to be added, in fixed order.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"

namespace drnmf {

// Parts of X side by side, each of which has a loss of its own. Of rows, N, P and gram come for each of them; of
// columns, all that is made of a column is of its part anyway. Q comes under the coefficients, added up.
struct Parts {
    std::vector<std::size_t> bounds;  // part k is of rows (columns) bounds[k] to bounds[k + 1]; empty: X is not divided
    bool across;                      // whether they are columns
    std::vector<double> coefficients, squared_norms;  // one for each
};

struct Request {
    std::size_t m, n, r;
    Matrix x;
    const void *left, *right;  // W' (r x m) and H (r x n), component-first
    std::vector<Loss> omega;
    std::vector<double> weights;  // empty: every part on its own; else one weight per loss
    bool parts, positive, losses;   // positive: P is wanted beside N
    double scale;                   // what dense X is multiplied by as it is read
    double zero, floor, ceiling;    // numerics.py's
    double squared_norm;            // ||X||^2, scaled
    double identity_limit;          // fraction of ||X||^2 below which the Frobenius identity is not used
    void *N, *P;                    // (slots, r, n)
    double* totals;                 // one per loss, or per part
    std::vector<double> curvature;  // empty: not wanted; else one coefficient per loss
    void* Q;                        // (r (r + 1) / 2, n): the curvature without what all columns share
    double* gram;                   // (r, r): the part of beta = 2, which all columns share; one for each part of rows
    Workspace* memory;
    void* spare;       // null, or (r x m) to work in
    Weights observed;  // weights of the entries: nothing is shared under them
    bool exact;        // whether V is summed in float64 where norms as large as X's are subtracted
    Parts apart;       // of dense X under one loss

    std::size_t row_parts() const { return apart.bounds.empty() || apart.across ? 1 : apart.bounds.size() - 1; }

    bool beta2_alone() const { return omega.size() == 1 && omega[0].is(2.0) && !observed.given; }
    bool known_P() const;  // whether W alone says P: of beta = 1 and 2 where no entry has a weight
    // What is made of beta = 2 alone where the curvature is wanted: gram says all of it, and Q is zero.
    bool makes_Q() const { return !curvature.empty() && !beta2_alone(); }
    bool makes_gram() const;
};

// All return false when interrupted (the outputs are then incomplete).
template <class T>
bool dense_sweep(const Request& request);
template <class T>
bool sparse_sweep(const Request& request);  // losses of beta within {1, 2}
template <class T>
bool stored_sweep(const Request& request);  // the stored entries alone, under weights

// Both with `stopped` and the packed matrix still to be filled in from gram (r, r).
template <class T>
bool quadratic_step(Quadratic q, const double* gram);  // null: none
template <class T>
bool hals_step(Hals q, const double* gram, double smallest);

// One block of a matrix under beta = 2 alone: the sweep for it, and the step of hals.py that follows from N and gram.
struct DescentSide {
    Request sweep;
    Hals step;
    bool compressed;
    double weight;  // what N is multiplied by
};

// A whole iteration of hals.py, written over the blocks: a step of H from the N and gram that are there, W's sweep and
// step, and H's sweep. A component whose square is below `vanished` times the largest does not move.
template <class T>
bool descend(const DescentSide& H, const DescentSide& W, double vanished);

template <class T>
bool simplex_step(Simplex q, const double* gram);  // null: none
template <class T>
bool multiplier_step(Multiplier q);
template <class T>
bool multiplicative_step(const Multiplicative& q);

template <class T>
Moments moments(const T* x, std::size_t rows, std::size_t columns, std::ptrdiff_t stride, double scale);

}  // namespace drnmf
