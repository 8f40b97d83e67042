// NVIDIA's driver, loaded when it is first asked for. Types and numbers are those of its binary interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fork.h"

namespace heddle::cuda {

using Result = int;
using DeviceNumber = int;
using Context = struct ContextOfDriver*;
using Stream = struct StreamOfDriver*;
using Event = struct EventOfDriver*;
using Library = struct LibraryOfDriver*;
using Module = struct ModuleOfDriver*;
using Function = struct FunctionOfDriver*;
using Graph = struct GraphOfDriver*;
using GraphNode = struct GraphNodeOfDriver*;
using GraphExec = struct GraphExecOfDriver*;
using Linker = struct LinkerOfDriver*;
using Condition = uint64_t;  // what a conditional node of a graph asks
using Address = uint64_t;

constexpr Result kSuccess = 0, kOutOfMemory = 2, kNotSupported = 801;

// Attributes of a device.
constexpr int kMaxSharedPerBlock = 97, kMultiprocessors = 16, kMajor = 75, kMinor = 76, kL2Bytes = 38;
// Attributes of a function.
constexpr int kDynamicSharedBytes = 8;

struct KernelNode {
  Function function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  Context context;
};

// Between kernels of a graph: the second may start when all blocks of the first run or are done, and waits itself for
// what the first writes.
struct GraphEdge {
  uint8_t from_port = 1, to_port = 0, type = 1, reserved[5] = {};
};

// Runs the graph that the driver puts into `bodies` again and again, for as long as the condition is not zero.
struct WhileNode {
  int type = 13, reserved[3] = {};
  Condition condition = 0;
  int kind = 1;
  unsigned bodies_wanted = 1;
  Graph* bodies = nullptr;
  Context context = nullptr;
  long long unused[26] = {};
};
static_assert(sizeof(WhileNode) == 256);

// name, parameters
#define HD_CUDA_FUNCTIONS(X)                                                                                           \
  X(cuInit, (unsigned flags))                                                                                          \
  X(cuDriverGetVersion, (int* version))                                                                                \
  X(cuGetErrorName, (Result error, const char** name))                                                                 \
  X(cuGetErrorString, (Result error, const char** text))                                                               \
  X(cuDeviceGetCount, (int* count))                                                                                    \
  X(cuDeviceGet, (DeviceNumber * device, int ordinal))                                                                 \
  X(cuDeviceGetAttribute, (int* value, int attribute, DeviceNumber device))                                            \
  X(cuDeviceTotalMem_v2, (size_t* bytes, DeviceNumber device))                                                         \
  X(cuDevicePrimaryCtxRetain, (Context * context, DeviceNumber device))                                                \
  X(cuCtxSetCurrent, (Context context))                                                                                \
  X(cuCtxSynchronize, ())                                                                                              \
  X(cuStreamCreate, (Stream * stream, unsigned flags))                                                                 \
  X(cuStreamSynchronize, (Stream stream))                                                                              \
  X(cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                                                   \
  X(cuEventCreate, (Event * event, unsigned flags))                                                                    \
  X(cuEventRecord, (Event event, Stream stream))                                                                       \
  X(cuEventSynchronize, (Event event))                                                                                 \
  X(cuMemAlloc_v2, (Address * address, size_t bytes))                                                                  \
  X(cuMemFree_v2, (Address address))                                                                                   \
  X(cuMemGetInfo_v2, (size_t* free, size_t* total))                                                                    \
  X(cuMemHostAlloc, (void** address, size_t bytes, unsigned flags))                                                    \
  X(cuMemcpyHtoDAsync_v2, (Address to, const void* from, size_t bytes, Stream stream))                                 \
  X(cuMemcpyDtoHAsync_v2, (void* to, Address from, size_t bytes, Stream stream))                                       \
  X(cuMemcpyDtoDAsync_v2, (Address to, Address from, size_t bytes, Stream stream))                                     \
  X(cuLibraryLoadData, (Library * library, const void* image, int* jit_options, void** jit_values, unsigned jit_count, \
                        int* options, void** values, unsigned count))                                                  \
  X(cuLibraryGetModule, (Module * module, Library library))                                                            \
  X(cuLibraryUnload, (Library library))                                                                                \
  X(cuModuleGetFunction, (Function * function, Module module, const char* name))                                       \
  X(cuFuncSetAttribute, (Function function, int attribute, int value))                                                 \
  X(cuLaunchKernel,                                                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))                         \
  X(cuLinkCreate_v2, (unsigned count, int* options, void** values, Linker* linker))                                    \
  X(cuLinkAddData_v2, (Linker linker, int kind, void* data, size_t bytes, const char* name, unsigned count,            \
                       int* options, void** values))                                                                   \
  X(cuLinkComplete, (Linker linker, void** cubin, size_t* bytes))                                                      \
  X(cuLinkDestroy, (Linker linker))                                                                                    \
  X(cuTensorMapEncodeTiled,                                                                                            \
    (void* map, int dtype, unsigned rank, void* address, const uint64_t* extents, const uint64_t* strides,             \
     const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill))                \
  X(cuGraphCreate, (Graph * graph, unsigned flags))                                                                    \
  X(cuGraphAddKernelNode_v2,                                                                                           \
    (GraphNode * node, Graph graph, const GraphNode* before, size_t count, const KernelNode* parameters))              \
  X(cuGraphAddDependencies_v2,                                                                                         \
    (Graph graph, const GraphNode* from, const GraphNode* to, const GraphEdge* edges, size_t count))                   \
  X(cuGraphConditionalHandleCreate,                                                                                    \
    (Condition * condition, Graph graph, Context context, unsigned initial, unsigned flags))                           \
  X(cuGraphAddNode_v2, (GraphNode * node, Graph graph, const GraphNode* before, const GraphEdge* edges, size_t count,  \
                        WhileNode* parameters))                                                                        \
  X(cuGraphInstantiateWithFlags, (GraphExec * exec, Graph graph, unsigned long long flags))                            \
  X(cuGraphExecKernelNodeSetParams_v2, (GraphExec exec, GraphNode node, const KernelNode* parameters))                 \
  X(cuGraphLaunch, (GraphExec exec, Stream stream))                                                                    \
  X(cuGraphExecDestroy, (GraphExec exec))                                                                              \
  X(cuGraphDestroy, (Graph graph))

struct Driver {
#define HD_CUDA_POINTER(name, parameters) Result(*name) parameters = nullptr;
  HD_CUDA_FUNCTIONS(HD_CUDA_POINTER)
#undef HD_CUDA_POINTER
  int version = 0;       // 13000 for 13.0
  uint32_t process = 0;  // fork_generation() when it was started

  // A child of the process that started it: the driver does not work here, and what it gave belongs to the parent.
  bool is_inherited() const { return process != fork_generation(); }

  // "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  std::string describe(Result error) const;
  // Throws DeviceError naming what was tried.
  void check(Result result, const char* what) const;
};

// Marks what the calling thread does for NVIDIA's profilers, while it lives; nothing where their library is not there.
class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

// Throws DeviceError saying why there is none: no library, a stub of one, no device, too old, started before a fork().
const Driver& driver();

[[noreturn]] void refuse_after_fork();

}  // namespace heddle::cuda
