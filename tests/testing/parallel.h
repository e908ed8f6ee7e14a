// Threads of a race test: some do a bounded number of things, others go on until these are done.

#ifndef HOLDFAST_TESTS_TESTING_PARALLEL_H_
#define HOLDFAST_TESTS_TESTING_PARALLEL_H_

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::testing {

// To be set up, run once, and thrown away.
class Parallel {
 public:
  // Runs once on a thread of its own.
  void Add(std::function<void()> work) { workers_.push_back(std::move(work)); }
  // Runs again and again until all of the above are done, and once more after that.
  void AddBackground(std::function<void()> round) { background_.push_back(std::move(round)); }

  void Run() {
    std::vector<std::thread> background;
    for (const std::function<void()>& round : background_) {
      background.emplace_back([this, &round] {
        while (!done_.load(std::memory_order_acquire)) {
          round();
          std::this_thread::yield();
        }
        round();
      });
    }
    std::vector<std::thread> workers;
    for (const std::function<void()>& work : workers_) workers.emplace_back(work);
    for (std::thread& worker : workers) worker.join();
    done_.store(true, std::memory_order_release);
    for (std::thread& thread : background) thread.join();
  }

 private:
  std::vector<std::function<void()>> workers_;
  std::vector<std::function<void()>> background_;
  std::atomic<bool> done_{false};
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_PARALLEL_H_
