// SPDX-License-Identifier: Apache-2.0
#include "cli/dump_tasks.h"

#include "base/text.h"
#include "profile/source_path.h"
#include "profile/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace pyprof {

namespace {

constexpr std::size_t kDeepestIndent = 40;  // levels; deeper ones stand as far in

void write_text(PrettyJsonWriter& writer, const char* key, std::string_view value) {
    writer.Key(key);
    put_text(writer, to_valid_utf8(value));
}

std::string_view kind_of(const DumpTask& task) { return task.is_greenlet ? "greenlet" : "task"; }

std::string id_of(const DumpTask& task) { return fmt::format("{:#x}", task.id); }

// The tree as a list of lines to print: (task, depth, how it is awaited), parents before children.
class TaskTree {
public:
    explicit TaskTree(const Dump& dump) : dump_(dump), awaited_(dump.tasks.size()), is_printed_(dump.tasks.size(), false) {
        for (std::size_t task = 0; task < dump.tasks.size(); ++task) {
            for (const DumpTask::Awaiter& awaiter : dump.tasks[task].awaiters) awaited_[awaiter.task].push_back(task);
        }
    }

    template <class Print>
    void print_all(Print&& print) {
        for (std::size_t task = 0; task < dump_.tasks.size(); ++task) {
            if (dump_.tasks[task].awaiters.empty()) print_below(task, print);
        }
        // What is left waits in a circle.
        for (std::size_t task = 0; task < dump_.tasks.size(); ++task) {
            if (!is_printed_[task]) print_below(task, print);
        }
    }

private:
    struct Open {
        std::size_t task = 0;
        std::size_t depth = 0;
        const DumpTask::Awaiter* edge = nullptr;
    };
    template <class Print>
    void print_below(std::size_t root, Print&& print) {
        std::vector<Open> open{{root, 0, nullptr}};
        while (!open.empty()) {
            const Open next = open.back();
            open.pop_back();
            const bool is_new = !is_printed_[next.task];
            print(next.task, next.depth, next.edge, is_new);
            if (!is_new) continue;
            is_printed_[next.task] = true;
            const std::vector<std::size_t>& below = awaited_[next.task];
            for (auto child = below.rbegin(); child != below.rend(); ++child) {
                open.push_back({*child, next.depth + 1, edge_of(*child, next.task)});
            }
        }
    }
    [[nodiscard]] const DumpTask::Awaiter* edge_of(std::size_t task, std::size_t awaiter) const {
        for (const DumpTask::Awaiter& edge : dump_.tasks[task].awaiters) {
            if (edge.task == awaiter) return &edge;
        }
        return nullptr;
    }

    const Dump& dump_;
    std::vector<std::vector<std::size_t>> awaited_;
    std::vector<bool> is_printed_;
};

std::string state_of(const DumpTask& task, const Dump& dump) {
    if (task.state == TaskState::kReady && !task.has_begun) return "ready, not begun";
    if (task.state != TaskState::kWaiting) return std::string(name_of(task.state));
    if (task.waiting_on_task) {
        const DumpTask& other = dump.tasks[*task.waiting_on_task];
        return fmt::format("waiting on {} \"{}\"", kind_of(other), escape_control(other.name));
    }
    const std::string_view begun = task.has_begun ? "" : ", not begun";
    if (task.waiting_on.empty()) return fmt::format("waiting{}", begun);
    return fmt::format("waiting on {}{}", escape_control(task.waiting_on), begun);
}

}  // namespace

std::string label_of(const DumpFrame& frame, const std::string& working_directory, bool full_filename) {
    std::string text = escape_control(frame.name);
    if (frame.file.empty()) return frame.module.empty() ? text : fmt::format("{} ({})", text, escape_control(frame.module));
    const std::string_view file =
        full_filename ? std::string_view(frame.file) : shorten(frame.file, working_directory).short_path;
    text += fmt::format(" ({}", escape_control(file));
    return text + (frame.line > 0 ? fmt::format(":{})", frame.line) : ")");
}

void append_tasks(const Dump& dump, bool full_filenames, std::string& out) {
    const auto to = std::back_inserter(out);
    if (!dump.asyncio_problem.empty()) fmt::format_to(to, "\nTasks can't be read: {}\n", dump.asyncio_problem);
    if (dump.torn_tasks > 0) fmt::format_to(to, "\n{} tasks moved on while they were read, and are left out\n", dump.torn_tasks);
    TaskTree tree(dump);
    tree.print_all([&](std::size_t index, std::size_t depth, const DumpTask::Awaiter* edge, bool is_new) {
        const DumpTask& task = dump.tasks[index];
        const std::string indent(2 * std::min(depth, kDeepestIndent), ' ');
        if (depth == 0) fmt::format_to(to, "\n");
        fmt::format_to(to, "{}{} \"{}\"", indent, task.is_greenlet ? "Greenlet" : "Task", escape_control(task.name));
        if (!is_new) {
            fmt::format_to(to, ", see above\n");
            return;
        }
        fmt::format_to(to, " {}", state_of(task, dump));
        if (edge != nullptr) fmt::format_to(to, " [{}]", name_of(edge->source));
        fmt::format_to(to, "\n");
        for (const DumpFrame& frame : task.frames) {
            fmt::format_to(to, "{}    {}\n", indent, label_of(frame, dump.process.working_directory, full_filenames));
        }
        for (const std::uint64_t worker : task.workers) fmt::format_to(to, "{}    work goes on in thread {}\n", indent, worker);
        for (const std::uint64_t waiter : task.waiting_threads) fmt::format_to(to, "{}    thread {} waits for it\n", indent, waiter);
        if (!task.creation.empty()) fmt::format_to(to, "{}    made by\n", indent);
        for (const DumpFrame& frame : task.creation) {
            fmt::format_to(to, "{}        {}\n", indent, label_of(frame, dump.process.working_directory, full_filenames));
        }
    });
}

void write_frames(PrettyJsonWriter& writer, std::span<const DumpFrame> frames, const char* key) {
    writer.Key(key);
    writer.StartArray();
    for (const DumpFrame& frame : frames) {
        writer.StartObject();
        const bool is_python = frame.kind == FrameKind::kPython;
        write_text(writer, "kind", is_python ? "python" : frame.kind == FrameKind::kNative ? "native" : "marker");
        write_text(writer, "name", frame.name);
        write_text(writer, "file", frame.file);
        writer.Key("line");
        writer.Int(frame.line);
        if (frame.kind == FrameKind::kNative) write_text(writer, "module", frame.module);
        writer.EndObject();
    }
    writer.EndArray();
}

void write_tasks(PrettyJsonWriter& writer, const Dump& dump) {
    const auto text_or_null = [&](const char* key, const std::string& value) {
        if (!value.empty()) return write_text(writer, key, value);
        writer.Key(key);
        writer.Null();
    };
    text_or_null("asyncio_problem", dump.asyncio_problem);
    writer.Key("torn_tasks");
    writer.Uint(dump.torn_tasks);
    writer.Key("tasks");
    writer.StartArray();
    for (const DumpTask& task : dump.tasks) {
        writer.StartObject();
        write_text(writer, "id", id_of(task));
        write_text(writer, "kind", kind_of(task));
        write_text(writer, "name", task.name);
        writer.Key("named");
        writer.Bool(task.is_named);
        write_text(writer, "coroutine", task.coroutine);
        write_text(writer, "state", name_of(task.state));
        writer.Key("begun");
        writer.Bool(task.has_begun);
        writer.Key("thread");
        task.thread ? writer.Uint64(*task.thread) : writer.Null();
        text_or_null("waiting_on", task.waiting_on);
        text_or_null("waiting_on_task", task.waiting_on_task ? id_of(dump.tasks[*task.waiting_on_task]) : "");
        writer.Key("awaited_by");
        writer.StartArray();
        for (const DumpTask::Awaiter& awaiter : task.awaiters) {
            writer.StartObject();
            write_text(writer, "task", id_of(dump.tasks[awaiter.task]));
            write_text(writer, "source", name_of(awaiter.source));
            writer.Key("waits");
            writer.Bool(awaiter.is_wait);
            writer.Key("depth");
            writer.Uint(awaiter.depth);
            writer.Key("inferred");
            writer.Bool(is_inferred(awaiter.source));
            writer.EndObject();
        }
        writer.EndArray();
        writer.Key("workers");
        writer.StartArray();
        for (const std::uint64_t worker : task.workers) writer.Uint64(worker);
        writer.EndArray();
        writer.Key("waiting_threads");
        writer.StartArray();
        for (const std::uint64_t waiter : task.waiting_threads) writer.Uint64(waiter);
        writer.EndArray();
        write_frames(writer, task.frames);
        write_frames(writer, task.creation, "creation");
        writer.EndObject();
    }
    writer.EndArray();
}

}  // namespace pyprof
