// NVIDIA's matrix unit (wgmma) and the copies that feed it.
//
// Warp groups but the last multiply; a thread of the last one copies blocks of both factors into a ring in shared
// memory, by descriptors of the matrices. Two barrier objects belong to each place of the ring: `full`, on which the
// bytes of a copy arrive, and `empty`, on which the warps arrive that have read it. Both count phases: a wait names the
// parity of the one it waits for.
#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "codegen/emit.h"
#include "kernel/tensor_maps.h"

namespace heddle::codegen {
namespace {

using kernel::kMatrixBytes;
using kernel::kMatrixRows;
using kernel::kMatrixThreads;

constexpr unsigned kSharedSpace = 3;
constexpr int64_t kBox = kMatrixRows * kMatrixBytes;  // of 64 rows

// What a block of the ring holds: the left factor, then the right one.
struct Ring {
  int64_t rows, columns, stages;
  int64_t left() const { return rows * kMatrixBytes; }
  int64_t bytes() const { return (rows + columns) * kMatrixBytes; }
};

Ring ring_of(const kernel::Kernel& kernel, const kernel::Inst& inst) {
  return {(kernel.threads / kMatrixThreads - 1) * kMatrixRows, static_cast<int64_t>(inst.results.size()) / 2 * 8,
          inst.immediate};
}

// Calls assembly text with operands $0, $1, ...: results first.
llvm::Value* assemble(Emitter& emitter, llvm::Type* result, const std::string& code, const std::string& constraints,
                      std::vector<llvm::Value*> args) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* arg : args) types.push_back(arg->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  auto* assembly = llvm::InlineAsm::get(type, code, constraints + (constraints.empty() ? "" : ",") + "~{memory}", true);
  llvm::CallInst* call = emitter.b.CreateCall(type, assembly, args);
  call->addFnAttr(llvm::Attribute::Convergent);
  return call;
}
void assemble(Emitter& emitter, const std::string& code, const std::string& constraints = "",
              std::vector<llvm::Value*> args = {}) {
  assemble(emitter, emitter.b.getVoidTy(), code, constraints, std::move(args));
}

llvm::Value* word(Emitter& emitter, const Expr& e) {
  llvm::Value* v = emitter.integer(e);
  return emitter.b.CreateTrunc(v, emitter.b.getInt32Ty());
}

// Swizzled blocks begin at multiples of 1024; so do large buffers.
llvm::Value* local_address(Emitter& emitter, int buffer) {
  llvm::Value* pointer = emitter.buffers[static_cast<size_t>(buffer)];
  return emitter.b.CreatePtrToInt(pointer, emitter.b.getInt32Ty());
}

// The barrier objects of a matrix_dot, behind the ring: all `full` ones, then all `empty` ones.
llvm::Value* barriers_of(Emitter& emitter, const kernel::Inst& inst) {
  const Ring ring = ring_of(emitter.kernel, inst);
  return emitter.b.CreateAdd(local_address(emitter, inst.buffer),
                             emitter.b.getInt32(static_cast<uint32_t>(ring.stages * ring.bytes())));
}

// What describes a block in shared memory to the matrix unit, but for its address. The first number is the distance of
// boxes along the factor's own axis, used where that is the fast one; the second that of groups of eight rows.
uint64_t block_description() {
  constexpr uint64_t kBetweenBoxes = kBox, kBetweenRows = 1024, kSwizzle128 = 1;
  return kBetweenBoxes / 16 << 16 | kBetweenRows / 16 << 32 | kSwizzle128 << 62;
}

struct Kind {
  const char* types;  // sum, left, right
  int64_t depth;      // numbers that one instruction sums over
  bool turns;         // takes either axis as the fast one
};
Kind kind_of(DType factor) {
  if (factor == DType::bf16) return {"f32.bf16.bf16", 16, true};
  if (factor == DType::f16) return {"f32.f16.f16", 16, true};
  return {"s32.s8.s8", 32, false};
}

// Waits on the barrier object at [bar] for the phase of this parity.
const char* const kWait = "WAIT:\n mbarrier.try_wait.parity.shared::cta.b64 p, [bar], par;\n @!p bra WAIT;\n";

std::string next_place(int64_t stages) {
  return text(" add.u32 slot, slot, 1;\n setp.eq.u32 q, slot, ", stages,
              ";\n @q mov.u32 slot, 0;\n @q xor.b32 par, par, 1;\n"
              " add.u32 k, k, 1;\n");
}

// $n: sums; then ring, ring of the right factor, barriers, steps, place, parity, whether this thread tells.
std::string multiplying_code(const kernel::Inst& inst, const Ring& ring, DType factor) {
  const Kind kind = kind_of(factor);
  const int64_t sums = ring.columns / 2, full = sums + 2, steps = sums + 3;
  const bool integer = factor == DType::i8;
  std::ostringstream s;
  s << "{\n .reg .pred p, q, t, first;\n .reg .b32 slot, par, bar, at, k, before;\n .reg .b64 left, right;\n";
  for (int64_t i = 0; i < sums; ++i)
    s << (integer ? " mov.s32 $" : " mov.f32 $") << i << (integer ? ", 0;\n" : ", 0f00000000;\n");
  s << " setp.eq.u32 q, $" << steps << ", 0;\n @q bra DONE;\n";
  s << " setp.ne.u32 t, $" << steps + 3 << ", 0;\n";
  s << " mov.u32 slot, $" << steps + 1 << ";\n mov.u32 par, $" << steps + 2
    << ";\n mov.u32 k, 0;\n mov.u32 before, slot;\n";
  s << "LOOP:\n shl.b32 bar, slot, 3;\n add.u32 bar, bar, $" << full << ";\n" << kWait;
  auto describe = [&](const char* name, int64_t base) {
    s << " mad.lo.u32 at, slot, " << ring.bytes() << ", $" << base
      << ";\n shr.u32 at, at, 4;\n and.b32 at, at, 16383;\n"
      << " cvt.u64.u32 " << name << ", at;\n or.b64 " << name << ", " << name << ", " << block_description() << ";\n";
  };
  describe("left", sums);
  describe("right", sums + 1);
  s << " wgmma.fence.sync.aligned;\n";
  const int64_t parts = kMatrixBytes / size_of(factor) / kind.depth;
  for (int64_t part = 0; part < parts; ++part) {
    s << " wgmma.mma_async.sync.aligned.m64n" << ring.columns << "k" << kind.depth << "." << kind.types << " {";
    for (int64_t i = 0; i < sums; ++i) s << (i ? ", $" : "$") << i;
    s << "}, left, right, 1";
    if (kind.turns) s << ", 1, 1, " << inst.regions[0].turned << ", " << inst.regions[1].turned;
    s << ";\n";
    // Along the rows of a box, or from one row to another.
    auto step = [&](size_t n) { return inst.regions[n].turned ? kind.depth * kMatrixBytes / 16 : 2; };
    if (part + 1 < parts) s << " add.u64 left, left, " << step(0) << ";\n add.u64 right, right, " << step(1) << ";\n";
  }
  s << " wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 1;\n";
  // The block before this one has been read.
  const std::string tell = text(" shl.b32 bar, before, 3;\n add.u32 bar, bar, $", full, ";\n");
  const std::string arrive = text(" mbarrier.arrive.shared::cta.b64 _, [bar+", 8 * ring.stages, "];\n");
  s << " setp.ne.and.u32 first, k, 0, t;\n" << tell << " @first" << arrive << " mov.u32 before, slot;\n";
  s << next_place(ring.stages) << " setp.lt.u32 q, k, $" << steps << ";\n @q bra LOOP;\n";
  s << " wgmma.wait_group.sync.aligned 0;\n" << tell << " @t" << arrive << "DONE:\n}";
  return s.str();
}

// $0 ring, $1 barriers, $2 steps, $3 place, $4 parity, then for each factor its descriptor and its coordinates.
std::string copying_code(const kernel::Inst& inst, const Ring& ring, const std::vector<std::vector<int64_t>>& moves) {
  std::ostringstream s;
  s << "{\n .reg .pred p, q;\n .reg .b32 slot, par, bar, at, k, x;\n";
  size_t operand = 5;
  for (size_t n = 0; n < 2; ++n)
    for (size_t d = 0; d < moves[n].size(); ++d) s << " .reg .b32 c" << n << d << ";\n";
  for (size_t n = 0; n < 2; ++n) {
    for (size_t d = 0; d < moves[n].size(); ++d) s << " mov.b32 c" << n << d << ", $" << operand + 1 + d << ";\n";
    operand += 1 + moves[n].size();
  }
  s << " setp.eq.u32 q, $2, 0;\n @q bra DONE;\n mov.u32 slot, $3;\n xor.b32 par, $4, 1;\n mov.u32 k, 0;\n";
  s << "LOOP:\n shl.b32 bar, slot, 3;\n add.u32 bar, bar, $1;\n add.u32 bar, bar, " << 8 * ring.stages << ";\n"
    << kWait;
  s << " sub.u32 bar, bar, " << 8 * ring.stages << ";\n";
  s << " mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " << ring.bytes() << ";\n";
  s << " mad.lo.u32 at, slot, " << ring.bytes() << ", $0;\n";
  operand = 5;
  for (size_t n = 0; n < 2; ++n) {
    const int64_t boxes = inst.regions[n].turned ? (n == 0 ? ring.rows : ring.columns) / kMatrixRows : 1;
    for (int64_t box = 0; box < boxes; ++box) {
      s << " add.u32 x, c" << n << "0, " << box * kMatrixRows << ";\n";
      s << " cp.async.bulk.tensor." << moves[n].size()
        << "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [at+" << (n == 0 ? 0 : ring.left()) + box * kBox
        << "], [$" << operand << ", {x";
      for (size_t d = 1; d < moves[n].size(); ++d) s << ", c" << n << d;
      s << "}], [bar];\n";
    }
    for (size_t d = 0; d < moves[n].size(); ++d)
      if (moves[n][d] != 0) s << " add.u32 c" << n << d << ", c" << n << d << ", " << moves[n][d] << ";\n";
    operand += 1 + moves[n].size();
  }
  s << next_place(ring.stages) << " setp.lt.u32 q, k, $2;\n @q bra LOOP;\nDONE:\n}";
  return s.str();
}

std::string repeated(const char* item, size_t count) {
  std::string s;
  for (size_t i = 0; i < count; ++i) s += (i ? "," : "") + std::string(item);
  return s;
}

}  // namespace

void begin_matrix_unit(Emitter& emitter, const kernel::Phase& phase) {
  auto& b = emitter.b;
  std::vector<const kernel::Inst*> found;
  kernel::visit(phase.body, [&](const kernel::Inst& inst) {
    auto same = [&](const kernel::Inst* other) { return other->buffer == inst.buffer; };
    if (inst.op == kernel::Op::matrix_dot && std::none_of(found.begin(), found.end(), same)) found.push_back(&inst);
  });
  if (found.empty()) return;
  llvm::Value* first = b.CreateICmpEQ(emitter.integer(emitter.kernel.thread), b.getInt64(0));
  emitter.when(first, [&] {
    for (const kernel::Inst* inst : found) {
      llvm::Value* at = barriers_of(emitter, *inst);
      const int64_t warps = (emitter.kernel.threads - kMatrixThreads) / 32;
      for (int64_t i = 0; i < 2 * inst->immediate; ++i)
        assemble(emitter,
                 text("mbarrier.init.shared::cta.b64 [$0+", 8 * i, "], ", i < inst->immediate ? 1 : warps, ";"), "r",
                 {at});
    }
    assemble(emitter, "fence.mbarrier_init.release.cluster;");
    assemble(emitter, "fence.proxy.async.shared::cta;");
  });
  emitter.traits.barrier(emitter);
}

void end_matrix_unit(Emitter& emitter, const kernel::Phase& phase) {
  bool stores = false;
  kernel::visit(phase.body, [&](const kernel::Inst& inst) { stores |= inst.op == kernel::Op::matrix_store; });
  if (stores) assemble(emitter, "cp.async.bulk.wait_group 0;");
}

llvm::Value* Emitter::tensor_map(const kernel::Inst& inst, size_t number) {
  const std::vector<kernel::TensorMap> all = kernel::tensor_maps(kernel);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].inst == &inst && all[i].number == number) return tensor_maps.at(i);
  fail("a matrix without a descriptor");
}

void Emitter::matrix_dot(const kernel::Inst& inst, Values& block_values) {
  if (tensor_maps.empty()) fail("this machine has no matrix unit that copies");
  const Ring ring = ring_of(kernel, inst);
  const DType factor = kernel.buffers[static_cast<size_t>(inst.regions[0].buffer)].dtype;
  llvm::Value* thread = word(*this, kernel.thread);
  llvm::Value* base = local_address(*this, inst.buffer);
  llvm::Value* bars = barriers_of(*this, inst);
  llvm::Value* steps = word(*this, inst.extent);
  llvm::Value* place = word(*this, mod(inst.address, ring.stages));
  llvm::Value* parity = word(*this, mod(floordiv(inst.address, ring.stages), 2));
  auto multiplies = static_cast<uint32_t>(kernel.threads - kMatrixThreads);

  std::vector<llvm::Value*> args = {base, bars, steps, place, parity};
  std::vector<std::vector<int64_t>> moves;
  std::string constraints = "r,r,r,r,r";
  for (size_t n = 0; n < 2; ++n) {
    args.push_back(tensor_map(inst, n));
    constraints += ",l";
    moves.emplace_back();
    for (const Expr& at : inst.regions[n].at) {
      Linear form{0, at};
      if (inst.var.is_var() && depends_on(at, inst.var)) {
        std::optional<Linear> found = linear_in(at, inst.var);
        if (!found) fail(text("a copy that moves to ", at));
        form = *found;
      }
      args.push_back(word(*this, form.rest));
      constraints += ",r";
      moves.back().push_back(form.coefficient);
    }
  }
  when(b.CreateICmpEQ(thread, b.getInt32(multiplies)),
       [&] { assemble(*this, copying_code(inst, ring, moves), constraints, args); });

  // Threads that copy get zeros.
  const auto sums = static_cast<size_t>(ring.columns / 2);
  llvm::Type* number = element(kernel.values[inst.results[0]].dtype);
  std::vector<llvm::Type*> fields(sums, number);
  llvm::Type* all = llvm::StructType::get(context, fields);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* inside = nullptr;
  llvm::Value* made = nullptr;
  when(b.CreateICmpULT(thread, b.getInt32(multiplies)), [&] {
    llvm::Value* group = b.CreateUDiv(thread, b.getInt32(kMatrixThreads));
    llvm::Value* left = b.CreateAdd(base, b.CreateMul(group, b.getInt32(kBox)));
    llvm::Value* right = b.CreateAdd(base, b.getInt32(static_cast<uint32_t>(ring.left())));
    llvm::Value* tells =
        b.CreateZExt(b.CreateICmpEQ(b.CreateAnd(thread, b.getInt32(31)), b.getInt32(0)), b.getInt32Ty());
    made = assemble(*this, all, multiplying_code(inst, ring, factor),
                    repeated(number->isFloatTy() ? "=&f" : "=&r", sums) + ",r,r,r,r,r,r,r",
                    {left, right, bars, steps, place, parity, tells});
    inside = b.GetInsertBlock();
  });
  // In the order of fragment(): eight columns after the other, each with two rows of two.
  std::vector<llvm::Value*> numbers;
  for (size_t i = 0; i < sums; ++i) {
    llvm::Value* v = nullptr;
    {
      llvm::IRBuilder<>::InsertPointGuard guard(b);
      b.SetInsertPoint(inside->getTerminator());
      v = b.CreateExtractValue(made, static_cast<unsigned>(i));
    }
    llvm::PHINode* either = b.CreatePHI(number, 2);
    either->addIncoming(v, inside);
    either->addIncoming(llvm::Constant::getNullValue(number), before);
    numbers.push_back(either);
  }
  const size_t per_row = inst.results.size() / 2;
  for (size_t i = 0; i < inst.results.size(); ++i) {
    const size_t at = i % per_row * 4 + i / per_row * 2;
    llvm::Value* v = llvm::PoisonValue::get(llvm::FixedVectorType::get(number, 2));
    v = b.CreateInsertElement(v, numbers[at], uint64_t{0});
    block_values[inst.results[i]] = b.CreateInsertElement(v, numbers[at + 1], uint64_t{1});
  }
}

// Through two boxes of shared memory for each warp group, so that one is written while the other leaves.
void Emitter::matrix_store(const kernel::Inst& inst, const Values& block_values) {
  if (tensor_maps.empty()) fail("this machine has no matrix unit that copies");
  const kernel::Region& region = inst.regions[0];
  const DType dtype = kernel.buffers[static_cast<size_t>(region.buffer)].dtype;
  const int64_t size = size_of(dtype), per_row = static_cast<int64_t>(inst.args.size()) / 2;
  const int64_t per_box = kMatrixBytes / (8 * size), boxes = per_row / per_box;
  llvm::Value* base = local_address(*this, inst.buffer);
  llvm::Value* map = tensor_map(inst, 0);
  std::vector<llvm::Value*> corner;
  for (const Expr& at : region.at) corner.push_back(word(*this, at));
  llvm::Value* thread = word(*this, kernel.thread);
  when(b.CreateICmpULT(thread, b.getInt32(static_cast<uint32_t>(kernel.threads - kMatrixThreads))), [&] {
    llvm::Value* group = b.CreateUDiv(thread, b.getInt32(kMatrixThreads));
    llvm::Value* own = b.CreateURem(thread, b.getInt32(kMatrixThreads));
    llvm::Value* lane = b.CreateAnd(thread, b.getInt32(31));
    llvm::Value *row = b.CreateLShr(lane, b.getInt32(2)), *quarter = b.CreateAnd(lane, b.getInt32(3));
    llvm::Value* first = b.CreateICmpEQ(own, b.getInt32(0));
    llvm::Value* staging = b.CreateAdd(base, b.CreateMul(group, b.getInt32(2 * kBox)));
    llvm::Value* row_at = b.CreateMul(b.CreateAdd(b.CreateMul(b.CreateLShr(own, b.getInt32(5)), b.getInt32(16)), row),
                                      b.getInt32(kMatrixBytes));
    llvm::Value* barrier = b.CreateAdd(group, b.getInt32(1));
    llvm::Value* top = b.CreateAdd(corner[1], b.CreateMul(group, b.getInt32(kMatrixRows)));
    auto together = [&] { assemble(*this, "bar.sync $0, 128;", "r", {barrier}); };
    for (int64_t box = 0; box < boxes; ++box) {
      const uint32_t into = static_cast<uint32_t>(box % 2 * kBox);
      when(first, [&] {
        assemble(*this, box == 0 ? "cp.async.bulk.wait_group.read 0;" : "cp.async.bulk.wait_group.read 1;");
      });
      together();
      for (int64_t j = 0; j < per_box; ++j)
        for (int64_t half = 0; half < 2; ++half) {
          llvm::Value* v = block_values[inst.args[static_cast<size_t>(half * per_row + box * per_box + j)]];
          // Eight columns are `size` / 2 parts of 16 bytes.
          llvm::Value* byte = b.CreateAdd(b.CreateMul(quarter, b.getInt32(static_cast<uint32_t>(2 * size))),
                                          b.getInt32(static_cast<uint32_t>(8 * size * j)));
          llvm::Value* part = b.CreateXor(b.CreateLShr(byte, b.getInt32(4)), row);
          llvm::Value* at = b.CreateAdd(row_at, b.CreateShl(part, b.getInt32(4)));
          at = b.CreateAdd(at, b.CreateAnd(byte, b.getInt32(15)));
          at = b.CreateAdd(b.CreateAdd(staging, at), b.getInt32(into + static_cast<uint32_t>(half * 8 * kMatrixBytes)));
          llvm::Value* pointer = b.CreateIntToPtr(at, llvm::PointerType::get(context, kSharedSpace));
          b.CreateAlignedStore(v, pointer, llvm::Align(static_cast<uint64_t>(2 * size)));
        }
      assemble(*this, "fence.proxy.async.shared::cta;");
      together();
      when(first, [&] {
        std::vector<llvm::Value*> args = {map, b.CreateAdd(staging, b.getInt32(into))};
        std::string list, constraints = "l,r";
        for (size_t d = 0; d < corner.size(); ++d) {
          list += text(d ? ", " : "", "$", 2 + d);
          constraints += ",r";
          args.push_back(d == 1 ? top : corner[d]);
        }
        args[2] = b.CreateAdd(corner[0], b.getInt32(static_cast<uint32_t>(box * 8 * per_box)));
        assemble(*this,
                 text("cp.async.bulk.tensor.", corner.size(), "d.global.shared::cta.tile.bulk_group [$0, {", list,
                      "}], [$1];\n cp.async.bulk.commit_group;"),
                 constraints, args);
      });
    }
  });
}

}  // namespace heddle::codegen
