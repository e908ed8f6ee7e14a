// The client's side of the durable tier: uploads under names that the master has minted, and reads.

#ifndef HOLDFAST_CLIENT_DURABLE_TIER_H_
#define HOLDFAST_CLIENT_DURABLE_TIER_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/deadline.h"
#include "holdfast/client.h"
#include "server/tier/object_store.h"

namespace holdfast::client {

// Thread-safe. The store is opened with the first use.
class DurableTier {
 public:
  // `uri`: where it is; empty: where the master says.
  explicit DurableTier(std::string uri);
  ~DurableTier();

  // The master has said where it is; empty: nowhere.
  void Learn(const std::string& uri);

  // The payload is freed when the store's call has returned.
  UploadResult Upload(const StartedPut& put, std::string payload);
  // NOT_FOUND, FAILED_PRECONDITION without a durable tier, DATA_LOSS when the bytes are not those of the object.
  absl::StatusOr<std::string> Read(const FoundObject& object, Deadline deadline);

 private:
  // The store stays open while somebody uses it, also when the master names another one.
  absl::StatusOr<std::shared_ptr<tier::ObjectStore>> Store();

  const std::string own_uri_;

  absl::Mutex mu_;
  std::string learnt_uri_ ABSL_GUARDED_BY(mu_);
  std::string open_uri_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<tier::ObjectStore> store_ ABSL_GUARDED_BY(mu_);
};

// Start, upload and end of one put; see Client::PutDurable.
DurablePutResult PutDurable(Client* client, DurableTier* tier, const std::string& key,
                            std::string payload, Deadline deadline);

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_DURABLE_TIER_H_
