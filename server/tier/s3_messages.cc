#include "server/tier/s3_messages.h"

#include <cstring>
#include <pugixml.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace holdfast::tier {
namespace {

constexpr size_t kCodeBytesMax = 64;

// The root element with this name; an empty node unless the document is whole.
pugi::xml_node Root(const std::string& xml, const char* name, pugi::xml_document* document) {
  if (!document->load_buffer(xml.data(), xml.size())) return {};
  return document->child(name);
}

std::string Write(const pugi::xml_document& document) {
  std::ostringstream out;
  document.save(out, "", pugi::format_raw | pugi::format_no_declaration);
  return out.str();
}

bool IsTrue(const pugi::xml_node& node) { return std::strcmp(node.child_value(), "true") == 0; }

}  // namespace

std::string DeleteRequestXml(absl::Span<const std::string> keys) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("Delete");
  root.append_attribute("xmlns").set_value("http://s3.amazonaws.com/doc/2006-03-01/");
  for (const std::string& key : keys) {
    root.append_child("Object").append_child("Key").text().set(key.c_str());
  }
  return Write(document);
}

std::string CompleteRequestXml(absl::Span<const std::string> etags) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("CompleteMultipartUpload");
  root.append_attribute("xmlns").set_value("http://s3.amazonaws.com/doc/2006-03-01/");
  for (size_t i = 0; i < etags.size(); ++i) {
    pugi::xml_node part = root.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned>(i + 1));
    part.append_child("ETag").text().set(etags[i].c_str());
  }
  return Write(document);
}

std::optional<std::map<std::string, DeleteResult>> ParseDeleteAnswer(const std::string& xml) {
  pugi::xml_document document;
  const pugi::xml_node root = Root(xml, "DeleteResult", &document);
  if (!root) return std::nullopt;
  std::map<std::string, DeleteResult> results;
  for (const pugi::xml_node& node : root.children("Deleted")) {
    results[node.child_value("Key")] = {DeleteState::kDeleted, ""};
  }
  for (const pugi::xml_node& node : root.children("Error")) {
    const std::string code = std::string(node.child_value("Code")).substr(0, kCodeBytesMax);
    // Some stores report a missing key as an error: it is what was wanted.
    const bool absent = code == "NoSuchKey";
    results[node.child_value("Key")] = {absent ? DeleteState::kAbsent : DeleteState::kFailed,
                                        absent ? "" : code};
  }
  return results;
}

std::optional<ObjectPage> ParseObjectPage(const std::string& xml) {
  pugi::xml_document document;
  const pugi::xml_node root = Root(xml, "ListBucketResult", &document);
  if (!root) return std::nullopt;
  ObjectPage page;
  for (const pugi::xml_node& node : root.children("Contents")) {
    page.objects.push_back({node.child_value("Key"), node.child("Size").text().as_ullong()});
  }
  page.truncated = IsTrue(root.child("IsTruncated"));
  return page;
}

std::optional<UploadPage> ParseUploadPage(const std::string& xml) {
  pugi::xml_document document;
  const pugi::xml_node root = Root(xml, "ListMultipartUploadsResult", &document);
  if (!root) return std::nullopt;
  UploadPage page;
  for (const pugi::xml_node& node : root.children("Upload")) {
    page.uploads.push_back({node.child_value("Key"), node.child_value("UploadId")});
  }
  page.truncated = IsTrue(root.child("IsTruncated"));
  page.next_key = root.child_value("NextKeyMarker");
  page.next_upload_id = root.child_value("NextUploadIdMarker");
  return page;
}

std::optional<std::string> ParseUploadId(const std::string& xml) {
  pugi::xml_document document;
  const std::string id =
      Root(xml, "InitiateMultipartUploadResult", &document).child_value("UploadId");
  if (id.empty()) return std::nullopt;
  return id;
}

std::optional<std::string> ParseCompleteAnswer(const std::string& xml) {
  pugi::xml_document document;
  const pugi::xml_node root = Root(xml, "CompleteMultipartUploadResult", &document);
  if (!root) return std::nullopt;
  return root.child_value("ETag");
}

std::string ParseErrorCode(const std::string& xml) {
  pugi::xml_document document;
  return std::string(Root(xml, "Error", &document).child_value("Code")).substr(0, kCodeBytesMax);
}

}  // namespace holdfast::tier
