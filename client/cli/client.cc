// holdfast client list

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

int ListClients(Context& context) {
  v1::ListClientsResponse all;
  const absl::Status status = context.ReadAdmin(
      &v1::AdminService::Stub::ListClients, "list clients", v1::ListClientsRequest(),
      [&all](const v1::ListClientsResponse& page) { all.MergeFrom(page); });
  if (!status.ok()) return context.Fail(status);
  if (context.json()) {
    context.PrintJson(all);
    return kDone;
  }
  using Align = Table::Align;
  Table table({{"CLIENT"},
               {"EPOCH", Align::kRight},
               {"HOST"},
               {"SEGMENTS", Align::kRight},
               {"LAST HEARTBEAT", Align::kRight},
               {"TIME-OUT", Align::kRight},
               {"PEER"}});
  for (const v1::ClientInfo& client : all.clients()) {
    table.Add({HexId(client.client_id()), absl::StrCat(client.client_epoch()), client.host(),
               absl::StrCat(client.segments()), HumanDuration(client.last_heartbeat_age_ms()),
               HumanDuration(client.ttl_ms()), client.peer()});
  }
  table.Write(context.out());
  return kDone;
}

}  // namespace

std::vector<Command> ClientCommands() {
  return {{.noun = "client",
           .verb = "list",
           .help = "Lists the clients that have a session.",
           .run = &ListClients}};
}

}  // namespace holdfast::cli
