#include "client/retry.h"

#include <gtest/gtest.h>

namespace holdfast::client {
namespace {

int SpendAll(RetryBudget& budget) {
  int spent = 0;
  while (budget.Spend()) ++spent;
  return spent;
}

TEST(RetryBudgetTest, QuietClientHasOnlyAFewRetriesInHand) {
  RetryBudget budget;
  for (int i = 0; i < 1000; ++i) budget.Earn();
  EXPECT_EQ(SpendAll(budget), RetryBudget::kRetriesMax);
}

TEST(RetryBudgetTest, ATenthOfAllCallsMayBeRetried) {
  RetryBudget budget;
  SpendAll(budget);
  int retries = 0;
  for (int i = 0; i < 1000; ++i) {
    budget.Earn();
    if (budget.Spend()) ++retries;
  }
  EXPECT_EQ(retries, 100);
}

TEST(RetryDelayTest, DelaysDiffer) {
  const absl::Duration first = RetryDelay();
  bool differs = false;
  for (int i = 0; i < 1000 && !differs; ++i) differs = RetryDelay() != first;
  EXPECT_TRUE(differs);
  EXPECT_GT(first, absl::ZeroDuration());
  EXPECT_LT(first, absl::Seconds(1));
}

}  // namespace
}  // namespace holdfast::client
