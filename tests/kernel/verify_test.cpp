// Each rule of verify(): a kernel that keeps it, broken in one place.
#include <functional>

#include "run_kernel.h"

namespace heddle::kernel {
namespace {

const char* const kTile =
    R"(kernel @tile(in %x: f32[n * 64], out %y: f32[n * 64], in %idx: i32[n]) symbols(n in [1, 4096] multiple 1) {
  shared %s: f32[64]
  phase grid(i < n) {
    %0 = load %x[i * 64 + d1] : tile<1x64xf32>
    %1 = reduce add %0 axis 1 if d1 < n
    %2 = sub %0, %1
    %3 = loop k < 4 carry(%4 = %2) {
      %5 = add %4, %2
      yield %5
    }
    %6 = branch i < 5 {
      yield %3
    } else {
      %7 = neg %3
      yield %7
    }
    %8 = load %idx[i] : i32
    %9 = load %x[v0 * 64 + d1] with v0 < n = %8 : tile<1x64xf32>
    %10 = add %9, %6
    %11 = constant 0 : f32
    %12 = dot %10, %10, %11 axis 1
    store %y[i * 64 + d1], %10
    combine add %y[i * 64 + d1], %12
  }
}
)";
// Positions in the body of kTile.
enum { kLoad, kReduce, kSub, kLoop, kBranch, kIndices, kGather, kAdd, kConstant, kDot, kStore, kCombine };

const char* const kThread = R"(kernel.thread @thread(in %x: f32[256], out %y: f32[256]) threads 64 thread t {
  shared %s: f32[64]
  phase grid(i < 4) {
    %0 = load %x[i * 64 + t] : f32
    %1 = shuffle_xor %0, 1
    barrier
    %2 = load %x[d0] : vec<8xf32>
    %3 = reduce add %2 axis 0
    %4 = load %x[d0] : vec<2xf32>
    %5, %6 = transpose %4, %4
    store %y[i * 64 + t], %1
  }
}
)";

struct Broken {
  const char* message;
  std::function<void(Kernel&, std::vector<Inst>&)> damage;
};

void expect_refused(const char* text, const std::vector<Broken>& cases) {
  ASSERT_NO_THROW(verify(parse(text)));
  for (const Broken& c : cases) {
    Kernel k = parse(text);
    c.damage(k, k.phases[0].body.insts);
    std::string message = message_of<InternalError>([&] { verify(k); });
    EXPECT_CONTAINS(message, c.message);
    EXPECT_CONTAINS(message, "kernel @" + k.name);
  }
}

TEST(Verify, values_are_defined_once_and_before_their_use) {
  expect_refused(
      kTile, {
                 {"value %10 is not defined here", [](Kernel&, auto& b) { b[kSub].args[0] = 10; }},
                 {"value %5 is not defined here", [](Kernel&, auto& b) { b[kAdd].args[0] = 5; }},  // of the loop's body
                 {"value %7 is not defined here", [](Kernel&, auto& b) { b[kAdd].args[0] = 7; }},  // of a branch's side
                 {"value %3 is not defined here", [](Kernel&, auto& b) { b[kLoop].bodies[0].insts[0].args[0] = 3; }},
                 {"value %-1 is not defined here", [](Kernel&, auto& b) { b[kSub].args[0] = kNoValue; }},
                 {"value %99 is not defined here", [](Kernel&, auto& b) { b[kSub].args[0] = 99; }},
                 {"value %0 is defined twice", [](Kernel&, auto& b) { b[kReduce].results[0] = 0; }},
                 {"value %77 has no type", [](Kernel&, auto& b) { b[kSub].results[0] = 77; }},
                 {"value %7 is not defined here", [](Kernel&, auto& b) { b[kBranch].bodies[0].results[0] = 7; }},
             });
}

TEST(Verify, types_follow_from_operands) {
  expect_refused(kTile,
                 {
                     {"should be tile<1x64xf32>", [](Kernel& k, auto&) { k.values[2].shape = {1, 1}; }},
                     {"should be tile<1x1xf32>", [](Kernel& k, auto&) { k.values[1].shape = {1, 64}; }},
                     {"should be i32", [](Kernel&, auto& b) { b[kConstant].literal = Scalar::of(DType::i32, 0); }},
                     {"dtypes do not fit", [](Kernel&, auto& b) { b[kSub].op = Op::bit_and; }},
                     {"takes 1 operands, not 2", [](Kernel&, auto& b) { b[kSub].op = Op::neg; }},
                     {"gives 1 results, not 0", [](Kernel&, auto& b) { b[kSub].results = {}; }},
                     {"reduce over axis 5", [](Kernel&, auto& b) { b[kReduce].axis = 5; }},
                     {"axis out of range", [](Kernel&, auto& b) { b[kDot].axis = 2; }},
                     {"shape of the sum does not fit", [](Kernel&, auto& b) { b[kDot].args[2] = 10; }},
                     {"empty type", [](Kernel& k, auto&) { k.values[2].shape = {1, 0}; }},
                     {"gives tile<1x64xf32>", [](Kernel&, auto& b) { b[kLoad].op = Op::index; }},
                     {"sizes differ",
                      [](Kernel& k, auto& b) {
                        b[kSub].op = Op::bitcast;
                        b[kSub].args = {0};
                        k.values[2].dtype = DType::f64;
                      }},
                 });
}

TEST(Verify, scans_take_and_give_tiles_and_totals) {
  const char* text = R"(kernel @scan(in %x: f32[64], out %y: f32[64]) rounds {
  phase grid(r < 2) {
    %0 = constant 0 : tile<1x1xf32>
    %1 = load %x[r * 32 + d1] : tile<1x32xf32>
    %2, %3 = scan add %1, %0 axis 1
    store %y[r * 32 + d1], %2
  }
}
)";
  constexpr int kScan = 2;
  expect_refused(text, {
                           {"starts from", [](Kernel&, auto& b) { b[kScan].args[1] = b[kScan].args[0]; }},
                           {"should be tile<1x1xf32>", [](Kernel& k, auto&) { k.values[3].shape = {1, 32}; }},
                           {"should be tile<1x32xf32>", [](Kernel& k, auto&) { k.values[2].shape = {1, 1}; }},
                           {"takes 2 operands, not 1", [](Kernel&, auto& b) { b[kScan].args = {1}; }},
                           {"has no reducer", [](Kernel&, auto& b) { b[kScan].reducer = nullptr; }},
                           {"over axis 2", [](Kernel&, auto& b) { b[kScan].axis = 2; }},
                           {"does not count rounds", [](Kernel& k, auto&) { k.phases.emplace_back(); }},
                       });
}

TEST(Verify, a_bound_variable_may_have_no_upper_bound) {
  EXPECT_NO_THROW(verify(parse(R"(kernel @gather(in %x: f32[64], in %i: i32[1], out %y: f32[1]) {
  phase grid() {
    %0 = load %i[0] : i32
    %1 = load %x[v0] with v0 = %0 : f32
    store %y[0], %1
  }
}
)")));
}

TEST(Verify, variables_are_in_scope) {
  Expr stranger = Expr::index("stranger", 4);
  expect_refused(kTile, {
                            {"address stranger uses stranger", [&](Kernel&, auto& b) { b[kLoad].address = stranger; }},
                            {"guard stranger < 2", [&](Kernel&, auto& b) { b[kLoad].guard = lt(stranger, 2); }},
                            {"condition stranger < 2", [&](Kernel&, auto& b) { b[kBranch].guard = lt(stranger, 2); }},
                            {"condition", [&](Kernel&, auto& b) { b[kBranch].guard = lt(b[kLoad].coords[1], 2); }},
                            {"extent stranger uses stranger", [&](Kernel&, auto& b) { b[kLoop].extent = stranger; }},
                            {"size of a buffer stranger", [&](Kernel& k, auto&) { k.buffers[0].size = stranger; }},
                            {"address k uses k", [&](Kernel&, auto& b) { b[kLoad].address = b[kLoop].var; }},
                            {"the grid n uses n",
                             [](Kernel& k, auto&) {
                               k.symbols.clear();
                               for (Buffer& buffer : k.buffers) buffer.size = 64;
                             }},
                            {"loop variable i is already in scope",
                             [](Kernel& k, auto& b) {
                               b[kLoop].var = k.phases[0].blocks[0];
                               b[kLoop].extent = k.phases[0].blocks[0].extent();
                             }},
                            {"loop variable k of extent 4 runs to 5", [](Kernel&, auto& b) { b[kLoop].extent = 5; }},
                            {"loop variable 3 is not a variable", [](Kernel&, auto& b) { b[kLoop].var = 3; }},
                            {"symbol n stands twice", [](Kernel& k, auto&) { k.symbols.push_back(k.symbols[0]); }},
                        });
}

TEST(Verify, coordinates_match_the_shape) {
  expect_refused(kTile,
                 {
                     {"has 1 coordinates for 2 dimensions", [](Kernel&, auto& b) { b[kStore].coords.pop_back(); }},
                     {"coordinate 1 does not have the extent 64",
                      [](Kernel&, auto& b) { b[kStore].coords[1] = Expr::index("c", 32); }},
                     {"has 0 coordinates for 2 dimensions",
                      [](Kernel&, auto& b) {
                        b[kReduce].coords.clear();
                        b[kReduce].guard = lt(Expr::index("c", 9), 4);
                      }},
                     {"coordinate", [](Kernel&, auto& b) { b[kStore].coords[0] = b[kStore].coords[1]; }},
                     {"has coordinates", [](Kernel&, auto& b) { b[kSub].coords = {Expr::index("c", 64)}; }},
                 });
}

TEST(Verify, bound_variables_stand_for_integers) {
  expect_refused(kTile, {
                            {"is bound to f32",
                             [](Kernel& k, auto& b) {
                               k.values[8].dtype = DType::f32;
                               b[kIndices].buffer = 0;
                             }},
                            {"more bound variables than operands", [](Kernel&, auto& b) { b[kGather].args = {}; }},
                            {"takes 0 operands, not 1", [](Kernel&, auto& b) { b[kGather].args = {8, 8}; }},
                            {"is bound to tile<2x64xi32>",
                             [](Kernel& k, auto& b) {
                               k.values[8].shape = {2, 64};
                               b[kIndices].coords = {Expr::index("a", 2), Expr::index("b", 64)};
                             }},
                        });
}

TEST(Verify, buffers_exist_and_are_used_as_declared) {
  expect_refused(kTile, {
                            {"buffer 9 does not exist", [](Kernel&, auto& b) { b[kLoad].buffer = 9; }},
                            {"buffer -1 does not exist", [](Kernel&, auto& b) { b[kStore].buffer = -1; }},
                            {"writes to the input %x", [](Kernel&, auto& b) { b[kStore].buffer = 0; }},
                            {"writes to the input %x", [](Kernel&, auto& b) { b[kCombine].buffer = 0; }},
                            {"buffer %idx holds i32, not f32", [](Kernel&, auto& b) { b[kLoad].buffer = 2; }},
                            {"shared buffer %s has size n", [](Kernel& k, auto&) { k.buffers[3].size = k.symbols[0]; }},
                        });
  Kernel k = parse(kTile);
  k.phases[0].body.insts[kLoad].buffer = 1;
  EXPECT_NO_THROW(verify(k)) << "an output may be read";
}

TEST(Verify, blocks_fit_their_instruction) {
  expect_refused(kTile, {
                            {"its body gives 0", [](Kernel&, auto& b) { b[kLoop].bodies[0].results.clear(); }},
                            {"into 0 parameters",
                             [](Kernel&, auto& b) {
                               b[kLoop].bodies[0].params.clear();
                               b[kLoop].bodies[0].insts[0].args[0] = 2;
                             }},
                            {"carries tile<1x64xf32>", [](Kernel&, auto& b) { b[kLoop].bodies[0].results[0] = 1; }},
                            {"has 2 bodies", [](Kernel&, auto& b) { b[kLoop].bodies.emplace_back(); }},
                            {"has 1 bodies", [](Kernel&, auto& b) { b[kBranch].bodies.pop_back(); }},
                            {"a side gives 0", [](Kernel&, auto& b) { b[kBranch].bodies[1].results.clear(); }},
                            {"should be tile<1x1xf32>", [](Kernel&, auto& b) { b[kBranch].bodies[0].results[0] = 1; }},
                            {"has bodies", [](Kernel&, auto& b) { b[kSub].bodies.emplace_back(); }},
                            {"the body of a phase", [](Kernel& k, auto&) { k.phases[0].body.results = {0}; }},
                        });
}

TEST(Verify, reducers_are_closed_scalar_programs) {
  auto damaged = [](std::function<void(Reducer&)> damage) {
    return [damage](Kernel&, std::vector<Inst>& b) {
      auto r = std::make_shared<Reducer>(*b[kReduce].reducer);
      damage(*r);
      b[kReduce].reducer = r;
    };
  };
  expect_refused(
      kTile,
      {
          {"has no reducer", [](Kernel&, auto& b) { b[kReduce].reducer = nullptr; }},
          {"has no reducer", [](Kernel&, auto& b) { b[kCombine].reducer = nullptr; }},
          {"combine needs a simple reducer",
           [](Kernel&, auto& b) {
             auto r = std::make_shared<Reducer>(*b[kReduce].reducer);
             r->identity[0] = Scalar::of(DType::f32, 5);
             b[kCombine].reducer = r;
           }},
          {"takes 2 operands", [](Kernel&, auto& b) { b[kReduce].reducer = arg_reducer(true, DType::f32); }},
          {"reducer of i32", [](Kernel&, auto& b) { b[kReduce].reducer = simple_reducer(ScalarOp::add, DType::i32); }},
          {"has 1 parameters", damaged([](Reducer& r) { r.combine.params.pop_back(); })},
          {"reducer uses load", damaged([](Reducer& r) { r.combine.insts[0].op = Op::load; })},
          {"reducer computes with tile<4xf32>", damaged([](Reducer& r) { r.values[0].shape = {4}; })},
          {"value %9 is not defined", damaged([](Reducer& r) { r.combine.results[0] = 9; })},
          {"reducer of no values", damaged([](Reducer& r) { r = Reducer(); })},
      });
}

TEST(Verify, thread_level_has_its_own_rules) {
  enum { kLoadOne, kShuffle, kBarrier, kLoadVector, kReduceVector };
  expect_refused(kThread,
                 {
                     {"rank above 1 at thread level", [](Kernel& k, auto&) { k.values[2].shape = {2, 4}; }},
                     {"lane mask 32 is outside the warp", [](Kernel&, auto& b) { b[kShuffle].immediate = 32; }},
                     {"should be f32", [](Kernel& k, auto&) { k.values[3].shape = {1}; }},
                     {"runs 0 threads", [](Kernel& k, auto&) { k.threads = 0; }},
                     {"the thread 0 is not a variable", [](Kernel& k, auto&) { k.thread = 0; }},
                     {"runs to 65", [](Kernel& k, auto&) { k.threads = 65; }},
                     {"uses t, which is not in scope", [](Kernel& k, auto&) { k.threads = 1; }},
                     {"uses t, which is not in scope", [](Kernel& k, auto&) { k.level = Level::Tile; }},
                     {"shuffle in a kernel of one thread",
                      [](Kernel& k, auto& b) {
                        k.threads = 1;
                        b[kLoadOne].address = 0;
                      }},
                     {"barrier in a kernel of one thread",
                      [](Kernel& k, auto& b) {
                        k.level = Level::Tile;
                        b = {b[kBarrier]};
                      }},
                     {"variable v is bound to f32",
                      [](Kernel& k, auto& b) {
                        k.level = Level::Tile;
                        k.threads = 1;
                        Inst load = b[kLoadOne], branch;
                        load.address = 0;
                        branch.op = Op::branch;
                        branch.guard = Expr::index("v", 2);
                        branch.binds = {branch.guard};
                        branch.args = {0};
                        branch.bodies.resize(2);
                        b = {load, branch};
                      }},
                     {"dot at thread level", [](Kernel&, auto& b) { b[kShuffle].op = Op::dot; }},
                 });
}

}  // namespace
}  // namespace heddle::kernel
