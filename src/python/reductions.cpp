// Reductions and scans.
#include "python/bind.h"
#include "python/function.h"

namespace heddle::python {

void bind_reductions(nb::module_& module) {
  static constexpr Row rows[] = {
      {"sum(x, dim=None, keepdim=False)", call<heddle::sum>},
      {"prod(x, dim=None, keepdim=False)", call<heddle::prod>},
      {"nansum(x, dim=None, keepdim=False)", call<heddle::nansum>},
      {"nanprod(x, dim=None, keepdim=False)", call<heddle::nanprod>},
      {"max(x, dim=None, keepdim=False)", call<heddle::max>},
      {"min(x, dim=None, keepdim=False)", call<heddle::min>},
      {"amax(x, dim=None, keepdim=False)", call<heddle::amax>},
      {"amin(x, dim=None, keepdim=False)", call<heddle::amin>},
      {"nanmax(x, dim=None, keepdim=False)", call<heddle::nanmax>},
      {"nanmin(x, dim=None, keepdim=False)", call<heddle::nanmin>},
      {"ptp(x, dim=None, keepdim=False)", call<heddle::ptp>},
      {"mean(x, dim=None, keepdim=False)", call<heddle::mean>},
      {"nanmean(x, dim=None, keepdim=False)", call<heddle::nanmean>},
      {"logsumexp(x, dim=None, keepdim=False)", call<heddle::logsumexp>},
      {"any(x, dim=None, keepdim=False)", call<heddle::any>},
      {"all(x, dim=None, keepdim=False)", call<heddle::all>},
      {"count_nonzero(x, dim=None, keepdim=False)", call<heddle::count_nonzero>},
      {"average(x, weights, dim=None, keepdim=False)", call<average>},
      {"var(x, dim=None, keepdim=False, correction=1)", call<heddle::var>},
      {"std(x, dim=None, keepdim=False, correction=1)", call<heddle::std>},
      {"nanvar(x, dim=None, keepdim=False, correction=1)", call<nanvar>},
      {"nanstd(x, dim=None, keepdim=False, correction=1)", call<nanstd>},
      {"norm(x, p=2.0, dim=None, keepdim=False)", call<heddle::norm>},
      {"argmax(x, dim=None, keepdim=False)", call<argmax>},
      {"argmin(x, dim=None, keepdim=False)", call<argmin>},
      {"cumsum(x, dim=None)", call<cumsum>},
      {"cumprod(x, dim=None)", call<cumprod>},
      {"cummax(x, dim=None)", call<cummax>},
      {"cummin(x, dim=None)", call<cummin>},
      {"cummax_with_indices(x, dim=None)", call<cummax_with_indices>},
      {"cummin_with_indices(x, dim=None)", call<cummin_with_indices>},
      {"softmax(x, dim=-1)", call<softmax>},
      {"softmin(x, dim=-1)", call<softmin>},
      {"log_softmax(x, dim=-1)", call<log_softmax>},
  };
  add_functions(module, rows);
}

}  // namespace heddle::python
