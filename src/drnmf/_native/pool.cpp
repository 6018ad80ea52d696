#include "pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "memory.hpp"

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace drnmf {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::microseconds(50);   // before an idle worker sleeps
constexpr auto kCheck = std::chrono::milliseconds(50);  // between two looks at Ctrl-C

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

thread_local Buffer scratch;  // of one thread

struct Job {
    const std::function<void(std::size_t, char*)>* task = nullptr;
    std::size_t blocks = 0, scratch_bytes = 0;
    int threads = 1;
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stop{false}, out_of_memory{false};

    void work() {
        char* memory = nullptr;
        try {
            memory = scratch.reserve<char>(scratch_bytes);
        } catch (const std::bad_alloc&) {
            out_of_memory.store(true);
            stop.store(true);
        }
        while (!stop.load(std::memory_order_relaxed)) {
            std::size_t block = next.fetch_add(1, std::memory_order_relaxed);
            if (block >= blocks) return;
            (*task)(block, memory);
        }
    }
};

std::atomic<bool (*)()> interrupt_check{nullptr};
thread_local Job* current = nullptr;  // the job this thread works on
thread_local bool is_caller = false;  // only the calling thread may look at signals
thread_local Clock::time_point last_check;

struct Pool {
    Job job;
    std::mutex busy;  // one job at a time
    std::mutex sleep_mutex;
    std::condition_variable wake;
    std::atomic<std::uint64_t> generation{0};
    std::atomic<int> inside{0}, sleeping{0};
    std::atomic<bool> open{false};
    std::vector<std::thread::native_handle_type> workers;  // valid for good: workers never end

    void grow(int wanted) {
        for (int id = int(workers.size()); id < wanted; ++id) {
            std::thread worker([this, id] { live(id); });
            workers.push_back(worker.native_handle());
            worker.detach();
            forget_cores();
        }
    }

#if defined(__linux__)
    cpu_set_t cores{};  // where the workers may run

    void forget_cores() { CPU_ZERO(&cores); }

    // Off the caller's core, where there are cores enough. Right after a call into another pool (BLAS) whose idle
    // threads spin, every core looks busy, and the scheduler queues a woken worker behind its own caller, who will
    // not make room before the work is done. A caller bound to too few cores (OMP_PROC_BIND) does not bind them.
    void keep_off_the_caller() {
        cpu_set_t wanted;
        int here = sched_getcpu();
        if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof(wanted), &wanted) != 0) return;
        CPU_CLR(here, &wanted);
        if (std::size_t(CPU_COUNT(&wanted)) < workers.size() || CPU_EQUAL(&wanted, &cores)) return;
        for (auto worker : workers) pthread_setaffinity_np(worker, sizeof(wanted), &wanted);
        cores = wanted;
    }
#else
    void forget_cores() {}
    void keep_off_the_caller() {}
#endif

    void live(int id) {
        std::uint64_t seen = 0;
        for (;;) {
            seen = wait_for_work(seen);
            // A worker that comes late finds the job closed and leaves it alone; the caller never waits for it.
            inside.fetch_add(1);
            if (open.load() && id < job.threads - 1) {
                current = &job;
                job.work();
            }
            inside.fetch_sub(1);
        }
    }

    std::uint64_t wait_for_work(std::uint64_t seen) {
        auto since = Clock::now();
        for (int n = 1; generation.load() == seen; ++n) {
            pause_cpu();
            if (n % 64 || Clock::now() - since < kSpin) continue;
            std::unique_lock<std::mutex> lock(sleep_mutex);
            sleeping.fetch_add(1);
            wake.wait(lock, [&] { return generation.load() != seen; });
            sleeping.fetch_sub(1);
        }
        return generation.load();
    }

    void publish() {
        open.store(true);
        generation.fetch_add(1);
        if (sleeping.load() == 0) return;
        { std::lock_guard<std::mutex> lock(sleep_mutex); }
        wake.notify_all();
    }

    void close() {
        open.store(false);
        for (int n = 1; inside.load() != 0; ++n) {
            pause_cpu();
            if (n % 1024 == 0) std::this_thread::yield();
        }
    }
};

std::atomic<Pool*> the_pool{nullptr};
std::atomic<int> thread_count{0};

#if defined(__unix__) || defined(__APPLE__)
// The child of a fork has none of the workers: it starts over with a new pool, and the old one is left alone.
void after_fork() {
    the_pool.store(new Pool);
    current = nullptr;
    is_caller = false;
}
#endif

Pool& pool() {
    static std::once_flag once;
    std::call_once(once, [] {
        the_pool.store(new Pool);  // never deleted: detached workers outlive static destruction
#if defined(__unix__) || defined(__APPLE__)
        pthread_atfork(nullptr, nullptr, after_fork);
#endif
    });
    return *the_pool.load();
}

struct Calling {  // marks the calling thread for the length of a run
    Job* before = current;
    bool was_caller = is_caller;
    explicit Calling(Job* job) {
        current = job;
        is_caller = true;
        last_check = Clock::now();
    }
    ~Calling() {
        current = before;
        is_caller = was_caller;
    }
};

void prepare(Job& job, std::size_t blocks, std::size_t bytes, const std::function<void(std::size_t, char*)>& task,
             int threads) {
    job.task = &task;
    job.blocks = blocks;
    job.scratch_bytes = bytes;
    job.threads = threads;
    job.next.store(0);
    job.stop.store(false);
    job.out_of_memory.store(false);
}

bool outcome(const Job& job) {
    if (job.out_of_memory.load()) throw std::bad_alloc();
    return !job.stop.load();
}

}  // namespace

bool run_blocks(std::size_t blocks, std::size_t bytes, const std::function<void(std::size_t, char*)>& task) {
    int threads = int(std::min<std::size_t>(std::size_t(num_threads()), blocks));
    Pool& shared = pool();
    std::unique_lock<std::mutex> lock(shared.busy, std::try_to_lock);
    if (threads <= 1 || !lock.owns_lock()) {
        if (lock.owns_lock()) lock.unlock();
        Job alone;
        prepare(alone, blocks, bytes, task, 1);
        Calling mark(&alone);
        alone.work();
        return outcome(alone);
    }
    shared.grow(threads - 1);
    shared.keep_off_the_caller();
    prepare(shared.job, blocks, bytes, task, threads);
    Calling mark(&shared.job);
    shared.publish();
    shared.job.work();
    shared.close();
    return outcome(shared.job);
}

bool stopped(void*) {
    if (!current) return false;
    if (is_caller) {
        auto now = Clock::now();
        if (now - last_check > kCheck) {
            last_check = now;
            auto check = interrupt_check.load();
            if (check && check()) current->stop.store(true);
        }
    }
    return current->stop.load(std::memory_order_relaxed);
}

void set_interrupt_check(bool (*check)()) { interrupt_check.store(check); }

int default_num_threads() {
    int cpus = int(std::max(1u, std::thread::hardware_concurrency()));
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
#endif
    const char* text = std::getenv("OMP_NUM_THREADS");
    int wanted = text ? std::atoi(text) : 0;
    return wanted > 0 ? std::min(wanted, 1024) : cpus;
}

int num_threads() {
    int count = thread_count.load();
    if (count == 0) thread_count.store(count = default_num_threads());
    return count;
}

void set_num_threads(int count) { thread_count.store(std::max(1, count)); }

}  // namespace drnmf
