#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "child_process.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

using testing::content_of;
using testing::TemporaryFolder;
using testing::write_content;

TEST(AtomicFile, replaces_the_old_file_and_leaves_nothing_else) {
  TemporaryFolder folder;
  for (const char* content : {"one", "two", ""}) {
    write_file_atomically(folder.file("x"), content);
    EXPECT_EQ(content_of(folder.file("x")), content);
  }
  EXPECT_EQ(folder.count(""), 1);
}

TEST(AtomicFile, what_killed_processes_leave_is_removed_by_the_next_one) {
  TemporaryFolder folder;
  const std::string content(64 << 20, 'a');
  int left = 0;
  for (int i = 0; i < 30; ++i) {
    Child child([&] {
      for (;;) write_file_atomically(folder.file("x"), content);
      return true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 3 * i));
    kill(child.process(), SIGKILL);
    child.wait();
    left += folder.count(".tmp");
    EXPECT_LE(folder.count(".tmp"), 1) << "after " << i + 1;
  }
  EXPECT_GT(left, 0) << "nobody was killed while writing";
  write_file_atomically(folder.file("x"), "whole");
  EXPECT_EQ(folder.count(""), 1);
  EXPECT_EQ(content_of(folder.file("x")), "whole");
}

TEST(AtomicFile, what_another_process_is_writing_is_left_alone) {
  TemporaryFolder folder;
  const std::string content(1 << 16, 'b');
  std::vector<Child> children;
  for (int c = 0; c < 3; ++c)
    children.emplace_back([&] {
      for (int i = 0; i < 100; ++i) write_file_atomically(folder.file("x"), content);
      return true;
    });
  for (const Child& child : children) EXPECT_EQ(child.wait(), "");
  EXPECT_EQ(content_of(folder.file("x")), content);
  EXPECT_EQ(folder.count(""), 1);
}

TEST(AtomicFile, files_with_other_names_are_nobodys_business) {
  TemporaryFolder folder;
  const char* others[] = {"x.tmp",
                          "x.0123456789abcdef",
                          "x.0123456789abcdeg.tmp",
                          "x.0123456789abcde.tmp",
                          "xy.0123456789abcdef.tmp",
                          "x.12.0.tmp",
                          "x.0123456789abcdef.tmp.txt"};
  for (const char* name : others) write_content(folder.file(name), "mine");
  write_content(folder.file("x.0123456789abcdef.tmp"), "left");
  write_file_atomically(folder.file("x"), "new");
  EXPECT_EQ(folder.count(""), 1 + static_cast<int>(std::size(others)));
  for (const char* name : others) EXPECT_EQ(content_of(folder.file(name)), "mine");
}

TEST(AtomicFile, a_file_of_the_same_process_and_number_is_no_obstacle) {
  TemporaryFolder folder;
  for (int i = 0; i < 1000; ++i)
    write_content(folder.file("x." + std::to_string(getpid()) + "." + std::to_string(i) + ".tmp"), "old");
  EXPECT_NO_THROW(write_file_atomically(folder.file("x"), "new"));
}

}  // namespace
}  // namespace heddle
