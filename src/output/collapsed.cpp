// SPDX-License-Identifier: Apache-2.0
//
// Collapsed stacks: "root;caller;leaf 12", one line a distinct stack, sorted frame by frame. Readers split
// at ";" and at the last space, and some look at the first line only: so names are escaped, counts are
// integers, no comment is written and the last line ends like all others.
#include <ostream>
#include <string>
#include <vector>

#include "base/text.h"
#include "output/stack_tree.h"
#include "output/writers.h"

namespace pyprof {
namespace {

// Control bytes and newlines become \xNN, and so does what separates frames.
std::string escape(const std::string& label) {
    std::string text = escape_control(label);
    for (std::size_t at = text.find(';'); at != std::string::npos; at = text.find(';', at)) {
        text.replace(at, 1, "\\x3b");
    }
    return text;
}

}  // namespace

void write_collapsed(const ResolvedProfile& profile, const ExportOptions&, std::ostream& out) {
    const StackTree tree = build_tree(profile, {});
    std::vector<std::string> labels;
    for (const std::string& label : tree.labels) labels.push_back(escape(label));

    std::string line;
    std::vector<std::size_t> lengths{0};  // of the line up to each depth
    for (const StackTree::Node& node : tree.nodes) {
        if (node.depth > 0) {
            line.resize(lengths[node.depth - 1]);
            if (node.depth > 1) line += ';';
            line += labels[node.label];
            lengths.resize(node.depth + 1);
            lengths[node.depth] = line.size();
        }
        if (node.self == 0) continue;
        out << (node.depth == 0 ? "[no frames]" : line) << ' ' << node.self << '\n';
    }
}

}  // namespace pyprof
