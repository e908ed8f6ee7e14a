// Durable replicas through the network: the client library uploads and downloads by itself, and the master owns what is
// left over.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "holdfast/v1/ownership.grpc.pb.h"
#include "tests/conformance/durable_master.h"
#include "tests/testing/store/s3_server.h"

namespace holdfast {
namespace {

enum class Store { kFile, kS3 };

class DurableTest : public testing::DurableMasterTest, public ::testing::WithParamInterface<Store> {
 protected:
  std::string StoreUri() override {
    if (GetParam() == Store::kFile) return FileUri();
    testing::S3Server* const s3 = testing::S3Server::Shared();
    return s3 == nullptr ? "" : s3->Uri(testing::S3Server::UniquePrefix());
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, DurableTest, ::testing::Values(Store::kFile, Store::kS3),
                         [](const auto& instance) {
                           return std::string(instance.param == Store::kFile ? "File" : "S3");
                         });

// What depends on the files themselves.
class DurableFileTest : public testing::DurableMasterTest {
 protected:
  std::string StoreUri() override { return FileUri(); }
};

TEST_P(DurableTest, R33_TheLibraryUploadsPublishesAndReadsBack) {
  const std::string bytes(100'000, 'x');
  const DurablePutResult put = client_->PutDurable("k", bytes);
  ASSERT_TRUE(put.status.ok()) << put.status.message;
  const FoundObject found = Get("k");
  EXPECT_TRUE(found.status.ok());
  EXPECT_EQ(found.size_bytes, bytes.size());
  EXPECT_EQ(found.version, put.version);
  EXPECT_NE(found.checksum, "");
  EXPECT_EQ(Stored(), std::vector<std::string>{found.object_name});
  const auto read = client_->ReadDurable(found);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, bytes);
  EXPECT_EQ(Ledger().tickets_used(), 0u);
  EXPECT_EQ(Status().durable_replicas(), 1u);
}

// The promise of the tier: the object is there when every node that held it has gone.
TEST_P(DurableTest, R2_ADurableReplicaIsReadWhenNoMemoryReplicaIsLeft) {
  const uint64_t segment = Mount(*client_, "s");
  PutItem item;
  item.key = "k";
  item.size_bytes = 5;
  item.durability = Durability::kMemoryAndDurable;
  auto started = client_->PutStart({&item, 1});
  ASSERT_TRUE(started.ok());
  ASSERT_EQ(started->front().replicas.size(), 1u);
  UploadResult uploaded = client_->Upload(started->front(), "bytes");
  ASSERT_TRUE(uploaded.status.ok()) << uploaded.status.message;
  const PutRef end{"k", started->front().put_id, uploaded.outcome, uploaded.checksum};
  ASSERT_TRUE(client_->PutEnd({&end, 1})->front().ok());
  ASSERT_TRUE(client_->UnmountSegment(segment).ok());
  EXPECT_TRUE(Get("k").replicas.empty());
  EXPECT_EQ(*client_->ReadDurable(Get("k")), "bytes");
  Sweep();
  EXPECT_EQ(*client_->ReadDurable(Get("k")), "bytes");
  EXPECT_EQ(ListKeys(true), std::vector<std::string>{"k"});
}

TEST_P(DurableTest, R34_ARemovedObjectsBytesGoToo) {
  ASSERT_TRUE(client_->PutDurable("k", "bytes").status.ok());
  const std::string key = "k";
  ASSERT_TRUE(client_->Remove({&key, 1})->front().ok());
  EXPECT_EQ(Ledger().pending_names(), 1u);
  Retry();
  EXPECT_TRUE(Stored().empty());
  EXPECT_EQ(Ledger().deleted_names(), 1u);
}

// R41: the upload fails, the revoke works; what the caller sees is why the upload failed.
TEST_F(DurableFileTest, R41_TheFirstErrorIsTheOneThatIsSeen) {
  std::filesystem::permissions(directory_, std::filesystem::perms::none);
  std::ofstream(directory_ + "/00000000") << "in the way of the directory";
  const DurablePutResult put = client_->PutDurable("k", "bytes");
  EXPECT_FALSE(put.status.ok());
  EXPECT_NE(put.status.message.find("upload"), std::string::npos) << put.status.message;
  EXPECT_TRUE(put.cleanup.ok()) << put.cleanup.message;
  EXPECT_EQ(Ledger().tickets_used(), 0u) << "nothing was stored, and that is known";
  EXPECT_EQ(Get("k").status.reason, Reason::kObjectNotFound);
}

// R41, the other way round: the cleanup fails as well, and is told beside the first error.
TEST_P(DurableTest, R41_AFailedCleanupIsToldBesideTheFirstError) {
  const StartedPut put = StartDurable(*client_, "k");
  ASSERT_TRUE(put.status.ok());
  const DurablePutResult second = client_->PutDurable("k", "bytes");
  EXPECT_EQ(second.status.reason, Reason::kPutInProgressByYou);
  EXPECT_TRUE(second.cleanup.ok()) << "there was nothing to clean up";
}

// R31, R32: refused before a byte is uploaded, with a reason that says how to go on.
TEST_P(DurableTest, R32_AFullLedgerRefusesBeforeTheUpload) {
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(StartDurable(*client_, absl::StrCat("k", i)).status.ok());
  }
  const StartedPut refused = StartDurable(*client_, "one more");
  EXPECT_EQ(refused.status.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status.reason, Reason::kLedgerFull);
  EXPECT_EQ(refused.object_name, "");
  EXPECT_TRUE(Stored().empty());
  EXPECT_EQ(Ledger().full_refusals(), 1u);
  EXPECT_EQ(Unpublished().size(), 8u);
}

TEST_P(DurableTest, R35_UnpublishedNamesAreListedWithTheirOwnerAndState) {
  const StartedPut put = StartDurable(*client_, "k");
  std::vector<v1::UnpublishedName> names = Unpublished();
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0].object_name(), put.object_name);
  EXPECT_EQ(names[0].state(), v1::TICKET_STATE_RESERVED);
  EXPECT_EQ(names[0].client_epoch(), client_->client_epoch());
  EXPECT_EQ(names[0].not_before_left_ms() / 1000, 179u);
  const PutRef revoke{"k", put.put_id, UploadOutcome::kAmbiguous, ""};
  ASSERT_TRUE(client_->PutRevoke({&revoke, 1})->front().ok());
  EXPECT_EQ(Unpublished()[0].state(), v1::TICKET_STATE_WAITING);
}

// A put that says nothing of its upload is not ended by chance.
TEST_P(DurableTest, R18_ADurablePutEndsOnlyWithTheOutcomeOfItsUpload) {
  const StartedPut put = StartDurable(*client_, "k");
  const PutRef end{"k", put.put_id};
  const ItemStatus status = client_->PutEnd({&end, 1})->front();
  EXPECT_EQ(status.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.reason, Reason::kBadField);
  EXPECT_EQ(Ledger().tickets_used(), 1u);
}

TEST_P(DurableTest, R18_ValuesOutsideTheEnumsAreRefused) {
  v1::PutStartRequest request;
  const auto id = client_->client_id();
  request.mutable_session()->set_client_id(std::string(id.begin(), id.end()));
  request.mutable_session()->set_client_epoch(client_->client_epoch());
  for (const int value : {3, 255, 256, -1}) {
    v1::PutStartItem* item = request.add_items();
    item->set_key(absl::StrCat("k", value));
    item->set_size(1);
    item->set_request_id(static_cast<uint64_t>(value + 10));
    item->set_durability(static_cast<v1::Durability>(value));
  }
  grpc::ClientContext context;
  v1::PutStartResponse response;
  ASSERT_TRUE(store_->PutStart(&context, request, &response).ok());
  for (const v1::PutStartResult& result : response.results()) {
    EXPECT_EQ(result.reason(), v1::REASON_BAD_FIELD);
  }
  EXPECT_EQ(Ledger().tickets_used(), 0u);
}

// --- hand-over ---

// What a coordinator does: notes what it is offered, and acknowledges it.
class Coordinator {
 public:
  explicit Coordinator(const std::string& master) {
    ClientOptions options;
    options.master = master;
    options.events.on_offers = [this](const std::vector<OfferedPut>& puts) {
      absl::MutexLock lock(&mu_);
      offers_ = puts;
    };
    auto connected = Client::Connect(options);
    EXPECT_TRUE(connected.ok()) << connected.status();
    if (connected.ok()) client_ = *std::move(connected);
  }

  Client& client() { return *client_; }
  // The offers of a heartbeat that tells at least so many.
  std::vector<OfferedPut> Await(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mu_) { return offers_.size() >= count; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    return offers_;
  }

 private:
  absl::Mutex mu_;
  std::vector<OfferedPut> offers_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Client> client_;
};

TEST_P(DurableTest, R39_AnotherClientPublishesWhatItWasHandedOver) {
  Coordinator coordinator(address());
  std::vector<PutRef> puts;
  for (const std::string key : {"a", "b"}) {
    const StartedPut started = StartDurable(*client_, key);
    UploadResult uploaded = client_->Upload(started, "bytes");
    ASSERT_EQ(uploaded.outcome, UploadOutcome::kFinished);
    puts.push_back({key, started.put_id, uploaded.outcome, uploaded.checksum});
  }
  const auto offered = client_->OfferPuts(coordinator.client().client_id(), 7, 0, puts);
  ASSERT_TRUE(offered.ok()) << offered.status();
  EXPECT_EQ(offered->next_sequence, 2u);
  const std::vector<OfferedPut> received = coordinator.Await(2);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].from_client_id, client_->client_id());
  EXPECT_EQ(received[1].sequence, 1u);
  EXPECT_EQ(received[1].key, "b");
  const auto acknowledged =
      coordinator.client().AcknowledgeOffers(client_->client_id(), 7, received[1].sequence + 1);
  ASSERT_TRUE(acknowledged.ok()) << acknowledged.status();
  EXPECT_EQ(*acknowledged, 2u);
  // The uploader may go now; its puts are another's.
  ASSERT_TRUE(client_->Close().ok());
  Sweep();
  std::vector<PutRef> ends;
  for (const OfferedPut& put : received) {
    ends.push_back({put.key, put.put_id, UploadOutcome::kFinished, put.checksum});
  }
  const auto ended = coordinator.client().PutEnd(ends);
  ASSERT_TRUE(ended.ok()) << ended.status();
  for (const ItemStatus& status : *ended) EXPECT_TRUE(status.ok()) << status.message;
  const std::string key = "a";
  auto found = coordinator.client().Get({&key, 1});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*coordinator.client().ReadDurable(found->front()), "bytes");
  EXPECT_EQ(Ledger().tickets_used(), 0u);
}

TEST_P(DurableTest, R39_AWithdrawnOfferStaysTheSenders) {
  auto other = Connect();
  const StartedPut put = StartDurable(*client_, "k");
  const PutRef ref{"k", put.put_id};
  ASSERT_TRUE(client_->OfferPuts(other->client_id(), 1, 0, {&ref, 1}).ok());
  EXPECT_EQ(Unpublished()[0].state(), v1::TICKET_STATE_OFFERED);
  EXPECT_EQ(*client_->WithdrawOffers(1, 0, 0), 1u);
  EXPECT_EQ(Unpublished()[0].state(), v1::TICKET_STATE_RESERVED);
  EXPECT_EQ(*other->AcknowledgeOffers(client_->client_id(), 1, 1), 1u);
  EXPECT_EQ(Unpublished()[0].client_epoch(), client_->client_epoch());
}

TEST_P(DurableTest, R18_HandOverCallsWithBadInputSayWhy) {
  auto stub = v1::OwnershipService::NewStub(
      grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
  const auto id = client_->client_id();
  v1::Session session;
  session.set_client_id(std::string(id.begin(), id.end()));
  session.set_client_epoch(client_->client_epoch());
  {
    grpc::ClientContext context;
    v1::OfferTicketsRequest request;
    *request.mutable_session() = session;
    request.set_to_client_id("short");
    request.add_items()->set_key("k");
    v1::OfferTicketsResponse response;
    EXPECT_EQ(stub->OfferTickets(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  {
    grpc::ClientContext context;
    v1::OfferTicketsRequest request;
    *request.mutable_session() = session;
    request.set_to_client_id(std::string(16, 'x'));
    request.add_items()->set_key("k");
    v1::OfferTicketsResponse response;
    EXPECT_EQ(stub->OfferTickets(&context, request, &response).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION)
        << "nobody of that name";
  }
  {
    grpc::ClientContext context;
    v1::AckTicketsRequest request;
    *request.mutable_session() = session;
    request.set_from_client_id(std::string(16, 'x'));
    v1::AckTicketsResponse response;
    EXPECT_EQ(stub->AckTickets(&context, request, &response).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  {
    grpc::ClientContext context;
    v1::WithdrawOfferRequest request;
    session.set_client_epoch(1);
    *request.mutable_session() = session;
    v1::WithdrawOfferResponse response;
    EXPECT_EQ(stub->WithdrawOffer(&context, request, &response).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION)
        << "a stale epoch";
  }
}

// R51: whoever mixes up the calls of a hand-over is refused, and nothing has changed hands.
TEST_P(DurableTest, R51_AReceiptSentAsAnOfferAndAnOfferSentAsAReceiptMoveNothing) {
  auto stub = v1::OwnershipService::NewStub(
      grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
  auto other = Connect();
  const StartedPut put = StartDurable(*client_, "k");
  const auto bytes_of = [](const auto& id) { return std::string(id.begin(), id.end()); };
  v1::OfferTicketsRequest offer;
  offer.mutable_session()->set_client_id(bytes_of(client_->client_id()));
  offer.mutable_session()->set_client_epoch(client_->client_epoch());
  offer.set_to_client_id(bytes_of(other->client_id()));
  offer.set_handover_id(7);
  offer.add_items()->set_key("k");
  offer.mutable_items(0)->set_put_id(put.put_id);
  v1::AckTicketsRequest receipt;
  receipt.mutable_session()->set_client_id(bytes_of(other->client_id()));
  receipt.mutable_session()->set_client_epoch(other->client_epoch());
  receipt.set_from_client_id(bytes_of(client_->client_id()));
  receipt.set_handover_id(7);
  receipt.set_next_expected_seq(1);
  v1::OfferTicketsResponse offered;
  v1::AckTicketsResponse acknowledged;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->OfferTickets(&context, offer, &offered).ok());
  }
  {
    grpc::ClientContext context;
    v1::OfferTicketsRequest mistaken;
    ASSERT_TRUE(mistaken.ParseFromString(receipt.SerializeAsString()));
    EXPECT_EQ(stub->OfferTickets(&context, mistaken, &offered).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  {
    grpc::ClientContext context;
    v1::AckTicketsRequest mistaken;
    ASSERT_TRUE(mistaken.ParseFromString(offer.SerializeAsString()));
    EXPECT_EQ(stub->AckTickets(&context, mistaken, &acknowledged).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  ASSERT_EQ(Unpublished().size(), 1u);
  EXPECT_EQ(Unpublished()[0].state(), v1::TICKET_STATE_OFFERED);
  EXPECT_EQ(Unpublished()[0].client_epoch(), client_->client_epoch());
  grpc::ClientContext context;
  ASSERT_TRUE(stub->AckTickets(&context, receipt, &acknowledged).ok());
  EXPECT_EQ(Unpublished()[0].client_epoch(), other->client_epoch()) << "the real receipt works";
}

// R51: the receipt has a shape of its own; bytes of one message are no sensible other one.
TEST(OwnershipWireTest, R51_AReceiptIsNotTakenForAnOffer) {
  v1::AckTicketsRequest receipt;
  receipt.mutable_session()->set_client_id(std::string(16, 'c'));
  receipt.set_from_client_id(std::string(16, 'f'));
  receipt.set_handover_id(7);
  receipt.set_next_expected_seq(42);
  v1::OfferTicketsRequest offer;
  ASSERT_TRUE(offer.ParseFromString(receipt.SerializeAsString()));
  EXPECT_EQ(offer.items_size(), 0) << "an offer without items is refused";
  v1::AckTicketsRequest again;
  ASSERT_TRUE(again.ParseFromString(receipt.SerializeAsString()));
  EXPECT_EQ(again.next_expected_seq(), 42u);
}

// Without a tier the client is told so, in words that help.
class NoTierTest : public testing::ServedMasterTest {};
TEST_F(NoTierTest, R18_WithoutADurableTierItIsSaid) {
  auto client = Connect();
  const DurablePutResult put = client->PutDurable("k", "bytes");
  EXPECT_EQ(put.status.reason, Reason::kNoDurableTier);
  EXPECT_EQ(put.status.code, absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast
