#include "client/mounter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "client/convert.h"
#include "client/status.h"

namespace holdfast::client {
namespace {

// Keeps a request far below the master's limits of items (4,096) and bytes (8 MiB).
constexpr size_t kRemountBatch = 1000;

void MakeUpId(SegmentId* id) {
  absl::BitGen random;
  for (uint8_t& byte : *id) byte = absl::Uniform<uint8_t>(absl::IntervalClosed, random, 0, 255);
}

uint32_t GraceMs(std::chrono::milliseconds grace) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>(grace.count(), 0, kMax));
}

// Refusals that the same segment would get again and again.
bool IsFinal(absl::StatusCode code) {
  return code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kAlreadyExists ||
         code == absl::StatusCode::kPermissionDenied;
}

}  // namespace

template <class Request, class Response>
absl::Status Mounter::Call(Method<Request, Response> method, Request* request, Response* response,
                           const Frame& frame) {
  if (frame.epoch == 0) {
    return CallInSession(*caller_, *session_, method, request, response, frame.settings,
                         AfterReopening::kRepeat);
  }
  request->mutable_session()->set_client_id(session_->client_id());
  request->mutable_session()->set_client_epoch(frame.epoch);
  return caller_->Call(method, *request, response, frame.settings);
}

absl::StatusOr<uint64_t> Mounter::CallMount(const SegmentOptions& segment, Frame frame,
                                            uint64_t* epoch_used) {
  frame.settings.operation = "mount";
  v1::MountSegmentRequest request;
  v1::MountSegmentResponse response;
  ToWire(segment, request.mutable_segment());
  const absl::Status status =
      Call(&v1::StoreService::Stub::MountSegment, &request, &response, frame);
  *epoch_used = request.session().client_epoch();
  if (!status.ok()) return status;
  if (response.registration_id() == 0)
    return absl::InternalError("mount: the master answered without a registration");
  return response.registration_id();
}

absl::StatusOr<uint64_t> Mounter::Mount(SegmentOptions segment, Deadline deadline) {
  if (segment.segment_id == SegmentId{}) MakeUpId(&segment.segment_id);
  absl::StatusOr<SegmentClaim> claim = table_->ClaimForMount(segment, deadline);
  if (!claim.ok()) return claim.status();
  Frame frame;
  frame.settings.deadline = deadline;
  frame.settings.repeatable = true;
  uint64_t epoch = 0;
  absl::StatusOr<uint64_t> registration_id = CallMount(segment, frame, &epoch);
  if (registration_id.ok() && epoch != session_->epoch()) {
    // The session was replaced while the answer was on its way, and took the registration with it.
    registration_id = CallMount(segment, frame, &epoch);
  }
  if (registration_id.ok()) {
    table_->Mounted(*claim, epoch, *registration_id);
  } else {
    table_->MountFailed(*claim, epoch, OutcomeUnknown(registration_id.status()));
  }
  return registration_id;
}

absl::Status Mounter::Unmount(uint64_t registration_id, std::chrono::milliseconds grace,
                              Deadline deadline) {
  Frame frame;
  frame.settings.deadline = deadline;
  frame.settings.repeatable = true;
  absl::StatusOr<absl::optional<SegmentClaim>> claimed =
      table_->ClaimForUnmount(registration_id, GraceMs(grace), deadline);
  if (!claimed.ok()) return claimed.status();
  if (!claimed->has_value()) {
    SegmentClaim unknown;
    unknown.registration_id = registration_id;
    unknown.grace_ms = GraceMs(grace);
    return EndClaimed(&unknown, frame);
  }
  SegmentClaim& claim = **claimed;
  absl::Status status = EndClaimed(&claim, frame);
  if (status.ok()) {
    table_->Unmounted(claim);
  } else {
    table_->UnmountFailed(claim);
  }
  return status;
}

absl::Status Mounter::EndClaimed(SegmentClaim* claim, const Frame& frame) {
  if (claim->uncertain_epoch != 0) {
    // Mounting again answers with the registration that may be there, and does no harm when none is.
    uint64_t epoch = 0;
    const absl::StatusOr<uint64_t> registration_id = CallMount(claim->segment, frame, &epoch);
    if (registration_id.ok()) {
      claim->registration_id = *registration_id;
    } else if (OutcomeUnknown(registration_id.status()) ||
               SessionRefused(registration_id.status())) {
      return registration_id.status();
    }
    // Otherwise the master refused it, so there is none besides the one that is known.
  }
  if (claim->registration_id == 0) return absl::OkStatus();
  v1::UnmountSegmentRequest request;
  v1::UnmountSegmentResponse response;
  request.set_registration_id(claim->registration_id);
  request.set_grace_ms(claim->grace_ms);
  Frame unmount = frame;
  unmount.settings.operation = "unmount";
  absl::Status status = Call(&v1::StoreService::Stub::UnmountSegment, &request, &response, unmount);
  if (status.ok()) claim->epoch = request.session().client_epoch();
  return status;
}

bool Mounter::RemountSome(absl::Span<const SegmentClaim> claims, const Frame& frame,
                          SettleReport* report) {
  v1::RemountSegmentsRequest request;
  v1::RemountSegmentsResponse response;
  for (const SegmentClaim& claim : claims) ToWire(claim.segment, request.add_segments());
  absl::Status status = Call(&v1::StoreService::Stub::RemountSegments, &request, &response, frame);
  if (status.ok() && static_cast<size_t>(response.results_size()) != claims.size()) {
    status = absl::InternalError(absl::StrCat(
        "remount: the master answered ", response.results_size(), " of ", claims.size(), " items"));
  }
  if (!status.ok()) {
    for (const SegmentClaim& claim : claims)
      table_->RemountFailed(claim, frame.epoch, OutcomeUnknown(status));
    report->first_error.Update(status);
    return false;
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    const v1::RemountResult& result = response.results(static_cast<int>(i));
    const absl::StatusCode code = CodeFromWire(result.code());
    if (code == absl::StatusCode::kOk && result.registration_id() != 0) {
      table_->Mounted(claims[i], frame.epoch, result.registration_id());
      ++report->remounted;
      continue;
    }
    report->first_error.Update(absl::Status(
        code, absl::StrCat("remount '", claims[i].segment.name, "': ", result.message())));
    if (!IsFinal(code)) {
      table_->RemountFailed(claims[i], frame.epoch,
                            /*outcome_unknown=*/code == absl::StatusCode::kOk);
    } else if (table_->RemountRefused(claims[i]) && claims[i].registration_id != 0) {
      report->lost_registration_ids.push_back(claims[i].registration_id);
    }
  }
  return true;
}

Mounter::SettleReport Mounter::Settle(uint64_t epoch, std::chrono::milliseconds call_deadline,
                                      Cancellation* cancellation) {
  SettleReport report;
  Frame frame;
  frame.epoch = epoch;
  frame.settings.cancellation = cancellation;
  const std::vector<SegmentClaim> wanted = table_->ClaimForRemount(epoch);
  bool reachable = true;
  for (size_t begin = 0; begin < wanted.size(); begin += kRemountBatch) {
    const absl::Span<const SegmentClaim> batch =
        absl::MakeSpan(wanted).subspan(begin, kRemountBatch);
    if (!reachable) {
      for (const SegmentClaim& claim : batch)
        table_->RemountFailed(claim, epoch, /*outcome_unknown=*/false);
      continue;
    }
    frame.settings.operation = "remount";
    frame.settings.deadline = After(call_deadline);
    reachable = RemountSome(batch, frame, &report);
  }
  for (SegmentClaim& claim : table_->ClaimForSettling(epoch)) {
    if (!reachable) {
      table_->UnmountFailed(claim);
      continue;
    }
    frame.settings.deadline = After(call_deadline);
    const absl::Status status = EndClaimed(&claim, frame);
    report.first_error.Update(status);
    // A final refusal means that it is not this client's to end, which will not change.
    if (status.ok() || (!OutcomeUnknown(status) && IsFinal(status.code()))) {
      table_->Unmounted(claim);
    } else {
      table_->UnmountFailed(claim);
      reachable = !OutcomeUnknown(status) && !SessionRefused(status);
    }
  }
  return report;
}

}  // namespace holdfast::client
