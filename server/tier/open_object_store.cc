#include "server/tier/open_object_store.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/tier/file_store.h"
#include "server/tier/s3_location.h"
#include "server/tier/s3_store.h"

namespace holdfast::tier {

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjectStore(absl::string_view uri) {
  absl::string_view rest = uri;
  if (absl::ConsumePrefix(&rest, "file://")) {
    while (absl::EndsWith(rest, "/")) rest.remove_suffix(1);
    if (!absl::StartsWith(rest, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("durable store '", uri, "': the directory is not an absolute path"));
    }
    auto store = FileStore::Open(std::string(rest));
    if (!store.ok()) return store.status();
    return std::unique_ptr<ObjectStore>(*std::move(store));
  }
  if (!absl::StartsWith(uri, "s3://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("durable store '", uri, "': neither file:// nor s3://"));
  }
  absl::StatusOr<S3Location> location = ParseS3Location(uri);
  if (!location.ok()) return location.status();
  absl::StatusOr<S3Credentials> credentials = FindS3Credentials();
  if (!credentials.ok()) return credentials.status();
  return std::unique_ptr<ObjectStore>(
      std::make_unique<S3Store>(*std::move(location), *std::move(credentials), S3Options{}));
}

}  // namespace holdfast::tier
