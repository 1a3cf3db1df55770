// SPDX-License-Identifier: Apache-2.0
//
// The owner of one file descriptor. It must never hold a descriptor that someone else closes.
#pragma once

#include <unistd.h>
#include <utility>

namespace pyprof {

class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    ~UniqueFd() { reset(); }
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        reset(other.release());
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;

    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }
    explicit operator bool() const { return is_open(); }

    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

    // close() is not repeated after EINTR: on Linux the descriptor is gone by then (close(2)).
    void reset(int fd = -1) {
        const int old = std::exchange(fd_, fd);
        if (old >= 0 && old != fd) ::close(old);
    }

private:
    int fd_ = -1;
};

}  // namespace pyprof
