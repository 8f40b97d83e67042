// How results of NVIDIA's matrix unit leave: through two boxes of shared memory for each warp group, each of 64 rows by
// 128 bytes. Their 16-byte parts lie swizzled, which copies expect, and which keeps both sides free of conflicts.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "base/error.h"
#include "codegen/nvptx_asm.h"
#include "kernel/tensor_maps.h"

namespace heddle::codegen {
namespace {

using kernel::kMatrixBytes;
using kernel::kMatrixRows;
using kernel::kMatrixThreads;

class Leaving {
 public:
  Leaving(Emitter& emitter, const kernel::Inst& inst, const Emitter::Values& values)
      : e_(emitter), b_(emitter.b), inst_(inst), region_(inst.regions[0]), values_(values) {
    size_ = size_of(e_.kernel.buffers[static_cast<size_t>(region_.buffer)].dtype);
    vectors_ = static_cast<int64_t>(inst.args.size()) / 2;
    per_box_ = kMatrixBytes / (8 * size_);
    boxes_ = vectors_ / per_box_;
    llvm::Value* thread = word(e_, e_.kernel.thread);
    group_ = b_.CreateUDiv(thread, b_.getInt32(kMatrixThreads));
    llvm::Value* own = b_.CreateURem(thread, b_.getInt32(kMatrixThreads));
    first_ = b_.CreateICmpEQ(own, b_.getInt32(0));
    lane_ = b_.CreateAnd(thread, b_.getInt32(31));
    warp_row_ = b_.CreateMul(b_.CreateLShr(own, b_.getInt32(5)), b_.getInt32(16));
    staging_ = b_.CreateAdd(shared_address(e_, inst.buffer), b_.CreateMul(group_, number(2 * kBox)));
    for (const Expr& at : region_.at) corner_.push_back(word(e_, at));
    top_ = b_.CreateAdd(corner_[1], b_.CreateMul(group_, b_.getInt32(kMatrixRows)));
  }

  // By the machine's copies: one box is written while the other leaves.
  void by_copies(llvm::Value* map) {
    for (int64_t box = 0; box < boxes_; ++box) {
      when_first(box == 0 ? "cp.async.bulk.wait_group.read 0;" : "cp.async.bulk.wait_group.read 1;");
      together();
      fill(box, box % 2);
      assemble(e_, "fence.proxy.async.shared::cta;");
      together();
      e_.when(first_, [&] { copy(map, box); });
    }
  }

  // By the threads, for rows that begin anywhere: each warp stores its own rows, word after word.
  void by_words() {
    when_first("cp.async.bulk.wait_group.read 0;");
    together();
    for (int64_t box = 0; box < boxes_; box += 2) {
      const int64_t count = std::min<int64_t>(2, boxes_ - box);
      if (box > 0) assemble(e_, kWarpMeets);
      for (int64_t i = 0; i < count; ++i) fill(box + i, i);
      assemble(e_, kWarpMeets);
      constexpr int kAtOnce = 4, kRows = 16;
      e_.counted_loop("rows", b_.getInt64(0), b_.getInt64(kRows / kAtOnce), true, {},
                      [&](llvm::Value* i, const Emitter::Values&) {
                        llvm::Value* from = b_.CreateMul(b_.CreateTrunc(i, b_.getInt32Ty()), b_.getInt32(kAtOnce));
                        std::vector<Row> rows;
                        for (int r = 0; r < kAtOnce; ++r)
                          rows.push_back(load_row(b_.CreateAdd(from, number(r)), box, count));
                        for (const Row& row : rows) store_row(row);
                        return Emitter::Values();
                      });
    }
  }

 private:
  static constexpr const char* kWarpMeets = "bar.warp.sync 0xffffffff;";

  llvm::Value* number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  void when_first(const char* code) {
    e_.when(first_, [&] { assemble(e_, code); });
  }
  void together() { assemble(e_, "bar.sync $0, 128;", "r", {b_.CreateAdd(group_, b_.getInt32(1))}); }

  // Where a byte of a row of this group's box number `place` lies.
  llvm::Value* staged(llvm::Value* row, llvm::Value* byte, int64_t place) {
    llvm::Value* part = b_.CreateXor(b_.CreateLShr(byte, number(4)), b_.CreateAnd(row, number(7)));
    llvm::Value* at = b_.CreateAdd(b_.CreateMul(row, number(kMatrixBytes)), b_.CreateShl(part, number(4)));
    at = b_.CreateAdd(b_.CreateAdd(at, b_.CreateAnd(byte, number(15))), staging_);
    return b_.CreateIntToPtr(b_.CreateAdd(at, number(place * kBox)), llvm::PointerType::get(e_.context, kSharedSpace));
  }

  // Writes the fragments of a box into the one at `place`.
  void fill(int64_t box, int64_t place) {
    llvm::Value *row = b_.CreateLShr(lane_, number(2)), *quarter = b_.CreateAnd(lane_, number(3));
    for (int64_t j = 0; j < per_box_; ++j)
      for (int64_t half = 0; half < 2; ++half) {
        llvm::Value* v = e_.splat(values_[inst_.args[static_cast<size_t>(half * vectors_ + box * per_box_ + j)]], 2);
        llvm::Value* byte = b_.CreateAdd(b_.CreateMul(quarter, number(2 * size_)), number(8 * size_ * j));
        llvm::Value* at = staged(b_.CreateAdd(b_.CreateAdd(warp_row_, row), number(8 * half)), byte, place);
        b_.CreateAlignedStore(v, at, llvm::Align(static_cast<uint64_t>(2 * size_)));
      }
  }

  void copy(llvm::Value* map, int64_t box) {
    std::vector<llvm::Value*> args = {map, b_.CreateAdd(staging_, number(box % 2 * kBox))};
    std::string list, constraints = "l,r";
    for (size_t d = 0; d < corner_.size(); ++d) {
      list += text(d ? ", " : "", "$", 2 + d);
      constraints += ",r";
      args.push_back(d == 1 ? top_ : corner_[d]);
    }
    args[2] = b_.CreateAdd(corner_[0], number(box * 8 * per_box_));
    assemble(e_,
             text("cp.async.bulk.tensor.", corner_.size(), "d.global.shared::cta.tile.bulk_group [$0, {", list,
                  "}], [$1];\n cp.async.bulk.commit_group;"),
             constraints, args);
  }

  // A part of a row in registers, and where it goes.
  struct Row {
    llvm::Value *left, *pointer;            // elements that exist; where the first of them goes
    llvm::Value* odd;                       // whether an element comes before the first whole word
    std::vector<llvm::Value*> words, next;  // of each 32 the lane's one, and the one behind it
  };

  // Row `i` of the warp's, `count` boxes of it.
  Row load_row(llvm::Value* i, int64_t box, int64_t count) {
    const int64_t words = count * kMatrixBytes / 4, first_column = box * 8 * per_box_;
    llvm::Value* row = b_.CreateAdd(warp_row_, i);
    Row made;
    made.left = b_.CreateSub(word(e_, region_.extents[0]), b_.CreateAdd(corner_[0], number(first_column)));
    llvm::Value* exists = b_.CreateICmpSLT(b_.CreateAdd(top_, row), word(e_, region_.extents[1]));
    made.left = b_.CreateSelect(exists, made.left, number(0));
    Expr offset = region_.offset + region_.at[0] + first_column;
    for (size_t d = 1; d < region_.at.size(); ++d) offset = offset + region_.at[d] * region_.strides[d];
    llvm::Value* down = b_.CreateAdd(b_.CreateMul(group_, number(kMatrixRows)), row);
    llvm::Value* element = b_.CreateAdd(
        e_.integer(offset),
        b_.CreateMul(b_.CreateZExt(down, b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(region_.strides[1]))));
    llvm::Value* base = e_.buffers[static_cast<size_t>(region_.buffer)];
    made.pointer = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(element, b_.getInt64(static_cast<uint64_t>(size_))));
    made.odd = b_.CreateTrunc(b_.CreatePtrToInt(made.pointer, b_.getInt64Ty()), b_.getInt32Ty());
    made.odd = b_.CreateAnd(b_.CreateLShr(made.odd, number(1)), number(1));
    auto load = [&](llvm::Value* n) {
      llvm::Value* byte = b_.CreateAnd(b_.CreateShl(n, number(2)), number(kMatrixBytes - 1));
      llvm::Value* at =
          b_.CreateGEP(b_.getInt8Ty(), staged(row, byte, 0), b_.CreateMul(b_.CreateLShr(n, number(5)), number(kBox)));
      return b_.CreateAlignedLoad(b_.getInt32Ty(), at, llvm::Align(4));
    };
    for (int64_t part = 0; part < words; part += 32) {
      llvm::Value* which = b_.CreateAdd(lane_, number(part));
      made.words.push_back(load(which));
      // Behind the last one anything will do.
      if (size_ == 2) made.next.push_back(load(b_.CreateAnd(b_.CreateAdd(which, number(1)), number(words - 1))));
    }
    return made;
  }

  // Elements of two bytes leave in pairs that begin at whole words: where the row does not, they are the second half of
  // one word and the first of the next, and one element is left at each end.
  void store_row(const Row& row) {
    auto put = [&](llvm::Value* v, llvm::Value* at, llvm::Value* if_) {
      e_.when(if_, [&] {
        llvm::Value* to = b_.CreateGEP(b_.getInt8Ty(), row.pointer, b_.CreateZExt(at, b_.getInt64Ty()));
        b_.CreateAlignedStore(v, to, llvm::Align(v->getType()->getPrimitiveSizeInBits() / 8));
      });
    };
    auto half = [&](llvm::Value* two) { return b_.CreateTrunc(two, b_.getInt16Ty()); };
    const auto parts = static_cast<int64_t>(row.words.size());
    llvm::Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row.left, number(64 * parts));
    if (size_ == 2) {
      llvm::Value* begins = b_.CreateAnd(b_.CreateICmpEQ(lane_, number(0)), b_.CreateICmpEQ(row.odd, number(1)));
      put(half(row.words[0]), number(0), b_.CreateAnd(begins, b_.CreateICmpSGT(row.left, number(0))));
    }
    for (int64_t part = 0; part < parts; ++part) {
      llvm::Value* which = b_.CreateAdd(lane_, number(32 * part));
      llvm::Value* v = row.words[static_cast<size_t>(part)];
      if (size_ == 4) {
        put(v, b_.CreateShl(which, number(2)), b_.CreateICmpSLT(which, row.left));
        continue;
      }
      // Bytes 0 to 3 of the two words, or 2 to 5.
      llvm::Value* bytes = b_.CreateAdd(b_.CreateMul(row.odd, number(0x2222)), number(0x3210));
      v = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {}, {v, row.next[static_cast<size_t>(part)], bytes});
      llvm::Value* element = b_.CreateAdd(b_.CreateShl(which, number(1)), row.odd);
      llvm::Value* second = b_.CreateAdd(element, number(1));
      put(v, b_.CreateShl(element, number(1)), b_.CreateICmpSLT(second, end));
      put(half(v), b_.CreateShl(element, number(1)), b_.CreateICmpEQ(second, end));
    }
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const kernel::Inst& inst_;
  const kernel::Region& region_;
  const Emitter::Values& values_;
  int64_t size_, vectors_, per_box_, boxes_;  // bytes of an element; vectors of a row; those of a box
  llvm::Value *group_, *first_, *lane_, *warp_row_, *staging_, *top_;
  std::vector<llvm::Value*> corner_;
};

}  // namespace

void Emitter::matrix_store(const kernel::Inst& inst, const Values& body_values) {
  Leaving leaving(*this, inst, body_values);
  if (kernel::is_copied(kernel, inst.regions[0]))
    leaving.by_copies(tensor_map(inst, 0));
  else
    leaving.by_words();
}

}  // namespace heddle::codegen
