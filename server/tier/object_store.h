#ifndef HOLDFAST_SERVER_TIER_OBJECT_STORE_H_
#define HOLDFAST_SERVER_TIER_OBJECT_STORE_H_
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
namespace holdfast::tier {
enum class DeleteState : uint8_t { kDeleted, kAbsent, kFailed, kUnknown };
struct DeleteResult { DeleteState state = DeleteState::kUnknown; std::string code; };
enum class UploadState : uint8_t { kStored, kNotStored, kAmbiguous };
struct UploadResult { UploadState state; absl::Status status; std::string checksum; };
struct StoredObject { std::string name; uint64_t size_bytes; };
class ObjectStore {
 public:
  static constexpr size_t kNamesPerDelete = 1000;
  virtual ~ObjectStore() = default;
  virtual UploadResult Upload(absl::string_view name, absl::string_view bytes, absl::Time deadline) = 0;
  virtual absl::Status Download(absl::string_view name, uint64_t offset_bytes, absl::Span<char> out, absl::Time deadline) = 0;
  virtual std::vector<DeleteResult> Delete(absl::Span<const std::string> names, absl::Time deadline) = 0;
  virtual absl::StatusOr<std::vector<StoredObject>> List(absl::string_view prefix, absl::string_view start_after, size_t max_objects, absl::Time deadline) = 0;
  virtual void Cancel() = 0;
};
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenObjectStore(absl::string_view uri);
}  // namespace holdfast::tier
#endif
