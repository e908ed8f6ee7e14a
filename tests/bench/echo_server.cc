#include "tests/bench/echo_server.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "holdfast/v1/store.grpc.pb.h"
#include "server/ops/heap.h"
#include "server/rpc/grpc_server.h"

namespace holdfast::bench {
namespace {

using Call = grpc::CallbackServerContext;

// Messages of protobuf's, as the master's are.
class EchoService : public v1::StoreService::CallbackService {
 public:
  explicit EchoService(const EchoAnswers& answers) {
    heartbeat_.ParseFromString(answers.heartbeat);
    get_.ParseFromString(answers.get);
    exists_.ParseFromString(answers.exists);
    put_start_.ParseFromString(answers.put_start);
    put_end_.ParseFromString(answers.put_end);
  }

  grpc::ServerUnaryReactor* Heartbeat(Call* call, const v1::HeartbeatRequest* /*request*/,
                                      v1::HeartbeatResponse* response) override {
    return Answer(call, heartbeat_, response);
  }
  grpc::ServerUnaryReactor* Get(Call* call, const v1::GetRequest* /*request*/,
                                v1::GetResponse* response) override {
    return Answer(call, get_, response);
  }
  grpc::ServerUnaryReactor* Exists(Call* call, const v1::ExistsRequest* /*request*/,
                                   v1::ExistsResponse* response) override {
    return Answer(call, exists_, response);
  }
  grpc::ServerUnaryReactor* PutStart(Call* call, const v1::PutStartRequest* /*request*/,
                                     v1::PutStartResponse* response) override {
    return Answer(call, put_start_, response);
  }
  grpc::ServerUnaryReactor* PutEnd(Call* call, const v1::PutEndRequest* /*request*/,
                                   v1::PutEndResponse* response) override {
    return Answer(call, put_end_, response);
  }

 private:
  template <typename Response>
  static grpc::ServerUnaryReactor* Answer(Call* call, const Response& answer, Response* response) {
    *response = answer;
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  v1::HeartbeatResponse heartbeat_;
  v1::GetResponse get_;
  v1::ExistsResponse exists_;
  v1::PutStartResponse put_start_;
  v1::PutEndResponse put_end_;
};

// Blocks of bytes through a pipe, each behind its length.
bool Send(int to, const std::string& bytes) {
  const size_t size = bytes.size();
  if (write(to, &size, sizeof(size)) != sizeof(size)) return false;
  for (size_t sent = 0; sent < size;) {
    const ssize_t now = write(to, bytes.data() + sent, size - sent);
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

bool Receive(int from, std::string* bytes) {
  size_t size = 0;
  if (read(from, &size, sizeof(size)) != sizeof(size)) return false;
  bytes->resize(size);
  for (size_t got = 0; got < size;) {
    const ssize_t now = read(from, bytes->data() + got, size - got);
    if (now <= 0) return false;
    got += static_cast<size_t>(now);
  }
  return true;
}

// In the child: serves until the other end of `from` is closed.
void ServeInChild(int from, int to) {
  EchoAnswers answers;
  for (std::string* answer :
       {&answers.heartbeat, &answers.get, &answers.exists, &answers.put_start, &answers.put_end}) {
    if (!Receive(from, answer)) return;
  }
  ops::UseHugePages();
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  EchoService service(answers);
  rpc::GrpcServerOptions options;
  options.listen = "127.0.0.1:0";
  auto server = rpc::GrpcServer::Start(options, {&service});
  if (!server.ok() || !Send(to, absl::StrCat("127.0.0.1:", (*server)->port()))) return;
  std::string nothing;
  while (Receive(from, &nothing)) {
  }
}

}  // namespace

EchoServer::EchoServer() {
  int down[2];
  int up[2];
  // Not for the master, which is a child as well.
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe failed");
  }
  pid_ = fork();
  if (pid_ == 0) {
    close(down[1]);
    close(up[0]);
    ServeInChild(down[0], up[1]);
    _exit(0);
  }
  close(down[0]);
  close(up[1]);
  to_ = down[1];
  from_ = up[0];
}

std::string EchoServer::Serve(const EchoAnswers& answers) {
  std::string address;
  for (const std::string* answer :
       {&answers.heartbeat, &answers.get, &answers.exists, &answers.put_start, &answers.put_end}) {
    if (!Send(to_, *answer)) throw std::runtime_error("the echo server has ended");
  }
  if (!Receive(from_, &address)) throw std::runtime_error("the echo server does not serve");
  return address;
}

EchoServer::~EchoServer() {
  close(to_);
  close(from_);
  waitpid(pid_, nullptr, 0);
}

}  // namespace holdfast::bench
