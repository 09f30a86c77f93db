// OpenCL's loader of drivers (ICD): its functions, and what its codes mean.
#pragma once
#include "../common/driver.h"
#include "../common/errors.h"
#include "api.h"

namespace tw {

struct OpenCL {
#define TW_DECLARE(field, symbol, result, parameters) result(TW_CL_CALL* field) parameters = nullptr;
  TW_CL_FUNCTIONS(TW_DECLARE)
  TW_CL_SHARED_FUNCTIONS(TW_DECLARE)
#undef TW_DECLARE
  Driver library;
  bool has_shared;  // whether all functions of shared memory are here

  OpenCL();
};

// The loader, opened at the first call. Throws where there is none, or an old one.
const OpenCL& cl();

std::string code_text(cl_int code);  // "CL_OUT_OF_RESOURCES (-5)"

}  // namespace tw
