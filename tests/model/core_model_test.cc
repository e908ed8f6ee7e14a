// Random operations on the core, each answer compared with a model, and every book recounted after each step.

#include "tests/testing/core_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace holdfast::testing {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Every promise of the core at once, in orders that nobody would think of. The model says what each answer must be, and
// that no memory is handed out that somebody may still touch; the audit, that no book disagrees with another; the end of
// each run, that nothing is left behind.
TEST(CoreModelTest, R2_R5_R7_R18_R19_F16_F17_F19_RandomOperationsAgreeWithTheModel) {
  const uint64_t first = FromEnvironment("HOLDFAST_SEED", std::random_device{}());
  const uint64_t runs = FromEnvironment("HOLDFAST_MODEL_RUNS", 200);
  const uint64_t steps = FromEnvironment("HOLDFAST_MODEL_STEPS", 500);
  std::printf("HOLDFAST_SEED=%llu\n", static_cast<unsigned long long>(first));
  uint64_t puts = 0;
  for (uint64_t run = 0; run < runs; ++run) {
    CoreModel model(first + run);
    for (uint64_t step = 0; step < steps; ++step) {
      model.Step();
      ASSERT_FALSE(HasFailure()) << "HOLDFAST_SEED=" << first + run
                                 << " HOLDFAST_MODEL_RUNS=1, step " << step;
    }
    model.Finish();
    ASSERT_FALSE(HasFailure()) << "HOLDFAST_SEED=" << first + run
                               << " HOLDFAST_MODEL_RUNS=1, at the end";
    puts += model.puts_started();
  }
  EXPECT_GT(puts, runs * steps / 20) << "hardly anything happened";
}

}  // namespace
}  // namespace holdfast::testing
