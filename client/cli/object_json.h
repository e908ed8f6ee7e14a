// Answers of the client library as the messages of the wire, so that JSON looks the same whoever asked the master.

#ifndef HOLDFAST_CLIENT_CLI_OBJECT_JSON_H_
#define HOLDFAST_CLIENT_CLI_OBJECT_JSON_H_

#include "absl/types/span.h"
#include "holdfast/client.h"
#include "holdfast/v1/store.pb.h"

namespace holdfast::cli {

v1::PutStartResponse ToMessage(absl::Span<const StartedPut> puts);
// `lease_ms` is what is left.
v1::GetResponse ToMessage(absl::Span<const FoundObject> objects);
void FillResults(absl::Span<const ItemStatus> statuses,
                 google::protobuf::RepeatedPtrField<v1::ItemResult>* results);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_OBJECT_JSON_H_
