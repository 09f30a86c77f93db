/* Under the name by which generated code includes it. */
#include <tvm/runtime/c_runtime_api.h>
