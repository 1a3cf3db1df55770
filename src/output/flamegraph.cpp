// SPDX-License-Identifier: Apache-2.0
//
// The flame graph: one SVG that needs nothing else. Without its script (an <img>, a viewer) it is a fixed
// picture 1,200 wide; with it the picture follows the window, zooms and searches. Each frame is a nested
// <svg> whose x and width are percentages: it clips its text, and a zoom changes two attributes. data-x
// and data-n are its first sample and its number of samples, for the script and for other programs.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "output/describe.h"
#include "output/flame_layout.h"
#include "output/flamegraph_assets.h"
#include "output/json_writer.h"
#include "output/palette.h"
#include "output/run_figures.h"
#include "output/stack_tree.h"
#include "output/writers.h"
#include "output/xml.h"

namespace pyprof {
namespace {

constexpr int kWidth = 1200;
constexpr int kMargin = 12;
constexpr int kRow = 20;  // one of it is the gap
constexpr int kHeader = 112;
constexpr int kNoteLine = 18;
constexpr double kCharacter = 6.9;  // of the frames' font, on the wide side; the clipping forgives
constexpr double kFramedWidth = 4;  // narrower boxes would be all edge
constexpr int kTextMargin = 5;

std::string_view root_label(const ResolvedProfile& profile) {
    return profile.total_samples == 0 ? "[no samples]" : "[all]";
}

// Counts code points: what is cut must stay UTF-8.
std::string first_characters(std::string_view text, std::size_t count) {
    std::size_t end = 0;
    while (end < text.size() && count > 0) {
        ++end;
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
        --count;
    }
    return std::string(text.substr(0, end));
}

std::size_t count_characters(std::string_view text) {
    std::size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    return count;
}

// What of a label is legible in a box: all, the name without the file, the start of the name, or nothing.
std::string box_text(const std::string& label, double width) {
    const double room = (width - 2 * kTextMargin) / kCharacter;
    if (room < 3) return {};
    const auto characters = static_cast<std::size_t>(room);
    const std::size_t file = label.size() > 1 && label.back() == ')' ? label.rfind(" (") : std::string::npos;
    const std::string name = label.substr(0, file);
    if (count_characters(label) <= characters && file != std::string::npos && file > 0) {
        return fmt::format("{}<tspan>{}</tspan>", xml_text(name), xml_text(label.substr(file)));
    }
    if (count_characters(name) <= characters) return xml_text(name);
    return xml_text(first_characters(name, characters - 1)) + "\xE2\x80\xA6";
}

class Picture {
public:
    Picture(const ResolvedProfile& profile, const ExportOptions& options, std::ostream& out)
        : profile_(profile), options_(options), out_(out) {
        const FlameLimits limits;
        TreeOptions tree;
        tree.inverted = options.inverted;
        tree.max_depth = limits.max_rows - 1;
        tree_ = build_tree(profile, tree);
        layout_ = lay_out(tree_, limits);
        top_ = kHeader + kNoteLine * notes();
    }

    void write() {
        const int height = top_ + static_cast<int>(layout_.rows) * kRow + kMargin;
        fmt::print(
            out_,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
            "class=\"pyprof\" data-generator=\"pyprof {2}\">\n",
            kWidth, height, version());
        fmt::print(out_, "<title>{}</title>\n", xml_text(command_text(profile_.facts)));
        write_metadata();
        out_ << "<style>" << kFlamegraphStyle << "</style>\n"
             << "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
        write_frames();
        write_header();
        out_ << "<script><![CDATA[" << kFlamegraphScript << "]]></script>\n</svg>\n";
    }

private:
    [[nodiscard]] int notes() const {
        return (layout_.narrow_boxes > 0 ? 1 : 0) + (tree_.cut_samples > 0 ? 1 : 0);
    }

    // No viewer shows it.
    void write_metadata() {
        JsonText text;
        JsonWriter json(text.stream());
        json.StartObject();
        put_figures(json, profile_);
        json.EndObject();
        fmt::print(out_, "<metadata>{}</metadata>\n", xml_text(text.text()));
    }

    void write_header() {
        fmt::print(out_, "<g id=\"head\">\n<rect class=\"page\" width=\"100%\" height=\"{}\"/>\n", top_ - 4);
        line("command", 26, command_text(profile_.facts));
        line("facts", 47, setting_text(profile_));
        line("facts", 65,
             fmt::format("{} \xC2\xB7 percentages of {}{}", count_text(profile_), base_text(profile_),
                         options_.inverted ? " \xC2\xB7 inverted: callees above callers" : ""));
        write_notes(83);
        write_legend();
        fmt::print(out_,
                   "<svg id=\"info\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"24\"><text y=\"16\"/></svg>\n",
                   kMargin, top_ - 32, kWidth - 2 * kMargin);
        out_ << "</g>\n";
    }

    // A line of its own clips its text; the whole text is the tooltip.
    void line(std::string_view css_class, int baseline, const std::string& text) {
        const std::string escaped = xml_text(text);
        fmt::print(out_,
                   "<svg class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"24\"><title>{}</title>"
                   "<text y=\"18\">{}</text></svg>\n",
                   css_class, kMargin, baseline - 18, kWidth - 2 * kMargin, escaped, escaped);
    }

    void write_notes(int baseline) {
        if (layout_.narrow_boxes > 0) {
            line("note", baseline,
                 fmt::format("{} narrow frames are not drawn; each has at most {} ({:.2g}%).",
                             with_commas(layout_.narrow_boxes), samples_text(layout_.narrow_samples),
                             100.0 * static_cast<double>(layout_.narrow_samples) /
                                 static_cast<double>(layout_.total)));
            baseline += kNoteLine;
        }
        if (tree_.cut_samples > 0) {
            line("note", baseline,
                 fmt::format("{} ({}) go deeper than is drawn, which is {} rows at most.{}",
                             samples_text(tree_.cut_samples), share_text(tree_.cut_samples, layout_.total),
                             layout_.rows - 1,
                             options_.inverted ? "" : " Inverted order shows their leaves."));
        }
    }

    void write_legend() {
        struct Entry {
            std::string_view css_class;
            std::string_view text;
            int width;
        };
        constexpr Entry kEntries[] = {{"o2", "program", 82},
                                      {"p2", "packages", 90},
                                      {"s4", "standard library", 128},
                                      {"n2", "native", 66},
                                      {"m", "markers", 66}};
        const bool has_native = std::any_of(profile_.frames.begin(), profile_.frames.end(),
                                            [](const auto& frame) { return frame.kind == FrameKind::kNative; });
        const int width = has_native ? 432 : 366;
        int x = 0;
        fmt::print(out_, "<svg id=\"legend\" x=\"{}\" y=\"50\" width=\"{}\" height=\"24\">",
                   kWidth - kMargin - width, width);
        for (const Entry& entry : kEntries) {
            if (entry.css_class[0] == 'n' && !has_native) continue;
            fmt::print(out_,
                       "<g class=\"{}\"><rect x=\"{}\" y=\"6\" width=\"11\" height=\"11\" rx=\"2\"/></g>"
                       "<text x=\"{}\" y=\"15\">{}</text>",
                       entry.css_class, x, x + 16, entry.text);
            x += entry.width;
        }
        out_ << "</svg>\n";
    }

    void write_frames() {
        fmt::print(out_,
                   "<svg id=\"frames\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" data-row=\"{}\" "
                   "data-total=\"{}\" "
                   "data-base=\"{}\">\n",
                   kMargin, top_, kWidth - 2 * kMargin, static_cast<int>(layout_.rows) * kRow, kRow,
                   layout_.total, xml_text(base_text(profile_)));
        for (const FlameBox& box : layout_.boxes) write_frame(box);
        out_ << "</svg>\n";
    }

    void write_frame(const FlameBox& box) {
        const bool is_root = box.row == 0;
        const std::string label = is_root ? std::string(root_label(profile_)) : tree_.labels[box.label];
        const double whole = layout_.total == 0 ? 1 : static_cast<double>(layout_.total);
        const double width = layout_.total == 0 ? 100 : 100 * static_cast<double>(box.samples) / whole;
        const double pixels = width / 100 * (kWidth - 2 * kMargin);
        fmt::print(out_,
                   "<svg class=\"f {}\" x=\"{:.4f}%\" y=\"{}\" width=\"{:.4f}%\" height=\"{}\" data-x=\"{}\" "
                   "data-n=\"{}\"><title>{}\n{}, {} of {}</title><rect width=\"100%\" height=\"100%\"/>",
                   (is_root ? "m" : css_class(box.label)) + (pixels >= kFramedWidth ? " w" : ""),
                   100 * static_cast<double>(box.begin) / whole, box.row * kRow, width, kRow - 1, box.begin,
                   box.samples, xml_text(label), samples_text(box.samples),
                   share_text(box.samples, layout_.total), xml_text(base_text(profile_)));
        const std::string text = box_text(label, pixels);
        if (!text.empty()) fmt::print(out_, "<text x=\"{}\" y=\"14\">{}</text>", kTextMargin, text);
        out_ << "</svg>\n";
    }

    [[nodiscard]] std::string css_class(std::uint32_t label) const {
        return colour_class(profile_.frames[tree_.frames[label]], profile_.facts.working_directory);
    }

    const ResolvedProfile& profile_;
    const ExportOptions& options_;
    std::ostream& out_;
    StackTree tree_;
    FlameLayout layout_;
    int top_ = 0;
};

}  // namespace

void write_flamegraph(const ResolvedProfile& profile, const ExportOptions& options, std::ostream& out) {
    Picture(profile, options, out).write();
}

}  // namespace pyprof
