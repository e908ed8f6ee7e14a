#include "server/ops/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace holdfast::ops {

void SetUpLogging(const std::string& level) {
  auto logger = spdlog::get("holdfast");
  if (logger == nullptr) logger = spdlog::stderr_logger_mt("holdfast");
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace holdfast::ops
