// The modes that decide what a plan is.
#pragma once

namespace heddle {

// Another thread may change a mode at any time. So they are read once for each plan, when its key is made, and handed
// on from there: compiling asks nobody else.
struct Modes {
  bool deterministic = false;  // heddle/deterministic.h
  bool relaxed = false;        // heddle/relaxed.h
  bool tf32 = false;           // heddle/precision.h
};

Modes modes_now();

}  // namespace heddle
