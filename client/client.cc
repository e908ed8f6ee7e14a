#include "holdfast/client.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/convert.h"
#include "client/durable_tier.h"
#include "client/heartbeat.h"
#include "client/mounter.h"
#include "client/segment_table.h"
#include "client/session.h"
#include "holdfast/v1/store.grpc.pb.h"

namespace holdfast {
namespace client {
namespace {

using Stub = v1::StoreService::Stub;
using OwnershipStub = v1::OwnershipService::Stub;

std::array<uint8_t, 16> RandomIdIfZero(std::array<uint8_t, 16> id) {
  if (id != std::array<uint8_t, 16>{}) return id;
  absl::BitGen random;
  for (uint8_t& byte : id) byte = absl::Uniform<uint8_t>(absl::IntervalClosed, random, 0, 255);
  return id;
}

uint64_t RandomBits() { return absl::Uniform<uint64_t>(absl::BitGen()); }

class ClientImpl final : public Client {
 public:
  explicit ClientImpl(ClientOptions options)
      : options_(std::move(options)),
        client_id_(RandomIdIfZero(options_.client_id)),
        data_(MakeChannel(options_.master), options_.master),
        session_(client_id_),
        durable_(options_.durable_store),
        mounter_(&data_, &session_, &table_) {}

  ~ClientImpl() override = default;

  absl::Status Start() {
    const Deadline deadline = After(options_.connect_deadline);
    data_.channel()->GetState(/*try_to_connect=*/true);
    if (!options_.open_session) return AwaitConnected(data_.channel(), options_.master, deadline);
    control_ = std::make_unique<Caller>(MakeChannel(options_.master), options_.master);
    absl::Status status = AwaitConnected(control_->channel(), options_.master, deadline);
    if (!status.ok()) return status;
    HeartbeatOptions heartbeat;
    heartbeat.incarnation = RandomBits();
    heartbeat.host = options_.host;
    heartbeat.ttl = options_.ttl;
    heartbeat.events = options_.events;
    heartbeat.on_durable_store = [this](const std::string& uri) { durable_.Learn(uri); };
    heartbeat.on_recovered = [this] { ConnectSoon(data_.channel()); };
    heartbeat_ = std::make_unique<HeartbeatPass>(control_.get(), &session_, &table_, &mounter_,
                                                 std::move(heartbeat));
    status = heartbeat_->Open(deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::UnavailableError(
          absl::StrCat("open a session at ", options_.master, ": no answer in time"));
    }
    if (!status.ok()) return status;
    worker_ = std::make_unique<HeartbeatWorker>(heartbeat_.get(), &session_);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> MountSegment(const SegmentOptions& segment) override {
    if (session_.epoch() == 0) return NoSession("mount");
    return mounter_.Mount(segment, After(options_.deadline));
  }

  absl::Status UnmountSegment(uint64_t registration_id, std::chrono::milliseconds grace) override {
    if (session_.epoch() == 0) return NoSession("unmount");
    return mounter_.Unmount(registration_id, grace, After(options_.deadline));
  }

  absl::Status UnmountAll() override {
    absl::Status first_error;
    for (const uint64_t registration_id : table_.WantedIds()) {
      first_error.Update(UnmountSegment(registration_id, std::chrono::milliseconds(0)));
    }
    return first_error;
  }

  absl::Status Close() override {
    const uint64_t epoch = session_.epoch();
    if (epoch == 0) return absl::OkStatus();
    worker_.reset();  // or it would open a new session
    v1::HeartbeatRequest request;
    request.set_client_id(session_.client_id());
    request.set_client_epoch(epoch);
    request.set_close(true);
    v1::HeartbeatResponse response;
    absl::Status status =
        control_->Call(&Stub::Heartbeat, request, &response, Settings("close", Repeatable::kYes));
    session_.BeginRound();
    session_.EndRound(0);
    return status;
  }

  std::vector<uint64_t> MountedRegistrations() const override {
    return table_.MountedIds(session_.epoch());
  }

  absl::StatusOr<std::vector<StartedPut>> PutStart(absl::Span<const PutItem> items,
                                                   const PutOptions& options) override {
    const auto sent = std::chrono::steady_clock::now();
    CallArena arena;
    auto* request = arena.Make<v1::PutStartRequest>();
    auto* response = arena.Make<v1::PutStartResponse>();
    uint64_t request_id = next_request_id_.fetch_add(items.size(), std::memory_order_relaxed);
    request->mutable_items()->Reserve(static_cast<int>(items.size()));
    for (const PutItem& item : items) {
      v1::PutStartItem* wire = request->add_items();
      wire->set_key(item.key);
      wire->set_size(item.size_bytes);
      wire->set_replicas(item.replicas);
      wire->set_request_id(request_id++);
      if (item.durability == Durability::kMemory) continue;
      wire->set_durability(static_cast<v1::Durability>(item.durability));
      wire->set_upload_timeout_ms(static_cast<uint32_t>(item.upload_timeout.count()));
    }
    for (const std::string& name : options.preferred_segments)
      request->add_preferred_segments(name);
    request->set_prefer_local(options.prefer_local);
    absl::Status status =
        CallInSession(data_, session_, &Stub::PutStart, request, response,
                      Settings("put start", Repeatable::kYes), AfterReopening::kRepeat);
    if (!status.ok()) return status;
    return FromWire(response, items.size(), sent);
  }

  absl::StatusOr<std::vector<ItemStatus>> PutEnd(absl::Span<const PutRef> puts) override {
    return FinishPuts<v1::PutEndRequest, v1::PutEndResponse>(&Stub::PutEnd, "put end", puts);
  }

  absl::StatusOr<std::vector<ItemStatus>> PutRevoke(absl::Span<const PutRef> puts) override {
    return FinishPuts<v1::PutRevokeRequest, v1::PutRevokeResponse>(&Stub::PutRevoke, "put revoke",
                                                                   puts);
  }

  absl::StatusOr<std::vector<FoundObject>> Get(absl::Span<const std::string> keys) override {
    CallArena arena;
    auto* request = arena.Make<v1::GetRequest>();
    auto* response = arena.Make<v1::GetResponse>();
    ToWire(keys, request->mutable_keys());
    const auto sent = std::chrono::steady_clock::now();
    absl::Status status =
        data_.Call(&Stub::Get, *request, response, Settings("get", Repeatable::kYes));
    if (!status.ok()) return status;
    return FromWire(response, keys.size(), sent);
  }

  absl::StatusOr<std::vector<ItemStatus>> Exists(absl::Span<const std::string> keys) override {
    CallArena arena;
    auto* request = arena.Make<v1::ExistsRequest>();
    auto* response = arena.Make<v1::ExistsResponse>();
    ToWire(keys, request->mutable_keys());
    absl::Status status =
        data_.Call(&Stub::Exists, *request, response, Settings("exists", Repeatable::kYes));
    if (!status.ok()) return status;
    return FromWire(response->mutable_results(), keys.size());
  }

  absl::StatusOr<std::vector<ItemStatus>> Remove(absl::Span<const std::string> keys,
                                                 bool force) override {
    CallArena arena;
    auto* request = arena.Make<v1::RemoveRequest>();
    auto* response = arena.Make<v1::RemoveResponse>();
    ToWire(keys, request->mutable_keys());
    request->set_force(force);
    absl::Status status =
        CallInSession(data_, session_, &Stub::Remove, request, response,
                      Settings("remove", Repeatable::kNo), AfterReopening::kGiveUp);
    if (!status.ok()) return status;
    return FromWire(response->mutable_results(), keys.size());
  }

  UploadResult Upload(const StartedPut& put, std::string payload) override {
    return durable_.Upload(put, std::move(payload));
  }

  DurablePutResult PutDurable(const std::string& key, std::string payload) override {
    return client::PutDurable(this, &durable_, key, std::move(payload), After(options_.deadline));
  }

  absl::StatusOr<std::string> ReadDurable(const FoundObject& object) override {
    return durable_.Read(object, After(options_.deadline));
  }

  absl::StatusOr<OfferResult> OfferPuts(const std::array<uint8_t, 16>& to_client_id,
                                        uint64_t handover_id, uint64_t sequence,
                                        absl::Span<const PutRef> puts) override {
    CallArena arena;
    auto* request = arena.Make<v1::OfferTicketsRequest>();
    auto* response = arena.Make<v1::OfferTicketsResponse>();
    request->set_to_client_id(to_client_id.data(), to_client_id.size());
    request->set_handover_id(handover_id);
    request->set_seq(sequence);
    for (const PutRef& put : puts) {
      v1::OfferItem* item = request->add_items();
      item->set_key(put.key);
      item->set_put_id(put.put_id);
      item->set_checksum(put.checksum);
    }
    absl::Status status =
        CallInSession(data_, session_, &OwnershipStub::OfferTickets, request, response,
                      Settings("offer", Repeatable::kYes), AfterReopening::kGiveUp);
    if (!status.ok()) return status;
    auto items = FromWire(response->mutable_results(), puts.size());
    if (!items.ok()) return items.status();
    return OfferResult{*std::move(items), response->next_seq()};
  }

  absl::StatusOr<uint64_t> AcknowledgeOffers(const std::array<uint8_t, 16>& from_client_id,
                                             uint64_t handover_id,
                                             uint64_t next_expected) override {
    v1::AckTicketsRequest request;
    v1::AckTicketsResponse response;
    request.set_from_client_id(from_client_id.data(), from_client_id.size());
    request.set_handover_id(handover_id);
    request.set_next_expected_seq(next_expected);
    absl::Status status =
        CallInSession(data_, session_, &OwnershipStub::AckTickets, &request, &response,
                      Settings("acknowledge", Repeatable::kYes), AfterReopening::kGiveUp);
    if (!status.ok()) return status;
    return response.next_expected_seq();
  }

  absl::StatusOr<uint64_t> WithdrawOffers(uint64_t handover_id, uint64_t sequence,
                                          uint64_t count) override {
    v1::WithdrawOfferRequest request;
    v1::WithdrawOfferResponse response;
    request.set_handover_id(handover_id);
    request.set_seq(sequence);
    request.set_count(count);
    absl::Status status =
        CallInSession(data_, session_, &OwnershipStub::WithdrawOffer, &request, &response,
                      Settings("withdraw", Repeatable::kYes), AfterReopening::kGiveUp);
    if (!status.ok()) return status;
    return response.withdrawn();
  }

  std::array<uint8_t, 16> client_id() const override { return client_id_; }
  uint64_t client_epoch() const override { return session_.epoch(); }

 private:
  enum class Repeatable { kNo, kYes };

  CallSettings Settings(const char* operation, Repeatable repeatable) const {
    CallSettings settings;
    settings.operation = operation;
    settings.deadline = After(options_.deadline);
    settings.repeatable = repeatable == Repeatable::kYes;
    return settings;
  }

  static absl::Status NoSession(absl::string_view operation) {
    return absl::FailedPreconditionError(absl::StrCat(operation, ": this client has no session"));
  }

  template <class Request, class Response>
  absl::StatusOr<std::vector<ItemStatus>> FinishPuts(Method<Request, Response> method,
                                                     const char* operation,
                                                     absl::Span<const PutRef> puts) {
    CallArena arena;
    auto* request = arena.Make<Request>();
    auto* response = arena.Make<Response>();
    ToWire(puts, request->mutable_items());
    // May be sent again when it was lost, but not under another session: the put ended with the old one.
    absl::Status status =
        CallInSession(data_, session_, method, request, response,
                      Settings(operation, Repeatable::kYes), AfterReopening::kGiveUp);
    if (!status.ok()) return status;
    return FromWire(response->mutable_results(), puts.size());
  }

  const ClientOptions options_;
  const std::array<uint8_t, 16> client_id_;

  // Thread-safe.
  Caller data_;
  std::unique_ptr<Caller> control_;  // heartbeats; none without a session
  Session session_;
  DurableTier durable_;
  SegmentTable table_;
  Mounter mounter_;
  // A random start makes the ids of two clients, and of two lives of one client, differ.
  std::atomic<uint64_t> next_request_id_{RandomBits()};

  std::unique_ptr<HeartbeatPass> heartbeat_;
  std::unique_ptr<HeartbeatWorker> worker_;
};

}  // namespace
}  // namespace client

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  auto client = std::make_unique<client::ClientImpl>(std::move(options));
  absl::Status status = client->Start();
  if (!status.ok()) return status;
  return client;
}

}  // namespace holdfast
