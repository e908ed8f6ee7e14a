// Digests as S3 wants them.

#ifndef HOLDFAST_SERVER_TIER_DIGEST_H_
#define HOLDFAST_SERVER_TIER_DIGEST_H_

#include <string>

#include "absl/strings/string_view.h"

namespace holdfast::tier {

// 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);
// For the header Content-MD5; tells accidents, not attacks.
std::string Md5Base64(absl::string_view bytes);

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_DIGEST_H_
