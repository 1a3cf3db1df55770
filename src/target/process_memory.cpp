// SPDX-License-Identifier: Apache-2.0
//
// process_vm_readv copies range after range and stops at the first that it can't read, within it even
// (mm/process_vm_access.c copies page by page, whatever the manual says of whole elements). The number
// of bytes that it returns tells which range that was; errno is set only when nothing at all was read.
#include "target/process_memory.h"

#include <sys/uio.h>
#include <algorithm>
#include <array>
#include <cerrno>

namespace pyprof {
namespace {

// UIO_MAXIOV of the kernel; more is EINVAL.
constexpr std::size_t kRangesPerCall = 1024;

ReadFault fault_of(int error) {
    switch (error) {
        case ESRCH:
            return ReadFault::kGone;
        case EPERM:
        case EACCES:
        case ENOSYS:
            return ReadFault::kDenied;  // ENOSYS: a seccomp filter, or a kernel built without the call
        default:
            return ReadFault::kUnmapped;
    }
}

}  // namespace

ReadOutcome ProcessMemory::read(std::span<const ReadRange> ranges) {
    std::size_t complete = 0;
    while (complete < ranges.size()) {
        const auto batch = ranges.subspan(complete, std::min(kRangesPerCall, ranges.size() - complete));
        ReadOutcome outcome = read_batch(batch);
        if (outcome.fault == ReadFault::kGone && outcome.complete == 0 && find_another_) {
            if (const auto another = find_another_()) {
                pid_ = *another;
                outcome = read_batch(batch);
            }
        }
        complete += outcome.complete;
        if (outcome.fault != ReadFault::kNone) return {complete, outcome.fault};
    }
    return {complete, ReadFault::kNone};
}

ReadOutcome ProcessMemory::read_batch(std::span<const ReadRange> ranges) {
    // Not value-initialised: 32 KiB would be cleared for each read.
    std::array<iovec, kRangesPerCall> local;   // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::array<iovec, kRangesPerCall> remote;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        local[i] = {ranges[i].to.data(), ranges[i].to.size()};
        // A foreign address travels as a pointer because the call's signature wants one.
        remote[i] = {reinterpret_cast<void*>(raw(ranges[i].from)), ranges[i].to.size()};
    }
    ssize_t copied = 0;
    do {
        ++counters_.calls;
        copied = process_vm_readv(pid_, local.data(), ranges.size(), remote.data(), ranges.size(), 0);
    } while (copied < 0 && errno == EINTR);
    const ReadFault fault = copied < 0 ? fault_of(errno) : ReadFault::kUnmapped;
    std::size_t left = copied < 0 ? 0 : static_cast<std::size_t>(copied);
    counters_.bytes += left;

    std::size_t complete = 0;
    while (complete < ranges.size() && ranges[complete].to.size() <= left)
        left -= ranges[complete++].to.size();
    return {complete, complete == ranges.size() ? ReadFault::kNone : fault};
}

}  // namespace pyprof
