// The stream of a client that has many calls in flight: messages in, each with some calls, and one message out for each.

#ifndef HOLDFAST_SERVER_RPC_PIPELINE_H_
#define HOLDFAST_SERVER_RPC_PIPELINE_H_

#include <google/protobuf/arena.h>
#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "holdfast/v1/store.pb.h"

namespace holdfast::rpc {

// What is done with the calls of a message. Thread-safe; must not block.
class PipelineHandler {
 public:
  virtual ~PipelineHandler() = default;
  // Adds one result a call.
  virtual void Answer(const v1::PipelineRequest& request, v1::PipelineResponse* response) = 0;
};

class PipelineSet;

// One stream; gRPC calls it on its threads and it deletes itself in the end.
//
// What it holds is bounded: a message that is read or answered, an answer that waits, and one that is being sent. It reads
// on only when the waiting answer is on its way, so a client that does not read is not read from either.
class PipelineStream : public grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse> {
 public:
  // Both outlive it.
  PipelineStream(PipelineHandler* handler, PipelineSet* set);

  // Ends it as soon as what was read is answered.
  void Close();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  // A message in an arena of its own, small while the stream is idle.
  template <typename Message>
  class Buffer {
   public:
    Buffer() : arena_(Options()) { Renew(); }
    void Renew() {
      arena_.Reset();
      message_ = google::protobuf::Arena::CreateMessage<Message>(&arena_);
    }
    Message* get() { return message_; }

   private:
    static google::protobuf::ArenaOptions Options() {
      google::protobuf::ArenaOptions options;
      options.start_block_size = 2048;
      options.max_block_size = size_t{64} * 1024;
      return options;
    }

    google::protobuf::Arena arena_;
    Message* message_ = nullptr;
  };

  void SendWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  PipelineHandler* const handler_;
  PipelineSet* const set_;
  Buffer<v1::PipelineRequest> request_;  // of the one read or handler at a time

  absl::Mutex mu_;
  // Built by the handler while nothing waits, then it waits, then it becomes the one that is sent.
  std::unique_ptr<Buffer<v1::PipelineResponse>> waiting_;
  std::unique_ptr<Buffer<v1::PipelineResponse>> sent_ ABSL_GUARDED_BY(mu_);
  bool has_waiting_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool handling_ ABSL_GUARDED_BY(mu_) = false;
  bool read_over_ ABSL_GUARDED_BY(mu_) = false;  // the client sends no more
  bool broken_ ABSL_GUARDED_BY(mu_) = false;     // nothing can be sent to it any more
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

// All streams of a service. Thread-safe; its lock is taken before a stream's.
class PipelineSet {
 public:
  explicit PipelineSet(PipelineHandler* handler) : handler_(handler) {}

  PipelineStream* Open();
  // Ends all streams, and those that are opened from now on.
  void Close();
  // By the stream, as the last thing it does.
  void Remove(PipelineStream* stream);

 private:
  PipelineHandler* const handler_;
  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_set<PipelineStream*> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_PIPELINE_H_
