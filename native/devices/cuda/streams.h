// Streams of a device of CUDA, and moments in them.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"

namespace tw {

struct CudaDevice;

// A place in one stream.
class Mark {
 public:
  Mark(const CudaDevice& device, CUstream stream);
  Mark(const Mark&) = delete;
  ~Mark();
  bool passed(bool wait) const;

 private:
  CUevent event_ = nullptr;
};

// What `then` is given from now on waits for what `first` was given; they may be of two devices.
void order(const CudaDevice& device, CUstream first, const CudaDevice& other, CUstream then);

// Places in several streams.
class Moment {
 public:
  void add(std::shared_ptr<Mark> mark) { marks_.push_back(std::move(mark)); }
  // Whether all work before it is done; waits for that if it is told to.
  bool passed(bool wait);

 private:
  std::vector<std::shared_ptr<Mark>> marks_;
};

// The streams that are given work: the default one, those made here, and those of other libraries as long as a thread has set them.
class Streams {
 public:
  explicit Streams(CudaDevice& device) : device_(device) {}
  CUstream create();
  void release(CUstream stream);
  // This thread uses a stream from now on, in place of the one before.
  void set(CUstream before, CUstream stream);
  // After all that they were given so far.
  Moment now();
  // Work in a stream that is captured is not run: no moment is in it.
  void set_captured(CUstream stream, bool captured);

 private:
  struct Known {
    CUstream stream;
    int users;
    bool ours, captured;
  };
  Known* find(CUstream stream);
  void forget_if_unused(CUstream stream);

  CudaDevice& device_;
  std::mutex lock_;
  std::vector<Known> known_;
  std::vector<std::shared_ptr<Mark>> ends_;  // of streams that nobody uses any more
};

}  // namespace tw
