#include "llm/mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "llm/gguf.h"
#include "llm/gguf_writer.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

class Mapping : public testing::Test {
 protected:
  void SetUp() override {
    // Child processes of death tests run the binary again; the name must be theirs alone.
    path_ = testing::TempDir() + "musaic_mapping_" + std::to_string(::getpid());
    std::ofstream(path_, std::ios::binary) << std::string(3 * 65536, 'x');
  }
  void TearDown() override { std::remove(path_.c_str()); }

  std::string path_;
};

using MappingDeathTest = Mapping;

/// Sums all bytes, so that every page is read.
unsigned sum(const MappedFile& file) {
  unsigned total = 0;
  for (const std::byte b : file.bytes()) total += static_cast<unsigned>(b);
  return total;
}

TEST_F(Mapping, MapsTheWholeFile) {
  MappedFile file = MappedFile::open(path_);
  EXPECT_EQ(file.bytes().size(), 3u * 65536);
  EXPECT_EQ(sum(file), 3u * 65536 * 'x');
  const MappedFile moved = std::move(file);
  EXPECT_EQ(sum(moved), 3u * 65536 * 'x');
  moved.check_unchanged();
}

TEST_F(Mapping, CheckUnchangedSeesOtherSizesAndWrites) {
  const MappedFile file = MappedFile::open(path_);
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  try {
    file.check_unchanged();
    FAIL() << "the shorter file was not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("100 bytes, expected 196608 bytes"), std::string::npos)
        << error.what();
  }
  const MappedFile again = MappedFile::open(path_);
  const struct timespec times[2] = {{0, UTIME_OMIT}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_THROW(again.check_unchanged(), Error);
}

TEST_F(Mapping, RefusesEmptyFilesAndPipes) {
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_THROW(MappedFile::open(path_), Error);
  std::remove(path_.c_str());
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(MappedFile::open(path_), Error);
}

TEST_F(MappingDeathTest, AFileThatShrinksEndsTheProcessWithOneLine) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        install_sigbus_guard();
        const MappedFile file = MappedFile::open(path_);
        if (::truncate(path_.c_str(), 100) != 0) std::exit(2);
        std::exit(sum(file) == 0 ? 3 : 4);
      },
      testing::ExitedWithCode(1),
      "^musaic: error: .*musaic_mapping_[0-9]+: the file shrank or became unreadable while it was in use\n$");
}

TEST_F(MappingDeathTest, AShrinkingGgufFileIsReported) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        GgufWriter writer;
        writer.add_tensor("t", GgmlType::kI8, {100000}, std::vector<int8_t>(100000, 1));
        writer.write(path_);
        install_sigbus_guard();
        const GgufFile file = GgufFile::open(path_);
        if (::truncate(path_.c_str(), 4096) != 0) std::exit(2);
        std::exit(static_cast<int>(file.tensor("t").data[99999]) + 3);
      },
      testing::ExitedWithCode(1), "shrank");
}

TEST_F(MappingDeathTest, OtherFaultsKeepTheirDefaultAction) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, SIG_DFL);
        install_sigbus_guard();
        const MappedFile file = MappedFile::open(path_);
        ::raise(SIGBUS);
        ::raise(SIGBUS);
        std::exit(3);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace musaic::llm
