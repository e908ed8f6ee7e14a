// Text for terminals: what came over the network never reaches one unescaped.

#ifndef HOLDFAST_CLIENT_CLI_TEXT_H_
#define HOLDFAST_CLIENT_CLI_TEXT_H_

#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace holdfast::cli {

// Printable UTF-8 as it is; control and direction characters, other bytes and the backslash as \xNN and \\.
std::string Escape(absl::string_view bytes);

// "0011aabb..." in the groups of a UUID when it has 16 bytes.
std::string HexId(absl::string_view bytes);

// Rows that are written with all columns aligned. Cells are escaped.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns.
  void Add(std::vector<std::string> cells);
  // With a line of titles.
  void Write(std::ostream& out) const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Lines "name:  value" with the values aligned; an empty value is written as "-". Values are escaped.
class Properties {
 public:
  void Add(absl::string_view name, absl::string_view value);
  void Write(std::ostream& out) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_TEXT_H_
