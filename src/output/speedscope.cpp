// SPDX-License-Identifier: Apache-2.0
//
// speedscope's file format (its file-format-schema.json): frames once, and one sampled profile a thread,
// each sample a list of frames from the root on and the time it stands for. The schema does not check
// that samples and weights are equally many or that a frame exists; the viewer breaks when they are not.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "output/describe.h"
#include "output/json_writer.h"
#include "output/run_figures.h"
#include "output/writers.h"

namespace pyprof {
namespace {

using std::chrono::nanoseconds;

void key(JsonWriter& json, std::string_view name) {
    json.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
}
void text(JsonWriter& json, std::string_view name, std::string_view value) {
    key(json, name);
    put_text(json, value);
}

struct Sample {
    std::uint32_t node = 0;  // 0: nothing was seen of the thread
    nanoseconds weight{0};
};

struct Track {
    ThreadIndex thread = 0;
    std::uint64_t samples = 0;
    std::vector<Sample> list;
    nanoseconds length{0};

    void append(std::uint32_t node, nanoseconds weight) {
        list.push_back({node, weight});
        length += weight;
    }
};

// Spans in the order of time; what lies between two of them is an empty stack, so that the axis is true.
// Ticks carry jitter: half an interval is no hole, and what was skipped so makes the next one longer.
void add_spans(const ResolvedProfile& profile, std::vector<Track>& tracks) {
    for (const ResolvedProfile::Span& span : profile.spans) {
        Track& track = tracks[span.thread];
        const nanoseconds hole = span.begin - track.length;
        const nanoseconds interval = span.weight / std::max<std::uint32_t>(span.samples, 1);
        if (hole > interval / 2) track.append(0, hole);
        track.append(span.node, span.weight);
        track.samples += span.samples;
    }
    for (Track& track : tracks) {
        const nanoseconds elapsed = profile.figures.elapsed;
        if (track.samples > 0 && elapsed > track.length) track.append(0, elapsed - track.length);
    }
}

void add_weights(const ResolvedProfile& profile, std::vector<Track>& tracks) {
    for (const ResolvedProfile::Weight& weight : profile.weights) {
        Track& track = tracks[weight.thread];
        track.append(weight.node, weight.time);
        track.samples += weight.samples;
    }
}

// Those with samples, the busiest first: viewers open the first, and people with hundreds of threads
// can't find it else. Of equals the main thread goes first.
std::vector<Track> make_tracks(const ResolvedProfile& profile) {
    std::vector<Track> tracks(profile.threads.size());
    for (ThreadIndex thread = 0; thread < tracks.size(); ++thread) tracks[thread].thread = thread;
    profile.spans.empty() ? add_weights(profile, tracks) : add_spans(profile, tracks);
    tracks.erase(std::remove_if(tracks.begin(), tracks.end(), [](const Track& t) { return t.samples == 0; }),
                 tracks.end());
    std::stable_sort(tracks.begin(), tracks.end(), [&](const Track& a, const Track& b) {
        if (a.samples != b.samples) return a.samples > b.samples;
        return profile.threads[a.thread].is_main && !profile.threads[b.thread].is_main;
    });
    return tracks;
}

// The viewer recurses over stacks: 5,000 frames it opened in Chromium, at 8,000 it ran out of its own stack
// and read nothing (1.25.0). So the middle of deeper ones is cut, well below that.
constexpr std::ptrdiff_t kMaxDepth = 3000;

bool is_too_deep(const ResolvedProfile& profile) {
    std::vector<std::ptrdiff_t> depths(profile.nodes.size(), 0);
    for (std::size_t node = 1; node < depths.size(); ++node) {
        depths[node] = depths[profile.nodes[node].parent] + 1;
        if (depths[node] > kMaxDepth) return true;
    }
    return false;
}

std::uint32_t cut_marker(const ResolvedProfile& profile) {
    return static_cast<std::uint32_t>(profile.frames.size());  // behind all others
}

void write_frames(JsonWriter& json, const ResolvedProfile& profile) {
    key(json, "shared");
    json.StartObject();
    key(json, "frames");
    json.StartArray();
    for (const ResolvedProfile::Frame& frame : profile.frames) {
        json.StartObject();
        text(json, "name", frame.name);
        if (!frame.file.empty()) text(json, "file", frame.file);
        if (frame.line > 0) {
            key(json, "line");
            json.Int(frame.line);
        }
        json.EndObject();
    }
    if (is_too_deep(profile)) {
        json.StartObject();
        text(json, "name", "[frames left out]");
        json.EndObject();
    }
    json.EndArray();
    json.EndObject();
}

// Root first. `frames` is kept for its memory.
void write_stack(JsonWriter& json, const ResolvedProfile& profile, std::uint32_t node,
                 std::vector<std::uint32_t>& frames) {
    frames.clear();
    for (; node != 0; node = profile.nodes[node].parent) frames.push_back(profile.nodes[node].frame);
    std::reverse(frames.begin(), frames.end());
    if (static_cast<std::ptrdiff_t>(frames.size()) > kMaxDepth) {
        const auto first = frames.begin() + kMaxDepth / 2;
        const auto last = frames.end() - kMaxDepth / 2;
        *first = cut_marker(profile);
        frames.erase(first + 1, last);
    }
    json.StartArray();
    for (const std::uint32_t frame : frames) json.Uint(frame);
    json.EndArray();
}

void write_track(JsonWriter& json, const ResolvedProfile& profile, const std::string& name, const Track& track) {
    json.StartObject();
    text(json, "type", "sampled");
    text(json, "name", name);
    text(json, "unit", "nanoseconds");
    key(json, "startValue");
    json.Int64(0);
    key(json, "endValue");
    json.Int64(track.length.count());
    key(json, "samples");
    json.StartArray();
    std::vector<std::uint32_t> frames;
    for (const Sample& sample : track.list) write_stack(json, profile, sample.node, frames);
    json.EndArray();
    key(json, "weights");
    json.StartArray();
    for (const Sample& sample : track.list) json.Int64(sample.weight.count());
    json.EndArray();
    json.EndObject();
}

std::string track_name(const ResolvedProfile& profile, const Track& track) {
    const ProfiledThread& thread = profile.threads[track.thread];
    const std::string id = fmt::format("thread {}", thread.native_id);
    const std::string name = thread.name.empty() ? id : fmt::format("{} ({})", thread.name, id);
    return profile.spans.empty() ? name + ", sums without order of time" : name;
}

}  // namespace

void write_speedscope(const ResolvedProfile& profile, const ExportOptions&, std::ostream& out) {
    JsonStream stream(out);
    JsonWriter json(stream);
    json.StartObject();
    text(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    text(json, "exporter", fmt::format("pyprof@{}", version()));
    text(json, "name", fmt::format("{} (pid {})", command_text(profile.facts), profile.facts.pid));
    key(json, "activeProfileIndex");
    json.Int(0);
    write_frames(json, profile);
    key(json, "profiles");
    json.StartArray();
    const std::vector<Track> tracks = make_tracks(profile);
    for (const Track& track : tracks) write_track(json, profile, track_name(profile, track), track);
    // The viewer needs one profile to open the file at all.
    if (tracks.empty()) write_track(json, profile, "no samples", Track{});
    json.EndArray();
    // The schema lets other keys stand, and the viewer passes over them.
    key(json, "pyprof");
    json.StartObject();
    put_figures(json, profile);
    json.EndObject();
    json.EndObject();
    stream.Put('\n');
}

}  // namespace pyprof
