#include "server/rpc/list_stream.h"

namespace holdfast::rpc {

ListWorker::ListWorker() : worker_("lists", {}, [this] { return RunRound(); }) {}

bool ListWorker::Enter() {
  if (active_.fetch_add(1) < kListsMax) return true;
  active_.fetch_sub(1);
  return false;
}

void ListWorker::Enqueue(std::function<void()> make_page) {
  {
    absl::MutexLock lock(&mu_);
    pages_.push_back(std::move(make_page));
  }
  worker_.Request();
}

base::PassVerdict ListWorker::RunRound() {
  std::function<void()> make_page;
  {
    absl::MutexLock lock(&mu_);
    if (pages_.empty()) return base::PassVerdict::Idle();
    make_page = std::move(pages_.front());
    pages_.pop_front();
  }
  make_page();
  return base::PassVerdict::More();
}

}  // namespace holdfast::rpc
