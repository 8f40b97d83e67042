#include "codegen/code_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/lock.h"
#include "codegen/codegen.h"

namespace heddle {
namespace codegen {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSlabBytes = size_t{2} << 20;

// A mapping, handed out by pages.
struct Slab {
  uint8_t* begin = nullptr;
  size_t bytes = 0;
  size_t used = 0;
  std::map<size_t, size_t> free;  // offset -> bytes; neighbours are merged

  // First fit; nothing if there is no room.
  bool take(size_t wanted, size_t& offset) {
    for (auto it = free.begin(); it != free.end(); ++it) {
      auto [start, size] = *it;
      if (size < wanted) continue;
      free.erase(it);
      if (size > wanted) free[start + wanted] = size - wanted;
      offset = start;
      used += wanted;
      return true;
    }
    return false;
  }
  void give_back(size_t offset, size_t size) {
    used -= size;
    auto next = free.lower_bound(offset);
    if (next != free.end() && next->first == offset + size) {
      size += next->second;
      next = free.erase(next);
    }
    if (next != free.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    free[offset] = size;
  }
};

Slab map_slab(size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw OutOfMemory(text("cannot map ", bytes, " bytes for machine code"));
  Slab slab;
  slab.begin = static_cast<uint8_t*>(mapped);
  slab.bytes = bytes;
  slab.free[0] = bytes;
  return slab;
}

struct Pool {
  Mutex mutex;
  std::list<Slab> slabs;
  size_t kernels = 0;

  CodeBlock allocate(size_t bytes) {
    bytes = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
    std::lock_guard lock(mutex);
    size_t offset = 0;
    Slab* home = nullptr;
    for (Slab& slab : slabs)
      if (slab.take(bytes, offset)) {
        home = &slab;
        break;
      }
    if (!home) {
      slabs.push_back(map_slab((bytes + kSlabBytes - 1) / kSlabBytes * kSlabBytes));
      home = &slabs.back();
      home->take(bytes, offset);
    }
    if (mprotect(home->begin + offset, bytes, PROT_READ | PROT_WRITE) != 0) {
      home->give_back(offset, bytes);
      throw OutOfMemory(text("cannot get ", bytes, " bytes to write machine code to: ", std::strerror(errno)));
    }
    ++kernels;
    return {home->begin + offset, bytes};
  }

  void release(const CodeBlock& block) {
    std::lock_guard lock(mutex);
    --kernels;
    auto home = std::ranges::find_if(
        slabs, [&](const Slab& s) { return block.begin >= s.begin && block.begin < s.begin + s.bytes; });
    home->give_back(static_cast<size_t>(block.begin - home->begin), block.bytes);
    // One empty slab of the usual size stays for the next kernel.
    if (home->used != 0 || (slabs.size() == 1 && home->bytes == kSlabBytes)) return;
    munmap(home->begin, home->bytes);
    slabs.erase(home);
  }
};

// Never destroyed: kernels held by static objects give their code back after main.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}
[[maybe_unused]] Pool& pool_made_at_start = pool();

}  // namespace

std::shared_ptr<const CodeBlock> allocate_code(size_t bytes) {
  auto* block = new CodeBlock(pool().allocate(bytes));
  return std::shared_ptr<const CodeBlock>(block, [](const CodeBlock* gone) {
    pool().release(*gone);
    delete gone;
  });
}

void make_executable(const CodeBlock& block) {
  if (mprotect(block.begin, block.bytes, PROT_READ | PROT_EXEC) != 0)
    throw CompileError(text("memory with machine code cannot be made executable: ", std::strerror(errno),
                            "; the system may forbid programs to write their own code"));
}

}  // namespace codegen

CodeMemory code_memory() {
  codegen::Pool& pool = codegen::pool();
  std::lock_guard lock(pool.mutex);
  CodeMemory result{pool.kernels, 0, pool.slabs.size()};
  for (const codegen::Slab& slab : pool.slabs) result.bytes += slab.used;
  return result;
}

}  // namespace heddle
