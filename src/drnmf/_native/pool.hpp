// Threads: blocks of work are handed out one at a time; which thread takes which block changes nothing in the
// result. Idle workers spin for some microseconds, then sleep: they must not fight other pools (BLAS) for cores.
#pragma once

#include <cstddef>
#include <functional>

namespace drnmf {

// Runs task(block, scratch) for every block in 0 ... blocks - 1 on up to num_threads() threads, the caller among
// them. A second caller, while the pool is busy, does its work alone. Returns false if it was interrupted.
bool run_blocks(std::size_t blocks, std::size_t scratch_bytes, const std::function<void(std::size_t, char*)>& task);

// True when the run should end: what long blocks ask between tiles.
bool stopped(void*);

// Called now and then on the calling thread of a run; true asks it to stop. Set once, by the bindings.
void set_interrupt_check(bool (*check)());

int num_threads();
void set_num_threads(int count);  // at least 1
int default_num_threads();        // OMP_NUM_THREADS, else the CPUs this process may use

}  // namespace drnmf
