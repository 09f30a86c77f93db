// Functions of the C ABI under names that are the runtime's alone: a TVMFFI name may resolve to another runtime of the process.
#pragma once
#include <tilewright/abi.h>

extern "C" {
TW_EXPORT int TWFunctionCreate(void*, TVMFFISafeCallType, void (*)(void*), TVMFFIObjectHandle*);
TW_EXPORT int TWFunctionGetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle*);
TW_EXPORT int TWFunctionSetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle, int);
TW_EXPORT int TWErrorCreate(const TVMFFIByteArray*, const TVMFFIByteArray*, const TVMFFIByteArray*, TVMFFIObjectHandle, TVMFFIObjectHandle, TVMFFIObjectHandle*);
TW_EXPORT void TWRaise(TVMFFIObjectHandle);
TW_EXPORT void TWErrorTake(TVMFFIObjectHandle*);
TW_EXPORT int TWAnyOwn(const TVMFFIAny*, TVMFFIAny*);
int32_t TWTypeIndex(const TVMFFIByteArray*, int32_t, int32_t, int32_t, int32_t, int32_t);
const TVMFFITypeInfo* TWTypeInfo(int32_t);
TW_EXPORT int TWTensorEmptyInScope(int32_t, const int64_t*, const DLDataType*, const DLDevice*, const char*, TVMFFIObjectHandle*);
TW_EXPORT int TWTensorFromMemory(const DLTensor*, void*, void (*)(void*), TVMFFIObjectHandle*);
TW_EXPORT int TWTensorFromDLPack(DLManagedTensor*, int32_t, int32_t, TVMFFIObjectHandle*);
TW_EXPORT int TWTensorToDLPack(TVMFFIObjectHandle, DLManagedTensor**);
TW_EXPORT int TWTensorCopy(const DLTensor*, const DLTensor*);
int TWTypeKeyToIndex(const TVMFFIByteArray*, int32_t*);
int TWModLookupFromImports(TVMFFIObjectHandle, const char*, TVMFFIObjectHandle*);
}
