// What readers and late writers may still touch of memory whose registration has ended: a later registration over the same
// memory must not give that out.

#ifndef HOLDFAST_SERVER_CORE_RESIDUE_BOOK_H_
#define HOLDFAST_SERVER_CORE_RESIDUE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "server/core/ids.h"

namespace holdfast::core {

bool Overlap(uint64_t base_a, uint64_t size_a, uint64_t base_b, uint64_t size_b);

// A range that somebody may write to.
struct TouchedRange {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  int64_t until_ms = 0;
};

// Thread rule: the lock of its owner.
// Invariants: every registration that has ended has one residue, from its end until it is settled and its times are over;
// nothing is noted of a settled one.
class ResidueBook {
 public:
  // The registration has ended.
  void Open(const ClientId& owner, RegistrationId registration, uint64_t base, uint64_t size_bytes);
  // Readers hold leases until `leases_until_ms` at the latest, writers may still write to `ranges`.
  void Note(const ClientId& owner, RegistrationId registration, int64_t leases_until_ms,
            absl::Span<const TouchedRange> ranges);
  // Nothing lies on it any more: all that is to be known was noted.
  void Settle(const ClientId& owner, RegistrationId registration);

  // For a new registration of `owner` over this memory: the ranges, as offsets in it, that it has to keep out of use. nullopt:
  // it has to wait, since a residue is not settled or a lease may run anywhere.
  std::optional<std::vector<TouchedRange>> Inherit(const ClientId& owner, uint64_t base,
                                                   uint64_t size_bytes, int64_t now_ms) const;
  // Forgets what does not matter any more. Cost: all residues.
  void Forget(int64_t now_ms);
  size_t size() const;

 private:
  struct Residue {
    RegistrationId registration;
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    bool settled = false;
    int64_t leases_until_ms = 0;
    std::vector<TouchedRange> ranges;

    bool IsOver(int64_t now_ms) const;
  };

  Residue& Find(const ClientId& owner, RegistrationId registration);

  absl::flat_hash_map<ClientId, std::vector<Residue>> by_owner_;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_RESIDUE_BOOK_H_
