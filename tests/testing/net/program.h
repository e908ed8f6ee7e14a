// Runs a program that lies beside the one that runs, and reads what it has printed.

#ifndef HOLDFAST_TESTS_TESTING_NET_PROGRAM_H_
#define HOLDFAST_TESTS_TESTING_NET_PROGRAM_H_

#include <string>

namespace holdfast::testing {

// Standard output of "PROGRAM ARGUMENTS"; empty when it fails.
std::string OutputOf(const std::string& command);

// A number among the fields of a JSON line; -1 if there is none.
double Field(const std::string& json, const std::string& name);

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_NET_PROGRAM_H_
