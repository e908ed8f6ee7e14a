// S3 with faults: answers that are late, broken, half, or say "not now".

#include "server/tier/s3_store.h"

#include <gtest/gtest.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/tier/digest.h"
#include "tests/testing/store/scripted_server.h"

namespace holdfast::tier {
namespace {

using testing::ScriptedReply;
using testing::ScriptedRequest;
using testing::ScriptedServer;

constexpr char kNoUploads[] =
    "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>";
constexpr char kSlowDown[] = "<Error><Code>SlowDown</Code><Message>later</Message></Error>";

S3Options QuickOptions() {
  S3Options options;
  options.backoff_min = absl::Milliseconds(1);
  options.multipart_bytes = 1000;
  options.part_bytes = 400;
  return options;
}

S3Store MakeStore(const ScriptedServer& server) {
  S3Location location;
  location.bucket = "bucket";
  location.prefix = "some/where/";
  location.endpoint = server.endpoint();
  location.region = "eu-test-1";
  location.path_style = true;
  return S3Store(location, {"KEYID", "secret", "token"}, QuickOptions());
}

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

bool IsDelete(const ScriptedRequest& request) { return absl::EndsWith(request.target, "?delete="); }
bool IsUploadList(const ScriptedRequest& request) {
  return request.method == "GET" && absl::EndsWith(request.target, "uploads=");
}

// Answers the listing of unfinished uploads with none, and all else as `reply` says.
std::function<ScriptedReply(const ScriptedRequest&)> WithoutUploads(
    std::function<ScriptedReply(const ScriptedRequest&)> reply) {
  return [reply = std::move(reply)](const ScriptedRequest& request) {
    return IsUploadList(request) ? ScriptedReply{.body = kNoUploads} : reply(request);
  };
}

std::vector<DeleteResult> DeleteTwo(S3Store* store, absl::Time deadline = Soon()) {
  return store->Delete(std::vector<std::string>{"a", "b"}, deadline);
}

// R36: busy is not broken, and is over in a moment.
TEST(S3StoreTest, R36_ASlowDownIsWaitedForAndThenDone) {
  int refused = 0;
  ScriptedServer server(WithoutUploads([&refused](const ScriptedRequest&) {
    if (refused++ < 2) return ScriptedReply{.status = 503, .body = kSlowDown};
    return ScriptedReply{.body =
                             "<DeleteResult><Deleted><Key>some/where/a</Key></Deleted>"
                             "<Deleted><Key>some/where/b</Key></Deleted></DeleteResult>"};
  }));
  S3Store store = MakeStore(server);
  for (const DeleteResult& result : DeleteTwo(&store)) {
    EXPECT_EQ(result.state, DeleteState::kDeleted) << result.code;
  }
}

// A store that goes on saying "not now" has not deleted; its word for it becomes a label.
TEST(S3StoreTest, R36_APermanentSlowDownIsAFailureWithItsCode) {
  ScriptedServer server(WithoutUploads(
      [](const ScriptedRequest&) { return ScriptedReply{.status = 503, .body = kSlowDown}; }));
  S3Store store = MakeStore(server);
  for (const DeleteResult& result : DeleteTwo(&store)) {
    EXPECT_EQ(result.state, DeleteState::kFailed);
    EXPECT_EQ(result.code, "SlowDown");
  }
  EXPECT_EQ(server.requests().size(), 5u) << "the list of uploads and four attempts";
}

TEST(S3StoreTest, RetryAfterIsHonoured) {
  int refused = 0;
  ScriptedServer server([&refused](const ScriptedRequest&) {
    if (refused++ == 0) return ScriptedReply{.status = 503, .headers = {"Retry-After: 1"}};
    return ScriptedReply{.headers = {"ETag: \"e\""}};
  });
  S3Store store = MakeStore(server);
  const absl::Time start = absl::Now();
  EXPECT_EQ(store.Upload("a", "x", Soon()).state, UploadState::kStored);
  EXPECT_GE(absl::Now() - start, absl::Seconds(1));
}

// R38: what the store has confirmed is confirmed, whatever happened to the others.
TEST(S3StoreTest, R38_ErrorsOfSingleKeysInsideASuccessAreTold) {
  ScriptedServer server(WithoutUploads([](const ScriptedRequest&) {
    return ScriptedReply{
        .body =
            "<?xml version=\"1.0\"?><DeleteResult xmlns=\"http://s3/\"><Deleted><Key>some/where/a"
            "</Key></Deleted><Error><Key>some/where/b</Key><Code>AccessDenied</Code>"
            "<Message>no &amp; never</Message></Error></DeleteResult>"};
  }));
  S3Store store = MakeStore(server);
  const auto results = DeleteTwo(&store);
  EXPECT_EQ(results[0].state, DeleteState::kDeleted);
  EXPECT_EQ(results[1].state, DeleteState::kFailed);
  EXPECT_EQ(results[1].code, "AccessDenied");
}

TEST(S3StoreTest, R36_AKeyThatTheAnswerDoesNotMentionIsUnknown) {
  ScriptedServer server(WithoutUploads([](const ScriptedRequest&) {
    return ScriptedReply{
        .body = "<DeleteResult><Deleted><Key>some/where/b</Key></Deleted></DeleteResult>"};
  }));
  S3Store store = MakeStore(server);
  const auto results = DeleteTwo(&store);
  EXPECT_EQ(results[0].state, DeleteState::kUnknown);
  EXPECT_EQ(results[1].state, DeleteState::kDeleted);
}

// R36: half an answer is no answer, also when its half looks like good news.
TEST(S3StoreTest, R36_ATruncatedOrUnparsableSuccessIsUnknownForAll) {
  const std::string good =
      "<DeleteResult><Deleted><Key>some/where/a</Key></Deleted><Deleted><Key>some/where/b</Key>"
      "</Deleted></DeleteResult>";
  const std::vector<ScriptedReply> replies = {
      {.body = good.substr(0, 60)},  // the document is cut, the length says so
      {.body = good.substr(0, 60), .missing_bytes = 100},  // the connection broke in the middle
      {.body = "<html>proxy</html>"},
      {.body = ""},
  };
  for (const ScriptedReply& reply : replies) {
    ScriptedServer server(WithoutUploads([&reply](const ScriptedRequest&) { return reply; }));
    S3Store store = MakeStore(server);
    for (const DeleteResult& result : DeleteTwo(&store)) {
      EXPECT_EQ(result.state, DeleteState::kUnknown) << reply.body;
      EXPECT_NE(result.code, "");
    }
  }
}

TEST(S3StoreTest, R36_AResetConnectionIsUnknown) {
  ScriptedServer server(
      WithoutUploads([](const ScriptedRequest&) { return ScriptedReply{.reset = true}; }));
  S3Store store = MakeStore(server);
  EXPECT_EQ(DeleteTwo(&store)[0].state, DeleteState::kUnknown);
  EXPECT_EQ(store.Upload("a", "x", Soon()).state, UploadState::kAmbiguous);
}

TEST(S3StoreTest, R46_AHangEndsAtTheDeadline) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedReply{.hang = true}; });
  S3Store store = MakeStore(server);
  const absl::Time start = absl::Now();
  const auto results = DeleteTwo(&store, absl::Now() + absl::Milliseconds(300));
  EXPECT_EQ(results[0].state, DeleteState::kUnknown);
  EXPECT_EQ(results[0].code, "timeout");
  const UploadResult upload = store.Upload("a", "x", absl::Now() + absl::Milliseconds(300));
  EXPECT_EQ(upload.state, UploadState::kAmbiguous);
  EXPECT_TRUE(absl::IsDeadlineExceeded(upload.status));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

// R46: a shutdown does not wait for a store that hangs.
TEST(S3StoreTest, R46_CancelEndsARequestThatHangs) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedReply{.hang = true}; });
  S3Store store = MakeStore(server);
  const absl::Time start = absl::Now();
  std::thread canceller([&] {
    while (server.requests().empty()) absl::SleepFor(absl::Milliseconds(1));
    store.Cancel();
  });
  EXPECT_EQ(DeleteTwo(&store, absl::Now() + absl::Seconds(60))[0].code, "cancelled");
  canceller.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

// Nobody listens: not a byte can have been stored.
TEST(S3StoreTest, R35_AnUploadToNobodyIsNotStored) {
  std::string endpoint;
  {
    ScriptedServer server([](const ScriptedRequest&) { return ScriptedReply{}; });
    endpoint = server.endpoint();
  }
  S3Location location;
  location.bucket = "bucket";
  location.endpoint = endpoint;
  location.region = "r";
  location.path_style = true;
  S3Store store(location, {"k", "s", ""}, QuickOptions());
  EXPECT_EQ(store.Upload("a", "x", Soon()).state, UploadState::kNotStored);
}

// An attempt of which nothing is known stays in doubt, whatever a later one is told.
TEST(S3StoreTest, R35_AnUploadIsAmbiguousWhenAnEarlierAttemptWasInDoubt) {
  int attempts = 0;
  ScriptedServer server([&attempts](const ScriptedRequest&) {
    return attempts++ == 0
               ? ScriptedReply{.reset = true}
               : ScriptedReply{.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"};
  });
  S3Store store = MakeStore(server);
  const UploadResult result = store.Upload("a", "x", Soon());
  EXPECT_EQ(result.state, UploadState::kAmbiguous);
  EXPECT_TRUE(absl::IsPermissionDenied(result.status)) << result.status;
}

TEST(S3StoreTest, R35_ARefusedUploadIsNotStored) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedReply{.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"};
  });
  S3Store store = MakeStore(server);
  const UploadResult result = store.Upload("a", "x", Soon());
  EXPECT_EQ(result.state, UploadState::kNotStored);
  EXPECT_EQ(result.status.message().find("secret"), absl::string_view::npos);
}

TEST(S3StoreTest, ConnectionsAreUsedAgain) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedReply{}; });
  S3Store store = MakeStore(server);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(store.Upload("a", "x", Soon()).state, UploadState::kStored);
  EXPECT_EQ(server.connections(), 1u);
}

// --- multipart ---

// A store that keeps parts, as far as the tests need it.
class PartsServer {
 public:
  ScriptedReply operator()(const ScriptedRequest& request) {
    if (absl::EndsWith(request.target, "?uploads=") && request.method == "POST") {
      open = true;
      return {.body =
                  "<InitiateMultipartUploadResult><UploadId>id/1</UploadId>"
                  "</InitiateMultipartUploadResult>"};
    }
    if (absl::StrContains(request.target, "partNumber=")) {
      if (++parts == fail_part) return {.status = 400};
      bytes += request.body;
      return {.headers = {absl::StrCat("ETag: \"part", parts, "\"")}};
    }
    if (request.method == "DELETE") {
      if (!abort_works) return {.status = 403};
      open = false;
      return {.status = 204};
    }
    if (request.method == "POST" && absl::StrContains(request.target, "uploadId=id%2F1")) {
      completed = request.body;
      return {.body = complete_answer};
    }
    return {.status = 404};
  }

  bool open = false;
  int parts = 0;
  int fail_part = 0;
  bool abort_works = true;
  std::string bytes;
  std::string completed;
  std::string complete_answer =
      "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>";
};

TEST(S3MultipartTest, ALargeObjectGoesUpInParts) {
  PartsServer parts;
  ScriptedServer server([&parts](const ScriptedRequest& request) { return parts(request); });
  S3Store store = MakeStore(server);
  std::string bytes;
  for (int i = 0; i < 1001; ++i) bytes.push_back(static_cast<char>('a' + i % 26));
  const UploadResult result = store.Upload("a", bytes, Soon());
  EXPECT_EQ(result.state, UploadState::kStored) << result.status;
  EXPECT_EQ(result.checksum, "\"whole\"");
  EXPECT_EQ(parts.parts, 3);
  EXPECT_EQ(parts.bytes, bytes);
  EXPECT_TRUE(absl::StrContains(parts.completed, "<PartNumber>3</PartNumber><ETag>\"part3\""))
      << parts.completed;
}

// Ceph 16.2.15 completes with an empty one. Readers are told what the store calls the content all the same; and when it does
// not answer that question, the object is stored nevertheless.
TEST(S3MultipartTest, AnEtagThatTheCompletionDoesNotTellIsAskedFor) {
  for (const int status : {206, 404}) {
    PartsServer parts;
    parts.complete_answer =
        "<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>";
    ScriptedServer server([&](const ScriptedRequest& request) -> ScriptedReply {
      if (request.method != "GET") return parts(request);
      EXPECT_EQ(request.target, "/bucket/some/where/a");
      EXPECT_EQ(request.headers.at("range"), "bytes=0-0");
      return {.status = status, .body = "x", .headers = {"ETag: \"whole\""}};
    });
    S3Store store = MakeStore(server);
    const UploadResult result = store.Upload("a", std::string(2000, 'x'), Soon());
    EXPECT_EQ(result.state, UploadState::kStored) << result.status;
    EXPECT_EQ(result.checksum, status == 206 ? "\"whole\"" : "");
  }
}

// R35: after a confirmed abort nothing can land any more.
TEST(S3MultipartTest, R35_AFailedPartEndsTheUploadAndNothingIsStored) {
  PartsServer parts;
  parts.fail_part = 2;
  ScriptedServer server([&parts](const ScriptedRequest& request) { return parts(request); });
  S3Store store = MakeStore(server);
  EXPECT_EQ(store.Upload("a", std::string(2000, 'x'), Soon()).state, UploadState::kNotStored);
  EXPECT_FALSE(parts.open);
}

TEST(S3MultipartTest, R35_AnAbortThatIsNotConfirmedLeavesTheUploadInDoubt) {
  PartsServer parts;
  parts.fail_part = 2;
  parts.abort_works = false;
  ScriptedServer server([&parts](const ScriptedRequest& request) { return parts(request); });
  S3Store store = MakeStore(server);
  EXPECT_EQ(store.Upload("a", std::string(2000, 'x'), Soon()).state, UploadState::kAmbiguous);
}

// The status comes before the work is done; the body may be an error all the same.
TEST(S3MultipartTest, R35_ACompletionThatTurnsOutToBeAnErrorIsAmbiguous) {
  PartsServer parts;
  parts.complete_answer = "<Error><Code>InternalError</Code></Error>";
  ScriptedServer server([&parts](const ScriptedRequest& request) { return parts(request); });
  S3Store store = MakeStore(server);
  EXPECT_EQ(store.Upload("a", std::string(2000, 'x'), Soon()).state, UploadState::kAmbiguous);
}

// An upload that nobody ended could be completed after the delete: it is ended first, until none is left, and those of
// other names are not touched.
TEST(S3MultipartTest, R36_ADeleteEndsUnfinishedUploadsOfItsNamesFirst) {
  std::vector<std::string> aborted;
  std::string order;
  ScriptedServer server([&](const ScriptedRequest& request) -> ScriptedReply {
    if (IsUploadList(request)) {
      const std::string left =
          aborted.size() < 2 ? "<Upload><Key>some/where/a</Key><UploadId>u1</UploadId></Upload>"
                             : "";
      return {.body =
                  absl::StrCat("<ListMultipartUploadsResult>", left,
                               "<Upload><Key>some/where/zz</Key><UploadId>u9</UploadId></Upload>"
                               "<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>")};
    }
    if (request.method == "DELETE") {
      aborted.push_back(request.target);
      order += "abort ";
      return {.status = 204};
    }
    order += "delete";
    return {.body =
                "<DeleteResult><Deleted><Key>some/where/a</Key></Deleted><Deleted>"
                "<Key>some/where/b</Key></Deleted></DeleteResult>"};
  });
  S3Store store = MakeStore(server);
  EXPECT_EQ(DeleteTwo(&store)[0].state, DeleteState::kDeleted);
  EXPECT_EQ(order, "abort abort delete");
  EXPECT_EQ(aborted[0], "/bucket/some/where/a?uploadId=u1");
}

TEST(S3MultipartTest, R36_WithoutTheListOfUploadsNothingIsConfirmed) {
  ScriptedServer server([](const ScriptedRequest& request) -> ScriptedReply {
    if (IsUploadList(request))
      return {.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"};
    return {.body = "<DeleteResult><Deleted><Key>some/where/a</Key></Deleted></DeleteResult>"};
  });
  S3Store store = MakeStore(server);
  const auto results = DeleteTwo(&store);
  EXPECT_EQ(results[0].state, DeleteState::kUnknown);
  EXPECT_EQ(results[0].code, "AccessDenied");
  for (const ScriptedRequest& request : server.requests()) EXPECT_FALSE(IsDelete(request));
}

// --- signatures ---

std::string Hmac(const std::string& key, const std::string& text) {
  unsigned char digest[32];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return {reinterpret_cast<const char*>(digest), size};
}

// Signature Version 4 as the documentation of AWS describes it, from what arrived.
std::string SignatureOf(const ScriptedRequest& request, const std::string& signed_headers) {
  const size_t query = request.target.find('?');
  std::string canonical =
      absl::StrCat(request.method, "\n", request.target.substr(0, query), "\n",
                   query == std::string::npos ? "" : request.target.substr(query + 1), "\n");
  for (const absl::string_view name : absl::StrSplit(signed_headers, ';')) {
    absl::StrAppend(&canonical, name, ":", request.headers.at(std::string(name)), "\n");
  }
  absl::StrAppend(&canonical, "\n", signed_headers, "\n",
                  request.headers.at("x-amz-content-sha256"));
  const std::string time = request.headers.at("x-amz-date");
  const std::string scope = absl::StrCat(time.substr(0, 8), "/eu-test-1/s3/aws4_request");
  const std::string to_sign =
      absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", Sha256Hex(canonical));
  std::string key = Hmac("AWS4secret", time.substr(0, 8));
  for (const char* part : {"eu-test-1", "s3", "aws4_request"}) key = Hmac(key, part);
  return absl::BytesToHexString(Hmac(key, to_sign));
}

// libcurl signs; queries without a value, ports and session tokens are where it has gone wrong before.
TEST(S3SignatureTest, EveryKindOfRequestIsSignedAsTheDocumentationSays) {
  PartsServer parts;
  ScriptedServer server([&parts](const ScriptedRequest& request) -> ScriptedReply {
    if (IsUploadList(request)) return {.body = kNoUploads};
    if (IsDelete(request)) return {.body = "<DeleteResult></DeleteResult>"};
    if (request.method == "GET") return {.body = "<ListBucketResult></ListBucketResult>"};
    return parts(request);
  });
  S3Store store = MakeStore(server);
  store.Upload("a", "x", Soon());
  store.Upload("b", std::string(2000, 'x'), Soon());
  DeleteTwo(&store);
  char out[4];
  store.Download("c", 1, absl::MakeSpan(out), Soon()).IgnoreError();
  store.List("d", "e", 10, Soon()).status().IgnoreError();
  EXPECT_GE(server.requests().size(), 9u);
  for (const ScriptedRequest& request : server.requests()) {
    const std::string& authorization = request.headers.at("authorization");
    const size_t headers = authorization.find("SignedHeaders=") + 14;
    const std::string signed_headers =
        authorization.substr(headers, authorization.find(',', headers) - headers);
    const std::string signature = authorization.substr(authorization.find("Signature=") + 10);
    EXPECT_TRUE(absl::StrContains(signed_headers, "host")) << signed_headers;
    EXPECT_TRUE(absl::StrContains(signed_headers, "x-amz-security-token")) << signed_headers;
    EXPECT_EQ(request.headers.at("x-amz-content-sha256"), Sha256Hex(request.body));
    EXPECT_EQ(signature, SignatureOf(request, signed_headers))
        << request.method << " " << request.target;
  }
}

// The digest itself, against the published one of an empty body.
TEST(S3SignatureTest, TheDigestOfNothingIsThePublishedOne) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Md5Base64(""), "1B2M2Y8AsgTpgAmY7PhCfg==");
}

// --- where it is ---

TEST(S3LocationTest, AUriNamesBucketPrefixAndParameters) {
  const auto location = ParseS3Location(
      "s3://my-bucket/a/b/?endpoint=http://127.0.0.1:9000/&region=eu-west-1&path_style=true");
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_EQ(location->bucket, "my-bucket");
  EXPECT_EQ(location->prefix, "a/b/");
  EXPECT_EQ(location->endpoint, "http://127.0.0.1:9000");
  EXPECT_EQ(location->region, "eu-west-1");
  EXPECT_TRUE(location->path_style);
}

TEST(S3LocationTest, R18_BadUrisAreRefusedAndSayWhy) {
  for (const std::string uri :
       {"s3://", "s3://A", "s3://UPPER", "s3://bucket/../x", "s3://bucket?endpoint=ftp://x",
        "s3://bucket?endpoint=http://user@host", "s3://bucket?nonsense=1",
        "s3://bucket?path_style=perhaps"}) {
    const auto location = ParseS3Location(uri);
    EXPECT_TRUE(absl::IsInvalidArgument(location.status())) << uri;
    EXPECT_TRUE(absl::StrContains(location.status().message(), uri)) << location.status();
  }
}

}  // namespace
}  // namespace holdfast::tier
