// How often the calling thread has called operator new: the whole test program counts.
#pragma once

namespace heddle::testing {
long allocations();
}
