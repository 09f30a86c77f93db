#include "../threads.h"

#include <windows.h>

#include <algorithm>

namespace tw {

// Windows numbers processors in groups of 64; a thread of this runtime stays in the group that it begins in.
int current_processor() {
  PROCESSOR_NUMBER at;
  GetCurrentProcessorNumberEx(&at);
  return at.Group == 0 ? at.Number : -1;
}
ThreadHandle this_thread() {
  thread_local HANDLE own = nullptr;
  if (!own) DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(), &own, 0, FALSE, DUPLICATE_SAME_ACCESS);
  return reinterpret_cast<ThreadHandle>(own);
}
bool get_processors(ThreadHandle thread, Processors* set) {
  GROUP_AFFINITY found;
  if (!GetThreadGroupAffinity(reinterpret_cast<HANDLE>(thread), &found) || found.Group != 0) return false;
  *set = {};
  set->words[0] = found.Mask;
  return true;
}
bool set_processors(ThreadHandle thread, const Processors& set) {
  GROUP_AFFINITY wanted{};
  wanted.Mask = static_cast<KAFFINITY>(set.words[0]);
  return wanted.Mask && SetThreadGroupAffinity(reinterpret_cast<HANDLE>(thread), &wanted, nullptr);
}
int allowed_processors() {
  DWORD_PTR own = 0, all = 0;
  Processors set;
  if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own) {
    set.words[0] = own;
    return set.count();
  }
  return std::max<int>(1, static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)));
}
// What a job object (a container) grants, in hundredths of a percent of all processors.
int usable_processors() {
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate{};
  const DWORD capped = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
  const int allowed = allowed_processors();
  if (!QueryInformationJobObject(nullptr, JobObjectCpuRateControlInformation, &rate, sizeof rate, nullptr) || (rate.ControlFlags & capped) != capped) return allowed;
  const auto all = static_cast<int64_t>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
  return std::max(1, std::min(allowed, static_cast<int>((all * rate.CpuRate + 9999) / 10000)));
}

}  // namespace tw
