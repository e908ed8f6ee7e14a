// The version of the program.

#ifndef HOLDFAST_SERVER_RPC_VERSION_H_
#define HOLDFAST_SERVER_RPC_VERSION_H_

namespace holdfast::rpc {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_VERSION_H_
