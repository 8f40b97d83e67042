// The device interface: the only virtual boundary in Heddle. Backends implement it and register themselves.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/target/target.h"
#include "graph/node.h"
#include "kernel/ir.h"

namespace heddle {

class Backend;

// Memory of a device, given back to its pool when the last reference goes.
class DeviceBuffer : public Storage {
 public:
  Backend& device() const { return device_; }
  uint64_t bytes() const final { return bytes_; }
  // In the device's address space, 64-byte aligned. Null where memory has no address but is a handle: then the backend
  // that made the buffer alone knows how to reach it.
  void* address() const { return address_; }
  // Whether host_data() is the memory itself. Otherwise it is a copy that the next call overwrites.
  virtual bool on_host() const { return true; }

  // Whether the memory belongs to somebody else, who may write to it: nothing here does, or remembers what it holds.
  virtual bool is_shared() const { return false; }

  // A number for what the memory holds now; no other contents in this process have it. Whoever writes to memory that
  // may have been asked about calls change_contents() before. Of shared memory a new one every time.
  uint64_t contents() const;
  void change_contents() { contents_.store(0, std::memory_order_relaxed); }

 protected:
  DeviceBuffer(Backend& device, uint64_t bytes);
  DeviceBuffer(Backend& device, uint64_t bytes, DeviceNumber place);  // place: of nodes that have it
  void* address_ = nullptr;  // stays what the constructor of the class above says

 private:
  Backend& device_;
  uint64_t bytes_;
  mutable std::atomic<uint64_t> contents_{0};  // 0: nobody has asked
};

// Bytes [offset, offset + bytes) of a buffer. The offset is a multiple of 64.
struct BufferPart {
  const DeviceBuffer* buffer = nullptr;  // null: no memory
  uint64_t offset = 0, bytes = 0;

  // Of a device whose memory has addresses.
  void* address() const { return buffer ? static_cast<std::byte*>(buffer->address()) + offset : nullptr; }
};
inline BufferPart whole(const DeviceBuffer& buffer) { return {&buffer, 0, buffer.bytes()}; }

class Executable {
 public:
  virtual ~Executable() = default;
  virtual const kernel::Kernel& kernel() const = 0;  // thread level
  // Launches of so many segments will come. A device whose code for them is another may make it now.
  virtual void expect_segments(size_t) const {}
};

// A text of a kernel's code that people may read, and how the name of a file with it ends.
struct CodeText {
  std::string ending, text;
};

// One use of a kernel.
struct LaunchSegment {
  std::span<const BufferPart> buffers;  // in order of kernel().buffers, nothing for Shared ones
  std::span<const int64_t> symbols;     // in order of kernel().symbols
  uint64_t done = 0;                    // bit p: what phase p would write is there already; it need not run
};

// The sizes that a kernel is launched with, for evaluate(): each of its symbols has the value in the same place.
std::function<int64_t(const Expr&)> symbol_values(const kernel::Kernel& kernel, std::span<const int64_t> symbols);

// One launch among several.
struct Submission {
  const Executable* executable;
  std::span<const LaunchSegment> segments;
};

// Where memory is, in DLPack's numbers: its kind, and which device of those that have it.
constexpr int kHostMemory = 1, kPinnedMemory = 3;
struct MemoryPlace {
  int kind = kHostMemory, number = 0;
  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

// Device errors are exceptions at the next synchronize(), except those a call can see at once.
class Backend {
 public:
  Backend();
  virtual ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // By which nodes know it: no other one of the process has it.
  DeviceNumber number() const { return number_; }
  virtual const std::string& name() const = 0;
  // Whether launches return before they are done: then others can work meanwhile.
  virtual bool is_asynchronous() const { return false; }
  virtual const Target& target() const = 0;
  // The same where products of f32 may round their factors to tf32.
  virtual const Target& tf32_target() const { return target(); }
  const Target& target_for(bool tf32) const { return tf32 ? tf32_target() : target(); }
  virtual int threads() const = 0;  // that one launch may use
  // Throws OutOfMemory naming the size after freeing caches and trying again. Zero bytes are fine.
  virtual std::shared_ptr<DeviceBuffer> allocate(uint64_t bytes) = 0;
  // The host's memory as it is, for as long as the buffer lives. Null where the device cannot use it.
  virtual std::shared_ptr<DeviceBuffer> share(const std::shared_ptr<const void>&, uint64_t) { return nullptr; }
  // Memory of the device's own that others made, at an address that is a multiple of 64, for as long as the buffer
  // lives; then what was queued with it has run. Null where the device cannot use it.
  virtual std::shared_ptr<DeviceBuffer> adopt(const std::shared_ptr<const void>& memory, uint64_t bytes) {
    return share(memory, bytes);
  }
  virtual MemoryPlace memory_place() const { return {}; }
  // What its driver calls the queue of the device's launches, and that of others who do not say which they have. Null:
  // launches are done when they return.
  virtual void* queue() const { return nullptr; }
  virtual void* queue_of_others() const { return nullptr; }
  // The address of memory for others, who put what reads it into `queue` from now on: that comes after all that is in
  // this device's. Null: they see to that themselves.
  virtual void* lend(const DeviceBuffer& memory, void*) { return memory.address(); }
  // Waits for what others have in queues of their own, too.
  virtual void synchronize_all() { synchronize(); }
  virtual void copy_from_host(DeviceBuffer& to, const void* from, uint64_t bytes) = 0;
  virtual void copy_to_host(void* to, const DeviceBuffer& from, uint64_t bytes) = 0;  // when all work before is done
  // As many bytes of one part of its memory as `to` has, which may begin anywhere, in the order of launches.
  virtual void copy(const BufferPart& to, const BufferPart& from) = 0;
  // The first bytes of a part, which may begin anywhere.
  virtual void copy_part_to_host(void* to, const BufferPart& from, uint64_t bytes);
  // Throws CompileError. `code`, if not null, receives machine code for load(); nothing where a device has none.
  virtual std::shared_ptr<Executable> compile(const kernel::Kernel& thread_kernel, std::string* code) = 0;
  std::shared_ptr<Executable> compile(const kernel::Kernel& thread_kernel) { return compile(thread_kernel, nullptr); }
  // What compile() made of the same kernel, in another process with the same target() and code_version(), of its code.
  // Null where a device cannot. Throws CompileError.
  virtual std::shared_ptr<Executable> load(const kernel::Kernel&, const std::string&) { return nullptr; }
  // Of what makes the code. Empty: there is none to keep.
  virtual std::string code_version() const { return {}; }
  // What compile() would make of a kernel, for people, with one of the device's targets. Throws CompileError.
  virtual std::vector<CodeText> texts(const kernel::Kernel&, const Target&) const { return {}; }
  // Queues all phases, each for all segments: these do not need each other.
  virtual void launch(const Executable& executable, std::span<const LaunchSegment> segments) = 0;
  void launch(const Executable& executable, std::span<const BufferPart> buffers, std::span<const int64_t> symbols) {
    LaunchSegment only{buffers, symbols};
    launch(executable, {&only, 1});
  }
  // Whether launch_all() makes launches that come again cheaper.
  virtual bool records() const { return false; }
  // Queues launches, each after those before it. A caller that runs the same ones again, perhaps on other memory, keeps
  // `recording` for the next time.
  virtual void launch_all(std::span<const Submission> launches, std::shared_ptr<void>& recording);
  // Queues `first`, then `rounds` for as long as the byte at `flag`, which both of them write, is not zero. False: the
  // device cannot do that by itself, and nothing is queued.
  virtual bool launch_while(std::span<const Submission>, std::span<const Submission>, const BufferPart&,
                            std::shared_ptr<void>&) {
    return false;
  }
  virtual void synchronize() = 0;
  struct Memory {
    uint64_t used, cached, peak, limit;
  };
  virtual Memory memory() const = 0;
  virtual void free_cached() = 0;

 private:
  DeviceNumber number_;
};

// Makes the device of that number; 0 is the first. Throws DeviceError when there is none.
using DeviceFactory = std::unique_ptr<Backend> (*)(int number);
// How many there are; 0 where the hardware or its driver is absent.
using DeviceCount = int (*)();
// `memory`: the kinds of memory that such a device can use besides the host's.
void register_device(
    const std::string& kind, DeviceFactory factory, DeviceCount count = [] { return 1; }, std::vector<int> memory = {});
std::vector<std::string> device_kinds();
// Names of the devices that are there.
std::vector<std::string> device_names();
// The device of that name, made on first use: a kind ("cpu"), or with a number ("gpu:1"; "gpu" is "gpu:0"). When none
// is named, the one where constants go (home_device()), which config().device names at first. Throws ValueError for an
// unknown kind, DeviceError when it is not there, both listing those that are.
Backend& device(const std::string& name = "");
Backend& backend_of(DeviceNumber number);
// The name of the device that can use memory of that kind, beside the host's; empty: none can.
std::string device_at(const MemoryPlace& place);
// Bytes from one device to another, or to another place of the same. Waits for the device that they come from.
void copy_between(const BufferPart& from, DeviceBuffer& to, uint64_t bytes);

}  // namespace heddle
