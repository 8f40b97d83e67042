// NVIDIA's matrix unit (wgmma) and the copies that feed it.
//
// Warp groups but the last multiply, and do all other work; a thread of the last one copies tiles of the factors into
// a ring in shared memory, by descriptors of the matrices. Two barrier objects belong to each place of the ring:
// `full`, on which the bytes of a copy arrive, and `empty`, on which the warps arrive that have read it. Both count
// phases: a wait names the parity of the one it waits for.
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "codegen/nvptx_asm.h"
#include "kernel/tensor_maps.h"

namespace heddle::codegen {
namespace {

using kernel::kMatrixBytes;
using kernel::kMatrixRows;
using kernel::kMatrixThreads;

using Ring = kernel::MatrixRing;

// The barrier objects of a matrix_dot: all `full` ones, then all `empty` ones, then that of a factor that stays.
llvm::Value* barriers_of(Emitter& emitter, const kernel::Inst& inst) {
  const Ring ring = kernel::matrix_ring(emitter.kernel, inst);
  return emitter.b.CreateAdd(shared_address(emitter, inst.buffer),
                             emitter.b.getInt32(static_cast<uint32_t>(ring.barriers())));
}

// What describes a tile in shared memory to the matrix unit, but for its address. The first number is the distance of
// boxes along the factor's own axis, used where that is the fast one; the second that of groups of eight rows.
uint64_t tile_description() {
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
std::string wait(const char* parity = "par") {
  return text(" {\n .reg .pred p;\nWAIT:\n mbarrier.try_wait.parity.shared::cta.b64 p, [bar], ", parity,
              ";\n @!p bra WAIT;\n }\n");
}

std::string next_place(int64_t stages) {
  return text(" add.u32 slot, slot, 1;\n setp.eq.u32 q, slot, ", stages,
              ";\n @q mov.u32 slot, 0;\n @q xor.b32 par, par, 1;\n"
              " add.u32 k, k, 1;\n");
}

// The text of a product. Operands: sums, sums so far if any, then the numbers of `Operands`, then the left factor if it
// is in registers.
class Multiplying {
 public:
  Multiplying(const kernel::Inst& inst, const Ring& ring, DType factor)
      : inst_(inst), ring_(ring), factor_(factor), kind_(kind_of(factor)), sums_(ring.columns / 2) {
    first_ = inst.args.empty() ? sums_ : 2 * sums_;
  }

  enum Operands { kLeft, kRight, kBarriers, kSteps, kPlace, kParity, kTells, kCount };

  std::string write() {
    const bool integer = factor_ == DType::i8;
    s_ << "{\n .reg .pred q, t, first;\n .reg .b32 slot, par, bar, at, k, before;\n .reg .b64 left, right;\n";
    for (int64_t i = 0; i < sums_ && inst_.args.empty(); ++i)
      s_ << (integer ? " mov.s32 $" : " mov.f32 $") << i << (integer ? ", 0;\n" : ", 0f00000000;\n");
    s_ << " setp.ne.u32 t, " << at(kTells) << ", 0;\n mov.u32 slot, " << at(kPlace) << ";\n mov.u32 par, "
       << at(kParity) << ";\n mov.u32 k, 0;\n mov.u32 before, slot;\n";
    // Only its first phase ever ends.
    if (ring_.steps > 0) s_ << " add.u32 bar, " << at(kBarriers) << ", " << 16 * ring_.stages << ";\n" << wait("0");
    if (inst_.left_in_args()) {
      const int64_t steps = inst_.extent.value();
      for (int64_t step = 0; step < steps; ++step) {
        one_step(step);
        if (step > 0) tell("t");
        s_ << " mov.u32 before, slot;\n" << next_place(ring_.stages);
      }
    } else {
      s_ << " setp.eq.u32 q, " << at(kSteps) << ", 0;\n @q bra DONE;\nLOOP:\n";
      one_step(0);
      s_ << " setp.ne.and.u32 first, k, 0, t;\n";
      tell("first");
      s_ << " mov.u32 before, slot;\n"
         << next_place(ring_.stages) << " setp.lt.u32 q, k, " << at(kSteps) << ";\n @q bra LOOP;\n";
    }
    s_ << " wgmma.wait_group.sync.aligned 0;\n";
    tell("t");
    s_ << "DONE:\n}";
    return s_.str();
  }

 private:
  std::string at(int64_t operand) const { return text("$", first_ + operand); }

  void describe(const char* name, Operands base) {
    const bool stays = base == kLeft && ring_.steps > 0;
    s_ << " mad.lo.u32 at, " << (stays ? "k" : "slot") << ", "
       << (stays ? ring_.rows * kMatrixBytes : ring_.stage_bytes()) << ", " << at(base)
       << ";\n shr.u32 at, at, 4;\n and.b32 at, at, 16383;\n cvt.u64.u32 " << name << ", at;\n or.b64 " << name << ", "
       << name << ", " << tile_description() << ";\n";
  }

  // Waits for a tile, and begins to multiply it when the one before is done.
  void one_step(int64_t step) {
    const bool in_args = inst_.left_in_args();
    s_ << " shl.b32 bar, slot, 3;\n add.u32 bar, bar, " << at(kBarriers) << ";\n" << wait();
    if (!in_args) describe("left", kLeft);
    describe("right", kRight);
    s_ << " wgmma.fence.sync.aligned;\n";
    const int64_t parts = kMatrixBytes / size_of(factor_) / kind_.depth;
    for (int64_t part = 0; part < parts; ++part) {
      s_ << " wgmma.mma_async.sync.aligned.m64n" << ring_.columns << "k" << kind_.depth << "." << kind_.types << " {";
      for (int64_t i = 0; i < sums_; ++i) s_ << (i ? ", $" : "$") << i;
      s_ << "}, ";
      if (in_args) {
        s_ << "{";
        for (int64_t i = 0; i < 4; ++i) s_ << (i ? ", " : "") << at(kCount + (step * parts + part) * 4 + i);
        s_ << "}";
      } else {
        s_ << "left";
      }
      s_ << ", right, 1";
      if (kind_.turns) {
        s_ << ", 1, 1";
        for (const kernel::Region& region : inst_.regions) s_ << ", " << region.transposed;
      }
      s_ << ";\n";
      if (part + 1 == parts) break;
      // Along the rows of a box, or from one row to another.
      auto move = [&](const kernel::Region& r) { return r.transposed ? kind_.depth * kMatrixBytes / 16 : 2; };
      if (!in_args) s_ << " add.u64 left, left, " << move(inst_.regions[0]) << ";\n";
      s_ << " add.u64 right, right, " << move(inst_.regions.back()) << ";\n";
    }
    s_ << " wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 1;\n";
  }

  // The tile before this one has been read.
  void tell(const char* if_) {
    s_ << " shl.b32 bar, before, 3;\n add.u32 bar, bar, " << at(kBarriers) << ";\n @" << if_
       << " mbarrier.arrive.shared::cta.b64 _, [bar+" << 8 * ring_.stages << "];\n";
  }

  const kernel::Inst& inst_;
  const Ring& ring_;
  const DType factor_;
  const Kind kind_;
  const int64_t sums_;
  int64_t first_ = 0;  // operand behind the sums
  std::ostringstream s_;
};

// Copies into a ring. $0 ring, $1 barriers, $2 steps, $3 place, $4 parity, $5 tiles so far, then for each region its
// descriptor and its coordinates, which move by `moves` at each step.
class Copying {
 public:
  Copying(const kernel::Inst& inst, const Ring& ring, const std::vector<std::vector<int64_t>>& moves)
      : inst_(inst), ring_(ring), moves_(moves) {
    size_t operand = 6;
    for (const std::vector<int64_t>& region : moves) {
      operands_.push_back(operand);
      operand += 1 + region.size();
    }
  }

  std::string write() {
    s_ << "{\n .reg .pred q;\n .reg .b32 slot, par, bar, at, k, x;\n";
    for (size_t n = 0; n < moves_.size(); ++n)
      for (size_t d = 0; d < moves_[n].size(); ++d)
        s_ << " .reg .b32 c" << n << d << ";\n mov.b32 c" << n << d << ", $" << operands_[n] + 1 + d << ";\n";
    s_ << " setp.eq.u32 q, $2, 0;\n @q bra DONE;\n mov.u32 slot, $3;\n xor.b32 par, $4, 1;\n mov.u32 k, 0;\n";
    if (ring_.steps > 0) copy_what_stays();
    const int64_t stages = ring_.stages;
    s_ << "LOOP:\n shl.b32 bar, slot, 3;\n add.u32 bar, bar, $1;\n add.u32 bar, bar, " << 8 * stages << ";\n" << wait();
    s_ << " sub.u32 bar, bar, " << 8 * stages << ";\n";
    s_ << " mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " << ring_.stage_bytes() << ";\n";
    s_ << " mad.lo.u32 at, slot, " << ring_.stage_bytes() << ", $0;\n";
    for (size_t n = ring_.steps > 0 ? 1 : 0; n < moves_.size(); ++n) {
      copy_tile(n, ring_.stays() + (is_left(n) ? 0 : ring_.left()));
      move(n);
    }
    s_ << next_place(stages) << " setp.lt.u32 q, k, $2;\n @q bra LOOP;\nDONE:\n}";
    return s_.str();
  }

 private:
  bool is_left(size_t n) const { return n + 1 < moves_.size(); }

  // All of it, before the first tile.
  void copy_what_stays() {
    s_ << " setp.ne.u32 q, $5, 0;\n @q bra LOOP;\n add.u32 bar, $1, " << 16 * ring_.stages << ";\n";
    s_ << " mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " << ring_.stays() << ";\n mov.u32 at, $0;\n";
    for (int64_t step = 0; step < ring_.steps; ++step) {
      copy_tile(0, step * ring_.rows * kMatrixBytes);
      move(0);
    }
  }

  void copy_tile(size_t n, int64_t to) {
    const int64_t boxes = inst_.regions[n].transposed ? (is_left(n) ? ring_.rows : ring_.columns) / kMatrixRows : 1;
    for (int64_t box = 0; box < boxes; ++box) {
      s_ << " add.u32 x, c" << n << "0, " << box * kMatrixRows << ";\n";
      s_ << " cp.async.bulk.tensor." << moves_[n].size()
         << "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [at+" << to + box * kBox << "], [$"
         << operands_[n] << ", {x";
      for (size_t d = 1; d < moves_[n].size(); ++d) s_ << ", c" << n << d;
      s_ << "}], [bar];\n";
    }
  }

  void move(size_t n) {
    for (size_t d = 0; d < moves_[n].size(); ++d)
      if (moves_[n][d] != 0) s_ << " add.u32 c" << n << d << ", c" << n << d << ", " << moves_[n][d] << ";\n";
  }

  const kernel::Inst& inst_;
  const Ring& ring_;
  const std::vector<std::vector<int64_t>>& moves_;
  std::vector<size_t> operands_;  // the first of each region
  std::ostringstream s_;
};

std::string repeated(const char* item, size_t count) {
  std::string s;
  for (size_t i = 0; i < count; ++i) s += (i ? "," : "") + std::string(item);
  return s;
}

// Where a product stands in its ring.
struct Progress {
  llvm::Value *barriers, *steps, *place, *parity;
};
Progress progress(Emitter& emitter, const kernel::Inst& inst) {
  return {barriers_of(emitter, inst), word(emitter, inst.extent), word(emitter, mod(inst.address, inst.immediate)),
          word(emitter, mod(floordiv(inst.address, inst.immediate), 2))};
}

void copy_tiles(Emitter& emitter, const kernel::Inst& inst) {
  const Progress at = progress(emitter, inst);
  std::vector<llvm::Value*> args = {shared_address(emitter, inst.buffer), at.barriers, at.steps, at.place, at.parity,
                                    word(emitter, inst.address)};
  std::vector<std::vector<int64_t>> moves;
  std::string constraints = "r,r,r,r,r,r";
  for (size_t n = 0; n < inst.regions.size(); ++n) {
    args.push_back(emitter.tensor_map(inst, n));
    constraints += ",l";
    moves.emplace_back();
    for (const Expr& position : inst.regions[n].at) {
      Linear form{0, position};
      if (inst.var.is_var() && depends_on(position, inst.var)) {
        std::optional<Linear> found = linear_in(position, inst.var);
        if (!found) emitter.fail(text("a copy that moves to ", position));
        form = *found;
      }
      args.push_back(word(emitter, form.rest));
      constraints += ",r";
      moves.back().push_back(form.coefficient);
    }
  }
  const Ring ring = kernel::matrix_ring(emitter.kernel, inst);
  assemble(emitter, Copying(inst, ring, moves).write(), constraints, args);
}

bool has_product(const kernel::Inst& inst) {
  bool found = inst.op == kernel::Op::matrix_dot;
  for (const kernel::Body& code : inst.bodies)
    kernel::visit(code, [&](const kernel::Inst& inner) { found = found || inner.op == kernel::Op::matrix_dot; });
  return found;
}

// What the thread that copies does of a body: its loops, and the copies for its products.
void copy_for(Emitter& emitter, const kernel::Body& code) {
  for (const kernel::Inst& inst : code.insts) {
    if (!has_product(inst)) continue;
    if (inst.op == kernel::Op::matrix_dot) {
      copy_tiles(emitter, inst);
    } else if (inst.op == kernel::Op::loop) {
      llvm::Value* end = emitter.integer(inst.extent);
      emitter.counted_loop("loop", emitter.b.getInt64(0), end, inst.extent.lo() > 0, {},
                           [&](llvm::Value* i, const Emitter::Values&) {
                             emitter.bind(inst.var, i);
                             copy_for(emitter, inst.bodies[0]);
                             return Emitter::Values();
                           });
    } else {
      emitter.fail(text("a product of a matrix unit in a ", name(inst.op)));
    }
  }
}

void make_barriers(Emitter& emitter, const kernel::Phase& phase, int working) {
  auto& b = emitter.b;
  std::vector<const kernel::Inst*> found;
  kernel::visit(phase.body, [&](const kernel::Inst& inst) {
    auto same = [&](const kernel::Inst* other) { return other->buffer == inst.buffer; };
    if (inst.op == kernel::Op::matrix_dot && std::none_of(found.begin(), found.end(), same)) found.push_back(&inst);
  });
  llvm::Value* first = b.CreateICmpEQ(emitter.integer(emitter.kernel.thread), b.getInt64(0));
  emitter.when(first, [&] {
    for (const kernel::Inst* inst : found) {
      llvm::Value* at = barriers_of(emitter, *inst);
      const int64_t stages = inst->immediate, all = 2 * stages + (inst->regions[0].stays ? 1 : 0);
      for (int64_t i = 0; i < all; ++i)
        assemble(emitter,
                 text("mbarrier.init.shared::cta.b64 [$0+", 8 * i, "], ",
                      i < stages || i == 2 * stages ? 1 : working / 32, ";"),
                 "r", {at});
    }
    assemble(emitter, "fence.mbarrier_init.release.cluster;");
    assemble(emitter, "fence.proxy.async.shared::cta;");
  });
  emitter.traits.barrier(emitter);
}

// Registers for threads that copy, and for those that work beside them, out of what the block was launched with.
constexpr int kCopyingRegisters = 40;
int working_registers(int working) {
  constexpr int kCopying = static_cast<int>(kMatrixThreads);
  const int threads = working + kCopying, each = 65536 / threads / 8 * 8;
  return std::min((each * threads - kCopyingRegisters * kCopying) / working / 8 * 8, 232);
}

}  // namespace

void emit_phase(Emitter& emitter, const kernel::Phase& phase) {
  const int working = kernel::working_threads(emitter.kernel, phase);
  if (working == emitter.kernel.threads) return emitter.emit_body(phase.body, emitter.values);
  if (emitter.tensor_maps.empty()) emitter.fail("this machine has no matrix unit that copies");
  auto& b = emitter.b;
  make_barriers(emitter, phase, working);
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* copies = llvm::BasicBlock::Create(emitter.context, "copies", function);
  auto* works = llvm::BasicBlock::Create(emitter.context, "works", function);
  auto* after = llvm::BasicBlock::Create(emitter.context, "after", function);
  llvm::Value* thread = word(emitter, emitter.kernel.thread);
  llvm::Value* first_to_copy = b.getInt32(static_cast<uint32_t>(working));
  b.CreateCondBr(b.CreateICmpULT(thread, first_to_copy), works, copies);
  // One group that works has all it wants.
  const bool trade = working > kMatrixThreads;
  b.SetInsertPoint(copies);
  if (trade) assemble(emitter, text("setmaxnreg.dec.sync.aligned.u32 ", kCopyingRegisters, ";"));
  emitter.when(b.CreateICmpEQ(thread, first_to_copy), [&] { copy_for(emitter, phase.body); });
  b.CreateBr(after);
  b.SetInsertPoint(works);
  if (trade) assemble(emitter, text("setmaxnreg.inc.sync.aligned.u32 ", working_registers(working), ";"));
  emitter.working = working;
  emitter.emit_body(phase.body, emitter.values);
  emitter.working = 0;
  bool stores = false;
  kernel::visit(phase.body, [&](const kernel::Inst& inst) { stores |= inst.op == kernel::Op::matrix_store; });
  if (stores) assemble(emitter, "cp.async.bulk.wait_group 0;");
  b.CreateBr(after);
  after->moveAfter(&function->back());
  b.SetInsertPoint(after);
}

void barrier_of_workers(Emitter& emitter) { assemble(emitter, text("bar.sync 15, ", emitter.working, ";")); }

llvm::Value* Emitter::tensor_map(const kernel::Inst& inst, size_t number) {
  const std::vector<kernel::TensorMap> all = kernel::tensor_maps(kernel);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].inst == &inst && all[i].number == number) return tensor_maps.at(i);
  fail("a matrix without a descriptor");
}

// Sum or factor number i of a product, in the order of fragment(), as the matrix unit counts: eight columns after the
// other, each with two rows of two.
void Emitter::matrix_dot(const kernel::Inst& inst, Values& body_values) {
  const Ring ring = kernel::matrix_ring(kernel, inst);
  const DType factor = kernel.buffers[static_cast<size_t>(inst.regions[0].buffer)].dtype;
  llvm::Value* thread = word(*this, kernel.thread);
  llvm::Value* base = shared_address(*this, inst.buffer);
  const Progress at = progress(*this, inst);
  llvm::Value* group = b.CreateUDiv(thread, b.getInt32(kMatrixThreads));
  llvm::Value* left = b.CreateAdd(base, b.CreateMul(group, b.getInt32(kBox)));
  llvm::Value* right = b.CreateAdd(base, b.getInt32(static_cast<uint32_t>(ring.stays() + ring.left())));
  llvm::Value* tells = b.CreateZExt(b.CreateICmpEQ(b.CreateAnd(thread, b.getInt32(31)), b.getInt32(0)), b.getInt32Ty());

  const auto sums = static_cast<size_t>(ring.columns / 2);
  const size_t per_row = inst.results.size() / 2;
  llvm::Type* number = element(kernel.values[inst.results[0]].dtype);
  std::vector<llvm::Value*> args;
  std::string constraints = repeated(number->isFloatTy() ? "=&f" : "=&r", sums);
  for (size_t i = 0; i < sums && inst.sums_in_args() > 0; ++i) {
    const size_t vector = i / 4 + i % 4 / 2 * per_row;
    args.push_back(b.CreateExtractElement(splat(body_values[inst.args[vector]], 2), uint64_t{i % 2}));
    constraints += text(",", i);
  }
  for (llvm::Value* v : {left, right, at.barriers, at.steps, at.place, at.parity, tells}) args.push_back(v);
  constraints += "," + repeated("r", Multiplying::kCount);
  if (inst.left_in_args()) {
    // For 16 columns: both rows of the first eight, then those of the others.
    const size_t first = inst.sums_in_args(), row = (inst.args.size() - first) / 2;
    for (size_t i = 0; i < 2 * row; ++i) {
      llvm::Value* v = splat(body_values[inst.args[first + i / 4 * 2 + i % 4 / 2 + i % 2 * row]], 2);
      args.push_back(b.CreateBitCast(v, b.getInt32Ty()));
      constraints += ",r";
    }
  }
  llvm::Type* all = llvm::StructType::get(context, std::vector<llvm::Type*>(sums, number));
  llvm::Value* made = assemble(*this, all, Multiplying(inst, ring, factor).write(), constraints, args);
  for (size_t i = 0; i < inst.results.size(); ++i) {
    const auto from = static_cast<unsigned>(i % per_row * 4 + i / per_row * 2);
    llvm::Value* v = llvm::PoisonValue::get(llvm::FixedVectorType::get(number, 2));
    v = b.CreateInsertElement(v, b.CreateExtractValue(made, from), uint64_t{0});
    body_values[inst.results[i]] = b.CreateInsertElement(v, b.CreateExtractValue(made, from + 1), uint64_t{1});
  }
}

}  // namespace heddle::codegen
