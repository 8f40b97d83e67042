// Captured functions: recorded once for each kind of arguments, compiled as one program, then replayed.
#pragma once

#include <heddle/parts.h>

#include <functional>
#include <iosfwd>
#include <source_location>
#include <typeinfo>

namespace heddle {

// What a captured function compiled for one kind of arguments.
struct JitPlan {
  std::string signature;                                                      // "f32[128, 784], i64[128]"
  uint64_t launches = 0, bytes_read = 0, bytes_written = 0, arena_bytes = 0;  // of one call
  uint64_t arena_lower_bound = 0;  // the most bytes of temporaries that are in use at one time
  // Tensors that the function changes: those that can be updated in place, and those that need a second buffer.
  uint64_t donated = 0, copied = 0;
  std::vector<std::string> copies;   // for each of the latter what it is, and why
  uint64_t kept_bytes = 0;           // what stays packed from call to call, of tensors that did not change
  uint64_t copied_because_held = 0;  // updates in place that were not, because somebody else held the old value
  uint64_t calls = 0, recordings = 0;
  double capture_seconds = 0, compile_seconds = 0;
};
std::ostream& operator<<(std::ostream& out, const JitPlan& plan);
std::string to_string(const JitPlan& plan);

// Whether the calling thread is recording a captured function.
bool is_capturing();

// All captured functions record again when they are called next: something that they may close over, and that is no
// tensor, has changed. `train()` and `eval()` of a module say so.
void forget_recordings();

class JitCore;
struct JitLane;

// One call of a captured function on its way; for Jit alone.
class JitCall {
 public:
  explicit JitCall(JitCore& core);
  ~JitCall();
  JitCall(const JitCall&) = delete;
  JitCall& operator=(const JitCall&) = delete;

  Parts& arguments();  // to be filled first
  // Whether an argument stands for something else at the moment: grad(f), vmap(f) or the like call the function.
  bool is_transformed() const;
  bool must_record();  // waits for calls in other threads where it must

  // While one exists operators record, and stand-ins are where the tensors of the function's arguments were.
  class Recording {
   public:
    // `inside` takes the function's own copies of the arguments apart.
    Recording(JitCall& call, std::function<void(Parts&)> inside);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    void finish();  // result() has been filled; its tensors are taken out

   private:
    std::vector<Tensor*> put_back();
    JitCall& call_;
    std::function<void(Parts&)> inside_;
  };
  Parts& result();
  void set_prototype(std::shared_ptr<const void> prototype);  // the result without its tensors

  bool run();  // false: begin again with must_record()
  const void* prototype() const;
  void deliver();  // tensors into what result() points at

 private:
  void move_to(JitLane& lane);
  JitCore& core_;
  JitLane* lane_;           // where the call is at the moment
  JitLane* own_ = nullptr;  // which it has besides the first one
};

// A captured function that runs as the plain function inside of something that records, for Jit alone. Throws
// CaptureError when it calls itself without end.
class JitNesting {
 public:
  explicit JitNesting(const JitCore& core);
  ~JitNesting();
  JitNesting(const JitNesting&) = delete;
  JitNesting& operator=(const JitNesting&) = delete;
};

class JitBase {
 public:
  // What was compiled so far, one entry for each kind of arguments. Neither this nor clear() works inside the function.
  std::vector<JitPlan> plans() const;
  // Forgets everything that was compiled.
  void clear();

 protected:
  explicit JitBase(const std::source_location& where);
  explicit JitBase(const std::string& place);  // where the function is, for messages
  std::shared_ptr<JitCore> core_;
};

template <class F>
class Jit : public JitBase {
 public:
  Jit(F f, const std::source_location& where) : JitBase(where), f_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... arguments) const {
    constexpr bool kFits = std::is_invocable_v<F&, std::decay_t<A>&...>;
    static_assert(kFits, "the captured function does not take these arguments: their number or types are others");
    if constexpr (kFits) return run(arguments...);
  }

 private:
  template <class... A>
  auto run(A&... arguments) const {
    using R = std::decay_t<std::invoke_result_t<F&, std::decay_t<A>&...>>;
    if (!is_capturing()) {
      JitCall call(*core_);
      call.arguments().add_word(type_word<std::tuple<std::decay_t<A>...>>());
      (collect(call.arguments(), arguments), ...);
      if (!call.is_transformed()) {
        do {
          if (call.must_record()) record<R>(call, arguments...);
        } while (!call.run());
        if constexpr (std::is_void_v<R>) {
          return;
        } else {
          R result = *static_cast<const R*>(call.prototype());
          collect(call.result(), result);
          call.deliver();
          return result;
        }
      }
    }
    JitNesting nesting(*core_);
    return static_cast<R>(std::invoke(f_, arguments...));
  }

  // The function works on copies of the arguments, in which other tensors stand for those that were given.
  template <class R, class... A>
  void record(JitCall& call, A&... arguments) const {
    std::tuple<std::decay_t<A>...> inside(arguments...);
    JitCall::Recording recording(call, [&](Parts& parts) { collect(parts, inside); });
    if constexpr (std::is_void_v<R>) {
      std::apply(f_, inside);
      recording.finish();
    } else {
      R result = std::apply(f_, inside);
      collect(call.result(), result);
      recording.finish();
      call.set_prototype(std::make_shared<const R>(std::move(result)));
    }
  }

  mutable F f_;  // may have state of its own, as any function object
};

// A function that is recorded, compiled as a whole, and from then on replayed without building a graph:
//
//   auto step = jit([&](Tensor x, Tensor t) {
//     Tensor loss = mean(square(matmul(x, w) - t));
//     w -= matmul(transpose(x), matmul(x, w) - t) * 0.01;
//     return loss;
//   });
//   for (...) step(x, t);
//
// Arguments and results are anything that collect() (parts.h) takes apart. There is one plan for each combination of
// shapes, dtypes, structure, values of numbers and settings of modules among the arguments, of which of them are the
// same tensor, and of which require gradients. A module that cannot say what decides what it computes (nn/visitor.h) is
// recorded at each call. Tensors that the function closes over are read
// anew at each call, and those it assigns to are changed at each call, in place where nobody can notice. Random
// numbers are new at each call: exactly those that the plain function would draw. Results stay as they are when the
// function is called again.
//
// C++ code inside runs while recording only. Numbers it closes over are frozen; pass numbers that change as arguments,
// or keep them in tensors. Looking at a value inside throws CaptureError. The first two calls record, and throw
// CaptureError if both recordings differ. A call that throws leaves all tensors as they were. Generators that are used
// must live as long as the function. Calls from several threads run at the same time where the function changes nothing
// and draws nothing, and take turns otherwise; others see all changes of a call or none.
//
// Results are constants for gradients: take gradients inside. Where grad(f), vjp, jvp, vmap or checkpoint call it, and
// inside of another captured function, it is the plain function.
template <class F>
Jit<std::decay_t<F>> jit(F&& f, const std::source_location& where = std::source_location::current()) {
  return Jit<std::decay_t<F>>(std::forward<F>(f), where);
}

}  // namespace heddle
