// SPDX-License-Identifier: Apache-2.0
//
// What is written to stdout or stderr while an object lives: descriptors are turned to a file, as a shell does it.
#pragma once

#include "base/unique_fd.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <string>
#include <unistd.h>

namespace pyprof::test {

class Captured {
public:
    explicit Captured(int fd) : fd_(fd), kept_(::dup(fd)), file_(std::tmpfile()) {
        REQUIRE(file_ != nullptr);
        std::fflush(nullptr);
        ::dup2(::fileno(file_), fd);
    }
    ~Captured() {
        (void)text();
        std::fclose(file_);
    }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;

    // All of it; from now on nothing is captured.
    std::string text() {
        if (kept_.get() < 0) return text_;
        std::fflush(nullptr);
        ::dup2(kept_.get(), fd_);
        kept_.reset();
        std::rewind(file_);
        char piece[4096];
        while (const std::size_t count = std::fread(piece, 1, sizeof piece, file_)) text_.append(piece, count);
        return text_;
    }

private:
    int fd_;
    UniqueFd kept_;
    std::FILE* file_;
    std::string text_;
};

}  // namespace pyprof::test
