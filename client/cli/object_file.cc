#include "client/cli/object_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/cli/object_json.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  }
  if (bytes.empty()) return absl::InvalidArgumentError(absl::StrCat("'", path, "' is empty"));
  return bytes;
}

// Fails when the file is there: no answer is worth a file of the user.
absl::Status WriteNewFile(const std::string& path, absl::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
  }
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  const bool closed = close(file) == 0;
  if (bytes.empty() && closed) return absl::OkStatus();
  absl::Status status =
      absl::InternalError(absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
  unlink(path.c_str());
  return status;
}

}  // namespace

int PutFile(Context& context, const std::string& key, const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return context.Usage(bytes.status().message());
  absl::StatusOr<std::unique_ptr<Client>> client = context.Connect(/*open_session=*/true);
  if (!client.ok()) return context.Fail(client.status());
  const auto close = absl::MakeCleanup([&client] { (*client)->Close().IgnoreError(); });
  const size_t size = bytes->size();
  const DurablePutResult result = (*client)->PutDurable(key, *std::move(bytes));
  if (!result.status.ok()) {
    context.PrintItemError("put", key, result.status);
    return kRefused;
  }
  if (context.json()) {
    v1::PutStartResponse message;
    message.add_results()->set_put_id(result.version);
    context.PrintJson(message);
  } else {
    context.out() << "put " << Escape(key) << "  " << HumanSize(size) << "  durable\n";
  }
  return kDone;
}

int GetFile(Context& context, const std::string& key, const std::string& path) {
  absl::StatusOr<std::unique_ptr<Client>> client = context.Connect(/*open_session=*/true);
  if (!client.ok()) return context.Fail(client.status());
  const auto close = absl::MakeCleanup([&client] { (*client)->Close().IgnoreError(); });
  const absl::StatusOr<std::vector<FoundObject>> objects = (*client)->Get({&key, 1});
  if (!objects.ok()) return context.Fail(objects.status());
  const FoundObject& object = objects->front();
  if (!object.status.ok()) {
    context.PrintItemError("get", key, object.status);
    return kRefused;
  }
  const absl::StatusOr<std::string> bytes = (*client)->ReadDurable(object);
  if (!bytes.ok()) return context.Fail(bytes.status());
  if (absl::Status status = WriteNewFile(path, *bytes); !status.ok()) {
    return context.Usage(status.message());
  }
  if (context.json()) {
    context.PrintJson(ToMessage(*objects));
  } else {
    context.out() << "got " << Escape(key) << "  " << HumanSize(bytes->size()) << "  " << path
                  << '\n';
  }
  return kDone;
}

}  // namespace holdfast::cli
