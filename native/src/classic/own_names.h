// Functions of the C ABI under names that are the runtime's alone: a TVMFFI name may resolve to another runtime of the process.
#pragma once
#include <tilewright/abi.h>

extern "C" {
int TWFunctionCreate(void*, TVMFFISafeCallType, void (*)(void*), TVMFFIObjectHandle*);
int TWFunctionGetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle*);
int TWFunctionSetGlobal(const TVMFFIByteArray*, TVMFFIObjectHandle, int);
int TWErrorCreate(const TVMFFIByteArray*, const TVMFFIByteArray*, const TVMFFIByteArray*, TVMFFIObjectHandle, TVMFFIObjectHandle, TVMFFIObjectHandle*);
void TWRaise(TVMFFIObjectHandle);
void TWErrorTake(TVMFFIObjectHandle*);
int TWAnyOwn(const TVMFFIAny*, TVMFFIAny*);
int32_t TWTypeIndex(const TVMFFIByteArray*, int32_t, int32_t, int32_t, int32_t, int32_t);
const TVMFFITypeInfo* TWTypeInfo(int32_t);
int TWTensorEmptyInScope(int32_t, const int64_t*, const DLDataType*, const DLDevice*, const char*, TVMFFIObjectHandle*);
int TWTensorFromMemory(const DLTensor*, void*, void (*)(void*), TVMFFIObjectHandle*);
int TWTensorFromDLPack(DLManagedTensor*, int32_t, int32_t, TVMFFIObjectHandle*);
int TWTensorToDLPack(TVMFFIObjectHandle, DLManagedTensor**);
int TWTensorCopy(const DLTensor*, const DLTensor*);
int TWTypeKeyToIndex(const TVMFFIByteArray*, int32_t*);
int TWModLookupFromImports(TVMFFIObjectHandle, const char*, TVMFFIObjectHandle*);
}
