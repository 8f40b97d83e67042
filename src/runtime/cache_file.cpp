#include "runtime/cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"

namespace heddle {
namespace {

constexpr int kApplication = 0x48444c45;  // "HDLE"
constexpr int kFormat = 1;
constexpr int kBusyMilliseconds = 2000;

constexpr const char* kTable =
    "CREATE TABLE entries(kind INTEGER NOT NULL, hash INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, "
    "checksum INTEGER NOT NULL, bytes INTEGER NOT NULL, used INTEGER NOT NULL, PRIMARY KEY(kind, hash))";

int64_t number(sqlite3* database, const char* sql) {
  Statement statement = prepare(database, sql);
  return statement && sqlite3_step(statement.get()) == SQLITE_ROW ? sqlite3_column_int64(statement.get(), 0) : -1;
}

// A path as part of a URI.
std::string escaped(const std::string& path) {
  std::string result;
  for (char c : path) {
    if (c == '%' || c == '?' || c == '#')
      result += c == '%' ? "%25" : c == '?' ? "%3f" : "%23";
    else
      result += c;
  }
  return result;
}

// Code from the file is executed: it must be ours, and nobody else may write to it.
std::string distrust(const struct stat& found) {
  if (!S_ISREG(found.st_mode)) return "it is no file";
  if (found.st_uid != geteuid() && found.st_uid != 0) return "it belongs to another user";
  if (found.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  return "";
}

// Everything in the file must be what we made; a new one gets it.
std::string check_schema(sqlite3* database, bool writable) {
  int64_t tables = number(database, "SELECT count(*) FROM sqlite_master");
  if (tables < 0) return sqlite3_errmsg(database);
  if (tables == 0 && writable) {
    // Another process may be doing the same, with a library that takes no FileLock.
    bool made = run_sql(database, "BEGIN IMMEDIATE") && run_sql(database, kTable) &&
                run_sql(database, text("PRAGMA application_id = ", kApplication).c_str()) &&
                run_sql(database, text("PRAGMA user_version = ", kFormat).c_str()) && run_sql(database, "COMMIT");
    if (!made) {
      std::string why = sqlite3_errmsg(database);
      run_sql(database, "ROLLBACK");
      return why;
    }
  }
  if (number(database, "PRAGMA application_id") != kApplication) return "it is a database of another program";
  if (number(database, "PRAGMA user_version") != kFormat) return "it is of another version of Heddle";
  Statement statement = prepare(database, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL");
  if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return sqlite3_errmsg(database);
  const unsigned char* sql = sqlite3_column_text(statement.get(), 0);
  bool ours = sql && std::strcmp(reinterpret_cast<const char*>(sql), kTable) == 0;
  return ours && sqlite3_step(statement.get()) == SQLITE_DONE ? "" : "it is a database of another program";
}

// Whether a file begins as ours do: SQLite's head, with our number in it. A head that is cut off is taken for ours.
bool begins_like_a_cache(const std::string& path) {
  constexpr std::string_view kBegin("SQLite format 3\0", 16);
  constexpr size_t kNumberAt = 68;  // most significant byte first: https://www.sqlite.org/fileformat2.html
  std::string head(kNumberAt + 4, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  if (!head.starts_with(kBegin)) return false;
  return head.size() < kNumberAt + 4 || head.substr(kNumberAt) == "HDLE";
}

bool is_trouble_of_place(int code) {
  int primary = code & 0xff;
  return primary == SQLITE_FULL || primary == SQLITE_IOERR || primary == SQLITE_BUSY || primary == SQLITE_LOCKED ||
         primary == SQLITE_NOMEM || primary == SQLITE_PERM;
}

constexpr std::string_view kAside = ".damaged-";
constexpr size_t kMostAside = 2;

// What was set aside for `path` before: time and number, with the names of the files.
using Aside = std::map<std::pair<std::string, int>, std::vector<std::filesystem::path>>;

// Whether a text has digits where the form has zeros, and else the form's characters.
bool has_form(std::string_view text, std::string_view form) {
  return std::equal(text.begin(), text.end(), form.begin(), form.end(),
                    [](char at, char wanted) { return wanted == '0' ? at >= '0' && at <= '9' : at == wanted; });
}
constexpr std::string_view kTimeForm = "00000000-000000", kCountForm = "-000000";

Aside set_aside_before(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string begin = file.filename().string() + std::string(kAside);
  Aside found;
  std::error_code problem;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(begin)) continue;
    std::string_view rest = std::string_view(name).substr(begin.size());
    for (std::string_view of_sqlite : {"-wal", "-shm"})
      if (rest.ends_with(of_sqlite)) rest.remove_suffix(of_sqlite.size());
    // The time, and a number if there are several.
    const std::string time(rest.substr(0, kTimeForm.size())), count(rest.substr(time.size()));
    if (!has_form(time, kTimeForm)) continue;
    if (count == "-" || count.size() > kCountForm.size() || !has_form(count, kCountForm.substr(0, count.size())))
      continue;
    found[{time, count.empty() ? 0 : std::atoi(count.c_str() + 1)}].push_back(at->path());
  }
  return found;
}

// The newest ones stay, for people to look at: caches that go bad again and again must not fill the disk.
void remove_older(const std::string& path) {
  Aside found = set_aside_before(path);
  std::error_code ignored;
  for (auto each = found.begin(); found.size() > kMostAside; each = found.erase(each))
    for (const std::filesystem::path& name : each->second) std::filesystem::remove(name, ignored);
}

}  // namespace

bool means_damage(int sqlite_code) {
  int primary = sqlite_code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB;
}

Statement prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return Statement(statement);
}

bool run_sql(sqlite3* database, const char* sql) {
  return sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

CacheFile open_cache_file(const std::string& path) {
  CacheFile result;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  bool can_write = access(folder.c_str(), W_OK | X_OK) == 0;
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) {
    int file = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) {
      result.problem = std::strerror(errno);
      return result;
    }
    if (file >= 0) close(file);
    if (stat(path.c_str(), &found) != 0) {
      result.problem = std::strerror(errno);
      return result;
    }
  }
  result.inode = found.st_ino;
  result.bad_file = true;
  result.problem = distrust(found);
  if (result.problem.empty() && can_write && access(path.c_str(), W_OK) != 0) result.problem = std::strerror(errno);
  if (!result.problem.empty()) return result;

  sqlite3* opened = nullptr;
  std::string name = can_write ? "file:" + escaped(path) : "file:" + escaped(path) + "?immutable=1";
  int flags = (can_write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  int code = sqlite3_open_v2(name.c_str(), &opened, flags, nullptr);
  result.database.reset(opened);
  auto fail = [&](const std::string& why) {
    if (opened && is_trouble_of_place(sqlite3_errcode(opened))) result.bad_file = false;
    result.problem = why;
    result.database.reset();
    return std::move(result);
  };
  if (code != SQLITE_OK) return fail(opened ? sqlite3_errmsg(opened) : "out of memory");
  sqlite3_busy_timeout(opened, kBusyMilliseconds);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // Commits do not wait for the disk. What a crash of the machine may lose can be found out again.
  if (!run_sql(opened, "PRAGMA trusted_schema = OFF; PRAGMA block_size_check = ON; PRAGMA synchronous = OFF"))
    return fail(sqlite3_errmsg(opened));
  if (std::string why = check_schema(opened, can_write); !why.empty()) return fail(why);
  // After the check: this writes to the file, which may be a database of another program.
  if (can_write && !run_sql(opened, "PRAGMA journal_mode = WAL")) return fail(sqlite3_errmsg(opened));
  run_sql(opened, "PRAGMA synchronous = NORMAL");
  result.writable = can_write;
  result.bad_file = false;
  return result;
}

std::string set_aside(const std::string& path, ino_t inode, bool any_file) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0 || (inode != 0 && found.st_ino != inode)) return "";
  if (!S_ISREG(found.st_mode) || !(any_file || begins_like_a_cache(path))) return "";
  std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", &parts);
  std::string aside = text(path, kAside, time);
  int next = 0;
  for (const auto& [place, names] : set_aside_before(path))
    if (place.first == time) next = place.second + 1;
  if (next > 0) aside += text("-", next);
  // The file itself last: a new one must never meet the journal of the old one.
  for (const char* ending : {"-wal", "-shm"})
    if (std::rename((path + ending).c_str(), (aside + ending).c_str()) != 0 && errno != ENOENT) return "";
  if (std::rename(path.c_str(), aside.c_str()) != 0) return "";
  remove_older(path);
  return aside;
}

}  // namespace heddle
