// The log: lines of key=value on stderr, at the edges and in workers only.

#ifndef HOLDFAST_SERVER_OPS_LOGGING_H_
#define HOLDFAST_SERVER_OPS_LOGGING_H_

#include <string>

namespace holdfast::ops {

// `level`: trace, debug, info, warning, error or off. Sets the default logger of the process.
void SetUpLogging(const std::string& level);

}  // namespace holdfast::ops

#endif  // HOLDFAST_SERVER_OPS_LOGGING_H_
