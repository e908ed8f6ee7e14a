// Flags and configuration file of the daemon.

#ifndef HOLDFAST_SERVER_OPTIONS_H_
#define HOLDFAST_SERVER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "server/core/operations.h"
#include "server/rpc/grpc_server.h"

namespace holdfast {

struct Options {
  core::MasterOptions master;
  rpc::GrpcServerOptions grpc;
  std::string metrics_listen = "127.0.0.1:9464";  // "off": no metrics
  std::string port_file;
  std::string log_level = "info";
  int64_t shutdown_budget_ms = 5'000;
  std::string durable_store;  // empty: no durable tier
  int64_t delete_timeout_ms = 10'000;
  int64_t cleanup_budget_ms = 30'000;
  // False: background work is done only when somebody runs the passes by hand, as tests do.
  bool start_workers = true;
};

// What the daemon does after its command line was read.
struct ParsedOptions {
  Options options;
  // Set: print `text` (on stderr unless 0) and exit with it. 0 after --help, --version and --print-config, 2 on bad usage.
  std::optional<int> exit_code;
  std::string text;
};

// Reads flags and the file that --config names; a flag overrides the file. An unknown key or a bad value is an error that
// names it.
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_OPTIONS_H_
