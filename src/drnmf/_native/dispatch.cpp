#include "dispatch.hpp"

#include <cstdlib>
#include <stdexcept>

#if defined(_WIN32)
#include <windows.h>
#endif

namespace drnmf {

extern const InstructionSet isa_baseline;
#if defined(DRNMF_X86)
extern const InstructionSet isa_avx2;
extern const InstructionSet isa_avx512;
#endif

namespace {

std::vector<const InstructionSet*> supported() {
    std::vector<const InstructionSet*> sets = {&isa_baseline};
#if defined(DRNMF_X86)
#if defined(_WIN32)  // clang's own test needs a library that is not linked there; no constant covers every part of
                     // AVX-512
    if (IsProcessorFeaturePresent(PF_AVX2_INSTRUCTIONS_AVAILABLE)) sets.push_back(&isa_avx2);
#else
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) sets.push_back(&isa_avx2);
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        sets.push_back(&isa_avx512);
#endif
#endif
    return sets;
}

const InstructionSet& choose() {
    std::vector<const InstructionSet*> sets = supported();
    const char* wanted = std::getenv("DRNMF_ISA");
    if (!wanted || !*wanted) return *sets.back();
    std::string names;
    for (const InstructionSet* set : sets) {
        if (std::string(wanted) == set->name) return *set;
        names += (names.empty() ? "" : ", ") + std::string(set->name);
    }
    throw std::invalid_argument("DRNMF_ISA=" + std::string(wanted) +
                                " is not an instruction set this machine can run: use one of " + names +
                                ", or unset it.");
}

}  // namespace

const InstructionSet& instruction_set() {
    static const InstructionSet& chosen = choose();
    return chosen;
}

std::vector<std::string> supported_instruction_sets() {
    std::vector<std::string> names;
    for (const InstructionSet* set : supported()) names.emplace_back(set->name);
    return names;
}

}  // namespace drnmf
