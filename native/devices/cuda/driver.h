// CUDA's driver: its functions, and what its codes mean.
#pragma once
#include "../common/driver.h"
#include "../common/errors.h"
#include "api.h"

namespace tw {

struct Cuda {
#define TW_DECLARE(field, symbol, parameters) CUresult(*field) parameters = nullptr;
  TW_CUDA_FUNCTIONS(TW_DECLARE)
  TW_CUDA_NEWER_FUNCTIONS(TW_DECLARE)
#undef TW_DECLARE
  int count = 0;    // of devices
  int version = 0;  // of the newest CUDA that the driver serves: 12040 is 12.4
  Driver library;

  Cuda();
};

// The driver, opened at the first call. Throws where there is none, where it is too old, or where it does not start.
const Cuda& cuda();

// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
std::string code_text(CUresult code);
// Whether the device is lost for this process: all that it is asked later fails with the same code.
bool is_fatal(CUresult code);

}  // namespace tw
