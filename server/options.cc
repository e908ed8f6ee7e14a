#include "server/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cctype>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "server/base/listen_address.h"
#include "server/rpc/version.h"

namespace holdfast {
namespace {

constexpr int64_t kDayMs = 86'400'000;

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

std::string CheckListen(const std::string& value) {
  base::ListenAddress address;
  if (base::ParseListenAddress(value, &address)) return "";
  return "'" + value + "' is not HOST:PORT";
}

std::string CheckMetricsListen(const std::string& value) {
  return value == "off" ? "" : CheckListen(value);
}

std::string CheckPartition(const std::string& value) {
  const bool plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  return !value.empty() && value.size() <= 200 && plain
             ? ""
             : "'" + value + "' is not 1 to 200 letters, digits, - and _";
}

// Throws unless the values make sense together.
void CheckTogether(const core::MasterOptions& master) {
  auto refuse = [](const std::string& flag, const std::string& why) {
    throw CLI::ValidationError("--" + flag, why);
  };
  if (!std::has_single_bit(master.shard_count)) refuse("shards", "must be a power of two");
  if (master.client_ttl_min_ms > master.client_ttl_ms) {
    refuse("client-ttl-min-ms", "must not be above --client-ttl-ms");
  }
  if (master.client_ttl_max_ms < master.client_ttl_ms) {
    refuse("client-ttl-max-ms", "must not be below --client-ttl-ms");
  }
  if (master.heartbeat_interval_ms * 2 > master.client_ttl_ms) {
    refuse("heartbeat-interval-ms",
           "must be at most half of --client-ttl-ms, or one lost heartbeat ends a client");
  }
  if (master.upload_timeout_max_ms < master.upload_timeout_ms) {
    refuse("upload-timeout-max-ms", "must not be below --upload-timeout-ms");
  }
  if (master.put_release_timeout_ms < master.put_discard_timeout_ms) {
    refuse("put-release-timeout-ms", "must not be below --put-discard-timeout-ms");
  }
}

void AddLimits(CLI::App* app, core::MasterOptions* master) {
  app->add_option("--shards", master->shard_count,
                  "parts of the object table, a power of two: more mean less waiting of "
                  "calls for each other")
      ->check(CLI::Range(1u, 65536u));
  app->add_option("--max-segments", master->max_segments,
                  "registrations at a time: bounds the master's memory")
      ->check(CLI::Range(1u, 1u << 20));
  app->add_option("--max-clients", master->max_clients,
                  "sessions at a time: bounds the master's memory")
      ->check(CLI::Range(1u, 1u << 20));
  app->add_option("--max-batch-items", master->max_batch_items,
                  "items of a call: bounds the work of one handler")
      ->check(CLI::Range(1u, 4096u));
  app->add_option("--max-key-bytes", master->max_key_bytes,
                  "[bytes] length of a key: bounds the memory of an object")
      ->check(CLI::Range(1u, 1024u));
  app->add_option("--max-label-bytes", master->max_label_bytes,
                  "[bytes] length of a name, endpoint, host and the like: bounds the memory of a "
                  "registration")
      ->check(CLI::Range(1u, 1024u));
  app->add_option("--max-replicas", master->max_replicas,
                  "copies of an object: bounds its memory and what a put may take")
      ->check(CLI::Range(1u, 16u));
}

void AddMemory(CLI::App* app, core::MasterOptions* master) {
  app->add_option("--spare-memory-bytes", master->spare_memory_bytes,
                  "[bytes] memory for objects that is kept ready, so that puts do not wait for the "
                  "system; about what puts take in a tenth of a second")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 32));
}

void AddTimes(CLI::App* app, core::MasterOptions* master) {
  auto add = [app](const std::string& name, int64_t* value, const std::string& help, int64_t min,
                   int64_t max) {
    app->add_option("--" + name, *value, "[ms] " + help)->check(CLI::Range(min, max));
  };
  add("client-ttl-ms", &master->client_ttl_ms,
      "silence after which a client counts as dead and its segments end", 100, kDayMs);
  add("client-ttl-min-ms", &master->client_ttl_min_ms,
      "least that a client may ask for: less makes a short pause look like a death", 100, kDayMs);
  add("client-ttl-max-ms", &master->client_ttl_max_ms,
      "most that a client may ask for: so long its dead memory may be offered to readers", 100,
      kDayMs);
  add("heartbeat-interval-ms", &master->heartbeat_interval_ms,
      "how often clients are asked to send heartbeats", 10, kDayMs);
  add("read-lease-ms", &master->read_lease_ms,
      "how long the space of an object is kept after a get, for the reader's transfer; 0: not at "
      "all",
      0, kDayMs);
  add("put-discard-timeout-ms", &master->put_discard_timeout_ms,
      "age at which an unfinished put gives way to a new one", 1, kDayMs);
  add("put-release-timeout-ms", &master->put_release_timeout_ms,
      "age at which the space of an unfinished put is used again: nobody may still write then", 1,
      kDayMs);
  add("grace-max-ms", &master->grace_max_ms,
      "longest grace period of an unmount, so that a leaving segment does leave; 0: none", 0,
      7 * kDayMs);
  add("stall-threshold-ms", &master->stall_threshold_ms,
      "time without a round of the monitor after which the master takes itself, not its "
      "clients, for stopped",
      500, kDayMs);
  add("mass-expiry-grace-ms", &master->mass_expiry_grace_ms,
      "extra time when most clients seem to die at once, as when the network fails; 0: none", 0,
      kDayMs);
  app->add_option("--mass-expiry-min-clients", master->mass_expiry_min_clients,
                  "fewer clients than this are never given that extra time")
      ->check(CLI::Range(1u, 1u << 20));
}

void AddDurableTier(CLI::App* app, Options* options) {
  core::MasterOptions& master = options->master;
  app->add_option(
      "--durable-store", options->durable_store,
      "where durable replicas lie: file:///DIR or "
      "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path_style=true, with the usual AWS_* "
      "variables; clients are told it. Empty: no durable tier");
  app->add_option("--name-partition", master.name_partition,
                  "first part of every name in the durable tier; masters that share a store need "
                  "different ones")
      ->check(CLI::Validator(CheckPartition, "NAME"));
  app->add_option("--ledger-tickets", master.ledger_tickets,
                  "names in the durable tier that may be unpublished at a time: bounds what a dead "
                  "store leaves behind, and memory")
      ->check(CLI::Range(1u, 1u << 24));
  app->add_option(
         "--ledger-client-percent", master.ledger_client_percent,
         "[%] of the tickets that one client may hold, so that one broken uploader does not "
         "stop all")
      ->check(CLI::Range(1u, 100u));
  app->add_option(
         "--ledger-removal-percent", master.ledger_removal_percent,
         "[%] of the tickets that new puts leave to removed objects while some of these wait "
         "for one")
      ->check(CLI::Range(0u, 90u));
  auto add = [app](const std::string& name, int64_t* value, const std::string& help, int64_t min) {
    app->add_option("--" + name, *value, "[ms] " + help)->check(CLI::Range(min, kDayMs));
  };
  add("upload-timeout-ms", &master.upload_timeout_ms,
      "time for the upload of a durable replica when the put names none", 100);
  add("upload-timeout-max-ms", &master.upload_timeout_max_ms, "most that a put may ask for", 100);
  add("upload-grace-ms", &master.upload_grace_ms,
      "how long after its deadline an upload may still land; a name is deleted only after it", 0);
  add("publish-window-ms", &master.publish_window_ms,
      "how long after that a put with a durable replica may still be ended", 0);
  add("delete-timeout-ms", &options->delete_timeout_ms,
      "time for one request to the store that deletes names", 100);
  add("cleanup-budget-ms", &options->cleanup_budget_ms,
      "time at the end for names that are to be deleted; what is left is logged", 0);
}

void AddDaemon(CLI::App* app, Options* options) {
  app->add_option(
         "--listen", options->grpc.listen,
         "where the services listen; port 0 picks one. Nothing but loopback is safe without "
         "a firewall: calls are not authenticated")
      ->check(CLI::Validator(CheckListen, "HOST:PORT"));
  app->add_option("--metrics-listen", options->metrics_listen,
                  "where /metrics listens; port 0 picks one; off: no metrics")
      ->check(CLI::Validator(CheckMetricsListen, "HOST:PORT"));
  app->add_option("--port-file", options->port_file,
                  "file to write the bound port to when the master serves");
  app->add_option("--log-level", options->log_level, "least severe lines that are written")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  app->add_option("--shutdown-budget-ms", options->shutdown_budget_ms,
                  "[ms] time that calls in flight are given at the end; 0: none")
      ->check(CLI::Range(int64_t{0}, kDayMs));
  app->add_option("--max-concurrent-streams", options->grpc.max_concurrent_streams,
                  "calls of one connection at a time; more wait at the client")
      ->check(CLI::Range(1, 100000));
  app->add_option(
         "--max-message-bytes", options->grpc.max_message_bytes,
         "[bytes] size of a request or an answer: a full batch of the longest keys has to fit")
      ->check(CLI::Range(64 << 10, 64 << 20));
  app->add_option(
         "--transport-memory-bytes", options->grpc.transport_memory_bytes,
         "[bytes] size of all messages under way; when they are used up, clients have to wait")
      ->check(CLI::Range(int64_t{16} << 20, int64_t{1} << 40));
  app->add_option("--ping-interval-min-ms", options->grpc.ping_interval_min_ms,
                  "[ms] clients that send keepalive pings more often are cut off")
      ->check(CLI::Range(1000, 3600000));
}

}  // namespace

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  CLI::App app("Holdfast: metadata master of a distributed memory store.", "holdfast-master");
  // The last of several counts, so that a wrapper's flags can be overridden.
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  app.set_config("--config", "", "file of key=value lines; keys are the names of flags");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_version_flag("--version", std::string("holdfast-master ") + rpc::kVersion);
  bool print_config = false;
  app.add_flag("--print-config", print_config, "print the values in force and exit")
      ->configurable(false);
  AddDaemon(&app, &options);
  AddLimits(&app, &options.master);
  AddMemory(&app, &options.master);
  AddTimes(&app, &options.master);
  AddDurableTier(&app, &options);
  const std::map<std::string, core::PlacementStrategy> strategies = {
      {"random", core::PlacementStrategy::kRandom},
      {"free-ratio-first", core::PlacementStrategy::kFreeRatioFirst},
      {"local-first", core::PlacementStrategy::kLocalFirst}};
  std::string strategy = "free-ratio-first";
  app.add_option("--placement", strategy,
                 "which segment takes a new object: random, free-ratio-first (the emptier of two) "
                 "or local-first (the writer's own, then free-ratio-first)")
      ->check(CLI::IsMember({"random", "free-ratio-first", "local-first"}));
  // A function and not a variable, so that no seed made by chance is printed.
  options.master.seed = RandomSeed();
  options.master.hash_seed = RandomSeed();
  app.add_option_function<uint64_t>(
         "--seed",
         [&options](uint64_t seed) { options.master.seed = options.master.hash_seed = seed; },
         "start of the hash of keys and of ids, to repeat a run; by default by chance, so that "
         "nobody can choose keys that collide")
      ->check(CLI::Range(uint64_t{1}, uint64_t{std::numeric_limits<int64_t>::max()}));
  try {
    app.parse(argc, argv);
    options.master.strategy = strategies.at(strategy);
    CheckTogether(options.master);
    options.master.durable_tier = !options.durable_store.empty();
    if (print_config) {
      parsed.exit_code = 0;
      parsed.text = app.config_to_str(/*default_also=*/true);
    }
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream problem;
    const int code = app.exit(error, out, problem);
    parsed.exit_code = code == 0 ? 0 : 2;
    parsed.text = code == 0 ? out.str() : problem.str();
  }
  return parsed;
}

}  // namespace holdfast
