// SPDX-License-Identifier: Apache-2.0
//
// The other texts of /proc, the version in names and texts, and what people type: each parser gets the
// whole input.
#include "base/parse.h"
#include "base/text.h"
#include "python/find_runtime_version.h"
#include "target/permission_facts.h"
#include "target/proc_parse.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pyprof;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto stat = parse_stat(text)) {
        check(stat->name.size() < size, "a name is longer than its text");
        check(stat->state == parse_state_letter(text), "two parsers see two states");
    }
    if (const auto status = parse_status(text))
        check(status->namespace_ids.size() <= 33, "too many namespaces");
    static_cast<void>(parse_syscall(text));
    static_cast<void>(parse_switch_count(text));
    static_cast<void>(parse_command_line(text));
    static_cast<void>(parse_children(text));
    static_cast<void>(user_name(1000, text));
    static_cast<void>(version_of_file_name(text));
    static_cast<void>(version_of_library_path(text));
    static_cast<void>(version_in_bytes(text));
    static_cast<void>(parse_rate(text));
    static_cast<void>(parse_duration(text));
    const std::string safe = escape_control(text);
    check(std::none_of(safe.begin(), safe.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }),
          "a control byte came through");
    check(escape_control(safe) == safe, "escaping twice changes something");
    return 0;
}
