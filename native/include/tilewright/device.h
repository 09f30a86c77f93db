/* Memory and streams of devices, under the names of classic TVM. 0 is success; what went wrong is the error of the thread. What devices
 * of a type can do stands in abi.h: TWDeviceAPI. */
#ifndef TILEWRIGHT_DEVICE_H_
#define TILEWRIGHT_DEVICE_H_

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* TVMStreamHandle;

TW_EXPORT int TVMDeviceAllocDataSpace(DLDevice device, size_t bytes, size_t alignment, DLDataType hint, void** out);
TW_EXPORT int TVMDeviceAllocDataSpaceWithScope(DLDevice device, int ndim, const int64_t* shape, DLDataType dtype,
                                               const char* scope, void** out);
TW_EXPORT int TVMDeviceFreeDataSpace(DLDevice device, void* data);
/* It may go on after this returns: TVMSynchronize waits. */
TW_EXPORT int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to, TVMStreamHandle stream);
TW_EXPORT int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out);
TW_EXPORT int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream);
/* What this thread gives the device from now on. */
TW_EXPORT int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream);
TW_EXPORT int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);
TW_EXPORT int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle first, TVMStreamHandle then);
/* Memory for the time of a call, which stays with the thread for the next one. */
TW_EXPORT void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code, int dtype_bits);
TW_EXPORT int TVMBackendFreeWorkspace(int device_type, int device_id, void* data);

#ifdef __cplusplus
}
#endif
#endif
