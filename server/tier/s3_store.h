// Objects in a bucket of S3, or of any store that speaks its protocol.

#ifndef HOLDFAST_SERVER_TIER_S3_STORE_H_
#define HOLDFAST_SERVER_TIER_S3_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/tier/http_client.h"
#include "server/tier/object_store.h"
#include "server/tier/s3_location.h"

namespace holdfast::tier {

struct S3Options {
  uint64_t multipart_bytes = 64 << 20;  // larger objects go up in parts
  uint64_t part_bytes = 32 << 20;       // at least; never more than 10,000 parts
  absl::Duration backoff_min = absl::Milliseconds(100);
  absl::Duration backoff_max = absl::Seconds(5);
  int attempts_max = 4;  // of one request that a busy store refuses, within the deadline
};

// Thread-safe. Requests that may be repeated are, with growing pauses, while the store says that it is busy or fails to answer;
// what is known of the effect counts all attempts.
//
// On a bucket with versions a delete only hides an object: such a bucket needs a rule that removes old versions. One for
// unfinished multipart uploads is wise on every bucket.
class S3Store : public ObjectStore {
 public:
  S3Store(S3Location location, const S3Credentials& credentials, S3Options options);

  UploadResult Upload(absl::string_view name, absl::string_view bytes,
                      absl::Time deadline) override;
  absl::Status Download(absl::string_view name, uint64_t offset_bytes, absl::Span<char> out,
                        absl::Time deadline) override;
  std::vector<DeleteResult> Delete(absl::Span<const std::string> names,
                                   absl::Time deadline) override;
  absl::StatusOr<std::vector<StoredObject>> List(absl::string_view prefix,
                                                 absl::string_view start_after, size_t max_objects,
                                                 absl::Time deadline) override;
  void Cancel() override { http_.Cancel(); }

 private:
  struct Call {
    const char* method = "GET";
    std::string key;    // empty: the bucket itself
    std::string query;  // sorted and encoded
    absl::string_view body;
    std::vector<std::string> headers = {};
    absl::Span<char> into = {};
    absl::Time deadline;
  };
  struct Answer {
    HttpAnswer http;
    bool earlier_in_doubt = false;  // an attempt before the last one may have had its effect
  };

  std::string UrlOf(const Call& call) const;
  HttpAnswer SendOnce(const Call& call);
  // Repeats while that makes sense.
  Answer Send(const Call& call);
  UploadResult UploadParts(absl::string_view name, absl::string_view bytes, absl::Time deadline);
  // Etags of all parts; none when one failed, whose answer is in *failed.
  std::optional<std::vector<std::string>> SendParts(const std::string& key,
                                                    const std::string& upload_id,
                                                    absl::string_view bytes, absl::Time deadline,
                                                    HttpAnswer* failed);
  // What the store says of an object that is there; empty when it does not answer.
  std::string StoredEtag(const std::string& key, absl::Time deadline);
  // Whether it is certain that the upload cannot be completed any more.
  bool Abort(const std::string& key, const std::string& upload_id, absl::Time deadline);
  // Ends unfinished uploads of these keys. Empty, or why that is not certain.
  std::string EndUploads(absl::Span<const std::string> keys, absl::Time deadline);
  std::optional<std::vector<std::string>> ListUploads(absl::Span<const std::string> keys,
                                                      absl::Time deadline, std::string* error);

  const S3Location location_;
  const std::string session_token_;
  const S3Options options_;
  HttpClient http_;
};

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_S3_STORE_H_
