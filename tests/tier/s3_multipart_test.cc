// Uploads in parts, and uploads that nobody ended, on a real S3 server. What a broken one answers is in s3_store_test.cc.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/tier/digest.h"
#include "server/tier/http_client.h"
#include "server/tier/s3_location.h"
#include "server/tier/s3_messages.h"
#include "server/tier/s3_store.h"
#include "tests/testing/store/s3_server.h"

namespace holdfast::tier {
namespace {

constexpr uint64_t kSmallestPart = 5 << 20;  // servers refuse smaller ones, but for the last
constexpr int kThreads = 4;
constexpr int kListedUploadsMax = 1000;  // in one page, unless a server is asked for fewer

class RealMultipartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::S3Server* const s3 = testing::S3Server::Shared();
    ASSERT_NE(s3, nullptr);
    const auto location = ParseS3Location(s3->Uri(testing::S3Server::UniquePrefix()));
    ASSERT_TRUE(location.ok()) << location.status();
    const auto credentials = FindS3Credentials();
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    location_ = *location;
    S3Options options;
    options.multipart_bytes = kSmallestPart;
    options.part_bytes = kSmallestPart;
    store_ = std::make_unique<S3Store>(location_, *credentials, options);
    HttpOptions http;
    http.user = absl::StrCat(credentials->access_key_id, ":", credentials->secret_access_key);
    http.provider = absl::StrCat("aws:amz:", location_.region, ":s3");
    http_ = std::make_unique<HttpClient>(http);
  }

  static absl::Time Soon() { return absl::Now() + absl::Seconds(60); }
  HttpAnswer Send(const char* method, const std::string& path_and_query) {
    HttpRequest request;
    request.method = method;
    request.url = absl::StrCat(location_.endpoint, "/", location_.bucket, path_and_query);
    request.headers = {absl::StrCat("x-amz-content-sha256: ", Sha256Hex(""))};
    request.deadline = Soon();
    return http_->Send(request);
  }
  // Begins an upload, as somebody who dies then.
  void BeginUpload(const std::string& name) {
    const HttpAnswer answer =
        Send("POST", absl::StrCat("/", EncodePath(location_.prefix), name, "?uploads="));
    EXPECT_TRUE(ParseUploadId(answer.body).has_value()) << answer.status << " " << answer.body;
  }
  // Names with unfinished uploads, the first page; none when the server has no such list.
  std::optional<std::vector<std::string>> Unfinished(const std::string& prefix = "") {
    const HttpAnswer answer =
        Send("GET", absl::StrCat("?prefix=", EncodeQuery(location_.prefix + prefix), "&uploads="));
    if (answer.status == 501) return std::nullopt;
    const auto page = ParseUploadPage(answer.body);
    EXPECT_TRUE(page.has_value()) << answer.status << " " << answer.body;
    std::vector<std::string> keys;
    if (!page.has_value()) return keys;
    for (const UnfinishedUpload& upload : page->uploads) {
      keys.push_back(upload.key.substr(location_.prefix.size()));
    }
    return keys;
  }

  S3Location location_;
  std::unique_ptr<S3Store> store_;
  std::unique_ptr<HttpClient> http_;
};

TEST_F(RealMultipartTest, ALargeObjectGoesUpInPartsAndComesBackWhole) {
  std::string bytes(2 * kSmallestPart + 1, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 1000);
  const UploadResult put = store_->Upload("a", bytes, Soon());
  ASSERT_EQ(put.state, UploadState::kStored) << put.status;
  EXPECT_NE(put.checksum, "");
  std::string read(bytes.size(), '?');
  const absl::Status status =
      store_->Download("a", 0, absl::MakeSpan(&read[0], read.size()), Soon());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(read == bytes);
  EXPECT_EQ(store_->Delete(std::vector<std::string>{"a"}, Soon())[0].state, DeleteState::kDeleted);
  EXPECT_TRUE(store_->List("", "", 10, Soon())->empty());
}

// R36: what could still be completed after the delete is ended by it; uploads of other names are not.
TEST_F(RealMultipartTest, R36_ADeleteEndsUnfinishedUploadsOfItsNames) {
  if (!Unfinished().has_value()) GTEST_SKIP() << "this server does not list unfinished uploads";
  for (const char* name : {"a", "a", "aa", "b"}) BeginUpload(name);
  ASSERT_EQ(Unfinished()->size(), 4u);
  for (const DeleteResult& result :
       store_->Delete(std::vector<std::string>{"a", "b", "c"}, Soon())) {
    EXPECT_EQ(result.state, DeleteState::kDeleted) << result.code;
  }
  EXPECT_EQ(*Unfinished(), std::vector<std::string>{"aa"});
}

// R36: the markers of the pages are where servers differ.
TEST_F(RealMultipartTest, R36_UnfinishedUploadsOnLaterPagesAreEndedToo) {
  if (!Unfinished().has_value()) GTEST_SKIP() << "this server does not list unfinished uploads";
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < kListedUploadsMax / kThreads; ++i) BeginUpload("in-front");
    });
  }
  for (std::thread& thread : threads) thread.join();
  BeginUpload("later");
  // A page may be shorter than it could be; it is the last one only when it says so.
  ASSERT_EQ(Unfinished()->back(), "in-front") << "the other one is on a later page";
  // Two names that begin differently: what is listed for them is everything.
  const std::vector<DeleteResult> results =
      store_->Delete(std::vector<std::string>{"absent", "later"}, Soon());
  EXPECT_EQ(results[1].state, DeleteState::kDeleted) << results[1].code;
  EXPECT_TRUE(Unfinished("later")->empty());
  EXPECT_EQ(Unfinished()->back(), "in-front");
}

}  // namespace
}  // namespace holdfast::tier
