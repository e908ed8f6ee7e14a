// Bytes between files and the durable tier, for `holdfast object put|get --file`.

#ifndef HOLDFAST_CLIENT_CLI_OBJECT_FILE_H_
#define HOLDFAST_CLIENT_CLI_OBJECT_FILE_H_

#include <string>

#include "client/cli/context.h"

namespace holdfast::cli {

// Uploads the file as the durable replica of a new object. The exit code.
int PutFile(Context& context, const std::string& key, const std::string& path);
// Writes the bytes of the durable replica of an object to a file that is not there yet.
int GetFile(Context& context, const std::string& key, const std::string& path);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_OBJECT_FILE_H_
