// holdfast segment mount: a store client that lends memory it does not have. It is for demonstrations and tests of the
// master, which never sees the bytes.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// SIGINT and SIGTERM are taken by Await instead of ending the process. To be made before any thread.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // True when one of them came within 100 ms.
  bool Await() {
    const timespec patience = {.tv_sec = 0, .tv_nsec = 100'000'000};
    return sigtimedwait(&signals_, nullptr, &patience) > 0;
  }

 private:
  sigset_t signals_;
  sigset_t before_;
};

absl::StatusOr<SegmentOptions> SegmentOf(const Arguments& arguments) {
  SegmentOptions segment;
  segment.name = arguments.Text("name");
  if (segment.name.empty()) return absl::InvalidArgumentError("--name is missing");
  if (!arguments.Has("size")) return absl::InvalidArgumentError("--size is missing");
  const absl::StatusOr<uint64_t> size = arguments.Size("size", 0);
  if (!size.ok()) return size.status();
  segment.size_bytes = *size;
  segment.host = arguments.Text("host", HostName());
  segment.endpoint = arguments.Text("endpoint", absl::StrCat(segment.host, ":0"));
  segment.transport = arguments.Text("transport", segment.transport);
  segment.rack = arguments.Text("rack");
  segment.pool_id = arguments.Text("pool");
  const absl::StatusOr<uint64_t> base = arguments.Count("base", 0);
  if (!base.ok()) return base.status();
  segment.base = *base;
  if (arguments.Has("segment-id")) {
    const std::string hex = absl::StrReplaceAll(arguments.Text("segment-id"), {{"-", ""}});
    if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return absl::InvalidArgumentError("--segment-id: 32 hexadecimal digits are wanted");
    }
    const std::string bytes = absl::HexStringToBytes(hex);
    std::copy(bytes.begin(), bytes.end(), segment.segment_id.begin());
  }
  return segment;
}

void PrintMounted(Context& context, const SegmentOptions& segment, uint64_t registration_id) {
  if (context.json()) {
    v1::SegmentInfo info;
    info.set_registration_id(registration_id);
    info.mutable_spec()->set_name(segment.name);
    info.mutable_spec()->set_size(segment.size_bytes);
    info.set_state(v1::SEGMENT_STATE_MOUNTED);
    context.PrintJson(info, JsonFields::kSet);
    return;
  }
  context.out() << "mounted " << Escape(segment.name) << ' ' << HumanSize(segment.size_bytes)
                << " registration " << registration_id << std::endl;
}

int MountSegment(Context& context) {
  const absl::StatusOr<SegmentOptions> segment = SegmentOf(context.arguments());
  if (!segment.ok()) return context.Usage(segment.status().message());
  const absl::StatusOr<std::chrono::milliseconds> ttl =
      context.arguments().Duration("ttl", std::chrono::milliseconds(0));
  if (!ttl.ok()) return context.Usage(ttl.status().message());

  StopSignals stop;
  std::atomic<bool> reopened{false};
  std::atomic<bool> ended{false};
  ClientOptions options = context.MakeClientOptions(/*open_session=*/true);
  options.host = segment->host;
  options.ttl = *ttl;
  options.events.on_reopened = [&reopened](size_t, size_t) { reopened = true; };
  // There is one segment, so it is the one.
  options.events.on_registrations_ended = [&ended](const std::vector<uint64_t>&) { ended = true; };
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<uint64_t> mounted = (*client)->MountSegment(*segment);
  if (!mounted.ok()) return context.Fail(mounted.status());
  uint64_t registration_id = *mounted;
  PrintMounted(context, *segment, registration_id);

  while (!stop.Await()) {
    if (ended) {
      context.err() << "holdfast: the master has ended registration " << registration_id
                    << std::endl;
      return kDone;
    }
    if (!reopened.exchange(false)) continue;
    const std::vector<uint64_t> now = (*client)->MountedRegistrations();
    if (now.empty() || now.front() == registration_id) continue;
    registration_id = now.front();
    PrintMounted(context, *segment, registration_id);
  }
  const absl::Status unmounted = (*client)->UnmountAll();
  if (!unmounted.ok()) return context.Fail(unmounted);
  (*client)->Close().IgnoreError();  // what matters is done
  if (!context.json()) context.out() << "unmounted " << registration_id << std::endl;
  return kDone;
}

}  // namespace

std::vector<Command> SegmentMountCommands() {
  Command mount{.noun = "segment", .verb = "mount"};
  mount.help =
      "Lends a segment until SIGINT or SIGTERM, then unmounts it.\n"
      "It runs in the foreground as a store client with a heartbeat. It moves no bytes: the "
      "segment is only announced.\n"
      "Prints the registration id when mounted, and again when the master was restarted and it got "
      "another one.";
  mount.flags = {{"name", "NAME", "label of the segment"},
                 {"size", "SIZE", "bytes, or with KiB, MiB, GiB, TiB"},
                 {"endpoint", "HOST:PORT",
                  "where the memory is said to be reached (default: host and port 0)"},
                 {"host", "NAME",
                  "host label: copies of an object avoid sharing one (default: this host's name)"},
                 {"rack", "NAME", "rack label"},
                 {"pool", "NAME", "pool whose space registrations share"},
                 {"transport", "NAME", "tcp, rdma, ... (default tcp)"},
                 {"base", "ADDRESS", "address of the first byte in the owner's terms (default 0)"},
                 {"segment-id", "HEX", "identity of the memory, 16 bytes (default: random)"},
                 {"ttl", "TIME",
                  "silence after which the master gives this client up (default: the master's)"}};
  mount.run = &MountSegment;
  return {mount};
}

}  // namespace holdfast::cli
