// SPDX-License-Identifier: Apache-2.0
#include "live/grid.h"

#include <pyprof/error.h>

#include "base/text.h"
#include "live/text_width.h"

#include <algorithm>
#include <utility>

namespace pyprof {

namespace {

constexpr std::pair<std::string_view, std::string_view> kAsciiForms[] = {
    {"▁", "_"}, {"▂", "."}, {"▃", ":"}, {"▄", "-"}, {"▅", "="}, {"▆", "+"}, {"▇", "*"}, {"█", "#"},
    {"─", "-"}, {"▸", "+"}, {"▾", "-"}, {"…", "~"}, {"±", "~"}, {"·", "."}, {"▼", "v"}, {"▲", "^"},
};

}  // namespace

Grid::Grid(int rows, int columns) : rows_(std::max(rows, 0)), columns_(std::max(columns, 0)) {
    cells_.resize(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_));
}

Cell& Grid::cell(int row, int column) {
    check(row >= 0 && row < rows_ && column >= 0 && column < columns_, "a cell outside of the grid");
    return cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column)];
}

const Cell& Grid::at(int row, int column) const { return const_cast<Grid*>(this)->cell(row, column); }

// A wide glyph of which one half is overwritten leaves a blank in its other half.
void Grid::set(int row, int column, std::string_view glyph, int width, Style style) {
    if (cell(row, column).text.empty()) cell(row, column - 1).text = " ";
    const int after = column + width;
    if (after < columns_ && cell(row, after).text.empty()) cell(row, after).text = " ";
    cell(row, column) = {std::string(glyph), style};
    if (width == 2) cell(row, column + 1) = {"", style};
}

int Grid::put(int row, int column, std::string_view text, Style style, int end) {
    if (end < 0 || end > columns_) end = columns_;
    if (row < 0 || row >= rows_ || column < 0 || column >= end) return column;
    const std::string fit = cut_end(escape_control(text), end - column);
    std::string_view rest = fit;
    while (!rest.empty()) {
        const Glyph glyph = take_glyph(rest);
        set(row, column, glyph.text, glyph.columns, style);
        column += glyph.columns;
    }
    return column;
}

void Grid::put_right(int row, int end, std::string_view text, Style style) {
    const int width = columns_of(escape_control(text));
    put(row, std::max(end - width, 0), text, style, end);
}

void Grid::restyle(int row, Style style) {
    if (row < 0 || row >= rows_) return;
    for (int column = 0; column < columns_; ++column) cell(row, column).style = style;
}

void Grid::fill(int row, int column, int end, std::string_view glyph, Style style) {
    if (row < 0 || row >= rows_) return;
    for (column = std::max(column, 0); column < std::min(end, columns_); ++column) set(row, column, glyph, 1, style);
}

std::string Grid::text() const {
    std::string all;
    for (int row = 0; row < rows_; ++row) {
        std::string line;
        for (int column = 0; column < columns_; ++column) line += at(row, column).text;
        line.erase(line.find_last_not_of(' ') + 1);
        all += line + '\n';
    }
    return all;
}

Grid in_ascii(const Grid& grid) {
    Grid plain(grid.rows(), grid.columns());
    for (int row = 0; row < grid.rows(); ++row) {
        for (int column = 0; column < grid.columns(); ++column) {
            const Cell& from = grid.at(row, column);
            std::string_view text = from.text;
            if (text.empty() || static_cast<unsigned char>(text.front()) >= 0x80 || text.size() > 1) text = "?";
            for (const auto& [glyph, form] : kAsciiForms) {
                if (from.text == glyph) text = form;
            }
            plain.put(row, column, text, from.style);
        }
    }
    return plain;
}

}  // namespace pyprof
