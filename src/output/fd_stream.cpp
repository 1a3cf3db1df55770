// SPDX-License-Identifier: Apache-2.0
#include "output/fd_stream.h"

#include "base/patient_write.h"

namespace pyprof {

constexpr std::size_t kBufferBytes = 64 * 1024;

FdBuffer::FdBuffer(int fd) : fd_(fd), buffer_(kBufferBytes) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
}

int FdBuffer::sync() {
    if (error_ == 0) error_ = write_all(fd_, {pbase(), static_cast<std::size_t>(pptr() - pbase())});
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return error_ == 0 ? 0 : -1;
}

FdBuffer::int_type FdBuffer::overflow(int_type character) {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(character, traits_type::eof())) {
        *pptr() = traits_type::to_char_type(character);
        pbump(1);
    }
    return traits_type::not_eof(character);
}

}  // namespace pyprof
