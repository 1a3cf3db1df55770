// SPDX-License-Identifier: Apache-2.0
//
// A hostile snapshot, as a file and as bare records; what can be read is then searched for an interpreter,
// as a hostile process would be.
#include "python/find_runtime.h"
#include "target/snapshot_target.h"

#include <cstdint>

namespace {

using namespace pyprof;

void look_into(Snapshot snapshot) {
    const std::vector<std::byte> file = encode_snapshot(snapshot);
    SnapshotTarget target(std::move(snapshot));
    FindOptions options;
    options.probe = [&](Address runtime, int minor) {
        return minor == 9 && read_value<std::uint64_t>(target.memory(), runtime).value_or(1) == 0;
    };
    static_cast<void>(find_runtime(target, options));
    const auto again = decode_snapshot(file);
    check(again && encode_snapshot(*again) == file, "a snapshot changes when it is written and read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    static_cast<void>(decode_snapshot(bytes));
    if (auto snapshot = decode_snapshot_records(bytes)) look_into(std::move(*snapshot));
    return 0;
}
