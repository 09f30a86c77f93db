// Under the name by which generated code includes it.
#pragma once
#include <tvm/runtime/packed_func.h>
