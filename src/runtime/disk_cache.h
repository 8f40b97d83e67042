// What one process found out, kept for the next: tuned schedules and machine code, in one SQLite file.
//
// The file is only ever a help. Whatever is wrong with it (damaged, of somebody else, on a full disk or in a folder
// that cannot be written to) costs one warning, and the program goes on without. Many processes may use one file at
// once; after a fork() parent and child open it again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

enum class DiskEntry : int {
  Schedule = 1,  // small, and long searched for: the last to go when there is no room
  Code = 2,
};

// Where the file is. One that is no cache is set aside in the folder that is Heddle's own; at a place that somebody
// named it may be anything, and is left alone.
enum class CachePlace { Own, Named };

class DiskCache {
 public:
  // Nothing is opened before the first use. The file is kept below about `most_bytes`: entries that have not been used
  // for longest go first.
  DiskCache(std::string path, uint64_t most_bytes, CachePlace place = CachePlace::Named);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The value that was put there under exactly this key, or nothing. Key, length and checksum are compared: a value
  // that changed on the disk is never returned. Thread-safe, as is all of this.
  std::optional<std::string> get(DiskEntry kind, std::string_view key);
  // Replaces what was there before.
  void put(DiskEntry kind, std::string_view key, std::string_view value);

  struct Stats {
    uint64_t hits = 0, misses = 0, stored = 0;
    uint64_t damaged_rows = 0;  // entries that were thrown away because they had changed
    uint64_t set_aside = 0;     // files that were renamed
    uint64_t warnings = 0;
  };
  Stats stats() const;
  const std::string& path() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// The one that HEDDLE_CACHE names; null when it is off or there is no place for it. Lives as long as the process.
DiskCache* disk_cache();

}  // namespace heddle
