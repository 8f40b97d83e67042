#include "worker.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <random>

#include "core/scalar.h"
#include "tools/measure.h"

namespace heddle::peers {
namespace {

void answer(const Json& json) {
  std::printf("%s\n", json.dump().c_str());
  std::fflush(stdout);
}

}  // namespace

Memory::Memory(int64_t count, DType dtype, uint64_t seed) : dtype_(dtype) {
  constexpr size_t kHuge = size_t{2} << 20;
  size_t bytes = static_cast<size_t>(count) * static_cast<size_t>(size_of(dtype));
  bytes = (bytes + kHuge - 1) / kHuge * kHuge;
  data_ = std::aligned_alloc(kHuge, bytes);
  if (!data_) throw std::bad_alloc();
  madvise(data_, bytes, MADV_HUGEPAGE);  // a wish
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    double value = static_cast<double>(random() >> 40) / (1 << 23) - 1;
    if (dtype == DType::f32)
      as<float>()[i] = static_cast<float>(value);
    else
      store_scalar(data_, i, Scalar::of(dtype, is_float(dtype) ? value : std::floor(value * 100)));
  }
}

Memory::~Memory() { std::free(data_); }

double Memory::at(int64_t element) const { return load_scalar(data_, element, dtype_).as_double(); }

void check_element(DType dtype, double got, double want, double terms) {
  double rounding = is_float(dtype) ? std::ldexp(1, -precision(dtype)) : 0;
  if (!(std::fabs(got - want) <= rounding * std::fabs(want) + (is_float(dtype) ? 0x1p-20 * terms : 0)))
    throw Skip("wrong: an element is " + std::to_string(got) + ", not " + std::to_string(want));
}

Matmul::Matmul(const Json& row)
    : dtype(dtype_from_name(row.at("dtype").get<std::string>())),
      result(dtype == DType::i8 ? DType::i32 : dtype),
      batch(row.at("batch")),
      m(row.at("m")),
      k(row.at("k")),
      n(row.at("n")) {
  std::string transpose = row.at("transpose");
  a_transposed = transpose.at(0) == 't';
  b_transposed = transpose.at(1) == 't';
}

void Matmul::check(const Memory& a, const Memory& b, const Memory& c) const {
  std::mt19937_64 random(1);
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int sample = 0; sample < 16; ++sample) {
    int64_t z = below(batch), i = below(m), j = below(n);
    double want = 0, terms = 0;
    for (int64_t l = 0; l < k; ++l) {
      double term = a.at(z * m * k + i * a_row_stride() + l * a_column_stride()) *
                    b.at(z * k * n + l * b_row_stride() + j * b_column_stride());
      want += term;
      terms += std::fabs(term);
    }
    check_element(result, c.at((z * m + i) * n + j), want, terms);
  }
}

int serve(const Peer& peer) {
  answer({{"name", peer.name}, {"about", peer.about}});
  std::function<void()> action;
  int calls = 1;
  for (std::string line; std::getline(std::cin, line);) {
    Json message = Json::parse(line);
    if (message.contains("row")) {
      action = nullptr;  // its memory goes first
      try {
        action = peer.prepare(message.at("row"));
        calls = tools::calls_per_sample(action);
        answer({{"ready", true}});
      } catch (const Skip& skip) {
        answer({{"skip", skip.what()}});
      }
    } else {
      tools::Samples samples;
      tools::take_segment(action, calls, message.at("seconds"), samples);
      answer({{"times", samples.seconds}});
    }
  }
  return 0;
}

}  // namespace heddle::peers
