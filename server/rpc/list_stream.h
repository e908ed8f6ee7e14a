// Lists for operators: streams whose pages are made one after another on a thread of their own, so that no list, however
// long, keeps a store client waiting.

#ifndef HOLDFAST_SERVER_RPC_LIST_STREAM_H_
#define HOLDFAST_SERVER_RPC_LIST_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/pass_worker.h"
#include "server/base/rpc_observer.h"

namespace holdfast::rpc {

// Makes pages, one at a time, first come first served. Thread-safe.
class ListWorker {
 public:
  // More lists at a time are refused: each may keep a page of answers in memory.
  static constexpr int kListsMax = 16;

  ListWorker();

  // False: too many lists. Every success is followed by one Leave.
  bool Enter();
  void Leave() { active_.fetch_sub(1); }
  void Enqueue(std::function<void()> make_page);
  void Stop() { worker_.Stop(); }

 private:
  base::PassVerdict RunRound();

  std::atomic<int> active_{0};
  absl::Mutex mu_;
  std::deque<std::function<void()>> pages_ ABSL_GUARDED_BY(mu_);
  base::PassWorker worker_;
};

// One list. `next` fills a page and says whether another follows; a page may be empty. Deletes itself when done.
template <typename Response>
class ListStream : public grpc::ServerWriteReactor<Response> {
 public:
  using Next = std::function<bool(Response* page, bool* worth_sending)>;

  ListStream(ListWorker* worker, base::RpcObserver* observer, base::Method method, Next next)
      : worker_(*worker), observed_(observer, method), next_(std::move(next)) {
    worker_.Enqueue([this] { MakePage(); });
  }

  void OnWriteDone(bool ok) override {
    if (!ok || cancelled_) {
      End(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
    } else if (last_) {
      End(grpc::Status::OK);
    } else {
      worker_.Enqueue([this] { MakePage(); });
    }
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override {
    worker_.Leave();
    delete this;
  }

 private:
  void MakePage() {
    if (cancelled_) {
      End(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
      return;
    }
    page_.Clear();
    bool worth_sending = false;
    last_ = !next_(&page_, &worth_sending);
    if (last_ || worth_sending) {
      this->StartWrite(&page_);
    } else {
      worker_.Enqueue([this] { MakePage(); });
    }
  }
  void End(const grpc::Status& status) {
    observed_.Done(static_cast<absl::StatusCode>(status.error_code()));
    this->Finish(status);
  }

  ListWorker& worker_;
  base::ObservedCall observed_;
  const Next next_;
  Response page_;
  bool last_ = false;
  std::atomic<bool> cancelled_{false};
};

// A stream that is refused at once.
template <typename Response>
class RefusedStream : public grpc::ServerWriteReactor<Response> {
 public:
  RefusedStream(base::RpcObserver* observer, base::Method method, const grpc::Status& status) {
    base::ObservedCall(observer, method).Done(static_cast<absl::StatusCode>(status.error_code()));
    this->Finish(status);
  }
  void OnDone() override { delete this; }
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_LIST_STREAM_H_
