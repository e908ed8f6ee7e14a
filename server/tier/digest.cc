#include "server/tier/digest.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace holdfast::tier {
namespace {

std::string Digest(const EVP_MD* type, absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, type, nullptr);
  return {reinterpret_cast<const char*>(digest), size};
}

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  return absl::BytesToHexString(Digest(EVP_sha256(), bytes));
}

std::string Md5Base64(absl::string_view bytes) {
  return absl::Base64Escape(Digest(EVP_md5(), bytes));
}

}  // namespace holdfast::tier
