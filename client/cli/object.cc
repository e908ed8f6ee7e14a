// holdfast object put|get|exists|remove

#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/object_file.h"
#include "client/cli/object_json.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

std::string ReplicasText(const ReplicaLocations& replicas, const std::string& object_name) {
  std::string text = object_name.empty() ? "" : absl::StrCat("durable:", object_name);
  for (const ReplicaLocation& replica : replicas) {
    absl::StrAppend(&text, text.empty() ? "" : " ", replica.segment->endpoint, "+",
                    replica.offset_bytes, "@", replica.segment->registration_id);
  }
  return text;
}

uint64_t MillisecondsUntil(std::chrono::steady_clock::time_point time) {
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(client::Remaining(time)));
}

// The end of a batch: an error line for each item that was refused.
int FinishItems(Context& context, absl::string_view operation, const std::vector<std::string>& keys,
                const std::vector<ItemStatus>& statuses) {
  int exit = kDone;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].ok()) continue;
    context.PrintItemError(operation, keys[i], statuses[i]);
    exit = kRefused;
  }
  return exit;
}

absl::StatusOr<std::vector<PutItem>> PutItemsOf(const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::string>> keys = KeysOf(arguments);
  if (!keys.ok()) return keys.status();
  if (!arguments.Has("size")) return absl::InvalidArgumentError("--size is missing");
  const absl::StatusOr<uint64_t> size = arguments.Size("size", 0);
  if (!size.ok()) return size.status();
  const absl::StatusOr<uint64_t> replicas = arguments.Count("replicas", 1, 1000);
  if (!replicas.ok()) return replicas.status();
  std::vector<PutItem> items;
  for (const std::string& key : *keys) {
    items.push_back(
        PutItem{.key = key, .size_bytes = *size, .replicas = static_cast<uint32_t>(*replicas)});
  }
  return items;
}

// Ends what was started; each status becomes that of the end.
absl::Status EndPuts(Client* client, const std::vector<PutItem>& items,
                     std::vector<StartedPut>* puts) {
  std::vector<PutRef> refs;
  std::vector<size_t> places;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!(*puts)[i].status.ok()) continue;
    refs.push_back(PutRef{.key = items[i].key, .put_id = (*puts)[i].put_id});
    places.push_back(i);
  }
  if (refs.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<ItemStatus>> ended = client->PutEnd(refs);
  if (!ended.ok()) return ended.status();
  for (size_t i = 0; i < places.size(); ++i) (*puts)[places[i]].status = (*ended)[i];
  return absl::OkStatus();
}

// With --file: the one key that the file is for.
absl::StatusOr<std::string> KeyOfFile(const Arguments& arguments) {
  absl::StatusOr<std::vector<std::string>> keys = KeysOf(arguments);
  if (!keys.ok()) return keys.status();
  if (keys->size() != 1) return absl::InvalidArgumentError("--file is for one KEY");
  return keys->front();
}

int PutObjects(Context& context) {
  if (context.arguments().Has("file")) {
    const absl::StatusOr<std::string> key = KeyOfFile(context.arguments());
    if (!key.ok()) return context.Usage(key.status().message());
    return PutFile(context, *key, context.arguments().Text("file"));
  }
  const absl::StatusOr<std::vector<PutItem>> items = PutItemsOf(context.arguments());
  if (!items.ok()) return context.Usage(items.status().message());
  PutOptions options;
  if (context.arguments().Has("segment"))
    options.preferred_segments.push_back(context.arguments().Text("segment"));
  absl::StatusOr<std::unique_ptr<Client>> client = context.Connect(/*open_session=*/true);
  if (!client.ok()) return context.Fail(client.status());
  const auto close = absl::MakeCleanup([&client] { (*client)->Close().IgnoreError(); });
  absl::StatusOr<std::vector<StartedPut>> puts = (*client)->PutStart(*items, options);
  if (!puts.ok()) return context.Fail(puts.status());
  const absl::Status ended = EndPuts(client->get(), *items, &*puts);
  if (!ended.ok()) return context.Fail(ended);
  if (context.json()) context.PrintJson(ToMessage(*puts));
  std::vector<std::string> keys;
  std::vector<ItemStatus> statuses;
  for (size_t i = 0; i < items->size(); ++i) {
    const StartedPut& put = (*puts)[i];
    keys.push_back((*items)[i].key);
    statuses.push_back(put.status);
    if (!put.status.ok() || context.json()) continue;
    context.out() << "put " << Escape(keys[i]) << "  " << HumanSize((*items)[i].size_bytes) << "  "
                  << Escape(ReplicasText(put.replicas, put.object_name)) << '\n';
  }
  return FinishItems(context, "put", keys, statuses);
}

int GetObjects(Context& context) {
  if (context.arguments().Has("file")) {
    const absl::StatusOr<std::string> key = KeyOfFile(context.arguments());
    if (!key.ok()) return context.Usage(key.status().message());
    return GetFile(context, *key, context.arguments().Text("file"));
  }
  const absl::StatusOr<std::vector<std::string>> keys = KeysOf(context.arguments());
  if (!keys.ok()) return context.Usage(keys.status().message());
  absl::StatusOr<std::unique_ptr<Client>> client = context.Connect(/*open_session=*/false);
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<std::vector<FoundObject>> objects = (*client)->Get(*keys);
  if (!objects.ok()) return context.Fail(objects.status());
  std::vector<ItemStatus> statuses;
  Table table(
      {{"KEY"}, {"SIZE", Table::Align::kRight}, {"LEASE", Table::Align::kRight}, {"REPLICAS"}});
  bool found_any = false;
  for (size_t i = 0; i < keys->size(); ++i) {
    const FoundObject& object = (*objects)[i];
    statuses.push_back(object.status);
    if (!object.status.ok()) continue;
    found_any = true;
    table.Add({(*keys)[i], HumanSize(object.size_bytes),
               HumanDuration(MillisecondsUntil(object.lease_end)),
               ReplicasText(object.replicas, object.object_name)});
  }
  if (context.json()) {
    context.PrintJson(ToMessage(*objects));
  } else if (found_any) {
    table.Write(context.out());
  }
  return FinishItems(context, "get", *keys, statuses);
}

int ExistObjects(Context& context) {
  const absl::StatusOr<std::vector<std::string>> keys = KeysOf(context.arguments());
  if (!keys.ok()) return context.Usage(keys.status().message());
  absl::StatusOr<std::unique_ptr<Client>> client = context.Connect(/*open_session=*/false);
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<std::vector<ItemStatus>> statuses = (*client)->Exists(*keys);
  if (!statuses.ok()) return context.Fail(statuses.status());
  if (context.json()) {
    v1::ExistsResponse message;
    FillResults(*statuses, message.mutable_results());
    context.PrintJson(message);
  } else {
    for (size_t i = 0; i < keys->size(); ++i) {
      if ((*statuses)[i].ok()) context.out() << "exists " << Escape((*keys)[i]) << '\n';
    }
  }
  return FinishItems(context, "exists", *keys, *statuses);
}

int RemoveObjects(Context& context) {
  const absl::StatusOr<std::vector<std::string>> keys = KeysOf(context.arguments());
  if (!keys.ok()) return context.Usage(keys.status().message());
  absl::StatusOr<std::unique_ptr<Client>> client = context.Connect(/*open_session=*/true);
  if (!client.ok()) return context.Fail(client.status());
  const auto close = absl::MakeCleanup([&client] { (*client)->Close().IgnoreError(); });
  const absl::StatusOr<std::vector<ItemStatus>> statuses =
      (*client)->Remove(*keys, context.arguments().Has("force"));
  if (!statuses.ok()) return context.Fail(statuses.status());
  if (context.json()) {
    v1::RemoveResponse message;
    FillResults(*statuses, message.mutable_results());
    context.PrintJson(message);
  } else {
    for (size_t i = 0; i < keys->size(); ++i) {
      if ((*statuses)[i].ok()) context.out() << "removed " << Escape((*keys)[i]) << '\n';
    }
  }
  return FinishItems(context, "remove", *keys, *statuses);
}

}  // namespace

std::vector<Command> ObjectCommands() {
  Command get{.noun = "object", .verb = "get", .positional = "KEY...", .positional_min = 1};
  get.positional_max = kAnyNumber;
  get.help =
      "Shows where objects lie, and takes a lease on each. Exit 1 when one is not found.\n"
      "Replicas are written as ENDPOINT+OFFSET@REGISTRATION, one in the durable tier as "
      "durable:NAME.";
  get.flags = {{"file", "PATH", "new file to write the bytes of the object's durable replica to"},
               kKeyBase64Flag};
  get.run = &GetObjects;
  Command put = get;
  put.verb = "put";
  put.help =
      "Starts and ends a put, which makes the object readable.\n"
      "Metadata only: no bytes are moved, that is what a store client does between the two.\n"
      "With --file the bytes are uploaded to the durable tier, as the object's only replica.";
  put.flags = {{"size", "SIZE", "bytes, or with KiB, MiB, GiB"},
               {"replicas", "N", "copies, each on a segment of its own (default 1)"},
               {"segment", "NAME", "segment to try first"},
               {"file", "PATH", "file to upload; the size is its own"},
               kKeyBase64Flag};
  put.run = &PutObjects;
  Command exists = get;
  exists.verb = "exists";
  exists.help =
      "Tells whether a get would find the objects. Takes no lease. Exit 1 when one is not there.";
  exists.flags = {kKeyBase64Flag};
  exists.run = &ExistObjects;
  Command remove = get;
  remove.verb = "remove";
  remove.help = "Removes objects. Exit 1 when one was refused or not found.";
  remove.flags = {{"force", "", "also objects with a lease, and puts in progress"}, kKeyBase64Flag};
  remove.run = &RemoveObjects;
  return {put, get, exists, remove};
}

}  // namespace holdfast::cli
