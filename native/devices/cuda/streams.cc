#include "streams.h"

#include <algorithm>

#include "device.h"

namespace tw {

Mark::Mark(const CudaDevice& device, CUstream stream) {
  check(cuda().create_event(&event_, kEventWithoutTiming), "make an event on", device);
  const CUresult code = cuda().record_event(event_, stream);
  if (code) cuda().release_event(event_);
  check(code, "record an event on", device);
}
Mark::~Mark() { cuda().release_event(event_); }
bool Mark::passed(bool wait) const {
  // A device that is lost does nothing any more: what fails has passed.
  return wait ? (cuda().synchronize_event(event_), true) : cuda().query_event(event_) != CUDA_ERROR_NOT_READY;
}

void order(const CudaDevice& device, CUstream first, const CudaDevice& other, CUstream then) {
  CUevent event = nullptr;
  CUresult code = CUDA_SUCCESS;
  {
    const Current current(device);
    check(cuda().create_event(&event, kEventWithoutTiming), "make an event on", device);
    code = cuda().record_event(event, first);
  }
  if (code == CUDA_SUCCESS) {
    const Current current(other);
    code = cuda().stream_waits(then, event, 0);
  }
  cuda().release_event(event);  // the driver keeps it as long as a stream waits for it
  check(code, "order the streams of", device);
}

bool Moment::passed(bool wait) {
  while (!marks_.empty() && marks_.back()->passed(wait)) marks_.pop_back();
  return marks_.empty();
}

Streams::Known* Streams::find(CUstream stream) {
  for (Known& k : known_)
    if (k.stream == stream) return &k;
  return nullptr;
}

CUstream Streams::create() {
  CUstream made = nullptr;
  check(cuda().create_stream(&made, kStreamNonBlocking), "make a stream on", device_);
  std::lock_guard<std::mutex> hold(lock_);
  known_.push_back({made, 0, true, false});
  return made;
}

void Streams::release(CUstream stream) {
  std::lock_guard<std::mutex> hold(lock_);
  if (Known* known = find(stream)) {
    known->ours = false;
    known->users = 0;
    forget_if_unused(stream);
  }
  check(cuda().release_stream(stream), "free a stream of", device_);
}

void Streams::set(CUstream before, CUstream stream) {
  std::lock_guard<std::mutex> hold(lock_);
  if (stream) {
    Known* known = find(stream);
    if (!known) known_.push_back({stream, 1, false, false});
    else ++known->users;
  }
  if (Known* known = before ? find(before) : nullptr) {
    --known->users;
    forget_if_unused(before);
  }
}

void Streams::forget_if_unused(CUstream stream) {
  Known* known = find(stream);
  if (known->ours || known->users > 0) return;
  if (!known->captured) ends_.push_back(std::make_shared<Mark>(device_, stream));
  known_.erase(known_.begin() + (known - known_.data()));
}

Moment Streams::now() {
  std::lock_guard<std::mutex> hold(lock_);
  ends_.erase(std::remove_if(ends_.begin(), ends_.end(), [](auto& mark) { return mark->passed(false); }), ends_.end());
  Moment moment;
  for (auto& mark : ends_) moment.add(mark);
  for (const Known& k : known_)
    if (!k.captured) moment.add(std::make_shared<Mark>(device_, k.stream));
  moment.add(std::make_shared<Mark>(device_, nullptr));
  return moment;
}

void Streams::set_captured(CUstream stream, bool captured) {
  std::lock_guard<std::mutex> hold(lock_);
  if (Known* known = find(stream)) known->captured = captured;
}

}  // namespace tw
