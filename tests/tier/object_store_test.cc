// What every object store promises, against each of them: files, and S3 as a real server speaks it.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/tier/file_store.h"
#include "server/tier/open_object_store.h"
#include "tests/testing/store/s3_server.h"

namespace holdfast::tier {
namespace {

enum class Kind { kFile, kS3 };

class ObjectStoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kFile) {
      char pattern[] = "/tmp/holdfast-store-XXXXXX";
      ASSERT_NE(mkdtemp(pattern), nullptr);
      directory_ = pattern;
      uri_ = absl::StrCat("file://", directory_, "/made/on/demand");
    } else {
      ASSERT_NE(testing::S3Server::Shared(), nullptr);
      uri_ = testing::S3Server::Shared()->Uri(testing::S3Server::UniquePrefix());
    }
    auto opened = OpenObjectStore(uri_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  static absl::Time Soon() { return absl::Now() + absl::Seconds(30); }
  void Put(const std::string& name, const std::string& bytes) {
    const UploadResult result = store_->Upload(name, bytes, Soon());
    EXPECT_EQ(result.state, UploadState::kStored) << result.status;
    EXPECT_NE(result.checksum, "");
  }
  absl::StatusOr<std::string> Read(const std::string& name, size_t offset, size_t size) {
    std::string bytes(size, '?');
    absl::Status status =
        store_->Download(name, offset, absl::MakeSpan(bytes.data(), bytes.size()), Soon());
    if (!status.ok()) return status;
    return bytes;
  }
  static std::string Name(int i) {
    return absl::StrCat("00000000/0123456789abcdef/", absl::Hex(i, absl::kZeroPad16));
  }

  std::string directory_;
  std::string uri_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_P(ObjectStoreTest, WhatWasUploadedIsDownloaded) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes.push_back(static_cast<char>(i * 7));
  Put(Name(1), bytes);
  EXPECT_EQ(*Read(Name(1), 0, bytes.size()), bytes);
  EXPECT_EQ(*Read(Name(1), 50'000, 1000), bytes.substr(50'000, 1000));
  EXPECT_EQ(*Read(Name(1), bytes.size() - 1, 1), bytes.substr(bytes.size() - 1));
}

TEST_P(ObjectStoreTest, MissingAndShortObjectsAreToldApart) {
  Put(Name(1), "four");
  EXPECT_TRUE(absl::IsNotFound(Read(Name(2), 0, 1).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Read(Name(1), 0, 5).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Read(Name(1), 4, 1).status()));
}

// R34: both answers release a ticket.
TEST_P(ObjectStoreTest, R34_ADeleteIsConfirmedForEachNameAlsoForOneThatIsAbsent) {
  Put(Name(1), "a");
  Put(Name(2), "b");
  const std::vector<DeleteResult> results =
      store_->Delete(std::vector<std::string>{Name(1), Name(9), Name(2)}, Soon());
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].state, DeleteState::kDeleted) << results[0].code;
  EXPECT_TRUE(results[1].state == DeleteState::kAbsent || results[1].state == DeleteState::kDeleted)
      << results[1].code;
  EXPECT_EQ(results[2].state, DeleteState::kDeleted);
  EXPECT_TRUE(absl::IsNotFound(Read(Name(1), 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(Read(Name(2), 0, 1).status()));
}

TEST_P(ObjectStoreTest, R37_AThousandNamesAreDeletedByOneRequest) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back(Name(i));
  for (int i = 0; i < 1000; i += 100) Put(names[static_cast<size_t>(i)], "x");
  const std::vector<DeleteResult> results = store_->Delete(names, Soon());
  ASSERT_EQ(results.size(), names.size());
  for (const DeleteResult& result : results) {
    EXPECT_TRUE(result.state == DeleteState::kDeleted || result.state == DeleteState::kAbsent)
        << result.code;
  }
  EXPECT_TRUE(store_->List("", "", 10, Soon())->empty());
}

TEST_P(ObjectStoreTest, ListsByPrefixInOrderPageByPage) {
  for (int i = 0; i < 25; ++i) Put(Name(i), std::string(static_cast<size_t>(i + 1), 'x'));
  Put("elsewhere/x", "x");
  std::vector<std::string> found;
  std::string after;
  while (true) {
    const auto page = store_->List("00000000/", after, 10, Soon());
    ASSERT_TRUE(page.ok()) << page.status();
    if (page->empty()) break;
    EXPECT_LE(page->size(), 10u);
    for (const StoredObject& object : *page) {
      EXPECT_EQ(object.name, Name(static_cast<int>(found.size())));
      EXPECT_EQ(object.size_bytes, found.size() + 1);
      found.push_back(object.name);
    }
    after = found.back();
  }
  EXPECT_EQ(found.size(), 25u);
}

// A name comes from a master, but a store must not trust it with the rest of the disk.
TEST_P(ObjectStoreTest, R18_NamesThatAreNoPlainPathsAreRefused) {
  for (const std::string name :
       {"", "/etc/passwd", "../x", "a/../x", "a//b", "a/./b", "a b", "a\n", "a/", "caf\xc3\xa9"}) {
    EXPECT_EQ(store_->Upload(name, "x", Soon()).state, UploadState::kNotStored) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(Read(name, 0, 1).status())) << name;
    const auto results = store_->Delete(std::vector<std::string>{name}, Soon());
    EXPECT_EQ(results[0].state, DeleteState::kFailed) << name;
  }
}

TEST_P(ObjectStoreTest, R46_AfterCancelNothingIsDoneAnyMore) {
  Put(Name(1), "a");
  store_->Cancel();
  EXPECT_NE(store_->Upload(Name(2), "b", Soon()).state, UploadState::kStored);
  EXPECT_TRUE(absl::IsCancelled(Read(Name(1), 0, 1).status()));
  EXPECT_EQ(store_->Delete(std::vector<std::string>{Name(1)}, Soon())[0].state,
            DeleteState::kUnknown);
  auto again = OpenObjectStore(uri_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->List("", "", 10, Soon())->size(), 1u);
}

TEST_P(ObjectStoreTest, R46_ADeadlineThatIsOverIsKept) {
  const absl::Time past = absl::Now() - absl::Seconds(1);
  EXPECT_NE(store_->Upload(Name(1), "a", past).state, UploadState::kStored);
  EXPECT_EQ(store_->Delete(std::vector<std::string>{Name(1)}, past)[0].state,
            DeleteState::kUnknown);
}

TEST_P(ObjectStoreTest, ManyThreadsUseOneStore) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 10; ++i) {
        const int id = t * 100 + i;
        Put(Name(id), absl::StrCat("bytes", id));
        EXPECT_EQ(*Read(Name(id), 5, absl::StrCat(id).size()), absl::StrCat(id));
        EXPECT_EQ(store_->Delete(std::vector<std::string>{Name(id)}, Soon())[0].state,
                  DeleteState::kDeleted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreTest, ::testing::Values(Kind::kFile, Kind::kS3),
                         [](const ::testing::TestParamInfo<Kind>& param) {
                           return param.param == Kind::kFile ? "File" : "S3";
                         });

// --- files alone ---

class FileStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-store-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    auto opened = FileStore::Open(directory_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
  std::unique_ptr<FileStore> store_;
};

// An uploader that died half way leaves NAME.tmp; it must go with the name, and not be listed as an object.
TEST_F(FileStoreTest, R36_ADeleteRemovesHalfAnUploadToo) {
  std::filesystem::create_directories(directory_ + "/a");
  std::ofstream(directory_ + "/a/b.tmp") << "half";
  EXPECT_TRUE(store_->List("", "", 10, absl::InfiniteFuture())->empty());
  EXPECT_EQ(store_->Delete(std::vector<std::string>{"a/b"}, absl::InfiniteFuture())[0].state,
            DeleteState::kDeleted);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/a/b.tmp"));
}

// Two uploads of one name cannot both be told from each other: nothing is certain about it.
TEST_F(FileStoreTest, R35_AnUploadBesideAnotherOfTheSameNameIsAmbiguous) {
  std::filesystem::create_directories(directory_ + "/a");
  std::ofstream(directory_ + "/a/b.tmp") << "of another";
  EXPECT_EQ(store_->Upload("a/b", "mine", absl::InfiniteFuture()).state, UploadState::kAmbiguous);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/a/b"));
}

// Nothing of a refused upload stays behind.
TEST_F(FileStoreTest, R35_AnUploadThatRunsOutOfTimeLeavesNothing) {
  const std::string bytes(64 << 20, 'x');
  const UploadResult result = store_->Upload("a/b", bytes, absl::Now() + absl::Milliseconds(1));
  EXPECT_EQ(result.state, UploadState::kNotStored);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/a/b.tmp"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/a/b"));
}

TEST_F(FileStoreTest, R18_APathThatIsNoDirectoryIsRefusedWhenItIsOpened) {
  std::ofstream(directory_ + "/file") << "x";
  EXPECT_FALSE(FileStore::Open(directory_ + "/file").ok());
  EXPECT_FALSE(OpenObjectStore("file://relative/path").ok());
  EXPECT_FALSE(OpenObjectStore("ftp://host/path").ok());
  EXPECT_FALSE(OpenObjectStore("").ok());
}

}  // namespace
}  // namespace holdfast::tier
