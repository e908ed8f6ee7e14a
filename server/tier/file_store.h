// Objects as files below one directory, for a single machine or a shared file system.

#ifndef HOLDFAST_SERVER_TIER_FILE_STORE_H_
#define HOLDFAST_SERVER_TIER_FILE_STORE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/tier/object_store.h"

namespace holdfast::tier {

// Thread-safe, also across processes.
//
// An upload goes to NAME.tmp, which is synced and then renamed, so a name is there whole or not at all, also after a crash;
// a delete removes NAME.tmp first, so an upload that it overtakes finds nothing to rename. Directories are made on demand and
// stay: another process may be about to write into them.
class FileStore : public ObjectStore {
 public:
  // `directory` is absolute. The error of making it.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(std::string directory);

  UploadResult Upload(absl::string_view name, absl::string_view bytes,
                      absl::Time deadline) override;
  absl::Status Download(absl::string_view name, uint64_t offset_bytes, absl::Span<char> out,
                        absl::Time deadline) override;
  std::vector<DeleteResult> Delete(absl::Span<const std::string> names,
                                   absl::Time deadline) override;
  absl::StatusOr<std::vector<StoredObject>> List(absl::string_view prefix,
                                                 absl::string_view start_after, size_t max_objects,
                                                 absl::Time deadline) override;
  void Cancel() override { cancelled_ = true; }

 private:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}

  std::string PathOf(absl::string_view name) const;
  // OK while a call may go on.
  absl::Status CheckTime(absl::Time deadline) const;
  DeleteResult DeleteOne(const std::string& name) const;

  const std::string directory_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_FILE_STORE_H_
