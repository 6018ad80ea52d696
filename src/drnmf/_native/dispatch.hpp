// Which instruction set runs: the best this CPU has, or the one named by DRNMF_ISA.
#pragma once

#include <string>
#include <vector>

#include "kernels.hpp"

namespace drnmf {

// Chosen at the first call and kept. Throws std::invalid_argument when DRNMF_ISA is unknown or unsupported.
const InstructionSet& instruction_set();

// Names of the sets this machine can run, weakest first.
std::vector<std::string> supported_instruction_sets();

}  // namespace drnmf
