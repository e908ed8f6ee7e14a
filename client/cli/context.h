// What a command of the command line works with: its arguments, where it writes, the master, and how it ends.

#ifndef HOLDFAST_CLIENT_CLI_CONTEXT_H_
#define HOLDFAST_CLIENT_CLI_CONTEXT_H_

#include <google/protobuf/message.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/arguments.h"
#include "client/deadline.h"
#include "client/status.h"
#include "holdfast/client.h"
#include "holdfast/v1/admin.grpc.pb.h"

namespace holdfast::cli {

enum Exit : int {
  kDone = 0,
  kRefused = 1,      // by the master; the reason is on the error stream
  kUsage = 2,        // nothing was asked of the master
  kUnreachable = 3,  // no answer from the master
};

// Which JSON fields are written: all, or those that are set (when not all are known here).
enum class JsonFields { kAll, kSet };

std::string ToJson(const google::protobuf::Message& message, JsonFields fields = JsonFields::kAll);

// One thread.
class Context {
 public:
  struct Globals {
    std::string master;
    bool json = false;
    std::chrono::milliseconds timeout{5000};
  };

  // The streams must outlive it.
  Context(Globals globals, Arguments arguments, std::ostream* out, std::ostream* err)
      : globals_(std::move(globals)), arguments_(std::move(arguments)), out_(out), err_(err) {}

  const Arguments& arguments() const { return arguments_; }
  bool json() const { return globals_.json; }
  std::ostream& out() { return *out_; }
  std::ostream& err() { return *err_; }

  void PrintJson(const google::protobuf::Message& message, JsonFields fields = JsonFields::kAll);

  // Say why on the error stream, and what the process ends with.
  int Fail(const absl::Status& status);
  int Usage(absl::string_view message);
  // An item of a batch that the master refused: subject, reason, message.
  void PrintItemError(absl::string_view operation, absl::string_view subject,
                      const ItemStatus& status);

  v1::AdminService::Stub& admin();
  // A client of the library. Without a session it can only read.
  absl::StatusOr<std::unique_ptr<Client>> Connect(bool open_session);
  ClientOptions MakeClientOptions(bool open_session) const;

  template <class Request, class Response>
  absl::StatusOr<Response> CallAdmin(grpc::Status (v1::AdminService::Stub::*method)(
                                         grpc::ClientContext*, const Request&, Response*),
                                     absl::string_view operation, const Request& request) {
    grpc::ClientContext call;
    call.set_deadline(client::ToGrpc(client::After(globals_.timeout)));
    Response response;
    absl::Status status =
        client::FromGrpc((admin().*method)(&call, request, &response), operation, globals_.master);
    if (!status.ok()) return status;
    return response;
  }

  // Gives every message of a list to `take`.
  template <class Request, class Response, class Take>
  absl::Status ReadAdmin(std::unique_ptr<grpc::ClientReader<Response>> (
                             v1::AdminService::Stub::*method)(grpc::ClientContext*, const Request&),
                         absl::string_view operation, const Request& request, Take take) {
    grpc::ClientContext call;
    call.set_deadline(client::ToGrpc(client::After(globals_.timeout)));
    const std::unique_ptr<grpc::ClientReader<Response>> reader = (admin().*method)(&call, request);
    Response response;
    while (reader->Read(&response)) take(response);
    return client::FromGrpc(reader->Finish(), operation, globals_.master);
  }

 private:
  const Globals globals_;
  const Arguments arguments_;
  std::ostream* const out_;
  std::ostream* const err_;
  std::unique_ptr<v1::AdminService::Stub> admin_;  // made when first used
};

// All positional arguments as keys, decoded with --key-base64. INVALID_ARGUMENT names the key.
absl::StatusOr<std::vector<std::string>> KeysOf(const Arguments& arguments);
inline constexpr Flag kKeyBase64Flag = {"key-base64", "",
                                        "keys are given in base64 (for keys that are not text)"};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_CONTEXT_H_
