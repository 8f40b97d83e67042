// OpenBLAS: products of f32. Which kernels it takes is decided when it is loaded, by OPENBLAS_CORETYPE.
#include <cblas.h>

#include <cstdlib>
#include <memory>

#include "worker.h"

namespace heddle::peers {
namespace {

std::function<void()> prepare(const Json& row) {
  if (row.at("work") != "matmul") throw Skip("products only");
  Matmul shape(row);
  if (shape.dtype != DType::f32) throw Skip(std::string("no ") + name(shape.dtype));
  auto a = std::make_shared<Memory>(shape.batch * shape.m * shape.k, DType::f32, 1);
  auto b = std::make_shared<Memory>(shape.batch * shape.k * shape.n, DType::f32, 2);
  auto c = std::make_shared<Memory>(shape.batch * shape.m * shape.n, DType::f32, 3);
  auto size = [](int64_t value) { return static_cast<blasint>(value); };
  blasint m = size(shape.m), k = size(shape.k), n = size(shape.n);
  blasint a_leading = shape.a_transposed ? m : k, b_leading = shape.b_transposed ? k : n;
  auto a_order = shape.a_transposed ? CblasTrans : CblasNoTrans;
  auto b_order = shape.b_transposed ? CblasTrans : CblasNoTrans;
  std::function<void()> action = [=] {
    for (int64_t z = 0; z < shape.batch; ++z)  // this version has no batches
      cblas_sgemm(CblasRowMajor, a_order, b_order, m, n, k, 1, a->as<float>() + z * shape.m * shape.k, a_leading,
                  b->as<float>() + z * shape.k * shape.n, b_leading, 0, c->as<float>() + z * shape.m * shape.n, n);
  };
  // A matrix with one row is a vector, for which there is a function of its own.
  if (shape.m == 1 && shape.batch == 1 && !shape.a_transposed)
    action = [=] {
      cblas_sgemv(CblasRowMajor, shape.b_transposed ? CblasNoTrans : CblasTrans, shape.b_transposed ? n : k,
                  shape.b_transposed ? k : n, 1, b->as<float>(), b_leading, a->as<float>(), 1, 0, c->as<float>(), 1);
    };
  action();
  shape.check(*a, *b, *c);
  return action;
}

}  // namespace
}  // namespace heddle::peers

int main(int argc, char** argv) {
  openblas_set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACK ..."
  std::string version = config.substr(0, config.find(' ', 9)).substr(9);
  return heddle::peers::serve({"OpenBLAS", version + ", " + openblas_get_corename(), heddle::peers::prepare});
}
