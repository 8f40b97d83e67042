// A driver without hardware, under the name of NVIDIA's: memory is the host's, kernels are counted but not run. It lets
// the backend's own work be tested anywhere: memory, copies, recordings, errors. fake_driver.h says what a test can
// ask.
//
// With FAKE_CUDA_PTXAS, the path of NVIDIA's assembler, code is really assembled, so that a run fills the disk cache
// for a machine with a GPU (scripts/warm_cache). FAKE_CUDA_DRIVER, _MULTIPROCESSORS, _L2, _SHARED and _MEMORY say what
// it pretends to be.
#include "cuda/fake_driver.h"

#include <unistd.h>

#include <atomic>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

FakeDriver state;
std::mutex lock;  // of the blocks
std::map<void*, size_t> blocks;
size_t used = 0;
struct Graph {
  std::vector<FakeLaunch> nodes;
  std::vector<std::unique_ptr<Graph>> bodies;
  void* body = nullptr;  // of the last conditional node
};

int answer(const char* function) {
  if (state.fails_in && std::strcmp(state.fails_in, function) == 0) return state.fails_with;
  return state.broken;
}

size_t pretended(const char* variable, size_t otherwise) {
  const char* value = std::getenv(variable);
  return value && *value ? std::stoull(value) : otherwise;
}

size_t memory() { return pretended("FAKE_CUDA_MEMORY", state.memory); }

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

// Machine code of PTX, or nothing.
std::string assembled(const std::string& ptxas, const std::string& ptx) {
  static std::atomic<int> count{0};
  const size_t begin = ptx.find(".target ");
  if (begin == std::string::npos) return {};
  std::istringstream rest(ptx.substr(begin + 8));
  std::string arch;
  rest >> arch;
  while (!arch.empty() && arch.back() == ',') arch.pop_back();
  const std::string base = "/tmp/heddle_ahead_" + std::to_string(getpid()) + "_" + std::to_string(++count);
  std::ofstream(base + ".ptx") << ptx.c_str();  // without the zero at its end
  std::string code;
  if (std::system((ptxas + " -arch=" + arch + " -o " + base + ".cubin " + base + ".ptx").c_str()) == 0)
    code = contents(base + ".cubin");
  std::remove((base + ".ptx").c_str());
  std::remove((base + ".cubin").c_str());
  return code;
}

FakeLaunch launch_of(void* function, unsigned blocks_x, unsigned threads, unsigned shared) {
  return {function, blocks_x, threads, shared};
}

}  // namespace

#define ANSWER \
  if (int result = answer(__func__)) return result

extern "C" {

FakeDriver* fake_cuda_state() { return &state; }

int cuInit(unsigned) {
  ANSWER;
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = static_cast<int>(pretended("FAKE_CUDA_DRIVER", static_cast<size_t>(state.version)));
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuGetErrorString(int error, const char** meaning) {
  *meaning = error == 2 ? "out of memory" : error == 700 ? "an illegal memory access was encountered" : "unknown";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 75: *value = 9; break;  // compute capability 9.0
    case 76: *value = 0; break;
    case 97: *value = static_cast<int>(pretended("FAKE_CUDA_SHARED", 232448)); break;  // of a block
    case 16: *value = static_cast<int>(pretended("FAKE_CUDA_MULTIPROCESSORS", 132)); break;
    case 38: *value = static_cast<int>(pretended("FAKE_CUDA_L2", 50 << 20)); break;
    default: *value = 0;
  }
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = memory();
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device + 1));
  return 0;
}
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxSynchronize() {
  ANSWER;
  ++state.context_waits;
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = &state;
  return 0;
}
int cuStreamSynchronize(void*) {
  ANSWER;
  ++state.stream_waits;
  return 0;
}
int cuStreamWaitEvent(void* stream, void*, unsigned) {
  ANSWER;
  state.waiting = stream;
  ++state.waits;
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  *event = &state;
  return 0;
}
int cuEventRecord(void*, void*) {
  ANSWER;
  return 0;
}
int cuEventSynchronize(void*) {
  ANSWER;
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  ANSWER;
  std::lock_guard guard(lock);
  ++state.allocations;
  if (used + bytes > memory()) return 2;
  void* block = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  blocks[block] = bytes;
  used += bytes;
  *address = reinterpret_cast<uint64_t>(block);
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  std::lock_guard guard(lock);
  auto found = blocks.find(reinterpret_cast<void*>(address));
  if (found == blocks.end()) std::abort();  // given back twice, or never handed out
  used -= found->second;
  std::free(found->first);
  blocks.erase(found);
  return 0;
}
int cuMemGetInfo_v2(size_t* left, size_t* total) {
  std::lock_guard guard(lock);
  *left = memory() - used;
  *total = memory();
  return 0;
}
int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  ++state.pinned;
  ANSWER;
  *address = std::malloc(bytes);
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
  ANSWER;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
  ANSWER;
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
  ANSWER;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuLibraryLoadData(void** library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  ANSWER;
  *library = new int(++state.modules);
  return 0;
}
int cuLibraryGetModule(void** module, void* library) {
  ANSWER;
  *module = library;
  return 0;
}
int cuLibraryUnload(void* library) {
  delete static_cast<int*>(library);
  --state.modules;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char*) {
  *function = module;
  return 0;
}
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuLaunchKernel(void* function, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared, void*, void** parameters, void**) {
  ANSWER;
  state.last = launch_of(function, x, threads, shared);
  for (int i = 0; i < state.wanted_words; ++i) state.last.words[i] = *static_cast<const uint64_t*>(parameters[i]);
  ++state.launches;
  return 0;
}
// Refuses what NVIDIA's refuses.
int cuTensorMapEncodeTiled(void* map, int dtype, unsigned rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int, int, int, int) {
  ANSWER;
  constexpr int kInvalid = 1;
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(address) % 16 != 0) return kInvalid;
  if (rank < 1 || rank > 5) return kInvalid;
  const uint32_t size = dtype == 7 || dtype == 4 || dtype == 2 ? 4 : dtype == 0 ? 1 : 2;
  for (unsigned d = 0; d < rank; ++d)
    if (extents[d] == 0 || box[d] == 0 || box[d] > 256 || steps[d] != 1) return kInvalid;
  for (unsigned d = 0; d + 1 < rank; ++d)
    if (strides[d] % 16 != 0 || strides[d] == 0) return kInvalid;
  if (box[0] * size > 128) return kInvalid;
  std::memset(map, 1, 128);
  ++state.maps;
  return 0;
}
int cuLinkCreate_v2(unsigned, int*, void**, void** linker) {
  *linker = new std::string;
  return 0;
}
int cuLinkAddData_v2(void* linker, int, void* data, size_t bytes, const char*, unsigned, int*, void**) {
  ANSWER;
  static_cast<std::string*>(linker)->assign(static_cast<const char*>(data), bytes);
  return 0;
}
int cuLinkComplete(void* linker, void** cubin, size_t* bytes) {
  auto& text = *static_cast<std::string*>(linker);
  if (const char* ptxas = std::getenv("FAKE_CUDA_PTXAS"); ptxas && *ptxas) {
    constexpr int kInvalidPtx = 218;
    text = assembled(ptxas, text);
    if (text.empty()) return kInvalidPtx;
  }
  *cubin = text.data();
  *bytes = text.size();
  return 0;
}
int cuLinkDestroy(void* linker) {
  delete static_cast<std::string*>(linker);
  return 0;
}
int cuGraphCreate(void** graph, unsigned) {
  *graph = new Graph;
  ++state.graphs_made;
  return 0;
}
int cuGraphAddDependencies_v2(void*, const void*, const void*, const void*, size_t count) {
  ANSWER;
  state.early_edges += static_cast<int>(count);
  return 0;
}
int cuGraphAddKernelNode_v2(void** node, void* graph, const void*, size_t before, const void*) {
  state.edges += static_cast<int>(before);
  auto& nodes = static_cast<Graph*>(graph)->nodes;
  nodes.push_back({});
  *node = reinterpret_cast<void*>(nodes.size());
  return 0;
}
int cuGraphConditionalHandleCreate(uint64_t* condition, void*, void*, unsigned, unsigned) {
  ANSWER;
  *condition = 1;
  return 0;
}
// Conditional ones alone.
int cuGraphAddNode_v2(void** node, void* graph, const void*, const void*, size_t before, void* parameters) {
  ANSWER;
  state.edges += static_cast<int>(before);
  Graph& around = *static_cast<Graph*>(graph);
  around.bodies.push_back(std::make_unique<Graph>());
  around.body = around.bodies.back().get();
  void** bodies = &around.body;
  std::memcpy(static_cast<char*>(parameters) + 32, &bodies, sizeof bodies);
  *node = around.body;
  ++state.loops;
  return 0;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  *exec = graph;
  return 0;
}
int cuGraphExecKernelNodeSetParams_v2(void*, void*, const void*) {
  ANSWER;
  ++state.nodes_changed;
  return 0;
}
int cuGraphLaunch(void* exec, void*) {
  ANSWER;
  ++state.graph_launches;
  const Graph& graph = *static_cast<Graph*>(exec);
  state.nodes = static_cast<int>(graph.nodes.size());
  state.loop_nodes = graph.body ? static_cast<int>(static_cast<Graph*>(graph.body)->nodes.size()) : 0;
  return 0;
}
int cuGraphExecDestroy(void*) { return 0; }
int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}
}
