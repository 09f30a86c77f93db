/* A model in plain C, and a function in C that the runtime calls:
 *   c_api FOLDER    (a folder that models.py wrote) */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#define CHECK(call)                                          \
  do {                                                       \
    if ((call) != 0) {                                       \
      fprintf(stderr, "%s: %s\n", #call, TVMGetLastError()); \
      return 1;                                              \
    }                                                        \
  } while (0)

/* Doubles a number; says what is wrong with anything else. */
static int twice(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret, void* resource) {
  TVMValue result;
  int code = kTVMArgInt;
  (void)resource;
  if (num_args != 1 || type_codes[0] != kTVMArgInt) {
    TVMAPISetLastError("TypeError: twice takes a whole number");
    return -1;
  }
  result.v_int64 = 2 * args[0].v_int64;
  return TVMCFuncSetReturn(ret, &result, &code, 1);
}

static int call_twice(void) {
  TVMFunctionHandle f;
  TVMValue arg, result;
  int code = kTVMArgInt, result_code;
  CHECK(TVMFuncCreateFromCFunc(twice, NULL, NULL, &f));
  CHECK(TVMFuncRegisterGlobal("example.twice", f, 0));
  CHECK(TVMFuncFree(f));
  CHECK(TVMFuncGetGlobal("example.twice", &f));
  arg.v_int64 = 21;
  CHECK(TVMFuncCall(f, &arg, &code, 1, &result, &result_code));
  printf("twice: %d\n", (int)result.v_int64);
  arg.v_str = "a text";
  code = kTVMStr;
  if (TVMFuncCall(f, &arg, &code, 1, &result, &result_code) != 0) printf("%s\n", TVMGetLastError());
  CHECK(TVMFuncFree(f));
  return 0;
}

int main(int argc, char** argv) {
  char path[4096];
  TVMModuleHandle library, executor;
  TVMFunctionHandle create, set_input, run, get_output;
  TVMArrayHandle x;
  TVMValue args[2], result;
  int codes[2], code, i;
  const int64_t shape[2] = {2, 2};
  float values[4] = {0, 10, 20, 30};

  snprintf(path, sizeof path, "%s/model.so", argc > 1 ? argv[1] : ".");
  CHECK(TVMModLoadFromFile(path, "so", &library));
  CHECK(TVMModGetFunction(library, "default", 0, &create));
  args[0].v_device.device_type = kDLCPU;
  args[0].v_device.device_id = 0;
  codes[0] = kDLDevice;
  CHECK(TVMFuncCall(create, args, codes, 1, &result, &code));
  executor = result.v_handle;
  CHECK(TVMModGetFunction(executor, "set_input", 0, &set_input));
  CHECK(TVMModGetFunction(executor, "run", 0, &run));
  CHECK(TVMModGetFunction(executor, "get_output", 0, &get_output));

  CHECK(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &x));
  CHECK(TVMArrayCopyFromBytes(x, values, sizeof values));
  args[0].v_str = "x";
  codes[0] = kTVMStr;
  args[1].v_handle = x;
  codes[1] = kTVMNDArrayHandle;
  CHECK(TVMFuncCall(set_input, args, codes, 2, &result, &code));
  CHECK(TVMFuncCall(run, NULL, NULL, 0, &result, &code));
  args[0].v_int64 = 0;
  codes[0] = kTVMArgInt;
  CHECK(TVMFuncCall(get_output, args, codes, 1, &result, &code));
  CHECK(TVMArrayCopyToBytes((TVMArrayHandle)result.v_handle, values, sizeof values));
  for (i = 0; i < 4; ++i) printf("%.0f ", values[i]);
  printf("in C\n");

  CHECK(TVMArrayFree((TVMArrayHandle)result.v_handle));
  CHECK(TVMArrayFree(x));
  CHECK(TVMFuncFree(create));
  CHECK(TVMFuncFree(set_input));
  CHECK(TVMFuncFree(run));
  CHECK(TVMFuncFree(get_output));
  CHECK(TVMModFree(executor));
  CHECK(TVMModFree(library));
  return call_twice();
}
