// Memory on cache lines that is kept from one sweep to the next. Asked for anew in every sweep, large pieces come as
// fresh pages each time (always above 32 MB with glibc, and above 128 KB inside Dask's workers), and touching those for
// the first time takes as long as a good part of a sparse sweep.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>

namespace drnmf {

// Grown on demand; what was in it is then lost.
class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    template <class T>
    T* reserve(std::size_t count) {
        std::size_t bytes = count * sizeof(T) + alignment_;
        if (bytes > size_) {
            release();
            p_ = ::operator new[](bytes, std::align_val_t{alignment_});
            size_ = bytes;
        }
        return static_cast<T*>(p_);
    }

private:
    void release() {
        if (p_) ::operator delete[](p_, std::align_val_t{alignment_});
        p_ = nullptr, size_ = 0;
    }

    static constexpr std::size_t alignment_ = 64;
    void* p_ = nullptr;
    std::size_t size_ = 0;
};

// What sweeps over one X need besides its factors and their outputs; it lives as long as the Data that holds it.
struct Workspace {
    std::atomic<bool> busy{false};
    Buffer left, right, pairs, parts, curvature;
};

// The workspace for one sweep, or memory of its own where another sweep is using that.
class Borrowed {
public:
    explicit Borrowed(Workspace& shared) : taken_(!shared.busy.exchange(true)), at_(taken_ ? shared : own_) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() { give_back(); }
    Workspace* operator->() { return &at_; }

    // Before the end of the sweep, when nothing in it is needed any more.
    void give_back() {
        if (taken_) at_.busy.store(false);
        taken_ = false;
    }

private:
    Workspace own_;
    bool taken_;
    Workspace& at_;
};

}  // namespace drnmf
