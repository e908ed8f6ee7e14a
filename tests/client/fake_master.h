// A master for tests of the client: the StoreService on a free port, with as little state as the client can notice, and
// with a script of failures. It decides nothing about space.

#ifndef HOLDFAST_TESTS_CLIENT_FAKE_MASTER_H_
#define HOLDFAST_TESTS_CLIENT_FAKE_MASTER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "holdfast/v1/store.grpc.pb.h"

namespace holdfast::testing {

// No wait of a test lasts longer: it fails instead.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

// The error that a real master would send for `reason`.
grpc::Status Refusal(grpc::StatusCode code, v1::Reason reason, const std::string& message);

// Thread-safe. One client at a time.
class FakeMaster : public v1::StoreService::Service {
 public:
  // Port 0 picks a free one.
  explicit FakeMaster(int port = 0);
  ~FakeMaster() override;

  int port() const { return port_; }
  std::string address() const;

  // --- what happens to the client ---

  // As after a restart: no session, no registration.
  void ForgetEverything();
  // As after an unmount by an operator.
  void EndRegistration(uint64_t registration_id);
  // The next call of `method` that has no other script ends so instead of being carried out.
  void FailNext(const std::string& method, grpc::Status status);
  // It is carried out, but the client gets an error.
  void LoseAnswerOfNext(const std::string& method);
  // Runs in the handler of the next call of `method`, before anything is done.
  void OnNext(const std::string& method, std::function<void()> action);
  // From now on heartbeats are not answered, until this is destroyed.
  void HangHeartbeats();

  // --- what the client did ---

  int Calls(const std::string& method) const;
  // True when it came to that in time.
  bool AwaitCalls(const std::string& method, int count) const;
  // Ids of live registrations, and the names of their segments.
  std::map<uint64_t, std::string> Registrations() const;
  bool AwaitRegistrations(size_t count) const;
  std::vector<v1::PutStartRequest> PutStarts() const;
  v1::HeartbeatRequest LastHeartbeat() const;
  std::vector<std::string> RemountedNames() const;
  uint64_t epoch() const;

  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest*,
                         v1::HeartbeatResponse*) override;
  grpc::Status MountSegment(grpc::ServerContext*, const v1::MountSegmentRequest*,
                            v1::MountSegmentResponse*) override;
  grpc::Status UnmountSegment(grpc::ServerContext*, const v1::UnmountSegmentRequest*,
                              v1::UnmountSegmentResponse*) override;
  grpc::Status RemountSegments(grpc::ServerContext*, const v1::RemountSegmentsRequest*,
                               v1::RemountSegmentsResponse*) override;
  grpc::Status PutStart(grpc::ServerContext*, const v1::PutStartRequest*,
                        v1::PutStartResponse*) override;
  grpc::Status PutEnd(grpc::ServerContext*, const v1::PutEndRequest*, v1::PutEndResponse*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest*, v1::GetResponse*) override;
  grpc::Status Remove(grpc::ServerContext*, const v1::RemoveRequest*, v1::RemoveResponse*) override;

 private:
  struct Step {
    grpc::Status status;
    bool carry_out = false;
    std::function<void()> action;
  };
  // Counts the call and plays its script: what to answer instead, and whether to carry it out.
  Step Enter(const std::string& method) ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status CheckSession(const v1::Session& session) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Register(const v1::SegmentSpec& segment, bool* already)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <class Condition>
  bool Await(Condition condition) const ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // of the live session; 0: none
  // Random starts: two masters never give the same ids.
  uint64_t last_epoch_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_registration_ ABSL_GUARDED_BY(mutex_);
  bool hang_heartbeats_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, v1::SegmentSpec> registrations_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<Step>> script_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PutStartRequest> put_starts_ ABSL_GUARDED_BY(mutex_);
  v1::HeartbeatRequest last_heartbeat_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> remounted_names_ ABSL_GUARDED_BY(mutex_);

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

inline grpc::Status Refusal(grpc::StatusCode code, v1::Reason reason, const std::string& message) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  v1::RequestStatus status;
  status.set_code(code);
  status.set_message(message);
  status.add_details()->PackFrom(detail);
  return grpc::Status(code, message, status.SerializeAsString());
}

inline FakeMaster::FakeMaster(int port)
    : last_epoch_(absl::Uniform<uint32_t>(absl::BitGen())),
      last_registration_(absl::Uniform<uint32_t>(absl::BitGen())) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

inline FakeMaster::~FakeMaster() {
  {
    absl::MutexLock lock(&mutex_);
    hang_heartbeats_ = false;
  }
  server_->Shutdown(std::chrono::system_clock::now());
}

inline std::string FakeMaster::address() const { return absl::StrCat("127.0.0.1:", port_); }

inline void FakeMaster::ForgetEverything() {
  absl::MutexLock lock(&mutex_);
  epoch_ = 0;
  registrations_.clear();
}

inline void FakeMaster::EndRegistration(uint64_t registration_id) {
  absl::MutexLock lock(&mutex_);
  registrations_.erase(registration_id);
}

inline void FakeMaster::FailNext(const std::string& method, grpc::Status status) {
  absl::MutexLock lock(&mutex_);
  script_[method].push_back(
      Step{.status = std::move(status), .carry_out = false, .action = nullptr});
}

inline void FakeMaster::LoseAnswerOfNext(const std::string& method) {
  absl::MutexLock lock(&mutex_);
  script_[method].push_back(
      Step{.status = grpc::Status(grpc::StatusCode::UNKNOWN, "the answer was lost"),
           .carry_out = true,
           .action = nullptr});
}

inline void FakeMaster::OnNext(const std::string& method, std::function<void()> action) {
  absl::MutexLock lock(&mutex_);
  script_[method].push_back(
      Step{.status = grpc::Status::OK, .carry_out = true, .action = std::move(action)});
}

inline void FakeMaster::HangHeartbeats() {
  absl::MutexLock lock(&mutex_);
  hang_heartbeats_ = true;
}

template <class Condition>
bool FakeMaster::Await(Condition condition) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&condition), kPatience);
}

inline int FakeMaster::Calls(const std::string& method) const {
  absl::MutexLock lock(&mutex_);
  const auto it = calls_.find(method);
  return it == calls_.end() ? 0 : it->second;
}

inline bool FakeMaster::AwaitCalls(const std::string& method, int count) const {
  return Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = calls_.find(method);
    return it != calls_.end() && it->second >= count;
  });
}

inline std::map<uint64_t, std::string> FakeMaster::Registrations() const {
  std::map<uint64_t, std::string> names;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, segment] : registrations_) names[id] = segment.name();
  return names;
}

inline bool FakeMaster::AwaitRegistrations(size_t count) const {
  return Await(
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return registrations_.size() == count; });
}

inline std::vector<v1::PutStartRequest> FakeMaster::PutStarts() const {
  absl::MutexLock lock(&mutex_);
  return put_starts_;
}

inline v1::HeartbeatRequest FakeMaster::LastHeartbeat() const {
  absl::MutexLock lock(&mutex_);
  return last_heartbeat_;
}

inline std::vector<std::string> FakeMaster::RemountedNames() const {
  absl::MutexLock lock(&mutex_);
  return remounted_names_;
}

inline uint64_t FakeMaster::epoch() const {
  absl::MutexLock lock(&mutex_);
  return epoch_;
}

inline FakeMaster::Step FakeMaster::Enter(const std::string& method) {
  Step step{.status = grpc::Status::OK, .carry_out = true, .action = nullptr};
  {
    absl::MutexLock lock(&mutex_);
    ++calls_[method];
    std::deque<Step>& script = script_[method];
    if (!script.empty()) {
      step = std::move(script.front());
      script.pop_front();
    }
  }
  if (step.action) step.action();
  return step;
}

inline grpc::Status FakeMaster::CheckSession(const v1::Session& session) const {
  if (epoch_ == 0) {
    return Refusal(grpc::StatusCode::FAILED_PRECONDITION, v1::REASON_SESSION_UNKNOWN,
                   "no session of this client");
  }
  if (session.client_epoch() != epoch_) {
    return Refusal(grpc::StatusCode::FAILED_PRECONDITION, v1::REASON_SESSION_STALE,
                   "another epoch is live");
  }
  return grpc::Status::OK;
}

inline uint64_t FakeMaster::Register(const v1::SegmentSpec& segment, bool* already) {
  for (const auto& [id, live] : registrations_) {
    if (live.segment_id() != segment.segment_id()) continue;
    *already = true;
    return id;
  }
  registrations_[++last_registration_] = segment;
  return last_registration_;
}

inline grpc::Status FakeMaster::Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                                          v1::HeartbeatResponse* response) {
  const Step step = Enter("Heartbeat");
  if (!step.carry_out) return step.status;
  const auto answers = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !hang_heartbeats_; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&answers));
  last_heartbeat_ = *request;
  response->set_ttl_ms(60'000);
  response->set_heartbeat_interval_ms(20);
  if (request->client_epoch() == 0) {
    epoch_ = ++last_epoch_;
    response->set_state(v1::HeartbeatResponse::STATE_OPENED);
    response->set_client_epoch(epoch_);
  } else if (request->client_epoch() != epoch_) {
    response->set_state(v1::HeartbeatResponse::STATE_LOST);
  } else {
    response->set_state(v1::HeartbeatResponse::STATE_LIVE);
    response->set_client_epoch(epoch_);
    for (const uint64_t id : request->registration_ids()) {
      if (!registrations_.contains(id)) response->add_ended_registration_ids(id);
    }
  }
  return step.status;
}

inline grpc::Status FakeMaster::MountSegment(grpc::ServerContext*,
                                             const v1::MountSegmentRequest* request,
                                             v1::MountSegmentResponse* response) {
  const Step step = Enter("MountSegment");
  if (!step.carry_out) return step.status;
  absl::MutexLock lock(&mutex_);
  grpc::Status session = CheckSession(request->session());
  if (!session.ok()) return session;
  bool already = false;
  response->set_registration_id(Register(request->segment(), &already));
  response->set_already_mounted(already);
  return step.status;
}

inline grpc::Status FakeMaster::UnmountSegment(grpc::ServerContext*,
                                               const v1::UnmountSegmentRequest* request,
                                               v1::UnmountSegmentResponse*) {
  const Step step = Enter("UnmountSegment");
  if (!step.carry_out) return step.status;
  absl::MutexLock lock(&mutex_);
  grpc::Status session = CheckSession(request->session());
  if (!session.ok()) return session;
  registrations_.erase(request->registration_id());
  return step.status;
}

inline grpc::Status FakeMaster::RemountSegments(grpc::ServerContext*,
                                                const v1::RemountSegmentsRequest* request,
                                                v1::RemountSegmentsResponse* response) {
  const Step step = Enter("RemountSegments");
  if (!step.carry_out) return step.status;
  absl::MutexLock lock(&mutex_);
  grpc::Status session = CheckSession(request->session());
  if (!session.ok()) return session;
  for (const v1::SegmentSpec& segment : request->segments()) {
    bool already = false;
    response->add_results()->set_registration_id(Register(segment, &already));
    remounted_names_.push_back(segment.name());
  }
  return step.status;
}

inline grpc::Status FakeMaster::PutStart(grpc::ServerContext*, const v1::PutStartRequest* request,
                                         v1::PutStartResponse* response) {
  const Step step = Enter("PutStart");
  absl::MutexLock lock(&mutex_);
  put_starts_.push_back(*request);
  if (!step.carry_out) return step.status;
  grpc::Status session = CheckSession(request->session());
  if (!session.ok()) return session;
  response->add_segments()->set_endpoint("node:1");
  for (const v1::PutStartItem& item : request->items()) {
    v1::PutStartResult* result = response->add_results();
    result->set_put_id(item.request_id());
    result->add_replicas()->set_offset(64);
  }
  return step.status;
}

inline grpc::Status FakeMaster::PutEnd(grpc::ServerContext*, const v1::PutEndRequest* request,
                                       v1::PutEndResponse* response) {
  const Step step = Enter("PutEnd");
  if (!step.carry_out) return step.status;
  absl::MutexLock lock(&mutex_);
  grpc::Status session = CheckSession(request->session());
  if (!session.ok()) return session;
  for (int i = 0; i < request->items_size(); ++i) response->add_results();
  return step.status;
}

// Knows keys that start with 'k'; each has two replicas on two segments.
inline grpc::Status FakeMaster::Get(grpc::ServerContext*, const v1::GetRequest* request,
                                    v1::GetResponse* response) {
  const Step step = Enter("Get");
  if (!step.carry_out) return step.status;
  response->add_segments()->set_endpoint("node:1");
  response->add_segments()->set_endpoint("node:2");
  for (const std::string& key : request->keys()) {
    v1::GetResult* result = response->add_results();
    if (key[0] != 'k') {
      result->set_code(grpc::StatusCode::NOT_FOUND);
      result->set_reason(v1::REASON_OBJECT_NOT_FOUND);
      continue;
    }
    result->set_size(4096);
    result->set_lease_ms(10'000);
    result->add_replicas()->set_segment(0);
    v1::Replica* second = result->add_replicas();
    second->set_segment(key == "k-broken" ? 7 : 1);
    second->set_offset(128);
  }
  return step.status;
}

inline grpc::Status FakeMaster::Remove(grpc::ServerContext*, const v1::RemoveRequest* request,
                                       v1::RemoveResponse* response) {
  const Step step = Enter("Remove");
  if (!step.carry_out) return step.status;
  for (int i = 0; i < request->keys_size(); ++i) response->add_results();
  return step.status;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_CLIENT_FAKE_MASTER_H_
