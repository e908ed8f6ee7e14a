// holdfast-bench: load from a process of its own, and figures. Each verb starts a master unless --master names one.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

#include "absl/synchronization/mutex.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

void AddThroughputFlags(CLI::App* verb, ThroughputFlags* flags) {
  verb->add_option("--op", flags->op)->check(CLI::IsMember({"put", "get", "exists", "mixed"}));
  verb->add_option("--mode", flags->mode, "unary: one key a call")
      ->check(CLI::IsMember({"unary", "batch"}));
  verb->add_option("--batch", flags->batch)->check(CLI::Range(1, 4096));
  verb->add_option("--clients", flags->clients)->check(CLI::Range(1, 1000));
  verb->add_option("--in-flight", flags->in_flight, "calls of one client at a time")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--seconds", flags->seconds)->check(CLI::Range(0.1, 3600.0));
  verb->add_option("--segments", flags->segments)->check(CLI::Range(1, 10000));
  verb->add_option("--keys", flags->keys)->check(CLI::Range(1, 200000000));
}

int Main(int argc, char** argv) {
  CLI::App app("Measures a Holdfast master.", "holdfast-bench");
  app.require_subcommand(1);
  app.fallthrough();
  CommonFlags common;
  bool json = false;
  app.add_option("--master", common.master, "address of a running master; default: start one");
  app.add_flag("--json", json, "print one JSON object as the last line");
  std::function<Report()> run;

  ThroughputFlags throughput;
  CLI::App* verb = app.add_subcommand("throughput", "operations a second; a put is start and end");
  AddThroughputFlags(verb, &throughput);
  verb->callback([&] { run = [&] { return RunThroughput(common, throughput); }; });

  ThroughputFlags ceiling;
  verb = app.add_subcommand("ceiling",
                            "the same against a server that only answers, alternating in one run");
  AddThroughputFlags(verb, &ceiling);
  verb->callback([&] { run = [&] { return RunCeiling(common, ceiling); }; });

  UnmountStormFlags storm;
  verb = app.add_subcommand("unmount-storm", "segments that leave together under traffic");
  verb->add_option("--keys", storm.keys)->check(CLI::Range(1, 200000000));
  verb->add_option("--segments", storm.segments)->check(CLI::Range(1, 31));
  verb->add_option("--unmount", storm.unmount)->check(CLI::Range(1, 31));
  verb->add_option("--clients", storm.clients)->check(CLI::Range(1, 1000));
  verb->add_option("--batch", storm.batch)->check(CLI::Range(1, 4096));
  verb->add_option("--load", storm.load, "share of the throughput that saturates")
      ->check(CLI::Range(0.01, 1.0));
  verb->add_option("--before-seconds", storm.before_seconds, "traffic before the unmounts")
      ->check(CLI::Range(0.5, 600.0));
  verb->callback([&] { run = [&] { return RunUnmountStorm(common, storm); }; });

  UnmountLatencyFlags latency;
  verb = app.add_subcommand("unmount-latency", "slope of the unmount call over resident keys");
  verb->add_option("--keys", latency.keys)->delimiter(',');
  verb->add_option("--segments", latency.segments, "unmounts measured for each number of keys")
      ->check(CLI::Range(1, 10000));
  verb->callback([&] { run = [&] { return RunUnmountLatency(common, latency); }; });

  SweepFlags sweep;
  verb = app.add_subcommand("sweep", "cost of a small segment's cleanup against that of all");
  verb->add_option("--keys", sweep.keys)->check(CLI::Range(1000, 200000000));
  verb->add_option("--share", sweep.share)->check(CLI::Range(0.0001, 0.5));
  verb->callback([&] { run = [&] { return RunSweep(common, sweep); }; });

  MemoryFlags memory;
  verb = app.add_subcommand("memory", "resident bytes of the master for an object");
  verb->add_option("--keys", memory.keys)->check(CLI::Range(1000, 200000000));
  verb->add_option("--key-bytes", memory.key_bytes)->check(CLI::Range(16, 1024));
  verb->callback([&] { run = [&] { return RunMemory(common, memory); }; });

  StoreOutageFlags outage;
  verb = app.add_subcommand(
      "store-outage", "traffic in memory while the durable store hangs and the ledger is full");
  verb->add_option("--seconds", outage.seconds,
                   "of the outage; half as long before it and after it")
      ->check(CLI::Range(1.0, 3600.0));
  verb->add_option("--tickets", outage.tickets, "bound of the ledger")
      ->check(CLI::Range(1, 1'000'000));
  verb->add_option("--keys", outage.keys)->check(CLI::Range(1, 200000000));
  verb->add_option("--load", outage.load, "share of the throughput that saturates")
      ->check(CLI::Range(0.01, 1.0));
  verb->add_option("--delete-ms", outage.delete_ms, "of each request to the store after the outage")
      ->check(CLI::Range(0, 9000));
  verb->callback([&] { run = [&] { return RunStoreOutage(common, outage); }; });

  verb = app.add_subcommand("ledger-capacity", "retained bytes of a ticket, four shapes");
  verb->callback([&] { run = [&] { return RunLedgerCapacity(common); }; });

  LedgerOverheadFlags overhead;
  verb = app.add_subcommand("ledger-overhead", "upload cycle with and without the ledger, paired");
  verb->add_option("--directory", overhead.directory, "where the file store is made");
  verb->add_option("--store-latency-ms", overhead.store_latency_ms, "added to each upload")
      ->check(CLI::Range(0, 10'000));
  verb->add_option("--rounds-max", overhead.rounds_max,
                   "ABBA rounds at most, if the ratio's spread stays above the limit")
      ->check(CLI::Range(3, 1000));
  verb->callback([&] { run = [&] { return RunLedgerOverhead(common, overhead); }; });

  CLI11_PARSE(app, argc, argv);
  // As the master does, and as a store client should.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  try {
    const Report report = run();
    std::fputs(report.ToText().c_str(), stdout);
    if (json) std::printf("%s\n", report.ToJson().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "holdfast-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) { return holdfast::bench::Main(argc, argv); }
