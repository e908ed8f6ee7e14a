// Identities. Each is a type of its own, so that a put id cannot be taken for a registration id; none is ever reused and
// none comes from a clock.

#ifndef HOLDFAST_SERVER_CORE_IDS_H_
#define HOLDFAST_SERVER_CORE_IDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace holdfast::core {

// A number that is an identity of the kind `Tag`. Zero means "none".
template <typename Tag>
struct NumberId {
  uint64_t value = 0;

  friend bool operator==(const NumberId&, const NumberId&) = default;
  friend auto operator<=>(const NumberId&, const NumberId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const NumberId& id) {
    return H::combine(std::move(h), id.value);
  }
};

// One mount of one segment.
using RegistrationId = NumberId<struct RegistrationTag>;
// One put; stays in the object as its version. Grows monotonically.
using PutId = NumberId<struct PutTag>;
// Chosen by a client for one put, so that a repeated PutStart is recognised.
using RequestId = NumberId<struct RequestTag>;
// The right to hold one unpublished name in the durable tier, and with it that name.
using TicketId = NumberId<struct TicketTag>;
// One session of a client, assigned by the master.
using ClientEpoch = NumberId<struct EpochTag>;

// 16 bytes chosen by a client. All zero means "none".
template <typename Tag>
struct Uuid {
  static constexpr size_t kBytes = 16;
  std::array<uint8_t, kBytes> bytes{};

  // Exactly 16 bytes are wanted; returns false and leaves *id alone otherwise.
  static bool Parse(absl::string_view raw, Uuid* id) {
    if (raw.size() != kBytes) return false;
    for (size_t i = 0; i < kBytes; ++i) id->bytes[i] = static_cast<uint8_t>(raw[i]);
    return true;
  }
  absl::string_view AsBytes() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool IsNone() const { return *this == Uuid{}; }
  // 32 lower-case hexadecimal digits, for messages and lists.
  std::string ToHex() const;

  friend bool operator==(const Uuid&, const Uuid&) = default;
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Uuid& id) {
    return H::combine(std::move(h), id.bytes);
  }
};

using ClientId = Uuid<struct ClientTag>;
using SegmentId = Uuid<struct SegmentTag>;

// A client process as it presents itself with every changing call.
struct Session {
  ClientId client;
  ClientEpoch epoch;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_IDS_H_
