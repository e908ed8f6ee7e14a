#include "client/cli/text.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace holdfast::cli {
namespace {

// Length of the valid UTF-8 character that `bytes` starts with, and its code point; 0 when it starts with none.
size_t DecodeUtf8(absl::string_view bytes, uint32_t* code_point) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = at(0);
  const size_t length = first < 0x80           ? 1
                        : (first >> 5) == 0x6  ? 2
                        : (first >> 4) == 0xE  ? 3
                        : (first >> 3) == 0x1E ? 4
                                               : 0;
  if (length == 0 || bytes.size() < length) return 0;
  constexpr uint8_t kFirstMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800,
                                    0x10000};  // a longer form than needed is not valid
  uint32_t value = first & kFirstMask[length];
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    value = value << 6 | (at(i) & 0x3F);
  }
  if (value < kSmallest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    return 0;
  *code_point = value;
  return length;
}

// Control characters would be obeyed by the terminal, and direction marks make a text look like another one.
bool IsPrintable(uint32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == '\\') return false;
  const bool format =
      (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F);
  return !format && c != 0xFEFF;
}

// Columns that a text takes, near enough: one for each character.
size_t Width(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string Escape(absl::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    uint32_t code_point = 0;
    const size_t length = DecodeUtf8(bytes, &code_point);
    if (length > 0 && IsPrintable(code_point)) {
      absl::StrAppend(&text, bytes.substr(0, length));
    } else if (bytes[0] == '\\') {
      absl::StrAppend(&text, "\\\\");
    } else {
      for (size_t i = 0; i < std::max<size_t>(length, 1); ++i) {
        absl::StrAppendFormat(&text, "\\x%02x", static_cast<uint8_t>(bytes[i]));
      }
    }
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

std::string HexId(absl::string_view bytes) {
  std::string hex = absl::BytesToHexString(bytes);
  if (bytes.size() != 16) return hex;
  const absl::string_view digits = hex;
  return absl::StrCat(digits.substr(0, 8), "-", digits.substr(8, 4), "-", digits.substr(12, 4), "-",
                      digits.substr(16, 4), "-", digits.substr(20));
}

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Escape(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::Write(std::ostream& out) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = titles[i].size();
    for (const auto& row : rows_) width = std::max(width, Width(row[i]));
    widths.push_back(width);
  }
  const auto write_row = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - Width(cells[i]), ' ');
      if (i > 0) absl::StrAppend(&line, "  ");
      if (columns_[i].align == Align::kRight) {
        absl::StrAppend(&line, padding, cells[i]);
      } else {
        absl::StrAppend(&line, cells[i], padding);
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  write_row(titles);
  for (const auto& row : rows_) write_row(row);
}

void Properties::Add(absl::string_view name, absl::string_view value) {
  lines_.emplace_back(std::string(name), value.empty() ? "-" : Escape(value));
}

void Properties::Write(std::ostream& out) const {
  size_t width = 0;
  for (const auto& [name, value] : lines_) width = std::max(width, name.size());
  for (const auto& [name, value] : lines_) {
    out << name << ':' << std::string(width - name.size() + 2, ' ') << value << '\n';
  }
}

}  // namespace holdfast::cli
