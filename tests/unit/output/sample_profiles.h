// SPDX-License-Identifier: Apache-2.0
//
// Small profiles whose every number can be told by hand, shared by the tests of the formats.
#pragma once

#include <pyprof/profile.h>

#include <string>
#include <vector>

namespace pyprof::test {

// Builds a resolved profile stack by stack: frames root first, samples of 10 ms each.
class ProfileBuilder {
public:
    ProfileBuilder() { profile_.nodes.push_back({}); }

    ThreadIndex thread(std::uint64_t native_id, const std::string& name, bool is_main = false) {
        profile_.threads.push_back({native_id, name, is_main});
        return static_cast<ThreadIndex>(profile_.threads.size() - 1);
    }
    std::uint32_t frame(ResolvedProfile::Frame frame) {
        for (std::uint32_t i = 0; i < profile_.frames.size(); ++i) {
            const ResolvedProfile::Frame& known = profile_.frames[i];
            if (known.name == frame.name && known.full_file == frame.full_file && known.line == frame.line)
                return i;
        }
        profile_.frames.push_back(std::move(frame));
        return static_cast<std::uint32_t>(profile_.frames.size() - 1);
    }
    std::uint32_t python(const std::string& name, const std::string& file, std::int32_t line) {
        return frame({FrameKind::kPython, name, file, "/srv/" + file, line});
    }
    std::uint32_t python(const std::string& name, const std::string& file, const std::string& full,
                         std::int32_t line) {
        return frame({FrameKind::kPython, name, file, full, line});
    }
    std::uint32_t marker(const std::string& name) { return frame({FrameKind::kMarker, name, "", "", 0}); }

    std::uint32_t node(const std::vector<std::uint32_t>& frames) {
        std::uint32_t node = 0;
        for (const std::uint32_t frame : frames) node = child(node, frame);
        return node;
    }
    // Also appends a span that ends at `end_ms`; 0: no span.
    void add(ThreadIndex thread, const std::vector<std::uint32_t>& frames, std::uint32_t samples,
             int end_ms = 0) {
        const std::chrono::milliseconds time{10 * samples};
        const std::uint32_t leaf = node(frames);
        profile_.weights.push_back({thread, leaf, samples, time});
        profile_.total_samples += samples;
        if (end_ms == 0) return;
        profile_.spans.push_back({thread, leaf, samples, time, std::chrono::milliseconds(end_ms) - time});
    }

    ResolvedProfile& profile() { return profile_; }

private:
    std::uint32_t child(std::uint32_t parent, std::uint32_t frame) {
        for (std::uint32_t i = parent + 1; i < profile_.nodes.size(); ++i) {
            if (profile_.nodes[i].parent == parent && profile_.nodes[i].frame == frame) return i;
        }
        profile_.nodes.push_back({parent, frame});
        return static_cast<std::uint32_t>(profile_.nodes.size() - 1);
    }

    ResolvedProfile profile_;
};

// A web service with two threads: 100 samples, names that need escaping, all three families of files.
inline ResolvedProfile service_profile() {
    ProfileBuilder b;
    const ThreadIndex main = b.thread(4711, "MainThread", true);
    const ThreadIndex worker = b.thread(4712, "pool-1 <io> & \"co\"");
    const auto module = b.python("<module>", "app.py", 88);
    const auto serve = b.python("Service.serve", "app.py", 41);
    const auto lambda = b.python("Service.serve.<locals>.<lambda>", "app.py", 44);
    const auto render = b.python("Template.render", "jinja2/environment.py",
                                 "/srv/venv/lib/python3.12/site-packages/jinja2/environment.py", 1301);
    const auto dumps = b.python("dumps", "json/__init__.py", "/usr/lib/python3.12/json/__init__.py", 231);
    const auto encode =
        b.python("JSONEncoder.encode", "json/encoder.py", "/usr/lib/python3.12/json/encoder.py", 200);
    const auto odd = b.python("a;b\n\x1B[31mc\xC3\xA9\xE4\xBB\xB6", "odd & <file>.py", 7);
    const auto start =
        b.python("Thread._bootstrap", "threading.py", "/usr/lib/python3.12/threading.py", 1030);
    const auto gc = b.marker("[gc]");
    const auto unproved = b.marker("[unproved]");

    b.add(main, {module, serve, dumps, encode}, 30, 300);
    b.add(main, {module, serve, lambda, render}, 25, 550);
    b.add(main, {module, serve, dumps, encode, gc}, 5, 600);
    b.add(main, {module, serve}, 4, 640);
    b.add(worker, {start, odd}, 20, 800);
    b.add(main, {module, serve, lambda, render}, 10, 900);  // nothing seen of it from 640 to 800
    b.add(worker, {unproved, encode}, 1, 810);
    b.add(worker, {start, odd}, 5, 1000);

    ResolvedProfile profile = b.profile();
    profile.facts.pid = 4711;
    profile.facts.command = {"python3", "app.py", "--title", "Tom & \"Jerry\" <1>"};
    profile.facts.working_directory = "/srv";
    profile.facts.python = "3.12.1";
    profile.facts.rate_hz = 100;
    profile.facts.which_threads = "running";
    profile.figures.ticks = 100;
    profile.figures.samples = 100;
    profile.figures.truncated = 1;
    profile.figures.refused = 2;
    profile.figures.busiest_thread_samples = 74;
    profile.figures.elapsed = std::chrono::milliseconds(1000);
    return profile;
}

// A program of many modules whose calls spread at random (the same each time): some 100,000 distinct
// stacks where many samples are asked for.
inline ResolvedProfile wide_profile(std::uint32_t samples) {
    struct Module {
        const char* file;
        const char* directory;
    };
    constexpr Module kModules[] = {
        {"shop/views.py", "/srv/"},
        {"shop/models.py", "/srv/"},
        {"shop/pricing.py", "/srv/"},
        {"main.py", "/srv/"},
        {"django/db/models/query.py", "/srv/venv/lib/python3.12/site-packages/"},
        {"django/core/handlers/base.py", "/srv/venv/lib/python3.12/site-packages/"},
        {"sqlalchemy/orm/session.py", "/srv/venv/lib/python3.12/site-packages/"},
        {"requests/sessions.py", "/srv/venv/lib/python3.12/site-packages/"},
        {"json/decoder.py", "/usr/lib/python3.12/"},
        {"logging/__init__.py", "/usr/lib/python3.12/"},
        {"re/_parser.py", "/usr/lib/python3.12/"},
        {"selectors.py", "/usr/lib/python3.12/"}};
    constexpr const char* kNames[] = {"handle",          "Query.fetch", "compute_total",  "Session.request",
                                      "parse",           "<listcomp>",  "Manager.filter", "<lambda>",
                                      "render_template", "load",        "Cache.get",      "_dispatch",
                                      "Field.validate",  "emit",        "walk",           "to_internal"};
    ResolvedProfile profile;
    profile.nodes.push_back({});
    profile.threads.push_back({100, "MainThread", true});
    for (std::uint32_t i = 0; i < 192; ++i) {
        const Module& module = kModules[i % 12];
        profile.frames.push_back({FrameKind::kPython, kNames[i / 12], module.file,
                                  std::string(module.directory) + module.file,
                                  static_cast<std::int32_t>(10 + 7 * i)});
    }
    std::uint64_t state = 1;
    const auto random = [&](std::uint32_t limit) {  // Knuth's MMIX generator
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::uint32_t>(state >> 33) % limit;
    };
    std::vector<std::vector<std::uint32_t>> children{{}};
    std::vector<std::size_t> weight_of{0};
    for (std::uint32_t i = 0; i < samples; ++i) {
        std::uint32_t node = 0;
        for (std::uint32_t depth = 0; depth < 40 && (depth < 4 || random(12) != 0); ++depth) {
            const std::uint32_t spread = 1 + node * 7 % 4;
            const std::uint32_t frame = (node * 31 + random(spread) * random(spread) + 3 * depth) % 192;
            std::uint32_t next = 0;
            for (const std::uint32_t child : children[node])
                next = profile.nodes[child].frame == frame ? child : next;
            if (next == 0) {
                next = static_cast<std::uint32_t>(profile.nodes.size());
                profile.nodes.push_back({node, frame});
                children[node].push_back(next);
                children.emplace_back();
                weight_of.push_back(0);
            }
            node = next;
        }
        if (weight_of[node] == 0) {
            profile.weights.push_back({0, node, 0, {}});
            weight_of[node] = profile.weights.size();
        }
        ResolvedProfile::Weight& weight = profile.weights[weight_of[node] - 1];
        ++weight.samples;
        weight.time += std::chrono::milliseconds(1);
    }
    profile.total_samples = samples;
    profile.facts.pid = 20417;
    profile.facts.command = {"python3", "-m", "shop.main", "--workers", "1"};
    profile.facts.working_directory = "/srv";
    profile.facts.python = "3.12.1";
    profile.facts.rate_hz = 1000;
    profile.facts.which_threads = "running";
    profile.figures.refused = samples / 400;
    profile.figures.truncated = samples / 150;
    profile.figures.busiest_thread_samples = samples;
    profile.figures.elapsed = std::chrono::milliseconds(samples) * 1003 / 1000;
    return profile;
}

// One function that calls itself `depth` times, half of the samples at the end, the others on the way.
inline ResolvedProfile deep_profile(std::uint32_t depth) {
    ResolvedProfile profile;
    profile.nodes.push_back({});
    profile.threads.push_back({100, "MainThread", true});
    profile.frames.push_back({FrameKind::kPython, "<module>", "deep.py", "/srv/deep.py", 9});
    profile.frames.push_back({FrameKind::kPython, "descend", "deep.py", "/srv/deep.py", 4});
    profile.frames.push_back({FrameKind::kPython, "leaf", "deep.py", "/srv/deep.py", 2});
    profile.nodes.push_back({0, 0});
    for (std::uint32_t i = 1; i < depth; ++i) {
        profile.nodes.push_back({i, 1});
        if (i % (depth / 50) == 0) profile.weights.push_back({0, i, 1, std::chrono::milliseconds(10)});
    }
    profile.nodes.push_back({depth, 2});
    profile.weights.push_back({0, depth + 1, 50, std::chrono::milliseconds(500)});
    for (const ResolvedProfile::Weight& weight : profile.weights) profile.total_samples += weight.samples;
    profile.facts.pid = 7;
    profile.facts.command = {"python3", "deep.py"};
    profile.facts.rate_hz = 100;
    profile.facts.which_threads = "running";
    profile.figures.busiest_thread_samples = profile.total_samples;
    profile.figures.elapsed = std::chrono::seconds(1);
    return profile;
}

inline ResolvedProfile empty_profile() {
    ResolvedProfile profile;
    profile.nodes.push_back({});
    profile.facts.pid = 1;
    return profile;
}

}  // namespace pyprof::test
