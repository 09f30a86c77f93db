/* The functions that a session can call: those of the program, its model as an executor, and measurements. A handle is the number of what it
 * stands for; only evaluators are made and freed. */
#include <string.h>

#include "tilewright/micro_rpc_functions.h"

enum { LIBRARY = 1, EXECUTOR = 2, GLOBALS = 16, EVALUATORS = 48, METHODS = 64, TENSORS = 128, FUNCTIONS = 4096 };

static const char* const globals[] = {"runtime.SystemLib", "tvm.rpc.server.ModuleGetFunction", "runtime.RPCTimeEvaluator", "tvm.aot_executor.create"};
enum { SYSTEM_LIB, MODULE_FUNCTION, TIME_EVALUATOR, CREATE_EXECUTOR, GLOBAL_COUNT };

static const char* const methods[] = {
    "run", "get_num_inputs", "get_num_outputs", "get_input", "get_output", "get_input_index", "get_input_name", "get_input_dtype", "is_param",
    "set_input", "set_input_zero_copy", "set_output_zero_copy",
};
enum { RUN, INPUTS, OUTPUTS, GET_INPUT, GET_OUTPUT, INDEX, NAME, DTYPE, IS_PARAM, SET_INPUT, INPUT_AT, OUTPUT_AT, METHOD_COUNT };

static struct evaluator {
  uint32_t function; /* 0: free */
  int64_t number, repeat, least_ms, most_tries;
} evaluators[TW_RPC_EVALUATORS];

void tw_rpc_forget(const struct tw_rpc_program* program) {
  const struct tw_model* model = program->model;
  int32_t k;
  memset(evaluators, 0, sizeof evaluators);
  /* Arrays that the session put in the places of inputs and outputs are gone. */
  for (k = 0; model != 0 && k < model->inputs + model->outputs; ++k) model->at[k] = model->values[k].data;
}

void tw_rpc_free(uint64_t handle) {
  if (handle >= EVALUATORS && handle < EVALUATORS + TW_RPC_EVALUATORS) evaluators[handle - EVALUATORS].function = 0;
}

static int32_t place(const char* const* names, int32_t count, const char* name) {
  int32_t k;
  for (k = 0; k < count; ++k) {
    if (tw_rpc_same(names[k], name)) return k;
  }
  return -1;
}

uint32_t tw_rpc_global(const char* name) {
  int32_t k = place(globals, GLOBAL_COUNT, name);
  return k < 0 ? 0 : GLOBALS + (uint32_t)k;
}

/* The handle of a function of a module; 0 where there is none. */
static uint32_t member(const struct tw_rpc_program* program, uint64_t module, const char* name) {
  uint32_t k;
  if (module == EXECUTOR) {
    int32_t method = place(methods, METHOD_COUNT, name);
    return method < 0 ? 0 : METHODS + (uint32_t)method;
  }
  for (k = 0; module == LIBRARY && k < program->function_count; ++k) {
    if (tw_rpc_same(program->functions[k].name, name)) return FUNCTIONS + k;
  }
  return 0;
}

static void returns(struct tw_rpc_result* result, int32_t type, int64_t value) {
  result->value.type = type;
  result->value.value.whole = value;
}

static void returns_text(struct tw_rpc_result* result, const char* text) {
  result->value.type = TW_TEXT;
  result->data = text;
  result->size = tw_rpc_length(text);
}

/* --- functions of the program */

static int32_t call_function(const struct tw_rpc_function* f, struct tw_any* args, int32_t count, struct tw_any* result) {
  void* addresses[TW_RPC_ARGUMENTS];
  int32_t k;
  if (f->packed != 0) {
    for (k = 0; k < count; ++k) {
      /* To its own code, the device is a CPU; functions and modules have no place here. An address says not how far it may be read. */
      if (args[k].type == TW_POINTER) return tw_rpc_fails("TypeError", "a function of a device takes no addresses; give it arrays");
      if (args[k].type == TW_FUNCTION || args[k].type == TW_MODULE) return tw_rpc_fails("TypeError", "a function of a device takes no functions");
    }
    return f->packed(0, args, count, result);
  }
  for (k = 0; k < count; ++k) {
    if (args[k].type != TW_TENSOR) return tw_rpc_fails("TypeError", "a kernel of a model takes arrays of the device alone");
    addresses[k] = ((struct tw_tensor*)args[k].value.pointer)->data;
  }
  return f->kernel(addresses);
}

/* --- the model */

static int32_t value_of(const struct tw_model* model, const struct tw_any* key, int32_t outputs) {
  int32_t first = outputs ? model->inputs : 0, count = outputs ? model->outputs : model->inputs, k;
  if (key->type == TW_INT || key->type == TW_BOOL) {
    return key->value.whole >= 0 && key->value.whole < count ? first + (int32_t)key->value.whole : -1;
  }
  for (k = first; key->type == TW_TEXT && k < first + count; ++k) {
    if (tw_rpc_same(model->values[k].name, (const char*)key->value.pointer)) return k;
  }
  return -1;
}

static size_t size_of(const struct tw_model_value* v) { return tw_rpc_bytes(v->shape, v->rank, (uint32_t)v->bits * v->lanes); }

static int32_t same_kind(const struct tw_model_value* v, const struct tw_tensor* t) {
  int32_t k;
  if (t->rank != v->rank || t->code != v->code || t->bits != v->bits || t->lanes != v->lanes) return 0;
  for (k = 0; k < v->rank; ++k) {
    if (t->shape[k] != v->shape[k]) return 0;
  }
  return 1;
}

static int32_t method(const struct tw_model* model, uint32_t which, struct tw_any* args, int32_t count, struct tw_rpc_result* result) {
  const struct tw_model_value* v;
  const struct tw_tensor* t = 0;
  int32_t k = -1;
  switch (which) {
    case RUN: return model->run(model->at);
    case INPUTS: returns(result, TW_INT, model->inputs); return TW_OK;
    case OUTPUTS: returns(result, TW_INT, model->outputs); return TW_OK;
    default: break;
  }
  if (count > 0) k = value_of(model, &args[0], which == GET_OUTPUT || which == OUTPUT_AT);
  if (which == INDEX) {
    returns(result, TW_INT, k);
    return TW_OK;
  }
  if (k < 0) return tw_rpc_fails("ValueError", "the model has no input or output of this name or number");
  v = &model->values[k];
  if (count > 1 && args[1].type == TW_TENSOR) t = (const struct tw_tensor*)args[1].value.pointer;
  if (t != 0 && !same_kind(v, t)) return tw_rpc_fails("ValueError", "an array with another shape or type than that of the model");
  switch (which) {
    case NAME: returns_text(result, v->name); return TW_OK;
    case DTYPE: returns_text(result, v->dtype); return TW_OK;
    case IS_PARAM: returns(result, TW_BOOL, 0); return TW_OK;
    case GET_INPUT: case GET_OUTPUT:
      if (t != 0) memmove(t->data, model->at[k], size_of(v));
      result->tensor.data = model->at[k];
      result->tensor.rank = v->rank;
      result->tensor.code = v->code;
      result->tensor.bits = v->bits;
      result->tensor.lanes = v->lanes;
      result->tensor.shape = (int64_t*)(uintptr_t)v->shape;
      returns(result, TW_TENSOR_OBJECT, TENSORS + k);
      return TW_OK;
    default: break;
  }
  if (t == 0) return tw_rpc_fails("TypeError", "an array of the device is needed");
  if (which == SET_INPUT) memmove(model->at[k], t->data, size_of(v));
  else model->at[k] = t->data;
  return TW_OK;
}

/* --- measurements */

static int32_t run_once(const struct tw_rpc_program* program, uint32_t handle, struct tw_any* args, int32_t count) {
  struct tw_any result = {TW_NONE, 0, {0}};
  if (handle == METHODS + RUN) return program->model->run(program->model->at);
  return call_function(&program->functions[handle - FUNCTIONS], args, count, &result);
}

/* Seconds of a call, `repeat` times, as doubles. */
static int32_t measure(const struct tw_rpc_program* program, const struct evaluator* e, struct tw_any* args, int32_t count, struct tw_rpc_result* result) {
  double hertz = (double)tw_platform_ticks_per_second();
  double* found = (double*)tw_rpc_take_memory((size_t)e->repeat * sizeof(double));
  int64_t number = e->number, r, n, tries;
  result->owned = found;
  if (found == 0) return tw_rpc_fails("MemoryError", "no room for so many results");
  for (r = 0; r < e->repeat; ++r) {
    double seconds = 0;
    for (tries = 0; tries <= e->most_tries; ++tries) {
      uint64_t begun = tw_platform_ticks();
      for (n = 0; n < number; ++n) {
        int32_t code = run_once(program, e->function, args, count);
        if (code != TW_OK) return code;
      }
      seconds = (double)(tw_platform_ticks() - begun) / hertz;
      if (seconds * 1000 >= (double)e->least_ms) break;
      number = number > INT32_MAX / 2 ? number : 2 * number;
    }
    found[r] = seconds / (double)number;
  }
  result->value.type = TW_BYTES;
  result->data = found;
  result->size = (size_t)e->repeat * sizeof(double);
  return TW_OK;
}

/* (module, name, device type, device number, number, repeat, min_repeat_ms, limit_zero_time_iterations, ...) */
static int32_t make_evaluator(const struct tw_rpc_program* program, struct tw_any* args, int32_t count, struct tw_rpc_result* result) {
  uint32_t k, function;
  if (count < 12 || args[0].type != TW_MODULE || args[1].type != TW_TEXT) return tw_rpc_fails("TypeError", "a measurement takes a module, a name and ten more");
  function = member(program, (uint64_t)args[0].value.whole, (const char*)args[1].value.pointer);
  if (function == 0 || (function >= METHODS && function < FUNCTIONS && function != METHODS + RUN)) {
    return tw_rpc_fails("AttributeError", "there is no function of this name to measure");
  }
  if (args[4].value.whole < 1 || args[5].value.whole < 1 || args[5].value.whole > (int64_t)(INT32_MAX / sizeof(double))) {
    return tw_rpc_fails("ValueError", "number and repeat must be 1 at least, and repeat so few that its results fit");
  }
  if (args[10].value.whole != 0) return tw_rpc_fails("ValueError", "cache_flush_bytes is for machines with caches");
  if (args[11].type != TW_TEXT || *(const char*)args[11].value.pointer != 0) return tw_rpc_fails("ValueError", "f_preproc: this device has no such functions");
  for (k = 0; k < TW_RPC_EVALUATORS; ++k) {
    struct evaluator* e = &evaluators[k];
    if (e->function != 0) continue;
    e->function = function;
    e->number = args[4].value.whole;
    e->repeat = args[5].value.whole;
    e->least_ms = args[6].value.whole;
    e->most_tries = args[7].value.whole;
    returns(result, TW_FUNCTION, (int64_t)(EVALUATORS + k));
    return TW_OK;
  }
  return tw_rpc_fails("MemoryError", "too many measurements at one time: drop those that are done");
}

/* --- calls */

static int32_t call_global(const struct tw_rpc_program* program, uint32_t which, struct tw_any* args, int32_t count, struct tw_rpc_result* result) {
  switch (which) {
    case SYSTEM_LIB: returns(result, TW_MODULE, LIBRARY); return TW_OK;
    case MODULE_FUNCTION: {
      uint32_t found = 0;
      if (count < 2 || args[0].type != TW_MODULE || args[1].type != TW_TEXT) return tw_rpc_fails("TypeError", "a module and a name are needed");
      found = member(program, (uint64_t)args[0].value.whole, (const char*)args[1].value.pointer);
      if (found != 0) returns(result, TW_FUNCTION, (int64_t)found);
      return TW_OK;
    }
    case TIME_EVALUATOR: return make_evaluator(program, args, count, result);
    default:
      if (program->model == 0) return tw_rpc_fails("AttributeError", "the firmware has no model that was compiled ahead of time");
      if (count > 2 && args[2].type == TW_TEXT && !tw_rpc_same((const char*)args[2].value.pointer, program->model->name) &&
          !tw_rpc_same((const char*)args[2].value.pointer, "default"))
        return tw_rpc_fails("AttributeError", "the firmware has no model of this name");
      returns(result, TW_MODULE, EXECUTOR);
      return TW_OK;
  }
}

int32_t tw_rpc_call(const struct tw_rpc_program* program, uint64_t number, struct tw_any* args, int32_t count, struct tw_rpc_result* result) {
  uint32_t handle = number > UINT32_MAX ? 0 : (uint32_t)number;
  if (handle >= GLOBALS && handle < GLOBALS + GLOBAL_COUNT) return call_global(program, handle - GLOBALS, args, count, result);
  if (handle >= METHODS && handle < METHODS + METHOD_COUNT && program->model != 0) return method(program->model, handle - METHODS, args, count, result);
  if (handle >= EVALUATORS && handle < EVALUATORS + TW_RPC_EVALUATORS && evaluators[handle - EVALUATORS].function != 0) {
    return measure(program, &evaluators[handle - EVALUATORS], args, count, result);
  }
  if (handle >= FUNCTIONS && handle - FUNCTIONS < program->function_count) {
    int32_t code = call_function(&program->functions[handle - FUNCTIONS], args, count, &result->value);
    if (code == TW_OK && result->value.type > TW_DEVICE) return tw_rpc_fails("TypeError", "the function returned an object, which cannot be sent");
    return code;
  }
  return tw_rpc_fails("RPCError", "a function that this device does not have");
}
