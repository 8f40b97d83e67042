#include "codegen/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "codegen/codegen.h"

namespace heddle {
namespace codegen {
namespace {

constexpr size_t kGrain = 64;
constexpr size_t kSlabBytes = size_t{2} << 20;

// A file in memory, mapped writable and executable at two addresses.
struct Slab {
  uint8_t* write = nullptr;
  uint8_t* execute = nullptr;
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
  int file = memfd_create("heddle-code", MFD_CLOEXEC);
  if (file < 0) throw OutOfMemory("cannot create memory for machine code (memfd_create failed)");
  Slab slab;
  slab.bytes = bytes;
  void *write = MAP_FAILED, *execute = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    write = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    execute = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
  }
  close(file);
  if (write == MAP_FAILED || execute == MAP_FAILED) {
    if (write != MAP_FAILED) munmap(write, bytes);
    if (execute != MAP_FAILED) munmap(execute, bytes);
    throw OutOfMemory(text("cannot map ", bytes, " bytes for machine code"));
  }
  slab.write = static_cast<uint8_t*>(write);
  slab.execute = static_cast<uint8_t*>(execute);
  slab.free[0] = bytes;
  return slab;
}

struct Pool {
  std::mutex mutex;
  std::list<Slab> slabs;
  size_t kernels = 0;

  CodeBlock allocate(size_t bytes) {
    bytes = std::max(kGrain, (bytes + kGrain - 1) / kGrain * kGrain);
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
    ++kernels;
    return {home->write + offset, home->execute + offset, bytes};
  }

  void release(const CodeBlock& block) {
    std::lock_guard lock(mutex);
    --kernels;
    auto home = std::ranges::find_if(
        slabs, [&](const Slab& s) { return block.write >= s.write && block.write < s.write + s.bytes; });
    home->give_back(static_cast<size_t>(block.write - home->write), block.bytes);
    // One empty slab of the usual size stays for the next kernel.
    if (home->used != 0 || (slabs.size() == 1 && home->bytes == kSlabBytes)) return;
    munmap(home->write, home->bytes);
    munmap(home->execute, home->bytes);
    slabs.erase(home);
  }
};

// Never destroyed: kernels held by static objects give their code back after main.
Pool& pool() {
  static Pool* instance = new Pool;
  return *instance;
}

}  // namespace

std::shared_ptr<const CodeBlock> allocate_code(size_t bytes) {
  auto* block = new CodeBlock(pool().allocate(bytes));
  return std::shared_ptr<const CodeBlock>(block, [](const CodeBlock* gone) {
    pool().release(*gone);
    delete gone;
  });
}

}  // namespace codegen

CodeMemory code_memory() {
  codegen::Pool& pool = codegen::pool();
  std::lock_guard lock(pool.mutex);
  CodeMemory result{pool.kernels, 0, 2 * pool.slabs.size()};
  for (const codegen::Slab& slab : pool.slabs) result.bytes += slab.used;
  return result;
}

}  // namespace heddle
