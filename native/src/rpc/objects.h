// What the other side of a session has, as this process sees it: functions, modules, devices.
#pragma once
#include "../module.h"
#include "endpoint.h"

namespace tw::rpc {

Ref<FunctionObject> make_remote_function(std::shared_ptr<Endpoint> session, uint64_t handle);
Ref<ModuleObject> make_remote_module(std::shared_ptr<Endpoint> session, uint64_t handle);
// The handle behind a function or a module of another process; null where it is of this one.
const RemoteHandle* remote_handle(const TVMFFIAny& value);

}  // namespace tw::rpc
