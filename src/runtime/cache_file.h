// The SQLite file behind the disk cache: opened, checked, set aside when it is not what it should be.
#pragma once

#include <sqlite3.h>
#include <sys/types.h>

#include <memory>
#include <string>

namespace heddle {

struct StatementDeleter {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, StatementDeleter>;

struct DatabaseDeleter {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};

struct CacheFile {
  std::unique_ptr<sqlite3, DatabaseDeleter> database;  // null: could not be opened
  bool writable = false;
  ino_t inode = 0;
  // When something is wrong: the file itself (then it may be set aside), or the place where it should be.
  bool bad_file = false;
  std::string problem;
};

// Makes the file if there is none. While a file is opened or set aside the caller holds a FileLock (base/file_lock.h),
// so that no process renames what another has just made.
CacheFile open_cache_file(const std::string& path);

// Renames the file, with SQLite's files beside it, to `path`.damaged-<time>, unless it is no longer the one with that
// inode (0: any): then another process has done so. The two newest of such files stay. Never a folder, and a file that
// does not begin as ours do only if `any_file`: somebody may have typed the wrong name. FileLock is held by the caller.
// Returns the new name; empty if nothing was renamed.
std::string set_aside(const std::string& path, ino_t inode, bool any_file);

// Of a database: these mean that the file is damaged.
bool means_damage(int sqlite_code);
Statement prepare(sqlite3* database, const char* sql);  // null when that fails
bool run_sql(sqlite3* database, const char* sql);

}  // namespace heddle
