#include "server/rpc/store_calls.h"

#include <vector>

#include "absl/random/random.h"
#include "server/rpc/convert.h"

namespace holdfast::rpc {
namespace {

// Randomness of one call. The generator is the thread's, so that calls do not wait for each other.
uint64_t CallSeed() {
  thread_local absl::BitGen generator;
  return absl::Uniform<uint64_t>(generator);
}

// The calls whose answer is one outcome an item.
template <typename Response, typename Work>
absl::Status AnswerItems(Response* response, Work work) {
  std::vector<core::Outcome> outcomes;
  if (absl::Status status = work(&outcomes); !status.ok()) return status;
  ToProto(outcomes, response->mutable_results());
  return absl::OkStatus();
}

}  // namespace

absl::Status StoreCalls::Do(const v1::PutStartRequest& request, int64_t now_ms,
                            v1::PutStartResponse* response) {
  const auto session = FromProto(request.session());
  if (!session.ok()) return session.status();
  const std::vector<core::PutStartItem> items = Items(request.items());
  const std::vector<absl::string_view> preferred = Keys(request.preferred_segments());
  core::PutStartRequest put;
  put.session = *session;
  put.items = items;
  put.preferred_segments = preferred;
  put.prefer_local = request.prefer_local();
  put.random = CallSeed();
  core::PutStartAnswer answer;
  if (absl::Status status = master_.PutStart(put, now_ms, &answer); !status.ok()) return status;
  ToProto(answer, response);
  return absl::OkStatus();
}

absl::Status StoreCalls::Do(const v1::PutEndRequest& request, int64_t now_ms,
                            v1::PutEndResponse* response) {
  const auto session = FromProto(request.session());
  if (!session.ok()) return session.status();
  return AnswerItems(response, [&](std::vector<core::Outcome>* outcomes) {
    return master_.PutEnd(*session, Puts(request.items()), now_ms, outcomes);
  });
}

absl::Status StoreCalls::Do(const v1::PutRevokeRequest& request, int64_t now_ms,
                            v1::PutRevokeResponse* response) {
  const auto session = FromProto(request.session());
  if (!session.ok()) return session.status();
  return AnswerItems(response, [&](std::vector<core::Outcome>* outcomes) {
    return master_.PutRevoke(*session, Puts(request.items()), now_ms, outcomes);
  });
}

absl::Status StoreCalls::Do(const v1::GetRequest& request, int64_t now_ms,
                            v1::GetResponse* response) {
  core::GetAnswer answer;
  if (absl::Status status = master_.Get(Keys(request.keys()), now_ms, &answer); !status.ok()) {
    return status;
  }
  ToProto(answer, response);
  return absl::OkStatus();
}

absl::Status StoreCalls::Do(const v1::ExistsRequest& request, int64_t /*now_ms*/,
                            v1::ExistsResponse* response) {
  return AnswerItems(response, [&](std::vector<core::Outcome>* outcomes) {
    return master_.Exists(Keys(request.keys()), outcomes);
  });
}

absl::Status StoreCalls::Do(const v1::RemoveRequest& request, int64_t now_ms,
                            v1::RemoveResponse* response) {
  const auto session = FromProto(request.session());
  if (!session.ok()) return session.status();
  return AnswerItems(response, [&](std::vector<core::Outcome>* outcomes) {
    return master_.Remove(*session, Keys(request.keys()), request.force(), now_ms, outcomes);
  });
}

}  // namespace holdfast::rpc
