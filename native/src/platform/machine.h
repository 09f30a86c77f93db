// What the system says of the machine.
#pragma once
#include <cstdint>
#include <string>

namespace tw {

extern const char* const kSystemName;  // for messages
std::string processor_name();          // "" where the system does not tell, like 0 below
int64_t clock_rate();                  // the highest, in kHz
int64_t total_memory();                // in bytes
int64_t available_memory();

// Whether the CPU has a feature of LLVM's naming. unknown: nobody tells of it (ordering hints, for instance).
enum Answer { kPresent, kMissing, kUnknown };
// As far as a system must be asked, and not the CPU itself.
Answer system_feature(const std::string& name);
// Asks the system to keep tile registers (AMX) for this process: "", or why it does not.
std::string enable_amx();

}  // namespace tw
