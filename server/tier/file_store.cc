#include "server/tier/file_store.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace holdfast::tier {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTemporary = ".tmp";
// Between two looks at the deadline.
constexpr size_t kBlockBytes = 4 << 20;

absl::Status ErrnoStatus(absl::string_view what, int error) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

std::string ErrnoName(int error) {
  const char* name = strerrorname_np(error);
  return name == nullptr ? absl::StrCat("errno", error) : name;
}

// A descriptor that is closed in the end.
class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// 0, or the error. A directory must be synced for a name in it to be there, or gone, after a crash.
int SyncDirectory(const std::string& path) {
  const File directory(path, O_RDONLY | O_DIRECTORY);
  if (!directory.ok()) return errno;
  return fsync(directory.fd()) == 0 ? 0 : errno;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Tells that the bytes are not those of the writer, not that nobody has forged them.
std::string Checksum(absl::string_view bytes) {
  return absl::StrCat("xxh3:",
                      absl::Hex(XXH3_64bits(bytes.data(), bytes.size()), absl::kZeroPad16));
}

UploadResult NotStored(absl::Status status) {
  return {UploadState::kNotStored, std::move(status), ""};
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(std::string directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return ErrnoStatus(absl::StrCat("durable store ", directory), error.value());
  if (access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return ErrnoStatus(absl::StrCat("durable store ", directory), errno);
  }
  return std::unique_ptr<FileStore>(new FileStore(std::move(directory)));
}

std::string FileStore::PathOf(absl::string_view name) const {
  return absl::StrCat(directory_, "/", name);
}

absl::Status FileStore::CheckTime(absl::Time deadline) const {
  if (cancelled_) return absl::CancelledError("the store is shutting down");
  if (absl::Now() >= deadline) return absl::DeadlineExceededError("the deadline is over");
  return absl::OkStatus();
}

UploadResult FileStore::Upload(absl::string_view name, absl::string_view bytes,
                               absl::Time deadline) {
  const std::string subject = absl::StrCat("upload ", name);
  if (!IsValidName(name) || absl::EndsWith(name, kTemporary)) {
    return NotStored(absl::InvalidArgumentError(absl::StrCat(subject, ": not a valid name")));
  }
  const std::string path = PathOf(name);
  const std::string temporary = absl::StrCat(path, kTemporary);
  std::error_code error;
  fs::create_directories(ParentOf(path), error);
  if (error) return NotStored(ErrnoStatus(subject, error.value()));
  absl::Status status;
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.ok() && errno == EEXIST) {  // another upload of it may be under way, and land
      return {UploadState::kAmbiguous, ErrnoStatus(subject, errno), ""};
    }
    if (!file.ok()) return NotStored(ErrnoStatus(subject, errno));
    absl::string_view left = bytes;
    while (status.ok() && !left.empty()) {
      const ssize_t written = write(file.fd(), left.data(), std::min(left.size(), kBlockBytes));
      if (written > 0) {
        left.remove_prefix(static_cast<size_t>(written));
        status = CheckTime(deadline);
      } else if (errno != EINTR) {
        status = ErrnoStatus(subject, errno);
      }
    }
    if (status.ok()) status = CheckTime(deadline);
    if (status.ok() && fsync(file.fd()) != 0) status = ErrnoStatus(subject, errno);
  }
  // The rename is what stores it. Before it nothing is there; a delete has taken the file away, or it is done here.
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(subject, errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return NotStored(std::move(status));
  }
  if (const int sync_error = SyncDirectory(ParentOf(path)); sync_error != 0) {
    return {UploadState::kAmbiguous, ErrnoStatus(subject, sync_error), ""};
  }
  return {UploadState::kStored, absl::OkStatus(), Checksum(bytes)};
}

absl::Status FileStore::Download(absl::string_view name, uint64_t offset_bytes,
                                 absl::Span<char> out, absl::Time deadline) {
  const std::string subject = absl::StrCat("download ", name);
  if (!IsValidName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(subject, ": not a valid name"));
  }
  const File file(PathOf(name), O_RDONLY);
  if (!file.ok()) return ErrnoStatus(subject, errno);
  for (size_t done = 0; done < out.size();) {
    if (absl::Status status = CheckTime(deadline); !status.ok()) return status;
    const ssize_t read =
        pread(file.fd(), out.data() + done, std::min(out.size() - done, kBlockBytes),
              static_cast<off_t>(offset_bytes + done));
    if (read == 0) return absl::OutOfRangeError(absl::StrCat(subject, ": the object is shorter"));
    if (read < 0 && errno != EINTR) return ErrnoStatus(subject, errno);
    if (read > 0) done += static_cast<size_t>(read);
  }
  return absl::OkStatus();
}

DeleteResult FileStore::DeleteOne(const std::string& name) const {
  if (!IsValidName(name)) return {DeleteState::kFailed, "InvalidName"};
  const std::string path = PathOf(name);
  bool removed = false;
  for (const std::string& file : {absl::StrCat(path, kTemporary), path}) {
    if (unlink(file.c_str()) == 0) {
      removed = true;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return {DeleteState::kFailed, ErrnoName(errno)};
    }
  }
  return {removed ? DeleteState::kDeleted : DeleteState::kAbsent, ""};
}

std::vector<DeleteResult> FileStore::Delete(absl::Span<const std::string> names,
                                            absl::Time deadline) {
  std::vector<DeleteResult> results(names.size());
  std::set<std::string> directories;
  for (size_t i = 0; i < names.size(); ++i) {
    if (absl::Status status = CheckTime(deadline); !status.ok()) {
      results[i].code = absl::IsCancelled(status) ? "cancelled" : "timeout";
      continue;
    }
    results[i] = DeleteOne(names[i]);
    if (results[i].state == DeleteState::kDeleted) directories.insert(ParentOf(PathOf(names[i])));
  }
  // Only now it is certain that they do not come back after a crash.
  std::set<std::string> unsynced;
  for (const std::string& directory : directories) {
    if (SyncDirectory(directory) != 0) unsynced.insert(directory);
  }
  for (size_t i = 0; i < names.size() && !unsynced.empty(); ++i) {
    if (results[i].state != DeleteState::kDeleted) continue;
    if (unsynced.count(ParentOf(PathOf(names[i]))) > 0) {
      results[i] = {DeleteState::kUnknown, "fsync"};
    }
  }
  return results;
}

absl::StatusOr<std::vector<StoredObject>> FileStore::List(absl::string_view prefix,
                                                          absl::string_view start_after,
                                                          size_t max_objects, absl::Time deadline) {
  std::vector<StoredObject> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory_, error), end; !error && it != end;
       it.increment(error)) {
    if (absl::Status status = CheckTime(deadline); !status.ok()) return status;
    std::error_code gone;  // an entry may be deleted while it is looked at
    if (!it->is_regular_file(gone)) continue;
    const std::string name = it->path().string().substr(directory_.size() + 1);
    if (!absl::StartsWith(name, prefix) || name <= start_after ||
        absl::EndsWith(name, kTemporary)) {
      continue;
    }
    const uint64_t size = it->file_size(gone);
    if (!gone) found.push_back({name, size});
  }
  if (error) return ErrnoStatus("list", error.value());
  std::sort(found.begin(), found.end(),
            [](const StoredObject& a, const StoredObject& b) { return a.name < b.name; });
  if (found.size() > max_objects) found.resize(max_objects);
  return found;
}

}  // namespace holdfast::tier
