// Arguments of kernels that describe tensors in memory, which the driver writes for each launch.
#pragma once
#include <vector>

#include "device.h"

namespace tw {

// The arguments of a launch as its kernel takes them: tensor maps in place of addresses. A few lie on the stack.
class KernelArgs {
 public:
  // Throws where the driver makes no tensor maps, or not of such a tensor.
  KernelArgs(const CudaDevice& device, const TWLaunch& launch);
  KernelArgs(const KernelArgs&) = delete;
  void** get() const { return args_; }

 private:
  static constexpr size_t kFewArgs = 24, kFewMaps = 4;
  void** args_;
  void* few_[kFewArgs];
  CUtensorMap few_maps_[kFewMaps];
  std::vector<void*> many_;
  std::vector<CUtensorMap> many_maps_;
};

}  // namespace tw
