// A whole sweep: packs the factors, plans the blocks, runs them, adds what has to be added, in fixed order.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"

namespace drnmf {

struct Request {
    std::size_t m, n, r;
    Matrix x;
    const void *left, *right;       // W' (r x m) and H (r x n), component-first
    std::vector<double> betas;
    std::vector<double> weights;    // empty: every part on its own; else one weight per beta
    bool parts, losses;
    double zero, floor, ceiling;    // numerics.py's
    double squared_norm;            // ||X||^2
    double identity_limit;          // share of ||X||^2 below which the Frobenius identity is not used
    void *N, *P;                    // (slots, r, n)
    double* totals;                 // one per beta
    std::vector<double> curvature;  // empty: not wanted; else one coefficient per beta
    void* Q;                        // (r (r + 1) / 2, n)
    Workspace* memory;
};

// Both return false when interrupted (the outputs are then incomplete).
template <class T>
bool dense_sweep(const Request& request);
template <class T>
bool sparse_sweep(const Request& request);  // betas within {1, 2}

template <class T>
bool quadratic_step(const Quadratic& q);
template <class T>
bool multiplicative_step(const Multiplicative& q);

template <class T>
Moments moments(const T* x, std::size_t rows, std::size_t columns, std::ptrdiff_t stride);

}  // namespace drnmf
