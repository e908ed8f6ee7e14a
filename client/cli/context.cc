#include "client/cli/context.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/cli/text.h"

namespace holdfast::cli {

std::string ToJson(const google::protobuf::Message& message, JsonFields fields) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = fields == JsonFields::kAll;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return absl::StrCat("{\"error\":\"", absl::CEscape(status.ToString()), "\"}");
  return json;
}

void Context::PrintJson(const google::protobuf::Message& message, JsonFields fields) {
  *out_ << ToJson(message, fields) << '\n';
  out_->flush();
}

int Context::Fail(const absl::Status& status) {
  *err_ << "holdfast: " << Escape(status.message());
  const Reason reason = ReasonOf(status);
  if (reason != Reason::kNone) *err_ << " (" << ReasonName(reason) << ")";
  *err_ << '\n';
  const bool no_answer = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return no_answer && reason == Reason::kNone ? kUnreachable : kRefused;
}

int Context::Usage(absl::string_view message) {
  *err_ << "holdfast: " << message << '\n';
  return kUsage;
}

void Context::PrintItemError(absl::string_view operation, absl::string_view subject,
                             const ItemStatus& status) {
  *err_ << "holdfast: " << operation << " '" << Escape(subject)
        << "': " << ReasonName(status.reason);
  if (!status.message.empty()) *err_ << ": " << Escape(status.message);
  *err_ << '\n';
}

v1::AdminService::Stub& Context::admin() {
  if (admin_ == nullptr) admin_ = v1::AdminService::NewStub(client::MakeChannel(globals_.master));
  return *admin_;
}

ClientOptions Context::MakeClientOptions(bool open_session) const {
  ClientOptions options;
  options.master = globals_.master;
  options.deadline = globals_.timeout;
  options.connect_deadline = globals_.timeout;
  options.open_session = open_session;
  return options;
}

absl::StatusOr<std::unique_ptr<Client>> Context::Connect(bool open_session) {
  ClientOptions options = MakeClientOptions(open_session);
  options.host = "holdfast-cli";
  // This process is gone in a moment, and the master should forget it soon after. It takes the least that it allows.
  options.ttl = std::chrono::milliseconds(1);
  return Client::Connect(std::move(options));
}

absl::StatusOr<std::vector<std::string>> KeysOf(const Arguments& arguments) {
  if (!arguments.Has(kKeyBase64Flag.name)) return arguments.positional();
  std::vector<std::string> keys;
  for (const std::string& word : arguments.positional()) {
    std::string key;
    if (!absl::Base64Unescape(word, &key)) {
      return absl::InvalidArgumentError(absl::StrCat("'", word, "' is not base64"));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace holdfast::cli
