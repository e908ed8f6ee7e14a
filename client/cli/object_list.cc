// holdfast object list|show

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

using Stub = v1::AdminService::Stub;

// One call lists so many, so that a listing of any length is made of calls that end within the time-out.
constexpr uint64_t kKeysPerCall = 20'000;

// Written while they come: a listing may be longer than memory.
class KeyWriter {
 public:
  KeyWriter(std::ostream* out, bool json) : out_(out), json_(json) {
    if (json_) {
      *out_ << "{\"keys\":[";
    } else {
      *out_ << absl::StrFormat("%12s  %8s  %-12s  %s\n", "SIZE", "REPLICAS", "STATE", "KEY");
    }
  }

  void Write(const v1::ListedKey& key) {
    if (json_) {
      *out_ << (count_++ == 0 ? "" : ",") << ToJson(key);
      return;
    }
    const absl::string_view state = key.put_in_progress()          ? "put"
                                    : key.available_replicas() > 0 ? "readable"
                                    : key.durable()                ? "durable"
                                                                   : "unreadable";
    *out_ << absl::StrFormat("%12s  %8s  %-12s  %s\n", HumanSize(key.size()),
                             absl::StrCat(key.available_replicas(), "/", key.replicas()), state,
                             Escape(key.key()));
  }

  void End() {
    if (json_) *out_ << "]}\n";
  }

 private:
  std::ostream* const out_;
  const bool json_;
  uint64_t count_ = 0;
};

int ListKeys(Context& context) {
  const absl::StatusOr<uint64_t> limit = context.arguments().Count("limit", 0);
  if (!limit.ok()) return context.Usage(limit.status().message());
  v1::ListKeysRequest request;
  request.set_filter_invalid(!context.arguments().Has("all"));
  request.set_prefix(context.arguments().Text("prefix"));
  KeyWriter writer(&context.out(), context.json());
  uint64_t written = 0;
  absl::Status status;
  // Ends: each call goes on behind the one before. A listing that stands still is broken.
  while (true) {
    request.set_limit(*limit == 0 ? kKeysPerCall : std::min(kKeysPerCall, *limit - written));
    std::string resume_token;
    status = context.ReadAdmin(&Stub::ListKeys, "list keys", request,
                               [&](const v1::ListKeysResponse& page) {
                                 for (const v1::ListedKey& key : page.keys()) writer.Write(key);
                                 written += page.keys_size();
                                 resume_token = page.resume_token();
                               });
    if (!status.ok() || resume_token.empty() || (*limit != 0 && written >= *limit) ||
        !context.out())
      break;
    if (resume_token == request.resume_token()) {
      status = absl::InternalError("list keys: the master does not go on");
      break;
    }
    request.set_resume_token(resume_token);
  }
  writer.End();
  return status.ok() ? kDone : context.Fail(status);
}

int ShowObject(Context& context) {
  const absl::StatusOr<std::vector<std::string>> keys = KeysOf(context.arguments());
  if (!keys.ok()) return context.Usage(keys.status().message());
  v1::GetObjectRequest request;
  request.set_key(keys->front());
  const absl::StatusOr<v1::GetObjectResponse> object =
      context.CallAdmin(&Stub::GetObject, "get object", request);
  if (!object.ok()) return context.Fail(object.status());
  if (context.json()) {
    context.PrintJson(*object);
    return kDone;
  }
  Properties lines;
  lines.Add("key", object->key());
  lines.Add("size", absl::StrCat(HumanSize(object->size()), " (", object->size(), ")"));
  lines.Add("version", absl::StrCat(object->version()));
  lines.Add("lease",
            object->lease_left_ms() == 0 ? "none" : HumanDuration(object->lease_left_ms()));
  if (object->put_in_progress())
    lines.Add("put in progress for", HumanDuration(object->put_age_ms()));
  if (object->has_durable()) {
    lines.Add("durable replica",
              absl::StrCat(object->durable().object_name(), ", ",
                           object->durable_published() ? "published" : "not published yet"));
    lines.Add("its checksum", object->durable().checksum());
  }
  lines.Write(context.out());
  using Align = Table::Align;
  Table table({{"REGISTRATION", Align::kRight},
               {"SEGMENT"},
               {"ENDPOINT"},
               {"OFFSET", Align::kRight},
               {"STATE"}});
  for (const v1::ReplicaInfo& replica : object->replicas()) {
    table.Add({absl::StrCat(replica.registration_id()), replica.segment_name(), replica.endpoint(),
               absl::StrCat(replica.offset()),
               replica.available()  ? "available"
               : replica.complete() ? "ended"
                                    : "incomplete"});
  }
  context.out() << '\n';
  table.Write(context.out());
  return kDone;
}

}  // namespace

std::vector<Command> ObjectListCommands() {
  Command list{.noun = "object", .verb = "list", .help = "Lists objects, in no particular order."};
  list.flags = {{"prefix", "TEXT", "only keys that start so"},
                {"limit", "N", "at most so many (default: all)"},
                {"all", "", "also objects that a get would not find"}};
  list.run = &ListKeys;
  Command show{.noun = "object",
               .verb = "show",
               .positional = "KEY",
               .positional_min = 1,
               .positional_max = 1};
  show.help = "Shows all replicas of an object, available or not. Takes no lease.";
  show.flags = {kKeyBase64Flag};
  show.run = &ShowObject;
  return {list, show};
}

}  // namespace holdfast::cli
