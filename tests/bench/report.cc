#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  if (std::abs(value) >= 1000) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.4g", value);
}

}  // namespace

void Report::Add(const std::string& name, double value) {
  fields_.emplace_back(name, Number(value));
}

void Report::Add(const std::string& name, uint64_t value) {
  fields_.emplace_back(name, absl::StrCat(value));
}

void Report::Add(const std::string& name, const std::string& value) {
  fields_.emplace_back(name, absl::StrCat("\"", value, "\""));
}

void Report::Add(const std::string& name, const std::vector<double>& values) {
  fields_.emplace_back(name, absl::StrCat("[",
                                          absl::StrJoin(values, ", ",
                                                        [](std::string* out, double value) {
                                                          out->append(Number(value));
                                                        }),
                                          "]"));
}

void Report::Add(const std::string& name, const std::vector<Report>& rows) {
  fields_.emplace_back(name, absl::StrCat("[",
                                          absl::StrJoin(rows, ", ",
                                                        [](std::string* out, const Report& row) {
                                                          out->append(row.ToJson());
                                                        }),
                                          "]"));
}

std::string Report::ToJson() const {
  return absl::StrCat("{",
                      absl::StrJoin(fields_, ", ",
                                    [](std::string* out, const auto& field) {
                                      absl::StrAppend(out, "\"", field.first, "\": ", field.second);
                                    }),
                      "}");
}

std::string Report::ToText() const {
  std::string text;
  for (const auto& [name, value] : fields_) absl::StrAppendFormat(&text, "%-28s %s\n", name, value);
  return text;
}

}  // namespace holdfast::bench
