// Where an S3 store is, and who we are there.

#ifndef HOLDFAST_SERVER_TIER_S3_LOCATION_H_
#define HOLDFAST_SERVER_TIER_S3_LOCATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace holdfast::tier {

struct S3Location {
  std::string bucket;
  std::string prefix;    // of all names; empty, or ends with '/'
  std::string endpoint;  // "https://HOST[:PORT]", without a slash at the end
  std::string region;
  bool path_style = false;  // the bucket is the first part of the path, not of the host
};

struct S3Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
};

// Of s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path_style=true|false]. What the URI leaves open comes from
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, and AWS_REGION or AWS_DEFAULT_REGION; then it is Amazon's, in us-east-1.
// INVALID_ARGUMENT.
absl::StatusOr<S3Location> ParseS3Location(absl::string_view uri);

// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the file that AWS_SHARED_CREDENTIALS_FILE
// names (~/.aws/credentials), the profile AWS_PROFILE ("default"). UNAUTHENTICATED when there are none.
absl::StatusOr<S3Credentials> FindS3Credentials();

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_S3_LOCATION_H_
