// SPDX-License-Identifier: Apache-2.0
#include "native/unpack.h"

#include <lzma.h>

#include <cstdint>

namespace pyprof {
namespace {

constexpr std::size_t kLargest = std::size_t{256} << 20;
constexpr std::uint64_t kMostMemory = std::uint64_t{128} << 20;
constexpr std::size_t kStep = std::size_t{1} << 20;

struct Decoder {
    lzma_stream stream = LZMA_STREAM_INIT;
    ~Decoder() { lzma_end(&stream); }
};

// liblzma takes bytes as unsigned char.
const std::uint8_t* input_of(std::span<const std::byte> bytes) {
    return static_cast<const std::uint8_t*>(static_cast<const void*>(bytes.data()));
}

}  // namespace

std::vector<char> unpack_xz(std::span<const std::byte> packed) {
    Decoder decoder;
    if (packed.empty() || lzma_stream_decoder(&decoder.stream, kMostMemory, 0) != LZMA_OK) return {};
    decoder.stream.next_in = input_of(packed);
    decoder.stream.avail_in = packed.size();
    std::vector<char> unpacked;
    lzma_ret state = LZMA_OK;
    while (state == LZMA_OK && unpacked.size() < kLargest) {
        const std::size_t done = unpacked.size();
        unpacked.resize(done + kStep);
        decoder.stream.next_out = static_cast<std::uint8_t*>(static_cast<void*>(unpacked.data() + done));
        decoder.stream.avail_out = kStep;
        state = lzma_code(&decoder.stream, LZMA_FINISH);
        unpacked.resize(done + kStep - decoder.stream.avail_out);
    }
    return state == LZMA_STREAM_END ? unpacked : std::vector<char>();
}

}  // namespace pyprof
