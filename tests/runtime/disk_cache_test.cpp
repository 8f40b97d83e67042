#include "runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "../temporary_folder.h"
#include "base/error.h"
#include "runtime/cache_file.h"

namespace heddle {
namespace {

using testing::content_of;
using testing::TemporaryFolder;
using testing::write_content;

constexpr uint64_t kMegabyte = 1 << 20;
constexpr DiskEntry kCode = DiskEntry::Code, kSchedule = DiskEntry::Schedule;

// What is written to standard error while `action` runs.
template <class Action>
std::string warnings(Action&& action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}
int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string random_bytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

void fill(const std::string& path, int entries, size_t bytes = 3000) {
  DiskCache cache(path, 64 * kMegabyte);
  for (int i = 0; i < entries; ++i) cache.put(kCode, text("key ", i), random_bytes(bytes, static_cast<uint32_t>(i)));
}

TEST(DiskCache, what_is_put_is_there_for_the_next_process) {
  TemporaryFolder folder;
  std::string path = folder.file("a/b/cache.sqlite"), value("with \0 inside", 13);
  {
    DiskCache cache(path, kMegabyte);
    EXPECT_EQ(cache.get(kCode, "key"), std::nullopt);
    cache.put(kCode, "key", value);
    cache.put(kSchedule, "key", "");
    EXPECT_EQ(cache.get(kCode, "key"), value);
  }
  DiskCache cache(path, kMegabyte);
  EXPECT_EQ(cache.get(kCode, "key"), value);
  EXPECT_EQ(cache.get(kSchedule, "key"), "");
  EXPECT_EQ(cache.get(kSchedule, "key "), std::nullopt);
  cache.put(kCode, "key", "another");
  EXPECT_EQ(cache.get(kCode, "key"), "another");
  EXPECT_EQ(cache.stats().hits, 3u);
  EXPECT_EQ(cache.stats().misses, 1u);
  EXPECT_EQ(cache.stats().warnings, 0u);
}

TEST(DiskCache, code_is_executed_so_others_may_not_write_to_the_file) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  fill(path, 1);
  struct stat found{};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  chmod(path.c_str(), 0666);
  DiskCache cache(path, kMegabyte);
  std::string said = warnings([&] { EXPECT_EQ(cache.get(kCode, "key 0"), std::nullopt); });
  EXPECT_NE(said.find("others may write to it"), std::string::npos) << said;
}

class Damaged : public ::testing::TestWithParam<const char*> {};

// Each kind of damage costs one warning and the old entries; the cache then works again.
TEST_P(Damaged, files_are_set_aside_with_one_warning) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite"), kind = GetParam();
  fill(path, 200);
  std::string good = content_of(path);
  ASSERT_GT(good.size(), 300'000u);
  if (kind == "truncated") write_content(path, good.substr(0, good.size() / 2 + 77));
  if (kind == "truncated inside the head") write_content(path, good.substr(0, 50));
  if (kind == "random bytes") write_content(path, random_bytes(100'000, 1));
  if (kind == "text") write_content(path, "This is no database.\n");
  if (kind == "random pages") write_content(path, good.substr(0, 4096) + random_bytes(good.size() - 4096, 2));
  if (kind == "zeros") write_content(path, good.substr(0, 4096) + std::string(good.size() - 4096, '\0'));
  if (kind == "other tables" || kind == "another version" || kind == "a trigger") {
    if (kind == "other tables") std::filesystem::remove(path);
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    const char* sql = kind == "other tables"      ? "CREATE TABLE addresses(name TEXT)"
                      : kind == "another version" ? "PRAGMA user_version = 77"
                                                  : "CREATE TRIGGER t AFTER INSERT ON entries BEGIN SELECT 1; END";
    ASSERT_TRUE(run_sql(database, sql));
    sqlite3_close(database);
    chmod(path.c_str(), 0600);
  }
  DiskCache cache(path, 64 * kMegabyte, CachePlace::Own);
  std::string said = warnings([&] {
    for (int i = 0; i < 200; ++i) {
      std::string key = text("key ", i);
      std::string good_value = random_bytes(3000, static_cast<uint32_t>(i));
      EXPECT_EQ(cache.get(kCode, key).value_or(good_value), good_value);
      cache.put(kCode, key, "new");
    }
  });
  EXPECT_EQ(count(said, "warning"), 1) << said;
  EXPECT_NE(said.find(path), std::string::npos) << said;
  EXPECT_EQ(folder.count(".damaged-") > 0, true);
  EXPECT_EQ(cache.stats().set_aside, 1u);
  for (int i = 0; i < 3; ++i) cache.put(kCode, text("key ", i), "again");
  EXPECT_EQ(cache.get(kCode, "key 0"), "again");
  DiskCache next(path, 64 * kMegabyte);
  EXPECT_EQ(next.get(kCode, "key 2"), "again");
  EXPECT_EQ(next.stats().warnings, 0u);
}
INSTANTIATE_TEST_SUITE_P(DiskCache, Damaged,
                         ::testing::Values("truncated", "truncated inside the head", "random bytes", "text",
                                           "random pages", "zeros", "other tables", "another version", "a trigger"));

// What somebody named may be anything: only what begins as a cache does is renamed.
class Named : public ::testing::TestWithParam<const char*> {};

TEST_P(Named, files_that_are_no_cache_are_left_alone) {
  TemporaryFolder folder;
  std::string path = folder.file("precious"), kind = GetParam();
  if (kind == "a folder") std::filesystem::create_directory(path);
  if (kind == "text") write_content(path, "Milk, bread.\n");
  if (kind == "another program's database") {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    ASSERT_TRUE(run_sql(database, "CREATE TABLE addresses(name TEXT)"));
    sqlite3_close(database);
  }
  const bool is_folder = kind == "a folder";
  if (!is_folder) chmod(path.c_str(), 0600);
  const std::string before = is_folder ? "" : content_of(path);
  DiskCache cache(path, kMegabyte, CachePlace::Named);
  std::string said = warnings([&] {
    cache.put(kCode, "key", "value");
    EXPECT_EQ(cache.get(kCode, "key"), std::nullopt);
  });
  EXPECT_EQ(count(said, "warning"), 1) << said;
  EXPECT_NE(said.find("is not used"), std::string::npos) << said;
  EXPECT_EQ(folder.count(".damaged-"), 0);
  EXPECT_EQ(std::filesystem::is_directory(path), is_folder);
  EXPECT_EQ(is_folder ? "" : content_of(path), before);
}
INSTANTIATE_TEST_SUITE_P(DiskCache, Named, ::testing::Values("a folder", "text", "another program's database"));

TEST(DiskCache, a_folder_is_never_renamed) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  std::filesystem::create_directory(path);
  DiskCache cache(path, kMegabyte, CachePlace::Own);
  std::string said = warnings([&] { cache.put(kCode, "key", "value"); });
  EXPECT_NE(said.find("is not used: it is no file"), std::string::npos) << said;
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_EQ(folder.count(".damaged-"), 0);
}

TEST(DiskCache, a_named_file_that_was_a_cache_is_set_aside) {
  TemporaryFolder folder;
  std::string path = folder.file("mine");
  fill(path, 200);
  std::string good = content_of(path);
  write_content(path, good.substr(0, 4096) + random_bytes(good.size() - 4096, 2));
  DiskCache cache(path, 64 * kMegabyte, CachePlace::Named);
  warnings([&] {
    for (int i = 0; i < 200; ++i) cache.put(kCode, text("key ", i), "new");
  });
  EXPECT_EQ(folder.count(".damaged-") > 0, true);
  EXPECT_EQ(cache.get(kCode, "key 199"), "new");
}

// Bits of rows that SQLite does not look at.
TEST(DiskCache, a_value_that_changed_on_the_disk_is_never_returned) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  constexpr int kEntries = 50;
  for (int round = 0; round < 10; ++round) {
    std::filesystem::remove(path);
    fill(path, kEntries);
    std::string content = content_of(path);
    std::mt19937 random(static_cast<uint32_t>(round));
    for (int flips = 0; flips < 20; ++flips) content[4096 + random() % (content.size() - 4096)] ^= 1 << random() % 8;
    write_content(path, content);
    DiskCache cache(path, 64 * kMegabyte);
    uint64_t missing = 0;
    warnings([&] {
      for (int i = 0; i < kEntries; ++i) {
        auto value = cache.get(kCode, text("key ", i));
        missing += !value;
        std::string good = random_bytes(3000, static_cast<uint32_t>(i));
        EXPECT_EQ(value.value_or(good), good);
      }
    });
    EXPECT_GT(missing, 0u) << "nothing was damaged in round " << round;
    EXPECT_LE(cache.stats().warnings, missing);
  }
}

TEST(DiskCache, a_row_with_one_flipped_bit_is_dropped_and_the_others_stay) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  fill(path, 3);
  std::string content = content_of(path), value = random_bytes(3000, 1);
  size_t at = content.find(value.substr(100, 50));
  ASSERT_NE(at, std::string::npos);
  content[at] ^= 4;
  write_content(path, content);
  DiskCache cache(path, 64 * kMegabyte);
  std::string said = warnings([&] {
    EXPECT_EQ(cache.get(kCode, "key 1"), std::nullopt);
    EXPECT_EQ(cache.get(kCode, "key 1"), std::nullopt);
  });
  EXPECT_EQ(count(said, "warning"), 1) << said;
  EXPECT_EQ(cache.stats().damaged_rows, 1u);
  EXPECT_EQ(cache.get(kCode, "key 0"), random_bytes(3000, 0));
  EXPECT_EQ(folder.count(".damaged-"), 0);
  cache.put(kCode, "key 1", value);
  EXPECT_EQ(cache.get(kCode, "key 1"), value);
}

TEST(DiskCache, no_place_costs_one_warning) {
  DiskCache nowhere("/proc/no/such/folder/cache.sqlite", kMegabyte);
  TemporaryFolder folder;
  write_content(folder.file("file"), "");
  DiskCache below_a_file(folder.file("file/cache.sqlite"), kMegabyte);
  for (DiskCache* cache : {&nowhere, &below_a_file}) {
    std::string said = warnings([&] {
      for (int i = 0; i < 3; ++i) {
        cache->put(kCode, "key", "value");
        EXPECT_EQ(cache->get(kCode, "key"), std::nullopt);
      }
    });
    EXPECT_EQ(count(said, "warning"), 1) << said;
    EXPECT_NE(said.find(cache->path()), std::string::npos) << said;
  }
}

// The exit code of `action` in a child process.
template <class Action>
int in_child(Action&& action) {
  pid_t child = fork();
  if (child == 0) _exit(action());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(DiskCache, a_full_disk_costs_one_warning_and_old_entries_stay) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  fill(path, 3);
  int result = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1 << 17, 1 << 17};
    setrlimit(RLIMIT_FSIZE, &limit);
    DiskCache cache(path, 64 * kMegabyte);
    std::string said = warnings([&] {
      for (int i = 3; i < 300; ++i) cache.put(kCode, text("key ", i), random_bytes(3000, 9));
    });
    if (count(said, "warning") != 1) return 1;
    return cache.get(kCode, "key 0") == random_bytes(3000, 0) ? 0 : 2;
  });
  EXPECT_EQ(result, 0);
}

// Root may write anywhere: this needs another user.
TEST(DiskCache, a_folder_that_cannot_be_written_to_is_read) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  fill(path, 3);
  chmod(path.c_str(), 0644);
  chmod(folder.file("").c_str(), 0555);
  int result = in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) return 77;
    DiskCache cache(path, 64 * kMegabyte);
    std::string said = warnings([&] {
      cache.put(kCode, "key 5", "value");
      cache.put(kCode, "key 6", "value");
    });
    if (count(said, "warning") != 1) return 1;
    return cache.get(kCode, "key 1") == random_bytes(3000, 1) && !cache.get(kCode, "key 5") ? 0 : 2;
  });
  chmod(folder.file("").c_str(), 0755);
  if (result == 77) GTEST_SKIP() << "cannot become another user";
  EXPECT_EQ(result, 0);
}

TEST(DiskCache, old_entries_go_when_there_is_no_room_and_code_before_schedules) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  constexpr int kEntries = 600;
  DiskCache cache(path, kMegabyte);
  cache.put(kSchedule, "schedule", "found after a long search");
  for (int i = 0; i < kEntries; ++i) cache.put(kCode, text("key ", i), random_bytes(10'000, 5));
  EXPECT_EQ(cache.get(kSchedule, "schedule"), "found after a long search");
  EXPECT_EQ(cache.get(kCode, "key 0"), std::nullopt);
  EXPECT_NE(cache.get(kCode, text("key ", kEntries - 1)), std::nullopt);
  EXPECT_LT(std::filesystem::file_size(path), 3 * kMegabyte);
  EXPECT_EQ(cache.stats().warnings, 0u);
  cache.put(kCode, "large", random_bytes(kMegabyte, 1));  // more than its share
  EXPECT_EQ(cache.get(kCode, "large"), std::nullopt);
}

TEST(DiskCache, several_threads_and_processes_write_at_once) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  constexpr int kProcesses = 4, kThreads = 3, kEntries = 40;
  auto work = [&](int process) {
    DiskCache cache(path, 64 * kMegabyte);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEntries; ++i) {
          cache.put(kCode, text("of all ", i), random_bytes(2000, static_cast<uint32_t>(i)));
          cache.put(kCode, text("own ", process, " ", t, " ", i), text(process, t, i));
          auto seen = cache.get(kCode, text("of all ", (i * 7 + t) % kEntries));
          if (seen && *seen != random_bytes(2000, static_cast<uint32_t>((i * 7 + t) % kEntries))) _exit(3);
        }
      });
    for (std::thread& thread : threads) thread.join();
    return cache.stats().warnings == 0 && cache.stats().stored == 2 * kThreads * kEntries ? 0 : 1;
  };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(fork());
    if (children.back() == 0) _exit(work(process));
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  DiskCache cache(path, 64 * kMegabyte);
  for (int process = 0; process < kProcesses; ++process)
    for (int t = 0; t < kThreads; ++t)
      for (int i = 0; i < kEntries; ++i)
        EXPECT_EQ(cache.get(kCode, text("own ", process, " ", t, " ", i)), text(process, t, i));
}

TEST(DiskCache, several_processes_meet_a_damaged_file_and_only_one_renames_it) {
  TemporaryFolder folder;
  std::string path = folder.file("cache.sqlite");
  write_content(path, random_bytes(50'000, 3));
  chmod(path.c_str(), 0600);
  std::vector<pid_t> children;
  for (int process = 0; process < 6; ++process) {
    children.push_back(fork());
    if (children.back() == 0) {
      DiskCache cache(path, kMegabyte, CachePlace::Own);
      warnings([&] { cache.put(kCode, text("key ", process), "value"); });
      _exit(cache.get(kCode, text("key ", process)) == "value" ? 0 : 1);
    }
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(folder.count(".damaged-"), 1);
  DiskCache cache(path, kMegabyte);
  for (int process = 0; process < 6; ++process) EXPECT_EQ(cache.get(kCode, text("key ", process)), "value");
}

TEST(DiskCache, of_many_damaged_files_the_newest_stay) {
  TemporaryFolder folder;
  const std::string path = folder.file("cache.sqlite");
  const std::string other = path + ".damaged-20200131-235959.txt";
  write_content(other, "of somebody");
  for (uint32_t i = 0; i < 12; ++i) {
    write_content(path, random_bytes(5000, i));
    chmod(path.c_str(), 0600);
    for (const char* ending : {"-wal", "-shm"}) std::filesystem::remove(path + ending);
    DiskCache cache(path, kMegabyte, CachePlace::Own);
    warnings([&] { cache.put(kCode, "key", "value"); });
    EXPECT_EQ(cache.get(kCode, "key"), "value");
    EXPECT_EQ(cache.stats().set_aside, 1u);
  }
  EXPECT_EQ(content_of(other), "of somebody");
  int whole = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    const std::string name = entry.path().filename();
    if (name.find(".damaged-") == std::string::npos || entry.path() == other) continue;
    ++whole;
    const std::string content = content_of(entry.path());
    EXPECT_TRUE(content == random_bytes(5000, 10) || content == random_bytes(5000, 11)) << name;
  }
  EXPECT_EQ(whole, 2);
}

TEST(DiskCache, a_child_process_opens_the_file_anew) {
  TemporaryFolder folder;
  DiskCache cache(folder.file("cache.sqlite"), kMegabyte);
  cache.put(kCode, "key", "value");
  EXPECT_EQ(in_child([&] {
              cache.put(kCode, "child", "value");
              return cache.get(kCode, "key") == "value" ? 0 : 1;
            }),
            0);
  EXPECT_EQ(cache.get(kCode, "child"), "value");
  EXPECT_EQ(cache.get(kCode, "key"), "value");
}

TEST(DiskCache, a_child_outlives_the_parent_that_had_the_file_open) {
  TemporaryFolder folder;
  const std::string path = folder.file("cache.sqlite");
  int result = in_child([&] {
    DiskCache cache(path, kMegabyte);
    cache.put(kCode, "parent", "value");
    std::atomic<bool> stop{false};
    std::jthread busy([&] {
      for (int i = 0; !stop; ++i) cache.put(kCode, text("busy ", i % 50), random_bytes(3000, 4));
    });
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return 1;
    for (int i = 0; i < 20; ++i) {
      pid_t child = fork();
      if (child == 0) {
        char word;
        close(pipe_ends[1]);
        while (read(pipe_ends[0], &word, 1) > 0) {}  // until the parent is gone
        for (int k = 0; k < 50; ++k) cache.put(kCode, text("child ", i, " ", k), "value");
        _exit(cache.get(kCode, "parent") == "value" && cache.stats().warnings == 0 ? 0 : 1);
      }
    }
    stop = true;
    busy.join();
    return 0;
  });
  EXPECT_EQ(result, 0);
  // Others open the file while the orphans write to it.
  for (int round = 0; round < 200; ++round) {
    DiskCache cache(path, kMegabyte);
    cache.put(kCode, text("other ", round), "value");
    ASSERT_EQ(cache.get(kCode, text("other ", round)), "value");
    ASSERT_EQ(cache.stats().warnings, 0u);
    int found = 0;
    for (int i = 0; i < 20; ++i) found += cache.get(kCode, text("child ", i, " 49")) == "value";
    if (found == 20) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  FAIL() << "not all children stored what they had";
}

}  // namespace
}  // namespace heddle
