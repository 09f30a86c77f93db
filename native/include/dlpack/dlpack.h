/* DLPack under its own name; its types stand in tilewright/abi.h. The type of a device is a plain int32_t there. */
#ifndef TILEWRIGHT_DLPACK_H_
#define TILEWRIGHT_DLPACK_H_
#include "../tilewright/abi.h"

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1
#define DLPACK_DLL TW_EXPORT
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)
#endif
