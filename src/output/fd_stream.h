// SPDX-License-Identifier: Apache-2.0
//
// A std::ostream over a descriptor that remembers why writing failed, which std::ofstream does not tell.
// After the first failure nothing more is written. It never closes the descriptor.
#pragma once

#include <ostream>
#include <streambuf>
#include <vector>

namespace pyprof {

class FdBuffer : public std::streambuf {
public:
    explicit FdBuffer(int fd);
    // errno of the first failed write; 0: none so far.
    [[nodiscard]] int error() const { return error_; }

protected:
    int_type overflow(int_type character) override;
    int sync() override;

private:
    int fd_;
    int error_ = 0;
    std::vector<char> buffer_;
};

}  // namespace pyprof
