#include "server/ops/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/testing/manual_clock.h"

namespace holdfast::ops {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() : master_(core::MasterOptions()) {}

  MetricSources Sources() { return {&master_, &clock_, &sweep_, &retry_, &rpc_}; }
  std::vector<MetricFamily> Collect() { return MetricsCollector(Sources()).Collect(); }

  // The figures of the page by series, as a scraper reads them.
  std::map<std::string, double> ReadPage() {
    std::map<std::string, double> series;
    const std::string page = prometheus::TextSerializer().Serialize(Collect());
    for (absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
      if (absl::StartsWith(line, "# HELP ") || absl::StartsWith(line, "# TYPE ")) continue;
      const std::pair<std::string, std::string> parts = absl::StrSplit(line, ' ');
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(parts.second, &value)) << line;
      EXPECT_TRUE(series.emplace(parts.first, value).second) << "twice: " << line;
    }
    return series;
  }

  core::Master master_;
  base::SteadyClock clock_;
  cleanup::SweepStatistics sweep_;
  cleanup::RetryStatistics retry_;
  RpcMetrics rpc_;
};

TEST_F(ExporterTest, PageParsesAndShowsTheState) {
  core::HeartbeatRequest open;
  open.client.bytes[0] = 1;
  open.incarnation = 1;
  ASSERT_TRUE(master_.Heartbeat(open, 0).ok());
  const auto series = ReadPage();
  EXPECT_EQ(series.at("holdfast_clients"), 1);
  EXPECT_EQ(series.at("holdfast_objects"), 0);
  EXPECT_GT(series.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(series.at("process_open_fds"), 3);
  EXPECT_EQ(series.count("holdfast_heap_bytes"), 1u);  // 0 under sanitizers
}

TEST_F(ExporterTest, NamesFollowTheConventions) {
  std::set<std::string> names;
  for (const MetricFamily& family : Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << "twice: " << family.name;
    EXPECT_TRUE(absl::StartsWith(family.name, "holdfast_") ||
                absl::StartsWith(family.name, "process_"))
        << family.name;
    EXPECT_EQ(family.type == MetricType::Counter, absl::EndsWith(family.name, "_total"))
        << family.name;
    EXPECT_FALSE(absl::EndsWith(family.name, "_ms") || absl::EndsWith(family.name, "_us"))
        << family.name;
    EXPECT_NE(family.help, "") << family.name;
  }
}

// Nothing that a client can choose becomes a label: neither escaping nor the number of series is in its hands.
TEST_F(ExporterTest, LabelsAreFromFixedLists) {
  for (size_t method = 0; method < base::kMethodNames.size(); ++method) {
    rpc_.OnCall(static_cast<base::Method>(method), absl::StatusCode::kOk, 0.001);
  }
  retry_.RecordFailure("a code of {a} \"store\"");
  for (const MetricFamily& family : Collect()) {
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) {
        EXPECT_TRUE(label.name == "method" || label.name == "code" || label.name == "reason")
            << label.name;
        for (const char c : label.value) EXPECT_TRUE(absl::ascii_isalpha(c) || c == '_');
      }
    }
  }
}

TEST_F(ExporterTest, CallsAreCountedByMethodAndCode) {
  rpc_.OnCall(base::Method::kGet, absl::StatusCode::kOk, 0.0015);
  rpc_.OnCall(base::Method::kGet, absl::StatusCode::kOk, 0.15);
  rpc_.OnCall(base::Method::kGet, absl::StatusCode::kInvalidArgument, 0.0001);
  rpc_.OnCall(base::Method::kGetCleanupStatus, absl::StatusCode::kOk, 0.0001);
  const auto series = ReadPage();
  EXPECT_EQ(series.at("holdfast_rpc_seconds_count{method=\"Get\",code=\"OK\"}"), 2);
  EXPECT_NEAR(series.at("holdfast_rpc_seconds_sum{method=\"Get\",code=\"OK\"}"), 0.1515, 1e-6);
  EXPECT_EQ(series.at("holdfast_rpc_seconds_bucket{method=\"Get\",code=\"OK\",le=\"0.001\"}"), 0);
  EXPECT_EQ(series.at("holdfast_rpc_seconds_bucket{method=\"Get\",code=\"OK\",le=\"0.002\"}"), 1);
  EXPECT_EQ(series.at("holdfast_rpc_seconds_bucket{method=\"Get\",code=\"OK\",le=\"+Inf\"}"), 2);
  EXPECT_EQ(series.at("holdfast_rpc_seconds_count{method=\"Get\",code=\"INVALID_ARGUMENT\"}"), 1);
  EXPECT_EQ(series.at("holdfast_rpc_seconds_count{method=\"GetCleanupStatus\",code=\"OK\"}"), 1);
}

TEST_F(ExporterTest, BucketsOfAHistogramOnlyGrow) {
  for (int64_t ns = 1; ns < 20'000'000'000; ns = ns * 3 / 2 + 1) {
    sweep_.RecordWall(ns);
    sweep_.RecordCpu(ns / 2);
  }
  int histograms = 0;
  for (const MetricFamily& family : Collect()) {
    if (family.type != MetricType::Histogram) continue;
    for (const auto& metric : family.metric) {
      ++histograms;
      uint64_t before = 0;
      for (const auto& bucket : metric.histogram.bucket) {
        EXPECT_GE(bucket.cumulative_count, before);
        before = bucket.cumulative_count;
      }
      EXPECT_EQ(before, metric.histogram.sample_count);
      EXPECT_TRUE(std::isinf(metric.histogram.bucket.back().upper_bound));
    }
  }
  EXPECT_EQ(histograms, 3);
}

// What an operator has to know of the ledger, read from the page at once after each change: nothing is collected by a walk.
TEST(LedgerMetricsTest, R48_ThePageShowsTheLedgerAsItIs) {
  core::MasterOptions options;
  options.durable_tier = true;
  options.ledger_tickets = 2;
  options.ledger_client_percent = 100;
  core::Master master(options);
  testing::ManualClock clock;
  cleanup::SweepStatistics sweep;
  cleanup::RetryStatistics retry;
  RpcMetrics rpc;
  const MetricsCollector collector({&master, &clock, &sweep, &retry, &rpc});
  const auto figure = [&collector](const std::string& series) {
    const std::string page = prometheus::TextSerializer().Serialize(collector.Collect());
    double value = -1;
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, ' ');
      if (parts.first != series) continue;
      EXPECT_TRUE(absl::SimpleAtod(parts.second, &value)) << line;
    }
    return value;
  };
  core::TicketId tickets[3];
  for (core::TicketId& ticket : tickets) master.ledger().Reserve(core::ClientEpoch{1}, 0, &ticket);
  EXPECT_EQ(figure("holdfast_ledger_tickets"), 2);
  EXPECT_EQ(figure("holdfast_ledger_tickets_used"), 2);
  EXPECT_EQ(figure("holdfast_ledger_admission_failures_total{reason=\"LEDGER_FULL\"}"), 1);
  const core::DurableEnd ends[] = {{tickets[0], false, core::UploadOutcome::kNotStarted, 0},
                                   {tickets[1], false, core::UploadOutcome::kFinished, 0}};
  master.ledger().Settle(ends, clock.NowMs());
  clock.AdvanceMs(5000);
  EXPECT_EQ(figure("holdfast_ledger_tickets_used"), 1);
  EXPECT_EQ(figure("holdfast_ledger_tickets_high_water"), 2);
  EXPECT_EQ(figure("holdfast_cleanup_pending_tasks"), 1);
  EXPECT_EQ(figure("holdfast_cleanup_oldest_age_seconds"), 5);
  retry.RecordFailure("SlowDown");
  EXPECT_EQ(figure("holdfast_cleanup_delete_failures_total{code=\"SlowDown\"}"), 1);
  master.ledger().Finish(master.ledger().Take(1000, false, clock.NowMs()), {true}, clock.NowMs());
  EXPECT_EQ(figure("holdfast_ledger_tickets_used"), 0);
  EXPECT_EQ(figure("holdfast_cleanup_pending_tasks"), 0);
  EXPECT_EQ(figure("holdfast_cleanup_oldest_age_seconds"), 0);
}

// The library would take up to two seconds, which are a part of the daemon's budget and of every test that starts one.
TEST_F(ExporterTest, StopsAtOnce) {
  auto exporter = Exporter::Start("127.0.0.1:0", Sources());
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  const auto start = std::chrono::steady_clock::now();
  exporter->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_F(ExporterTest, PortInUseIsNamedWithTheReason) {
  const auto first = Exporter::Start("127.0.0.1:0", Sources());
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = Exporter::Start(address, Sources());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            absl::StrCat("cannot listen on ", address, " for metrics: Address already in use"));
}

}  // namespace
}  // namespace holdfast::ops
