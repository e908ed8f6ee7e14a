// Memory for the messages of one call: an arena that is used again, so that a batch costs no allocation an item.

#ifndef HOLDFAST_SERVER_RPC_MESSAGE_ARENA_H_
#define HOLDFAST_SERVER_RPC_MESSAGE_ARENA_H_

#include <google/protobuf/arena.h>
#include <grpcpp/support/message_allocator.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace holdfast::rpc {

// Thread-safe. Each thread keeps a few arenas that calls on it have finished with.
template <typename Request, typename Response>
class ArenaAllocator : public grpc::MessageAllocator<Request, Response> {
 public:
  grpc::MessageHolder<Request, Response>* AllocateMessages() override {
    std::vector<std::unique_ptr<Holder>>& spare = Spare();
    std::unique_ptr<Holder> holder;
    if (spare.empty()) {
      holder = std::make_unique<Holder>();
    } else {
      holder = std::move(spare.back());
      spare.pop_back();
    }
    holder->Renew();
    return holder.release();
  }

 private:
  // A batch of 128 fits the block; what a larger one needs beyond it goes back after the call.
  static constexpr size_t kBlockBytes = size_t{64} * 1024;
  static constexpr size_t kSpareMax = 8;

  class Holder : public grpc::MessageHolder<Request, Response> {
   public:
    Holder() : block_(std::make_unique_for_overwrite<char[]>(kBlockBytes)), arena_(Options()) {}

    void Renew() {
      this->set_request(google::protobuf::Arena::CreateMessage<Request>(&arena_));
      this->set_response(google::protobuf::Arena::CreateMessage<Response>(&arena_));
    }

    void Release() override {
      arena_.Reset();
      std::unique_ptr<Holder> self(this);
      if (Spare().size() < kSpareMax) Spare().push_back(std::move(self));
    }

   private:
    google::protobuf::ArenaOptions Options() {
      google::protobuf::ArenaOptions options;
      options.initial_block = block_.get();
      options.initial_block_size = kBlockBytes;
      return options;
    }

    const std::unique_ptr<char[]> block_;
    google::protobuf::Arena arena_;
  };

  static std::vector<std::unique_ptr<Holder>>& Spare() {
    thread_local std::vector<std::unique_ptr<Holder>> spare;
    return spare;
  }
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_MESSAGE_ARENA_H_
