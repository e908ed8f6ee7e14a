#include "server/tier/s3_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "server/tier/digest.h"
#include "server/tier/s3_messages.h"

namespace holdfast::tier {
namespace {

using Failure = HttpAnswer::Failure;

constexpr uint64_t kPartsMax = 10'000;
// Rounds of aborting what is listed: an aborted upload may take a moment to go.
constexpr int kAbortRounds = 5;

HttpOptions MakeHttpOptions(const S3Location& location, const S3Credentials& credentials) {
  HttpOptions options;
  options.user = absl::StrCat(credentials.access_key_id, ":", credentials.secret_access_key);
  options.provider = absl::StrCat("aws:amz:", location.region, ":s3");
  return options;
}

bool IsSuccess(const HttpAnswer& answer) { return answer.status >= 200 && answer.status < 300; }
// It has not done what it was asked for, and says "later".
bool IsBusy(const HttpAnswer& answer) { return answer.status == 503 || answer.status == 429; }
// It may have had its effect, although that is not what came back.
bool IsInDoubt(const HttpAnswer& answer) {
  if (answer.status != 0) return answer.status >= 500 && !IsBusy(answer);
  return answer.failure != Failure::kNotSent;
}

// A short word for what went wrong, fit for a label.
std::string CodeOf(const HttpAnswer& answer) {
  if (answer.status != 0) {
    const std::string code = ParseErrorCode(answer.body);
    return code.empty() ? absl::StrCat("http", answer.status) : code;
  }
  switch (answer.failure) {
    case Failure::kTimeout:
      return "timeout";
    case Failure::kCancelled:
      return "cancelled";
    case Failure::kNotSent:
      return "unreachable";
    default:
      return "broken";
  }
}

absl::Status StatusOf(const HttpAnswer& answer, absl::string_view subject) {
  const std::string message =
      absl::StrCat(subject, ": ", CodeOf(answer), answer.error.empty() ? "" : ": ", answer.error);
  if (answer.failure == Failure::kTimeout) return absl::DeadlineExceededError(message);
  if (answer.failure == Failure::kCancelled) return absl::CancelledError(message);
  switch (answer.status) {
    case 401:
    case 403:
      return absl::PermissionDeniedError(message);
    case 404:
      return absl::NotFoundError(message);
    case 416:
      return absl::OutOfRangeError(message);
    case 400:
      return absl::InvalidArgumentError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// What is known when an upload got this answer.
UploadResult FailedUpload(const HttpAnswer& answer, bool in_doubt, absl::string_view subject) {
  return {in_doubt || IsInDoubt(answer) ? UploadState::kAmbiguous : UploadState::kNotStored,
          StatusOf(answer, subject), ""};
}

std::string Etag(const HttpAnswer& answer) {
  auto it = answer.headers.find("etag");
  return it == answer.headers.end() ? "" : it->second.substr(0, 128);
}

std::vector<DeleteResult> AllUnknown(size_t count, const std::string& code) {
  return std::vector<DeleteResult>(count, DeleteResult{DeleteState::kUnknown, code});
}

std::string CommonPrefix(absl::Span<const std::string> keys) {
  std::string prefix = keys.empty() ? "" : keys[0];
  for (const std::string& key : keys) {
    size_t same = 0;
    while (same < prefix.size() && same < key.size() && prefix[same] == key[same]) ++same;
    prefix.resize(same);
  }
  return prefix;
}

}  // namespace

S3Store::S3Store(S3Location location, const S3Credentials& credentials, S3Options options)
    : location_(std::move(location)),
      session_token_(credentials.session_token),
      options_(options),
      http_(MakeHttpOptions(location_, credentials)) {}

std::string S3Store::UrlOf(const Call& call) const {
  std::string url = location_.endpoint;
  if (location_.path_style) {
    absl::StrAppend(&url, "/", location_.bucket);
  } else {
    url.insert(url.find("://") + 3, location_.bucket + ".");
  }
  absl::StrAppend(&url, "/", EncodePath(call.key));
  if (!call.query.empty()) absl::StrAppend(&url, "?", call.query);
  return url;
}

HttpAnswer S3Store::SendOnce(const Call& call) {
  HttpRequest request;
  request.method = call.method;
  request.url = UrlOf(call);
  request.headers = call.headers;
  request.headers.push_back(absl::StrCat("x-amz-content-sha256: ", Sha256Hex(call.body)));
  if (!session_token_.empty()) {
    request.headers.push_back(absl::StrCat("x-amz-security-token: ", session_token_));
  }
  request.body = call.body;
  request.into = call.into;
  request.deadline = call.deadline;
  return http_.Send(request);
}

S3Store::Answer S3Store::Send(const Call& call) {
  absl::BitGen random;
  Answer answer;
  for (int attempt = 1;; ++attempt) {
    answer.http = SendOnce(call);
    const HttpAnswer& http = answer.http;
    const bool final =
        http.status != 0 ? http.status < 500 && !IsBusy(http)
                         : http.failure == Failure::kTimeout || http.failure == Failure::kCancelled;
    if (final || attempt >= options_.attempts_max) return answer;
    absl::Duration pause =
        std::min(options_.backoff_max, options_.backoff_min * (1 << (attempt - 1)));
    pause *= absl::Uniform(random, 0.5, 1.0);
    int seconds = 0;
    if (auto it = http.headers.find("retry-after");
        it != http.headers.end() && absl::SimpleAtoi(it->second, &seconds)) {
      pause = std::max(pause, absl::Seconds(seconds));
    }
    if (absl::Now() + pause >= call.deadline || http_.cancelled()) return answer;
    answer.earlier_in_doubt = answer.earlier_in_doubt || IsInDoubt(http);
    absl::SleepFor(pause);
  }
}

UploadResult S3Store::Upload(absl::string_view name, absl::string_view bytes, absl::Time deadline) {
  const std::string subject = absl::StrCat("upload ", name);
  if (!IsValidName(name)) {
    return {UploadState::kNotStored,
            absl::InvalidArgumentError(absl::StrCat(subject, ": not a valid name")), ""};
  }
  if (bytes.size() > options_.multipart_bytes) return UploadParts(name, bytes, deadline);
  Call call;
  call.method = "PUT";
  call.key = absl::StrCat(location_.prefix, name);
  call.body = bytes;
  call.deadline = deadline;
  const Answer answer = Send(call);
  if (IsSuccess(answer.http)) return {UploadState::kStored, absl::OkStatus(), Etag(answer.http)};
  return FailedUpload(answer.http, answer.earlier_in_doubt, subject);
}

UploadResult S3Store::UploadParts(absl::string_view name, absl::string_view bytes,
                                  absl::Time deadline) {
  const std::string subject = absl::StrCat("upload ", name);
  Call call;
  call.method = "POST";
  call.key = absl::StrCat(location_.prefix, name);
  call.query = "uploads=";
  call.deadline = deadline;
  Answer answer = Send(call);
  const std::optional<std::string> id =
      IsSuccess(answer.http) ? ParseUploadId(answer.http.body) : std::nullopt;
  // Without its id nobody can complete an upload; what it holds is for the master's delete, which lists them.
  if (!id.has_value()) return FailedUpload(answer.http, answer.earlier_in_doubt, subject);
  HttpAnswer failed;
  const auto etags = SendParts(call.key, *id, bytes, deadline, &failed);
  if (!etags.has_value()) {
    const bool gone = Abort(call.key, *id, absl::Now() + absl::Seconds(5));
    return {gone ? UploadState::kNotStored : UploadState::kAmbiguous, StatusOf(failed, subject),
            ""};
  }
  const std::string body = CompleteRequestXml(*etags);
  call.query = absl::StrCat("uploadId=", EncodeQuery(*id));
  call.body = body;
  call.headers = {"Content-Type: application/xml"};
  answer = Send(call);
  std::optional<std::string> etag =
      IsSuccess(answer.http) ? ParseCompleteAnswer(answer.http.body) : std::nullopt;
  // Ceph 16.2.15 leaves it empty here, and tells it with the object.
  if (etag.has_value() && etag->empty()) etag = StoredEtag(call.key, deadline);
  if (etag.has_value()) return {UploadState::kStored, absl::OkStatus(), etag->substr(0, 128)};
  // Once it was asked to complete, only the object itself could tell.
  Abort(call.key, *id, absl::Now() + absl::Seconds(5));
  return {UploadState::kAmbiguous, StatusOf(answer.http, subject), ""};
}

std::optional<std::vector<std::string>> S3Store::SendParts(const std::string& key,
                                                           const std::string& upload_id,
                                                           absl::string_view bytes,
                                                           absl::Time deadline,
                                                           HttpAnswer* failed) {
  const uint64_t part_bytes =
      std::max<uint64_t>(options_.part_bytes, (bytes.size() + kPartsMax - 1) / kPartsMax);
  std::vector<std::string> etags;
  for (absl::string_view left = bytes; !left.empty();) {
    Call call;
    call.method = "PUT";
    call.key = key;
    call.query =
        absl::StrCat("partNumber=", etags.size() + 1, "&uploadId=", EncodeQuery(upload_id));
    call.body = left.substr(0, part_bytes);
    call.deadline = deadline;
    Answer answer = Send(call);
    if (!IsSuccess(answer.http) || Etag(answer.http).empty()) {
      *failed = std::move(answer.http);
      return std::nullopt;
    }
    etags.push_back(Etag(answer.http));
    left.remove_prefix(call.body.size());
  }
  return etags;
}

std::string S3Store::StoredEtag(const std::string& key, absl::Time deadline) {
  Call call;
  call.key = key;
  call.headers = {"Range: bytes=0-0"};
  call.deadline = deadline;
  const HttpAnswer answer = Send(call).http;
  return IsSuccess(answer) ? Etag(answer) : "";
}

bool S3Store::Abort(const std::string& key, const std::string& upload_id, absl::Time deadline) {
  Call call;
  call.method = "DELETE";
  call.key = key;
  call.query = absl::StrCat("uploadId=", EncodeQuery(upload_id));
  call.deadline = deadline;
  const HttpAnswer answer = Send(call).http;
  return IsSuccess(answer) || answer.status == 404;
}

std::optional<std::vector<std::string>> S3Store::ListUploads(absl::Span<const std::string> keys,
                                                             absl::Time deadline,
                                                             std::string* error) {
  const std::set<std::string> wanted(keys.begin(), keys.end());
  const std::string prefix = CommonPrefix(keys);
  std::vector<std::string> found;  // key, id, key, id...
  UploadPage page;
  do {
    Call call;
    if (!page.next_key.empty()) {
      call.query = absl::StrCat("key-marker=", EncodeQuery(page.next_key), "&");
    }
    absl::StrAppend(&call.query, "prefix=", EncodeQuery(prefix));
    if (!page.next_upload_id.empty()) {
      absl::StrAppend(&call.query, "&upload-id-marker=", EncodeQuery(page.next_upload_id));
    }
    absl::StrAppend(&call.query, "&uploads=");
    call.deadline = deadline;
    const HttpAnswer answer = Send(call).http;
    if (answer.status == 501) return found;  // a store without multipart uploads
    const auto parsed = IsSuccess(answer) ? ParseUploadPage(answer.body) : std::nullopt;
    if (!parsed.has_value()) {
      *error = IsSuccess(answer) ? "unparsable" : CodeOf(answer);
      return std::nullopt;
    }
    page = *parsed;
    for (const UnfinishedUpload& upload : page.uploads) {
      if (wanted.count(upload.key) == 0) continue;
      found.push_back(upload.key);
      found.push_back(upload.upload_id);
    }
  } while (page.truncated && !page.next_key.empty());
  return found;
}

std::string S3Store::EndUploads(absl::Span<const std::string> keys, absl::Time deadline) {
  for (int round = 0; round < kAbortRounds; ++round) {
    std::string error;
    const auto uploads = ListUploads(keys, deadline, &error);
    if (!uploads.has_value()) return error;
    if (uploads->empty()) return "";
    for (size_t i = 0; i < uploads->size(); i += 2)
      Abort((*uploads)[i], (*uploads)[i + 1], deadline);
  }
  return "unfinished_upload";
}

absl::Status S3Store::Download(absl::string_view name, uint64_t offset_bytes, absl::Span<char> out,
                               absl::Time deadline) {
  const std::string subject = absl::StrCat("download ", name);
  if (!IsValidName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(subject, ": not a valid name"));
  }
  if (out.empty()) return absl::OkStatus();
  Call call;
  call.key = absl::StrCat(location_.prefix, name);
  call.headers = {absl::StrCat("Range: bytes=", offset_bytes, "-", offset_bytes + out.size() - 1)};
  call.into = out;
  call.deadline = deadline;
  const HttpAnswer answer = Send(call).http;
  if (!IsSuccess(answer)) return StatusOf(answer, subject);
  if (answer.status != 206 && (offset_bytes != 0 || answer.received_bytes != out.size())) {
    return absl::UnavailableError(absl::StrCat(subject, ": the store ignores ranges"));
  }
  if (answer.received_bytes == out.size()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(subject, ": the object is shorter"));
}

std::vector<DeleteResult> S3Store::Delete(absl::Span<const std::string> names,
                                          absl::Time deadline) {
  std::vector<DeleteResult> results = AllUnknown(names.size(), "not_mentioned");
  std::vector<std::string> keys;
  std::vector<size_t> places;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!IsValidName(names[i])) {
      results[i] = {DeleteState::kFailed, "InvalidName"};
      continue;
    }
    keys.push_back(absl::StrCat(location_.prefix, names[i]));
    places.push_back(i);
  }
  if (keys.empty()) return results;
  const auto all = [&results, &places](DeleteState state, const std::string& code) {
    for (const size_t place : places) results[place] = {state, code};
    return results;
  };
  if (const std::string error = EndUploads(keys, deadline); !error.empty()) {
    return all(DeleteState::kUnknown, error);
  }
  const std::string body = DeleteRequestXml(keys);
  Call call;
  call.method = "POST";
  call.query = "delete=";
  call.body = body;
  call.headers = {"Content-Type: application/xml", absl::StrCat("Content-MD5: ", Md5Base64(body))};
  call.deadline = deadline;
  const Answer answer = Send(call);
  if (!IsSuccess(answer.http)) {
    const bool in_doubt = answer.earlier_in_doubt || IsInDoubt(answer.http);
    return all(in_doubt ? DeleteState::kUnknown : DeleteState::kFailed, CodeOf(answer.http));
  }
  const auto parsed = ParseDeleteAnswer(answer.http.body);
  if (!parsed.has_value()) return all(DeleteState::kUnknown, "unparsable");
  for (size_t i = 0; i < keys.size(); ++i) {
    auto it = parsed->find(keys[i]);
    if (it != parsed->end()) results[places[i]] = it->second;
  }
  return results;
}

absl::StatusOr<std::vector<StoredObject>> S3Store::List(absl::string_view prefix,
                                                        absl::string_view start_after,
                                                        size_t max_objects, absl::Time deadline) {
  std::vector<StoredObject> found;
  std::string after = start_after.empty() ? "" : absl::StrCat(location_.prefix, start_after);
  bool more = true;
  while (more && found.size() < max_objects) {
    Call call;
    call.query =
        absl::StrCat("list-type=2&max-keys=", std::min<size_t>(max_objects - found.size(), 1000),
                     "&prefix=", EncodeQuery(absl::StrCat(location_.prefix, prefix)));
    if (!after.empty()) absl::StrAppend(&call.query, "&start-after=", EncodeQuery(after));
    call.deadline = deadline;
    const HttpAnswer answer = Send(call).http;
    const auto page = IsSuccess(answer) ? ParseObjectPage(answer.body) : std::nullopt;
    if (!page.has_value()) return StatusOf(answer, "list");
    for (const StoredObject& object : page->objects) {
      after = object.name;
      found.push_back({object.name.substr(location_.prefix.size()), object.size_bytes});
    }
    more = page->truncated && !page->objects.empty();
  }
  return found;
}

}  // namespace holdfast::tier
