// SPDX-License-Identifier: Apache-2.0
#include "live/top_errors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

namespace pyprof {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t kNoRow = 0xFFFFFFFF;

// A subject is a row or a node. Its own time is row 2 i + 1 of a series, its total row 2 i + 2; row 0 is the base of all shares.
struct Subject {
    TopErrors* errors = nullptr;
    TopCount now;
    TopCount all;
};

// What several recordings have in common.
struct Sums {
    std::vector<SampleSeries::Spread> spreads;
    double square_weight = 0;
    bool is_thinned = false;
};

class ErrorMaker {
public:
    ErrorMaker(TopTree& tree, TopErrorsOf what) : tree_(tree), subject_of_node_(tree.nodes.size(), kNoRow), rows_of_(tree.nodes.size()) {
        thread_of_ = threads_of(tree);
        if (what == TopErrorsOf::kNodes) {
            for (std::uint32_t i = 1; i < tree.nodes.size(); ++i) add_node(i);
            return;
        }
        const std::vector<TopRow> rows = make_top_rows(tree);
        tree.row_errors.assign(rows.size(), {});
        for (std::size_t i = 0; i < rows.size(); ++i) {
            subject_of_row_[{rows[i].thread, rows[i].function}] = static_cast<std::uint32_t>(subjects_.size());
            subjects_.push_back({&tree.row_errors[i], rows[i].now, rows[i].all});
        }
        for (const std::uint32_t child : tree.nodes.front().children) {
            if (tree.per_thread) add_node(child);
        }
    }

    void add(const SeriesOfTree& one) {
        Sums& sums = one.is_last_interval ? now_ : all_;
        const std::size_t rows = 2 * subjects_.size() + 1;
        const auto found = one.series.spreads([&](std::uint32_t key) { return rows_of(one.node_of_key[key]); }, rows);
        sums.spreads.resize(rows);
        for (std::size_t i = 0; i < rows; ++i) {
            sums.spreads[i].variance += found[i].variance;
            sums.spreads[i].with_first += found[i].with_first;
        }
        sums.square_weight = std::max(sums.square_weight, one.series.square_weight());
        sums.is_thinned = sums.is_thinned || one.series.is_thinned();
    }

    void finish() {
        const TopCount& now = tree_.nodes.front().now;
        for (std::size_t i = 0; i < subjects_.size(); ++i) {
            const Subject& subject = subjects_[i];
            subject.errors->own_percent = share(2 * i + 1, subject.now.own, now);
            subject.errors->total_percent = share(2 * i + 2, subject.now.total, now);
            subject.errors->own_time = time(2 * i + 1, subject.all.own);
            subject.errors->total_time = time(2 * i + 2, subject.all.total);
        }
    }

private:
    void add_node(std::uint32_t node) {
        subject_of_node_[node] = static_cast<std::uint32_t>(subjects_.size());
        TopTree::Node& what = tree_.nodes[node];
        subjects_.push_back({&what.errors, what.now, what.all});
    }

    // The rows that a sample of this node counts in, each once. A thread's heading has a total alone.
    std::span<const std::uint32_t> rows_of(std::uint32_t leaf) {
        std::vector<std::uint32_t>& rows = rows_of_[leaf];
        if (!rows.empty() || leaf == 0 || (tree_.per_thread && tree_.nodes[leaf].parent == 0)) return rows;
        rows.push_back(0);
        for (std::uint32_t node = leaf; node != 0; node = tree_.nodes[node].parent) {
            const auto note = [&](std::uint32_t subject) {
                if (node == leaf) rows.push_back(2 * subject + 1);
                rows.push_back(2 * subject + 2);
            };
            if (subject_of_node_[node] != kNoRow) note(subject_of_node_[node]);
            const auto row = subject_of_row_.find({thread_of_[node], tree_.nodes[node].function});
            if (row != subject_of_row_.end()) note(row->second);
        }
        std::sort(rows.begin(), rows.end());
        rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
        return rows;
    }

    // The variance of n/N where both are counted: that of n - (n/N) N, over N squared.
    [[nodiscard]] double share(std::size_t row, std::uint64_t n, const TopCount& base) const {
        if (base.total == 0 || now_.spreads.empty()) return 0;
        const double p = static_cast<double>(n) / static_cast<double>(base.total);
        const SampleSeries::Spread& spread = now_.spreads[row];
        const double variance = spread.variance - 2 * p * spread.with_first + p * p * now_.spreads.front().variance;
        return 100 * std::sqrt(std::max(variance, 0.0) + SampleSeries::kPrior * now_.square_weight) / static_cast<double>(base.total_time.count());
    }

    // What ran only in times that were left out: as if its samples were independent.
    [[nodiscard]] nanoseconds time(std::size_t row, std::uint64_t n) const {
        if (all_.spreads.empty()) return nanoseconds{0};
        double variance = all_.spreads[row].variance;
        if (variance == 0 && all_.is_thinned) variance = static_cast<double>(n) * all_.square_weight;
        return nanoseconds(static_cast<std::int64_t>(std::sqrt(variance + SampleSeries::kPrior * all_.square_weight)));
    }

    TopTree& tree_;
    std::vector<Subject> subjects_;
    std::vector<std::uint32_t> subject_of_node_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> subject_of_row_;  // by thread and function
    std::vector<std::uint32_t> thread_of_;
    std::vector<std::vector<std::uint32_t>> rows_of_;  // by node, once asked for
    Sums now_;
    Sums all_;
};

}  // namespace

void add_errors(TopTree& tree, const std::vector<SeriesOfTree>& series, TopErrorsOf what) {
    ErrorMaker maker(tree, what);
    for (const SeriesOfTree& one : series) maker.add(one);
    maker.finish();
}

}  // namespace pyprof
