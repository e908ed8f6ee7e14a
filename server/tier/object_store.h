// Where durable replicas lie: a flat space of names, each written once, by a client, and deleted by the master.

#ifndef HOLDFAST_SERVER_TIER_OBJECT_STORE_H_
#define HOLDFAST_SERVER_TIER_OBJECT_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace holdfast::tier {

// What is known of a name after a request to delete it.
enum class DeleteState : uint8_t {
  kDeleted,  // confirmed: it is gone (some stores say so of what was never there, too)
  kAbsent,   // confirmed: there was nothing
  kFailed,   // the store answered that it did not delete
  kUnknown,  // no answer that can be trusted: a time-out, a broken connection, half an answer
};

struct DeleteResult {
  DeleteState state = DeleteState::kUnknown;
  std::string
      code;  // why not: the store's own code ("SlowDown", "EACCES", "timeout"), at most 64 bytes; empty when done
};

// What is known of the effect of an upload.
enum class UploadState : uint8_t {
  kStored,
  kNotStored,  // the store holds no byte of it, and nothing can land any more
  kAmbiguous,  // it may hold it, or come to hold it
};

struct UploadResult {
  UploadState state = UploadState::kAmbiguous;
  absl::Status status;   // OK exactly when stored
  std::string checksum;  // what the store calls its content, at most 128 bytes
};

struct StoredObject {
  std::string name;
  uint64_t size_bytes = 0;
};

// Thread-safe. Calls block, until their deadline at most, or until Cancel.
//
// Names are paths of one or more parts of letters, digits, '-', '_' and '.', none of which is "." or ".."; others are refused.
class ObjectStore {
 public:
  static constexpr size_t kNamesPerDelete = 1000;

  virtual ~ObjectStore() = default;

  virtual UploadResult Upload(absl::string_view name, absl::string_view bytes,
                              absl::Time deadline) = 0;
  // Fills `out` with the bytes from `offset_bytes` on. NOT_FOUND; OUT_OF_RANGE when there are fewer; UNAVAILABLE,
  // DEADLINE_EXCEEDED, CANCELLED; PERMISSION_DENIED.
  virtual absl::Status Download(absl::string_view name, uint64_t offset_bytes, absl::Span<char> out,
                                absl::Time deadline) = 0;
  // One result a name, in order; at most kNamesPerDelete names. Also ends unfinished uploads of these names, so that none
  // of them can land afterwards.
  virtual std::vector<DeleteResult> Delete(absl::Span<const std::string> names,
                                           absl::Time deadline) = 0;
  // Up to `max_objects` objects with this prefix and a name above `start_after`, in order. Errors as of Download.
  virtual absl::StatusOr<std::vector<StoredObject>> List(absl::string_view prefix,
                                                         absl::string_view start_after,
                                                         size_t max_objects,
                                                         absl::Time deadline) = 0;
  // Calls in progress end as soon as they can, later ones fail. For shutdown; idempotent.
  virtual void Cancel() = 0;
};

// Whether a name is one that stores take.
bool IsValidName(absl::string_view name);

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_OBJECT_STORE_H_
