#include "client/call.h"

#include <cstddef>

namespace holdfast::client {
namespace {

// Holds a batch of 128 with its answer.
constexpr size_t kThreadBlockBytes = 64 << 10;
constexpr size_t kMoreBlockBytesMax = 256 << 10;

struct ThreadBlock {
  std::unique_ptr<char[]> bytes;
  bool in_use = false;
};

thread_local ThreadBlock thread_block;

}  // namespace

void Cancellation::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

void Cancellation::Begin(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  context_ = context;
  // A context that is cancelled before its call starts ends the call as soon as it starts.
  if (cancelled_) context->TryCancel();
}

void Cancellation::End() {
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
}

CallArena::CallArena() : has_thread_block_(!thread_block.in_use) {
  google::protobuf::ArenaOptions options;
  options.max_block_size = kMoreBlockBytesMax;
  if (has_thread_block_) {
    if (thread_block.bytes == nullptr)
      thread_block.bytes = std::make_unique_for_overwrite<char[]>(kThreadBlockBytes);
    thread_block.in_use = true;
    options.initial_block = thread_block.bytes.get();
    options.initial_block_size = kThreadBlockBytes;
  }
  arena_.emplace(options);
}

CallArena::~CallArena() {
  arena_.reset();
  if (has_thread_block_) thread_block.in_use = false;
}

}  // namespace holdfast::client
