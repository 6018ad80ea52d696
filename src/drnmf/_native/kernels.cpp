// Compiled once per instruction set; see CMakeLists.txt.
#include "dense.hpp"
#include "factors.hpp"
#include "hals.hpp"
#include "quadratic.hpp"
#include "simplex.hpp"
#include "sparse.hpp"
#include "stored.hpp"

#define DRNMF_JOIN_(a, b) a##b
#define DRNMF_JOIN(a, b) DRNMF_JOIN_(a, b)

namespace drnmf {
namespace DRNMF_ISA_NAME {

template <class T>
void dense(const Sweep& s, size_t block, char* scratch, double* losses) {
    DenseBlock<T>(s, block, scratch, losses).run();
}

template <class T>
void sparse(const SparseSweep& s, size_t block, char* scratch, double* sums) {
    if (s.x.wide) SparseBlock<T, int64_t>(s, scratch, sums).run(block);
    else SparseBlock<T, int32_t>(s, scratch, sums).run(block);
}

template <class T>
void stored(const Sweep& s, size_t block, char* scratch, double* losses) {
    if (s.x.wide) StoredBlock<T, int64_t>(s, scratch, losses).run(block);
    else StoredBlock<T, int32_t>(s, scratch, losses).run(block);
}

template <class T>
size_t stored_scratch(const Sweep& s) {
    return StoredBlock<T, int32_t>::bytes(s);
}

template <class T>
constexpr Kernels<T> table() {
    return {Scratch<T>::bytes,
            dense<T>,
            pack_left<T>,
            pack_pairs<T>,
            quadratic<T>,
            hals<T>,
            pack_shared<T>,
            multiplicative<T>,
            gram<T>,
            sparse_scratch<T>,
            sparse<T>,
            stored_scratch<T>,
            stored<T>,
            pack_items<T>,
            add<T>,
            dot<T>,
            moments<T>,
            apply<T, log<T>>,
            apply<T, exp<T>>,
            SharedPanel<T>::bytes,
            simplex<T>,
            size_t(kLanes<T>),
            SharedPanel<T>::width};
}

#define DRNMF_TEXT_(a) #a
#define DRNMF_TEXT(a) DRNMF_TEXT_(a)

}  // namespace DRNMF_ISA_NAME

extern const InstructionSet DRNMF_JOIN(isa_, DRNMF_ISA_NAME);
const InstructionSet DRNMF_JOIN(isa_, DRNMF_ISA_NAME) = {DRNMF_TEXT(DRNMF_ISA_NAME), DRNMF_ISA_NAME::table<float>(),
                                                         DRNMF_ISA_NAME::table<double>()};

}  // namespace drnmf
