// The few XML documents of the S3 protocol that are needed (Amazon S3 API Reference: DeleteObjects, ListObjectsV2,
// ListMultipartUploads, CreateMultipartUpload, CompleteMultipartUpload).

#ifndef HOLDFAST_SERVER_TIER_S3_MESSAGES_H_
#define HOLDFAST_SERVER_TIER_S3_MESSAGES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/tier/object_store.h"

namespace holdfast::tier {

// Requests.
std::string DeleteRequestXml(absl::Span<const std::string> keys);
std::string CompleteRequestXml(absl::Span<const std::string> etags);  // of parts 1, 2, ...

// Answers. None when the document is not whole, or another one: half an answer is no answer.

// Keys that it mentions; a key that it does not mention is not known.
std::optional<std::map<std::string, DeleteResult>> ParseDeleteAnswer(const std::string& xml);

struct ObjectPage {
  std::vector<StoredObject> objects;  // under their whole keys
  bool truncated = false;             // there are more behind the last one
};
std::optional<ObjectPage> ParseObjectPage(const std::string& xml);

struct UnfinishedUpload {
  std::string key;
  std::string upload_id;
};
struct UploadPage {
  std::vector<UnfinishedUpload> uploads;
  bool truncated = false;
  std::string next_key;
  std::string next_upload_id;
};
std::optional<UploadPage> ParseUploadPage(const std::string& xml);

// The upload id of a new multipart upload.
std::optional<std::string> ParseUploadId(const std::string& xml);
// The etag of a completed multipart upload. None also for an error, which this answer may turn out to be after its status.
std::optional<std::string> ParseCompleteAnswer(const std::string& xml);
// The code of an error document; empty if it is none.
std::string ParseErrorCode(const std::string& xml);

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_S3_MESSAGES_H_
