// Thread-level kernel IR to LLVM IR: what the files of this folder share. Not for use outside it.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/target/target.h"
#include "kernel/ir.h"

namespace heddle::codegen {

struct Emitter;

// Constants of the type of another value.
inline llvm::Constant* number(llvm::Value* like, double v) { return llvm::ConstantFP::get(like->getType(), v); }
inline llvm::Constant* integer_like(llvm::Value* like, int64_t v) {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(v), true);
}

// What differs between machines once the entry of a kernel stands.
struct Traits {
  bool gather = false;  // gathers and scatters 4- and 8-byte elements under a mask
  bool half = false;    // converts between f16 and f32
  bool bfloat = false;  // converts vectors of f32 to bf16 as AVX-512 does
  bool fma = false;
  bool scale = false;       // multiplies by powers of two as AVX-512 does
  bool pairs = false;       // adds the products of pairs of bf16 as AVX-512 does
  bool bytes = false;       // adds the products of four unsigned and four signed bytes
  bool matrix = false;      // has matrix registers as AMX does
  bool nan_minmax = false;  // has minimum and maximum that propagate NaN
  bool read_zeros = false;  // a load whose guard fails may read a line of zeros instead of being jumped over
  bool stream = false;      // has stores that bypass the caches, and fetches lines into them on request
  bool shuffle = false;     // rearranges the lanes of vectors in registers
  bool narrow = false;      // computes indices in 32 bits where that is enough
  bool early = false;       // kernels start before those before them have ended, and wait: no load may come earlier
  bool shared_by_threads = false;                   // several threads of a block work on Shared memory at once
  bool fragments = false;                           // copies, fragments and their products, by warps
  bool atomic_half = false, atomic_bfloat = false;  // adds f16, bf16 to memory in one instruction
  llvm::Value* (*shuffle_xor)(Emitter& emitter, llvm::Value* word, int mask) = nullptr;  // of 32-bit integers
  void (*barrier)(Emitter& emitter) = nullptr;
  // Of f32, scalars or vectors: 2^x within 2 ulp, and 1 / x rounded as division is; null: there is no such way.
  llvm::Value* (*exp2)(Emitter& emitter, llvm::Value* x) = nullptr;
  llvm::Value* (*reciprocal)(Emitter& emitter, llvm::Value* x) = nullptr;
  // Two f32 to bf16 in a 32-bit integer, the first lowest; null: done step by step.
  llvm::Value* (*round_pair)(Emitter& emitter, llvm::Value* low, llvm::Value* high) = nullptr;
};

// A value of an expression: an i64 (or i32: Traits::narrow), an i1 for a condition, or a vector of i64, i32 or i1 with
// one element per lane; and the number of the outermost scope in which it can be computed.
struct Emitted {
  llvm::Value* value = nullptr;
  int depth = 0;
};

// Expressions are pure, so each is computed at the head of the outermost scope that knows its variables: what does not
// change in a loop is computed before it.
struct Scope {
  struct Key {
    Expr expr;
    unsigned bits;  // of a lane: 32 or 64; 0 for scalars
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.expr.hash() * 3 + key.bits; }
  };
  llvm::BasicBlock* head = nullptr;  // null: wherever the builder stands (variables bound to data)
  std::unordered_map<Key, llvm::Value*, KeyHash> known;
};

// Where an access goes.
struct Place {
  enum class Pattern { Uniform, Forward, Backward, Scattered } pattern = Pattern::Uniform;
  llvm::Value* pointer = nullptr;    // of the element at the lowest address; Scattered: of element 0 of the buffer
  llvm::Value* indices = nullptr;    // Scattered: element numbers
  int64_t stride = 0;                // Scattered: elements between lanes, where that is a constant; 0: it is not
  llvm::Value* condition = nullptr;  // i1 for all lanes together; null: true
  llvm::Value* mask = nullptr;       // one i1 per lane; null: all
  bool never = false;                // the guard is false
  uint64_t align = 1;                // bytes, of `pointer` (Scattered: of each element)
  bool strays = false;               // where no lane is wanted all of them may lie outside the buffer
  // Runs of lanes that lie elsewhere, each with a mask of its own. `mask` leaves these lanes out.
  std::vector<Place> runs;
};

struct Emitter {
  Emitter(const kernel::Kernel& kernel, llvm::Module& module, const Traits& traits);

  const kernel::Kernel& kernel;
  llvm::Module& module;
  llvm::LLVMContext& context;
  const Traits& traits;
  llvm::IRBuilder<> b;
  std::vector<llvm::Value*> values;       // of the kernel's values
  std::vector<llvm::Value*> buffers;      // address of element 0
  std::vector<llvm::Value*> tensor_maps;  // addresses of the descriptors that the kernel takes
  std::vector<Scope> scopes;
  bool streamed = false;  // some store bypasses the caches
  int working = 0;        // threads that meet at barriers; 0: all

  // One function's body: begin_function opens scope 0 at its entry; the caller binds variables; end_function closes.
  void begin_function(llvm::Function* function);
  void end_function();
  // Opens a scope whose head is the builder's block; the builder moves on to a new one.
  void open_scope(const char* name);
  void close_scope() { scopes.pop_back(); }
  void bind(const Expr& variable, llvm::Value* value, unsigned bits = 0);
  // Binds the variables of a grid to the parts of a block's number.
  void bind_blocks(const kernel::Phase& phase, llvm::Value* block);

  // structure (emit.cpp)
  using Values = std::vector<llvm::Value*>;
  void emit_body(const kernel::Body& code, Values& body_values);
  void instruction(const kernel::Inst& inst, Values& body_values);
  void loop(const kernel::Inst& inst, Values& body_values);
  // At the start of a loop's body: fetches what the iterations to come name by an index (prefetch.cpp).
  void prefetch(const kernel::Inst& loop, llvm::Value* i, llvm::Value* end, const Values& body_values);
  void branch(const kernel::Inst& inst, Values& body_values);
  void reduce(const kernel::Inst& inst, Values& body_values);
  void scan(const kernel::Inst& inst, Values& body_values);
  void shuffle(const kernel::Inst& inst, Values& body_values);
  void transpose(const kernel::Inst& inst, Values& body_values);              // transpose.cpp
  llvm::Value* packed_dot(llvm::Value* a, llvm::Value* b, llvm::Value* acc);  // packed_dot.cpp
  void panel_dot(const kernel::Inst& inst);
  void matrix_dot(const kernel::Inst& inst, Values& body_values);
  void matrix_store(const kernel::Inst& inst, const Values& body_values);
  llvm::Value* tensor_map(const kernel::Inst& inst, size_t number);
  void copy(const kernel::Inst& inst);
  void copy_fence(const kernel::Inst& inst);
  llvm::Value* load_matrix(const kernel::Inst& inst);
  void mma(const kernel::Inst& inst, Values& body_values);
  llvm::Value* index(const kernel::Inst& inst, const Values& body_values);
  // for (i = begin; i < end; ++i) carried = body(i, carried); gives the final ones.
  Values counted_loop(const char* name, llvm::Value* begin, llvm::Value* end, bool runs, Values carried,
                      const std::function<Values(llvm::Value* i, const Values& carried)>& body);
  // Runs body where the condition (null: true) holds.
  void when(llvm::Value* condition, const std::function<void()>& body);
  Values apply(const kernel::Reducer& reducer, std::span<llvm::Value* const> left, std::span<llvm::Value* const> right);

  // expressions (exprs.cpp)
  llvm::Value* integer(const Expr& e);    // i64, or a vector of i32 (where that is wide enough) or i64
  llvm::Value* condition(const Expr& e);  // i1 or a vector of i1
  Emitted emit(const Expr& e, unsigned bits);
  Emitted compute(const Expr& e, unsigned bits);
  Emitted add(const Expr& e, unsigned bits);
  Emitted compare_lane(const Expr& e, const Expr& lane);
  bool varies(const Expr& e);         // between lanes
  Expr lane_variable(int64_t lanes);  // stands for the coordinate of every vector of so many lanes
  // Opens a scope for an instruction's bound values; gives its address and guard in terms of lane_variable.
  struct Formula {
    Expr address, guard;
    Expr lane;                  // the lane variable, or 0 for a scalar
    bool lanes_differ = false;  // a bound value differs between lanes
  };
  Formula open_formula(const kernel::Inst& inst, int64_t lanes, const Values& body_values);

  // memory (memory.cpp)
  llvm::Value* load(const kernel::Inst& inst, const Values& body_values);
  void store(const kernel::Inst& inst, const Values& body_values);
  void combine(const kernel::Inst& inst, const Values& body_values);
  void check(const kernel::Inst& inst, const Values& body_values);
  DType accessed(const kernel::Inst& inst) const;  // of the elements: those of the buffer, or words of them
  // `in_runs`: the place may be one of several runs, if they are few.
  Place place(const kernel::Inst& inst, int64_t lanes, const Values& body_values, bool in_runs = false);
  bool place_runs(Place& at, const kernel::Inst& inst, int64_t lanes, const Formula& formula);
  llvm::Value* pointer_to(const kernel::Inst& inst, const Expr& element);
  // What lies at `at`, all its runs but not those of `at.runs`; `otherwise`, if not null, where its mask is false.
  llvm::Value* load_run(const kernel::Inst& inst, llvm::Type* type, const Place& at, llvm::Value* otherwise);
  void store_run(const kernel::Inst& inst, llvm::Value* v, Place at);
  llvm::Value* guarded_load(const kernel::Inst& inst, llvm::Type* type, const Place& at, llvm::Value* flag);
  llvm::Value* gather(const kernel::Inst& inst, llvm::Type* type, const Place& at);
  llvm::Value* kept_inside(const kernel::Inst& inst, const Place& at, llvm::Value* pointer, llvm::Value* mask);
  llvm::Value* pick(const kernel::Inst& inst, llvm::Type* type, const Place& at);
  void combine_lane(const kernel::Inst& inst, llvm::Value* pointer, llvm::Value* v, llvm::Value* flag);
  llvm::Value* from_memory(llvm::Value* v, DType dtype);
  llvm::Value* to_memory(llvm::Value* v, DType dtype);
  // Tells LLVM which buffer an instruction touches.
  template <class Access>
  Access* annotate(Access* access, const kernel::Inst& inst) {
    access->setMetadata(llvm::LLVMContext::MD_alias_scope, scope_of_buffer_[inst.buffer]);
    access->setMetadata(llvm::LLVMContext::MD_noalias, others_of_buffer_[inst.buffer]);
    return access;
  }

  // arithmetic (ops.cpp, casts.cpp)
  llvm::Value* op(ScalarOp op, DType dtype, std::span<llvm::Value* const> args);  // dtype of the last argument
  llvm::Value* cast(llvm::Value* v, DType from, DType to);
  llvm::Value* bitcast(llvm::Value* v, DType from, DType to);
  llvm::Value* constant(const Scalar& value);

  // types
  llvm::Type* element(DType dtype);                   // in registers: bool is i1, small floats are their bits
  llvm::Type* memory_element(DType dtype);            // in memory: bool is i8
  llvm::Value* splat(llvm::Value* v, int64_t lanes);  // v itself when it is a vector, or lanes is 1
  llvm::Value* iota(unsigned bits, int64_t lanes);
  [[noreturn]] void fail(const std::string& what) const;  // throws CompileError naming the kernel

 private:
  const std::vector<kernel::Type>* types_;  // of the values being read: the kernel's, or a reducer's
  std::unordered_map<int64_t, Expr> lane_variables_;
  std::vector<llvm::MDNode*> scope_of_buffer_, others_of_buffer_;
  std::vector<bool> never_written_;
};

int64_t lanes_of(const kernel::Type& type);  // 1 for scalars
int64_t lanes_of(const llvm::Value* v);
llvm::ConstantFP* constant_number(llvm::Value* v);  // the same in all lanes; null: it is no such constant
llvm::Value* scale(Emitter& emitter, llvm::Value* a, llvm::Value* n);  // the op of that name
bool uses_matrix_unit(const kernel::Phase& phase);
void configure_matrix_unit(Emitter& emitter);  // at the start of a function that uses it
// The type with `like`'s number of lanes.
llvm::Type* shaped(llvm::Type* element, const llvm::Value* like);
// "kernel_0": letters, digits and underscores only.
std::string symbol_name(const kernel::Kernel& kernel, size_t phase);

// The machine-independent parts of all back ends.
void check_module(const kernel::Kernel& kernel, llvm::Module& module);  // throws InternalError if LLVM objects to it
std::string text_of(const llvm::Module& module);
// Functions of all phases, for a CPU (host.cpp).
void emit_host(const kernel::Kernel& kernel, const Target& target, llvm::Module& module);

}  // namespace heddle::codegen
