#include "runtime/disk_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <vector>

#include "base/config.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "runtime/cache_file.h"

namespace heddle {
namespace {

constexpr int kMostSetAside = 2;             // by one process: if new files go bad, too, it is not the file
constexpr int64_t kTouchSeconds = 6 * 3600;  // how exactly the time of the last use is known: reading seldom writes
constexpr int kPutsBetweenTrims = 32;
constexpr uint64_t kRowBytes = 64;  // of a row beside key and value

int64_t signed_hash(std::string_view bytes, uint64_t seed) { return static_cast<int64_t>(hash_bytes(bytes, seed)); }

int64_t checksum_of(DiskEntry kind, std::string_view key, std::string_view value) {
  uint64_t seed = hash_combine(static_cast<uint64_t>(kind), hash_combine(key.size(), value.size()));
  return signed_hash(value, hash_bytes(key, seed));
}

std::string_view blob(sqlite3_stmt* statement, int column) {
  const void* data = sqlite3_column_blob(statement, column);
  int bytes = sqlite3_column_bytes(statement, column);
  return data && bytes > 0 ? std::string_view(static_cast<const char*>(data), static_cast<size_t>(bytes))
                           : std::string_view();
}

void bind_blob(const Statement& statement, int index, std::string_view bytes) {
  // A null pointer would bind NULL.
  sqlite3_bind_blob64(statement.get(), index, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
}

// Resets on the way out, so that no read holds back other processes' checkpoints.
struct Use {
  sqlite3_stmt* statement;
  ~Use() {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
  }
};

}  // namespace

struct DiskCache::State {
  std::string path;
  uint64_t most_bytes;
  CachePlace place;
  Stats stats;

  CacheFile file;
  Statement find, insert, touch, remove;
  bool gave_up = false;
  int puts = 0;

  void warn_once(const std::string& message) {
    if (stats.warnings++ == 0) warn(message);
  }
  void close() {
    find.reset();
    insert.reset();
    touch.reset();
    remove.reset();
    file = CacheFile();
  }
  void give_up(std::string why) {
    close();
    gave_up = true;
    warn_once(text("the cache ", path, " is not used: ", why, "; HEDDLE_CACHE=off keeps this quiet"));
  }

  bool prepare_all() {
    sqlite3* database = file.database.get();
    find = prepare(database, "SELECT key, value, checksum, used FROM entries WHERE kind = ?1 AND hash = ?2");
    if (!file.writable) return find != nullptr;
    insert = prepare(database,
                     "INSERT OR REPLACE INTO entries(kind, hash, key, value, checksum, bytes, used) "
                     "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    touch = prepare(database, "UPDATE entries SET used = ?3 WHERE kind = ?1 AND hash = ?2");
    remove = prepare(database, "DELETE FROM entries WHERE kind = ?1 AND hash = ?2");
    return find && insert && touch && remove;
  }

  // Whether the file can be read.
  bool ready() {
    if (gave_up) return false;
    if (file.database) return true;
    std::error_code ignored;
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    FileLock opening(path + ".lock");
    for (;;) {
      file = open_cache_file(path);
      if (file.database && prepare_all()) break;
      if (file.database) {
        file.problem = sqlite3_errmsg(file.database.get());
        file.bad_file = true;
      }
      if (!file.bad_file || !move_away(file.problem)) {
        if (!gave_up) give_up(file.problem);
        return false;
      }
    }
    if (!file.writable) warn_once(text("the cache ", path, " cannot be written to: nothing new is kept"));
    trim();
    return true;
  }

  // The file is not what it should be: the next attempt finds a new one. FileLock is held. `why` is a copy, because
  // close() takes the original away.
  bool move_away(std::string why) {
    ino_t inode = file.inode;
    close();
    if (stats.set_aside >= kMostSetAside) {
      give_up(text(why, ", again and again"));
      return false;
    }
    std::string aside = set_aside(path, inode, place == CachePlace::Own);
    if (aside.empty() && access(path.c_str(), F_OK) == 0) {
      give_up(why);
      return false;
    }
    if (aside.empty()) return true;  // another process was faster
    ++stats.set_aside;
    warn_once(text("the cache ", path, " is not usable (", why, ") and was renamed to ", aside));
    return true;
  }

  // After a call that failed.
  void failed(int code) {
    std::string why = sqlite3_errmsg(file.database.get());
    int primary = code & 0xff;
    if (means_damage(code)) {
      FileLock opening(path + ".lock");
      move_away(why);
    } else if (primary != SQLITE_BUSY && primary != SQLITE_LOCKED && primary != SQLITE_INTERRUPT) {
      // A full disk, one that is gone, a folder that has become read-only: reading may still work.
      if (primary == SQLITE_FULL || primary == SQLITE_READONLY || primary == SQLITE_IOERR) {
        file.writable = false;
        warn_once(text("the cache ", path, " cannot be written to: ", why));
      } else {
        give_up(why);
      }
    }
  }

  // One statement that writes.
  bool write(const Statement& statement) {
    int code = sqlite3_step(statement.get());
    sqlite3_reset(statement.get());
    sqlite3_clear_bindings(statement.get());
    if (code == SQLITE_DONE) return true;
    failed(code);
    return false;
  }

  // Drops what was not used for longest; code before schedules.
  void trim() {
    if (!file.database || !file.writable) return;
    auto number = [&](const char* sql) {
      Statement statement = prepare(file.database.get(), sql);
      bool found = statement && sqlite3_step(statement.get()) == SQLITE_ROW;
      return found ? static_cast<uint64_t>(sqlite3_column_int64(statement.get(), 0)) : 0;
    };
    uint64_t pages = number("PRAGMA page_count") - number("PRAGMA freelist_count");
    if (pages * number("PRAGMA page_size") <= most_bytes) return;
    Statement drop = prepare(file.database.get(),
                             "DELETE FROM entries WHERE rowid IN (SELECT id FROM (SELECT rowid AS id, sum(bytes) OVER "
                             "(ORDER BY kind, used DESC, rowid DESC) AS total FROM entries) WHERE total > ?1)");
    if (!drop) return;
    sqlite3_bind_int64(drop.get(), 1, static_cast<int64_t>(most_bytes / 4 * 3));
    write(drop);
  }
};

namespace {

// One lock for all: SQLite has state of its own that connections share, and a fork() must find it at rest.
struct Caches {
  Mutex lock;
  std::vector<DiskCache::State*> all;
};
Caches& caches() {
  static Caches& instance = *new Caches;
  return instance;
}

// SQLite's connections do not survive fork(): parent and child open the file again when they need it.
[[maybe_unused]] const bool closed_at_fork = [] {
  caches();
  before_fork([] {
    for (DiskCache::State* state : caches().all) {
      if (sqlite3* database = state->file.database.get())  // the journal can stay: others go on with it
        sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
      state->close();
    }
  });
  return true;
}();

}  // namespace

DiskCache::DiskCache(std::string path, uint64_t most_bytes, CachePlace place) : state_(std::make_unique<State>()) {
  std::lock_guard guard(caches().lock);
  caches().all.push_back(state_.get());
  state_->path = std::move(path);
  state_->most_bytes = most_bytes;
  state_->place = place;
}

DiskCache::~DiskCache() {
  std::lock_guard guard(caches().lock);
  std::erase(caches().all, state_.get());
  state_.reset();
}

std::optional<std::string> DiskCache::get(DiskEntry kind, std::string_view key) {
  State& s = *state_;
  std::lock_guard guard(caches().lock);
  if (!s.ready()) return std::nullopt;
  auto bind = [&](const Statement& statement) {
    sqlite3_bind_int64(statement.get(), 1, static_cast<int>(kind));
    sqlite3_bind_int64(statement.get(), 2, signed_hash(key, 0));
  };
  bind(s.find);
  std::string value;
  int64_t used = 0;
  bool damaged = false;
  int code = 0;
  {
    Use use{s.find.get()};
    code = sqlite3_step(s.find.get());
    if (code == SQLITE_ROW) {
      std::string_view stored = blob(s.find.get(), 1);
      damaged = sqlite3_column_type(s.find.get(), 1) != SQLITE_BLOB ||
                checksum_of(kind, blob(s.find.get(), 0), stored) != sqlite3_column_int64(s.find.get(), 2);
      if (damaged || blob(s.find.get(), 0) == key)
        value = stored;
      else
        code = SQLITE_DONE;  // another key with the same hash
      used = sqlite3_column_int64(s.find.get(), 3);
    }
  }
  if (code != SQLITE_ROW) {
    ++s.stats.misses;
    if (code != SQLITE_DONE) s.failed(code);
    return std::nullopt;
  }
  if (damaged) {
    ++s.stats.misses;
    ++s.stats.damaged_rows;
    s.warn_once(text("the cache ", s.path, " holds an entry that has changed on the disk; it is thrown away"));
    if (s.file.writable) {
      bind(s.remove);
      s.write(s.remove);
    }
    return std::nullopt;
  }
  ++s.stats.hits;
  int64_t now = std::time(nullptr);
  if (s.file.writable && (now - used > kTouchSeconds || used > now)) {
    bind(s.touch);
    sqlite3_bind_int64(s.touch.get(), 3, now);
    s.write(s.touch);
  }
  return value;
}

void DiskCache::put(DiskEntry kind, std::string_view key, std::string_view value) {
  State& s = *state_;
  std::lock_guard guard(caches().lock);
  if (!s.ready() || !s.file.writable) return;
  uint64_t bytes = key.size() + value.size() + kRowBytes;
  if (bytes > s.most_bytes / 2) return;
  const Statement& insert = s.insert;
  sqlite3_bind_int64(insert.get(), 1, static_cast<int>(kind));
  sqlite3_bind_int64(insert.get(), 2, signed_hash(key, 0));
  bind_blob(insert, 3, key);
  bind_blob(insert, 4, value);
  sqlite3_bind_int64(insert.get(), 5, checksum_of(kind, key, value));
  sqlite3_bind_int64(insert.get(), 6, static_cast<int64_t>(bytes));
  sqlite3_bind_int64(insert.get(), 7, std::time(nullptr));
  if (!s.write(insert)) return;
  ++s.stats.stored;
  if (++s.puts % kPutsBetweenTrims == 0) s.trim();
}

DiskCache::Stats DiskCache::stats() const {
  std::lock_guard guard(caches().lock);
  return state_->stats;
}

const std::string& DiskCache::path() const { return state_->path; }

DiskCache* disk_cache() {
  NoFork whole;
  // Never destroyed: closing would write the journal back, and processes should end at once.
  static DiskCache* const instance = [] {
    std::string path = config().cache;
    if (path.empty()) {
      const char* folder = std::getenv("XDG_CACHE_HOME");
      const char* home = std::getenv("HOME");
      if (folder && *folder == '/')
        path = folder;
      else if (home && *home)
        path = std::string(home) + "/.cache";
      else
        path = "off";
      if (path != "off") path += "/heddle/cache.sqlite";
    }
    constexpr uint64_t kMostBytes = uint64_t{512} << 20;
    uint64_t bytes = config().cache_size > 0 ? static_cast<uint64_t>(config().cache_size) : kMostBytes;
    CachePlace place = config().cache.empty() ? CachePlace::Own : CachePlace::Named;
    return path == "off" ? nullptr : new DiskCache(path, bytes, place);
  }();
  return instance;
}

}  // namespace heddle
