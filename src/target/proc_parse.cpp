// SPDX-License-Identifier: Apache-2.0
//
// A cursor that takes fields off the front of a text; every taker fails where the field is not there.
#include "target/proc_parse.h"

#include <algorithm>
#include <charconv>

namespace pyprof {
namespace {

class Fields {
public:
    explicit Fields(std::string_view text) : rest_(text) {}

    [[nodiscard]] bool skip(char expected) {
        if (rest_.empty() || rest_.front() != expected) return false;
        rest_.remove_prefix(1);
        return true;
    }

    void skip_blanks() {
        const auto at =
            std::find_if(rest_.begin(), rest_.end(), [](char c) { return c != ' ' && c != '\t'; });
        rest_.remove_prefix(static_cast<std::size_t>(at - rest_.begin()));
    }

    template <class T>
    [[nodiscard]] bool number(T& value, int base = 10) {
        const char* end = rest_.data() + rest_.size();
        const auto [at, error] = std::from_chars(rest_.data(), end, value, base);
        if (error != std::errc{}) return false;
        rest_.remove_prefix(static_cast<std::size_t>(at - rest_.data()));
        return true;
    }

    // "0x" and hexadecimal digits.
    [[nodiscard]] bool prefixed_hex(std::uint64_t& value) {
        return skip('0') && skip('x') && number(value, 16);
    }

    // A number after blanks.
    template <class T>
    [[nodiscard]] bool next(T& value, int base = 10) {
        skip_blanks();
        return number(value, base);
    }

    // A run of non-blanks after blanks.
    [[nodiscard]] bool skip_word() {
        skip_blanks();
        const std::size_t length = std::min(rest_.find_first_of(" \t\n"), rest_.size());
        rest_.remove_prefix(length);
        return length > 0;
    }

    [[nodiscard]] std::string_view rest() const { return rest_; }

private:
    std::string_view rest_;
};

// Takes the first line off `text`, without its newline.
std::string_view take_line(std::string_view& text) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    return line;
}

// fs/proc/task_mmu.c escapes the newline and nothing else, not even the backslash.
std::string unescape_path(std::string_view path) {
    constexpr std::string_view kNewline = "\\012";
    std::string out;
    while (!path.empty()) {
        const std::size_t length = std::min(path.find(kNewline), path.size());
        out.append(path.substr(0, length));
        path.remove_prefix(length);
        if (path.empty()) break;
        out += '\n';
        path.remove_prefix(kNewline.size());
    }
    return out;
}

std::optional<Mapping> parse_maps_line(std::string_view line) {
    Fields fields(line);
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    if (!fields.number(start, 16) || !fields.skip('-') || !fields.number(end, 16) || end < start) return {};
    fields.skip_blanks();
    const std::string_view rights = fields.rest().substr(0, 4);
    if (rights.size() != 4 || !fields.skip_word()) return {};
    std::uint64_t offset = 0;
    std::uint64_t major = 0;
    std::uint64_t minor = 0;
    std::uint64_t inode = 0;
    if (!fields.next(offset, 16) || !fields.next(major, 16) || !fields.skip(':') || !fields.number(minor, 16))
        return {};
    if (!fields.next(inode)) return {};
    fields.skip_blanks();

    Mapping mapping;
    mapping.start = Address{start};
    mapping.end = Address{end};
    mapping.file_offset = offset;
    mapping.device = major << 32 | (minor & 0xffffffffU);
    mapping.inode = inode;
    mapping.readable = rights[0] == 'r';
    mapping.writable = rights[1] == 'w';
    mapping.executable = rights[2] == 'x';
    std::string_view path = fields.rest();
    constexpr std::string_view kDeleted = " (deleted)";
    if (path.ends_with(kDeleted)) {
        mapping.deleted = true;
        path.remove_suffix(kDeleted.size());
    }
    mapping.path = unescape_path(path);
    return mapping;
}

// What follows the name, which ends at the last bracket: a name may hold brackets itself.
std::optional<std::size_t> end_of_name(std::string_view stat_text) {
    const std::size_t at = stat_text.rfind(')');
    if (at == std::string_view::npos || at + 2 >= stat_text.size() || stat_text[at + 1] != ' ') return {};
    return at;
}

void parse_status_line(std::string_view line, ProcStatus& status) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = line.substr(0, colon);
    Fields fields(line.substr(colon + 1));
    // A field that is not there keeps its default; what is read beside the effective id is thrown away.
    bool is_read = true;
    std::uint32_t real = 0;
    if (key == "Tgid") {
        is_read = fields.next(status.thread_group);
    } else if (key == "PPid") {
        is_read = fields.next(status.parent);
    } else if (key == "TracerPid") {
        is_read = fields.next(status.tracer);
    } else if (key == "Uid") {
        is_read = fields.next(real) && fields.next(status.effective_uid);
    } else if (key == "Gid") {
        is_read = fields.next(real) && fields.next(status.effective_gid);
    } else if (key == "CapPrm") {
        is_read = fields.next(status.permitted_capabilities, 16);
    } else if (key == "CapEff") {
        is_read = fields.next(status.effective_capabilities, 16);
    } else if (key == "Seccomp") {
        is_read = fields.next(status.seccomp_mode);
    } else if (key == "NSpid") {
        constexpr std::size_t kDeepest = 32;  // MAX_PID_NS_LEVEL
        for (pid_t id = 0; status.namespace_ids.size() <= kDeepest && fields.next(id);) {
            status.namespace_ids.push_back(id);
        }
    }
    static_cast<void>(is_read);
}

}  // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
    std::vector<Mapping> mappings;
    while (!text.empty()) {
        if (auto mapping = parse_maps_line(take_line(text))) mappings.push_back(std::move(*mapping));
    }
    return mappings;
}

std::optional<ProcStat> parse_stat(std::string_view text) {
    const auto end = end_of_name(text);
    const std::size_t begin = text.find('(');
    if (!end || begin == std::string_view::npos || begin > *end) return {};
    ProcStat stat;
    stat.name = text.substr(begin + 1, *end - begin - 1);
    stat.state = text[*end + 2];
    // The state is field 3; the parent is field 4, the threads are 20, the start is 22.
    Fields fields(text.substr(*end + 3));
    if (!fields.next(stat.parent)) return {};
    for (int field = 5; field < 20; ++field) {
        if (!fields.skip_word()) return {};
    }
    if (!fields.next(stat.thread_count) || !fields.skip_word() || !fields.next(stat.start_ticks)) return {};
    return stat;
}

char parse_state_letter(std::string_view stat_text) {
    const auto end = end_of_name(stat_text);
    return end ? stat_text[*end + 2] : '\0';
}

std::optional<ProcStatus> parse_status(std::string_view text) {
    ProcStatus status;
    while (!text.empty()) parse_status_line(take_line(text), status);
    if (status.thread_group <= 0) return {};
    return status;
}

Activity parse_syscall(std::string_view text) {
    Activity activity;
    if (text.starts_with("running")) {
        activity.kind = Activity::Kind::kRunning;
        return activity;
    }
    Fields fields(text);
    if (!fields.number(activity.syscall)) return {};
    // A thread that sleeps outside a call prints -1, its stack pointer and its program counter alone.
    if (activity.syscall >= 0) {
        for (std::uint64_t& argument : activity.arguments) {
            if (!fields.skip(' ') || !fields.prefixed_hex(argument)) return {};
        }
    }
    std::uint64_t stack_pointer = 0;
    std::uint64_t program_counter = 0;
    if (!fields.skip(' ') || !fields.prefixed_hex(stack_pointer)) return {};
    if (!fields.skip(' ') || !fields.prefixed_hex(program_counter)) return {};
    activity.stack_pointer = Address{stack_pointer};
    activity.program_counter = Address{program_counter};
    activity.kind = Activity::Kind::kBlocked;
    return activity;
}

std::optional<std::uint64_t> parse_run_delay(std::string_view text) {
    Fields fields(text);
    std::uint64_t run = 0;
    std::uint64_t wait = 0;
    if (!fields.next(run) || !fields.next(wait)) return {};
    return wait;
}

std::optional<std::uint64_t> parse_switch_count(std::string_view text) {
    Fields fields(text);
    std::uint64_t run = 0;
    std::uint64_t wait = 0;
    std::uint64_t count = 0;
    if (!fields.next(run) || !fields.next(wait) || !fields.next(count)) return {};
    return count;
}

std::vector<std::string> parse_command_line(std::string_view text) {
    std::vector<std::string> arguments;
    while (!text.empty()) {
        const std::size_t length = std::min(text.find('\0'), text.size());
        arguments.emplace_back(text.substr(0, length));
        text.remove_prefix(std::min(length + 1, text.size()));
    }
    return arguments;
}

std::vector<pid_t> parse_children(std::string_view text) {
    std::vector<pid_t> children;
    Fields fields(text);
    for (pid_t child = 0; fields.next(child);) children.push_back(child);
    return children;
}

}  // namespace pyprof
