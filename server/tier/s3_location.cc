#include "server/tier/s3_location.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/tier/object_store.h"

namespace holdfast::tier {
namespace {

// The first of these variables that is set and not empty.
std::string FromEnvironment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

absl::Status Invalid(absl::string_view uri, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("durable store '", uri, "': ", why));
}

bool IsBucketName(absl::string_view name) {
  return name.size() >= 3 && name.size() <= 63 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.';
         });
}

bool IsHttpUrl(absl::string_view url) {
  return (absl::ConsumePrefix(&url, "http://") || absl::ConsumePrefix(&url, "https://")) &&
         !url.empty() && url.find_first_of("/?#@ ") == absl::string_view::npos;
}

// Takes one parameter of the URI; empty, or what is wrong.
std::string Take(absl::string_view parameter, S3Location* location) {
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(parameter, absl::MaxSplits('=', 1));
  const auto& [name, value] = pair;
  if (name == "endpoint") {
    location->endpoint = std::string(absl::StripSuffix(value, "/"));
  } else if (name == "region") {
    location->region = std::string(value);
  } else if (name == "path_style" && (value == "true" || value == "false")) {
    location->path_style = value == "true";
  } else {
    return absl::StrCat("'", parameter, "' is not a parameter");
  }
  return "";
}

std::string HomeFile() {
  const std::string home = FromEnvironment({"HOME"});
  return home.empty() ? "" : absl::StrCat(home, "/.aws/credentials");
}

}  // namespace

absl::StatusOr<S3Location> ParseS3Location(absl::string_view uri) {
  absl::string_view rest = absl::StripPrefix(uri, "s3://");
  S3Location location;
  if (const size_t query = rest.find('?'); query != absl::string_view::npos) {
    for (absl::string_view parameter : absl::StrSplit(rest.substr(query + 1), '&')) {
      if (const std::string error = Take(parameter, &location); !error.empty()) {
        return Invalid(uri, error);
      }
    }
    rest = rest.substr(0, query);
  }
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(rest, absl::MaxSplits('/', 1));
  location.bucket = std::string(pair.first);
  absl::string_view prefix = pair.second;
  while (absl::EndsWith(prefix, "/")) prefix.remove_suffix(1);
  if (!IsBucketName(location.bucket)) return Invalid(uri, "the bucket's name is not one of S3");
  if (!prefix.empty() && !IsValidName(prefix)) {
    return Invalid(uri, "the prefix has parts that are no plain names");
  }
  if (!prefix.empty()) location.prefix = absl::StrCat(prefix, "/");
  if (location.region.empty()) {
    location.region = FromEnvironment({"AWS_REGION", "AWS_DEFAULT_REGION"});
  }
  if (location.region.empty()) location.region = "us-east-1";
  if (location.endpoint.empty()) {
    location.endpoint = FromEnvironment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    location.endpoint = std::string(absl::StripSuffix(location.endpoint, "/"));
  }
  if (location.endpoint.empty()) {
    location.endpoint = absl::StrCat("https://s3.", location.region, ".amazonaws.com");
  }
  if (!IsHttpUrl(location.endpoint))
    return Invalid(uri, "the endpoint is not http(s)://HOST[:PORT]");
  return location;
}

absl::StatusOr<S3Credentials> FindS3Credentials() {
  S3Credentials credentials;
  credentials.access_key_id = FromEnvironment({"AWS_ACCESS_KEY_ID"});
  credentials.secret_access_key = FromEnvironment({"AWS_SECRET_ACCESS_KEY"});
  credentials.session_token = FromEnvironment({"AWS_SESSION_TOKEN"});
  if (!credentials.access_key_id.empty() && !credentials.secret_access_key.empty()) {
    return credentials;
  }
  std::string path = FromEnvironment({"AWS_SHARED_CREDENTIALS_FILE"});
  if (path.empty()) path = HomeFile();
  std::string profile = FromEnvironment({"AWS_PROFILE"});
  if (profile.empty()) profile = "default";
  credentials = {};
  std::ifstream file(path);
  std::string section;
  for (std::string line; std::getline(file, line);) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(text, "[") && absl::EndsWith(text, "]")) {
      section = std::string(absl::StripAsciiWhitespace(text.substr(1, text.size() - 2)));
    }
    if (section != profile || text.find('=') == absl::string_view::npos) continue;
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(pair.first);
    const std::string value(absl::StripAsciiWhitespace(pair.second));
    if (name == "aws_access_key_id") credentials.access_key_id = value;
    if (name == "aws_secret_access_key") credentials.secret_access_key = value;
    if (name == "aws_session_token") credentials.session_token = value;
  }
  if (!credentials.access_key_id.empty() && !credentials.secret_access_key.empty()) {
    return credentials;
  }
  return absl::UnauthenticatedError(
      absl::StrCat("durable store: no credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                   "and none for profile '",
                   profile, "' in '", path, "'"));
}

}  // namespace holdfast::tier
