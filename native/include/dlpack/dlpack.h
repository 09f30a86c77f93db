/* DLPack's types under the name by which generated code includes them. */
#ifndef TILEWRIGHT_DLPACK_H_
#define TILEWRIGHT_DLPACK_H_
#include "../tilewright/abi.h"
#endif
