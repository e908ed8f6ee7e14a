// An object store in memory whose faults a test chooses: answers that are lost, refused or partial, and uploads that land
// late, also after a delete has found nothing.

#ifndef HOLDFAST_TESTS_TESTING_FAKE_STORE_H_
#define HOLDFAST_TESTS_TESTING_FAKE_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/tier/object_store.h"

namespace holdfast::testing {

// What happens to one request to delete.
struct DeleteFault {
  bool applied = false;  // the store deletes all the same
  bool answered =
      false;  // `failing` names are refused one by one; otherwise nothing is known of any
  std::set<std::string> failing = {};  // of an answered request; empty: all
  std::string code = "SlowDown";
};

// Thread-safe.
class FakeStore : public tier::ObjectStore {
 public:
  tier::UploadResult Upload(absl::string_view name, absl::string_view bytes,
                            absl::Time deadline) override;
  absl::Status Download(absl::string_view name, uint64_t offset_bytes, absl::Span<char> out,
                        absl::Time deadline) override;
  std::vector<tier::DeleteResult> Delete(absl::Span<const std::string> names,
                                         absl::Time deadline) override;
  absl::StatusOr<std::vector<tier::StoredObject>> List(absl::string_view prefix,
                                                       absl::string_view start_after,
                                                       size_t max_objects,
                                                       absl::Time deadline) override;
  void Cancel() override;

  // The bytes of an upload land, whether its caller still waits for them or not.
  void Land(const std::string& name);
  // For the next requests to delete, one each.
  void FailNextDelete(DeleteFault fault);
  // A name that the store refuses to delete until it is healed.
  void Poison(const std::string& name);
  void Heal();
  // Requests to delete wait until Cancel, or until this is taken back.
  void Hang(bool hang);

  bool Holds(const std::string& name) const;
  std::set<std::string> names() const;
  // Each request to delete, in order, and all names that were ever named in one.
  std::vector<std::vector<std::string>> deletes() const;
  uint64_t uploads() const;

 private:
  bool MayGoOn() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !hanging_ || cancelled_; }

  mutable absl::Mutex mu_;
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mu_);
  std::deque<DeleteFault> faults_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> poisoned_ ABSL_GUARDED_BY(mu_);
  std::vector<std::vector<std::string>> deletes_ ABSL_GUARDED_BY(mu_);
  uint64_t uploads_ ABSL_GUARDED_BY(mu_) = 0;
  bool hanging_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_FAKE_STORE_H_
