// A server that does nothing but answer: the same transport and the same messages as the master's, with the answers of a master,
// and no look at what was asked. What clients reach through it is what they could reach if the master cost nothing.

#ifndef HOLDFAST_TESTS_BENCH_ECHO_SERVER_H_
#define HOLDFAST_TESTS_BENCH_ECHO_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace holdfast::bench {

// What it answers to each call of the StoreService: messages as bytes.
struct EchoAnswers {
  std::string heartbeat;
  std::string get;
  std::string exists;
  std::string put_start;
  std::string put_end;
};

// A process of its own, until destruction. To be made before this process has used gRPC, which does not survive a fork.
// Throws when it does not serve.
class EchoServer {
 public:
  EchoServer();
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  // Once. Returns the address.
  std::string Serve(const EchoAnswers& answers);

 private:
  pid_t pid_ = 0;
  int to_ = -1;  // closed to end it
  int from_ = -1;
};

}  // namespace holdfast::bench

#endif  // HOLDFAST_TESTS_BENCH_ECHO_SERVER_H_
