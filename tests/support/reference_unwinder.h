// SPDX-License-Identifier: Apache-2.0
//
// Well-known unwinders on a thread that is stopped already: the references for frame lists and for speed.
// Both read the target word by word while it is stopped, which only a test can afford.
#pragma once

#include <pyprof/address.h>

#include <elfutils/libdwfl.h>
#include <libunwind-ptrace.h>
#include <sys/types.h>
#include <stdexcept>
#include <vector>

namespace pyprof::test {

class ReferenceUnwinder {
public:
    virtual ~ReferenceUnwinder() = default;
    // The thread is stopped by this thread of ours. Innermost first.
    virtual std::vector<Address> unwind(pid_t tid) = 0;
};

class LibunwindReference final : public ReferenceUnwinder {
public:
    explicit LibunwindReference(bool has_cache = true) : space_(unw_create_addr_space(&_UPT_accessors, 0)) {
        if (space_ == nullptr) throw std::runtime_error("libunwind gives no address space");
        unw_set_caching_policy(space_, has_cache ? UNW_CACHE_GLOBAL : UNW_CACHE_NONE);
        if (has_cache) unw_set_cache_size(space_, 8192, 0);
    }
    ~LibunwindReference() override { unw_destroy_addr_space(space_); }
    LibunwindReference(const LibunwindReference&) = delete;
    LibunwindReference& operator=(const LibunwindReference&) = delete;

    std::vector<Address> unwind(pid_t tid) override {
        std::vector<Address> frames;
        void* thread = _UPT_create(tid);
        unw_cursor_t cursor;
        if (unw_init_remote(&cursor, space_, thread) == 0) {
            do {
                unw_word_t pc = 0;
                unw_get_reg(&cursor, UNW_REG_IP, &pc);
                frames.push_back(Address{pc});
            } while (frames.size() < kMostFrames && unw_step(&cursor) > 0);
        }
        _UPT_destroy(thread);
        return frames;
    }

private:
    static constexpr std::size_t kMostFrames = 10'000;
    unw_addr_space_t space_;
};

class LibdwflReference final : public ReferenceUnwinder {
public:
    explicit LibdwflReference(pid_t pid) : dwfl_(dwfl_begin(&kCallbacks)) {
        const bool is_attached = dwfl_ != nullptr && dwfl_linux_proc_report(dwfl_, pid) == 0 &&
                                 dwfl_report_end(dwfl_, nullptr, nullptr) == 0 &&
                                 dwfl_linux_proc_attach(dwfl_, pid, true) == 0;
        if (!is_attached) throw std::runtime_error("libdwfl can't attach");
    }
    ~LibdwflReference() override { dwfl_end(dwfl_); }
    LibdwflReference(const LibdwflReference&) = delete;
    LibdwflReference& operator=(const LibdwflReference&) = delete;

    std::vector<Address> unwind(pid_t tid) override {
        std::vector<Address> frames;
        dwfl_getthread_frames(
            dwfl_, tid,
            [](Dwfl_Frame* frame, void* to) {
                Dwarf_Addr pc = 0;
                if (!dwfl_frame_pc(frame, &pc, nullptr)) return -1;
                static_cast<std::vector<Address>*>(to)->push_back(Address{pc});
                return static_cast<int>(DWARF_CB_OK);
            },
            &frames);
        return frames;
    }

private:
    static inline char* no_path_ = nullptr;
    static constexpr Dwfl_Callbacks kCallbacks{dwfl_linux_proc_find_elf, dwfl_standard_find_debuginfo,
                                               nullptr, &no_path_};
    Dwfl* dwfl_;
};

}  // namespace pyprof::test
