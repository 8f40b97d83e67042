// The machine that runs kernels, for interpreter*.cpp alone.
#pragma once

#include <vector>

#include "kernel/interpreter_program.h"

namespace heddle::kernel {

// Which threads of the block take part.
struct Mask {
  std::vector<uint8_t> on;
  int active = 0;

  explicit Mask(int threads, bool all = false) : on(static_cast<size_t>(threads), all), active(all ? threads : 0) {}
  void add(int thread) {
    on[thread] = 1;
    ++active;
  }
};

class Machine {
 public:
  Machine(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> sizes,
          std::span<const int64_t> symbols);
  void run();

 private:
  template <class F>
  void each_thread(const Mask& mask, F f) {
    for (int t = 0; t < threads_; ++t) {
      if (!mask.on[t]) continue;
      thread_ = t;
      if (program_.thread_slot >= 0) slots_[program_.thread_slot] = t;
      f(t);
    }
  }
  Cell* data(const Place& p, int thread) { return values_.data() + p.offset + thread * p.count; }
  Operand operand(const Step& s, size_t arg, int thread) {
    const Broadcast& b = s.broadcasts[arg];
    return {data(s.args[arg], thread), b.table.empty() ? nullptr : b.table.data(), b.single ? 0 : 1};
  }
  void copy(const Place& from, const Place& to, int thread) {
    std::copy_n(data(from, thread), from.count, data(to, thread));
  }
  [[noreturn]] void fail(const Step& s, const std::string& what) const;

  // The blocks of one round.
  void phase(const PhaseProgram& p, int64_t round, int64_t rounds);
  void run_body(const std::vector<Step>& steps, const Mask& mask) {
    for (const Step& s : steps) step(s, mask);
  }
  void step(const Step& s, const Mask& mask);
  // Fills address_ (when wanted) and guard_ for every element of s.dims.
  void elements(const Step& s, int thread, bool addresses);
  void memory(const Step& s, int thread);
  void index(const Step& s, int thread);
  void reduce(const Step& s, int thread);
  void scan(const Step& s, int thread);
  void scan_lanes(const Step& s, int thread);
  void dot(const Step& s, int thread);
  void panel_dot(const Step& s, int thread);
  // Calls f(row, column, cell) for the elements of a matrix unit's tile of so many columns that the thread holds.
  template <class F>
  void each_fragment(std::span<const Place> places, int64_t columns, int thread, F f);
  Fragment matrix_shape(const Step& s, std::span<const Place> places) const;
  // The element of a region at offset x along its dimension 0 and y along dimension 1; none outside the matrix.
  void region_element(const Step& s, size_t n, int64_t x, int64_t y, Cell& value, bool write);
  // Rows of a factor, `depth` numbers each, as numbers that sums are made of.
  std::vector<Cell> factor_tile(const Step& s, size_t n, int64_t rows, int64_t depth);
  void matrix_dot(const Step& s, const Mask& mask);
  void loop(const Step& s, const Mask& mask);
  void branch(const Step& s, const Mask& mask);
  void shuffle(const Step& s, const Mask& mask);
  // Fails unless all threads of each warp are active, or none.
  void whole_warps(const Step& s, const Mask& mask, const char* what) const;

  // A matrix unit that warps use (interpreter_warp.cpp).
  void warp_dot(const Step& s);
  void copy_in(const Step& s, int thread);
  void copy_fence(const Step& s, int thread);
  void load_matrix(const Step& s, const Mask& mask);
  void mma(const Step& s, const Mask& mask);

  const Kernel& kernel_;
  const int threads_;
  Program program_;
  std::vector<int64_t> slots_;
  std::vector<Cell> values_;
  std::vector<Memory> memory_;
  std::vector<int64_t> address_;
  std::vector<uint8_t> guard_;
  std::vector<Cell> carried_;
  int32_t epoch_ = 0;  // counts barriers and blocks: the period of shared memory
  int32_t phase_ = 0;  // from 1: the period of global memory
  int64_t block_ = 0;
  // What a thread has copied and not yet waited for.
  struct Copied {
    const Step* step;
    int64_t element;
    Cell value;
    int64_t group;
  };
  struct Copies {
    std::vector<Copied> on_their_way;
    int64_t groups = 0;  // closed by a fence
  };
  std::vector<Copies> copies_;  // by thread; none before the first copy or fence
  int thread_ = 0;
  int working_ = 1;  // threads in this phase
};

}  // namespace heddle::kernel
