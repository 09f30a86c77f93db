/* What compiled code and operators in C ask of the runtime, under the names of classic TVM. */
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_

#include "c_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function that the module of the code imports, or a global one; it stays the module's. `mod_node`: the value of the code's
 * `__tvm_module_ctx`, or null for global functions. */
TVM_DLL int TVMBackendGetFuncFromEnv(void* mod_node, const char* func_name, TVMFunctionHandle* out);
/* Makes a symbol known to the system library: the functions that were linked into the program. */
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char* name, void* ptr);

typedef struct {
  void* sync_handle; /* the runtime's own */
  int32_t num_task;
} TVMParallelGroupEnv;
typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* penv, void* cdata);
/* Calls the lambda for each task, on all threads of the pool; num_task 0: as many tasks as it has threads. */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task);
/* Tasks do not wait for each other here: an error where there is more than one. Use one launch for each part. */
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv);
/* Calls f(cdata) unless *handle says that it was called. */
TVM_DLL int TVMBackendRunOnce(void** handle, int (*f)(void*), void* cdata, int nbytes);

#ifdef __cplusplus
}
#endif
#endif
