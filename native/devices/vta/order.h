// In which order instructions start: the queues of the units and the tokens between them, without any data.
#pragma once
#include <string>
#include <vector>

#include "description.h"

namespace tw {

// The four dependency queues, by the flag that gives to them.
enum Queue : int { kLoadToCompute, kComputeToLoad, kComputeToStore, kStoreToCompute, kQueues };
extern const char* const kQueueNames[kQueues];

// The queue that a flag of a unit takes from or gives to; -1: the unit has no neighbour there.
int queue_of(Unit unit, FieldId flag);

// The numbers of instructions in the order of their starts: of those that can start, the first of the program. Throws RuntimeError, with the
// state of the queues, where a program waits forever, leaves tokens, has no finish, or goes on behind it.
std::vector<uint32_t> start_order(const Description& d, const std::vector<Instruction>& program);

}  // namespace tw
