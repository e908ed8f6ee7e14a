// One unary call to a service of store clients: deadline, retry, cancellation, decoded error; and the arena of its messages.

#ifndef HOLDFAST_CLIENT_CALL_H_
#define HOLDFAST_CLIENT_CALL_H_

#include <google/protobuf/arena.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/deadline.h"
#include "client/retry.h"
#include "client/status.h"
#include "holdfast/v1/ownership.grpc.pb.h"
#include "holdfast/v1/store.grpc.pb.h"

namespace holdfast::client {

// Ends the calls of one thread from another one, so that a destructor does not wait for a master that is silent.
// Thread-safe. gRPC cancels under the lock, because the lock is what keeps the context alive.
class Cancellation {
 public:
  // Cancels the call in progress and all later ones.
  void Cancel();

  void Begin(grpc::ClientContext* context);
  void End();

 private:
  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

struct CallSettings {
  const char* operation = "";   // names the subject of an error
  Deadline deadline;            // of the call with its retry
  bool repeatable = false;      // may be sent twice
  bool wait_for_ready = false;  // waits for a connection instead of failing at once
  Cancellation* cancellation = nullptr;
};

template <class Request, class Response, class Stub = v1::StoreService::Stub>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// Thread-safe.
class Caller {
 public:
  Caller(std::shared_ptr<grpc::Channel> channel, std::string master)
      : master_(std::move(master)), channel_(std::move(channel)), stubs_(channel_, channel_) {}

  // The master's refusal with its reason, or the error of the transport. `response` is complete only after OK.
  template <class Request, class Response, class Stub>
  absl::Status Call(Method<Request, Response, Stub> method, const Request& request,
                    Response* response, const CallSettings& settings) {
    budget_.Earn();
    absl::Status status = Attempt(method, request, response, settings);
    if (status.code() != absl::StatusCode::kUnavailable || !settings.repeatable) return status;
    const absl::Duration delay = RetryDelay();
    if (delay >= Remaining(settings.deadline) || !budget_.Spend()) return status;
    absl::SleepFor(delay);
    response->Clear();
    return Attempt(method, request, response, settings);
  }

  grpc::Channel* channel() { return channel_.get(); }
  const std::string& master() const { return master_; }

 private:
  template <class Request, class Response, class Stub>
  absl::Status Attempt(Method<Request, Response, Stub> method, const Request& request,
                       Response* response, const CallSettings& settings) {
    Stub& stub = std::get<Stub>(stubs_);
    grpc::ClientContext context;
    context.set_deadline(ToGrpc(settings.deadline));
    context.set_wait_for_ready(settings.wait_for_ready);
    if (settings.cancellation == nullptr) {
      return FromGrpc((stub.*method)(&context, request, response), settings.operation, master_);
    }
    settings.cancellation->Begin(&context);
    const grpc::Status status = (stub.*method)(&context, request, response);
    settings.cancellation->End();
    return FromGrpc(status, settings.operation, master_);
  }

  const std::string master_;
  const std::shared_ptr<grpc::Channel> channel_;
  // Thread-safe.
  std::tuple<v1::StoreService::Stub, v1::OwnershipService::Stub> stubs_;
  RetryBudget budget_;
};

// The messages of one data call. Its first block belongs to the thread and is used again by the thread's next call, so
// that a usual call allocates no blocks. One at a time on a thread has that block; a nested one allocates its own.
class CallArena {
 public:
  CallArena();
  ~CallArena();
  CallArena(const CallArena&) = delete;
  CallArena& operator=(const CallArena&) = delete;

  template <class Message>
  Message* Make() {
    return google::protobuf::Arena::CreateMessage<Message>(&*arena_);
  }

 private:
  bool has_thread_block_;
  std::optional<google::protobuf::Arena> arena_;
};

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_CALL_H_
