// Opens the store that a URI names.

#ifndef HOLDFAST_SERVER_TIER_OPEN_OBJECT_STORE_H_
#define HOLDFAST_SERVER_TIER_OPEN_OBJECT_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/tier/object_store.h"

namespace holdfast::tier {

// file:///DIR, an absolute path, made when it is not there;
// s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path_style=true], with credentials from AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the file AWS_SHARED_CREDENTIALS_FILE under AWS_PROFILE.
// INVALID_ARGUMENT names what is wrong with the URI; PERMISSION_DENIED and others when the place cannot be used.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjectStore(absl::string_view uri);

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_OPEN_OBJECT_STORE_H_
