// The table by which programs and plug-ins in C++ find the runtime.
#include "own_names.h"

extern "C" {
const TWHostAPI* TWGetHostAPI() {
  static const TWHostAPI api = {TW_HOST_API_VERSION, TWFunctionCreate, TWFunctionGetGlobal, TWFunctionSetGlobal, TWErrorCreate, TWRaise, TWErrorTake,
                                TWAnyOwn, TWTypeIndex, TWTypeInfo, TWTensorEmptyInScope, TWTensorFromMemory, TWTensorFromDLPack, TWTensorToDLPack,
                                TWTensorCopy};
  return &api;
}
}
