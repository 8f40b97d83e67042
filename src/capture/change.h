// What is no tensor, and changes under captured functions that may close over it.
#pragma once

namespace heddle {

// While one of these lives, such a thing changes bit by bit. All captured functions record again after it; that a
// recording made meanwhile differs from the one before is no mistake.
class ChangeForRecordings {
 public:
  ChangeForRecordings();
  ~ChangeForRecordings();
  ChangeForRecordings(const ChangeForRecordings&) = delete;
  ChangeForRecordings& operator=(const ChangeForRecordings&) = delete;
};

}  // namespace heddle
