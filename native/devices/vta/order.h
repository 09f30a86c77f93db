// In which order instructions start: the queues of the units and the tokens between them, without any data.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "description.h"

namespace tw {

// The four dependency queues, by the flag that gives to them.
enum Queue : int { kLoadToCompute, kComputeToLoad, kComputeToStore, kStoreToCompute, kQueues };
extern const char* const kQueueNames[kQueues];

// The queue that a flag of a unit takes from or gives to; -1: the unit has no neighbour there.
int queue_of(Unit unit, FieldId flag);

// What tokens say of a program, whatever the times of its units are.
struct Order {
  std::vector<uint32_t> starts;   // numbers of instructions in the order of their starts: of those that can start, the first of the program
  std::vector<uint32_t> numbers;  // by instruction, how many its unit has begun with it
  std::vector<std::array<uint32_t, kUnits>> done;  // by instruction, how many of each unit are done for certain when it starts
};

// Throws RuntimeError, with the state of the queues, where a program waits forever or leaves tokens; ValueError where it has no finish, or goes
// on behind it.
Order order_of(const Description& d, const std::vector<Instruction>& program);

}  // namespace tw
