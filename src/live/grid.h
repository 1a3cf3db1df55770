// SPDX-License-Identifier: Apache-2.0
//
// A screen as a value: rows of cells with a text and a style. What draws it (a terminal, a golden file) comes
// after; a view is a pure function that returns one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pyprof {

enum class Colour : std::uint8_t { kDefault, kRed, kGreen, kYellow, kBlue, kMagenta, kCyan };

struct Style {
    Colour colour = Colour::kDefault;
    bool bold = false;
    bool dim = false;
    bool reverse = false;
    friend bool operator==(const Style&, const Style&) = default;
};

struct Cell {
    std::string text = " ";  // one glyph; empty: covered by the wide one at its left
    Style style;
    friend bool operator==(const Cell&, const Cell&) = default;
};

class Grid {
public:
    Grid(int rows, int columns);

    [[nodiscard]] int rows() const { return rows_; }
    [[nodiscard]] int columns() const { return columns_; }
    [[nodiscard]] const Cell& at(int row, int column) const;

    // Draws from `column` on what fits before `end` (default: the right edge), cut with "…"; foreign text is
    // escaped. Outside of the grid it draws nothing. Returns the column after the text.
    int put(int row, int column, std::string_view text, Style style = {}, int end = -1);
    // The same, ending before `end`.
    void put_right(int row, int end, std::string_view text, Style style = {});
    void restyle(int row, Style style);  // the whole row: a selection
    void fill(int row, int column, int end, std::string_view glyph, Style style);

    // Rows as text, without blanks at their ends.
    [[nodiscard]] std::string text() const;

private:
    void set(int row, int column, std::string_view glyph, int width, Style style);
    Cell& cell(int row, int column);

    int rows_;
    int columns_;
    std::vector<Cell> cells_;
};

// The same screen for a terminal that can draw nothing but ASCII.
Grid in_ascii(const Grid& grid);

}  // namespace pyprof
